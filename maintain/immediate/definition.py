"""The definition of an immediate view: its star, its groups, its sums, and how it is stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from hornbeam_server.maintain.deltas.algebra import Aggregate, Call, Join, JoinKind, Map
from hornbeam_server.maintain.deltas.program import Translated, translated, unlike
from hornbeam_server.maintain.deltas.relations import Field
from hornbeam_server.maintain.deltas.states import GroupState, Part
from hornbeam_server.maintain.immediate.reading import require_compiled
from hornbeam_server.maintain.immediate.stars import LATER, Star, star_of
from hornbeam_server.query.dialect.aggregates import Function
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import Unsupported
from hornbeam_server.schema.model import Column, DeclaredView, KeyPart
from hornbeam_server.schema.types import MAX_DECIMAL_PRECISION, ColumnType, Kind
from hornbeam_server.schema.views import Computed, FoldedColumn, Folding, ImmediateView, StateLayout

MAX_KEPT = 256
"""Maximum number of definitions of stored views that are kept."""
CELLS = "cells"
LANE = "_lane"
_INTEGER, _BIGINT = ColumnType(Kind.INTEGER), ColumnType(Kind.BIGINT)
_WIDE = "HUGEINT"
_SUMMED = ("rows", "count", "sum")
"""The kinds of parts that are sums."""
_VALUED = {
    Function.MIN: Folding.MIN,
    Function.MAX: Folding.MAX,
    Function.DISTINCT: Folding.DISTINCT,
}


@dataclass(frozen=True)
class Definition:
    """The parts of an immediate view's SELECT. `groups` and `arguments` are expressions over the
    fields of the star, as SQL, with the type of their values. `parts` are the sums of a cell."""

    view: ImmediateView
    sql: str
    star: Star
    groups: tuple[tuple[str, Field], ...]
    arguments: tuple[tuple[str, Field], ...]
    parts: tuple[Part, ...]
    valued: tuple[int, ...]
    """The arguments whose values are stored, by number."""
    where: tuple[str, ...]
    calls: tuple[Call, ...]

    @property
    def checked_sql(self) -> str:
        """The SELECT whose rows verification compares with groups: that of the view, or of its
        terms if the view computes columns. A reader's error is no damage."""
        if self.view.computed is None:
            return self.sql
        groups = [sql for sql, _ in self.groups]
        arguments = {field.name: sql for sql, field in self.arguments}
        calls = [_call_sql(call, arguments) for call in self.calls]
        where = " AND ".join(f"({sql})" for sql in self.where) or "TRUE"
        by = f" GROUP BY {', '.join(map(str, range(1, len(groups) + 1)))}" if groups else ""
        return (
            f"SELECT {', '.join([*groups, *calls])} FROM ({self.star.joined_sql()}) AS joined"
            f" WHERE {where}{by}"
        )


def _call_sql(call: Call, arguments: Mapping[str, str]) -> str:
    argument = arguments.get(call.argument, "")
    if call.function is Function.AVG:
        total, count = (f.called(argument) for f in (Function.SUM, Function.COUNT))
        return call.averaged(total, count)
    return call.function.called(argument)


def define(declared: DeclaredView, catalog: Catalog, found: Translated | None = None) -> Definition:
    """The definition of a declared view with aggregates or DISTINCT; `found` is its SELECT. Raises
    the binder's errors, and Unsupported with the reason and a cure for a SELECT that transactions
    cannot maintain."""
    found = translated(declared, catalog) if found is None else found
    aggregate, inner, having = _aggregate(found.result)
    state = GroupState(declared.name, 0, aggregate, tuple(g.name for g in aggregate.groups))
    star = star_of(inner.input, catalog)
    sql_of = dict(zip((f.name for f in inner.fields), inner.expressions, strict=True))
    return Definition(
        _stored(declared, star, found, state, having),
        found.sql,
        star,
        tuple((sql_of[group.name], group) for group in aggregate.groups),
        tuple((sql_of[name], inner.field[name]) for name in state.arguments),
        _sums(state),
        state.valued,
        (*star.filters, *([inner.where] if inner.where else ())),
        aggregate.calls,
    )


def define_stored(view: ImmediateView, catalog: Catalog) -> Definition:
    """The definition of a stored view, which may have quotients as an earlier version computed
    them. It is kept: most new catalogs differ in states and other views only. Raises the errors of
    `define`."""
    return _defined(view, Catalog(0, catalog.schema, catalog.forest))


@lru_cache(MAX_KEPT)
def _defined(view: ImmediateView, catalog: Catalog) -> Definition:
    declared = view.declared
    for double in (False, True):
        found = define(declared, catalog, translated(declared, catalog, double_quotients=double))
        if (found.view.columns, found.view.cells) == (view.columns, view.cells):
            return found
    return define(declared, catalog)


def _aggregate(result: Map) -> tuple[Aggregate, Map, str]:
    """The aggregate of a SELECT, the projection below it, and HAVING. Raises Unsupported."""
    aggregate, having = result.input, result.where
    if isinstance(aggregate, Map) and aggregate.where:
        having, aggregate = aggregate.where, aggregate.input
    if isinstance(aggregate, Join):
        where = "in HAVING" if aggregate.kind is JoinKind.SEMI else "as a value"
        raise Unsupported(
            f"A subquery {where} cannot be maintained by transactions.",
            cure=f"Compare with the subquery when you read the view. {LATER}",
        )
    if not isinstance(aggregate, Aggregate) or not isinstance(aggregate.input, Map):
        raise Unsupported(
            "UNION, EXCEPT, INTERSECT and GROUPING SETS cannot be maintained by transactions.",
            cure=f"Declare a view for each part, and read both. {LATER}",
        )
    return aggregate, _flat(aggregate.input), having


