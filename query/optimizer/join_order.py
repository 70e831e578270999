"""Join ordering: the order in which the sources of a block are read. Pure.

The search is greedy. It starts with a source that the query's constants reach cheaply. It then
always takes the source that the rows read so far reach most cheaply (by key, key prefix or index),
or else a source that is read alone. It tries up to `MAX_BEGINNINGS` first sources, and the cheapest
order wins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from hornbeam_server.query.binding.algebra import Block
from hornbeam_server.query.optimizer.access_paths import Access, Hint, Paths, Reach, Term
from hornbeam_server.schema.catalog import Catalog, Index

MAX_BEGINNINGS = 6
"""Maximum number of first sources that are tried; it bounds the planning of large joins."""

KnownPaths = dict[tuple[str, tuple[Index, ...]], Paths]
"""Paths by alias and the indexes on its relation."""


def order_joins(
    catalog: Catalog,
    block: Block,
    *,
    order: Sequence[tuple[str, Term]] = (),
    limited: bool = False,
    given: Mapping[str, float] | None = None,
    looked_up: bool = False,
    hints: Sequence[Hint] = (),
    known: KnownPaths | None = None,
) -> tuple[Access, ...]:
    """One access path per source, in reading order; later paths may need columns of earlier ones.

    `given` has the names of rows that are available before (results of subqueries), with their
    estimated numbers. `looked_up`: a source that earlier rows lead to is never read alone. `known`
    caches paths of the same block and hints under different indexes; the call adds to it.
    """
    paths = _paths(catalog, block, hints, {} if known is None else known)
    alone = {
        source.alias: paths[source.alias].cheapest(
            {},
            order=leading_terms(order, source.alias),
            limited=limited and all(alias == source.alias for alias, _ in order),
        )
        for source in block.sources
    }
    if len(alone) == 1 and not given:
        return tuple(alone.values())
    cheapest = sorted(alone, key=lambda alias: alone[alias].cost)[:MAX_BEGINNINGS]
    beginnings = [None, *cheapest] if given else cheapest
    greedy = _Greedy(paths, alone, looked_up)
    orders = (greedy.steps(alias, given or {}) for alias in beginnings)
    return min(orders, key=lambda steps: sum(step.cost for step in steps))


def _paths(
    catalog: Catalog, block: Block, hints: Sequence[Hint], known: KnownPaths
) -> dict[str, Paths]:
    """The paths of every source."""
    found = {}
    for source in block.sources:
        key = source.alias, catalog.indexes_on(source.relation)
        if key not in known:
            known[key] = Paths(catalog, block, source.alias, hints)
        found[source.alias] = known[key]
    return found


def leading_terms(order: Sequence[tuple[str, Term]], alias: str) -> tuple[Term, ...]:
    """The leading terms of ORDER BY that belong to the source `alias`."""
    terms = []
    for name, term in order:
        if name != alias:
            break
        terms.append(term)
    return tuple(terms)


@dataclass(frozen=True)
class _Greedy:
    """The greedy search. `alone` has the best path to each source that needs no other source."""

    paths: Mapping[str, Paths]
    alone: Mapping[str, Access]
    looked_up: bool

    @cached_property
    def followers(self) -> dict[str, list[str]]:
        """Source → sources that its columns may lead to."""
        found: dict[str, list[str]] = {}
        for alias, paths in self.paths.items():
            for partner in paths.partners:
                found.setdefault(partner, []).append(alias)
        return found

    def steps(self, first: str | None, given: Mapping[str, float]) -> tuple[Access, ...]:
        steps = [self.alone[first]] if first is not None else []
        fetched = dict(given) | {step.alias: step.rows for step in steps}
        left = {alias: self._next(alias, fetched) for alias in self.alone if alias != first}
        while left:
            alias = min(left, key=lambda alias: left[alias][0])
            _, step = left.pop(alias)
            steps.append(step)
            fetched[alias] = step.rows
            for other in self.followers.get(alias, ()):
                if other in left:
                    left[other] = self._next(other, fetched)
        return tuple(steps)

    def _next(self, alias: str, fetched: Mapping[str, float]) -> tuple[tuple[bool, float], Access]:
        """(rank, path): the cheaper of a path joined to `fetched` and a path that reads the source
        alone. Joined paths rank first."""
        alone = self.alone[alias]
        joined = self.paths[alias].cheapest(fetched, joined=self.looked_up)
        if joined.join_columns and (self.looked_up or joined.cost <= alone.cost):
            return (False, joined.cost), joined
        return (True, alone.cost), alone


def nested_loops(steps: Sequence[Access]) -> bool:
    """Whether every source except the first can be looked up by key from earlier rows."""
    return all(
        step.equalities and (step.join_columns or step.reach is Reach.POINT) for step in steps[1:]
    )
