"""PyIceberg against a gateway in front of the embedded catalog: gateway.py URL FOLDER"""

import sys

import pyarrow as pa
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.types import LongType

url, folder = sys.argv[1:]


def catalog(**headers):
    properties = {f"header.{name.replace('_', '-')}": value for name, value in headers.items()}
    return RestCatalog("embedded", uri=url, **properties)


def refused(call, *words):
    try:
        call()
    except Exception as error:
        assert all(word in str(error) for word in words), error
    else:
        raise AssertionError(f"not refused: {words}")


capable = catalog(x_forwarded_user="alice", x_iceberg_client_capabilities="read-restrictions")
assert ("sales", "orders") in capable.list_tables("sales")
assert [field.name for field in capable.load_table("sales.orders").schema().fields][:3] == ["order_id", "region", "owner"]
assert len(capable.load_table("sales.orders").snapshots()) == 2

# A client that declares nothing may not load what is governed for its user, and may load everything else.
plain = catalog(x_forwarded_user="alice")
refused(lambda: plain.load_table("sales.orders"), "capability-required")
assert plain.load_table("reference.countries").scan().to_arrow().num_rows == 0

# A whole life of a table: created, appended to, changed, deleted from, renamed, dropped, registered again.
rows = pa.table({"a": [1, 2, 3], "b": ["x", "y", None]})
table = plain.create_table("sandbox.t", schema=rows.schema, location=f"file://{folder}/t")
table.append(rows)
table.append(rows)
stale = plain.load_table("sandbox.t")
with table.update_schema() as update:
    update.add_column("c", LongType())
with table.transaction() as transaction:
    transaction.set_properties(owner="me")
table.delete("a = 2")
read = plain.load_table("sandbox.t")
assert read.scan().to_arrow().num_rows == 4
assert [field.field_id for field in read.schema().fields] == [1, 2, 3]
assert read.properties["owner"] == "me"
# A writer on an old snapshot is refused, and tries again on the new one.
stale.append(rows)
assert plain.load_table("sandbox.t").scan().to_arrow().num_rows == 7

with plain.create_table_transaction("sandbox.staged", rows.schema, location=f"file://{folder}/staged") as staged:
    staged.append(rows)
assert plain.load_table("sandbox.staged").scan().to_arrow().num_rows == 3

plain.rename_table("sandbox.t", "sandbox.renamed")
location = plain.load_table("sandbox.renamed").metadata_location
plain.drop_table("sandbox.renamed")
refused(lambda: plain.load_table("sandbox.renamed"), "sandbox.renamed")
assert plain.register_table("sandbox.again", location).scan().to_arrow().num_rows == 7
