"""A small multi-version store of lists, correct by construction, whose histories the checker
judges.

Writes read at the snapshot of their first operation and are validated when they commit: their
appends (first committer wins, which is snapshot isolation), and their reads too if the store is
`serializable`. Time is the number of steps taken.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from tests.checkers.list_append import Append, Operation, Read, Transaction

KEYS = ("x", "y", "z")


class Action(Enum):
    """The next action of a process. A crash loses the answer, before or after the commit."""

    READ = "read"
    APPEND = "append"
    COMMIT = "commit"
    ABORT = "abort"
    CRASH_BEFORE = "crash before"
    CRASH_AFTER = "crash after"
    OLD_SNAPSHOT = "old snapshot"
    BOOKMARK_SNAPSHOT = "bookmark snapshot"
    STRONG_SNAPSHOT = "strong snapshot"


Step = tuple[int, Action, str]  # process, action, key


@dataclass
class _Attempt:
    invoked: int
    snapshot: int
    operations: list[Operation] = field(default_factory=list)


class Engine:
    def __init__(self, *, serializable: bool) -> None:
        self.serializable = serializable
        self.history: list[Transaction] = []
        self._versions: dict[str, list[tuple[int, int]]] = {key: [] for key in KEYS}
        self._now = 0
        self._last_commit = 0
        self._bookmarks: dict[int, int] = {}
        self._open: dict[int, _Attempt] = {}

    def run(self, steps: list[Step]) -> list[Transaction]:
        for step in steps:
            self._take(*step)
        for process in list(self._open):
            self._take(process, Action.COMMIT, "")
        return self.history

    def state(self, at: int | None = None) -> dict[str, tuple[int, ...]]:
        at = self._last_commit if at is None else at
        return {
            key: tuple(value for ts, value in versions if ts <= at)
            for key, versions in self._versions.items()
        }

    def _take(self, process: int, action: Action, key: str) -> None:
        self._now += 1
        if action in {Action.OLD_SNAPSHOT, Action.BOOKMARK_SNAPSHOT, Action.STRONG_SNAPSHOT}:
            if process not in self._open:
                self._query(process, action, lag=KEYS.index(key))
            return
        attempt = self._open.setdefault(process, _Attempt(self._now, self._last_commit))
        if action is Action.READ:
            attempt.operations.append(Read(key, self._seen(attempt, key)))
        elif action is Action.APPEND:
            attempt.operations.append(Append(key, self._now))
        else:
            del self._open[process]
            self._end(process, attempt, action)

    def _seen(self, attempt: _Attempt, key: str) -> tuple[int, ...]:
        own = (op.value for op in attempt.operations if isinstance(op, Append) and op.key == key)
        return (*self.state(attempt.snapshot)[key], *own)

    def _query(self, process: int, action: Action, lag: int) -> None:
        at = max(0, self._last_commit - lag)
        if action is Action.STRONG_SNAPSHOT:
            at = self._last_commit
        elif action is Action.BOOKMARK_SNAPSHOT:
            at = max(at, self._bookmarks.get(process, 0))
        reads = tuple(Read(key, values) for key, values in self.state(at).items())
        self._bookmarks[process] = max(at, self._bookmarks.get(process, 0))
        self._tell(
            process,
            _Attempt(self._now, at, list(reads)),
            "ok",
            kind="snapshot",
            strong=action is Action.STRONG_SNAPSHOT,
            bookmark=action is Action.BOOKMARK_SNAPSHOT,
            snapshot_ts=at,
        )

    def _end(self, process: int, attempt: _Attempt, action: Action) -> None:
        if action is Action.CRASH_BEFORE:
            self._tell(process, attempt, "unknown")
        elif action is Action.ABORT or not self._is_valid(attempt):
            self._tell(process, attempt, "failed")
        else:
            self._last_commit += 1
            for op in attempt.operations:
                if isinstance(op, Append):
                    self._versions[op.key].append((self._last_commit, op.value))
            if action is Action.CRASH_AFTER:
                self._tell(process, attempt, "unknown")
                return
            self._bookmarks[process] = self._last_commit
            self._tell(process, attempt, "ok", bookmark=True, commit_ts=self._last_commit)

    def _is_valid(self, attempt: _Attempt) -> bool:
        checked = {
            op.key for op in attempt.operations if self.serializable or isinstance(op, Append)
        }
        newest = (versions[-1][0] for key in checked if (versions := self._versions[key]))
        return all(ts <= attempt.snapshot for ts in newest)

    def _tell(
        self,
        process: int,
        attempt: _Attempt,
        outcome: Literal["ok", "failed", "unknown"],
        **said: object,
    ) -> None:
        """Record a transaction. Under snapshot isolation timestamps do not order its reads, so they
        are left out."""
        if not self.serializable:
            said.pop("commit_ts", None)
            said.pop("snapshot_ts", None)
        self.history.append(
            Transaction(
                name=f"T{len(self.history) + 1}",
                operations=tuple(attempt.operations),
                process=str(process),
                invoked=attempt.invoked,
                completed=None if outcome == "unknown" else self._now,
                outcome=outcome,
                **said,
            )
        )