def _flat(inner: Map) -> Map:
    """The projection below an aggregate over the joins. DISTINCT renames the columns of another
    projection."""
    below = inner.input
    renames = inner.fields and not inner.where and len(inner.passes) == len(inner.fields)
    if not isinstance(below, Map) or not renames:
        return inner
    sql_of = dict(zip((f.name for f in below.fields), below.expressions, strict=True))
    expressions = tuple(sql_of[inner.passes[field.name]] for field in inner.fields)
    return Map(below.input, inner.fields, expressions, below.where, {}, None)


def _stored(
    declared: DeclaredView, star: Star, found: Translated, state: GroupState, having: str
) -> ImmediateView:
    """The view as it is stored. Raises Unsupported."""
    fields, names = found.result.fields, found.names
    width = len(found.described)
    types = [f.type for f in (*found.described, *fields[width:])]
    columns = [Column(name, type_) for name, type_ in zip(names, types, strict=True)]
    folded = [
        _folded(found.result.passes[field.name], state)
        if field.name in found.result.passes
        else FoldedColumn(Folding.COMPUTED, number)
        for number, field in enumerate(fields)
    ]
    expressions = list(map(_bounded, fields, found.result.expressions))
    if not state.order:
        columns.append(Column(unlike(names, "_one"), _INTEGER))
        folded.append(FoldedColumn(Folding.GROUP, 0))
        expressions.append("1")
    groups = {
        f.position: c.name
        for f, c in zip(folded, columns, strict=True)
        if f.folding is Folding.GROUP
    }
    view = ImmediateView(
        declared,
        star.relations,
        tuple(columns[:width]),
        tuple(columns[width:]),
        tuple(KeyPart(groups[i]) for i in range(len(groups))),
        _cells(state),
        tuple(folded),
        bool(state.order),
        tuple(_values(state, number) for number in state.valued),
    )
    if not having and all(f.folding is not Folding.COMPUTED for f in folded):
        return view
    computed = replace(view, computed=_computed(state, expressions, having))
    require_compiled(computed)
    return computed


def _bounded(field: Field, sql: str) -> str:
    """The expression of a field, cast to its stored type. Stored numbers of 128 bits have at most
    38 digits."""
    wide = f" AS {_WIDE})"
    if field.duck != _WIDE or not sql.endswith(wide):
        return sql
    return f"{sql.removesuffix(wide)} AS {field.type.sql()})"


def _computed(state: GroupState, expressions: Sequence[str], having: str) -> Computed:
    node = state.node
    return Computed(
        tuple(Column(field.name, field.type) for field in node.fields),
        tuple(_folded(field.name, state) for field in node.fields),
        tuple(expressions),
        having,
    )


def _sums(state: GroupState) -> tuple[Part, ...]:
    return tuple(part for part in state.parts if part.kind in _SUMMED)


def _values(state: GroupState, number: int) -> StateLayout:
    """The layout of the values of argument `number`."""
    *groups, value, copies = (Column(f.name, f.type) for f in state.value_fields(number))
    lane = Column(LANE, _INTEGER, nullable=False)
    key = tuple(KeyPart(column.name) for column in (*groups, value, lane))
    counted = Column(copies.name, copies.type, nullable=False)
    return StateLayout(f"values{number}", (*groups, value, lane, counted), key)


def _cells(state: GroupState) -> StateLayout:
    groups = tuple(Column(field.name, field.type) for field in state.groups)
    lane = Column(LANE, _INTEGER, nullable=False)
    sums = tuple(
        Column(part.field.name, _sum_type(part, state), nullable=False) for part in _sums(state)
    )
    key = tuple(KeyPart(column.name) for column in (*groups, lane))
    return StateLayout(CELLS, (*groups, lane, *sums), key)


def _sum_type(part: Part, state: GroupState) -> ColumnType:
    """The type of a sum in a cell: that of its total, or the widest one for averages."""
    if part.kind != "sum":
        return _BIGINT
    calls = [call for call in state.node.calls if call.argument == part.argument]
    if any(c.function is Function.SUM and c.field.type.kind is Kind.BIGINT for c in calls):
        return _BIGINT
    scale = part.field.type.scale if part.field.type.kind is Kind.DECIMAL else 0
    return ColumnType(Kind.DECIMAL, MAX_DECIMAL_PRECISION, scale)


def _folded(source: str, state: GroupState) -> FoldedColumn:
    """The origin of the column that passes on `source`, a group or a call of the aggregate."""
    if source in state.order:
        return FoldedColumn(Folding.GROUP, state.order.index(source))
    call = next(call for call in state.node.calls if call.field.name == source)
    place = {(part.kind, part.argument): at for at, part in _placed(state)}
    match call.function:
        case Function.ROWS:
            return FoldedColumn(Folding.COUNT, place["rows", ""])
        case Function.COUNT:
            return FoldedColumn(Folding.COUNT, place["count", call.argument])
    if call.function in _VALUED:
        number = state.valued.index(state.arguments.index(call.argument))
        return FoldedColumn(_VALUED[call.function], number)
    folding = Folding.SUM if call.function is Function.SUM else Folding.AVG
    return FoldedColumn(folding, place["sum", call.argument], place["count", call.argument])


def _placed(state: GroupState) -> Iterator[tuple[int, Part]]:
    """The sums of a cell with their positions in its columns."""
    return enumerate(_sums(state), start=len(state.groups) + 1)
