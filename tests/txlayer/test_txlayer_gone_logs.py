"""The logs of former members are removed, and no others."""

import asyncio

import pytest

from hornbeam_server.schema.errors import Unavailable
from hornbeam_server.storage.log.records import Batch, Checkpoint, encode
from hornbeam_server.storage.log.segments import SegmentedLog
from hornbeam_server.storage.ports import START
from hornbeam_server.storage.simulated.clock import SimulatedClock
from hornbeam_server.storage.simulated.coordination import SimulatedCoordination, SimulatedRegistry
from hornbeam_server.storage.simulated.files import SimulatedDisk, SimulatedFiles, SimulatedLogs
from hornbeam_server.txlayer.cluster.assignment import PATH, Assignment, Member
from hornbeam_server.txlayer.cluster.log_retention import GONE_S, JOIN_S, GoneLogs
from hornbeam_server.txlayer.cluster.low_water_mark import LowWater
from tests.txlayer.nodes_world import nodes
from tests.virtual_time import in_virtual_time

RETENTION_S = 600.0
"""Longer than `GONE_S`."""
RESERVED = encode(Checkpoint(START, 1, 0))


class World:
    """Logs, the assignment that names their owners, and the code that removes logs."""

    def __init__(self):
        self.registry = SimulatedRegistry(asyncio.get_running_loop().time)
        self.disk, self.clock = SimulatedDisk(), SimulatedClock()
        self.logs = SimulatedLogs(self.disk)

    async def open(self, *names, members=(), dead=(), retention_s=RETENTION_S):
        self.retention_s = retention_s
        self.coordination = await SimulatedCoordination.open(self.registry)
        for name in names:
            await self.log(name)
        if members:
            self.assign(members, dead)
        self.low_water = LowWater(self.coordination)
        self.gone = GoneLogs(self.logs, self.coordination, self.clock, self.low_water)
        return self

    async def remove(self):
        return await self.gone.remove(self.clock.wall_ms() - int(self.retention_s * 1000))

    async def log(self, name, epoch=1):
        return await SegmentedLog.open(SimulatedFiles(self.disk, name), name, epoch)

    def assign(self, members=(), dead=()):
        known = self.registry.read(PATH)
        assignment = Assignment(
            "", tuple(map(member, members)), tuple(map(member, dead)), ("",) * 256, {}, 0, False, 0
        )
        self.registry.write(PATH, assignment.encode(), known.version if known else 0)

    async def names(self):
        return "".join(sorted(await self.logs.touched()))

    async def clear(self, for_s):
        """Remove once a minute for so long; return how many logs are removed."""
        removed = 0
        for _ in range(int(for_s / 60) + 1):
            removed += await self.remove()
            await asyncio.sleep(60)
        return removed


def member(name):
    return Member(name, f"http://{name}", f"{name}:1")


@in_virtual_time
async def test_logs_without_owner_are_removed_after_the_retention():
    world = await World().open("a", "b", "c", members="a", dead="b")
    await world.clear(RETENTION_S - 120)
    assert await world.names() == "abc"
    await world.clear(240)
    assert await world.names() == "ab"
    world.assign(members="a")
    await world.clear(2 * GONE_S)
    assert await world.names() == "a"
    assert await world.clear(2 * RETENTION_S) == 0


@in_virtual_time
async def test_a_log_that_was_taken_over_is_kept_for_the_retention_again():
    world = await World().open("a", "b", members="a", dead="b")
    await asyncio.sleep(2 * RETENTION_S)
    await world.log("b", 2)
    world.assign(members="a")
    await world.clear(RETENTION_S - 120)
    assert await world.names() == "ab"
    await world.clear(240)
    assert await world.names() == "a"


@in_virtual_time
async def test_the_log_of_a_node_with_a_session_is_kept_before_it_is_a_member():
    world = await World().open("a", "j", members="a", retention_s=0.0)
    await world.coordination.join("j")
    await world.clear(3 * GONE_S)
    assert await world.names() == "aj"


