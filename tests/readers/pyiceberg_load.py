"""Loads one table with PyIceberg and prints what came of it, as JSON.

Usage: pyiceberg_load.py URI NAMESPACE.TABLE HEADERS_JSON
"""

import json
import sys

from pyiceberg.catalog.rest import RestCatalog

uri, table, headers = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
catalog = RestCatalog("c", uri=uri, **{f"header.{name}": value for name, value in headers.items()})
namespace, name = table.split(".")
raw = catalog._session.get(f"{uri}/v1/namespaces/{namespace}/tables/{name}")
result = {"status": raw.status_code, "raw": raw.text, "etag": raw.headers.get("etag")}
try:
    loaded = catalog.load_table(table)
    result["columns"] = [field.name for field in loaded.schema().fields]
    result["metadata_location"] = loaded.metadata_location
except Exception as error:
    result["error"] = f"{type(error).__name__}: {error}"
print(json.dumps(result))
