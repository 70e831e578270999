"""From an aggregate block of the workload to the SELECT of a view that answers it. Pure.

The view has the block's joins, and the conditions that do not vary from one execution to the next.
It groups by the block's grouping columns, and by the columns of all conditions with parameters or
subqueries: these come first in its key, so that an execution reads few groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from sqlglot import exp

from hornbeam_server.query.binding.algebra import Block, Comparison, ForeignKeyJoin, Source
from hornbeam_server.query.binding.blocks import ColumnOf
from hornbeam_server.query.dialect.aggregates import Function
from hornbeam_server.query.dialect.grammar import identifier
from hornbeam_server.query.optimizer.aggregate_blocks import (
    AggregateBlock,
    NotAnswered,
    call_of,
    classes_of,
    is_call,
    type_of,
)
from hornbeam_server.query.parsing.parse import DIALECT
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.model import Schema
from hornbeam_server.schema.trees import nodes_of, unlink, unlink_gone
from hornbeam_server.viewselect.indexes import free_name

MAX_NAMED_COLUMNS = 3
"""Maximum grouping columns in the name of a view."""

Call = tuple[Function, str, str]
"""The function of an aggregate, its argument and its FILTER as SQL; "" for none."""

_EQUAL = (Comparison.EQ, Comparison.IN, Comparison.IS_NULL)
_PREFIXES = {
    Function.COUNT: "count", Function.SUM: "sum", Function.MIN: "min", Function.MAX: "max",
    Function.DISTINCT: "distinct",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Group:
    """A grouping expression as SQL; `column` if it is a plain column. Groups with a smaller `rank`
    come first in the key of the view."""

    text: str
    column: ColumnOf | None
    rank: int = field(compare=False)


@dataclass(frozen=True)
class Grouping:
    """The SELECT of a view over joined relations. Columns that are equal by the joins have one
    name, so that equal SELECTs are equal here.

    `sources` begins with the fact; `depths` are the numbers of joins from the fact to each source.
    `reads` are the (relation, column) pairs that the SELECT reads.
    """

    sources: tuple[Source, ...]
    depths: tuple[int, ...]
    joins: tuple[tuple[str, tuple[str, ...]], ...]
    """For each source but the first: its alias, and the conditions that join it."""
    filters: tuple[str, ...]
    groups: tuple[Group, ...]
    calls: tuple[Call, ...]
    reads: frozenset[tuple[str, str]]
    same: tuple[frozenset[ColumnOf], ...]
    """Classes of columns that are equal by the joins."""

    @property
    def fact(self) -> str:
        return self.sources[0].relation

    @cached_property
    def input(self) -> tuple[object, ...]:
        """The rows that are aggregated: equal for SELECTs over the same rows."""
        return self.sources, self.joins, frozenset(self.filters)

    @cached_property
    def group_set(self) -> frozenset[Group]:
        return frozenset(self.groups)

    def with_other(self, other: Grouping) -> Grouping:
        """The SELECT that is grouped by the columns of both and has the aggregates of both.
        Requires that both have the same input."""
        ranks: dict[Group, int] = {}
        for group in (*self.groups, *other.groups):
            ranks[group] = min(group.rank, ranks.get(group, group.rank))
        groups = [Group(group.text, group.column, rank) for group, rank in ranks.items()]
        return Grouping(
            self.sources, self.depths, self.joins, self.filters,
            tuple(sorted(groups, key=lambda group: group.rank)),
            tuple(sorted({*self.calls, *other.calls})),
            self.reads | other.reads, self.same,
        )  # fmt: skip

    def name(self) -> str:
        """`<relations>__by_<columns>`; with one relation `<relation>__grouped_by_<columns>`, since
        an index may have the other name."""
        relations = [source.relation for source in self.sources]
        columns = [group.column[1] if group.column else "value" for group in self.groups]
        if not columns:
            return "__".join(relations) + "__total"
        more = len(columns) - MAX_NAMED_COLUMNS
        ending = f"_and_{more}_more" if more > 0 else ""
        by = "by" if len(relations) > 1 else "grouped_by"
        return "__".join(relations) + f"__{by}_" + "_".join(columns[:MAX_NAMED_COLUMNS]) + ending

    def sql(self) -> str:
        """The SELECT, with a name for each column."""
        taken: set[str] = set()
        columns = list(self._columns(taken))
        first, *others = self.sources
        lines = [f"SELECT {', '.join(columns)}", f"FROM {_item(first)}"]
        for source, (_, conditions) in zip(others, self.joins, strict=True):
            joined = f"JOIN {_item(source)} ON {' AND '.join(conditions)}"
            lines.append(joined if conditions else f"CROSS JOIN {_item(source)}")
        if self.filters:
            lines.append(f"WHERE {' AND '.join(f'({text})' for text in self.filters)}")
        if self.groups:
            lines.append(f"GROUP BY {', '.join(group.text for group in self.groups)}")
        return "\n".join(lines)

    def _columns(self, taken: set[str]) -> Iterator[str]:
        for number, group in enumerate(self.groups, 1):
            wanted = group.column[1] if group.column else f"group_{number}"
            yield f"{group.text} AS {_named(wanted, taken)}"
        yield f"count(*) AS {_named('row_count', taken)}"
        for number, (function, argument, condition) in enumerate(self.calls, 1):
            plain = argument.rpartition(".")[2]
            ending = plain if plain.isidentifier() and not condition else str(number)
            name = _named(f"{_PREFIXES.get(function, 'rows')}_{ending}", taken)
            yield f"{_call(function, argument, condition)} AS {name}"


def _named(wanted: str, taken: set[str]) -> str:
    name = free_name(wanted, taken)
    taken.add(name)
    return str(identifier(name).sql(DIALECT))


def _call(function: Function, argument: str, condition: str) -> str:
    return function.called(argument) + (f" FILTER (WHERE {condition})" if condition else "")


def _item(source: Source) -> str:
    relation = identifier(source.relation).sql(DIALECT)
    alias = identifier(source.alias).sql(DIALECT)
    return relation if relation == alias else f"{relation} AS {alias}"


def varies(node: exp.Expr) -> bool:
    """Has an expression another value in another execution of the statement? It has if it contains
    a parameter, and may have if it contains a subquery."""
    return node.find(exp.Placeholder, exp.Query) is not None


def generalised(block: AggregateBlock, catalog: Catalog) -> Grouping:
    """The SELECT of a view that answers `block`. Raises NotAnswered with the reason if there is
    none."""
    return _Generalising(block, catalog).grouping()


class _Generalising:
    """Builds the SELECT of a view from a block."""

    def __init__(self, block: AggregateBlock, catalog: Catalog) -> None:
        self.block, self.catalog = block, catalog
        self.order = star_order(block.block)
        self.place = {alias: number for number, (alias, _) in enumerate(self.order)}
        self.alias = _aliases(block.block, [alias for alias, _ in self.order], catalog.schema)
        pairs = [
            (left, right)
            for left, right in block.pairs()
            if type_of(left, block.block, catalog) == type_of(right, block.block, catalog)
        ]
        self.classes = classes_of(pairs)
        self.same = {frozenset(self.classes.of(column)) for pair in pairs for column in pair}
        names = [
            column
            for source in block.block.sources
            for column in catalog.schema.relation(source.relation).column_names
        ]
        self.ambiguous = {name for name in names if names.count(name) > 1}
        self.reads: set[tuple[str, str]] = set()

    def grouping(self) -> Grouping:
        filters = sorted({self._text(n) for n in self.block.conditions if self._is_filter(n)})
        groups = self._groups()
        calls = sorted(set(self._calls()))
        joins = tuple(self._joins())
        sources = tuple(
            Source(self.alias[alias], self.block.block.relation(alias)) for alias, _ in self.order
        )
        return Grouping(
            sources, tuple(depth for _, depth in self.order), joins, tuple(filters), groups,
            tuple(calls), frozenset(self.reads), self._same(),
        )  # fmt: skip

    def _is_filter(self, node: exp.Expr) -> bool:
        return not varies(node) and self.block.reads(node)

    def _same(self) -> tuple[frozenset[ColumnOf], ...]:
        named = [frozenset((self.alias[a], column) for a, column in one) for one in self.same]
        return tuple(sorted(named, key=sorted))

    # -- text

    def _canonical(self, place: ColumnOf) -> ColumnOf:
        """The column that stands for all that are equal by the joins: that of the source nearest to
        the fact."""
        return min(self.classes.of(place), key=lambda each: (self.place[each[0]], each[1]))

    def _column(self, place: ColumnOf) -> exp.Column:
        alias, name = place
        self.reads.add((self.block.block.relation(alias), name))
        table = identifier(self.alias[alias]) if name in self.ambiguous else None
        return exp.Column(this=identifier(name), table=table)

    def _text(self, node: exp.Expr) -> str:
        """An expression over the sources of the view, as SQL."""

        def renamed(part: exp.Expr) -> exp.Expr:
            place = self.block.place(part) if isinstance(part, exp.Column) else None
            return part if place is None else self._column(self._canonical(place))

        copy = node.unnest().copy()
        before = nodes_of(copy)
        copy = copy.transform(renamed, copy=False)
        try:
            return str(copy.sql(DIALECT))
        finally:
            unlink(copy)
            unlink_gone(before, copy.walk())

    def _plain(self, place: ColumnOf) -> str:
        return str(self._column(place).sql(DIALECT))

    # -- parts

    def _joins(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield the joins of each source but the first."""
        left = [sorted(pair, key=lambda each: self.place[each[0]]) for pair in self.block.pairs()]
        for number, (alias, _) in enumerate(self.order[1:], 1):
            now = [pair for pair in left if self.place[pair[1][0]] == number]
            texts = sorted({f"{self._plain(a)} = {self._plain(b)}" for a, b in now})
            yield self.alias[alias], tuple(texts)

    def _groups(self) -> tuple[Group, ...]:
        """The grouping expressions, in the order of the view's key."""
        found: dict[Group, int] = {}
        for place, rank in self._compared():
            found.setdefault(self._group(place, rank), rank)
        keys: dict[str, Group] = {}
        for key in self.block.keys:
            if varies(key):
                raise NotAnswered("it groups by an expression with a parameter or a subquery")
            if self.block.reads(key):
                keys[self._text(key)] = self._key(key)
        ordered = [self._canonical((o.alias, o.column)) for o in self.block.block.order]
        for place in ordered:
            group = self._group(place, _ORDERED)
            if group in keys.values():
                found.setdefault(group, _ORDERED)
        for group in keys.values():
            found.setdefault(group, _GROUPED)
        for place in self._other_columns(keys):
            found.setdefault(self._group(place, _GROUPED), _GROUPED)
        ranked = [Group(group.text, group.column, rank) for group, rank in found.items()]
        return tuple(sorted(ranked, key=lambda group: group.rank))

    def _group(self, place: ColumnOf, rank: int) -> Group:
        alias, column = self._canonical(place)
        return Group(self._plain((alias, column)), (self.alias[alias], column), rank)

    def _key(self, key: exp.Expr) -> Group:
        place = self.block.place(key)
        if place is not None:
            return self._group(place, _GROUPED)
        return Group(self._text(key), None, _GROUPED)

    def _compared(self) -> Iterator[tuple[ColumnOf, int]]:
        """Yield the columns of conditions that vary: equalities first, then ranges."""
        varying = [node for node in self.block.conditions if varies(node)]
        read = {
            self._canonical(place)
            for node in varying
            for column in nodes_of(node, exp.Column)
            if (place := self.block.place(column)) is not None
        }
        ranks = dict.fromkeys(read, _CHECKED)
        for item in self.block.block.filters:
            place = self._canonical((item.alias, item.column))
            rank = _EQUALITY if item.comparison in _EQUAL else _RANGE
            if place in ranks:
                ranks[place] = min(ranks[place], rank)
        yield from sorted(ranks.items(), key=lambda pair: (pair[1], self._position(pair[0])))

    def _position(self, place: ColumnOf) -> tuple[int, int]:
        relation = self.catalog.schema.relation(self.block.block.relation(place[0]))
        return self.place[place[0]], relation.positions[place[1]]

    def _other_columns(self, keys: Iterable[str]) -> Iterator[ColumnOf]:
        """Yield the columns that are read outside of grouping expressions and aggregates."""
        known = set(keys)

        def is_known(node: exp.Expr) -> bool:
            return _is_closed(node) or (self.block.reads(node) and self._text(node) in known)

        for part in self._outputs():
            for node in part.walk(bfs=False, prune=is_known):
                place = self.block.place(node)
                if place is not None and not is_known(node):
                    yield place

    def _outputs(self) -> Iterator[exp.Expr]:
        """Yield the expressions over groups: those of SELECT, HAVING and ORDER BY."""
        select = self.block.select
        yield from (node.unalias() for node in select.expressions)
        having, order = select.args.get("having"), select.args.get("order")
        if having is not None:
            yield having.this
        for ordered in order.expressions if order is not None else ():
            yield ordered.this

    def _calls(self) -> Iterator[Call]:
        """Yield the aggregates of the view; AVG follows from SUM and COUNT."""
        for part in self._outputs():
            for node in part.walk(bfs=False, prune=_is_closed):
                if is_call(node):
                    yield from self._call(node)

    def _call(self, node: exp.Expr) -> Iterator[Call]:
        call = call_of(node, self.block, self.catalog)
        if call is None:
            text = self._text(node)
            raise NotAnswered(f"{text} does not follow from counts, sums, minima and maxima")
        if varies(node):
            raise NotAnswered("an aggregate has a parameter or a subquery")
        argument = "" if call.argument is None else self._text(call.argument)
        condition = "" if call.condition is None else self._text(call.condition)
        if call.function is Function.AVG:
            yield Function.SUM, argument, condition
            yield Function.COUNT, argument, condition
        elif call.function is not Function.ROWS or condition:
            yield call.function, argument, condition


