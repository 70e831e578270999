"""What the transaction layer is asked and what it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hornbeam_server.storage.snapshot import ReadItem

Parameters = Sequence[Any] | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Statement:
    """One INSERT, UPDATE or DELETE with its parameters (positional `?` or `:name`)."""

    sql: str
    parameters: Parameters = ()


@dataclass(frozen=True, slots=True)
class InsertRows:
    """Insert rows set-at-a-time: `columns` name the values of each row; the rest take defaults."""

    relation: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True, slots=True)
class RepairRows:
    """Write what rows `keys` (encoded) of a view or index should hold, recomputed under locks."""

    layout: str
    keys: tuple[bytes, ...]


Work = Statement | InsertRows | RepairRows


@dataclass(frozen=True, slots=True)
class Precondition:
    """Row `key` of `relation` must be absent (`version` None) or be at commit ts `version`."""

    relation: str
    key: tuple[Any, ...]
    version: int | None


@dataclass(frozen=True, slots=True)
class Replay:
    """What a dry run took from outside, and what came of it.

    Given back with the same statements, their defaults take the same values: `now` (milliseconds
    since the epoch) and `numbers` (relation, column, number) in the order they were taken. A
    commit is refused where a statement's result is not the one told (`results`: digests).
    """

    now: int
    numbers: tuple[tuple[str, str, int], ...] = ()
    results: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TransactionRequest:
    """All of one write transaction.

    `reads` are the row versions that the client's decisions rest on: if one has changed at
    commit, ReadConflict. `bookmark` is merged into the clock: the commit is later than it.
    `snapshot` is where the client's reads were made (WHEREs are then evaluated there first).
    `owner` is whoever asks (at most 16 bytes): idempotency keys and answers are each owner's own.
    """

    statements: tuple[Work, ...]
    idempotency_key: str | None = None
    preconditions: tuple[Precondition, ...] = ()
    reads: tuple[ReadItem, ...] = ()
    bookmark: int = 0
    dry_run: bool = False
    replay: Replay | None = None
    timeout_s: float | None = None
    owner: str = ""


@dataclass(frozen=True, slots=True)
class StatementResult:
    """`rows` are RETURNING's, empty otherwise; `columns` their names; `types` their SQL types."""

    affected: int
    columns: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Timings:
    """Milliseconds spent waiting for and doing each part.

    `lock_ms` covers the statements (locking, reading) and the checks, `compute_ms` the upkeep of
    views and indexes.
    """

    plan_ms: float = 0.0
    lock_ms: float = 0.0
    compute_ms: float = 0.0
    log_ms: float = 0.0
    apply_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class TransactionResult:
    """`commit_ts` is the bookmark; 0 for a dry run. `affected` counts mutations per relation,
    view and index. `mutations` is filled for a dry run only."""

    transaction_id: str
    commit_ts: int
    statements: tuple[StatementResult, ...]
    affected: Mapping[str, int] = field(default_factory=dict)
    timings: Timings = Timings()
    mutations: tuple[Any, ...] = ()
    replay: Replay | None = None
    """Of a dry run: what to send along with the commit."""
    applied: bool = True
    """False: committed, but the store does not answer; it will be applied (HTTP 202)."""
