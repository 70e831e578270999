"""Transactions on their way through the committer, and the batches in which they are logged."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from hornbeam_server.schema.errors import HornbeamError, OutcomeUnknown
from hornbeam_server.schema.types import Row
from hornbeam_server.storage.log.records import merged_writes
from hornbeam_server.storage.logged import Layer
from hornbeam_server.storage.ports import START, Position, Put
from hornbeam_server.storage.tracing import Span
from hornbeam_server.txlayer.commit.lanes import LaneAddition, LaneCell


@dataclass(frozen=True, slots=True)
class Prepared:
    """A transaction that has passed every check and holds its locks, encoded (`encoded`).

    `writes` are the puts of all stored rows that change, by physical table; `payload` is its record
    in the log, in consecutive pieces. `additions` are its changes of immediate views. The commit
    must be later than the timestamp `not_before` (the client's bookmark).
    """

    transaction_id: str
    catalog_version: int
    writes: Mapping[str, Sequence[Put]]
    payload: Sequence[bytes]
    not_before: int = 0
    additions: Sequence[LaneAddition] = ()

    @property
    def logged_bytes(self) -> int:
        return sum(map(len, self.payload))


@dataclass(frozen=True, slots=True)
class Committed:
    """The result of a commit. `log_ms` includes the wait for the batch. `readable`: reads of this
    process show the transaction (`Committer.reader`). `applied_future` is done once the puts are in
    the store, None if they were at the answer; until then the transaction's locks must be kept."""

    ts: int
    log_ms: float
    apply_ms: float
    readable: bool
    applied_future: asyncio.Future[None] | None = None


@dataclass(eq=False, slots=True)
class Waiting:
    """One transaction on its way through the committer."""

    prepared: Prepared
    since: float
    answer: asyncio.Future[Committed]
    applied: asyncio.Future[None] | None = None
    trace: Span | None = None
    """The span of the transaction; None: it is not traced."""
    step: Span | None = None
    """The span of its log, and then that of its apply."""

    def begin(self, step: str) -> None:
        """End the span of the step before, and begin that of this one."""
        if self.trace is not None:
            self.end()
            self.step = self.trace.child(step, {})

    def end(self, error: HornbeamError | None = None) -> None:
        if self.step is not None:
            self.step.end(error)


class Queue(asyncio.Queue[Waiting]):
    """The transactions that wait for the log, which can be listed."""

    _queue: deque[Waiting]

    def __iter__(self) -> Iterator[Waiting]:
        return iter(self._queue)


@dataclass(eq=False)
class Batch:
    ts: int
    members: list[Waiting]
    logged_at: float | None = None
    end: Position = START
    before: Mapping[LaneCell, Row] = field(default_factory=dict)
    """The values of the cells that the batch changes, before the batch."""
    cells: Mapping[str, Sequence[Put]] = field(default_factory=dict)
    """The cells that the batch changes, as stored, by table."""
    layer: Layer | None = None
    """The rows of the batch, while they are laid over the store."""

    @cached_property
    def writes(self) -> Mapping[str, Sequence[Put]]:
        """All rows that the batch writes, by table."""
        return merged_writes([*(w.prepared.writes for w in self.members), self.cells])

    @property
    def step(self) -> Span | None:
        """The span of a member, which stands for all of them; None: no member is traced."""
        return next((w.step for w in self.members if w.step is not None), None)


def refuse(waiting: Waiting, error: HornbeamError) -> None:
    waiting.end(error)
    if not waiting.answer.done():
        waiting.answer.set_exception(error)


def unknown(waiting: Waiting) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"The log failed while transaction {waiting.prepared.transaction_id} was written to it.",
        cure="Ask for the transaction by its id after the restart.",
        transaction_id=waiting.prepared.transaction_id,
    )
