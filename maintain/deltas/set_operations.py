"""DISTINCT, and UNION, EXCEPT and INTERSECT [ALL], of inputs with the same fields."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from hornbeam_server.maintain.deltas.algebra import Aggregate, Call, Map, Node, Partition, Union
from hornbeam_server.maintain.deltas.expressions import column
from hornbeam_server.maintain.deltas.operators import check_keys, filtered, mapped, renamed
from hornbeam_server.maintain.deltas.relations import Field, columns_sql
from hornbeam_server.query.dialect.aggregates import Function
from hornbeam_server.query.dialect.duckdb_types import quoted
from hornbeam_server.schema.types import ColumnType, Kind

_LEFT, _RIGHT = (
    Field(f"side.{side}", "INTEGER", ColumnType(Kind.INTEGER)) for side in ("left", "right")
)
"""1 in the rows of a side, and NULL in those of the other."""

_BIGINT = ColumnType(Kind.BIGINT)


def distinct_rows(node: Node) -> Aggregate:
    check_keys(node.fields, "DISTINCT")
    return Aggregate(renamed(node, {f.name: f.name for f in node.fields}), node.fields, (), ())


def combined(node: exp.SetOperation, parts: Sequence[Map]) -> Node:
    """The operator of a set operation. The left input is first in `parts`."""
    distinct = bool(node.args.get("distinct"))
    if isinstance(node, exp.Union):
        union = Union(tuple(parts), parts[0].fields)
        return distinct_rows(union) if distinct else union
    word = "EXCEPT" if isinstance(node, exp.Except) else "INTERSECT"
    check_keys(parts[0].fields, word)
    return _counted(word, parts) if distinct else _of_copies(word, parts)


def _counted(word: str, parts: Sequence[Map]) -> Node:
    """Distinct rows by how often each side has them."""
    rows = _with_sides(parts)
    calls = tuple(
        Call(Function.COUNT, side.name, Field(f"{side.name} rows", "BIGINT", _BIGINT, False))
        for side in (_LEFT, _RIGHT)
    )
    counted = Aggregate(rows, parts[0].fields, calls, ())
    left, right = (column(call.field.name) for call in calls)
    zero = exp.Literal.number(0)
    compare = exp.EQ if word == "EXCEPT" else exp.GT
    both = [exp.GT(this=left, expression=zero), compare(this=right, expression=zero.copy())]
    return renamed(filtered(counted, both), {f.name: f.name for f in parts[0].fields})


def _of_copies(word: str, parts: Sequence[Map]) -> Partition:
    """Rows with their copies, computed again for equal rows."""
    rows, fields = _with_sides(parts), parts[0].fields
    sides = (
        f"SELECT {columns_sql(fields)} FROM input WHERE {quoted(side.name)} = 1"
        for side in (_LEFT, _RIGHT)
    )
    sql, by = f" {word} ALL ".join(sides), tuple(field.name for field in fields)
    return Partition(rows, by, sql, fields, None, f"{word} ALL")


def _with_sides(parts: Sequence[Map]) -> Map:
    """The rows of both inputs, with the side that each is of."""
    fields = (*parts[0].fields, _LEFT, _RIGHT)
    sided = (
        mapped(part, [
            *((field, quoted(field.name), field.name) for field in part.fields),
            *((f, "1" if f is side else f"CAST(NULL AS {f.duck})", None) for f in (_LEFT, _RIGHT)),
        ])
        for part, side in zip(parts, (_LEFT, _RIGHT), strict=True)
    )  # fmt: skip
    union = Union(tuple(sided), fields)
    return renamed(union, {field.name: field.name for field in fields})
