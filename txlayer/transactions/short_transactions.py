"""Transactions of one statement that run in a straight line, and what they hand to the committer.

`short_path` decides it before the first effect, by the request and the plan. A straight line that
turns out to be none returns None; then `TransactionManager` takes the general path.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from hornbeam_server.txlayer.commit.batches import Prepared
from hornbeam_server.txlayer.commit.encoding import encoded, encoded_insert, encoded_inserts
from hornbeam_server.txlayer.locking.locks import Mode
from hornbeam_server.txlayer.statements.requests import (
    SqlWork,
    Statement,
    StatementResult,
    TransactionRequest,
    TransactionResult,
    Work,
)
from hornbeam_server.txlayer.statements.write_plans import InsertPlan, WritePlan
from hornbeam_server.txlayer.transactions.attempt_results import Attempt, outcome_of
from hornbeam_server.txlayer.transactions.batch_inserts import insert_many
from hornbeam_server.txlayer.transactions.compiled_catalog import CatalogState
from hornbeam_server.txlayer.transactions.new_rows import NewRows, complete_row
from hornbeam_server.txlayer.transactions.outcomes import (
    TABLE as OUTCOMES,
)
from hornbeam_server.txlayer.transactions.outcomes import (
    Outcome,
    find_outcome,
)
from hornbeam_server.txlayer.transactions.random_uuids import RandomUuids
from hornbeam_server.txlayer.transactions.short_inserts import (
    FindOutcome,
    Held,
    Inserted,
    Met,
    ShortInsert,
    result_of,
    short_insert,
)
from hornbeam_server.txlayer.transactions.short_writes import (
    Changed,
    KeyPlan,
    ShortWrite,
    positions_of,
    short_write,
)
from hornbeam_server.txlayer.transactions.statement_runs import count_by_layout

ShortPath = ShortInsert | ShortWrite


def short_path(
    state: CatalogState, request: TransactionRequest, plans: Sequence[WritePlan | None]
) -> ShortPath | None:
    """What runs a transaction that only inserts rows into one relation, or that writes the row with
    one key. None for any other transaction."""
    if len(plans) != 1 or request.replay or request.reads or request.ranges:
        return None
    if request.preconditions:
        return None
    work, plan = request.statements[0], plans[0]
    if isinstance(work, Statement) and isinstance(plan, KeyPlan):
        return short_write(state, plan)
    return short_insert(state, work, plan)


@dataclass(frozen=True, slots=True)
class ShortTransaction:
    """One attempt of a short transaction, in which CURRENT_TIMESTAMP is `now`. `unchanged` gives
    the result of an attempt that has nothing to commit."""

    attempt: Attempt
    state: CatalogState
    held: Held
    now: dt.datetime
    uuids: Callable[[], RandomUuids]
    unchanged: Callable[[Attempt], TransactionResult]

    async def prepared(
        self, path: ShortPath, plan: WritePlan | None
    ) -> Prepared | TransactionResult | None:
        """Do all steps before the commit point. Returns the transaction for the committer, or the
        finished result; None if it needs the general path."""
        attempt, work = self.attempt, self.attempt.request.statements[0]
        outcome = None
        if attempt.request.idempotency_key is not None:
            await self.held.take([("request", attempt.transaction_id)], Mode.EXCLUSIVE)
            outcome = partial(find_outcome, self.held.store, attempt.transaction_id)
        if isinstance(work, SqlWork) and work.session:
            attempt.numbers.in_session(work.session)
        if isinstance(path, ShortInsert):
            assert plan is None or isinstance(plan, InsertPlan), "as `short_insert` says"
            return await self._inserted(path, plan, work, outcome)
        assert isinstance(plan, KeyPlan), "as `short_path` says"
        assert isinstance(work, Statement), "as `short_path` says"
        return await self._written(await path.run(plan, work, self.now, self.held, outcome))

    async def _written(
        self, written: Changed | Outcome | None
    ) -> Prepared | TransactionResult | None:
        if isinstance(written, Outcome):
            return written.answer_to(self.attempt.request)
        if written is None:
            return None
        attempt, request = self.attempt, self.attempt.request
        attempt.results = (written.result,)
        attempt.affected, attempt.growth = await count_by_layout(written.mutations)
        if not written.mutations and request.idempotency_key is None:
            return self.unchanged(attempt)
        return await encoded(
            attempt.transaction_id,
            self.state.catalog.version,
            written.mutations,
            written.changes,
            {OUTCOMES: [await outcome_of(attempt)]},
            self.state.codecs,
            request.bookmark,
            idempotency_key=request.idempotency_key,
        )

    async def _inserted(
        self,
        insert: ShortInsert,
        plan: InsertPlan | None,
        work: Work,
        outcome: FindOutcome | None,
    ) -> Prepared | TransactionResult | None:
        """Insert rows, by SQL if there is a `plan`."""
        attempt, state, request = self.attempt, self.state, self.attempt.request
        if plan is None or not isinstance(work, Statement) or len(plan.rows) > 1:
            recorded = None if outcome is None else await outcome()
            if recorded is not None:
                return recorded.answer_to(request)
            return await self._inserted_many(insert, plan, work)
        complete = partial(complete_row, state, attempt.numbers, self.uuids, self.now)
        inserted = await insert.run(plan, work, self.now, complete, self.held, outcome)
        if isinstance(inserted, Met):
            return await self._written(await self._met(plan, inserted))
        if not isinstance(inserted, Inserted):
            return None if inserted is None else inserted.answer_to(request)
        attempt.results = (inserted.result,)
        attempt.affected = attempt.growth = {each.target.name: 1 for each in inserted.stored}
        return await encoded_insert(
            attempt.transaction_id,
            state.catalog.version,
            inserted.stored,
            insert.codec.layout.stored_name,
            (OUTCOMES, await outcome_of(attempt)),
            request.bookmark,
            request.idempotency_key,
        )

    async def _met(self, plan: InsertPlan, met: Met) -> Changed | None:
        """Carry out ON CONFLICT for the row that is there. None if it needs the general path."""
        conflict = plan.conflict
        if conflict is None or not conflict.assignments:
            return Changed(result_of(plan.returning, None, met.parameters))
        write = self.state.short_write(plan.relation.name, positions_of(conflict.assignments))
        return None if write is None else await write.met(plan, conflict, met, self.held)

    async def _inserted_many(
        self, insert: ShortInsert, plan: InsertPlan | None, work: Work
    ) -> Prepared | None:
        attempt, state = self.attempt, self.state
        new_rows = NewRows(state, attempt.numbers, self.uuids(), self.now)
        loaded = await insert_many(insert, plan, work, self.now, new_rows, self.held)
        if loaded is None:
            return None
        for counter, given in loaded.numbers:
            await attempt.numbers.move_past(counter, given)
        attempt.results = (StatementResult(loaded.rows),)
        counts = {target.name: len(puts) for target, puts in loaded.stored}
        attempt.affected = attempt.growth = counts
        return await encoded_inserts(
            attempt.transaction_id,
            state.catalog.version,
            [(target.table, puts) for target, puts in loaded.stored],
            insert.codec.layout.stored_name,
            (OUTCOMES, await outcome_of(attempt)),
            attempt.request.bookmark,
            attempt.request.idempotency_key,
        )
