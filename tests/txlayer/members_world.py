"""Members under an assignment that the test writes, or a master: their locks, logs and snapshots.

All that `node/database.py` assembles, without the parts that know SQL. Time is virtual; messages
take some of it, and arrive unless a test breaks the connection. `show` lets members read a version
at once; members that `live` look for versions by themselves, and acknowledge them.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from msgspec.structs import replace

from hornbeam_server.schema.catalog import Catalog, Forest
from hornbeam_server.schema.errors import HornbeamError, Unavailable
from hornbeam_server.schema.model import Schema
from hornbeam_server.storage.ports import Answer, Caller, Cell, Link, Position, Put
from hornbeam_server.storage.simulated.chaos import Chaos, Profile
from hornbeam_server.storage.simulated.clock import SimulatedClock
from hornbeam_server.storage.simulated.coordination import SimulatedCoordination, SimulatedRegistry
from hornbeam_server.storage.simulated.loop import Process
from hornbeam_server.storage.simulated.peers import SimulatedNetwork, SimulatedPeers
from hornbeam_server.txlayer.cluster.assignment import PATH, SLOTS, Assignment, Member, Word
from hornbeam_server.txlayer.cluster.balance import handed_over
from hornbeam_server.txlayer.cluster.links import Links
from hornbeam_server.txlayer.cluster.member import Answering
from hornbeam_server.txlayer.cluster.membership import Membership
from hornbeam_server.txlayer.cluster.membership_view import View, slot_of
from hornbeam_server.txlayer.cluster.messages import Lock, Release, Request, decode_request
from hornbeam_server.txlayer.cluster.recent import MembersBatches, MembersCommits
from hornbeam_server.txlayer.cluster.remote_locks import Guests, TravellingLocks
from hornbeam_server.txlayer.cluster.shared_views import SharedViews
from hornbeam_server.txlayer.cluster.slot_rates import SlotRates
from hornbeam_server.txlayer.cluster.snapshots import MembersSnapshots
from hornbeam_server.txlayer.commit.committer import Committer
from hornbeam_server.txlayer.commit.hlc import HybridClock
from hornbeam_server.txlayer.commit.read_holds import Readers
from hornbeam_server.txlayer.commit.snapshots import OwnSnapshots
from hornbeam_server.txlayer.locking.locks import LockName, LockTable
from hornbeam_server.txlayer.locking.schema_gate import Gate
from hornbeam_server.txlayer.transactions.row_count_deltas import Growth
from hornbeam_server.txlayer.views.recent_batches import RecentBatches
from tests.txlayer.txlayer_world import MemoryLog, MemoryStore

NOTHING = Catalog(0, Schema(()), Forest(()))


@dataclass
class State:
    catalog: Catalog = NOTHING


class Manager:
    """The part of the transaction manager that a membership needs."""

    def __init__(self) -> None:
        self.gate = Gate()
        self.state = State()
        self.unfinished: dict[str, str] = {}
        self.growth = Growth()

    def use(self, catalog: Catalog) -> None:
        self.state = State(catalog)


class Peers(SimulatedPeers):
    """Peers that know their links, so that a test can break them."""

    def __init__(self, network: SimulatedNetwork, process: Process) -> None:
        super().__init__(network, process)
        self.connected: list[tuple[str, int]] = []
        self.links: list[Link] = []

    async def connect(self, name: str, address: str, number: int) -> Link:
        link = await super().connect(name, address, number)
        self.connected.append((address, number))
        self.links.append(link)
        return link

    def cut(self) -> None:
        """Break every link of this side at once; messages under way may still arrive."""
        for link in self.links:
            link.lost("the test cut it")


class Store(MemoryStore):
    """A store that finds the versions of a row without a scan, because there are many."""

    def __init__(self) -> None:
        super().__init__()
        self._versions: defaultdict[tuple[str, bytes], list[tuple[int, bytes]]] = defaultdict(list)

    async def put(self, writes: Mapping[str, Sequence[Put]], ts: int) -> None:
        await super().put(writes, ts)
        for table, puts in writes.items():
            for put in puts:
                versions = self._versions[table, put.key]
                versions[:] = sorted({**dict(versions), ts: put.value}.items())

    def _newest(self, table: str, key: bytes, at: int) -> Cell | None:
        for ts, value in reversed(self._versions[table, key]):
            if ts <= at:
                return Cell(key, ts, value)
        return None


class Log(MemoryLog):
    """A log that takes no more after a cancelled append, as the port requires."""

    async def append(self, payloads: Sequence[bytes]) -> Position:
        try:
            return await super().append(payloads)
        except BaseException:
            self.broken = True
            raise

    def fence(self) -> None:
        """Refuse every further append."""

        def refuse(_: Sequence[bytes]) -> None:
            raise Unavailable("The log is fenced.")

        self.fault = refuse


class Party:
    """One member and its process."""

    def __init__(self, world: World, name: str, skew_ms: int) -> None:
        self.world = world
        self.name = name
        self.process = asyncio.get_running_loop().process(name)
        self.clock = SimulatedClock(skew_ms=skew_ms)
        self.store = world.store
        self.log = Log()
        self.hlc = HybridClock(self.clock)
        self.committer = Committer(
            store=self.store,
            log=self.log,
            clock=self.clock,
            hlc=self.hlc,
        )
        self.manager = Manager()
        self.readers = Readers()
        self.rates = SlotRates(self.clock)
        self.table = LockTable(self.rates.count)
        self.view = View(name)
        self.peers = Peers(world.network, self.process)
        self.links = Links(self.peers, self.view, self.clock)
        self.locks = TravellingLocks(self.table, self.view, self.links, self.hlc, self.clock)
        self.guests = Guests(self.table, self.view, self.hlc, self.clock)
        own = OwnSnapshots(self.committer, self.hlc)
        self.snapshots = MembersSnapshots(
            own, self.committer, self.view, self.links, self.clock, self.catalog
        )
        self.commits = MembersCommits(self.committer, self.clock, own, self.view, self.links)
        recent = defaultdict(RecentBatches)
        self.recent = recent.__getitem__
        self.batches = MembersBatches(self.view, self.links, self.clock, self.recent)
        self.shared_views = SharedViews(self.view, self.links, self.rates)
        self.answering = Answering(
            self.view,
            self.guests,
            self.snapshots,
            self.manager,
            self.hlc,
            self.committer,
            self.commits,
            self.batches,
            self.shared_views,
        )
        self.received: list[tuple[Caller, Request]] = []
        self.answer: Answer = self.answering.answer

    async def start(self) -> None:
        self.member = Member(self.name, f"http://{self.name}", await self.peers.listen(self._heard))
        self.coordination = await SimulatedCoordination.open(self.world.registry)
        await self.committer.start()
        self.membership = Membership(
            coordination=self.coordination,
            clock=self.clock,
            view=self.view,
            word=Word(self.member.address, self.member.peer),
            hlc=self.hlc,
            committer=self.committer,
            manager=self.manager,
            guests=self.guests,
            links=self.links,
            snapshots=self.snapshots,
            readers=self.readers,
            rates=self.rates,
            load=self.world.load,
            max_skew_s=10.0,
        )

    def catalog(self) -> int:
        return self.manager.state.catalog.version

    async def _heard(self, caller: Caller, message: bytes) -> bytes:
        self.received.append((caller, decode_request(message)))
        return await self.answer(caller, message)

    def heard(self, *kinds: type) -> list[Request]:
        return [request for _, request in self.received if isinstance(request, kinds)]

    def see(self, version: int, assignment: Assignment) -> None:
        """Read this version now, as a look at the service does."""
        self.membership._see(version, assignment)

    async def do(self, work: Awaitable):
        """Run `work` in this member's process, and return its result."""
        return await self.begin(work)

    def begin(self, work: Awaitable) -> asyncio.Task:
        return self.process.start(_run(work))

    async def live(self) -> None:
        """Ask to become a member, and look for versions from now on."""
        await self.do(self.membership.join())
        self.living = self.begin(self.membership.run())

    def word(self) -> Word | None:
        """The word that this member shows now."""
        shown = self.world.registry.members().get(self.name)
        return None if shown is None else Word.decode(shown)

    def die(self) -> None:
        """Crash the process and end its session."""
        self.process.crash()
        self.world.registry.end(self.coordination._session)


