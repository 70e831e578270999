"""Views that answer aggregate blocks: how a view does, or why it does not. Pure.

Write *B* for the rows that a block aggregates, and *V* for those of a view; both are combinations
of rows of relations that fulfil the conditions of FROM and WHERE. A view answers a block if

1. each source of the block is a source of the view, over the same relation, or stays beside it;
2. each further source of the view is joined to the others by a foreign key that is NOT NULL, to
   the key that it references, and no other condition of the view reads it: since foreign keys are
   enforced, it neither drops nor repeats a row;
3. each condition of the view follows from the block's: it is one of them, or an equality that
   follows from the block's equalities;
4. each condition of the block that does not follow from the view's is over grouping columns of the
   view and columns of sources beside it only, and so is each expression outside of aggregates;
5. each aggregate of the block follows from columns of the view, for a union of groups.

By 1 to 3 each row of B is a row of V, combined with rows of the sources beside it. By 4 each such
combination is in B for all rows of a group of V or for none. So a group of the block is a union of
groups of the view, each as often as it is combined, and its aggregates follow by 5. ∎
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import combinations, islice, permutations, product

from sqlglot import exp

from hornbeam_server.query.binding.algebra import Block
from hornbeam_server.query.binding.blocks import Classes, ColumnOf
from hornbeam_server.query.dialect.aggregates import Function
from hornbeam_server.query.dialect.grammar import NAME
from hornbeam_server.query.optimizer.aggregate_blocks import (
    AggregateBlock,
    Name,
    NotAnswered,
    call_of,
    classes_of,
    is_call,
    text_of,
    type_of,
)
from hornbeam_server.query.optimizer.aggregate_shapes import AggregateView
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.trees import written

MAX_MAPPINGS = 24
"""Maximum number of ways to map the sources of a block to a view that are tried. More than one
exists only if a relation is joined several times."""

CallText = tuple[Function, str, str]
"""The function of an aggregate, and its argument and FILTER as texts."""


@dataclass(frozen=True)
class Match:
    """How a view answers a block. In texts, columns of the block have the names of the view's
    columns, and columns that are equal in all rows of the view have one name.

    `groups` has the columns that hold grouping expressions, and `calls` those that hold aggregates.
    `rest` are the conditions that the view's rows must still be checked for. `sources` has, for
    each source of the view, its primary key and all its columns as texts; `reads` has, for each
    column of the view that holds a group, its text and those of the columns that it reads.
    `beside` are the sources of the block that stay.
    """

    view: AggregateView
    name: Name
    groups: Mapping[str, str]
    calls: Mapping[CallText, str]
    rest: tuple[exp.Expr, ...]
    sources: tuple[tuple[frozenset[str], frozenset[str]], ...]
    reads: tuple[tuple[str, str, frozenset[str]], ...]
    beside: frozenset[str]

    def determined(self, texts: Iterable[str]) -> set[str]:
        """The columns of the view that have one value each if the expressions `texts` have."""
        known, size = set(texts), -1
        while len(known) > size:
            size = len(known)
            for key, columns in self.sources:
                if key <= known:
                    known |= columns
        return {column for column, text, read in self.reads if text in known or read <= known}


def match(view: AggregateView, block: AggregateBlock) -> Match:
    """How `view` answers `block`. Raises NotAnswered, with the reason."""
    reason: NotAnswered | None = None
    for mapping in _mappings(view, block):
        try:
            return _Matching(view, block, mapping).match()
        except NotAnswered as found:
            reason = reason or found
    raise reason or NotAnswered("it joins other relations")


# -- matching


def _mappings(view: AggregateView, block: AggregateBlock) -> Iterator[dict[str, str]]:
    """Yield the ways to map sources of the block to sources of the view: alias → alias."""
    of_view = _by_relation(view.block.block)
    choices = [
        list(_pairings(mine, of_view[relation]))
        for relation, mine in _by_relation(block.block).items()
        if relation in of_view
    ]
    for chosen in islice(product(*choices), MAX_MAPPINGS):
        yield {mine: theirs for pairs in chosen for mine, theirs in pairs}


def _by_relation(block: Block) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for source in block.sources:
        found.setdefault(source.relation, []).append(source.alias)
    return found


def _pairings(mine: list[str], theirs: list[str]) -> Iterator[list[tuple[str, str]]]:
    """Yield the ways to pair as many of two lists as possible."""
    size = min(len(mine), len(theirs))
    for some, others in product(combinations(mine, size), permutations(theirs, size)):
        yield list(zip(some, others, strict=True))


class _Matching:
    """The comparison of a view and a block, whose sources are mapped to those of the view."""

    def __init__(self, view: AggregateView, block: AggregateBlock, mapping: dict[str, str]) -> None:
        self.view = view
        self.block = block
        self.mapping = mapping

    def match(self) -> Match:
        self._require_joins()
        self._require_conditions()
        name = partial(_same_name, self._alike(self.view.block.pairs()))
        mapped = partial(self._mapped_name, name)
        groups, calls = self._columns(name)
        rest = tuple(self._rest(name, mapped))
        sources, reads = tuple(self._sources(name)), tuple(self._reads(name))
        beside = frozenset(s.alias for s in self.block.block.sources) - self.mapping.keys()
        return Match(self.view, mapped, groups, calls, rest, sources, reads, beside)

    def _mapped(self, place: ColumnOf) -> ColumnOf:
        return self.mapping.get(place[0], f"beside {place[0]}"), place[1]

    def _mapped_name(self, name: Name, place: ColumnOf) -> ColumnOf:
        return name(self._mapped(place))

    def _pairs(self) -> list[tuple[ColumnOf, ColumnOf]]:
        """The block's equalities, between columns of the view."""
        return [(self._mapped(a), self._mapped(b)) for a, b in self.block.pairs()]

    def _alike(self, pairs: Iterable[tuple[ColumnOf, ColumnOf]]) -> Classes:
        """Classes of equal columns of one type: each stands for any other, in any expression."""
        block, catalog = self.view.block.block, self.view.catalog
        aliases = {source.alias for source in block.sources}
        return classes_of(
            (a, b)
            for a, b in pairs
            if {a[0], b[0]} <= aliases
            if type_of(a, block, catalog) == type_of(b, block, catalog)
        )

    def _known(self) -> list[tuple[ColumnOf, ColumnOf]]:
        """The equalities that hold for the rows of the block: its own, and those of the further
        sources of the view. Raises NotAnswered if a further source drops or repeats rows."""
        joined = set(self.mapping.values())
        left = [s for s in self.view.block.block.sources if s.alias not in joined]
        found = self._pairs()
        while left:
            edges = (j for j in self._lossless() if j[0] in joined and j[1] not in joined)
            edge = next(edges, None)
            if edge is None:
                raise NotAnswered(f"it joins {left[0].relation}, which may drop or repeat rows")
            joined.add(edge[1])
            found += edge[2]
            left = [source for source in left if source.alias not in joined]
        return found

    def _lossless(self) -> Iterator[tuple[str, str, list[tuple[ColumnOf, ColumnOf]]]]:
        """Yield the view's joins that find exactly one row: child, parent, pairs of columns."""
        block, schema = self.view.block.block, self.view.catalog.schema
        for join in block.fk_joins:
            child, key = schema.relation(block.relation(join.child)), join.foreign_key
            if any(child.column(c).nullable and c not in child.primary_key for c in key.columns):
                continue
            pairs = zip(key.columns, key.parent_columns, strict=True)
            yield join.child, join.parent, [((join.child, a), (join.parent, b)) for a, b in pairs]

    def _require_joins(self) -> None:
        """Raise NotAnswered unless the view's equalities hold in the block."""
        known = classes_of(self._known())
        for node in self.view.block.equalities:
            if not known.same(*self.view.block.pair(node)):
                raise NotAnswered(f"it joins by {written(node, NAME)}, the statement does not")

    def _require_conditions(self) -> None:
        """Raise NotAnswered unless the view's other conditions hold in the block."""
        name = partial(_same_name, self._alike(self._known()))
        mine = partial(self._mapped_name, name)
        given = {text_of(node, self.block, mine) for node in self.block.conditions}
        for node in self.view.block.conditions:
            if text_of(node, self.view.block, name) not in given:
                raise NotAnswered(
                    f"its condition {written(node, NAME)} does not follow from the statement's"
                )

    def _rest(self, name: Name, mapped: Name) -> Iterator[exp.Expr]:
        """Yield the block's conditions that do not hold in all rows of the view."""
        shape = self.view.block
        equal = classes_of(shape.pairs())
        for node, pair in zip(self.block.equalities, self._pairs(), strict=True):
            if not equal.same(*pair):
                yield node
        known = {text_of(node, shape, name) for node in shape.conditions}
        for node in self.block.conditions:
            if text_of(node, self.block, mapped) not in known:
                yield node

    def _columns(self, name: Name) -> tuple[dict[str, str], dict[CallText, str]]:
        """The view's columns, by what they hold: grouping expressions, and aggregates."""
        groups: dict[str, str] = {}
        calls: dict[CallText, str] = {}
        view = self.view
        for column, node in view.outputs:
            if column in view.groups:
                groups.setdefault(text_of(node, view.block, name), column)
            elif is_call(node.unnest()):
                text = call_text(node.unnest(), view.block, view.catalog, name)
                if text is not None:
                    calls.setdefault(text, column)
        return groups, calls

    def _sources(self, name: Name) -> Iterator[tuple[frozenset[str], frozenset[str]]]:
        for source in self.view.block.block.sources:
            relation = self.view.catalog.schema.relation(source.relation)
            yield (
                frozenset(column_text(name((source.alias, c))) for c in relation.primary_key),
                frozenset(column_text(name((source.alias, c))) for c in relation.column_names),
            )

    def _reads(self, name: Name) -> Iterator[tuple[str, str, frozenset[str]]]:
        block = self.view.block
        for column, node in self.view.outputs:
            if column in self.view.groups:
                places = [place for part in node.walk() if (place := block.place(part))]
                read = frozenset(column_text(name(place)) for place in places)
                yield column, text_of(node, block, name), read


def column_text(place: ColumnOf) -> str:
    """The text of a column (`text_of`)."""
    text: str = exp.column(place[1], table=place[0], quoted=True).sql(NAME)
    return text


def call_text(
    node: exp.Expr, block: AggregateBlock, catalog: Catalog, name: Name
) -> CallText | None:
    """An aggregate as texts; None if no view answers it."""
    call = call_of(node, block, catalog)
    if call is None:
        return None
    argument, condition = (
        "" if part is None else text_of(part, block, name)
        for part in (call.argument, call.condition)
    )
    return call.function, argument, condition


def _same_name(classes: Classes, place: ColumnOf) -> ColumnOf:
    return min(classes.of(place))
