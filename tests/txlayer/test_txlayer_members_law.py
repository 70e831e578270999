"""Members join, leave, die, freeze and lose connections under one master: the invariants hold
(decision 21).

Transactions move money between two accounts, under exclusive locks of both; others read all
accounts under shared locks. Any member may grant these locks. So at every snapshot, and under the
locks of all accounts, the sum is zero; no acknowledged commit is lost; on each account timestamps
rise; and once the faults stop, every client finishes.
"""

import asyncio
from collections import Counter

import pytest

from hornbeam_server.schema.errors import OutcomeUnknown, TransactionAborted, Unavailable
from hornbeam_server.storage.ports import NEWEST, Put
from hornbeam_server.storage.simulated.chaos import Fault, Profile
from hornbeam_server.storage.simulated.clock import SimulatedClock
from hornbeam_server.storage.simulated.coordination import SimulatedCoordination
from hornbeam_server.txlayer.cluster.assignment import PATH, Assignment
from hornbeam_server.txlayer.cluster.master import Master
from hornbeam_server.txlayer.cluster.membership import POLL_S
from hornbeam_server.txlayer.commit.encoding import encoded
from hornbeam_server.txlayer.commit.recovery import recover
from hornbeam_server.txlayer.locking.locks import LockOwner, Mode
from tests.depth import depth
from tests.txlayer.members_world import Party, World, until
from tests.virtual_time import in_virtual_time

TABLE = "r.account.0"
ACCOUNTS = [str(n).encode() for n in range(8)]
TROUBLE_S = 12.0
CALM_S = 60.0
"""Once the faults stop, every client finishes within this time."""
FOREVER = 1e9


