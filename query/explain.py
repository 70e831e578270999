"""EXPLAIN: in words and as JSON, how a query is answered and why not otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from query.access import Access, Reach, describe_keys
from query.native import NativePlan
from query.planner import Plan
from query.residual import ResidualPlan
from query.rewrite import Rewritten
from schema.catalog import Catalog

_READS = {
    Reach.POINT: "row by key of",
    Reach.PREFIX: "key prefix of",
    Reach.RANGE: "key range of",
    Reach.SCAN: "scan of",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One source: what is read of `layout` to get rows of `source`.

    `join`: rows are looked up for rows read before. `rows` is an estimate; `order` says whether
    the rows come in the order that is wanted.
    """

    source: str
    alias: str
    layout: str
    access: str
    condition: str
    covering: bool
    join: str
    order: str
    rows: int

    def text(self) -> str:
        name = self.source if self.alias == self.source else f"{self.source} AS {self.alias}"
        words = [f"{name}: {self.access} {self.layout}"]
        if self.condition:
            words.append(f"where {self.condition}")
        if not self.covering:
            words.append(f"then {self.source} by key")
        words += [part for part in (self.join, self.order) if part]
        return ", ".join(words) + f" (about {self.rows} row{'s' if self.rows != 1 else ''})"


@dataclass(frozen=True, slots=True)
class Explanation:
    """How a query is answered. `rewritten` is the SQL over views, `duckdb` what DuckDB runs ("":

    nothing), `reason` why DuckDB is needed, `notes` why joins are not covered by views.
    """

    sql: str
    rewritten: str
    views: tuple[str, ...]
    indexes: tuple[str, ...]
    steps: tuple[Step, ...]
    strategy: str
    duckdb: str
    reason: str
    notes: tuple[str, ...]

    @property
    def text(self) -> str:
        """For people."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"query: {self.sql}"
        if self.rewritten != self.sql:
            yield f"rewritten: {self.rewritten}"
        yield f"views: {', '.join(self.views) or 'none'}"
        yield f"indexes: {', '.join(self.indexes) or 'none'}"
        yield f"strategy: {self.strategy}"
        for number, step in enumerate(self.steps, start=1):
            yield f"  {number}. {step.text()}"
        if self.duckdb:
            yield f"in DuckDB, because of {self.reason}: {self.duckdb}"
        for note in self.notes:
            yield f"note: {note}"

    def json(self) -> dict[str, Any]:
        """Plain data, with the same names."""
        return {**asdict(self), "text": self.text}


def explain(sql: str, catalog: Catalog, rewritten: Rewritten, plan: Plan) -> Explanation:
    """Put a plan into words."""
    accesses = plan.accesses
    layouts = list(dict.fromkeys(access.layout.name for access in accesses))
    sources = dict.fromkeys(access.source.name for access in accesses)
    return Explanation(
        sql=sql,
        rewritten=rewritten.bound.ast.sql("duckdb") if rewritten.uses else sql,
        views=tuple(name for name in sources if name in catalog.view),
        indexes=tuple(name for name in layouts if name in catalog.index),
        steps=tuple(_steps(plan)),
        strategy=_strategy(plan),
        duckdb=plan.sql if isinstance(plan, ResidualPlan) else "",
        reason=plan.reason if isinstance(plan, ResidualPlan) else "",
        notes=rewritten.notes,
    )


def _steps(plan: Plan) -> Iterator[Step]:
    if isinstance(plan, NativePlan):
        for answer in plan.answers:
            yield from _steps(answer.plan)
        yield _step(plan.first, "", _order(plan))
        for lookup in plan.lookups:
            yield _step(lookup.access, "looked up in batches", "")
        return
    for item in plan.lifted:
        yield from _steps(item.plan)
    for reads in plan.blocks:
        for read in reads:
            join = "for the values of rows read before" if read.access.join_columns else ""
            yield _step(read.access, join, "")


def _step(access: Access, join: str, order: str) -> Step:
    return Step(
        source=access.source.name,
        alias=access.alias,
        layout=access.layout.name,
        access=_READS[access.reach],
        condition=describe_keys(access),
        covering=access.covering,
        join=join,
        order=order,
        rows=max(1, round(access.rows)),
    )


def _order(plan: NativePlan) -> str:
    backwards = ", backwards" if plan.first.reverse else ""
    if plan.first_row_only:
        return f"first row only{backwards}"
    if not plan.order or plan.grouping is not None:
        return ""
    if plan.delivered == len(plan.order):
        stop = ", stops at LIMIT" if plan.limit is not None else ""
        return f"in the order wanted{backwards}{stop}"
    return f"sorted within its order{backwards}" if plan.delivered else "sorted"


def _strategy(plan: Plan) -> str:
    if isinstance(plan, NativePlan):
        words = "nested loops over access paths" if plan.lookups else "one access path"
        if plan.grouping is not None and not plan.grouping.whole:
            words += ", grouped, sorted" if plan.order else ", grouped"
        count = len(plan.answers)
    else:
        words = "sources by access paths, joined in DuckDB"
        count = len(plan.lifted)
    if not count:
        return words
    return f"{count} {'subquery' if count == 1 else 'subqueries'} first, then {words}"
