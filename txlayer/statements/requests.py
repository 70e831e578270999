"""Requests to the transaction layer, and its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hornbeam_server.storage.read_ranges import ReadRange
from hornbeam_server.storage.snapshot import ReadItem

Parameters = Sequence[Any] | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Statement:
    """One INSERT, UPDATE, DELETE or MERGE with its parameters (positional `?` or `:name`).
    `session`: the last numbers of sequences that the client has taken before it, by name."""

    sql: str
    parameters: Parameters = ()
    session: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RepeatedStatement:
    """One INSERT, UPDATE, DELETE or MERGE that runs once for each set of parameters, in their
    order. Its result has the rows of all runs, and the sum of the affected rows. `session`: see
    `Statement`."""

    sql: str
    parameter_sets: Sequence[Parameters]
    session: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InsertRows:
    """Insert rows set-at-a-time. `columns` are the names of the columns in each of `rows`; other
    columns take their defaults."""

    relation: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True, slots=True)
class RepairRows:
    """Compute the rows at `keys` (encoded) of a view or index again, under locks, and write those
    that differ."""

    layout: str
    keys: tuple[bytes, ...]


SqlWork = Statement | RepeatedStatement
Work = SqlWork | InsertRows | RepairRows


@dataclass(frozen=True, slots=True)
class Precondition:
    """A condition: the row with `key` in `relation` is absent (`version` None), or has the commit
    timestamp `version`."""

    relation: str
    key: tuple[Any, ...]
    version: int | None


@dataclass(frozen=True, slots=True)
class Replay:
    """The external values that a dry run used, and digests of its results.

    When a client sends these back with the same statements, their defaults take the same values:
    `now` (milliseconds since the epoch), `numbers` (relation, column, number) in the order in
    which they were taken, and random UUIDs that follow from `seed`. `results` are digests
    of the results that the client got: a commit in which a statement has another result is refused.
    """

    now: int
    numbers: tuple[tuple[str, str, int], ...] = ()
    results: tuple[str, ...] = ()
    seed: str = ""


class OtherCatalog(Exception):
    """A request would run under another version of the catalog than the one that admitted it: its
    names may mean other relations, which the client may not use."""


def require_admitted(under: int | None, version: int) -> None:
    """Raises OtherCatalog unless a request that was admitted under a version of the catalog (None:
    under any) may run under `version`."""
    if under not in (None, version):
        raise OtherCatalog


@dataclass(frozen=True, slots=True)
class TransactionRequest:
    """One write transaction.

    `reads` are the row versions on which the client's decisions rest: if one has changed at the
    commit, the transaction ends with ReadConflict; so it does if rows were changed in one of
    `ranges`. `serializable`: the rows that the statements themselves search for are checked, too;
    if they have changed, the statements run again. `bookmark` is merged into the clock: the commit
    is later. `owner` is the client's identity (at most 16 bytes): each owner has its own
    idempotency keys and answers. `timeout_s` is the time limit in seconds; None: the default.
    `admitted_under` is the version of the catalog under which the client may send the statements;
    None: any.
    """

    statements: tuple[Work, ...]
    idempotency_key: str | None = None
    preconditions: tuple[Precondition, ...] = ()
    reads: tuple[ReadItem, ...] = ()
    ranges: tuple[ReadRange, ...] = ()
    serializable: bool = False
    bookmark: int = 0
    dry_run: bool = False
    replay: Replay | None = None
    timeout_s: float | None = None
    owner: str = ""
    admitted_under: int | None = None


@dataclass(frozen=True, slots=True)
class StatementResult:
    """The result of one statement. `affected` counts rows. `rows` are the rows of RETURNING, else
    empty; `columns` and `types` are the names and SQL types of their columns."""

    affected: int
    columns: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Timings:
    """The time of each part of a transaction in milliseconds, with its waits.

    `lock_ms` covers the statements (locking and reading) and the checks, `compute_ms` the
    maintenance of views and indexes. A short transaction has its maintenance in `lock_ms`.
    """

    plan_ms: float = 0.0
    lock_ms: float = 0.0
    compute_ms: float = 0.0
    log_ms: float = 0.0
    apply_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class TransactionResult:
    """The result of a transaction. `commit_ts` is the bookmark; 0 for a dry run. `affected` counts
    changed rows by relation, view and index. `mutations` is filled for a dry run only."""

    transaction_id: str
    commit_ts: int
    statements: tuple[StatementResult, ...]
    affected: Mapping[str, int] = field(default_factory=dict)
    timings: Timings = Timings()
    mutations: tuple[Any, ...] = ()
    replay: Replay | None = None
    """After a dry run: the `Replay` to send with the commit."""
    applied: bool = True
    """False: the transaction is committed, but no read shows it yet, because the store has not
    answered. It will be applied (HTTP 202)."""
    drawn: Mapping[str, int] = field(default_factory=dict)
    """The last numbers that it has taken from sequences, by name; the last one at the end."""
    seconds: tuple[float, ...] = ()
    """The time of each statement of several; empty if it was not measured."""
