"""The commits that nodes report between two snapshots are exactly the changes between them."""

import asyncio
import random
from collections import Counter
from dataclasses import replace

import pytest

from hornbeam_server.node.change_feed import begun
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import (
    Corruption,
    HornbeamError,
    InvalidRequest,
    SnapshotTooOld,
    Unavailable,
)
from hornbeam_server.storage.codec.rows import LayoutCodec
from hornbeam_server.storage.log.following import batches, changes
from hornbeam_server.storage.log.format import segment_name
from hornbeam_server.storage.log.records import Batch, encode
from hornbeam_server.storage.log.segments import SegmentedLog
from hornbeam_server.storage.simulated.coordination import SimulatedCoordination, SimulatedRegistry
from hornbeam_server.storage.simulated.files import (
    Fault,
    Kind,
    SimulatedDisk,
    SimulatedFiles,
    SimulatedLogs,
)
from hornbeam_server.txlayer.cluster.assignment import PATH, Assignment, Member, Word
from hornbeam_server.txlayer.cluster.low_water_mark import LowWater
from hornbeam_server.txlayer.cluster.messages import Seal
from hornbeam_server.txlayer.cluster.segment_positions import Following
from tests.txlayer.database_world import catalog_of, stored_rows
from tests.txlayer.members_world import refusal, until
from tests.txlayer.nodes_world import Nodes, nodes
from tests.virtual_time import in_virtual_time

DDL = """
CREATE TABLE parent (p_id INTEGER PRIMARY KEY, p_n INTEGER NOT NULL);
CREATE TABLE child (
  c_id INTEGER PRIMARY KEY, c_p_id INTEGER NOT NULL REFERENCES parent (p_id) ON DELETE CASCADE);
"""
APPENDED = DDL.replace("p_n INTEGER NOT NULL", "p_n INTEGER NOT NULL, p_new TEXT DEFAULT 'none'")
OTHER = APPENDED[: APPENDED.index("CREATE TABLE child")]
KEYS = range(20)


def schema(text, base=None):
    return catalog_of(load_ddl(text), base=base)


async def world_of(*skews_ms, **options):
    return await nodes(*skews_ms, catalog=schema(DDL), **options)


async def asked(node, after=None, upto=None):
    return await node.do(node.database.changes(after, upto))


async def now(node):
    return (await asked(node)).upto


def net(world, found, relation):
    """Rows and the sums of their weights, as a follower reads the segments."""
    decode = LayoutCodec(found.catalog.layout(relation)).decode
    after = max(found.after, found.begun.get(relation, 0))
    sums = Counter()
    for segment in found.segments:
        place = (segment.epoch, segment.sequence)
        data = bytes(world.disk.files(segment.log)[segment_name(*place)].data)
        assert len(data) == segment.bytes
        for batch in batches(data, *place):
            for commit in changes(batch) if after < batch.ts <= found.upto else ():
                for name, old, new in commit.changes:
                    for row, weight in ((old, -1), (new, 1)):
                        if name == relation and row is not None:
                            sums[decode(row)] += weight
    return sums


async def check(world, node, found):
    """Check that the rows at the first snapshot, with the changes, are the rows at the last."""
    for relation in found.catalog.schema.names:
        rows = Counter()
        if relation not in found.begun:
            rows.update(await node.do(stored_rows(node.database, relation, found.after)))
        rows.update(net(world, found, relation))
        there = Counter(await node.do(stored_rows(node.database, relation, found.upto)))
        assert {row: n for row, n in rows.items() if n} == there, relation


async def follow(world, node, after):
    found = await asked(node, after)
    await check(world, node, found)
    return found.upto


def statement(chosen):
    key, value = chosen.choice(KEYS), chosen.randrange(100)
    return chosen.choice(
        [
            f"INSERT INTO parent (p_id, p_n) VALUES ({key}, {value})",
            f"INSERT INTO child VALUES ({value}, {key})",
            f"UPDATE parent SET p_n = {value} WHERE p_id = {key}",
            f"DELETE FROM parent WHERE p_id = {key}",
            f"DELETE FROM child WHERE c_p_id = {key}",
        ]
    )


async def write(world, chosen, count):
    for _ in range(count):
        try:
            await chosen.choice(world.living).transact(statement(chosen), statement(chosen))
        except HornbeamError:
            continue


def files(world):
    return sum(len(world.disk.files(node.name)) for node in world.all)


@in_virtual_time
async def test_every_node_reports_the_changes_of_all_nodes():
    world, chosen = await world_of(0, 40, -40), random.Random(1)
    began = at = await now(world.all[0])
    for _ in range(8):
        await write(world, chosen, 12)
        at = await follow(world, chosen.choice(world.living), at)
    for node in world.all:
        found = await asked(node, began, at)
        assert found.upto == at
        assert {segment.log for segment in found.segments} == {n.name for n in world.all}
        await check(world, node, found)
    await world.end()


