"""Constructors of operators: derive the columns they pass on and those that identify their rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from hornbeam_server.maintain.deltas.algebra import Bound, JoinKind, Map, Node
from hornbeam_server.maintain.deltas.expressions import all_of, plain, text
from hornbeam_server.maintain.deltas.relations import Field, Fields
from hornbeam_server.query.dialect.duckdb_types import quoted
from hornbeam_server.query.dialect.grammar import at
from hornbeam_server.schema.errors import Unsupported, capitalised
from hornbeam_server.schema.types import UNORDERED, Kind

NUMBERS = (Kind.INTEGER, Kind.BIGINT, Kind.DECIMAL)
TIMES = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ})
"""Kinds that compare with each other: a date as its midnight, in UTC."""


def check_keys(fields: Fields, what: str) -> None:
    """Raise Unsupported for columns that cannot be part of a key, or whose equal values may look
    different."""
    for field in fields:
        if field.type.kind is Kind.INTERVAL:
            raise Unsupported(
                f"{capitalised(what)} cannot use the INTERVAL column {field.name}: equal intervals"
                " may have other months, days and seconds.",
                cure="CAST it to TEXT, or write extract(epoch FROM …).",
            )
        if field.type.kind in UNORDERED:
            raise Unsupported(
                f"{capitalised(what)} cannot use the {field.type.sql()} column {field.name}.",
                cure="CAST it to TEXT.",
            )


def check_null_safe(
    part: exp.Expr, pairs: Sequence[exp.Expr], fields: Mapping[str, Field], sql: str
) -> None:
    """Raise Unsupported unless NOT IN is an anti join: a NULL on either side of `pairs` could make
    NOT IN unknown."""
    for side in (side for pair in pairs for side in (pair.this, pair.expression)):
        name = plain(side)
        if name is None or fields[name].nullable:
            raise Unsupported(
                f"A value of NOT IN may be NULL ({text(side)}){at(part, sql)}.",
                cure="Write NOT EXISTS (SELECT … WHERE inner = outer).",
            )


def pair_of(part: exp.Expr, left: Node, right: Node) -> tuple[str, str] | None:
    """The left and the right column that `part` equates. None if `part` is not such an equality,
    or if the columns' types do not allow look-ups by each other's values. The rows of a key meet by
    its bytes, and those of equal intervals differ."""
    if not isinstance(part, exp.EQ):
        return None
    a, b = plain(part.this), plain(part.expression)
    if a in right.field and b in left.field:
        a, b = b, a
    if a not in left.field or b not in right.field:
        return None
    assert a is not None
    assert b is not None
    kinds = {left.field[a].type.kind, right.field[b].type.kind}
    alike = len(kinds) == 1 and Kind.INTERVAL not in kinds
    return (a, b) if alike or kinds <= set(NUMBERS) else None


def bounds_of(condition: exp.Expr, left: Node, right: Node) -> tuple[Bound, ...]:
    """The bounds that `condition` implies: `bound_of`, and two of BETWEEN."""
    parts = [condition := condition.unnest()]
    if isinstance(condition, exp.Between) and not condition.args.get("symmetric"):
        parts = [*limits(condition.this, condition.args["low"], condition.args["high"])]
    found = (bound_of(part, left, right) for part in parts)
    return tuple(bound for bound in found if bound is not None)


def limits(value: exp.Expr, low: exp.Expr, high: exp.Expr) -> tuple[exp.GTE, exp.LTE]:
    """`value BETWEEN low AND high` as two comparisons."""
    above = exp.GTE(this=value.copy(), expression=low.copy())
    return above, exp.LTE(this=value.copy(), expression=high.copy())


def bound_of(condition: exp.Expr, left: Node, right: Node) -> Bound | None:
    """The bound that `condition` is if it compares two columns of one kind, two numbers, or two
    times."""
    condition = condition.unnest()
    if not isinstance(condition, exp.GT | exp.GTE | exp.LT | exp.LTE):
        return None
    a, b = plain(condition.this), plain(condition.expression)
    above = isinstance(condition, exp.GT | exp.GTE)
    if a in right.field:
        a, b, above = b, a, not above
    if a not in left.field or b not in right.field:
        return None
    assert a is not None
    assert b is not None
    kinds = {left.field[a].type.kind, right.field[b].type.kind}
    same = len(kinds) == 1 and Kind.INTERVAL not in kinds
    alike = same or kinds <= {*NUMBERS, Kind.DOUBLE} or kinds <= TIMES
    return Bound(a, b, above) if alike else None


def join_shape(
    kind: JoinKind, left: Node, right: Node, keys: Sequence[tuple[str, str]]
) -> tuple[Fields, frozenset[str] | None]:
    """The fields of a join, and the columns that identify its rows."""
    if kind in (JoinKind.SEMI, JoinKind.ANTI):
        return left.fields, left.unique
    one_right = right.unique is not None and right.unique <= {b for _, b in keys}
    one_left = left.unique is not None and left.unique <= {a for a, _ in keys}
    outer = kind is JoinKind.LEFT
    theirs = tuple(named(f, f.name, nullable=f.nullable or outer) for f in right.fields)
    unique: frozenset[str] | None = None
    if one_right:
        unique = left.unique
    elif one_left and not outer:
        unique = right.unique
    elif left.unique is not None and right.unique is not None:
        unique = left.unique | right.unique
    return (*left.fields, *theirs), unique


def named(field: Field, name: str, *, nullable: bool | None = None) -> Field:
    return Field(name, field.duck, field.type, field.nullable if nullable is None else nullable)


def mapped(node: Node, parts: Sequence[tuple[Field, str, str | None]], where: str = "") -> Map:
    passes = {field.name: source for field, _, source in parts if source is not None}
    return Map(
        node,
        tuple(field for field, _, _ in parts),
        tuple(sql for _, sql, _ in parts),
        where,
        passes,
        passed_on(node.unique, passes),
    )


def passed_on(unique: frozenset[str] | None, passes: Mapping[str, str]) -> frozenset[str] | None:
    """`unique` under the names of a projection; None if the projection drops one of its columns."""
    back = {source: name for name, source in reversed([*passes.items()])}
    if unique is None or not unique <= back.keys():
        return None
    return frozenset(back[name] for name in unique)


def renamed(node: Node, names: Mapping[str, str]) -> Map:
    """A projection to the columns of `names`: new name → name in `node`."""
    return mapped(
        node, [(named(node.field[old], new), quoted(old), old) for new, old in names.items()]
    )


def prefixed(node: Map, prefix: str) -> Map:
    """A subquery's rows, with `prefix` before every column name."""
    return renamed(node, {f"{prefix}.{field.name}": field.name for field in node.fields})


def filtered(node: Node, conditions: Sequence[exp.Expr]) -> Node:
    if not conditions:
        return node
    parts = [(field, quoted(field.name), field.name) for field in node.fields]
    return mapped(node, parts, all_of(conditions))
