"""EXPLAIN: the plan of a query and the reasons for it, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hornbeam_server.query.binding.binder import BoundQuery, OutputColumn
from hornbeam_server.query.dialect.grammar import NAME
from hornbeam_server.query.duckdb_plan import ResidualPlan
from hornbeam_server.query.execution.loops import NativePlan
from hornbeam_server.query.execution.measures import Measures
from hornbeam_server.query.optimizer.access_paths import Access, Reach, describe_keys
from hornbeam_server.query.optimizer.rewrite import Rewritten
from hornbeam_server.query.planner import Plan
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.trees import written
from hornbeam_server.schema.types import ColumnType

_READS = {
    Reach.POINT: "row by key of",
    Reach.PREFIX: "key prefix of",
    Reach.RANGE: "key range of",
    Reach.SCAN: "scan of",
}


@dataclass(frozen=True, slots=True)
class Shown:
    """The parts of an explanation that the text shows, by EXPLAIN's options: `costs` are the
    estimated rows, `timing` the time of each step, `summary` that of the whole run, `verbose` the
    columns of the result."""

    costs: bool = True
    timing: bool = True
    summary: bool = True
    verbose: bool = False


@dataclass(frozen=True, slots=True)
class Read:
    """What a run has read for a step: rows, calls, and their milliseconds."""

    rows: int
    calls: int
    ms: float


@dataclass(frozen=True, slots=True)
class Ran:
    """A run of the query: the rows of its result, its milliseconds, and those of them in which rows
    were read."""

    rows: int
    ms: float
    reading_ms: float


@dataclass(frozen=True, slots=True)
class Step:
    """One source: the read of `layout` that gives rows of `source`.

    `join` describes a lookup for rows that were read before. `order` describes whether the rows
    arrive in the requested order. `rows` is an estimate. `assumed`: the rows of `source` were never
    counted. `read`: what a run has read; None if none was run, or the rows were at hand.
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
    assumed: bool
    read: Read | None = None

    def text(self, shown: Shown) -> str:
        name = self.source if self.alias == self.source else f"{self.source} AS {self.alias}"
        words = [f"{name}: {self.access} {self.layout}"]
        if self.condition:
            words.append(f"where {self.condition}")
        if not self.covering:
            words.append(f"then {self.source} by key")
        words += [part for part in (self.join, self.order) if part]
        counts = "; ".join(filter(None, (self._estimate(shown), self._counted(shown))))
        return f"{', '.join(words)} ({counts})" if counts else ", ".join(words)

    def _estimate(self, shown: Shown) -> str:
        guess = f", assumed: those of {self.source} are not counted" if self.assumed else ""
        return f"about {_rows(self.rows)}{guess}" if shown.costs else ""

    def _counted(self, shown: Shown) -> str:
        if self.read is None:
            return ""
        took = f", {self.read.ms:.3f} ms" if shown.timing else ""
        calls = "read" if self.read.calls == 1 else "reads"
        return f"{_rows(self.read.rows)} in {self.read.calls} {calls}{took}"


@dataclass(frozen=True, slots=True)
class Typed:
    """A column of the result, or a parameter (its number, from 0, or its name), with the name of
    its type; "" if binding does not know it."""

    name: str
    type: str


def typed(name: int | str, type_: ColumnType | None) -> Typed:
    return Typed(str(name), "" if type_ is None else type_.ddl())


def typed_columns(columns: Sequence[OutputColumn]) -> tuple[Typed, ...]:
    """The columns of a result, each with its type if binding knows it."""
    return tuple([Typed(column.name, column.type_name) for column in columns])


def described(columns: Sequence[OutputColumn], bound: BoundQuery) -> dict[str, Any]:
    """The members of an explanation about the columns and the parameters of a query."""
    output = tuple(c.name if c.type is None else f"{c.name} {c.type.sql()}" for c in columns)
    return {
        "output": output,
        "columns": typed_columns(columns),
        "parameters": parameters_of(bound),
    }


def parameters_of(bound: BoundQuery) -> tuple[Typed, ...]:
    """The parameters of a statement. One that is compared or cast has the type of the other
    operand, if all its uses agree."""
    return tuple([typed(name, _parameter_type(bound, name)) for name in bound.parameter_types])