_EQUALITY, _RANGE, _ORDERED, _GROUPED, _CHECKED = range(5)
"""Ranks of grouping expressions in the key of a view: compared by an equality, by a range, in ORDER
BY, in GROUP BY, in any other condition."""


def _is_closed(node: exp.Expr) -> bool:
    """Is the inside of a node no expression over groups?"""
    return is_call(node) or isinstance(node, exp.Query)


def star_order(block: Block) -> tuple[tuple[str, int], ...]:
    """The aliases of a block from the fact up its foreign keys, each with its number of joins from
    the fact. Without a single fact, the order of the block."""
    parents = {join.parent for join in block.fk_joins}
    facts = [source.alias for source in block.sources if source.alias not in parents]
    depth = dict.fromkeys(facts, 0) if len(facts) == 1 else {}
    while (join := _next_join(block, depth)) is not None:
        depth[join.parent] = depth[join.child] + 1
    for source in block.sources:
        depth.setdefault(source.alias, 0)
    return tuple(depth.items())


def _next_join(block: Block, depth: Mapping[str, int]) -> ForeignKeyJoin | None:
    """A join whose child has a depth and whose parent has none."""
    joins = (join for child in depth for join in block.fk_joins if join.child == child)
    return next((join for join in joins if join.parent not in depth), None)


def _aliases(block: Block, order: Sequence[str], schema: Schema) -> dict[str, str]:
    """The alias in the view for each alias of a block: the relation's name, numbered if the
    relation occurs more than once."""
    relations = [block.relation(alias) for alias in order]
    found: dict[str, str] = {}
    taken = set(schema.names)
    for alias, relation in zip(order, relations, strict=True):
        if relations.count(relation) == 1:
            found[alias] = relation
            continue
        number = sum(block.relation(done) == relation for done in found) + 1
        found[alias] = free_name(f"{relation}_{number}", taken)
        taken.add(found[alias])
    return found
