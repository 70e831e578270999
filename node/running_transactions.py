"""The transactions of a node that are under way, for operators: each with its age, and the lock for
which it waits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from hornbeam_server.schema.errors import Corruption
from hornbeam_server.schema.types import Value
from hornbeam_server.storage.codec.rows import Codecs
from hornbeam_server.txlayer.locking.locks import LockName
from hornbeam_server.txlayer.statements.requests import InsertRows, RepairRows, Work
from hornbeam_server.txlayer.transactions.attempt_results import Attempt

SHOWN = 10
"""Maximum number of a transaction's statements that are shown."""
SHOWN_CHARACTERS = 1_000
"""Maximum characters of each of them."""


@dataclass(frozen=True, slots=True)
class ShownLock:
    """A lock as operators read it: of the root or row of a relation with a key, or of a value of a
    unique index. `key` is None if the kind has none, or it cannot be read under the catalog."""

    kind: str
    name: str
    key: tuple[Value, ...] | None

    def __str__(self) -> str:
        key = "" if self.key is None else f"({', '.join(map(str, self.key))})"
        return " ".join(filter(None, (self.kind, self.name, key)))


@dataclass(frozen=True, slots=True)
class RunningTransaction:
    """A transaction under way. `state` is "runs", "waits" for `lock`, at `node` if another node
    grants it, or "commits": it was handed to the log. `number` counts its attempts from 1; `held`
    the locks that this node has granted to it."""

    transaction_id: str
    owner: str
    began_ms: int
    number: int
    state: str
    lock: ShownLock | None
    node: str
    held: int
    statements: tuple[str, ...]
    more: int
    """The number of statements that are not shown."""


def running_transactions(attempts: Iterable[Attempt], codecs: Codecs) -> list[RunningTransaction]:
    """The attempts that are under way, the oldest transaction first."""
    found = [_shown(attempt, codecs) for attempt in attempts]
    return sorted(found, key=lambda each: each.began_ms)


def _shown(attempt: Attempt, codecs: Codecs) -> RunningTransaction:
    owner, statements = attempt.owner, attempt.request.statements
    name, node = _awaited(attempt)
    state = "commits" if owner.committing else "runs" if name is None else "waits"
    return RunningTransaction(
        attempt.transaction_id,
        attempt.request.owner,
        owner.age[0],
        attempt.number,
        state,
        None if name is None else shown_lock(name, codecs),
        node,
        len(owner.held),
        tuple(map(_text, statements[:SHOWN])),
        max(len(statements) - SHOWN, 0),
    )


def _awaited(attempt: Attempt) -> tuple[LockName | None, str]:
    """The lock for which an attempt waits, and the other node that grants it."""
    owner = attempt.owner
    if owner.asking is not None:
        node, names = owner.asking
        return names[0], node
    return (None, "") if owner.waiting is None else (owner.waiting[0], "")


def shown_lock(name: LockName, codecs: Codecs) -> ShownLock:
    """A lock by its name (txlayer/transactions/attempt.py)."""
    kind, *rest = name
    texts: Sequence[Any] = [each for each in rest if isinstance(each, str)]
    keys = [each for each in rest if isinstance(each, bytes)]
    layout = str(texts[0]) if texts else ""
    return ShownLock(str(kind), layout, _key(layout, keys[0], codecs) if keys else None)


def _key(layout: str, key: bytes, codecs: Codecs) -> tuple[Value, ...] | None:
    try:
        return codecs(layout).decode_key(key)
    except (Corruption, KeyError):
        return None


def _text(work: Work) -> str:
    match work:
        case InsertRows():
            return f"load {len(work.rows)} rows into {work.relation}"
        case RepairRows():
            return f"repair rows of {work.layout}"
    return work.sql[:SHOWN_CHARACTERS]
