"""Findings and their sums: plain frozen values that executors send to the driver.

Each key of a stored table counts at most once. So a row under a wrong key is two differences:
misplaced under that key, and missing under the right key. The number of differences is the number
of rows to be written.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from hornbeam_server.schema.types import Row

SAMPLES = 5
"""Differences of each range that a report shows in full."""
KEPT_KEYS = 5_000
"""Keys of differences that a range stores for repair. All differences are counted."""


class Fault(enum.StrEnum):
    """The kind of a difference at a key."""

    MISSING = "missing"
    """Nothing is stored. For a foreign key: a row has no parent."""
    EXTRA = "extra"
    """A row is stored, and none should be. For a CHECK: a row breaks it."""
    DIFFERENT = "different"
    """Another row is stored that belongs under this key."""
    MISPLACED = "misplaced"
    """A row is stored that belongs under another key."""
    UNDECODABLE = "undecodable"
    """The stored value is no row of this table."""


class Kind(enum.StrEnum):
    """The kind of an object that is checked."""

    VIEW = "view"
    INDEX = "index"
    IMMEDIATE_VIEW = "immediate view"
    DEFERRED_VIEW = "deferred view"
    STATE = "state"
    """The internal state of a declared view: counts and sums of a deferred view, values of an
    immediate view."""
    RELATION = "relation"
    """A relation is the reference: the check is only that its rows can be decoded and lie under
    their keys."""
    FOREIGN_KEY = "foreign key"
    CHECK = "CHECK"


class Difference(NamedTuple):
    """The row that is stored at `key` and the row that is expected, where they are known."""

    fault: Fault
    key: bytes
    stored: Row | None
    expected: Row | None


class Range(NamedTuple):
    """Keys from `start` to before `end`; None: to the last."""

    start: bytes
    end: bytes | None


@dataclass(frozen=True, slots=True)
class Compared:
    """Findings for one range of one table (or of one constraint's relation). `rows` are stored
    there.

    `keys` are those of the first KEPT_KEYS differences. `left_out` is the number of rows that
    cannot be judged, since a base row that they derive from cannot be read.
    """

    name: str
    range: Range
    rows: int = 0
    counts: Mapping[Fault, int] = field(default_factory=dict)
    keys: tuple[bytes, ...] = ()
    samples: tuple[Difference, ...] = ()
    left_out: int = 0

    @property
    def differences(self) -> int:
        return sum(self.counts.values())

    def __add__(self, other: Compared) -> Compared:
        """The sum of two findings for the same range."""
        assert (self.name, self.range) == (other.name, other.range)
        return replace(
            self,
            rows=self.rows + other.rows,
            counts=dict(Counter(self.counts) + Counter(other.counts)),
            keys=(self.keys + other.keys)[:KEPT_KEYS],
            samples=(self.samples + other.samples)[:SAMPLES],
            left_out=self.left_out + other.left_out,
        )


class Tally:
    """Accumulates the findings for one range."""

    def __init__(self, name: str, where: Range) -> None:
        self._name, self._range = name, where
        self._counts: Counter[Fault] = Counter()
        self._keys: list[bytes] = []
        self._samples: list[Difference] = []
        self._left_out = 0
        self.rows = 0

    def add(self, difference: Difference) -> None:
        self._counts[difference.fault] += 1
        if len(self._keys) < KEPT_KEYS:
            self._keys.append(difference.key)
        if len(self._samples) < SAMPLES:
            self._samples.append(difference)

    def leave_out(self, rows: int) -> None:
        self._left_out += rows

    def done(self) -> Compared:
        return Compared(
            self._name,
            self._range,
            self.rows,
            dict(self._counts),
            tuple(self._keys),
            tuple(self._samples),
            self._left_out,
        )


@dataclass(frozen=True, slots=True)
class Checked:
    """Findings for one view, index, relation or constraint, with its ranges in the order of
    `table`'s keys. `repaired` is the number of rows written. `as_of` is the snapshot of the
    comparison, if it is not the report's."""

    name: str
    kind: Kind
    table: str
    ranges: tuple[Compared, ...]
    repaired: int = 0
    as_of: int | None = None

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.ranges)

    @property
    def differences(self) -> int:
        return sum(part.differences for part in self.ranges)

    @property
    def left_out(self) -> int:
        return sum(part.left_out for part in self.ranges)

    def count(self, fault: Fault) -> int:
        return sum(part.counts.get(fault, 0) for part in self.ranges)

    @property
    def samples(self) -> Iterator[Difference]:
        return (difference for part in self.ranges for difference in part.samples)


@dataclass(frozen=True, slots=True)
class Report:
    """All comparisons at `snapshot`. After a repair, `differences` are those that are left; those
    that were repaired are not among them."""

    snapshot: int
    checked: tuple[Checked, ...]

    @property
    def differences(self) -> int:
        return sum(item.differences for item in self.checked)
