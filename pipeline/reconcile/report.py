"""What was found, and its sum: plain frozen values that go from executors to the driver.

Each key of a stored table counts once at most. So a row that lies under a wrong key is two
differences, misplaced where it is and missing where it should be, and there are as many
differences as rows to be written.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from schema.types import Row

SAMPLES = 5
"""Differences that a report shows in full, of each range."""
KEPT_KEYS = 5_000
"""Keys of differences that a range keeps for repair; all are counted."""


class Fault(enum.StrEnum):
    """What is wrong at a key."""

    MISSING = "missing"
    """Nothing is stored. Of a foreign key: a row without its parent."""
    EXTRA = "extra"
    """A row is stored, and none should be."""
    DIFFERENT = "different"
    """Another row is stored, which belongs under this key."""
    MISPLACED = "misplaced"
    """A row is stored that belongs under another key."""
    UNDECODABLE = "undecodable"
    """What is stored is no row of this table."""


class Kind(enum.StrEnum):
    """What is checked."""

    VIEW = "view"
    INDEX = "index"
    DEFERRED_VIEW = "deferred view"
    STATE = "state"
    """What a deferred view keeps for itself, such as counts and sums."""
    RELATION = "relation"
    """Only that its rows can be decoded and lie under their keys: all else is made from it."""
    FOREIGN_KEY = "foreign key"


class Difference(NamedTuple):
    """What is stored at `key`, and what should be, where that can be said."""

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
    """One range of one table (or of one foreign key's relation). `rows` are stored there.

    `keys` are those of the first KEPT_KEYS differences; `left_out` are the rows of which nothing
    can be said, since a base row that they are made from cannot be read.
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
        """Both findings of one range."""
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
    """Adds up one range."""

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
    """One thing with its ranges in the order of `table`'s keys. `repaired` rows were written.
    `as_of`: it was compared as of another snapshot than the report's."""

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
    """All that was compared at `snapshot`."""

    snapshot: int
    checked: tuple[Checked, ...]

    @property
    def differences(self) -> int:
        return sum(item.differences for item in self.checked)
