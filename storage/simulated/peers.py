"""Connections between simulated members: messages take time, and break off.

A connection lives outside of every process: messages of a crashed or frozen process still arrive,
in order. A message to a dead process vanishes; a message to a frozen process waits and is begun
when the process thaws. A message between two parted processes is sent again until they are joined.
The two ends of a connection break at different times, each when it learns of the break: by a fault,
from the other end, or because the other process is dead or silent for too long.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable

from hornbeam_server.schema.errors import HornbeamError, Unavailable
from hornbeam_server.storage.limits import require_sendable
from hornbeam_server.storage.ports import Answer, Caller
from hornbeam_server.storage.simulated.chaos import Chaos, Fault
from hornbeam_server.storage.simulated.loop import Process, SimulatedLoop
from hornbeam_server.storage.simulated.network import settle

LOOK_S = 0.5
"""Seconds between two checks of an end whether the process at the other end lives."""
SILENCE_S = 2.0
"""An end breaks when the other process has been silent for so long."""
CONNECT_S = 2.0
RESEND_S = 0.2


class SimulatedNetwork:
    """The listening members by address, and the delays and faults of messages to them. All
    processes share one network."""

    def __init__(self, loop: SimulatedLoop, chaos: Chaos) -> None:
        self.loop = loop
        self.chaos = chaos
        self._listening: dict[str, SimulatedPeers] = {}
        self._ports = itertools.count(1)
        self._parted: set[frozenset[Process]] = set()

    def listen(self, peers: SimulatedPeers) -> str:
        """Register `peers` as listening; returns an address that was never returned before."""
        address = f"{peers.process.name.replace(' ', '-')}:{next(self._ports)}"
        self._listening[address] = peers
        return address

    def unlisten(self, address: str) -> None:
        self._listening.pop(address, None)

    def at(self, address: str) -> SimulatedPeers | None:
        """The member that listens at `address`; None if there is none or its process is dead."""
        peers = self._listening.get(address)
        return None if peers is None or peers.process.dead else peers

    def part(self, one: Process, other: Process) -> None:
        """Stop all messages between two processes, until `join` or `join_all`."""
        self._parted.add(frozenset((one, other)))

    def join(self, one: Process, other: Process) -> None:
        self._parted.discard(frozenset((one, other)))

    def join_all(self) -> None:
        self._parted.clear()

    def are_parted(self, one: Process, other: Process) -> bool:
        return frozenset((one, other)) in self._parted


class SimulatedPeers:
    """The `Peers` of one process."""

    def __init__(self, network: SimulatedNetwork, process: Process) -> None:
        self.process = process
        self._network = network
        self._address = ""
        self._answer: Answer | None = None
        self._links: list[_AskingEnd] = []
        self._newest: dict[str, _AnsweringEnd] = {}
        self._closed = False

    async def listen(self, answer: Answer) -> str:
        self._answer = answer
        self._address = self._network.listen(self)
        return self._address

    async def connect(self, name: str, address: str, number: int) -> _AskingEnd:
        if self._closed:
            raise Unavailable("The connections of this member are closed.")
        link = _Connection(self._network, self.process, Caller(name, number), address).asking
        self._links = [known for known in self._links if not known.broken] + [link]
        try:
            async with asyncio.timeout(CONNECT_S):
                await link.accepted
        except BaseException as error:
            link.hang_up("no caller waits for it any more")
            if isinstance(error, TimeoutError):
                raise Unavailable(f"The member at {address} has not answered.") from None
            raise
        return link

    async def close(self) -> None:
        self._closed = True
        self._network.unlisten(self._address)
        for link in self._links:
            link.hang_up("this member closed it")
        for end in self._newest.values():
            end.hang_up("the other side closed it")

    async def answer(self, caller: Caller, message: bytes) -> bytes:
        assert self._answer is not None
        answer = await self._answer(caller, message)
        require_sendable("An answer", answer)
        return answer

    def admit(self, end: _AnsweringEnd) -> None:
        """Serve this connection and cut an earlier one of the same name. Raises Unavailable."""
        if self._closed:
            raise Unavailable("no member listens any more")
        newest = self._newest.get(end.caller.name)
        if newest is not None:
            if newest.caller.connection >= end.caller.connection:
                raise Unavailable("a newer connection of this name is there")
            newest.hang_up("a newer one took its place")
        self._newest[end.caller.name] = end


class _Way:
    """One direction of a connection. Messages arrive in the order of sending, whatever delay each
    has, and none arrives while the direction `is_cut`."""

    def __init__(self, network: SimulatedNetwork, is_cut: Callable[[], bool]) -> None:
        self._network = network
        self._is_cut = is_cut
        self._under_way: deque[Callable[[], object]] = deque()
        self._last = 0.0

    def send(self, arrive: Callable[[], object]) -> None:
        """Call `arrive` outside of every process, after the arrival of all earlier messages."""
        loop = self._network.loop
        self._last = max(self._last, loop.time() + self._network.chaos.latency())
        self._under_way.append(arrive)
        loop.in_world(self._last - loop.time(), self._deliver)

    def lose(self) -> None:
        """Drop all messages that are on their way."""
        self._under_way.clear()

    def _deliver(self) -> None:
        """Deliver the first message, whichever message the timer belongs to: rounding may change
        the order of timers."""
        if self._under_way and self._is_cut():
            self._network.loop.in_world(RESEND_S, self._deliver)
        elif self._under_way:
            self._under_way.popleft()()


class _Connection:
    """The two directions between two ends. It begins with a hello to the member that listens at
    `address`."""

    def __init__(
        self, network: SimulatedNetwork, process: Process, caller: Caller, address: str
    ) -> None:
        self.network = network
        self.caller = caller
        self._address = address
        self.there = _Way(network, self.is_cut)
        self.back = _Way(network, self.is_cut)
        self.asking = _AskingEnd(self, process)
        self.answering: _AnsweringEnd | None = None
        if process.dead:
            raise asyncio.CancelledError
        self.there.send(self._hello)

    def is_cut(self) -> bool:
        """True if the two processes are parted."""
        peers = self.network.at(self._address)
        return peers is not None and self.network.are_parted(self.asking.process, peers.process)

    def _hello(self) -> None:
        peers = self.network.at(self._address)
        if peers is None:
            why = f"no member listens at {self._address}"
            self.back.send(lambda: self.asking.broke(why))
        else:
            self.answering = _AnsweringEnd(self, peers)

    def _end(self) -> None:
        if self.answering is not None:
            self.answering.arrived(None)

    def tell_answering(self) -> None:
        """Send the end of the connection to the answering end."""
        self.there.send(self._end)

    def tell_asking(self, why: str) -> None:
        self.back.send(lambda: self.asking.broke(why))

    def maybe_break(self) -> None:
        """Break the connection if the fault strikes. Messages on their way may be lost, in either
        direction; then each end learns of the break."""
        if self.network.chaos.strikes(Fault.LINK_BROKEN):
            for way in (self.there, self.back):
                if self.network.chaos.random.random() < 0.5:
                    way.lose()
            self.tell_answering()
            self.tell_asking("it broke off")

    def watch(self, other: Process, over: Callable[[], bool], lost: Callable[[str], None]) -> None:
        """Call `lost` with the reason when `other` is dead or has been silent for too long. Stop
        when `over` returns true."""
        silent_s = 0.0

        def look() -> None:
            nonlocal silent_s
            silent_s = silent_s + LOOK_S if other.frozen or self.is_cut() else 0.0
            if over():
                return
            if other.dead or silent_s >= SILENCE_S:
                lost("the other side is silent")
            else:
                self.network.loop.in_world(LOOK_S, look)

        self.network.loop.in_world(LOOK_S, look)


class _AskingEnd:
    """The end of the caller: a `Link`."""

    def __init__(self, connection: _Connection, process: Process) -> None:
        self.broken = False
        self.accepted: asyncio.Future[None] = connection.network.loop.create_future()
        self._connection = connection
        self.process = process
        self._unanswered: dict[int, asyncio.Future[bytes]] = {}
        self._numbers = itertools.count(1)

    # ------------------------------------------------------------ in the process

    def ask(self, message: bytes) -> asyncio.Future[bytes]:
        if self.process.dead:
            raise asyncio.CancelledError
        require_sendable("A message", message)
        reply: asyncio.Future[bytes] = self._connection.network.loop.create_future()
        if self.broken:
            settle(reply, Unavailable("The connection to the member is broken."))
            return reply
        number = next(self._numbers)
        self._unanswered[number] = reply
        self._connection.there.send(lambda: self._arrive(number, message))
        self._connection.maybe_break()
        return reply

    def _arrive(self, number: int, message: bytes) -> None:
        assert self._connection.answering is not None
        self._connection.answering.arrived((number, message))

    async def close(self) -> None:
        self.hang_up("it was closed")

    def hang_up(self, why: str) -> None:
        """Break the connection. Messages on their way arrive, and then the end."""
        if not self.broken and not self.process.dead:
            self._connection.tell_answering()
            self.broke(why)

    # ------------------------------------------------------------ in the world

    def welcome(self, answering: Process) -> None:
        """Note that the other end has accepted the connection."""
        if self.broken or self.accepted.done():  # the caller has given up
            self.lost("no caller waited for it")
        else:
            self.accepted.set_result(None)
            self._connection.watch(answering, lambda: self.broken, self.lost)

    def answered(self, number: int, answer: bytes) -> None:
        if (reply := self._unanswered.pop(number, None)) is not None:
            settle(reply, answer)

    def lost(self, why: str) -> None:
        """Break a connection whose loss this end has found."""
        self._connection.tell_answering()
        self.broke(why)

    def broke(self, why: str) -> None:
        self.broken = True
        settle(self.accepted, Unavailable(f"Cannot connect to the member: {why}."))
        unanswered, self._unanswered = self._unanswered, {}
        for reply in unanswered.values():
            settle(reply, Unavailable(f"The connection to the member broke: {why}."))


class _AnsweringEnd:
    """The end of the listener. It begins messages in the order of arrival, until it breaks."""

    def __init__(self, connection: _Connection, peers: SimulatedPeers) -> None:
        self.broken = False
        self.caller = connection.caller
        self._connection = connection
        self._peers = peers
        self._waiting: deque[tuple[int, bytes] | None] = deque()
        """Messages that have arrived and are not begun; None is the end of the connection."""
        peers.process.start(self._accept())

    # ------------------------------------------------------------ in the world

    def arrived(self, item: tuple[int, bytes] | None) -> None:
        """Take in a message, or None for the end. At a dead process the item vanishes."""
        if not self._peers.process.dead:
            self._note(f"message {item[0]}" if item is not None else "end")
            self._waiting.append(item)
            self._peers.process.start(self._take())

    def _note(self, what: str) -> None:
        network, (name, number) = self._connection.network, self.caller
        network.chaos.note(f"{network.loop.time():.6f} {name} connection {number} {what}")

    # ------------------------------------------------------------ in the process

    async def _accept(self) -> None:
        if self.broken:
            return
        try:
            self._peers.admit(self)
        except Unavailable as refused:
            self.hang_up(refused.message)
            return
        asking, answering = self._connection.asking, self._peers.process
        self._connection.back.send(lambda: asking.welcome(answering))
        self._connection.watch(asking.process, self._is_over, lambda _: self.arrived(None))

    def _is_over(self) -> bool:
        return self.broken or self._peers.process.dead

    async def _take(self) -> None:
        """Begin the first waiting item. Every task takes the first one, so that items begin in
        order whichever task runs first."""
        item = self._waiting.popleft()
        if self.broken:
            return
        if item is None:
            self.hang_up("the other side ended it")
        else:
            await self._handle(*item)

    async def _handle(self, number: int, message: bytes) -> None:
        try:
            answer = await self._peers.answer(self.caller, message)
        except HornbeamError as error:
            self.hang_up(f"the other side could not answer: {error.message}")
        except BaseException:
            self.hang_up("the other side failed")
            raise
        else:
            if not self._is_over():
                asking = self._connection.asking
                self._connection.back.send(lambda: asking.answered(number, answer))
                self._connection.maybe_break()

    def hang_up(self, why: str) -> None:
        """Break the connection: no message is begun any more, and the other end is notified."""
        if not self._is_over():
            self.broken = True
            self._connection.tell_asking(why)
