"""The results of a run as a document. The measuring program writes it, the report reads it.

The document contains only measurements: the report derives medians, ratios and goals. Mappings are
by name, in the order of the measurements. A statement that a system did not run is absent; a
statement that failed is a `Timing` with its error. A document of another `FORMAT` is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

FORMAT = 1
"""The version of the document. A new optional field does not change it."""

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
"""The parts of a request's time. `answer`: the node's own time of a read. `way`: the client's time
beyond the node's own time (HTTP, JSON, the system)."""

Kind = Literal["join", "read", "write"]


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of the workload. `kind`: a write, a read of several relations (a join), or a read
    of one. `view`: whether Hornbeam answers it from a view."""

    name: str
    sql: str
    kind: Kind
    view: bool = False


@dataclass(frozen=True, slots=True)
class Timing:
    """The runs of a statement on a system, after its warm-up: the time of each run, and the number
    of rows of all runs together. `error`: the reason why times are missing. `equal`: whether every
    answer equals the reference's; None without a comparison."""

    times_ms: tuple[float, ...] = ()
    error: str | None = None
    rows: int = 0
    equal: bool | None = None


@dataclass(frozen=True, slots=True)
class Throughput:
    """A run of `clients` emulated browsers for `seconds` on a system, with Hornbeam at `nodes`
    nodes. Each browser sends one interaction after the other. The percentiles are of the requests,
    which are too many to store. `cores`: busy cores by group of processes."""

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
    """The message of the last error."""


@dataclass(frozen=True, slots=True)
class Contention:
    """A run of `clients` concurrent clients for `seconds`. Each updates one row after the other;
    Zipf's law with the exponent `skew` draws the rows. `done` and `refused` are numbers of updates.
    The percentiles are of the updates that succeeded."""

    skew: float
    clients: int
    seconds: float
    done: int
    refused: int
    p50_ms: float
    p99_ms: float
    error: str | None = None
    """The message of a client's last refusal."""


@dataclass(frozen=True, slots=True)
class Results:
    """The results of a run. `systems` is the order of display. `options` are the run's options,
    including seeds. `command` is its command line."""

    began: str
    command: str
    options: Mapping[str, Any]
    machine: Mapping[str, Any]
    versions_by_system: Mapping[str, Mapping[str, str]]
    systems: tuple[str, ...]
    statements: tuple[Statement, ...]
    timings: Mapping[str, Mapping[str, Timing]]
    """Timings by system and statement."""
    storage: Mapping[str, Mapping[str, int]]
    """Bytes by system and table."""
    bare: Mapping[str, Timing]
    """Bare operations of HBase, by name."""
    joins: Mapping[int, Mapping[str, Mapping[str, Timing]]] = field(default_factory=dict)
    """Whole joins by number of customers, query (`Q1`: two relations, `Q2`: three) and `way`."""
    load_rows_s: Mapping[str, float] = field(default_factory=dict)
    locks: Mapping[str, Mapping[int, Timing]] = field(default_factory=dict)
    """By kind (`LOCKS`) and number of rows: the time of a transaction, or of taking and releasing
    locks."""
    contention: Mapping[str, tuple[Contention, ...]] = field(default_factory=dict)
    """Results by system, in the order of skews."""
    throughput: tuple[Throughput, ...] = ()
    """Throughput of Hornbeam with several numbers of nodes."""
    shopping: Mapping[str, tuple[Throughput, ...]] = field(default_factory=dict)
    """Throughput by system, with Hornbeam at one node."""
    pieces: Mapping[str, Mapping[str, Timing]] = field(default_factory=dict)
    """Hornbeam's requests of a single client, by statement and piece (`PIECES`): the milliseconds
    of each run. A read has only the last two pieces."""
    format: int = FORMAT


class OtherFormat(ValueError):
    """The document has another version, or is not a document of a run."""


def way(system: str, *, view: bool) -> str:
    """The name of a whole join's access path on a system: a scan of the view, or a join."""
    return f"{system}, {'view' if view else 'join'}"


def encode(results: Results) -> bytes:
    return msgspec.json.format(msgspec.json.encode(results)) + b"\n"


def decode(document: bytes) -> Results:
    """Parse a document. Raises OtherFormat."""
    try:
        found = msgspec.json.decode(document, type=Results)
    except msgspec.DecodeError as error:
        raise OtherFormat(f"This is not a document of a run: {error}.") from error
    if found.format != FORMAT:
        raise OtherFormat(f"Format {found.format} is not {FORMAT}; run the benchmark again.")
    return found
