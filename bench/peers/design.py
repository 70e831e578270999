"""The schemas, statements and rows of the benchmarks, planned with the views that Hornbeam chooses
and without views."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial

from bench import microdata
from bench.peers.port import Design, Row, Task
from hornbeam_server.demo.tpcw import PAPER_ROOTS, SCHEMA, WORKLOAD
from hornbeam_server.demo.tpcw.data import RELATIONS, Population, Size
from hornbeam_server.node.schema_plans import PlanRequest, plan_schema
from hornbeam_server.schema.catalog import Catalog, State
from hornbeam_server.schema.render import render_ddl
from hornbeam_server.schema.workload import load_workload
from hornbeam_server.txlayer.ddl.claim import NO_CATALOG


@dataclass(frozen=True)
class Source:
    """A schema, its statements and its rows. `rows` returns the rows of a relation, in column
    order; every call returns the same rows. `relations` is in loading order, parents first.
    `method` chooses the views: join views only, since the other systems have no aggregate views."""

    ddl: str
    workload: str
    roots: tuple[str, ...]
    row_counts: Mapping[str, int]
    relations: tuple[str, ...]
    rows: Callable[[str], Iterator[Row]]
    method: str = "optimal"

    @property
    def tasks(self) -> dict[str, Task]:
        """The statements by name."""
        found = load_workload(self.workload)
        return {
            s.name: Task(s.name, s.sql, s.sql.lstrip().upper().startswith("SELECT")) for s in found
        }

    @cached_property
    def design(self) -> Design:
        request = PlanRequest(
            self.ddl, self.workload, roots=self.roots, row_counts=dict(self.row_counts),
            method=self.method, aggregates=False,
        )  # fmt: skip
        return Design(_planned(request), _planned(replace(request, budget=0.0)))


@cache
def tpcw(size: Size) -> Source:
    """The TPC-W schema and workload of Synergy's evaluation, with its roots."""
    population = Population(size)
    return Source(
        SCHEMA.read_text(),
        WORKLOAD.read_text(),
        PAPER_ROOTS,
        size.row_counts,
        RELATIONS,
        population.rows,
    )


def joins(customers: int) -> Source:
    """Synergy's micro-benchmark (IX-B): joins of all rows of two and of three relations, with the
    views that its own method chooses."""
    counts = microdata.row_counts(customers)
    return Source(
        render_ddl(microdata.micro_schema()),
        f"-- name: Q1\n{microdata.Q1};\n-- name: Q2\n{microdata.Q2};\n",
        ("customer",),
        {name: counts[name] for name in microdata.RELATIONS},
        microdata.RELATIONS,
        partial(microdata.rows, customers=customers),
        method="paper",
    )


def _planned(request: PlanRequest) -> Catalog:
    """The planned catalog, with all views and indexes readable."""
    planned = plan_schema(request, NO_CATALOG).catalog
    states = tuple((name, State.READABLE) for name, _ in planned.states)
    return replace(planned, states=states)