@in_virtual_time
async def test_neither_a_zero_retention_nor_a_clock_jump_hastens_removal():
    """A node has opened its log, and is about to show itself."""
    world = await World().open("a", "j", members="a", retention_s=0.0)
    world.clock.skew_ms = 10**9
    for _ in range(int(JOIN_S)):
        assert await world.remove() == 0
        await asyncio.sleep(1)
    await world.coordination.join("j")
    world.assign(members="aj")
    await world.clear(3 * GONE_S)
    assert await world.names() == "aj"


@in_virtual_time
async def test_no_log_is_removed_before_there_are_members():
    world = await World().open("local", retention_s=0.0)
    await world.clear(3 * GONE_S)
    assert await world.names() == "local"


@in_virtual_time
async def test_a_failed_removal_is_repeated_and_does_not_stop_others():
    world = await World().open(*"abcd", members="a", retention_s=0.0)
    remove, tries = world.logs.remove, []

    async def failing(name):
        tries.append(name)
        if len(tries) == 2:
            raise Unavailable("No answer.")
        await remove(name)

    world.logs.remove = failing
    await world.remove()
    await asyncio.sleep(GONE_S)
    with pytest.raises(Unavailable):
        await world.remove()
    assert await world.names() == "ac"
    assert await world.remove() == 1
    assert await world.names() == "a"
    assert tries == ["b", "c", "d", "c"]


@in_virtual_time
async def test_the_owner_of_a_removed_log_can_neither_write_nor_recreate_it():
    world = await World().open("a", members="a", retention_s=0.0)
    zombie = await world.log("z")
    await zombie.append([RESERVED])
    idle = await world.log("i")
    await world.clear(2 * GONE_S)
    for log in (zombie, idle):
        with pytest.raises(Unavailable):
            await log.append([b"late"])
    assert await world.names() == "a"


@in_virtual_time
async def test_a_log_with_commits_above_the_horizon_is_kept():
    """Its owner's clock was ahead, or followers still need it. Removing the other raises the
    low-water mark."""
    world = await World().open("a", "b", "c", members="a", retention_s=0.0)
    far = world.clock.wall_ms() + 10_000_000
    for name, ts in (("b", 5), ("c", far)):
        log = await world.log(name, 2)
        await log.append([encode(Batch(ts, [])), RESERVED])
    await world.clear(2 * GONE_S)
    assert await world.names() == "ac"
    assert await world.low_water.read() == 5


@in_virtual_time
async def test_removing_a_log_without_commits_leaves_the_low_water_mark():
    world = await World().open("a", "b", members="a", retention_s=0.0)
    await (await world.log("b", 2)).append([RESERVED])
    await world.clear(2 * GONE_S)
    assert await world.names() == "a"
    assert await world.low_water.read() is None


@in_virtual_time
async def test_a_damaged_log_is_kept_and_others_are_removed():
    world = await World().open("a", "b", "c", members="a", retention_s=0.0)
    await (await world.log("b", 2)).append([b"no record"])
    await world.clear(2 * GONE_S)
    assert await world.names() == "ab"


@in_virtual_time
async def test_logs_of_former_nodes_do_not_pile_up():
    world = await nodes(0, 0, log_retention_s=30.0)
    logs = SimulatedLogs(world.disk)
    for _ in range(4):
        leader = world.leader
        leader.die()
        await world.launch()
        await world.settled()
    assert len(await logs.touched()) == 6
    await asyncio.sleep(4 * GONE_S)
    assert set(await logs.touched()) == {node.name for node in world.living}
    assert len(world.living) == 2
    await world.end()


@in_virtual_time
async def test_a_node_that_opens_its_log_too_slowly_does_not_join():
    world = await nodes(0)
    joining = world.launch()
    late = world.all[-1]
    open_log = late._open_log

    async def slowly(*arguments):
        log = await open_log(*arguments)
        await asyncio.sleep(JOIN_S + 1)
        return log

    late._open_log = slowly
    with pytest.raises(Unavailable, match="too long"):
        await joining
    assert len(world.assignment.members) == 1
    await world.end()
