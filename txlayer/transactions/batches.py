"""Many rows in one step of a transaction: batches without SQL, and statements that are repeated
with several sets of parameters."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from hornbeam_server.query.binding.parameters import Misfit
from hornbeam_server.schema.errors import (
    ConstraintViolation,
    InvalidRequest,
    LimitExceeded,
    NotFound,
    TypeMismatch,
)
from hornbeam_server.schema.model import Relation, Schema
from hornbeam_server.schema.named_columns import require_no_generated, unknown_column
from hornbeam_server.txlayer.statements.requests import InsertRows, Parameters, StatementResult
from hornbeam_server.txlayer.statements.write_parameters import bind_parameters
from hornbeam_server.txlayer.statements.write_plans import InsertPlan, WritePlan, value_queries
from hornbeam_server.txlayer.transactions.workspace import MAX_CHANGES

RUNS_A_TURN = 16
"""Maximum number of statements in one turn, each of which locks and reads rows by itself."""


def batch_positions(batch: InsertRows, schema: Schema) -> tuple[Relation, list[int]]:
    """The relation of a batch, and the positions of its columns. Raises NotFound, UnknownName,
    InvalidRequest, LimitExceeded; SqlError for a generated column."""
    if batch.relation not in schema:
        raise NotFound(f"There is no relation {batch.relation}.")
    relation = schema.relation(batch.relation)
    unknown = [name for name in batch.columns if name not in relation.visible_names]
    if unknown:
        raise unknown_column(relation, unknown[0])
    require_no_generated(relation, batch.columns)
    positions = [relation.positions[name] for name in batch.columns]
    if any(len(row) != len(positions) for row in batch.rows):
        raise InvalidRequest(
            f"A row for {relation.name} does not have {len(positions)} values.",
            cure="Give each row one value for each named column.",
        )
    if len(batch.rows) > MAX_CHANGES:
        raise LimitExceeded(
            f"More than {MAX_CHANGES} rows in one transaction.",
            cure="Load them in several requests, or with hornbeam load.",
        )
    return relation, positions


def inserts_at_once(plan: InsertPlan) -> bool:
    """Whether the rows of many sets of parameters may be inserted together.

    Each run of the statement would see the rows of the runs before it. The rows of VALUES without
    subqueries do not depend on them; DO UPDATE may update the row of an earlier run.
    """
    if plan.query is not None or value_queries(plan):
        return False
    conflict = plan.conflict
    return conflict is None or not (conflict.assignments or plan.returning)


def together(
    plan: WritePlan, sets: Sequence[Parameters], now: dt.datetime
) -> list[Parameters] | None:
    """The values of many sets of parameters; None if one of them needs another plan. Raises the
    errors of `bind_parameters`; a TypeMismatch names the set by its number (`row`)."""
    found: list[Parameters] = []
    try:
        for each in sets:
            found.append(bind_parameters(each, plan, now))  # noqa: PERF401  # its length is used
    except Misfit:
        return None
    except TypeMismatch as error:
        if len(sets) > 1:
            error.of_row(len(found) + 1)
        raise
    return found


@contextmanager
def numbered(before: int, part: int, whole: int) -> Iterator[None]:
    """Run a part of a statement that has `whole` sets of parameters: `part` of them, behind
    `before` others. An error that is about one of several sets gets its number (`row`)."""
    try:
        yield
    except (TypeMismatch, ConstraintViolation) as error:
        if whole > 1 and (part == 1 or error.details.get("row")):
            error.of_row(before + 1)
        raise


def sum_of(results: Sequence[StatementResult]) -> StatementResult:
    """One result for all runs of a statement."""
    if not results:
        return StatementResult(0)
    first, affected = results[0], sum(each.affected for each in results)
    rows = tuple(row for each in results for row in each.rows)
    return StatementResult(affected, first.columns, first.types, rows)
