"""Creates a table with PyIceberg, appends rows and reads them back; prints the rows as JSON.

Usage: pyiceberg_write.py URI NAMESPACE.TABLE LOCATION HEADERS_JSON
"""

import json
import sys

import pyarrow
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

uri, table, location, headers = sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
catalog = RestCatalog("c", uri=uri, **{f"header.{name}": value for name, value in headers.items()})
catalog.create_namespace_if_not_exists(table.split(".")[0])
schema = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "word", StringType(), required=False),
)
created = catalog.create_table(table, schema=schema, location=location)
created.append(pyarrow.table({"id": [1, 2, 3], "word": ["a", "b", None]}))
rows = catalog.load_table(table).scan().to_arrow().sort_by("id").to_pylist()
print(json.dumps(rows))
