"""Watches the live view of `live.sql` while emulated browsers order.

At each snapshot that it reads, it compares the view's rows with those of the view's SELECT over the
relations at the same snapshot.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import Any

import hornbeam
from bench.tpcw import LIVE
from hornbeam.transport import persistently

VIEW = "subject_sales"
SELECT = LIVE.read_text().partition(" AS\n")[2].strip(" ;\n")
PAUSE_S = 0.4
"""Between two comparisons: the browsers have the processor most of the time."""


@dataclass(frozen=True, slots=True)
class Watched:
    """The results of a watch. `differing`: snapshots at which the rows differ. Within `half_s` and
    `most_s` seconds the view showed the oldest commit of half and of 99 % of the batches; None:
    not known, or longer than all bounds."""

    snapshots: int
    differing: int
    half_s: float | None
    most_s: float | None

    def text(self) -> str:
        shown = [
            f"{bound:g} s ({share})"
            for bound, share in ((self.half_s, "half"), (self.most_s, "99 %"))
            if bound is not None
        ]
        within = f"; commits shown within {', '.join(shown)}" if shown else ""
        return f"{self.snapshots} snapshots compared, {self.differing} differ{within}"

    def json(self) -> dict[str, Any]:
        return {
            "snapshots": self.snapshots,
            "differing": self.differing,
            "p50_s": self.half_s,
            "p99_s": self.most_s,
        }


async def watch(url: str, orders: asyncio.Future[Any]) -> Watched:
    """Watch the view until `orders` is done. Raises the client's errors."""
    with hornbeam.connect(url, autocommit=True) as db:
        shown: dict[int, bool] = {}
        while not orders.done():
            at, equal = await asyncio.to_thread(_compared, db)
            shown[at] = equal
            await asyncio.wait({orders}, timeout=PAUSE_S)
        lag = await asyncio.to_thread(_lag, db)
    return Watched(len(shown), sum(not equal for equal in shown.values()), *lag)


def _compared(db: hornbeam.Connection) -> tuple[int, bool]:
    """The snapshot that the view shows, and whether its rows are those of its SELECT there."""
    kept = _asked(db, {"sql": f"SELECT * FROM {VIEW}"})
    at = int(kept["snapshot"])
    computed = _asked(db, {"sql": SELECT, "snapshot": at, "use_views": False})
    return at, _rows(kept) == _rows(computed)


def _asked(db: hornbeam.Connection, body: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = persistently(lambda: db.transport.json("POST", "/v1/query", body))
    return answer


def _rows(answer: dict[str, Any]) -> Counter[tuple[Any, ...]]:
    return Counter(map(tuple, answer["rows"]))


def _lag(db: hornbeam.Connection) -> tuple[float | None, float | None]:
    """The times within which half and 99 % of the asked node's batches showed their commits."""
    lag = _group(db)["commit_lag"]
    return (None, None) if lag is None else (lag["p50_s"], lag["p99_s"])


def node_of(db: hornbeam.Connection) -> str:
    """The address of the node that does the view's batches."""
    return str(_group(db)["node"])


def _group(db: hornbeam.Connection) -> dict[str, Any]:
    groups: list[dict[str, Any]] = persistently(lambda: db.transport.json("GET", "/v1/groups"))
    return next(group for group in groups if VIEW in group["views"])
