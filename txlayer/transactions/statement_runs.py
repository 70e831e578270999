"""Plans and runs the statements of one attempt, in turns with other tasks."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeVar

from hornbeam_server.maintain.changes import Mutation
from hornbeam_server.query.engine import SHORT
from hornbeam_server.schema.errors import ReadConflict, StatementTimeout
from hornbeam_server.schema.time_limits import within
from hornbeam_server.schema.turns import chunks, turn
from hornbeam_server.storage.tracing import SYSTEM, Entered, Untraced, part, statement
from hornbeam_server.txlayer.statements.requests import (
    InsertRows,
    RepairRows,
    RepeatedStatement,
    SqlWork,
    Statement,
    StatementResult,
    Work,
)
from hornbeam_server.txlayer.statements.write_plans import WritePlan
from hornbeam_server.txlayer.transactions.attempt import Transaction
from hornbeam_server.txlayer.transactions.compiled_catalog import CatalogState

TURN, PLANS_A_TURN = 25, 5
"""After this many statements of a transaction are run, or planned, other tasks have a turn, and the
time limit is checked."""
T = TypeVar("T")


async def run_all(
    transaction: Transaction,
    work: Sequence[Work],
    plans: Sequence[WritePlan | None],
    digests: Sequence[str] = (),
    ended: Callable[[], None] = lambda: None,
) -> tuple[StatementResult, ...]:
    """Run `work`, and return the result of each statement. `digests`: those of the results that
    the first statements had in their trial. Each is compared at once: later ones rely on it.
    `ended` is called after each statement.

    Raises ReadConflict when a result differs, and the errors of the statements.
    """
    results: list[StatementResult] = []
    for number, (one, plan) in enumerate(zip(work, plans, strict=True)):
        results.append(await _run_one(transaction, one, plan))
        ended()
        if number < len(digests):
            _require_same(digests[number], number + 1, results[number])
        if number % TURN == TURN - 1:
            await asyncio.sleep(0)
    return tuple(results)


async def _run_one(transaction: Transaction, work: Work, plan: WritePlan | None) -> StatementResult:
    with traced(work):
        return await _result_of(transaction, work, plan)


def traced(work: Work) -> Entered | Untraced:
    """A context whose work is that of one statement of a transaction."""
    match work:
        case InsertRows():
            return part("load", _table, work.relation)
        case RepairRows():
            return part("repair", _table, work.layout)
    return statement(work.sql)


def _table(name: str) -> dict[str, str | int | float]:
    return {**SYSTEM, "db.collection.name": name}


async def _result_of(
    transaction: Transaction, work: Work, plan: WritePlan | None
) -> StatementResult:
    match work:
        case InsertRows():
            return await transaction.insert(work)
        case RepairRows():
            return await transaction.stored.repair(work)
        case Statement():
            assert plan is not None
            return await transaction.run(plan, work)
        case RepeatedStatement():
            assert plan is not None
            return await transaction.run_repeated(plan, work)


async def plans_of(
    state: CatalogState, work: Sequence[Work], limit_s: float
) -> list[WritePlan | None]:
    """The plan of each SQL statement; None for other work. Raises StatementTimeout, SqlError and
    its subclasses."""
    if len(work) == 1 and isinstance(work[0], Statement) and len(work[0].sql) <= SHORT:
        return [_plan(state, work[0])]
    if len(work) <= PLANS_A_TURN and _characters(work) <= SHORT:
        return _planned(state, work)
    return await limited(limit_s, _planned_in_turns(state, work))


async def _planned_in_turns(state: CatalogState, work: Sequence[Work]) -> list[WritePlan | None]:
    plans: list[WritePlan | None] = []
    for some in chunks(work, PLANS_A_TURN):
        plans += await state.engine.read(_characters(some), partial(_planned, state, some))
        await asyncio.sleep(0)
    return plans


def _characters(work: Sequence[Work]) -> int:
    return sum([len(each.sql) for each in work if isinstance(each, SqlWork)])


def _planned(state: CatalogState, work: Sequence[Work]) -> list[WritePlan | None]:
    return [_plan(state, each) if isinstance(each, SqlWork) else None for each in work]


def _plan(state: CatalogState, work: SqlWork) -> WritePlan:
    plan = state.plan(work.sql)
    return state.typed(work.sql, plan, work.parameters) if isinstance(work, Statement) else plan


async def count_by_layout(mutations: Sequence[Mutation]) -> tuple[dict[str, int], dict[str, int]]:
    """The number of changed rows, and the growth in rows, each by relation, view and index."""
    touched: dict[str, int] = {}
    growth: dict[str, int] = {}
    for some in chunks(mutations):
        for mutation in some:
            name, grown = mutation.layout, (mutation.old is None) - (mutation.new is None)
            touched[name] = touched.get(name, 0) + 1
            growth[name] = growth.get(name, 0) + grown
        await turn(some)
    return touched, growth


async def limited(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """The result of work that has written nothing yet, within a time limit. Raises
    StatementTimeout."""
    try:
        return await within(seconds, work)
    except TimeoutError:
        raise StatementTimeout(
            "The transaction took longer than its time limit; nothing was written.",
            cure="Raise timeout_ms, or do less in one transaction.",
        ) from None


def digest_of(result: StatementResult) -> str:
    """The digest of a result. It differs between results that a client can distinguish."""
    seen = repr((result.affected, result.rows)).encode()
    return hashlib.blake2b(seen, digest_size=8).hexdigest()


def _require_same(digest: str, number: int, result: StatementResult) -> None:
    """Raises ReadConflict unless `result` has `digest`, the digest of the result that the trial of
    the statement reported to the client."""
    if digest_of(result) != digest:
        raise ReadConflict(
            f"Statement {number} would have another result than its trial had.",
            cure="Begin again: a row that it meets has changed since.",
        )
