"""Histories of list-append transactions: requests of clients, their times, and their answers.

A key holds a list. A transaction appends values, each only once in a history, and reads whole
lists, so that every read shows in what order values were appended. `parse` reads the text notation
of README.md, in which the hand-written histories are written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Append:
    key: str
    value: int


@dataclass(frozen=True, slots=True)
class Read:
    """A read of the whole list; `values` is None when the client got no answer."""

    key: str
    values: tuple[int, ...] | None


Operation = Append | Read


@dataclass(frozen=True, slots=True)
class Transaction:
    """One transaction or query, as its client observed it. Times are of one clock, in any unit.

    `completed` is None when no answer came. A `snapshot` is a read-only query; it may be older than
    real time unless it is `strong`. `bookmark` says that the client passed on the newest timestamp
    in the answers to earlier transactions of `process`: that of a write, the S of a query.
    `commit_ts` is the timestamp in a write's answer, `snapshot_ts` the S at which a snapshot read.
    `roots` are the roots that it locked or read; None stands for its keys, each a root of its own.
    """

    name: str
    operations: tuple[Operation, ...]
    process: str
    invoked: float
    completed: float | None
    outcome: Literal["ok", "failed", "unknown"] = "ok"
    kind: Literal["write", "snapshot"] = "write"
    strong: bool = False
    bookmark: bool = False
    commit_ts: int | None = None
    snapshot_ts: int | None = None
    roots: frozenset[str] | None = None

    def __post_init__(self) -> None:
        if self.completed is not None and self.completed < self.invoked:
            raise ValueError(f"{self.name} completed before it was invoked")
        if self.outcome == "ok" and self.completed is None:
            raise ValueError(f"{self.name} is ok, so say when it completed")
        if self.kind == "snapshot" and any(self.appends()):
            raise ValueError(f"{self.name} is a snapshot read, so it cannot append")

    def appends(self) -> Iterator[Append]:
        return (op for op in self.operations if isinstance(op, Append))

    def reads(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """The keys and lists of the reads that were answered."""
        for op in self.operations:
            if isinstance(op, Read) and op.values is not None:
                yield op.key, op.values

    def shared_roots(self) -> frozenset[str]:
        return frozenset(op.key for op in self.operations) if self.roots is None else self.roots


Final = dict[str, tuple[int, ...]]

_OPERATION = re.compile(r"(?P<key>\w+)(?:\+(?P<value>\d+)|=(?P<unseen>\?)|=\[(?P<list>[\d,]*)\])")
_TIMES = re.compile(r"(?P<invoked>\d+)-(?P<completed>\d+|\?)")


def parse(text: str) -> tuple[list[Transaction], Final | None]:
    """The transactions of a history in text notation, and its final state when it gives one."""
    history: list[Transaction] = []
    final: Final | None = None
    for line in filter(None, (line.partition("#")[0].strip() for line in text.splitlines())):
        head, _, body = line.partition(":")
        name, *attributes = head.split()
        operations = tuple(_operation(word) for word in body.split())
        if name == "final":
            final = {op.key: op.values or () for op in operations if isinstance(op, Read)}
        else:
            history.append(_transaction(name, attributes, operations))
    return history, final


def _operation(word: str) -> Operation:
    match = _OPERATION.fullmatch(word)
    if match is None:
        raise ValueError(f"not an operation: {word}")
    if match["value"]:
        return Append(match["key"], int(match["value"]))
    if match["unseen"]:
        return Read(match["key"], None)
    return Read(match["key"], tuple(int(value) for value in match["list"].split(",") if value))


def _transaction(
    name: str, attributes: list[str], operations: tuple[Operation, ...]
) -> Transaction:
    said: dict[str, Any] = {"process": name, "invoked": 0, "completed": 1000}
    for word in attributes:
        label, _, value = word.partition("=")
        if times := _TIMES.fullmatch(word):
            said["invoked"] = int(times["invoked"])
            said["completed"] = None if times["completed"] == "?" else int(times["completed"])
        elif word.startswith("@"):
            said["process"] = word[1:]
        elif word in {"ok", "failed", "unknown"}:
            said["outcome"] = word
        elif word == "snapshot":
            said["kind"] = word
        elif word in {"strong", "bookmark"}:
            said[word] = True
        elif label in {"ts", "S"}:
            said[{"ts": "commit_ts", "S": "snapshot_ts"}[label]] = int(value)
        elif label == "roots":
            said["roots"] = frozenset(value.split(","))
        else:
            raise ValueError(f"{name}: not an attribute: {word}")
    return Transaction(name=name, operations=operations, **said)
