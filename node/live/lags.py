"""How long commits wait until live and deferred views show them: a histogram for each group."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import accumulate

BOUNDS_S = (0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds of the buckets in seconds; one more bucket has longer times."""


@dataclass(slots=True)
class Lags:
    """The seconds from the oldest commit of each batch until queries read the batch's rows."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    """The number of batches by bucket."""
    sum_s: float = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.sum_s += seconds

    @property
    def batches(self) -> int:
        return sum(self.counts)

    def within_s(self, share: float) -> float:
        """The lowest bound below which this share of the batches is; infinite above all bounds.
        Requires a batch."""
        wanted = share * self.batches
        bounds = (*BOUNDS_S, float("inf"))
        sums = zip(bounds, accumulate(self.counts), strict=True)
        return next(bound for bound, batches in sums if batches >= wanted)
