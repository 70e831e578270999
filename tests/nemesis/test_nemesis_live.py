"""The judge of live views finds wrong answers: each is planted in the answers of a client that asks
no database."""

from __future__ import annotations

import asyncio
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from tests.nemesis import nemesis_live
from tests.nemesis.nemesis_clients import Found, Rows
from tests.nemesis.nemesis_live import GROUPS, LiveReads
from tests.nemesis.nemesis_totals import BASE, COST, totals

EVENTS: Rows = [(1, 0, 5, "view", COST), (2, 0, 5, "click", COST), (3, 1, 6, "view", COST)]
PRODUCTS: Rows = [(5, 0), (6, 1)]
CATEGORIES: Rows = [(0, "name 0"), (1, "name 0")]
RIGHT = totals(EVENTS, PRODUCTS, CATEGORIES)


class Asked:
    """A client whose answers are of the events above, at `snapshots` one after the other. `wrong`
    replaces rows of views by their names."""

    def __init__(self, *snapshots: int, reason: str = "", wrong: dict[str, Rows] | None = None):
        self.name, self.url = "asked", ""
        self.bookmark = 10
        self.random = SimpleNamespace(choice=lambda names: names[0])
        self.journal = SimpleNamespace(counts=Counter[str]())
        self._snapshots = list(snapshots)
        self._reason = reason
        self._views = RIGHT | (wrong or {})
        self.asked: list[dict[str, Any]] = []

    async def read_live(self, *queries: str, **when: Any) -> Found:
        self.asked.append(when)
        base = dict(zip(BASE.values(), (EVENTS, PRODUCTS, CATEGORIES), strict=True))
        named = {f"SELECT * FROM live_{name}": rows for name, rows in self._views.items()}
        at = self._snapshots.pop(0) if len(self._snapshots) > 1 else self._snapshots[0]
        return Found([(named | base)[query] for query in queries], at, [], 0.0, 0.0, self._reason)

    async def read(self, *queries: str) -> Found:
        return await self.read_live(*queries)


def test_the_totals_of_no_events():
    assert totals([], PRODUCTS, CATEGORIES) == {
        "everything": [(0, None)],
        "by_merchant": [],
        "by_category": [],
        "newest": [],
    }


def test_the_newest_events_of_each_merchant():
    events = [(n, 0, 5, "view", COST) for n in range(1, 6)]
    assert totals(events, PRODUCTS, CATEGORIES)["newest"] == [(0, 1, 5), (0, 2, 4), (0, 3, 3)]


async def test_right_answers_are_accepted():
    reads, client = LiveReads(), Asked(20)
    await reads._as_stored(client)
    await reads._own_writes(client)
    await reads._tentative(client)
    assert client.asked == [
        {},
        {"view_bookmark": 10, "view_wait_ms": 4000},
        {"consistency": "tentative", "bookmark": 10},
    ]


@pytest.mark.parametrize("view", GROUPS["live"])
async def test_a_view_that_is_not_its_select_is_found(view):
    with pytest.raises(AssertionError, match=f"{view} has"):
        await LiveReads()._as_stored(Asked(20, wrong={view: RIGHT[view][:-1]}))


async def test_a_snapshot_that_goes_back_is_found():
    reads, client = LiveReads(), Asked(20, 19)
    await reads._as_stored(client)
    with pytest.raises(AssertionError, match="live shows 19 after 20"):
        await reads._as_stored(client)


async def test_a_read_without_the_readers_writes_is_found():
    with pytest.raises(AssertionError, match="live shows 9, not commit 10"):
        await LiveReads()._own_writes(Asked(9))


async def test_a_tentative_read_without_the_readers_writes_is_found():
    with pytest.raises(AssertionError, match="tentative at 9, before 10"):
        await LiveReads()._tentative(Asked(9))


async def test_a_wrong_tentative_read_is_found():
    with pytest.raises(AssertionError, match="everything has"):
        await LiveReads()._tentative(Asked(20, wrong={"everything": [(4, 4 * COST)]}))


async def test_a_tentative_read_may_say_that_it_is_as_stored():
    client = Asked(9, reason="too many changes")
    await LiveReads()._tentative(client)
    assert client.journal.counts["tentative as stored"] == 1


async def test_a_subscriber_with_other_rows_is_found():
    reads, client = LiveReads(), Asked(20)
    await reads._as_held(client)
    assert not client.asked, "it has no moment yet"
    reads.subscriber.moment = 20
    reads.subscriber.rows.update(RIGHT["by_merchant"])
    await reads._as_held(client)
    reads.subscriber.rows[RIGHT["by_merchant"][0]] += 1
    with pytest.raises(AssertionError, match="a subscriber has"):
        await reads._as_held(client)


async def test_views_that_do_not_catch_up_are_found(monkeypatch):
    monkeypatch.setattr(nemesis_live, "CATCH_UP_S", 0.0)
    monkeypatch.setattr(nemesis_live, "_follow", _nothing_follows)
    reads, client = LiveReads(), Asked(20)
    reads.begin(client)
    with pytest.raises(AssertionError, match="live shows 20, not 30"):
        await reads.judge(client, 30)
    reads.begin(client)
    with pytest.raises(AssertionError, match="a subscriber has"):
        await reads.judge(client, 20)


async def _nothing_follows(url: str, subscriber: Any) -> None:
    await asyncio.sleep(60)


def test_the_lag_is_the_longest_time_until_the_subscriber_had_a_write():
    reads = LiveReads()
    reads.subscriber.arrivals += [(10, 1_500.0), (20, 4_000.0)]
    answers = [SimpleNamespace(commit_ts=ts, completed=s) for ts, s in ((9, 1.0), (15, 1.2))]
    later = SimpleNamespace(commit_ts=21, completed=9.0)
    unknown = SimpleNamespace(commit_ts=5, completed=None)
    assert reads.lag_s([*answers, later, unknown]) == 2.8
    assert reads.lag_s([later, unknown]) is None
