"""Coordination over ZooKeeper: values are nodes, members are ephemeral nodes of a session.

The threads of the client library stay in this module: it hands their results to the event loop.

How long a session is certain to live: the leader of the ensemble ends a session when the time-out
has passed since the last heartbeat that the leader has counted. Only the leader answers `sync`,
but a follower forwards heartbeats every half tick. So the leader may answer a `sync` before it
counts that request as a heartbeat. It has then counted the third request before, if each request
was sent an eighth of the time-out after the answer to the previous one: ZooKeeper grants no
time-out below two ticks. So the time-out runs at the earliest from the time at which the first of
the last four answered requests was *sent*.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import quote, unquote

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, KazooException, NodeExistsError, NoNodeError
from kazoo.interfaces import IAsyncResult
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.states import KazooState
from kazoo.retry import KazooRetry

from hornbeam_server.schema.errors import LimitExceeded, StalePlan, Unavailable
from hornbeam_server.storage.ports import Versioned

SESSION_S = 6.0
CONNECT_S = 10.0
CALL_S = 10.0
HEARTBEATS = 8
"""Heartbeats in one session time-out."""
SIGNS = 4
"""When the last of so many heartbeats is answered, the leader has counted the first."""
RECONNECT_S = 0.5
VALUE_BYTES = 1_000_000
"""ZooKeeper's limit, with some room for the rest of the request."""

_LOG = logging.getLogger(__name__)
_LOG.addHandler(logging.NullHandler())  # a program without logging prints no retries


