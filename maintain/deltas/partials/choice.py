"""The choice of partial aggregates, by the estimated cost of changes.

The cost of a view is that of a change of its facts, and of a change of each other item at
`DIMENSION_RATE` of their rate: the rows that are looked up and joined, and the rows of partial
aggregates that change. Without a partial aggregate, a change of an item looks up all facts that
join with it; with one below it, the groups that do.

The estimates are upper bounds, but for columns that are in no key and no index: these have the
square root of their relation's rows as values, as in the choice of aggregate views (`viewselect`).
Where a relation's rows were not counted, no partial aggregate is chosen. A wrong estimate costs at
most `STATE_COST` rows for each change of the facts, and a state with as many rows as the facts; no
change looks up more rows than without it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from hornbeam_server.maintain.deltas.algebra import Aggregate, Join, JoinKind, Map, Node, Scan, walk
from hornbeam_server.maintain.deltas.partials.graphs import Graph, Item, graph_of, is_joined
from hornbeam_server.maintain.deltas.partials.rewriting import Rewriting, numbered, sharing
from hornbeam_server.maintain.deltas.partials.texts import columns_in, plain_column
from hornbeam_server.maintain.deltas.relations import Field
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import Unsupported
from hornbeam_server.schema.types import Kind
from hornbeam_server.schema.views import PartialAggregate

STATE_COST = 2.0
"""The cost of a changed row of a state, which is read and written, in rows that are looked up. It
is 8 rows in a batch of a single change, and about one in batches of 100 changes, which share the
rows of the state (`bench/deltas.py`)."""
DIMENSION_RATE = 0.001
"""Assumed changes of another item for each change of the facts. Changes are not counted by
relation."""

Items = frozenset[int]
"""FROM items, by their position."""


def chosen(result: Map, catalog: Catalog) -> tuple[PartialAggregate, ...]:
    """The partial aggregates to keep for a view, by its algebra and the catalog's row counts. Equal
    algebra and counts give the same."""
    found: list[PartialAggregate] = []
    numbers, shared = numbered(result), sharing(result)
    for node in walk(result):
        if isinstance(node, Aggregate):
            try:
                graph = graph_of(node, shared)
            except Unsupported:
                continue
            estimates = Estimates.of(node, graph, catalog)
            if estimates is not None:
                found += estimates.chosen(numbers[id(node)])
    return tuple(found)


def reasons_for_none(result: Map, catalog: Catalog) -> Iterator[str]:
    """Why a view keeps no partial aggregate, for each of its aggregates over joins, as lines of
    text. `catalog` has the row counts of now; the choice was made when the view was built."""
    if chosen(result, catalog):
        yield (
            "no partial aggregate: the view was built when its relations had other row counts; "
            "hornbeam refresh --rebuild chooses again"
        )
        return
    shared = sharing(result)
    for node in walk(result):
        if isinstance(node, Aggregate) and is_joined(node.input):
            yield f"no partial aggregate: {_reason_for_none(node, shared, catalog)}"


def _reason_for_none(node: Aggregate, shared: Callable[[Node], bool], catalog: Catalog) -> str:
    try:
        graph = graph_of(node, shared)
    except Unsupported as error:
        return _as_clause(error.message)
    missing = [
        item.alias for item in graph.items if not rows_of(item.node, catalog.row_count)
    ]  # fmt: skip
    if missing:
        return f"the rows of {', '.join(missing)} are not counted"
    if Estimates.of(node, graph, catalog) is None:
        return "no item of FROM has at most one partner in each of the others"
    return "it would have too many groups, or a change of another item would look up too few rows"


def _as_clause(message: str) -> str:
    return message[0].lower() + message[1:].removesuffix(".")


def rows_of(node: Node, counts: Mapping[str, int]) -> int | None:
    """The maximum number of rows of an operator, filters aside; None if it is not known."""
    match node:
        case Scan():
            return counts.get(node.relation)
        case Aggregate(groups=()):
            return 1
        case Map() | Aggregate():
            return rows_of(node.input, counts)
        case Join():
            if node.kind in (JoinKind.SEMI, JoinKind.ANTI) or _is_one(node.right, node.keys, 1):
                return rows_of(node.left, counts)
            if node.kind is JoinKind.INNER and _is_one(node.left, node.keys, 0):
                return rows_of(node.right, counts)
    return None


def _is_one(side: Node, keys: Sequence[tuple[str, str]], place: int) -> bool:
    """Does a row of the other side join with at most one of this side?"""
    return side.unique is not None and side.unique <= {key[place] for key in keys}


@dataclass(frozen=True, eq=False)
class Estimates:
    """The estimated rows of the items of a graph. All other items follow from `fact`: a row of it
    joins with at most one row of each inner item."""

    aggregate: Aggregate
    graph: Graph
    catalog: Catalog
    rows: tuple[int, ...]
    fact: int

    @staticmethod
    def of(aggregate: Aggregate, graph: Graph, catalog: Catalog) -> Estimates | None:
        """None if rows were not counted, or if no item is the fact."""
        found = [rows_of(item.node, catalog.row_count) for item in graph.items]
        rows = tuple(count for count in found if count)
        if len(rows) < len(found):
            return None
        every = frozenset(range(len(rows)))
        facts = [
            i
            for i, item in enumerate(graph.items)
            if item.join is None and _following(graph, i, every) == every
        ]
        if not facts:
            return None
        fact = max(facts, key=lambda i: (rows[i], -i))
        return Estimates(aggregate, graph, catalog, rows, fact)

    def chosen(self, number: int) -> list[PartialAggregate]:
        """The partial aggregates that lower the cost, found one after another below each other."""
        rewriting = Rewriting(self.aggregate, self.graph, number)
        chain: list[tuple[Items, int]] = []
        below = frozenset(range(len(self.rows)))
        cost = self.cost(chain)
        while True:
            costs: dict[float, list[tuple[Items, int]]] = {}
            for items in self.cuts(below):
                with suppress(Unsupported):
                    keys = rewriting.keys(items)
                    if all(self._is_key(field, text) for field, text in keys):
                        longer = [(items, self.groups(keys)), *chain]
                        costs.setdefault(self.cost(longer), longer)
            if not costs or min(costs) >= cost:
                break
            cost = min(costs)
            chain = costs[cost]
            below = chain[0][0]
        rows = self.rows[self.fact]
        return [PartialAggregate(number, tuple(sorted(i)), rows, groups) for i, groups in chain]

    def _is_key(self, field: Field, text: str) -> bool:
        """May a column be in the key of a state? A long text may not, unless it is in another key
        anyway."""
        long = field.type.kind in (Kind.TEXT, Kind.BYTES)
        return not long or text in self.graph.groups or any(self._equal(field.name))

    def cuts(self, items: Items) -> list[Items]:
        """What is left of `items` without one of them, and without those that follow from it
        alone."""
        rest = (items - {item} for item in sorted(items - {self.fact}))
        return list(dict.fromkeys(_following(self.graph, self.fact, each) for each in rest))

    def cost(self, chain: Sequence[tuple[Items, int]]) -> float:
        """The cost of changes with partial aggregates over growing sets of items, with their
        numbers of groups."""
        total, rows, taken = 0.0, self.rows[self.fact], frozenset[int]()
        every = frozenset(range(len(self.rows)))
        for level, items in enumerate([*(items for items, _ in chain), every]):
            for item in sorted(items - taken):
                is_fact = item == self.fact
                touched = 1.0 if is_fact else rows / self.rows[item]
                cost = touched
                for _, groups in chain[level:]:
                    touched = min(touched, groups)
                    cost += STATE_COST * touched
                total += cost if is_fact else DIMENSION_RATE * cost
            if level < len(chain):
                taken, rows = chain[level]
        return total

    def groups(self, keys: Sequence[tuple[Field, str]]) -> int:
        """The number of groups of columns with their expressions over items."""
        values: dict[int, float] = {}
        for field, text in keys:
            item, count = self._values(field, text)
            values[item] = min(float(self.rows[item]), values.get(item, 1.0) * count)
        return max(1, int(min(math.prod(values.values()), self.rows[self.fact])))

    def _values(self, field: Field, text: str) -> tuple[int, float]:
        """An item, and the number of values that an expression over it has."""
        known = {name: i for i, item in enumerate(self.graph.items) for name in item.names}
        read = [known[name] for name in sorted(columns_in(text, known))]
        item = max(read, key=lambda i: self.rows[i], default=self.fact)
        column = plain_column(text)
        same = () if column is None else (column, *self._equal(column))
        bounds = [bound for name in same for bound in self._bounds(known[name], name)]
        if bounds:
            return item, float(min(bounds))
        return item, 2.0 if field.type.kind is Kind.BOOLEAN else math.sqrt(self.rows[item])

    def _bounds(self, item: int, name: str) -> Iterator[int]:
        """Maximum numbers of values of a column, if it is in a key or leads an index."""
        node: Node = self.graph.items[item].node
        if node.unique is not None and name in node.unique:
            yield self.rows[item]
        while isinstance(node, Map) and name in node.passes:
            name = node.passes[name]
            node = node.input
        if not isinstance(node, Scan):
            return
        column, counts = node.column[name], self.catalog.row_count
        for key in self.catalog.schema.relation(node.relation).foreign_keys:
            if key.columns == (column,) and key.parent in counts:
                yield counts[key.parent]
        if any(i.columns[0].column == column for i in self.catalog.indexes_on(node.relation)):
            yield self.rows[item]

    def _equal(self, column: str) -> Iterator[str]:
        """The columns that joins equate with a column."""
        for a, b in _pairs(self.graph):
            if column in (a, b):
                yield b if column == a else a


def _pairs(graph: Graph) -> Iterator[tuple[str, str]]:
    """The pairs of columns that joins equate, but for columns of semi and anti joins."""
    yield from (condition.pair for condition in graph.conditions if condition.pair is not None)
    for item in graph.items:
        if item.join is not None and item.join.kind is JoinKind.LEFT:
            yield from item.join.keys


def _following(graph: Graph, fact: int, items: Items) -> Items:
    """The items of which a row of the fact joins with at most one row, and the outer, semi and anti
    joins with these."""
    found = {fact}
    pairs = list(_pairs(graph))
    while True:
        names = graph.names_of(found)
        equated = {b if a in names else a for a, b in pairs if (a in names) != (b in names)}
        more = {i for i in items - found if _follows(graph.items[i], names, equated)}
        if not more:
            return frozenset(found)
        found |= more


def _follows(item: Item, names: frozenset[str], equated: set[str]) -> bool:
    if item.join is not None:
        return item.needs <= names
    return item.node.unique is not None and item.node.unique <= equated
