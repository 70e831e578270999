"""The order in which the sources of a block are read. Pure.

Greedy: begin with the source that the query's own constants reach most cheaply, then always take
the source that the rows read so far reach most cheaply (by key, key prefix or index), else one
that has to be read by itself. Every beginning is tried; the cheapest order wins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from query.access import Access, Hint, Reach, Term, choose
from query.algebra import Block
from schema.catalog import Catalog

MAX_BEGINNINGS = 6
"""Beginnings that are tried; a plan is made once per statement, but 20 sources have 20."""


def order_joins(
    catalog: Catalog,
    block: Block,
    *,
    order: Sequence[tuple[str, Term]] = (),
    limited: bool = False,
    given: Mapping[str, float] | None = None,
    looked_up: bool = False,
    hints: Sequence[Hint] = (),
) -> tuple[Access, ...]:
    """One access per source, in reading order; later ones may need columns of earlier ones.

    `given` are rows that are there before (answers of subqueries), with how many they may be.
    `looked_up`: a source that rows before it lead to is never read by itself.
    """
    alone = {
        source.alias: choose(
            catalog,
            block,
            source.alias,
            order=leading_terms(order, source.alias),
            limited=limited and all(alias == source.alias for alias, _ in order),
        )
        for source in block.sources
    }
    if len(alone) == 1 and not given:
        return tuple(alone.values())
    cheapest = sorted(alone, key=lambda alias: alone[alias].cost)[:MAX_BEGINNINGS]
    beginnings = [None, *cheapest] if given else cheapest
    orders = (
        _Greedy(catalog, block, alone, looked_up, hints).steps(alias, given or {})
        for alias in beginnings
    )
    return min(orders, key=lambda steps: sum(step.cost for step in steps))


def leading_terms(order: Sequence[tuple[str, Term]], alias: str) -> tuple[Term, ...]:
    """The terms of ORDER BY up to the first one of another source."""
    terms = []
    for name, term in order:
        if name != alias:
            break
        terms.append(term)
    return tuple(terms)


@dataclass(frozen=True)
class _Greedy:
    """`alone`: the best path to each source by itself."""

    catalog: Catalog
    block: Block
    alone: Mapping[str, Access]
    looked_up: bool
    hints: Sequence[Hint]

    def steps(self, first: str | None, given: Mapping[str, float]) -> tuple[Access, ...]:
        steps = [self.alone[first]] if first is not None else []
        fetched = dict(given) | {step.alias: step.rows for step in steps}
        left = [alias for alias in self.alone if alias != first]
        while left:
            choices = [self._next(alias, fetched) for alias in left]
            step = min(choices, key=lambda path: (not path.join_columns, path.cost))
            steps.append(step)
            fetched[step.alias] = step.rows
            left.remove(step.alias)
        return tuple(steps)

    def _next(self, alias: str, fetched: Mapping[str, float]) -> Access:
        """The cheaper of: joined to what is there, or by itself."""
        alone = self.alone[alias]
        joined = choose(
            self.catalog,
            self.block,
            alias,
            fetched=fetched,
            joined=self.looked_up,
            hints=self.hints,
        )
        if not joined.join_columns:
            return alone
        return joined if self.looked_up or joined.cost <= alone.cost else alone


def nested_loops(steps: Sequence[Access]) -> bool:
    """Can every source but the first be looked up, key by key, from rows before it?"""
    return all(
        step.equalities and (step.join_columns or step.reach is Reach.POINT) for step in steps[1:]
    )
