"""Connections from one member to the others: opened when needed, opened again when they break.

Requests that a broken connection left unanswered have failed, and the caller gives up their work.
Only releases are sent again on the next connection, until they are answered or their receiver is no
member any more: nothing else frees the locks that they name (decision 21, rule 7).
"""

from __future__ import annotations

import asyncio

from hornbeam_server.schema.errors import HornbeamError, Unavailable
from hornbeam_server.storage.ports import Clock, Link, Peers
from hornbeam_server.txlayer.cluster.membership_view import View
from hornbeam_server.txlayer.cluster.messages import (
    Release,
    Request,
    Response,
    decode_response,
    encode,
)

RETRY_S = 0.05
MAX_RELEASED = 1_000
"""Maximum number of attempts in one message."""


class Links:
    """All connections of one member, by the name of the other member."""

    def __init__(self, peers: Peers, view: View, clock: Clock) -> None:
        self._peers = peers
        self._view = view
        self._clock = clock
        self._ways: dict[str, _Way] = {}
        self._closed = False
        self._closing: set[asyncio.Task[None]] = set()

    async def ask(self, member: str, request: Request) -> Response:
        """The response of `member`. Raises Unavailable: the request was handled, or not."""
        return await self._way(member).ask(request)

    def release(self, member: str, attempt: int, commit_ts: int) -> None:
        """Send a release in the background. After `close` it is not sent: the receiver frees all
        locks of this member when it is no longer a member."""
        if member in self._view.members and not self._closed:
            self._way(member).release(attempt, commit_ts)

    def forget_strangers(self) -> None:
        """Close the connections to nodes that are no longer members."""
        for name in self._ways.keys() - self._view.members:
            closing = asyncio.ensure_future(self._ways.pop(name).close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Close all connections, and send nothing more."""
        self._closed = True
        ways, self._ways = self._ways, {}
        for way in ways.values():
            await way.close()

    def _way(self, member: str) -> _Way:
        way = self._ways.get(member)
        if self._closed:
            raise Unavailable("This node is being stopped.", cure="Ask another node.")
        if way is None:
            address = self._view.member(member).peer
            way = self._ways[member] = _Way(self._peers, self._view.name, address, self._clock)
        return way


class _Way:
    """The connection from this member to another."""

    def __init__(self, peers: Peers, name: str, address: str, clock: Clock) -> None:
        self._peers = peers
        self._name = name
        self._address = address
        self._clock = clock
        self._connecting = asyncio.Lock()
        self._link: Link | None = None
        self._number = 0
        self._unreleased: dict[int, int] = {}
        self._releasing: asyncio.Task[None] | None = None
        self._closed = False

    async def ask(self, request: Request) -> Response:
        link = await self._connected()
        return decode_response(await link.ask(encode(request)))

    async def _connected(self) -> Link:
        async with self._connecting:
            self._require_open()
            if self._link is None or self._link.broken:
                self._number += 1
                link = await self._peers.connect(self._name, self._address, self._number)
                if self._closed:
                    await link.close()
                self._require_open()
                self._link = link
            return self._link

    def _require_open(self) -> None:
        if self._closed:
            raise Unavailable("The other node is no member any more.", cure="Try again.")

    def release(self, attempt: int, commit_ts: int) -> None:
        self._unreleased[attempt] = commit_ts
        if self._releasing is None:
            self._releasing = asyncio.ensure_future(self._release())

    async def _release(self) -> None:
        while self._unreleased and not self._closed:
            attempts = dict(list(self._unreleased.items())[:MAX_RELEASED])
            try:
                await self.ask(Release(attempts))
            except HornbeamError:
                await self._clock.sleep(RETRY_S)
            else:
                for attempt in attempts:
                    del self._unreleased[attempt]
        self._releasing = None

    async def close(self) -> None:
        self._closed = True
        if self._releasing is not None:
            self._releasing.cancel()
        if self._link is not None:
            await self._link.close()