@in_virtual_time
async def test_changes_are_exact_while_transactions_go_on():
    world, chosen = await world_of(0, 0), random.Random(2)
    at = await now(world.all[0])
    writing = [asyncio.ensure_future(write(world, random.Random(n), 60)) for n in range(4)]
    while not all(task.done() for task in writing):
        at = await follow(world, chosen.choice(world.living), at)
    await follow(world, world.all[1], at)
    await world.end()


@in_virtual_time
async def test_no_log_is_sealed_without_commits():
    world = await world_of(0, 0)
    at = await now(world.all[0])
    await world.all[0].transact("INSERT INTO parent VALUES (1, 1)")
    found = await asked(world.all[1], at)
    assert len(found.segments) == 1
    before = files(world)
    for _ in range(5):
        await asyncio.sleep(4)
        for node in world.all:
            await node.do(node.database.committer.reserve())  # its log records the reservation
        found = await asked(world.all[1], found.upto)
        assert found.segments == ()
    assert files(world) <= before + 2
    await world.end()


@in_virtual_time
async def test_the_logs_of_former_members_are_read_too():
    world, chosen = await world_of(0, 0, 0), random.Random(3)
    began = at = await now(world.all[0])
    for _ in range(3):
        await write(world, chosen, 15)
        chosen.choice(world.living).die()
        await world.launch()
        await world.settled()
        await write(world, chosen, 5)
        at = await follow(world, chosen.choice(world.living), at)
    found = await asked(world.living[0], began)
    await check(world, world.living[0], found)
    assert len({segment.log for segment in found.segments}) > 3
    await world.end()


@in_virtual_time
async def test_changes_wait_for_the_recovery_of_a_dead_node():
    world = await world_of(0, 0)
    one, two = sorted(world.all, key=lambda node: not node.database.keeper.leads)
    at = await now(one)
    await two.transact("INSERT INTO parent VALUES (1, 1)")
    upto = await now(one)

    def never(operation):
        mine = operation.folder == two.name and operation.kind is Kind.FENCE
        return Fault(Unavailable("No answer.")) if mine else None

    world.disk.fault, name = never, two.name
    two.die()
    await until(lambda: {member.name for member in world.assignment.dead} == {name})
    await until(lambda: one.seen == world.registry.read("assignment").version)
    with pytest.raises(Unavailable, match="is being recovered"):
        await asked(one, at, upto)
    world.disk.fault = lambda _: None
    await world.settled()
    await follow(world, one, at)
    await world.end()


@in_virtual_time
async def test_changes_fail_while_a_member_cannot_seal_its_log():
    world = await world_of(0, 0)
    one, two = world.all
    at = await now(one)
    await two.transact("INSERT INTO parent VALUES (1, 1)")

    def fails(operation):
        mine = operation.folder == two.name and operation.kind is Kind.FINISH
        return Fault(Unavailable("No answer.")) if mine else None

    world.disk.fault = fails
    assert isinstance(await refusal(asked(one, at)), Unavailable)
    await world.end()


@in_virtual_time
async def test_a_joining_node_is_not_taken_for_a_former_member():
    """Its log is read while it is open; later commits must not be missed."""
    world = await world_of(0)
    (one,) = world.all
    at = await now(one)
    joining = world.launch()
    while not joining.done():
        at = await follow(world, one, at)
        await asyncio.sleep(0.01)
    await world.settled()
    for n in range(5):
        await world.all[1].transact(f"INSERT INTO parent VALUES ({n}, 1)")
        at = await follow(world, one, at)
    found = await asked(one, at)
    assert found.segments == ()
    await world.end()


@in_virtual_time
async def test_reads_only_logs_whose_owners_sealed_them_or_are_no_members():
    disk, clock = SimulatedDisk(), asyncio.get_running_loop().time
    registry = SimulatedRegistry(clock)
    coordination = await SimulatedCoordination.open(registry)
    members, dead = ([Member(name, "", "") for name in names] for names in ("ma", "d"))
    assignment = Assignment("", tuple(members), tuple(dead), ("",) * 256, {}, 0, False, 0)
    registry.write(PATH, assignment.encode(), 0)
    for name in "madjzg":
        log = await SegmentedLog.open(SimulatedFiles(disk, name), name, 1)
        await log.append([encode(Batch(5, []))])
    for name, version in (("j", 0), ("z", 3), ("a", 3)):
        await coordination.join(name, Word("", "", version=version).encode())
    low_water = LowWater(coordination)
    await low_water.begin(1)
    logs = SimulatedLogs(disk)
    following = Following(logs, logs, coordination, low_water)
    sealed = await SegmentedLog.open(SimulatedFiles(disk, "a"), "a", 2)
    await sealed.append([encode(Batch(6, []))])
    end = await sealed.roll()
    await sealed.append([encode(Batch(7, []))])
    found = await following.between(1, 9, {"a": end[:2]})
    assert sorted((s.log, s.epoch) for s in found) == [("a", 1), ("a", 2), ("g", 1), ("z", 1)]


def test_a_relation_begins_with_its_table():
    first = replace(schema(DDL), version=1, since=10)
    second = replace(first, version=2, since=20, incarnations=(("child", 7),))
    third = replace(second, version=3, since=30)
    assert begun([third, second, first]) == {"child": 20}
    assert begun([third, second]) == begun([first]) == {}


