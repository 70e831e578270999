"""Prices of blocks: row reads of the executor's own plan, and the indexes that lower them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from hornbeam_server.query.binding.algebra import Block
from hornbeam_server.query.optimizer.access_paths import Access, Term
from hornbeam_server.query.optimizer.join_order import KnownPaths, order_joins
from hornbeam_server.schema.catalog import Catalog, Forest, Index, State
from hornbeam_server.schema.model import Schema
from hornbeam_server.schema.views import ImmediateView, JoinView
from hornbeam_server.viewselect.indexes import Wanted, wanted_indexes
from hornbeam_server.viewselect.watch import Watch

WRITE_COST = 4.0
"""Cost of writing one row, including its share of the log, in scanned rows."""
ROUND_COST = 20.0
"""Cost of one round trip to the store, for any number of rows, in scanned rows. Every source of a
query, and every level of a path that upkeep reads, takes one. It is a batch of awaits on the
embedded store, and an RPC over HBase."""
HIDDEN_SHARE = 0.1
"""Share of a block's cost that counts when WHERE has conditions besides its filters (a subquery,
OR): the executor may use them, but they cannot be priced here."""
MIN_GAIN = 0.1
"""Minimum share of a block's cost that one more index must save."""
MAX_TRIED = 8
"""Maximum relations of a block whose indexes are tried one by one: the number of plans grows with
the square of the relations. For a larger block, all indexes are chosen at once."""

Price = Callable[[tuple[Wanted, ...]], tuple[float, frozenset[str]]]
"""Indexes → the block's cost with them, and the names of the layouts that its plan reads."""


def best_indexes(
    block: Block, bare: Catalog, statement: str, watch: Watch, *, together: bool
) -> tuple[float, tuple[Wanted, ...]]:
    """The cost of one execution of a block, with the indexes that help it. `bare` has the sources
    of the block, and the indexes that exist anyway. `together`: indexes are not tried one by one.
    """
    candidates = {
        wanted: wanted.index(bare).name
        for source in block.sources
        if source.relation not in bare.immediate_view
        for wanted in wanted_indexes(block, source.alias, bare, statement)
    }
    known: KnownPaths = {}

    def price(indexes: tuple[Wanted, ...]) -> tuple[float, frozenset[str]]:
        watch.spend(len(block.sources))
        steps = plan_steps(with_indexes(bare, indexes), block, known)
        return _cost(block, steps), frozenset(step.layout.name for step in steps)

    return (_all_at_once if together else _one_by_one)(candidates, price)


def _one_by_one(candidates: Mapping[Wanted, str], price: Price) -> tuple[float, tuple[Wanted, ...]]:
    """The cost of a block and its indexes, chosen greedily: repeatedly add the index that saves the
    most, as long as it saves enough. `candidates` maps indexes to their names."""
    (cost, _), chosen, left = price(()), tuple[Wanted, ...](), list(candidates)
    while left:
        trials = [(price((*chosen, w))[0], w) for w in left]
        best, wanted = min(trials, key=lambda trial: trial[0])
        if best > cost * (1 - MIN_GAIN):
            break
        cost, chosen = best, (*chosen, wanted)
        left = [w for w in left if w != wanted]
    return cost, chosen


def _all_at_once(
    candidates: Mapping[Wanted, str], price: Price
) -> tuple[float, tuple[Wanted, ...]]:
    """The same for a large block: take the indexes that its plan uses when it has all of them, then
    drop each index that does not save enough."""
    cost, used = price(tuple(candidates))
    chosen = tuple(wanted for wanted, name in candidates.items() if name in used)
    for wanted in chosen:
        fewer = tuple(w for w in chosen if w != wanted)
        without, _ = price(fewer)
        if cost > without * (1 - MIN_GAIN):
            cost, chosen = without, fewer
    return cost, chosen


def plan_steps(
    catalog: Catalog, block: Block, known: KnownPaths | None = None
) -> tuple[Access, ...]:
    """The executor's access paths to the sources of `block`, in the order of its plan."""
    order = tuple((o.alias, Term(o.column, o.descending, o.nulls_first)) for o in block.order)
    limited = block.limit and bool(order)
    return order_joins(catalog, block, order=order, limited=limited, known=known)


def _cost(block: Block, steps: Sequence[Access]) -> float:
    """Row reads of the executor's own plan for `block`."""
    share = 1.0 if block.conjunctive else HIDDEN_SHARE
    return sum(ROUND_COST + share * step.cost for step in steps)


def readable_catalog(
    schema: Schema,
    rows: Mapping[str, int],
    views: Iterable[JoinView],
    indexes: Iterable[Index],
    immediate: Iterable[ImmediateView] = (),
) -> Catalog:
    """A catalog in which every view and index is readable; its version has no meaning."""
    views, indexes, immediate = tuple(views), tuple(indexes), tuple(immediate)
    names = (
        *(view.name for view in views),
        *(index.name for index in indexes),
        *(view.name for view in immediate),
    )
    states = tuple((name, State.READABLE) for name in names)
    return Catalog(
        0, schema, Forest(schema.names), views, indexes, states, row_counts=tuple(rows.items()),
        immediate=immediate,
    )  # fmt: skip


def with_indexes(catalog: Catalog, wanted: Iterable[Wanted]) -> Catalog:
    """`catalog` with more indexes; an index that exists already is not added again."""
    made = {i.name: i for w in wanted if (i := w.index(catalog)).name not in catalog.index}
    states = tuple((name, State.READABLE) for name in made)
    return replace(
        catalog,
        indexes=(*catalog.indexes, *made.values()),
        states=(*catalog.states, *states),
    )
