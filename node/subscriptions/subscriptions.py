"""The subscriptions of one node.

    async with subscriptions.open("revenue", {"c_name": "ann"}) as subscription:
        async for rows in subscription.rows(): ...     # all rows at subscription.moment
        while True:
            step = await subscription.next()           # what has changed, moment by moment

Every moment is a snapshot that a query could read. A subscriber that has taken all changes up to a
moment goes on from there, at this node or another one: it gets each later change once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, aclosing, asynccontextmanager
from difflib import get_close_matches
from typing import Any

from hornbeam_server.node.subscriptions.changes import Step, Wanted, matches, of_interest, step
from hornbeam_server.node.subscriptions.sources import Access, Source, source_of
from hornbeam_server.node.subscriptions.tails import Queue, Tail
from hornbeam_server.schema.assignment import assign
from hornbeam_server.schema.errors import InvalidRequest, Overloaded, Unavailable, UnknownName
from hornbeam_server.schema.model import Column
from hornbeam_server.schema.types import Row
from hornbeam_server.storage.together import first_of

_FOLLOWER = "subscriptions"
WAIT_S = 10.0
"""A subscriber waits so long for the moment that it names."""


class Subscription:
    """One subscription. It begins at `moment`, and its rows are tuples of `columns`, the first
    ones of the stored rows (`shown`). `key` names the columns that identify a row; it is empty if
    hidden columns do."""

    def __init__(self, tail: Tail, queue: Queue, moment: int, missed: Step | None = None) -> None:
        source = tail.source
        self.name = source.name
        self.moment = moment
        self.columns: Sequence[Column] = source.columns
        names = [column.name for column in self.columns]
        key = [part.column for part in source.layout.key]
        self.key = key if set(key) <= set(names) else []
        self._places = [source.layout.positions[name] for name in names]
        self._source = source
        self._tail = tail
        self._queue = queue
        self._missed = missed
        self._returned = moment

    @property
    def reached(self) -> int:
        """The newest moment up to which `next` has returned all changes."""
        waiting = self._missed is not None or self._queue.waiting
        return self._returned if waiting else max(self._tail.moment, self._returned)

    def shown(self, row: Row | None) -> Row | None:
        """The columns of a stored row that queries show."""
        return None if row is None else tuple([row[place] for place in self._places])

    async def rows(self) -> AsyncGenerator[list[Row], None]:
        """The rows at `moment`, in batches. Raises HornbeamError."""
        wanted = self._queue.wanted
        async with aclosing(self._source.rows(self.moment, wanted)) as batches:
            async for batch in batches:
                yield [row for row in batch if matches(row, wanted)]

    async def next(self) -> Step:
        """The next changes. Raises the error that ends the subscription."""
        while (found := await self.next_within(WAIT_S)) is None:
            pass
        return found

    async def next_within(self, seconds: float) -> Step | None:
        """The next changes; None if there are none within the time. Raises the error that ends the
        subscription."""
        found, self._missed = self._missed, None
        if found is None:
            found = await self._queue.next(seconds)
        if found is not None:
            self._returned = found.moment
        return found


class Subscriptions:
    """All subscriptions of one node."""

    def __init__(self, access: Access, most: int) -> None:
        """`most`: the maximum number of subscriptions."""
        self._access = access
        self._most = most
        self._tails: dict[str, Tail] = {}
        self._opening = 0
        self._starting = asyncio.Lock()
        self._closed = False

    @property
    def count(self) -> int:
        return sum(tail.subscribers for tail in self._tails.values())

    @asynccontextmanager
    async def open(
        self, name: str, wanted: Mapping[str, Any] | None = None, moment: int | None = None
    ) -> AsyncIterator[Subscription]:
        """A subscription to the changes of relation or view `name`: of the rows whose columns have
        the values in `wanted`, after `moment`; None: after now.

        Raises NotFound, UnknownName, TypeMismatch, SnapshotTooOld, InvalidRequest, Overloaded,
        Unavailable.
        """
        if self.count + self._opening >= self._most:
            raise Overloaded(
                f"{self._most} subscriptions are open already.",
                cure="End some, ask another node, or raise max_subscriptions.",
            )
        source = source_of(name, self._access)
        wish = wish_of(source, wanted or {})
        self._opening += 1
        try:
            tail = await self._tail(source)
            queue = tail.join(wish)
        finally:
            self._opening -= 1
        with ExitStack() as stack:
            stack.callback(tail.leave, queue)
            if moment is None:
                stack.enter_context(self._access.holding(tail.moment))
                yield Subscription(tail, queue, tail.moment)
            else:
                missed = await self._missed(tail, queue, moment)
                yield Subscription(tail, queue, moment, missed)

    async def _tail(self, source: Source) -> Tail:
        async with self._starting:
            if self._closed:
                raise _ending()
            known = self._tails.get(source.name)
            if known is not None:
                return known
            self._access.parts.committer.follow(_FOLLOWER)
            try:
                tail = Tail(source, await source.newest(), self._forget)
            except BaseException:
                self._follow_no_more()
                raise
            self._tails[source.name] = tail
            return tail

    def _forget(self, tail: Tail) -> None:
        if self._tails.get(tail.source.name) is tail:
            del self._tails[tail.source.name]
        self._follow_no_more()

    def _follow_no_more(self) -> None:
        if not self._tails:
            self._access.parts.committer.unfollow(_FOLLOWER)

    async def _missed(self, tail: Tail, queue: Queue, moment: int) -> Step | None:
        """The changes after `moment`, up to that of the tail; None: there are none. The queue has
        the later ones."""
        source = tail.source
        if moment > tail.moment:
            await first_of(tail.reached(moment), self._access.parts.ports.clock.sleep(WAIT_S))
            if moment > tail.moment:
                raise InvalidRequest(
                    f"{source.name} has not reached the moment {moment}.",
                    cure="Subscribe from a moment that this database gave.",
                )
            queue.clear()
        upto = tail.moment
        if moment == upto:
            return None
        with self._access.holding(moment), self._access.holding(upto):
            await source.require_kept(moment)
            changes = await source.changes(moment, upto)
        some = [*of_interest(changes, queue.wanted)]
        return step(upto, some, source.size) if some else None

    def close(self) -> None:
        """End all subscriptions. Idempotent."""
        self._closed = True
        for tail in [*self._tails.values()]:
            tail.end(_ending())


def wish_of(source: Source, wanted: Mapping[str, Any]) -> Wanted:
    """The positions of columns in stored rows, with the values that they must have. Raises
    UnknownName, TypeMismatch."""
    columns = {column.name: column for column in source.columns}
    for name in wanted:
        if name not in columns:
            raise UnknownName(
                f"{source.name} has no column {name}.",
                cure=f"It has: {', '.join(columns)}.",
                name=name,
                near=get_close_matches(name, columns),
            )
    positions = source.layout.positions
    return tuple(
        sorted(
            (positions[name], None if value is None else assign(columns[name].type, value))
            for name, value in wanted.items()
        )
    )


def _ending() -> Unavailable:
    return Unavailable(
        "The node is ending.", cure="Subscribe again from the last moment that was received."
    )