@in_virtual_time
async def test_changes_follow_appended_columns_and_recreated_relations():
    world, chosen = await world_of(0, 0), random.Random(4)
    began = at = await now(world.all[0])
    await write(world, chosen, 20)
    for text in (APPENDED, OTHER, APPENDED):
        await world.leader.apply(schema(text, base=world.leader.database.catalog))
        await world.settled()
        await write(world, chosen, 20)
        at = await follow(world, world.all[1], at)
    found = await asked(world.all[0], began)
    assert set(found.begun) == {"child"}
    await check(world, world.all[0], found)
    first = await asked(world.all[0], began, began + 1)
    assert first.catalog.version < found.catalog.version
    await world.end()


@in_virtual_time
async def test_changes_before_the_retention_are_refused():
    world, chosen = await world_of(0, 0, log_retention_s=30.0), random.Random(5)
    began = await now(world.all[0])
    await write(world, chosen, 20)
    await asyncio.sleep(100)
    at = await now(world.all[0])
    await write(world, chosen, 20)
    await asyncio.sleep(2)  # until there is a checkpoint
    for node in world.all:
        await node.do(node.database.purge())
    for node in world.all:
        with pytest.raises(SnapshotTooOld, match=str(began)):
            await asked(node, began)
        await check(world, node, await asked(node, at))
    await world.end()


@in_virtual_time
async def test_a_follower_of_an_idle_database_needs_no_dropped_segment():
    world, chosen = await world_of(0, 0, log_retention_s=30.0), random.Random(5)
    await write(world, chosen, 20)
    at = (await asked(world.all[0])).upto
    await asyncio.sleep(1_000)
    assert await world.all[0].do(world.all[0].database.low_water.read()) > 0
    await world.all[1].transact("UPDATE parent SET p_n = 5")
    await follow(world, world.all[0], at)
    await world.end()


@in_virtual_time
async def test_a_segment_dropped_during_the_search_is_detected():
    """It is dropped just before its log is listed; the low-water mark, read later, shows it."""
    world, chosen = await world_of(0, 0, log_retention_s=30.0), random.Random(6)
    one, two = world.all
    began = await now(one)
    await write(world, chosen, 20)
    await asyncio.sleep(100)
    await write(world, chosen, 5)
    await asyncio.sleep(2)  # until there is a checkpoint
    reader = one.database.bulk._following._reader
    segments = reader.segments

    async def cut_first(name):
        if name == two.name:
            await two.do(two.database.purge())
        return await segments(name)

    reader.segments = cut_first
    with pytest.raises(SnapshotTooOld):
        await asked(one, began)
    await world.end()


@in_virtual_time
async def test_missing_and_damaged_segments_raise_corruption():
    world, chosen = await world_of(0), random.Random(7)
    (one,) = world.all
    began = await now(one)
    for _ in range(3):
        await write(world, chosen, 15)
        await one.do(one.database.committer.seal())
    found = await asked(one, began)
    middle = found.segments[1]
    name = segment_name(middle.epoch, middle.sequence)
    one.database.bulk._following._known.clear()
    one.database.bulk._segments._kept.clear()
    world.disk.flip(one.name, name, middle.bytes // 2)
    with pytest.raises(Corruption) as error:
        await asked(one, began)
    assert name in error.value.details["position"]
    del world.disk.files(one.name)[name]
    with pytest.raises(Corruption, match="missing"):
        await asked(one, began)
    await world.end()


@in_virtual_time
async def test_invalid_snapshots_are_refused():
    world = await world_of(0)
    (one,) = world.all
    at = await now(one)
    assert isinstance(await refusal(asked(one, at, at - 1)), InvalidRequest)
    assert isinstance(await refusal(asked(one, at + 10**9)), InvalidRequest)
    assert (await asked(one, at, at)).segments == ()
    await world.end()


@in_virtual_time
async def test_a_single_process_reports_the_changes_of_its_predecessors():
    world = Nodes()
    first = await world.alone()
    await first.apply(schema(DDL))
    chosen = random.Random(8)
    began = at = await now(first)
    for _ in range(3):
        await write(world, chosen, 15)
        world.living[0].die()
        await world.alone()
        await write(world, chosen, 3)
        at = await follow(world, world.living[0], at)
    found = await asked(world.living[0], began)
    assert {segment.epoch for segment in found.segments} == {1, 2, 3, 4}
    await check(world, world.living[0], found)
    await world.end()


@in_virtual_time
async def test_a_member_answers_once_its_log_is_sealed():
    world = await world_of(0, 0)
    one, two = world.all
    await two.transact("INSERT INTO parent VALUES (1, 1)")
    answer = await one.do(one.database.member._links.ask(two.name, Seal()))
    assert answer.member == two.name
    before = [s for s in await two.do(two.database.log.segments()) if s.sequence < answer.sequence]
    assert before
    assert all(segment.sealed for segment in before)
    await world.end()
