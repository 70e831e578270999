"""WITH RECURSIVE as a `Recursion`.

PostgreSQL allows one reference to the CTE in its recursive term. Here it must also be in a FROM of
inner joins, be joined by equalities of its columns, and have no subquery in WHERE: then a step is
monotone, and derives from each row what that row alone gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sqlglot import exp

from hornbeam_server.maintain.deltas.algebra import (
    Join,
    JoinKind,
    Map,
    Node,
    Recursion,
    Working,
    walk,
)
from hornbeam_server.maintain.deltas.expressions import has_on, refused, text
from hornbeam_server.maintain.deltas.from_clause import Cte, Ctes
from hornbeam_server.maintain.deltas.operators import mapped, named
from hornbeam_server.maintain.deltas.relations import (
    Field,
    Fields,
    describe,
    has_spans,
    stored_fields,
)
from hornbeam_server.maintain.deltas.select_parts import star_of
from hornbeam_server.query.binding.binder import output_name
from hornbeam_server.query.dialect.duckdb_types import quoted
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import Unsupported
from hornbeam_server.schema.trees import nodes_of
from hornbeam_server.schema.types import UNORDERED

_RECOMPUTE = "or write WITH (refresh = 'recompute')."


class Queries(Protocol):
    """The translator of the whole statement, as a recursion uses it."""

    @property
    def sql(self) -> str: ...
    @property
    def catalog(self) -> Catalog: ...
    def query(self, node: exp.Expr, ctes: Ctes) -> Map: ...
    def alias(self, alias: str) -> str: ...


def is_recursive(with_: exp.With, cte: exp.CTE) -> bool:
    """Does a CTE name itself?"""
    if not with_.args.get("recursive"):
        return False
    return any(table.name == cte.alias and not table.db for table in nodes_of(cte.this, exp.Table))


def recursion_of(queries: Queries, cte: Cte) -> Recursion:
    """A recursive CTE. Raises Unsupported, with the part that has no rule."""
    union, name = cte.node.this, cte.node.alias
    if not isinstance(union, exp.Union) or union.args.get("by_name"):
        raise _refused("WITH RECURSIVE without UNION", cte.node, queries, "Write UNION [ALL]")
    if union.args.get("with_"):
        raise _refused("WITH inside of WITH RECURSIVE", cte.node, queries, "Write it before")
    for term in (union.this, union.expression):
        _name_apart(term)
    if union.args.get("distinct") and not has_on(union.expression):
        union.expression.set("distinct", None)  # of no effect below UNION
    start = queries.query(union.this, cte.known)
    prefix = queries.alias(name)
    described = _described(queries.catalog, cte)
    fields = tuple(named(field, f"{prefix}.{field.name}", nullable=True) for field in described)
    _check_columns(fields, union, queries)
    working = Working(fields)
    step = queries.query(
        union.expression, {**cte.known, name: Cte(cte.node, cte.known, working=working)}
    )
    after, base = _chain(_cast(step, fields))
    join = base if isinstance(base, Join) else None
    before, leaf = _chain(join.right if join is not None else base)
    if leaf is not working or (join is not None and not _is_step(join, working)):
        raise _refused(
            _cause(step), union.expression, queries, "Join the CTE by equalities in FROM, with a"
            " subquery where something else is needed,",
        )  # fmt: skip
    if join is None:
        before, after = (), (*before, *after)
    order = _order(join, before, queries, union.expression) if join is not None else ()
    distinct = bool(union.args.get("distinct"))
    keyed = distinct and not any(field.type.kind in UNORDERED for field in fields)
    unique = frozenset(field.name for field in fields) if keyed else None
    return Recursion(
        _cast(start, fields), join, before, after, order, distinct, fields, unique
    )  # fmt: skip


def _name_apart(term: exp.Expr) -> None:
    """Give columns of a term with the name of another one names of their own. The CTE names them by
    their places."""
    seen: set[str] = set()
    for i, value in enumerate(term.expressions if isinstance(term, exp.Select) else ()):
        name = output_name(value).lower()
        if name in seen and star_of(value) is None:
            alias = exp.to_identifier(f"{name}_{i}", quoted=True)
            value.replace(exp.Alias(this=value.unalias().copy(), alias=alias))
        seen.add(name)


def _described(catalog: Catalog, cte: Cte) -> Fields:
    """The columns of a recursive CTE, whose types the recursive term may widen."""
    parts = [*(known.node for known in cte.known.values()), cte.node]
    select = exp.select("*").from_(exp.to_identifier(cte.node.alias, quoted=True).sql("duckdb"))
    select.set("with_", exp.With(expressions=[part.copy() for part in parts], recursive=True))
    relations = {r.name: stored_fields(r.visible) for r in catalog.schema.relations}
    return describe(text(select), relations)


def _cast(part: Map, fields: Fields) -> Map:
    """The rows of a part under the names and with the types of the recursion."""
    return mapped(
        part, [_casted(own, field) for own, field in zip(part.fields, fields, strict=True)]
    )


def _casted(own: Field, field: Field) -> tuple[Field, str, str | None]:
    if own.duck == field.duck:
        return named(own, field.name, nullable=True), quoted(own.name), own.name
    return field, f"CAST({quoted(own.name)} AS {field.duck})", None


def _chain(node: Node) -> tuple[tuple[Map, ...], Node]:
    """The filters and projections above an operator, the lowest first, and the operator."""
    found: list[Map] = []
    while isinstance(node, Map):
        found.append(node)
        node = node.input
    return tuple(reversed(found)), node


def _is_step(join: Join, working: Working) -> bool:
    inner = join.kind is JoinKind.INNER and bool(join.keys)
    return inner and all(node is not working for node in walk(join.left))


def _cause(step: Node) -> str:
    """The name of a part of a recursive term that is no inner join by equalities."""
    over = [node for node in walk(step) if any(isinstance(n, Working) for n in walk(node))]
    for node in over:
        if isinstance(node, Join) and node.kind is not JoinKind.INNER:
            return f"A recursive term with a {node.kind} join of the rows found so far"
        if isinstance(node, Join) and not node.keys:
            return "A recursive term that joins without an equality of columns"
        if not isinstance(node, Join | Map | Working):
            return "A recursive term that groups, compares or orders the rows found so far"
    return "A recursive term that does not read its own rows once in FROM"


def _order(join: Join, before: Sequence[Map], queries: Queries, place: exp.Expr) -> tuple[str, ...]:
    """The columns of the recursion whose values a step joins with other rows."""
    found: list[str] = []
    for _, name in join.keys:
        origin: str | None = name
        for map_ in reversed(before):
            origin = map_.passes.get(origin) if origin is not None else None
        if origin is None:
            raise _refused(
                "A recursive term that joins by a computed value", place, queries,
                "Compute it as a column of the CTE",
            )  # fmt: skip
        found.append(origin)
    return tuple(dict.fromkeys(found))


def _check_columns(fields: Fields, place: exp.Expr, queries: Queries) -> None:
    for field in fields:
        if has_spans(field):
            raise _refused(
                f"The INTERVAL column {field.name} of a recursive CTE", place, queries,
                "CAST it to TEXT, since equal intervals may have other parts,",
            )  # fmt: skip


def _refused(what: str, place: exp.Expr, queries: Queries, cure: str) -> Unsupported:
    if not cure.endswith(","):
        cure += ","
    return refused(what, place, queries.sql, f"{cure} {_RECOMPUTE}")
