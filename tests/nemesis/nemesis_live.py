"""Live and deferred views of the dashboard under faults, and a subscriber of one of them.

Whatever fails, a view has the rows of its SELECT at the snapshot that it shows, and each reader
sees these snapshots in their order. A read that asks for the reader's own writes shows them. A
tentative read has the rows of the SELECT at a snapshot with the reader's writes. The subscriber
gets each change once, through the loss of its node. When nothing fails any more, the views catch
up.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Sequence

import hornbeam.aio
from hornbeam.errors import OperationalError
from hornbeam_server.demo.tpcw.live import Rows as Held
from hornbeam_server.demo.tpcw.live import Subscriber
from tests.nemesis.nemesis_clients import TIMEOUT_S, Answer, Client, Found
from tests.nemesis.nemesis_totals import BASE, SELECTS, require_totals, totals

LIVE = "live"
"""The group whose batches follow each other while clients write."""
GROUPS = {LIVE: ("everything", "by_merchant", "by_category"), "ranked": ("newest",)}
"""The views of each group, which show one snapshot."""
_REFRESH = {LIVE: "refresh = 'live'", "ranked": "refresh = 'deferred', interval = '1 s'"}
FOLLOWED = "by_merchant"
"""The view that is subscribed to. Each event changes it."""
CATCH_UP_S = 60.0
_POLL_S = 0.1


def _stored(view: str) -> str:
    return f"live_{view}"


DDL = "".join(
    f"CREATE MATERIALIZED VIEW {_stored(view)} WITH ({_REFRESH[group]}, \"group\" = '{group}') AS"
    f" {SELECTS[view]};\n"
    for group, views in GROUPS.items()
    for view in views
)


class LiveReads:
    """Reads of the views in one round. Every method raises AssertionError for a wrong answer."""

    def __init__(self) -> None:
        self._shown: dict[tuple[str, str], int] = {}
        """The snapshot that a client has seen of a group, by their names."""
        self.subscriber = Subscriber(_stored(FOLLOWED))
        self._following: asyncio.Task[None] | None = None

    def begin(self, client: Client) -> None:
        self._following = asyncio.create_task(_follow(client.url, self.subscriber))

    async def step(self, client: Client) -> None:
        steps = [self._as_stored, self._own_writes, self._tentative, self._as_held]
        (chosen,) = client.random.choices(steps, [40, 20, 25, 15])
        await chosen(client)

    async def _as_stored(self, client: Client) -> None:
        await self._read_group(client, client.random.choice(list(GROUPS)))

    async def _own_writes(self, client: Client) -> None:
        group, wanted = client.random.choice(list(GROUPS)), client.bookmark
        found = await self._read_group(client, group, wanted)
        if found is not None:
            assert found.snapshot >= wanted, f"{group} shows {found.snapshot}, not commit {wanted}"

    async def _read_group(self, client: Client, group: str, bookmark: int = 0) -> Found | None:
        """Read the views of a group, with all up to `bookmark`, and their relations."""
        views = GROUPS[group]
        queries = [f"SELECT * FROM {_stored(view)}" for view in views]
        wait_ms = int(TIMEOUT_S * 1000) // 2
        when = {"view_bookmark": bookmark, "view_wait_ms": wait_ms} if bookmark else {}
        found = await client.read_live(*queries, *BASE.values(), **when)
        if found is not None:
            require_totals(views, found.rows)
            before = self._shown.get((client.name, group), 0)
            assert found.snapshot >= before, f"{group} shows {found.snapshot} after {before}"
            self._shown[client.name, group] = found.snapshot
        return found

    async def _tentative(self, client: Client) -> None:
        view = client.random.choice([view for views in GROUPS.values() for view in views])
        wanted = client.bookmark
        when = {"consistency": "tentative", "bookmark": wanted}
        found = await client.read_live(f"SELECT * FROM {_stored(view)}", *BASE.values(), **when)
        if found is None:
            return
        require_totals([view], found.rows)
        if found.reason:
            client.journal.counts["tentative as stored"] += 1
        else:
            assert found.snapshot >= wanted, f"tentative at {found.snapshot}, before {wanted}"

    async def _as_held(self, client: Client) -> None:
        """The subscriber has the rows of the view's SELECT at its moment."""
        at, held = self.subscriber.moment, self.subscriber.rows.copy()
        if at is None:
            return
        found = await client.read_live(*BASE.values(), snapshot=at)
        if found is not None:
            _require_held(held, found, at)

    async def judge(self, client: Client, newest: int) -> None:
        """The views and the subscriber come to show everything up to `newest`, while no client
        writes."""
        assert self._following is not None
        try:
            for group in GROUPS:
                shown = await _answered(lambda group=group: self._read_group(client, group, newest))
                assert shown.snapshot >= newest, f"{group} shows {shown.snapshot}, not {newest}"
            found = await _answered(lambda: client.read(*BASE.values()))
            await self._hold(Held(totals(*found.rows)[FOLLOWED]))
            _require_held(self.subscriber.rows, found, found.snapshot)
        finally:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)

    async def _hold(self, rows: Held) -> None:
        """Wait until the subscriber has these rows, for CATCH_UP_S. Raises the error that has ended
        the subscription."""
        assert self._following is not None
        give_up = time.monotonic() + CATCH_UP_S
        while self.subscriber.rows != rows and time.monotonic() < give_up:
            await asyncio.wait({self._following}, timeout=_POLL_S)
            if self._following.done():
                self._following.result()

    def lag_s(self, answers: Sequence[Answer]) -> float | None:
        """The longest time from the answer to a write of events until the subscriber had it. None:
        no such time is known."""
        arrivals = self.subscriber.arrivals
        places = [bisect_left(arrivals, (answer.commit_ts, 0.0)) for answer in answers]
        lags = [
            arrivals[place][1] / 1000 - answer.completed
            for answer, place in zip(answers, places, strict=True)
            if place < len(arrivals) and answer.completed is not None
        ]
        return round(max(0.0, *lags), 2) if lags else None


async def _answered(read: Callable[[], Awaitable[Found | None]]) -> Found:
    """The answer to a read, which is repeated until there is one, for CATCH_UP_S."""
    give_up = time.monotonic() + CATCH_UP_S
    while (found := await read()) is None:
        assert time.monotonic() < give_up, f"no answer within {CATCH_UP_S:g} s"
    return found


async def _follow(url: str, subscriber: Subscriber) -> None:
    """Follow the view, also through failures that last longer than the patience of the client
    library."""
    async with hornbeam.aio.connect(url) as db:
        while True:
            try:
                await subscriber.follow(db, lambda: time.monotonic() * 1000)
            except OperationalError as error:
                if not error.retryable:
                    raise
            if subscriber.moment is None:
                subscriber.rows.clear()
            await asyncio.sleep(_POLL_S)


def _require_held(held: Held, found: Found, at: int) -> None:
    expected = totals(*found.rows)[FOLLOWED]
    assert held == Held(expected), f"a subscriber has {sorted(held)} at {at}, not {expected}"
