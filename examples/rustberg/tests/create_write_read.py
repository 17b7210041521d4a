"""Creates, writes and reads `sales.orders`: server address, then the keys of etl, alice and bob."""

import sys

import pyarrow as pa
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import ForbiddenError, RESTError
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

server, etl_key, alice_key, bob_key = sys.argv[1:]


# A gateway in front cannot see whose key it is, so the clients say it; a real one has that from a proxy or a token.
USERS = {etl_key: "etl", alice_key: "alice", bob_key: "bob"}


def catalog(key, **properties):
    return RestCatalog("lake", uri=server, token=key, **{"header.X-Forwarded-User": USERS[key]}, **properties)


def declaring(key):
    return catalog(key, **{"header.X-Iceberg-Client-Capabilities": "read-restrictions"})


def refused(load):
    """The message of the error that a load must end with."""
    try:
        load()
    except (ForbiddenError, RESTError) as error:
        return str(error)
    raise AssertionError("the load was not refused")


SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "region", StringType(), required=False),
    NestedField(3, "owner", StringType(), required=False),
    NestedField(4, "phone", StringType(), required=False),
    NestedField(5, "card", StringType(), required=False),
)
ROWS = [
    {"id": 1, "region": "US", "owner": "alice", "phone": "555-0100", "card": "4111"},
    {"id": 2, "region": "EU", "owner": "bob", "phone": "555-0101", "card": "4222"},
]

# The job that writes is exempt, and declares nothing.
etl = catalog(etl_key)
etl.create_namespace("sales")
table = etl.create_table("sales.orders", schema=SCHEMA)
for row in ROWS:
    table.append(pa.Table.from_pylist([row], schema=table.schema().as_arrow()))
read = etl.load_table("sales.orders").scan().to_arrow().sort_by("id").to_pylist()
assert read == ROWS, read
assert etl.list_tables("sales") == [("sales", "orders")]

# A client that does not say that it enforces gets no table.
message = refused(lambda: catalog(alice_key).load_table("sales.orders"))
assert "[capability-required]" in message, message
# One that does gets the table with the member in it, and this client must not be given credentials for the data.
assert declaring(alice_key).load_table("sales.orders").schema() == SCHEMA
assert declaring(bob_key).load_table("sales.orders").schema() == SCHEMA

# A table without policies is everybody's.
etl.create_namespace("reference")
etl.create_table("reference.countries", schema=SCHEMA)
assert catalog(alice_key).load_table("reference.countries").schema() == SCHEMA