class World:
    def __init__(self, *, seed: int = 1, profile: Profile | None = None) -> None:
        loop = asyncio.get_running_loop()
        self.chaos = Chaos(seed, profile or Profile())
        self.network = SimulatedNetwork(loop, self.chaos)
        self.registry = SimulatedRegistry(loop.time)
        self.store = Store()
        self.catalogs = {0: NOTHING}
        self.parties: dict[str, Party] = {}
        self.version = 0
        self.assignment = Assignment.founded("", 0)
        self._keys = count()

    async def party(self, name: str, skew_ms: int = 0) -> Party:
        party = self.parties[name] = Party(self, name, skew_ms)
        await party.do(party.start())
        return party

    async def load(self, version: int) -> Catalog:
        return self.catalogs[version]

    # ------------------------------------------------------------ the assignment

    def write(self, **changes: object) -> Assignment:
        """Write the next version; living members read it at their next look."""
        self.assignment = replace(self.assignment, **changes)
        self.version = self.registry.write(PATH, self.assignment.encode(), self.version)
        return self.assignment

    def show(self, *to: Party) -> None:
        """Let these members, or all living ones, read the newest version."""
        for party in to or [p for p in self.parties.values() if not p.process.dead]:
            party.see(self.version, self.assignment)

    def change(self, **changes: object) -> None:
        self.write(**changes)
        self.show()

    def bury(self, *names: str) -> None:
        """Write that these members are dead, their logs not recovered yet (death 1)."""
        members = self.assignment.members
        self.write(
            members=tuple(member for member in members if member.name not in names),
            dead=tuple(member for member in members if member.name in names),
            slots=tuple("" if owner in names else owner for owner in self.assignment.slots),
            leaving={},
        )

    def leave(self, name: LockName, to: str) -> None:
        """Write that the slot of this lock leaves its owner."""
        self.write(leaving={slot_of(name): to})

    def move(self) -> None:
        """Write the new owners of the slots that are leaving."""
        slots = list(self.assignment.slots)
        for slot, owner in self.assignment.leaving.items():
            slots[slot] = owner
        self.write(slots=tuple(slots), leaving={})

    def names(self, owner: str, n: int, kind: str = "root") -> list[LockName]:
        """`n` new names of locks that `owner` grants, each in a slot of its own."""
        found: dict[int, LockName] = {}
        while len(found) < n:
            name = (kind, "r", str(next(self._keys)).encode())
            if self.assignment.slots[slot_of(name)] == owner:
                found.setdefault(slot_of(name), name)
        return list(found.values())

    # ------------------------------------------------------------ the end

    def living(self) -> Iterator[Party]:
        return (party for party in self.parties.values() if not party.process.dead)

    async def end(self) -> None:
        for party in self.parties.values():
            party.process.crash()
        for party in self.parties.values():
            await party.process.bury()
        assert asyncio.get_running_loop().uncaught == []


