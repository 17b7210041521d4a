"""Creates, writes and reads `orders` through a gateway in front of somebody else's catalog, and prints what came of it as JSON.

Usage: foreign.py URI NAMESPACE PROPERTIES_JSON
"""

import json
import sys

import pyarrow as pa
from pyiceberg.catalog.rest import RestCatalog

uri, namespace, properties = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
name = f"{namespace}.orders"
rows = [
    {"id": 1, "region": "US", "owner": "alice", "phone": "555-0100"},
    {"id": 2, "region": "EU", "owner": "bob", "phone": None},
]


def catalog(user, **headers):
    headers = {"x-forwarded-user": user} | headers
    return RestCatalog("c", uri=uri, **properties, **{f"header.{header}": value for header, value in headers.items()})


def load(catalog, **headers):
    """The raw answer to loadTable, with the credential that this client has."""
    path = catalog.url("namespaces/{namespace}/tables/{table}", namespace=namespace, table="orders")
    answer = catalog._session.get(path, headers=headers)
    return {"status": answer.status_code, "etag": answer.headers.get("etag"), "body": answer.text}


capable = {"x-iceberg-client-capabilities": "read-restrictions"}
etl, alice = catalog("etl"), catalog("alice", **capable)

etl.create_namespace_if_not_exists(namespace)
schema = pa.schema([("id", pa.int64()), ("region", pa.string()), ("owner", pa.string()), ("phone", pa.string())])
table = etl.create_table(name, schema=schema)
for row in rows:
    table.append(pa.Table.from_pylist([row], schema=schema))
assert etl.load_table(name).scan().to_arrow().sort_by("id").to_pylist() == rows
assert (namespace, "orders") in etl.list_tables(namespace)

first = load(alice)
result = {
    "fields": {field.name: field.field_id for field in alice.load_table(name).schema().fields},
    "exempt": load(etl),
    "undeclared": load(catalog("alice")),
    "auditor": first,
    "again": load(alice, **{"If-None-Match": first["etag"]}),
    "owner": load(catalog("bob", **capable)),
    "nobody": load(catalog("", **capable)),
}
etl.create_table(f"{namespace}.countries", schema=schema)
result["ungoverned"] = len(catalog("alice").load_table(f"{namespace}.countries").schema().fields)
print(json.dumps(result))