class ZookeeperCoordination:
    """A `Coordination`: one session with an ensemble. Open with `ZookeeperCoordination.open`."""

    def __init__(self, hosts: str, root: str, session_s: float) -> None:
        self._hosts = hosts
        self._root = root.rstrip("/")
        self._loop = asyncio.get_running_loop()
        self._connected = asyncio.Event()
        self._session = ""
        self.session_s = session_s
        """Session time-out in seconds: the requested one, then the one that ZooKeeper granted."""
        self._signs: deque[float] = deque(maxlen=SIGNS)
        self._news = 0
        self._ended = False
        self._closed = False
        self._beating: asyncio.Task[None] | None = None
        self._releasing: asyncio.Task[None] | None = None
        retry = KazooRetry(max_tries=-1, max_delay=RECONNECT_S)
        self._client = KazooClient(hosts, timeout=session_s, connection_retry=retry, logger=_LOG)
        self._client._connection = _Connection(self._client, self._on_connected)
        self._client.add_listener(self._on_state)

    @classmethod
    async def open(
        cls,
        hosts: str,
        root: str,
        *,
        session_s: float = SESSION_S,
        connect_s: float = CONNECT_S,
    ) -> ZookeeperCoordination:
        """Begin a session with `hosts` ("host:port,host:port"). All data lies under the node
        `root`, which is created if it is missing. Raises Unavailable."""
        opened = cls(hosts, root, session_s)
        try:
            await opened._begin(connect_s)
        except BaseException:
            await opened.close()
            raise
        return opened

    async def read(self, path: str) -> Versioned | None:
        node = self._value_node(path)
        try:
            value, stat = await self._newest(node, self._get_watched)
        except NoNodeError:
            return None
        return Versioned(value, stat.version + 1)

    async def write(self, path: str, value: bytes, expected: int) -> int:
        _check_size(path, value)
        node = self._value_node(path)
        try:
            if expected == 0:
                await self._asked(self._client.create_async, node, value)
            else:
                await self._asked(self._client.set_async, node, value, version=expected - 1)
        except (NodeExistsError, NoNodeError, BadVersionError):
            known = await self.read(path)
            current = known.version if known is not None else 0
            raise StalePlan(f"{path} is at version {current}, not {expected}.") from None
        return expected + 1

    async def join(self, member: str, data: bytes = b"") -> None:
        """The name of the node ends with the number of this session: no other session creates or
        changes that node."""
        _check_size(member, data)
        node = self._member_node(member)
        try:
            await self._asked(self._client.set_async, node, data)
        except NoNodeError:
            with suppress(NodeExistsError):  # another task's `join` created it, as if it came later
                await self._asked(self._client.create_async, node, data, ephemeral=True)

    async def leave(self, member: str) -> None:
        with suppress(NoNodeError):
            await self._asked(self._client.delete_async, self._member_node(member))

    async def members(self) -> dict[str, bytes]:
        """The data is read after the names and needs no `sync`: reads of one session never go
        back in time."""
        names = await self._newest(f"{self._root}/members", self._get_children_watched)
        data = await asyncio.gather(*[self._member_data(name) for name in names])
        shown = [(unquote(n.rpartition("@")[0]), d) for n, d in zip(names, data, strict=True)]
        return dict(sorted((member, data) for member, data in shown if data is not None))

    async def _member_data(self, name: str) -> bytes | None:
        """The data of the member node `name`; None if it was deleted after its name was read."""
        try:
            data, _ = await self._asked(self._get_watched, f"{self._root}/members/{name}")
        except NoNodeError:
            return None
        return bytes(data)

    @property
    def news(self) -> int:
        return self._news

    def alive(self) -> bool:
        return (
            not (self._closed or self._ended)
            and bool(self._signs)
            and time.monotonic() < self._signs[0] + self.session_s
        )

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._beating is not None:
            self._beating.cancel()
        await self._release()

    # ------------------------------------------------------------ the session

    async def _begin(self, connect_s: float) -> None:
        self._client.start_async()
        try:
            async with asyncio.timeout(connect_s):
                await self._connected.wait()
        except TimeoutError:
            raise Unavailable(
                f"ZooKeeper at {self._hosts} does not answer.", cure="Does it run? Is it reachable?"
            ) from None
        for folder in ("values", "members"):
            await self._asked(self._client.ensure_path_async, f"{self._root}/{folder}")
        self._beating = asyncio.create_task(self._beat())

    async def _beat(self) -> None:
        """Send heartbeats until the session ends. A lost answer does not shorten the time for
        which the session is certain."""
        while not self._ended:
            sent = time.monotonic()
            with suppress(Unavailable):
                await self._asked(self._client.sync_async, self._root)
                self._signs.append(sent)
            await asyncio.sleep(self.session_s / HEARTBEATS)

    def _on_connected(self, sent: float, session: int, session_s: float) -> None:
        """Note a session that was begun or renewed. Called in a thread of the client library.

        The leader itself begins and renews sessions, so the time `sent` counts for all signs.
        Watches of an earlier connection are lost, so `news` changes."""

        def connected() -> None:
            self._count_news()
            if not self._ended:
                self._session = f"{session:016x}"
                self.session_s = session_s
                self._signs.extend([sent] * SIGNS)
                self._connected.set()

        self._hand_over(connected)

    def _on_state(self, state: str) -> None:
        """Note that the session is lost. Called in a thread of the client library, before the
        library begins another session, which is not wanted."""
        if state == KazooState.LOST:
            self._ended = True
            self._hand_over(self._release)

    def _release(self) -> asyncio.Task[None]:
        """Stop the client in a thread, since this waits until the threads of the library end."""

        def release() -> None:
            with suppress(KazooException, OSError):
                self._client.stop()
                self._client.close()

        if self._releasing is None:
            self._releasing = asyncio.create_task(asyncio.to_thread(release))
        return self._releasing

    # ------------------------------------------------------------ news

    def _get_watched(self, node: str) -> IAsyncResult:
        return self._client.get_async(node, watch=self._on_change)

    def _get_children_watched(self, node: str) -> IAsyncResult:
        return self._client.get_children_async(node, watch=self._on_change)

    def _on_change(self, _: object) -> None:
        """Note that a node has changed, or may have changed, since it was read. Called in a thread
        of the client library."""
        self._hand_over(self._count_news)

    def _count_news(self) -> None:
        self._news += 1

    # ------------------------------------------------------------ requests

    async def _newest(self, node: str, ask: Callable[[str], IAsyncResult]) -> Any:
        """The answer of `ask` about `node`, no older than the leader's state at this call.

        A follower may lag behind, so a `sync` goes before. Both requests go over one connection,
        or fail."""
        caught_up, answer = self._sent(self._client.sync_async, node), self._sent(ask, node)
        _, newest = await asyncio.gather(self._answered(caught_up), self._answered(answer))
        return newest

    async def _asked(self, request: Callable[..., IAsyncResult], *what: Any, **how: Any) -> Any:
        return await self._answered(self._sent(request, *what, **how))

    def _sent(
        self, request: Callable[..., IAsyncResult], *what: Any, **how: Any
    ) -> asyncio.Future[Any]:
        if self._closed:
            raise Unavailable("The coordination service is closed.")
        if self._ended:
            raise Unavailable(
                f"The session with ZooKeeper at {self._hosts} has ended.", cure="Restart."
            )
        future = self._loop.create_future()

        def done(result: IAsyncResult) -> None:
            self._hand_over(lambda: _settle(future, result))

        request(*what, **how).rawlink(done)
        return future

    async def _answered(self, future: asyncio.Future[Any]) -> Any:
        """The result of `future`. Raises NoNodeError, NodeExistsError, BadVersionError, and
        Unavailable for every other failure."""
        try:
            async with asyncio.timeout(min(self.session_s, CALL_S)):
                return await future
        except (NoNodeError, NodeExistsError, BadVersionError):
            raise
        except TimeoutError:
            raise Unavailable(
                f"ZooKeeper at {self._hosts} has not answered in time.",
                cure="Try again in a moment. If it lasts, look at ZooKeeper and the network.",
            ) from None
        except KazooException as error:
            name = type(error).__name__
            raise Unavailable(
                f"ZooKeeper at {self._hosts} cannot be used: {name}.",
                cure="Look at ZooKeeper, and at the addresses in the setting zookeeper.",
            ) from error

    def _hand_over(self, work: Callable[[], object]) -> None:
        """Run `work` in the event loop, from a thread of the client library. The loop may be closed
        already; then `work` is dropped."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(work)

    def _value_node(self, path: str) -> str:
        """The node of the value at `path`. These nodes are not nested, so that none exists only
        because another lies below it."""
        return f"{self._root}/values/{quote(path, safe='')}"

    def _member_node(self, member: str) -> str:
        """The node of `member` in this session. The node of an earlier session vanishes when that
        session ends."""
        return f"{self._root}/members/{quote(member, safe='')}@{self._session}"


def _check_size(what: str, value: bytes) -> None:
    if len(value) > VALUE_BYTES:
        raise LimitExceeded(f"{what} has {len(value)} bytes; {VALUE_BYTES} are allowed.")


def _settle(future: asyncio.Future[Any], result: IAsyncResult) -> None:
    if future.done():
        return  # the caller was cancelled
    if result.exception is not None:
        future.set_exception(result.exception)
    else:
        future.set_result(result.value)


class _Connection(ConnectionHandler):  # type: ignore[misc]
    """Reports when the session was begun or renewed, and which time-out was granted: the client
    library keeps neither."""

    def __init__(self, client: KazooClient, connected: Callable[[float, int, float], None]) -> None:
        super().__init__(client, client._conn_retry.copy(), logger=client.logger)
        self._on_connected = connected

    def _connect(self, host: str, hostip: str, port: int) -> tuple[float, float]:
        sent = time.monotonic()
        read_timeout, connect_timeout = super()._connect(host, hostip, port)
        session_s = read_timeout * 3 / 2 / 1000  # the read time-out is two thirds of the session's
        self._on_connected(sent, self.client._session_id, session_s)
        return read_timeout, connect_timeout