async def members(*names: str, **options) -> tuple[World, list[Party]]:
    """A world of these members; they share the slots, and have read the assignment."""
    world = World(**options)
    parties = [await world.party(name) for name in names]
    found(world, parties)
    return world, parties


def found(world: World, parties: Iterable[Party]) -> None:
    joined = tuple(replace(party.member, commits=True) for party in parties)
    slots = handed_over([""] * SLOTS, [member.name for member in joined], [1] * SLOTS)
    world.change(members=joined, slots=slots)


async def _run(work: Awaitable):
    return await work


async def soon(seconds: float = 0.02) -> None:
    """Wait until every message under way has arrived and is answered."""
    await asyncio.sleep(seconds)


async def until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    """Return once `condition` holds; fail after this much virtual time."""
    for _ in range(int(seconds / 0.01)):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the condition did not come true")


async def refusal(work: Awaitable) -> HornbeamError:
    """The error that `work` raises; it must raise one."""
    try:
        result = await work
    except HornbeamError as error:
        return error
    raise AssertionError(f"was not refused: {result!r}")


def attempts(requests: Iterable[Request]) -> list[int]:
    """The attempts whose locks are requested or released, in the order of the messages."""
    found: list[int] = []
    for request in requests:
        match request:
            case Lock():
                found.append(request.attempt)
            case Release():
                found.extend(request.attempts)
    return found