def _parameter_type(bound: BoundQuery, name: int | str) -> ColumnType | None:
    known = bound.parameter_types[name]
    if known is not None:
        return known
    used = {use.type for use in bound.uses.get(name, ())}
    return used.pop() if len(used) == 1 else None


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of a query's plan. `rewritten` is the SQL over views. `duckdb` is the SQL
    that DuckDB runs, or "". `reason` says why DuckDB is needed, `notes` why views do not cover
    joins or do not answer aggregates. `output` has the columns of the result, each with its type,
    as text. `columns` and `parameters` are those of the statement, also of one that writes. `ran`
    is None without a run.
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
    output: tuple[str, ...] = ()
    columns: tuple[Typed, ...] = ()
    parameters: tuple[Typed, ...] = ()
    ran: Ran | None = None

    @property
    def text(self) -> str:
        """The explanation as text for users."""
        return self.shown(Shown())

    def shown(self, shown: Shown) -> str:
        """The parts of the explanation that `shown` names, as text for users."""
        return "\n".join(self._lines(shown))

    def _lines(self, shown: Shown) -> Iterator[str]:
        yield f"query: {self.sql}"
        if self.rewritten != self.sql:
            yield f"rewritten: {self.rewritten}"
        yield f"views: {', '.join(self.views) or 'none'}"
        yield f"indexes: {', '.join(self.indexes) or 'none'}"
        yield f"strategy: {self.strategy}"
        for number, step in enumerate(self.steps, start=1):
            yield f"  {number}. {step.text(shown)}"
        if self.duckdb:
            yield f"in DuckDB, because of {self.reason}: {self.duckdb}"
        if shown.verbose:
            yield f"output: {', '.join(self.output)}"
        if self.ran is not None:
            took = f" in {self.ran.ms:.3f} ms, {self.ran.reading_ms:.3f} ms of it for reads"
            yield f"result: {_rows(self.ran.rows)}{took if shown.summary else ''}"
        for note in self.notes:
            yield f"note: {note}"

    def json(self, shown: Shown = Shown()) -> dict[str, Any]:
        """The explanation as plain data with the same names, and its `text`."""
        return {**asdict(self), "text": self.shown(shown)}


def _rows(number: int) -> str:
    return f"{number} row{'s' if number != 1 else ''}"


def explain(
    sql: str, catalog: Catalog, rewritten: Rewritten, plan: Plan, notes: Sequence[str] = (),
    measures: Measures | None = None,
) -> Explanation:  # fmt: skip
    """The explanation of a plan, with further `notes`, and with what a run of it has read."""
    accesses = plan.accesses
    layouts = list(dict.fromkeys(access.layout.name for access in accesses))
    sources = dict.fromkeys(access.source.name for access in accesses)
    return Explanation(
        sql=sql,
        rewritten=written(rewritten.bound.ast, NAME) if rewritten.uses else sql,
        views=tuple(n for n in sources if n in catalog.view or n in catalog.declared_view),
        indexes=tuple(name for name in layouts if name in catalog.index),
        steps=tuple(_steps(plan, _Facts(catalog, measures))),
        strategy=_strategy(plan),
        duckdb=plan.sql if isinstance(plan, ResidualPlan) else "",
        reason=plan.reason if isinstance(plan, ResidualPlan) else "",
        notes=(*rewritten.notes, *notes),
    )


@dataclass(frozen=True, slots=True)
class _Facts:
    """The catalog, and what a run has read."""

    catalog: Catalog
    measures: Measures | None

    def read(self, access: Access) -> Read | None:
        """What the run has read by this path."""
        measure = self.measures.of(access) if self.measures is not None else None
        if measure is None:
            return None
        return Read(measure.rows, measure.calls, measure.seconds * 1000)


def _steps(plan: Plan, facts: _Facts) -> Iterator[Step]:
    if isinstance(plan, NativePlan):
        for answer in plan.answers:
            yield from _steps(answer.plan, facts)
        if plan.first is not None:
            yield _step(plan.first, "", _order(plan, plan.first), facts)
        for lookup in plan.lookups:
            nulls = "" if lookup.outer is None else ", NULLs for a row without a partner"
            yield _step(lookup.access, f"looked up in batches{nulls}", "", facts)
        return
    for item in plan.lifted:
        yield from _steps(item.plan, facts)
    for reads in plan.blocks:
        for read in reads:
            join = "for the values of rows read before" if read.access.join_columns else ""
            taken = read.access if facts.read(read.alone) is None else read.alone
            yield _step(taken, join if taken is read.access else "", "", facts)


def _step(access: Access, join: str, order: str, facts: _Facts) -> Step:
    catalog = facts.catalog
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
        assumed=access.source.name not in catalog.row_count and access.reach is not Reach.POINT,
        read=facts.read(access),
    )


def _order(plan: NativePlan, first: Access) -> str:
    backwards = ", backwards" if first.reverse else ""
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
        if plan.first is None:
            words = "values without a relation"
        if plan.grouping is not None and not plan.grouping.whole:
            words += ", grouped, sorted" if plan.order else ", grouped"
        count = len(plan.answers)
    else:
        words = "sources by access paths, joined in DuckDB"
        count = len(plan.lifted)
    if not count:
        return words
    return f"{count} {'subquery' if count == 1 else 'subqueries'} first, then {words}"