class Bank:
    """The members, their master, and the clients at each member."""

    def __init__(self, seed: int) -> None:
        # Few connections break by chance: the tests cut many more.
        self.world = World(seed=seed, profile=Profile(rate={Fault.LINK_BROKEN: 0.001}))
        self.random = self.world.chaos.random
        self.did = Counter()
        self.reported: list[bytes] = []
        self.clients: list[asyncio.Task] = []
        self.stopped = False
        self._numbers = iter(range(1, 1 << 30))

    # ------------------------------------------------------------ members

    async def open(self, n: int) -> None:
        self.master_process = asyncio.get_running_loop().process("master")
        self.mastering = self.master_process.start(self.master())
        for _ in range(n):
            await self.join()
        await until(lambda: all(party.manager.gate.is_open for party in self.living))

    async def master(self) -> None:
        coordination = await SimulatedCoordination.open(self.world.registry)
        await Master(coordination, SimulatedClock(), "master", self.recover, 0).run()

    async def recover(self, member, epoch: int) -> int:
        log = self.world.parties[member.name].log
        log.fence()
        await asyncio.sleep(self.random.uniform(0, 0.5))
        return (await recover(self.world.store, log.after_crash(epoch))).last_ts

    async def join(self) -> None:
        skew_ms = self.random.randint(-1_000, 1_000)
        party = await self.world.party(f"m{len(self.world.parties)}", skew_ms)
        await party.live()
        self.clients += [party.begin(self.client(party)) for _ in range(3)]

    @property
    def living(self) -> list[Party]:
        """Living members that have a session."""
        shown = self.world.registry.members()
        return [party for party in self.world.living() if party.name in shown]

    # ------------------------------------------------------------ clients

    async def client(self, party: Party) -> None:
        while not (self.stopped or party.living.done()):
            await asyncio.sleep(self.random.uniform(0, 0.05))
            work = self.random.choice([self.transfer, self.transfer, self.look, self.read])
            await work(party)

    async def transfer(self, party: Party) -> None:
        one, other = self.random.sample(ACCOUNTS, 2)
        age = (party.clock.wall_ms(), next(self._numbers), party.name)
        while not await self.tries(party, age, [one, other], Mode.EXCLUSIVE, self.commit):
            pass

    async def look(self, party: Party) -> None:
        age = (party.clock.wall_ms(), next(self._numbers), party.name)
        while not await self.tries(party, age, ACCOUNTS, Mode.SHARED, self.sum):
            pass

    async def tries(self, party: Party, age, accounts, mode: Mode, work) -> bool:
        """One attempt, as the transaction manager makes it; False if it has to be repeated."""
        owner = LockOwner(age)
        try:
            await party.manager.gate.enter(FOREVER)
        except Unavailable:
            return True
        names = [("root", "account", account) for account in accounts]
        self.random.shuffle(names)
        together = self.random.random() < 0.5
        try:
            for some in [names] if together else [[name] for name in names]:
                await party.locks.acquire(owner, some, mode)
            ts = await work(party, owner, accounts)
        except OutcomeUnknown:
            party.manager.gate.leave()
            return True
        except (TransactionAborted, Unavailable) as error:
            self.release(party, owner)
            self.did[getattr(error, "details", {}).get("reason", "unavailable")] += 1
            await asyncio.sleep(0.005)
            return not isinstance(error, TransactionAborted) or party.living.done()
        self.release(party, owner, ts)
        self.did[work.__name__] += 1
        return True

    def release(self, party: Party, owner: LockOwner, ts: int = 0) -> None:
        party.locks.release_all(owner, ts)
        party.manager.gate.leave()

    async def commit(self, party: Party, owner: LockOwner, accounts) -> int:
        cells = await self.world.store.get(TABLE, accounts, NEWEST)
        await asyncio.sleep(self.random.uniform(0, 0.003))
        values = [int(cell.value) if cell is not None else 0 for cell in cells]
        number = next(self._numbers)
        row = b"t%d" % number
        puts = [
            Put(account, b"%d" % (value + change))
            for account, value, change in zip(accounts, values, (-1, 1), strict=True)
        ]
        party.locks.require_in_force(owner)
        committed = await party.committer.commit(
            await encoded(f"{number:032x}", 0, [], [], {TABLE: [*puts, Put(row, b"1")]}, None)
        )
        assert committed.ts > max(cell.ts if cell is not None else 0 for cell in cells)
        assert committed.ts > party.locks.clock(owner)
        self.reported.append(row)
        return committed.ts

    async def sum(self, party: Party, owner: LockOwner, accounts) -> int:
        total = await self.sum_at(NEWEST)
        party.locks.require_in_force(owner)
        if party.coordination.alive():
            assert total == 0
        return 0

    async def read(self, party: Party) -> None:
        before = list(self.reported)
        strong = self.random.random() < 0.3
        try:
            at = await party.snapshots.read_point(strong=strong)
        except Unavailable:
            self.did["no read"] += 1
            return
        assert await self.sum_at(at) == 0
        if strong and party.coordination.alive():
            assert None not in await self.world.store.get(TABLE, before, at)
        self.did["strong read" if strong else "read"] += 1

    async def sum_at(self, at: int) -> int:
        cells = await self.world.store.get(TABLE, ACCOUNTS, at)
        return sum(int(cell.value) for cell in cells if cell is not None)

    # ------------------------------------------------------------ faults

    async def trouble(self) -> None:
        loop = asyncio.get_running_loop()
        self.world.chaos.unleash()
        ends = loop.time() + TROUBLE_S
        while loop.time() < ends:
            await asyncio.sleep(self.random.expovariate(1 / 0.4))
            if not self.living:  # all members are frozen
                await self.join()
            party = self.random.choice(self.living)
            strike = self.random.choice(
                [self.cut, self.cut, self.freeze, self.die, self.zombie, self.leave, self.join]
            )
            await self.strike(strike, party)
        self.world.chaos.calm()

    async def strike(self, strike, party: Party) -> None:
        if strike == self.join:
            if len(self.living) < 5:
                await self.join()
        elif strike in (self.cut, self.freeze) or len(self.living) > 2:
            self.did[strike.__name__] += 1
            await strike(party)

    async def cut(self, party: Party) -> None:
        party.peers.cut()

    async def freeze(self, party: Party) -> None:
        """Freeze the process, sometimes for longer than its session lasts."""
        party.process.freeze()
        seconds = self.world.chaos.between((0.05, 6.0))
        asyncio.get_running_loop().in_world(seconds, party.process.thaw)

    async def die(self, party: Party) -> None:
        """Crash the process; its session ends at once or by its time-out."""
        party.process.crash()
        if self.random.random() < 0.5:
            self.world.registry.end(party.coordination._session)

    async def zombie(self, party: Party) -> None:
        self.world.registry.end(party.coordination._session)
        asyncio.get_running_loop().in_world(5.0, party.process.crash)

    async def leave(self, party: Party) -> None:
        party.membership.leave()
        for _ in range(40):
            await asyncio.sleep(POLL_S)
            if party.membership.owns_nothing:
                break
        await self.die(party)

    # ------------------------------------------------------------ the end

    async def come_to_an_end(self) -> None:
        self.stopped = True
        await until(self.is_over, CALM_S)
        for party in self.living:
            await until(lambda party=party: party.table.held_count == 0, 5.0)
            assert party.table.waiting_count == 0
            assert party.guests._guests == {}
            at = await party.do(party.snapshots.read_point(strong=True))
            assert await self.sum_at(at) == 0
            assert None not in await self.world.store.get(TABLE, self.reported, at)

    def is_over(self) -> bool:
        """Whether no client of a living member works any more, and no member is dead or leaving."""
        self.end_who_failed()
        known = Assignment.decode(self.world.registry.read(PATH).value)
        return (
            not known.dead
            and not known.leaving
            and {member.name for member in known.members} == {p.name for p in self.living}
            and all(task.done() for task in self.clients if not self.is_dead(task))
        )

    def end_who_failed(self) -> None:
        """Crash failed members, as the operator of the nodes does."""
        shown = self.world.registry.members()
        for party in list(self.world.living()):
            if party.living.done() or party.committer.failed or party.name not in shown:
                party.process.crash()
                self.world.registry.end(party.coordination._session)

    def is_dead(self, task: asyncio.Task) -> bool:
        return any(p.process.dead and task in p.process._tasks for p in self.world.parties.values())

    async def close(self) -> None:
        for task in self.clients:
            if task.done():
                task.result()
        assert not self.mastering.done()
        self.master_process.crash()
        await self.master_process.bury()
        await self.world.end()


@pytest.mark.parametrize("seed", range(depth(4, long=10)))
@in_virtual_time
async def test_transfers_keep_the_sum_whatever_happens_to_members(seed):
    bank = Bank(seed)
    await bank.open(3)
    await bank.trouble()
    await bank.come_to_an_end()
    await bank.close()
    assert bank.did["commit"] > 100
    assert bank.did["sum"] > 20
    assert bank.did["read"] > 20
