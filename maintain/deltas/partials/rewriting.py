"""The rewrite of a view's algebra to partial aggregates. The law is that of the package."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hornbeam_server.maintain.deltas.algebra import (
    Aggregate,
    Call,
    Join,
    Map,
    Node,
    Partition,
    Recursion,
    Union,
    walk,
)
from hornbeam_server.maintain.deltas.operators import NUMBERS, check_keys, mapped, named
from hornbeam_server.maintain.deltas.partials.amounts import COUNT, Amount, Amounts, sum_of
from hornbeam_server.maintain.deltas.partials.graphs import Graph, graph_of
from hornbeam_server.maintain.deltas.partials.texts import columns_in, never_fails, plain_column
from hornbeam_server.maintain.deltas.relations import Field, duck_type
from hornbeam_server.query.dialect.aggregates import Function
from hornbeam_server.query.dialect.duckdb_types import quoted
from hornbeam_server.schema.errors import Unsupported
from hornbeam_server.schema.types import Kind
from hornbeam_server.schema.views import PartialAggregate

_CONVERTIBLE = (*NUMBERS, Kind.BOOLEAN, Kind.DATE, Kind.TIMESTAMP)
"""Kinds of columns whose values a CAST to a number, a date or a text can convert."""
_ADDED = (Function.ROWS, Function.COUNT, Function.SUM)
"""Functions whose results are added up."""

Measure = tuple[Function, str]
"""A value that a partial aggregate keeps: ROWS, COUNT, SUM, MIN or MAX of an argument."""
ROWS: Measure = (Function.ROWS, "")


def with_partials(result: Map, partials: Sequence[PartialAggregate]) -> Map:
    """A view's algebra with partial aggregates. Raises Unsupported if there can be none of these
    items."""
    if not partials:
        return result
    numbers, shared = numbered(result), sharing(result)
    done: dict[int, Node] = {}
    for node in walk(result):
        kept = _over(node, done)
        number = numbers.get(id(node))
        chain = [each for each in partials if each.aggregate == number]
        if number is not None and chain:
            assert isinstance(node, Aggregate)
            assert isinstance(kept, Aggregate)
            graph = graph_of(node, shared)
            items = [replace(i, node=done[id(i.node)]) for i in graph.items]
            kept = Rewriting(kept, replace(graph, items=tuple(items)), number).result(chain)
        done[id(node)] = kept
    found = done[id(result)]
    assert isinstance(found, Map)
    return found


def numbered(result: Node) -> dict[int, int]:
    """The numbers of aggregates, by id: their order in the algebra, which follows from the
    SELECT."""
    aggregates = (node for node in walk(result) if isinstance(node, Aggregate))
    return {id(node): number for number, node in enumerate(aggregates)}


def sharing(result: Node) -> Callable[[Node], bool]:
    """Do several operators read an operator?"""
    readers = Counter(id(read) for node in walk(result) for read in node.inputs)
    return lambda node: readers[id(node)] > 1


def _over(node: Node, done: Mapping[int, Node]) -> Node:
    """The operator over inputs that have been rewritten."""
    if all(done[id(read)] is read for read in node.inputs):
        return node
    match node:
        case Map():
            return replace(node, input=done[id(node.input)])
        case Aggregate() | Partition():
            below = done[id(node.input)]
            assert isinstance(below, Map)
            return replace(node, input=below)
        case Recursion():
            start = done[id(node.start)]
            assert isinstance(start, Map)
            join = node.join and replace(node.join, left=done[id(node.join.left)])
            return replace(node, start=start, join=join)
        case Join():
            return replace(node, left=done[id(node.left)], right=done[id(node.right)])
        case Union():
            return replace(node, parts=tuple(done[id(part)] for part in node.parts))
    raise AssertionError(node)


@dataclass(frozen=True)
class _Rows:
    """Rows of the items `taken`: of their join, or of a partial aggregate, whose columns `measures`
    has. `groups` and `arguments` are the expressions of the aggregate over these rows and the other
    items."""

    node: Node | None
    taken: frozenset[int]
    groups: tuple[str, ...]
    arguments: Mapping[str, str]
    measures: Mapping[Measure, str]

    @property
    def are_partial(self) -> bool:
        return bool(self.taken)


class Rewriting:
    """One aggregate over a graph. `number` is its number."""

    def __init__(self, aggregate: Aggregate, graph: Graph, number: int) -> None:
        self._aggregate, self._graph = aggregate, graph
        self._prefix = f".partial{number}"  # no alias is empty
        self._sums = dict(aggregate.sums)
        self._known = {name: f for item in graph.items for name, f in item.node.field.items()}
        self._numbers = {name for name, f in self._known.items() if f.type.kind in _CONVERTIBLE}
        self._wanted = tuple(dict.fromkeys(self._measures()))
        self._distinct = {c.argument for c in aggregate.calls if c.function is Function.DISTINCT}

    def _measures(self) -> Iterator[Measure]:
        for call in self._aggregate.calls:
            if call.function is Function.AVG:
                yield Function.SUM, call.argument
                yield Function.COUNT, call.argument
            elif call.function is not Function.DISTINCT:
                yield call.function, call.argument

    def result(self, chain: Sequence[PartialAggregate]) -> Map:
        """The aggregate's rows, by way of partial aggregates over more and more items. Raises
        Unsupported."""
        graph, every = self._graph, frozenset(range(len(self._graph.items)))
        rows = _Rows(None, frozenset(), graph.groups, graph.arguments, {})
        for level, kept in enumerate(sorted(chain, key=lambda each: len(each.items))):
            if not rows.taken < frozenset(kept.items) < every:
                raise Unsupported("A partial aggregate is over some items of FROM, not over all.")
            rows = self._partial(rows, kept, level)
        return self._final(rows, every)

    def keys(self, items: frozenset[int]) -> list[tuple[Field, str]]:
        """The columns of a partial aggregate over `items`, with their expressions. Raises
        Unsupported."""
        graph, nothing = self._graph, frozenset[int]()
        node = graph.joined(None, nothing, items)
        rows = _Rows(None, nothing, graph.groups, graph.arguments, {})
        return self._keys(rows, node, items, self._prefix)

    # -- a partial aggregate

    def _partial(self, rows: _Rows, kept: PartialAggregate, level: int) -> _Rows:
        items, prefix = frozenset(kept.items), f"{self._prefix}.{level}"
        node = self._graph.joined(rows.node, rows.taken, items - rows.taken)
        keys = self._keys(rows, node, items, prefix)
        groups = tuple(field for field, _ in keys)
        check_keys(groups, "GROUP BY")
        if not groups or any(map(_is_double, groups)):  # 0.0 and -0.0 would be one value
            raise Unsupported("A partial aggregate has a key, and no DOUBLE in it.")
        amounts = Amounts(f"{prefix}.argument")
        names: dict[Measure, str] = {}
        for measure in self._kept(rows, node):
            names[measure] = f"{prefix}.{len(names)}"
            amounts.call(self._amount(rows, measure), self._type(measure, names[measure]))
        partial = replace(amounts.aggregate(node, keys), reason=self._reason(kept, items))
        columns = {text: quoted(field.name) for field, text in keys}
        return _Rows(
            partial,
            items,
            tuple(columns.get(text, text) for text in rows.groups),
            {name: columns.get(text, text) for name, text in rows.arguments.items()},
            names,
        )

    def _keys(
        self, rows: _Rows, node: Node, items: frozenset[int], prefix: str
    ) -> list[tuple[Field, str]]:
        """The columns by which rows of `items` are grouped: those that are read above, and the
        expressions of the groups."""
        read = self._joined_by(items)
        types = zip(rows.groups, self._aggregate.groups, strict=True)
        texts = dict(types)
        texts |= {rows.arguments[name]: self._input(name) for name in self._distinct}
        computed: dict[str, Field] = {}
        for text, field in texts.items():
            if plain_column(text) is None and self._is_within(text, node):
                computed[text] = named(field, f"{prefix}.key{len(computed)}")
            else:
                read |= self._columns(text, node)
        for name in self._above(rows, node):
            read |= self._columns(rows.arguments[name], node)
        columns = [(field, quoted(field.name)) for field in node.fields if field.name in read]
        return [*columns, *((field, text) for text, field in computed.items())]

    def _joined_by(self, items: frozenset[int]) -> set[str]:
        """The columns that the joins above a partial aggregate over `items` read. Raises
        Unsupported for a condition below it that may fail: it would meet rows that another join
        drops before, as the view is written."""
        read = set[str]()
        within = self._graph.names_of(items)
        for condition in self._graph.conditions:
            if not condition.names <= within:
                read |= condition.names
            elif condition.pair is None:
                self._require_never_fails(condition.text)
        for i, item in enumerate(self._graph.items):
            if i not in items:
                read |= item.needs
            elif item.join is not None and item.join.condition:
                self._require_never_fails(item.join.condition)
        return read

    def _require_never_fails(self, text: str) -> None:
        if not never_fails(text, self._numbers):
            raise Unsupported(f"{text} may fail for rows that another join drops.")

    def _kept(self, rows: _Rows, node: Node) -> list[Measure]:
        """The measures of a partial aggregate over `node`."""
        above = self._above(rows, node)
        kept = [measure for measure in self._wanted if measure[1] not in above]
        weighed = any(function in _ADDED and name in above for function, name in self._wanted)
        return kept if ROWS in kept or not weighed else [*kept, ROWS]

    def _above(self, rows: _Rows, node: Node) -> frozenset[str]:
        """The arguments that are computed above a partial aggregate over `node`."""
        return frozenset(
            name
            for function, name in self._wanted
            if name
            and (function, name) not in rows.measures
            and not self._is_within(rows.arguments[name], node)
        )

    def _is_within(self, text: str, node: Node) -> bool:
        """Can an expression be computed for all rows of `node`?"""
        known = self._known.keys() | node.field.keys()
        within = columns_in(text, known) <= node.field.keys()
        return within and (plain_column(text) is not None or never_fails(text, self._numbers))

    def _columns(self, text: str, node: Node) -> frozenset[str]:
        return columns_in(text, node.field)

    def _reason(self, kept: PartialAggregate, items: frozenset[int]) -> str:
        every = self._graph.items
        inside = ", ".join(every[i].alias for i in sorted(items))
        outside = ", ".join(item.alias for i, item in enumerate(every) if i not in items)
        return (
            f"partial aggregate of {inside}, about {kept.groups} groups of {kept.rows} rows: a"
            f" change of {outside} looks up groups instead of rows"
        )

    # -- the aggregate

    def _final(self, rows: _Rows, every: frozenset[int]) -> Map:
        """The aggregate over all items, with its own columns."""
        aggregate = self._aggregate
        node = self._graph.joined(rows.node, rows.taken, every - rows.taken)
        amounts = Amounts(f"{self._prefix}.argument")
        results = [self._result(call, rows, amounts) for call in aggregate.calls]
        found = amounts.aggregate(node, list(zip(aggregate.groups, rows.groups, strict=True)))
        shown = [*(quoted(group.name) for group in aggregate.groups), *results]
        columns = zip(aggregate.fields, shown, strict=True)
        return mapped(found, [(field, text, plain_column(text)) for field, text in columns])

    def _result(self, call: Call, rows: _Rows, amounts: Amounts) -> str:
        """The result of a call as an expression over calls that are added to `amounts`."""
        function, argument, field = call.function, call.argument, call.field
        if function is Function.AVG:
            total, count = (f"{field.name}.{part}" for part in ("sum", "count"))
            for part, name in ((Function.SUM, total), (Function.COUNT, count)):
                measure = part, argument
                amounts.call(self._amount(rows, measure), self._type(measure, name))
            mean = call.averaged(quoted(total), quoted(count))
            return f"CAST(CASE WHEN {quoted(count)} > 0 THEN {mean} END AS {field.duck})"
        if function is Function.DISTINCT:
            amount = Amount(function, rows.arguments[argument], self._input(argument))
        else:
            amount = self._amount(rows, (function, argument))
        if self._aggregate.groups or function not in (Function.ROWS, Function.COUNT):
            amounts.call(amount, field)
            return quoted(field.name)
        some = named(field, f"{field.name}.some", nullable=True)  # NULL if there are no rows
        amounts.call(amount, some)
        return f"CAST(COALESCE({quoted(some.name)}, 0) AS {field.duck})"

    # -- amounts

    def _amount(self, rows: _Rows, measure: Measure) -> Amount:
        """What a row of `rows`, joined with other items, adds to a measure."""
        function, name = measure
        column = rows.measures.get(measure)
        if column is not None:
            assert rows.node is not None
            added = Function.SUM if function in _ADDED else function
            field = rows.node.field[column]
            return Amount(added, quoted(column), field, sum_of(field))
        if not rows.are_partial or function not in _ADDED:
            if function is Function.ROWS:
                return Amount(function)
            return Amount(function, rows.arguments[name], self._input(name), self._sums.get(name))
        weight, text = quoted(rows.measures[ROWS]), rows.arguments[name]
        if function is Function.COUNT:
            counted = f"CASE WHEN ({text}) IS NULL THEN 0 ELSE {weight} END"
            return Amount(Function.SUM, counted, COUNT, sum_of(COUNT))
        total = self._type(measure, "")
        weighed = f"CAST(CAST(({text}) AS {total.duck}) * {weight} AS {total.duck})"
        return Amount(Function.SUM, weighed, total, total)

    def _input(self, argument: str) -> Field:
        """The type of an argument."""
        return self._aggregate.input.field[argument]

    def _type(self, measure: Measure, name: str) -> Field:
        """The column of a measure."""
        function, argument = measure
        if function in (Function.ROWS, Function.COUNT):
            return named(COUNT, name)
        if function is Function.SUM:
            type_ = self._sums[argument].type
            return Field(name, duck_type(type_), type_)
        return named(self._input(argument), name, nullable=True)


def _is_double(field: Field) -> bool:
    return Kind.DOUBLE in (field.type.kind, field.type.element and field.type.element.kind)
