"""The cost of a node's statements by their text, like PostgreSQL's pg_stat_statements.

Texts that differ only in literals are counted together. The counts are kept in memory: they begin
with the node's term, and each node has its own. A statement is counted when it ends. A statement
that cannot be planned is not counted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from hornbeam_server.query.engine import SHORT, QueryStream
from hornbeam_server.query.sharing import split
from hornbeam_server.schema.errors import HornbeamError
from hornbeam_server.storage.ports import Clock
from hornbeam_server.storage.snapshot import Snapshot
from hornbeam_server.txlayer.statements.requests import (
    SqlWork,
    TransactionRequest,
    TransactionResult,
)

MAX_CHARACTERS = 10_000
"""Texts are compared, and shown, up to this length."""
KEPT = 0.9
"""The part of the counts that is kept when a text comes that is one too many."""
TEXTS = 4_096
"""Maximum number of texts, with their literals, whose counts are found without a comparison."""


@dataclass(slots=True)
class StatementCount:
    """The counts of one text since `first_ms`. `rows` are those of results, or those that were
    written; `rows_read` those that came from the store, 0 for statements that write."""

    sql: str
    writes: bool
    first_ms: int
    last_s: float = 0.0
    """The end of the last call, by the clock of the statistics (`now`)."""
    calls: int = 0
    failed: int = 0
    seconds: float = 0.0
    most_s: float = 0.0
    rows: int = 0
    rows_read: int = 0
    served_by: tuple[str, ...] = ()
    """The relations, views and indexes that the last call read or changed."""


class Running:
    """A query under way. `run` is called when its rows begin to come."""

    def __init__(self) -> None:
        self._stream: QueryStream | None = None
        self._snapshot: Snapshot | None = None
        self.served_by: tuple[str, ...] = ()

    def run(self, stream: QueryStream, snapshot: Snapshot, served_by: tuple[str, ...]) -> None:
        self._stream, self._snapshot, self.served_by = stream, snapshot, served_by

    @property
    def rows(self) -> int:
        return 0 if self._stream is None else self._stream.returned

    @property
    def rows_read(self) -> int:
        return 0 if self._snapshot is None else self._snapshot.rows_read


class StatementStatistics:
    """The counts of at most `most` texts; 0: nothing is counted."""

    def __init__(self, clock: Clock, most: int) -> None:
        self._clock = clock
        self.most = most
        self._counts: dict[str, StatementCount] = {}
        self._found: dict[str, StatementCount] = {}
        """The counts by the texts with their literals."""
        self.since_ms = clock.wall_ms()
        self.now = clock.monotonic
        """The time in seconds at which a call begins."""

    def counts(self) -> list[StatementCount]:
        """All counts, in no order."""
        return list(self._counts.values())

    def reset(self) -> None:
        """Forget all counts."""
        self._counts.clear()
        self._found.clear()
        self.since_ms = self._clock.wall_ms()

    def read(
        self, sql: str, began: float, rows: int, rows_read: int, served_by: tuple[str, ...]
    ) -> None:
        """Count a query that has ended. `began` is a time of `now`."""
        count = self._found.get(sql)
        if count is None:
            if not self.most:
                return
            count = self._of(sql, writes=False)
        count.rows_read += rows_read
        now = self.now()
        _add(count, now, now - began, rows, served_by)

    @contextlib.contextmanager
    def reading(self, sql: str, began: float) -> Iterator[Running]:
        """Count a query when the context ends; as failed, if that is by an error of ours."""
        running, failed = Running(), 0
        try:
            yield running
        except HornbeamError:
            failed = 1
            raise
        finally:
            if self.most:
                self._of(sql, writes=False).failed += failed
                self.read(sql, began, running.rows, running.rows_read, running.served_by)

    def wrote(self, request: TransactionRequest, result: TransactionResult, began: float) -> None:
        """Count the statements of a transaction that has ended. A single statement takes the time
        of its transaction; one of several takes its own, without that of the commit."""
        if not self.most:
            return
        now, alone = self.now(), len(request.statements) == 1
        changed = tuple(sorted(result.affected)) if alone else ()
        spent = (now - began,) if alone else result.seconds
        for work, each, seconds in zip(request.statements, result.statements, spent, strict=False):
            if isinstance(work, SqlWork):
                count = self._of(work.sql, writes=True)
                _add(count, now, seconds, each.affected, changed)

    def refused(self, request: TransactionRequest, began: float) -> None:
        """Count a transaction that has ended with an error, if it has only one statement."""
        if not self.most or len(request.statements) != 1:
            return
        (work,) = request.statements
        if isinstance(work, SqlWork):
            count, now = self._of(work.sql, writes=True), self.now()
            count.failed += 1
            _add(count, now, now - began, 0, count.served_by)

    def last_ms(self, count: StatementCount) -> int:
        """The time at which the last call of a statement has ended."""
        return self._clock.wall_ms() - round((self.now() - count.last_s) * 1000)

    def _of(self, sql: str, *, writes: bool) -> StatementCount:
        found = self._found.get(sql)
        if found is None:
            text = compared(sql)
            found = self._counts.get(text)
            if found is None:
                if len(self._counts) >= self.most:
                    self._drop()
                found = self._counts[text] = StatementCount(text, writes, self._clock.wall_ms())
            if len(sql) <= SHORT:
                if len(self._found) >= TEXTS:
                    self._found.clear()
                self._found[sql] = found
        return found

    def _drop(self) -> None:
        """Forget the counts that matter least: of single calls before others, of early ones before
        late ones."""
        by_worth = sorted(
            self._counts.values(), key=lambda count: (count.calls > 1, count.last_s), reverse=True
        )
        kept = by_worth[: int(self.most * KEPT)]
        self._counts = {count.sql: count for count in kept}
        self._found.clear()


def _add(
    count: StatementCount, now: float, seconds: float, rows: int, served_by: tuple[str, ...]
) -> None:
    """Add a call that ends `now`."""
    count.calls += 1
    count.seconds += seconds
    if seconds > count.most_s:  # noqa: PLR1730 (quicker than max, in each short query)
        count.most_s = seconds
    count.rows += rows
    count.served_by = served_by
    count.last_s = now


def compared(sql: str) -> str:
    """The text by which a statement is counted: with `?` in place of its literals, if its form is
    usual and its length is at most `SHORT`."""
    found = split(sql) if len(sql) <= SHORT else None
    if found is not None:
        sql = found.with_literals(dict.fromkeys(range(len(found.literals)), "?"))
    return sql[:MAX_CHARACTERS]
