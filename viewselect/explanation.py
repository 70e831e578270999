"""The parts of a plan's explanation, as frozen data. Costs are in row reads (`cost`); weights are
the workload's."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class QueryReport:
    """One read statement. `cost` and `base_cost` (without chosen views, with the best indexes) are
    per execution. `reads` lists the access paths, `uncovered` the joins that no view covers,
    `aggregates` the reasons why no view answers an aggregate block. SELECTs that read `deferred`
    views do not count in these fields."""

    statement: str
    weight: float
    base_cost: float
    cost: float
    views: tuple[str, ...]
    indexes: tuple[str, ...]
    reads: tuple[str, ...]
    uncovered: tuple[str, ...]
    aggregates: tuple[str, ...]
    deferred: tuple[str, ...]


@dataclass(frozen=True)
class RelationReport:
    """A relation's place in the forest. `path` runs from the root to the relation. `rows_are` says
    whether its row count is counted, given by the caller, or assumed."""

    relation: str
    root: str
    path: tuple[str, ...]
    rows: int
    why: str
    rows_are: str


@dataclass(frozen=True)
class ViewReport:
    """The cost and value of a view. `value` is what the objective loses without the view. `upkeep`
    is in row reads per unit of workload.
    `assumed` lists the relations on its path whose row counts are assumed, which makes all these
    numbers estimates. An aggregate view has its SELECT in `sql`; its `path` begins with the
    relation whose rows it aggregates, and its `fan_out` is their number per group."""

    name: str
    path: tuple[str, ...]
    rows: int
    size: float
    fan_out: float
    upkeep: float
    value: float
    by_statement: tuple[tuple[str, float], ...]
    serves: tuple[str, ...]
    indexes: tuple[str, ...]
    assumed: tuple[str, ...]
    sql: str = ""


@dataclass(frozen=True)
class IndexReport:
    name: str
    on: str
    columns: tuple[str, ...]
    include: tuple[str, ...]
    purpose: str
    reason: str


@dataclass(frozen=True)
class MethodReport:
    """One method under the plan's options. `faster` is the factor by which reads become faster, and
    `slower` the share by which writes become slower, as weighted geometric means. `saved` and
    `upkeep` are in row reads per unit of workload. `joins` is the weight of the joins that its
    views cover; `reachable` is the weight that all views along its trees could cover."""

    method: str
    chosen: bool
    objective: float
    faster: float
    slower: float
    saved: float
    upkeep: float
    size: float
    joins: float
    reachable: float
    trees: tuple[str, ...]
    views: tuple[str, ...]


@dataclass(frozen=True)
class BesidesReport:
    """A read that the other method serves at a lower `cost` than the plan, which has `plan_cost`.
    `views` are those that the plan lacks. With them, upkeep would be `upkeep` row reads per unit of
    workload more, and the objective would change by `value`."""

    statement: str
    plan_cost: float
    cost: float
    views: tuple[str, ...]
    upkeep: float
    value: float


@dataclass(frozen=True)
class Explanation:
    """The whole explanation; sizes are in bytes. `besides` lists what the other method serves.
    `joins` is the weight of all joins. `cut` lists the places where the search was incomplete.
    `assumed` lists the relations with assumed row counts; `note` explains the assumption and how to
    give real counts."""

    roots: tuple[str, ...] | None
    budget: float | None
    base_size: float
    joins: float
    methods: tuple[MethodReport, ...]
    besides: tuple[BesidesReport, ...]
    relations: tuple[RelationReport, ...]
    views: tuple[ViewReport, ...]
    dropped: tuple[tuple[str, str], ...]
    indexes: tuple[IndexReport, ...]
    queries: tuple[QueryReport, ...]
    cut: tuple[str, ...]
    notes: tuple[str, ...]
    """The columns whose stored type differs from the declared type, with their stored type."""
    assumed: tuple[str, ...]
    note: str
