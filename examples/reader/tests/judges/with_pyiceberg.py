"""Evaluates wire forms with PyIceberg. Reads one JSON object a line and writes for each one line. For `fields`, `rows` and
`filters`: for each filter, which rows it keeps; values are turned into what PyIceberg's readers hand to its evaluator. For
`metadata`, the path of a table's metadata, and `filters`: for each filter, the numbers of the rows that a scan shows,
which has the columns `selected`.
"""

import json
import math
import struct
import sys
from decimal import Decimal

from pyiceberg.expressions import (
    AlwaysFalse, AlwaysTrue, And, EqualTo, GreaterThan, GreaterThanOrEqual, In, IsNaN, IsNull, LessThan, LessThanOrEqual,
    NotEqualTo, NotIn, NotNaN, NotNull, Or,
)
from pyiceberg.expressions.literals import literal
from pyiceberg.expressions.visitors import expression_evaluator
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.typedef import Record
from pyiceberg.types import NestedField
from pyiceberg.utils.datetime import date_str_to_days, time_str_to_micros, timestamp_to_micros

UNARY = {"is-null": IsNull, "not-null": NotNull, "is-nan": IsNaN, "not-nan": NotNaN}
COMPARISONS = {"lt": LessThan, "lt-eq": LessThanOrEqual, "gt": GreaterThan, "gt-eq": GreaterThanOrEqual, "eq": EqualTo,
               "not-eq": NotEqualTo}
SETS = {"in": In, "not-in": NotIn}


def value(json_value, data_type):
    if json_value is None:
        return None
    if data_type in ("float", "double"):
        number = float(json_value)
        # A float comes out of Parquet as the double that it widens to.
        finite = data_type == "float" and math.isfinite(number)
        return struct.unpack("<f", struct.pack("<f", number))[0] if finite else number
    if data_type.startswith("decimal"):
        return Decimal(json_value)
    converted = {"date": date_str_to_days, "time": time_str_to_micros, "timestamp": timestamp_to_micros}
    return converted.get(data_type, lambda same: same)(json_value)


def expression(wire, names):
    if isinstance(wire, bool):
        return AlwaysTrue() if wire else AlwaysFalse()
    kind = wire["type"]
    if kind in ("and", "or"):
        return (And if kind == "and" else Or)(expression(wire["left"], names), expression(wire["right"], names))
    if kind in UNARY:
        return UNARY[kind](names[wire["child"]["id"]])
    if kind in COMPARISONS:
        right = wire["right"]
        return COMPARISONS[kind](names[wire["left"]["id"]], constant(right["value"], right["data-type"]))
    values = wire["values"]
    return SETS[kind](names[wire["child"]["id"]], {constant(v, values["data-type"]) for v in values["values"]})


def constant(json_value, data_type):
    """A literal of PyIceberg, which it types by the column itself. Its texts stand for dates and times."""
    if data_type.startswith("decimal"):
        return literal(Decimal(json_value))
    return literal(value(json_value, data_type) if data_type in ("float", "double") else json_value)


def evaluated(case):
    """Which rows the evaluator of expressions keeps."""
    schema = Schema(*(NestedField(f["id"], f["name"], f["type"], required=f["required"]) for f in case["fields"]))
    names = {f["id"]: f["name"] for f in case["fields"]}
    rows = [Record(*(value(v, f["type"]) for v, f in zip(row, case["fields"]))) for row in case["rows"]]
    answers = []
    for wire in case["filters"]:
        keeps = expression_evaluator(schema, expression(wire, names), case_sensitive=True)
        answers.append([bool(keeps(row)) for row in rows])
    return answers


def scanned(case):
    """The numbers of the rows that a scan shows, or why it fails."""
    table = StaticTable.from_metadata(case["metadata"])
    names = {f.field_id: f.name for f in table.schema().fields}
    selected = tuple(case.get("selected", ["row"]))
    answers = []
    for wire in case["filters"]:
        try:
            rows = table.scan(row_filter=expression(wire, names), selected_fields=selected).to_arrow()
            answers.append(rows["row"].to_pylist())
        except Exception as error:
            answers.append(f"{type(error).__name__}: {error}")
    return answers


for line in sys.stdin:
    case = json.loads(line)
    print(json.dumps(scanned(case) if "metadata" in case else evaluated(case)))
