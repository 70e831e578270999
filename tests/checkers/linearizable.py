"""Linearizability of operations on independent keys, judged by Porcupine.

The judge is the Go program in `linearizability/`. It is built once for each state of its sources,
into the user's cache. Linearizable here means: each key by itself behaves as one row that answers
one operation at a time, in an order that agrees with real time. Keys are independent, as the rows
of different roots are.

Operations of unknown outcome stay open: they may take effect at any later time, or never. When the
judge runs out of time, that is an error and no verdict.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Literal

from tests.programs import GoError, go_built

SOURCES = Path(__file__).with_name("linearizability")
TIMEOUT_MS = 10_000


class _NotReported(Enum):
    NOT_REPORTED = "not reported"


NOT_REPORTED = _NotReported.NOT_REPORTED


class CheckerError(Exception):
    """There is no verdict: no judge, no time, or an invalid history."""


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of a process on the row of `key`, and its answer. None stands for no row.

    | kind | argument | result |
    | --- | --- | --- |
    | read | – | the number, or None |
    | write | the number, or None to delete | – |
    | add | the number to add; without a row it does nothing | the sum, or None |
    | cas | the number that replaces `expected`, either may be None | whether it did |

    `call` and `returned` are times of one clock, in any unit. `result` may be NOT_REPORTED for add
    and cas. Operations that failed had no effect and are left out.
    """

    process: int
    key: str
    kind: Literal["read", "write", "add", "cas"]
    call: int
    returned: int | None
    argument: int | None = None
    expected: int | None = None
    result: int | bool | _NotReported | None = NOT_REPORTED
    outcome: Literal["ok", "failed", "unknown"] = "ok"

    def _json(self) -> dict[str, Any]:
        said = {
            "process": self.process,
            "key": self.key,
            "kind": self.kind,
            "argument": self.argument,
            "expected": self.expected,
            "call": self.call,
            "return": self.returned,
            "outcome": self.outcome,
        }
        return said if self.result is NOT_REPORTED else said | {"result": self.result}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the history is linearizable; if not, a key that is not, and why."""

    linearizable: bool
    key: str | None = None
    description: str = ""


@dataclass(frozen=True, slots=True)
class History:
    """Operations, and the initial rows; other keys have none."""

    operations: Sequence[Operation]
    initial: Mapping[str, int] = field(default_factory=dict)


def check(
    operations: Iterable[Operation],
    initial: Mapping[str, int] | None = None,
    *,
    timeout_ms: int = TIMEOUT_MS,
) -> Verdict:
    """Judge one history. Raises CheckerError when there is no verdict."""
    return check_all([History(tuple(operations), initial or {})], timeout_ms=timeout_ms)[0]


def check_all(histories: Iterable[History], *, timeout_ms: int = TIMEOUT_MS) -> list[Verdict]:
    """Judge many histories with one start of the judge; `timeout_ms` is for each key.

    Raises CheckerError when one of them has no verdict.
    """
    lines = [
        json.dumps(
            {
                "timeout_ms": timeout_ms,
                "initial": dict(history.initial),
                "operations": [operation._json() for operation in history.operations],
            }
        )
        for history in histories
    ]
    run = subprocess.run(
        [program()], input="\n".join(lines), capture_output=True, text=True, check=False
    )
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    if run.returncode or len(answers) != len(lines):
        raise CheckerError(run.stderr.strip() or "the judge answered too little")
    return [_verdict(number, answer) for number, answer in enumerate(answers)]


def _verdict(number: int, answer: Mapping[str, str]) -> Verdict:
    if answer["verdict"] == "unknown":
        raise CheckerError(f"history {number}, key {answer['key']}: {answer['description']}")
    return Verdict(answer["verdict"] == "ok", answer.get("key"), answer.get("description", ""))


def program() -> Path:
    """The judge, built if the cache has none of these sources. Raises CheckerError."""
    try:
        return go_built(SOURCES)
    except GoError as error:
        raise CheckerError(f"the linearizability checker is a Go program: {error}") from None
