"""Watches the live view of `live.sql` while emulated browsers order.

A subscriber follows the view from its snapshot on, change by change. At several moments, the rows
that it holds are compared with those of the view's SELECT over the relations at that moment, and
with the rows that a query of the view returns. Another subscriber follows the order lines: its
commits say how long each order took until the first subscriber had it.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import hornbeam
import hornbeam.aio
from hornbeam.subscriptions import Changes
from hornbeam.transport import persistently
from hornbeam.types import row_reader
from hornbeam_server.demo.measures import percentile
from hornbeam_server.demo.tpcw import LIVE

VIEW = "subject_sales"
RELATION = "order_line"
"""Each of its commits changes the view."""
SELECT = LIVE.read_text().partition(" AS\n")[2].strip(" ;\n")
PAUSE_S = 0.4
"""Between two comparisons: the browsers have the processor most of the time."""
LAST_S = 15.0
"""A subscriber gets the last changes within this time."""

Rows = Counter[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Watched:
    """The results of a watch. The subscriber got `changes` of rows at `moments` moments. Its rows
    were compared with the query at `compared` of them, and at the end; they differed at `differing`
    of these. `lags_s`: seconds from the commit of each order line until the subscriber had the
    change. Within `half_s` and `most_s` seconds queries read the oldest commit of half and of 99 %
    of the node's batches; None: not known, or longer than all bounds."""

    moments: int
    changes: int
    compared: int
    differing: int
    lags_s: Sequence[float]
    half_s: float | None
    most_s: float | None

    def text(self) -> str:
        lag = ""
        if self.lags_s:
            half, most = percentile(self.lags_s, 0.5), percentile(self.lags_s, 0.99)
            lag = f", {half * 1000:.0f} ms (median), {most * 1000:.0f} ms (99 %) after the order"
        return (
            f"{self.changes:,} changes at {self.moments:,} moments{lag};"
            f" {self.compared} compared with the query, {self.differing} differ"
        )

    def json(self) -> dict[str, Any]:
        known = bool(self.lags_s)
        return {
            "moments": self.moments,
            "changes": self.changes,
            "compared": self.compared,
            "differing": self.differing,
            "commits": len(self.lags_s),
            "lag_p50_s": percentile(self.lags_s, 0.5) if known else None,
            "lag_p99_s": percentile(self.lags_s, 0.99) if known else None,
            "lag_max_s": max(self.lags_s, default=None),
            "batches_p50_s": self.half_s,
            "batches_p99_s": self.most_s,
        }


def _wall_ms() -> float:
    return time.time() * 1000


class Subscriber:
    """A subscriber of a view, with the rows that it holds at `moment`; None: it has not begun."""

    def __init__(self, view: str) -> None:
        self.view = view
        self.rows: Rows = Counter()
        self.moment: int | None = None
        self.changes = 0
        self.arrivals: list[tuple[int, float]] = []
        """The moments with changes, and the milliseconds (of any clock) at which these came."""

    async def follow(
        self, db: hornbeam.aio.Connection, now_ms: Callable[[], float] = _wall_ms
    ) -> None:
        """Follow the view, from `moment` on if the subscriber has begun. Raises the client's
        errors."""
        async with db.subscribe(self.view, moment=self.moment) as subscription:
            async for changes in subscription:
                self.take(changes, now_ms())

    def take(self, changes: Changes, now_ms: float) -> None:
        for change in changes:
            for row, sign in ((change.before, -1), (change.after, 1)):
                if row is not None:
                    self.rows[row] += sign
                    if not self.rows[row]:
                        del self.rows[row]
        if changes.moment is None:
            return
        self.moment = changes.moment
        if not changes.begins:
            self.changes += len(changes)
            self.arrivals.append((changes.moment, now_ms))


