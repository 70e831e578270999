"""From DDL and workload texts to a plan and the catalog that it would put into force."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

import msgspec

from query.algebra import BoundStatement
from query.binder import bind
from schema.build import Place
from schema.catalog import Catalog, Forest, WorkloadStatement
from schema.codec import encode_catalog
from schema.ddl import load_ddl
from schema.diff import SchemaDiff, diff
from schema.errors import SchemaError, SqlError
from schema.workload import load_query_log, load_workload, weighted_by_log
from viewselect.plan import PlanOptions, SelectionPlan, Statistics, plan


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What an administrator uploads. `roots` None: learn them."""

    ddl: str
    workload: str = ""
    roots: tuple[str, ...] | None = None
    method: str = "optimal"
    budget: float | None = None
    row_counts: Mapping[str, int] = field(default_factory=dict)
    ddl_file: str = "<ddl>"
    workload_file: str = "<workload>"
    query_log: str = ""
    """One statement per line, or JSON lines with `sql` and `count`; weighs the workload."""


@dataclass(frozen=True, slots=True)
class PlannedSchema:
    """A plan, what it changes, and the catalog that applying it gives."""

    plan_id: str
    base_version: int
    plan: SelectionPlan
    changes: SchemaDiff
    catalog: Catalog


def plan_schema(request: PlanRequest, current: Catalog) -> PlannedSchema:
    """Plan against the catalog in force. Raises SchemaError and SqlError, located."""
    schema = load_ddl(request.ddl, request.ddl_file)
    changes = diff(current.schema, schema)
    if changes.refused:
        raise SchemaError(
            "This schema cannot follow the one in force: "
            + "; ".join(
                f"{r.change} of {r.relation}.{r.name}: {r.reason}" for r in changes.refused
            ),
            cure="; ".join(dict.fromkeys(refused.cure for refused in changes.refused)),
        )
    statements = load_workload(request.workload, request.workload_file)
    if request.query_log:
        log = load_query_log(request.query_log.splitlines(), "<query log>")
        statements = weighted_by_log(statements, log)
    base = Catalog(0, schema, Forest(schema.names))
    bound = [(statement, _bound(statement, base, request)) for statement in statements]
    counts = {**current.row_count, **request.row_counts}
    selection = plan(
        schema,
        bound,
        PlanOptions(
            roots=request.roots,
            learn_roots=request.roots is None,
            method=request.method,
            budget=request.budget,
        ),
        Statistics(row_counts={n: c for n, c in counts.items() if n in schema}),
        base=current,
    )
    catalog = selection.to_catalog(current.version + 1, current)
    plan_id = _plan_id(request, current, catalog)
    return PlannedSchema(plan_id, current.version, selection, changes, catalog)


def _bound(statement: WorkloadStatement, base: Catalog, request: PlanRequest) -> BoundStatement:
    """Raises SqlError with the place in the workload file where the statement begins."""
    try:
        return bind(statement.sql, base).statement
    except SqlError as error:
        begins = request.workload.find(statement.sql)
        where = asdict(Place.at(request.workload, begins, request.workload_file))
        message = f"in statement {statement.name}: {error.message}"
        raise type(error)(message, cure=error.cure, **error.details | where) from None


def _plan_id(request: PlanRequest, current: Catalog, planned: Catalog) -> str:
    """Equal exactly when inputs, what is in force and what would be are equal; row counts drift
    all the time and builds end at any time: neither counts."""
    inputs = msgspec.json.encode(
        (
            request.ddl,
            request.workload,
            request.query_log,
            request.roots,
            request.method,
            request.budget,
        )
    )
    catalogs = [
        encode_catalog(replace(c, version=0, row_counts=(), states=(), since=0))
        for c in (current, planned)
    ]
    return hashlib.sha256(b"\0".join([inputs, *catalogs])).hexdigest()[:16]
