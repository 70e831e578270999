"""The joins below an aggregate as a graph: the items of FROM, and the conditions between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from hornbeam_server.maintain.deltas.algebra import Aggregate, Join, JoinKind, Map, Node
from hornbeam_server.maintain.deltas.operators import join_shape
from hornbeam_server.maintain.deltas.partials.texts import columns_in, plain_column, with_columns
from hornbeam_server.query.dialect.duckdb_types import quoted
from hornbeam_server.schema.errors import Unsupported

MAX_TEXT = 20_000
"""Maximum characters of an expression after projections are put into one another."""


@dataclass(frozen=True, eq=False)
class Item:
    """An item of FROM, of which other items know the columns `names`. `join` None: it is joined by
    conditions. Otherwise it is the right side of this LEFT, semi or anti join, which reads the
    columns `needs` of other items."""

    node: Node
    names: frozenset[str]
    join: Join | None = None
    needs: frozenset[str] = frozenset()

    @property
    def alias(self) -> str:
        """The name of the item in FROM."""
        return self.node.fields[0].name.partition(".")[0]


@dataclass(frozen=True)
class Condition:
    """A condition of an inner join or a WHERE. `pair`: the two columns that a join equates."""

    text: str
    names: frozenset[str]
    pair: tuple[str, str] | None = None


@dataclass(frozen=True, eq=False)
class Graph:
    """The input of an aggregate, in which inner joins have no order. `groups` and `arguments` are
    expressions over columns of the items; `arguments` are by their name in the aggregate."""

    items: tuple[Item, ...]
    conditions: tuple[Condition, ...]
    groups: tuple[str, ...]
    arguments: Mapping[str, str]

    def names_of(self, items: Iterable[int]) -> frozenset[str]:
        """The columns of items, given by their positions."""
        return frozenset().union(*(self.items[i].names for i in items))

    def joined(self, base: Node | None, taken: frozenset[int], more: frozenset[int]) -> Node:
        """The rows of `base`, which has the items `taken`, joined with the items `more`. Raises
        Unsupported if there is no equality by which to join."""
        before, after = self.names_of(taken), self.names_of(taken | more)
        open_ = [
            condition
            for condition in self.conditions
            if condition.names <= after and not (taken and condition.names <= before)
        ]
        waiting = sorted(more)
        if base is None:
            first = next((i for i in waiting if self.items[i].join is None), None)
            if first is None:
                raise _no_order()
            waiting.remove(first)
            base = self.items[first].node
        node, open_ = _filtered(base, open_)
        while waiting:
            place = self._next(node, waiting, open_)
            waiting.remove(place)
            node, open_ = _with_item(node, self.items[place], open_)
        assert not open_
        return node

    def _next(self, node: Node, waiting: list[int], open_: list[Condition]) -> int:
        """The first item that can be joined with `node`."""
        names = node.field.keys()
        for place in waiting:
            item = self.items[place]
            if item.join is not None:
                if item.needs <= names:
                    return place
            elif item.node.unique == frozenset() or _keys(node, item, open_):
                return place
        raise _no_order()


def _keys(node: Node, item: Item, conditions: Iterable[Condition]) -> tuple[tuple[str, str], ...]:
    """The columns of `node` and of an item that conditions equate."""
    found = (condition.pair for condition in conditions if condition.pair is not None)
    both = ((a, b) if b in item.names else (b, a) for a, b in found)
    return tuple(dict.fromkeys((a, b) for a, b in both if a in node.field and b in item.names))


def _with_item(node: Node, item: Item, open_: list[Condition]) -> tuple[Node, list[Condition]]:
    """`node` joined with an item, and filtered by the conditions that read no other columns; and
    the conditions that are left."""
    if item.join is not None:
        join = item.join
        fields, unique = join_shape(join.kind, node, item.node, join.keys)
        return _filtered(replace(join, left=node, fields=fields, unique=unique), open_)
    keys = _keys(node, item, open_)
    used = {frozenset(key) for key in keys}
    left = [each for each in open_ if each.pair is None or frozenset(each.pair) not in used]
    inner = JoinKind.INNER
    return _filtered(
        Join(inner, node, item.node, keys, "", *join_shape(inner, node, item.node, keys)), left
    )


def _filtered(node: Node, open_: list[Condition]) -> tuple[Node, list[Condition]]:
    """`node` filtered by the conditions that read no other columns, and the other conditions."""
    now = [condition for condition in open_ if condition.names <= node.field.keys()]
    if not now:
        return node, open_
    where = " AND ".join(f"({condition.text})" for condition in now)
    every = {field.name: field.name for field in node.fields}
    columns = tuple(map(quoted, every))
    return (
        Map(node, node.fields, columns, where, every, node.unique),
        [condition for condition in open_ if condition not in now],
    )


def _no_order() -> Unsupported:
    return Unsupported("The items of FROM cannot be joined in this order.")


def graph_of(aggregate: Aggregate, shared: Callable[[Node], bool]) -> Graph:
    """The graph below an aggregate. Raises Unsupported if it has no joins, or if other operators
    share them or read columns that they compute."""
    if not is_joined(aggregate.input):
        raise Unsupported("The aggregate reads no joins.")
    reading = _Reading(shared)
    found = reading.columns(aggregate.input)
    names = [field.name for field in aggregate.groups]
    arguments = dict.fromkeys(call.argument for call in aggregate.calls if call.argument)
    return Graph(
        tuple(reading.items),
        tuple(reading.conditions),
        tuple(found[name] for name in names),
        {name: found[name] for name in arguments},
    )


def is_joined(node: Node) -> bool:
    """Does an operator read joins, through filters and projections?"""
    while isinstance(node, Map):
        node = node.input
    return isinstance(node, Join)


class _Reading:
    """Reads the operators below an aggregate."""

    def __init__(self, shared: Callable[[Node], bool]) -> None:
        self.items: list[Item] = []
        self.conditions: list[Condition] = []
        self._names: set[str] = set()
        self._shared = shared

    def columns(self, node: Node) -> dict[str, str]:
        """The columns of an operator as expressions over columns of items."""
        if not is_joined(node):
            return self._item(Item(node, frozenset(node.field)))
        if self._shared(node):
            raise Unsupported("Another operator reads the same joins.")
        if isinstance(node, Map):
            below = self.columns(node.input)
            self._require(node.where, below)
            pairs = zip(node.fields, node.expressions, strict=True)
            found = {field.name: with_columns(sql, below) for field, sql in pairs}
            if max(map(len, found.values()), default=0) > MAX_TEXT:
                raise Unsupported("An expression is too long.")
            return found
        assert isinstance(node, Join)
        left = self.columns(node.left)
        return self._inner(node, left) if node.kind is JoinKind.INNER else self._other(node, left)

    def _item(self, item: Item) -> dict[str, str]:
        self.items.append(item)
        self._names |= item.names
        return {name: quoted(name) for name in item.names}

    def _require(self, text: str, columns: Mapping[str, str]) -> None:
        """Add a condition over `columns`."""
        if text:
            written = with_columns(text, columns)
            self.conditions.append(Condition(written, columns_in(written, self._names)))

    def _inner(self, join: Join, left: dict[str, str]) -> dict[str, str]:
        both = left | self.columns(join.right)
        for a, b in join.keys:
            pair = _plain(both[a]), _plain(both[b])
            text = f"{both[a]} = {both[b]}"
            self.conditions.append(Condition(text, frozenset(pair), pair))
        self._require(join.condition, both)
        return both

    def _other(self, join: Join, left: dict[str, str]) -> dict[str, str]:
        """A LEFT, semi or anti join."""
        keys = tuple((_plain(left[a]), b) for a, b in join.keys)
        condition = with_columns(join.condition, left)
        bound = join.bound and replace(join.bound, left=_plain(left[join.bound.left]))
        needs = columns_in(condition, self._names) | {a for a, _ in keys}
        ranges = tuple(replace(each, left=_plain(left[each.left])) for each in join.ranges)
        moved = replace(join, keys=keys, condition=condition, bound=bound, ranges=ranges)
        names = frozenset(join.right.field) if join.kind is JoinKind.LEFT else frozenset[str]()
        return left | self._item(Item(join.right, names, moved, needs))


def _plain(text: str) -> str:
    name = plain_column(text)
    if name is None:
        raise Unsupported("A join reads a computed column.")
    return name