def lags_s(commits: Collection[int], arrivals: Sequence[tuple[int, float]]) -> list[float]:
    """For each commit, the seconds until the changes of the first moment at or after it arrived.
    Commits after the last moment are left out."""
    places = [bisect_left(arrivals, (commit, 0.0)) for commit in commits]
    return [
        max(arrivals[place][1] - commit, 0.0) / 1000
        for commit, place in zip(commits, places, strict=True)
        if place < len(arrivals)
    ]


async def watch(url: str, orders: asyncio.Future[Any], subscribed: str | None = None) -> Watched:
    """Watch the view until `orders` is done. The subscribers use the URL `subscribed`, if it is
    another one than that of the queries. Raises the client's errors."""
    subscriber, commits = Subscriber(VIEW), set[int]()
    async with hornbeam.aio.connect(subscribed or url) as subscribing:
        following = asyncio.gather(
            subscriber.follow(subscribing), _note_commits(subscribing, commits)
        )
        try:
            with hornbeam.connect(url, autocommit=True) as db:
                equal = await _compared_until(orders, following, db, subscriber)
                ended = await _reaches(following, db, subscriber)
                half_s, most_s = await asyncio.to_thread(_lag, db)
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
    return Watched(
        len(subscriber.arrivals),
        subscriber.changes,
        len(equal) + 1,
        sum(not each for each in (*equal.values(), ended)),
        lags_s(commits, subscriber.arrivals),
        half_s,
        most_s,
    )


async def _note_commits(db: hornbeam.aio.Connection, commits: set[int]) -> None:
    async with db.subscribe(RELATION, rows=False) as lines:
        async for changes in lines:
            commits.update(change.commit for change in changes)


async def _compared_until(
    orders: asyncio.Future[Any],
    following: asyncio.Future[Any],
    db: hornbeam.Connection,
    subscriber: Subscriber,
) -> Mapping[int, bool]:
    """For each of several moments until `orders` is done: whether the subscriber's rows, the view's
    and those of its SELECT were equal there."""
    found: dict[int, bool] = {}
    while not orders.done():
        at, held = subscriber.moment, subscriber.rows.copy()
        if at is not None and at not in found:
            found[at] = await asyncio.to_thread(_all_equal, db, at, held)
        await _pause({orders, following}, PAUSE_S)
        _require_open(following)
    return found


async def _reaches(
    following: asyncio.Future[Any], db: hornbeam.Connection, subscriber: Subscriber
) -> bool:
    """Does the subscriber come to hold the rows of the view's SELECT as it is now?"""
    now = await asyncio.to_thread(_asked, db, SELECT, use_views=False, consistency="strong")
    wanted, give_up = _rows(now), time.monotonic() + LAST_S
    while subscriber.rows != wanted and time.monotonic() < give_up:
        await _pause({following}, 0.01)
        _require_open(following)
    return subscriber.rows == wanted


async def _pause(ends: Collection[asyncio.Future[Any]], seconds: float) -> None:
    await asyncio.wait(ends, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)


def _require_open(following: asyncio.Future[Any]) -> None:
    """Raises the error that has ended the subscriptions."""
    if following.done():
        following.result()


def _all_equal(db: hornbeam.Connection, at: int, held: Rows) -> bool:
    """Are the rows that a subscriber holds at moment `at` those of the view's SELECT over the
    relations, and those of the view?"""
    computed = _asked(db, SELECT, use_views=False, snapshot=at)
    kept = _asked(db, f"SELECT * FROM {VIEW}", snapshot=at)
    return held == _rows(computed) == _rows(kept)


def _asked(db: hornbeam.Connection, sql: str, **members: Any) -> dict[str, Any]:
    body = {"sql": sql, **members}
    answer: dict[str, Any] = persistently(lambda: db.transport.json("POST", "/v1/query", body))
    return answer


def _rows(answer: dict[str, Any]) -> Rows:
    read = row_reader([column["type"] for column in answer["columns"]])
    return Counter(map(read, answer["rows"]))


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
