"""What a run has measured, as a document: written by the measuring program, read by the report.

Nothing in it is derived: medians, ratios and goals are the report's. Mappings are by name, in the
order in which they were measured; what a system was not asked is absent, what it could not do is a
`Timing` with its error. A document of another `FORMAT` is refused, never guessed at.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

FORMAT = 1
"""A field that may be absent can be added without another number."""

HORNBEAM = "Hornbeam"
PHOENIX = "Phoenix plain"
BASELINE = "Baseline"
MVCC_A = "MVCC-A"
PAPER = "Paper"
POSTGRES = "PostgreSQL"
POSTGRES_VIEWS = "PostgreSQL, materialised views"

ROOTS_EACH = "Hornbeam, rows of a root each"
ONE_ROOT = "Hornbeam, rows of one root"
PAPER_LOCKS = "Paper, locks alone"
LOCKS = (ROOTS_EACH, ONE_ROOT, PAPER_LOCKS)

PIECES = ("plan", "lock and read", "compute", "log", "apply", "answer", "way")
"""`answer`: the node's own time for a read; `way`: what the client waits beyond the node's own time
(HTTP, JSON, the system)."""

Kind = Literal["join", "read", "write"]


@dataclass(frozen=True, slots=True)
class Statement:
    """Of the workload. `kind`: a write, a read of several relations, or of one; `view`: Hornbeam
    answers it from a view."""

    name: str
    sql: str
    kind: Kind
    view: bool = False


@dataclass(frozen=True, slots=True)
class Timing:
    """What was asked of one system, after its warm-up: how long each run took, and how many rows
    all of them gave together. `error`: why there are no times, or no more of them. `equal`: every
    answer was the reference's; None: nothing to compare."""

    times_ms: tuple[float, ...] = ()
    error: str | None = None
    rows: int = 0
    equal: bool | None = None


@dataclass(frozen=True, slots=True)
class Throughput:
    """So many shoppers at so many nodes of Hornbeam, or on another system, each interaction after
    the one before, for `seconds`. The percentiles are of the requests, which are too many to keep;
    `cores`: how many were busy, by who kept them so."""

    mix: str
    nodes: int
    clients: int
    seconds: float
    interactions: int
    errors: int
    p50_ms: float
    p99_ms: float
    cores: Mapping[str, float]
    error: str | None = None
    """What the last one said."""


@dataclass(frozen=True, slots=True)
class Contention:
    """`clients` at once update one row after the other for `seconds`; which, is drawn by Zipf's law
    with the exponent `skew`. `refused`: the system gave up; the times are of what was `done`."""

    skew: float
    clients: int
    seconds: float
    done: int
    refused: int
    p50_ms: float
    p99_ms: float
    error: str | None = None
    """What the last refusal said."""


@dataclass(frozen=True, slots=True)
class Results:
    """One run. `systems` is the order of display; `options` what it was started with, seeds
    included, `command` how."""

    began: str
    command: str
    options: Mapping[str, Any]
    machine: Mapping[str, Any]
    versions_by_system: Mapping[str, Mapping[str, str]]
    systems: tuple[str, ...]
    statements: tuple[Statement, ...]
    timings: Mapping[str, Mapping[str, Timing]]
    """By system and statement."""
    storage: Mapping[str, Mapping[str, int]]
    """Bytes by system and table."""
    bare: Mapping[str, Timing]
    """Operations of HBase without anything on it."""
    joins: Mapping[int, Mapping[str, Mapping[str, Timing]]] = field(default_factory=dict)
    """Whole joins, by customers, query (`Q1`: two relations, `Q2`: three) and `way`."""
    load_rows_s: Mapping[str, float] = field(default_factory=dict)
    locks: Mapping[str, Mapping[int, Timing]] = field(default_factory=dict)
    """By what took them (`LOCKS`) and how many: a transaction, or the taking and giving back."""
    contention: Mapping[str, tuple[Contention, ...]] = field(default_factory=dict)
    """By system, in the order of skews."""
    throughput: tuple[Throughput, ...] = ()
    """Of Hornbeam, by nodes."""
    shopping: Mapping[str, tuple[Throughput, ...]] = field(default_factory=dict)
    """By system, with Hornbeam at one node."""
    pieces: Mapping[str, Mapping[str, Timing]] = field(default_factory=dict)
    """Of Hornbeam's requests when it has one client: by statement and piece (`PIECES`), each run's
    milliseconds; a read has only the last two."""
    format: int = FORMAT


class OtherFormat(ValueError):
    """Not a document of this version."""


def way(system: str, *, view: bool) -> str:
    """How a whole join was answered: by a scan of the view, or by joining."""
    return f"{system}, {'view' if view else 'join'}"


def encode(results: Results) -> bytes:
    return msgspec.json.format(msgspec.json.encode(results)) + b"\n"


def decode(document: bytes) -> Results:
    """Raises OtherFormat."""
    try:
        found = msgspec.json.decode(document, type=Results)
    except msgspec.DecodeError as error:
        raise OtherFormat(f"This is no document of a run: {error}.") from error
    if found.format != FORMAT:
        raise OtherFormat(f"Format {found.format} is not {FORMAT}; run the benchmark again.")
    return found
