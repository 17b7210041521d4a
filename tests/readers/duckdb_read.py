"""Reads one table with DuckDB's Iceberg extension and prints its rows, or the error, as JSON.

Usage: duckdb_read.py URI NAMESPACE.TABLE
"""

import importlib.metadata
import json
import sys

import duckdb

uri, table = sys.argv[1], sys.argv[2]
connection = duckdb.connect()
for name in ("httpfs", "avro", "iceberg"):
    files = importlib.metadata.distribution(f"duckdb-extension-{name}").files
    [extension] = [file.locate() for file in files if file.name.endswith(".duckdb_extension")]
    connection.execute(f"LOAD '{extension}'")
try:
    connection.execute(f"ATTACH '' AS c (TYPE iceberg, ENDPOINT '{uri}', AUTHORIZATION_TYPE 'none')")
    rows = connection.execute(f"SELECT * FROM c.{table} ORDER BY 1").fetchall()
    print(json.dumps({"rows": rows}))
except duckdb.Error as error:
    print(json.dumps({"error": str(error)}))
