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

HORNBEAM = "Hornbeam"
PHOENIX = "Phoenix plain"
BASELINE = "Baseline"
MVCC_A = "MVCC-A"
PAPER = "Paper"
POSTGRES = "PostgreSQL"
POSTGRES_VIEWS = "PostgreSQL, materialised views"

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
