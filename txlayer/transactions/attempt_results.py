"""One attempt of a transaction, as the manager runs it: its locks, and its results so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from hornbeam_server.storage.ports import Put
from hornbeam_server.storage.read_ranges import ReadRange
from hornbeam_server.txlayer.commit.batches import Committed
from hornbeam_server.txlayer.locking.locks import LockOwner
from hornbeam_server.txlayer.statements.identity_columns import Numbers
from hornbeam_server.txlayer.statements.requests import (
    StatementResult,
    Timings,
    TransactionRequest,
    TransactionResult,
)
from hornbeam_server.txlayer.transactions.outcomes import NO_HASH, encode_outcome, request_hash


async def outcome_of(attempt: Attempt) -> Put:
    """The outcome of a transaction that is about to commit."""
    request = attempt.request
    outcome = await encode_outcome(
        NO_HASH if request.idempotency_key is None else request_hash(request),
        attempt.results,
        attempt.affected,
        request.owner,
        attempt.numbers.drawn,
    )
    return Put(bytes.fromhex(attempt.transaction_id), outcome)


class Attempt:
    """One attempt of a transaction, and its results so far."""

    def __init__(
        self,
        request: TransactionRequest,
        transaction_id: str,
        owner: LockOwner,
        deadline: float,
        searched: Sequence[ReadRange],
        number: int = 1,
    ) -> None:
        """`searched`: the ranges that the statements of the previous attempt have read. `number`:
        it is the transaction's first attempt, the second, and so on."""
        self.request = request
        self.number = number
        self.searched = searched
        self.ranges: list[ReadRange] = []
        """The ranges that its statements have read, if it is serializable."""
        self.transaction_id = transaction_id
        self.owner = owner
        self.deadline = deadline
        self.numbers: Numbers
        self.results: tuple[StatementResult, ...] = ()
        self.affected: Mapping[str, int] = {}
        self.growth: Mapping[str, int] = {}
        self.laps: list[float] = []
        """The times at which the first statement began and each one ended."""
        self.plan_ms = self.lock_ms = self.compute_ms = 0.0

    def result(self, commit_ts: int, committed: Committed | None = None) -> TransactionResult:
        logged = (0.0, 0.0) if committed is None else (committed.log_ms, committed.apply_ms)
        return TransactionResult(
            self.transaction_id,
            commit_ts,
            self.results,
            self.affected,
            Timings(self.plan_ms, self.lock_ms, self.compute_ms, *logged),
            applied=committed is None or committed.readable,
            drawn=self.numbers.drawn,
            seconds=tuple([end - begin for begin, end in pairwise(self.laps)]),
        )
