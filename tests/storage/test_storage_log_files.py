"""The simulated files, and the log over them: every fault that they can express."""

import asyncio

import pytest

from hornbeam_server.schema.errors import Corruption, DiskFull, Unavailable
from hornbeam_server.storage.log.files import NoRoom
from hornbeam_server.storage.log.format import Header, encode_append, segment_name
from hornbeam_server.storage.log.segments import SegmentedLog
from hornbeam_server.storage.ports import START, Position
from hornbeam_server.storage.simulated.files import (
    ALL,
    SECTOR_BYTES,
    Fault,
    Kind,
    SimulatedDisk,
    SimulatedFiles,
)

NAME = segment_name(1, 1)
LOST = Unavailable("no answer")


async def opened(disk, epoch=1, **options):
    return await SegmentedLog.open(SimulatedFiles(disk, "a", **options), "a", epoch)


async def payloads(log):
    return [payload async for _, payload in log.read(START)]


async def reread(disk, epoch=2):
    return await payloads(await opened(disk, epoch))


def once(kind, fault):
    """A disk's `fault` for the first operation of a kind."""
    left = [fault]
    return lambda operation: left.pop() if operation.kind is kind and left else None


APPEND_BYTES = len(b"".join(encode_append([b"two", b"three"], 1, 1, 0)))


@pytest.mark.parametrize("error", [Unavailable("cut"), DiskFull("full")])
@pytest.mark.parametrize("done", [None, 0, 5, APPEND_BYTES - 1, ALL])
async def test_after_a_failed_append_the_log_refuses_and_its_successor_reads_the_rest(done, error):
    disk = SimulatedDisk()
    log = await opened(disk)
    await log.append([b"one"])
    faults, seen = once(Kind.APPEND, Fault(error, done)), []
    disk.fault = lambda operation: (seen.append(operation.kind), faults(operation))[1]
    results = await asyncio.gather(
        log.append([b"two", b"three"]), log.append([b"four"]), log.roll(), log.append([b"x"]),
        return_exceptions=True,
    )  # fmt: skip
    assert [type(result) for result in results] == [type(error), *[Unavailable] * 3]
    await log.close()
    assert Kind.FINISH not in seen
    whole = [b"two", b"three"] if done == ALL else [b"two"] if done == APPEND_BYTES - 1 else []
    assert await reread(disk) == [b"one", *whole]


@pytest.mark.parametrize("kind", [Kind.CREATE, Kind.FINISH])
@pytest.mark.parametrize("done", [None, 0, 7, ALL])
async def test_a_segment_that_fails_to_begin_or_end_loses_nothing(kind, done):
    disk = SimulatedDisk()
    log = await opened(disk)
    disk.fault = once(kind, Fault(LOST, done))
    expected = []
    if kind is Kind.FINISH:
        await log.append([b"one"])
        expected.append(b"one")
    with pytest.raises(Unavailable, match="no answer"):
        await (log.roll() if kind is Kind.FINISH else log.append([b"one"]))
    with pytest.raises(Unavailable, match="after a failed write"):
        await log.append([b"two"])
    await log.close()
    assert await reread(disk) == expected


@pytest.mark.parametrize("kind", [Kind.CREATE, Kind.APPEND, Kind.FINISH])
async def test_without_room_everything_is_as_before_and_the_log_goes_on(kind):
    disk = SimulatedDisk()
    log = await opened(disk)
    expected = [b"one"] if kind is not Kind.CREATE else []
    for payload in expected:
        await log.append([payload])
    disk.fault = once(kind, Fault(NoRoom("The disk is full.")))
    with pytest.raises(NoRoom):
        await (log.roll() if kind is Kind.FINISH else log.append([b"two"]))
    await log.append([b"three"])
    await log.roll()
    await log.close()
    assert await reread(disk) == [*expected, b"three"]


async def test_a_file_exists_once_it_was_created_even_if_empty():
    async def scenario(done):
        disk = SimulatedDisk()
        disk.fault = once(Kind.CREATE, Fault(LOST, done))
        with pytest.raises(Unavailable):
            await (await opened(disk)).append([b"one"])
        return {name: bytes(file.data) for name, file in disk.files("a").items()}

    assert await scenario(None) == {}
    assert await scenario(0) == {NAME: b""}


@pytest.mark.parametrize("kind", [Kind.FENCE, Kind.NAMES, Kind.READ, Kind.TAIL])
@pytest.mark.parametrize("done", [None, ALL])
async def test_a_failed_read_can_be_repeated(kind, done):
    disk = SimulatedDisk()
    log = await opened(disk)
    await log.append([b"one"])
    disk.fault = once(kind, Fault(LOST, done))

    async def look():
        later = await opened(disk, 2)
        await payloads(later)
        await later.segments()

    with pytest.raises(Unavailable, match="no answer"):
        await look()
    assert await reread(disk, 2) == [b"one"]
    if kind is not Kind.FENCE:
        with pytest.raises(Unavailable, match="fenced"):
            await log.append([b"late"])


@pytest.mark.parametrize("done", [None, 0, 1, 2, ALL])
async def test_a_drop_that_fails_half_way_leaves_no_gap_and_can_be_repeated(done):
    disk = SimulatedDisk()
    log = await opened(disk)
    for number in range(4):
        end = await log.append([b"%d" % number])
        await log.roll()
    disk.fault = once(Kind.DELETE, Fault(LOST, done))
    with pytest.raises(Unavailable):
        await log.drop_before(end._replace(sequence=4, offset=0))
    gone = min(done or 0, 3)
    assert await payloads(log) == [b"%d" % number for number in range(gone, 4)]
    await log.append([b"still open"])
    assert await log.drop_before(end._replace(sequence=4, offset=0)) == 3 - gone
    assert await payloads(log) == [b"3", b"still open"]


async def test_a_caller_may_die_before_or_after_the_effect():
    """The append of a dead process arrives before the fence, behind it, or never."""

    async def scenario(arrives):
        disk, sent, on_its_way = SimulatedDisk(), [], asyncio.Event()

        async def carry(operation):
            if operation.kind is Kind.APPEND:
                sent.append(operation)
                on_its_way.set()
                await asyncio.Event().wait()
            return operation.apply()

        log = await opened(disk, carry=carry)
        task = asyncio.create_task(log.append([b"one"]))
        await on_its_way.wait()
        task.cancel()
        await asyncio.wait([task])
        with pytest.raises(Unavailable, match="after a failed write"):
            await log.append([b"two"])
        if arrives == "before":
            sent[0].apply()
        found = await reread(disk)
        if arrives == "behind the fence":
            with pytest.raises(Unavailable, match="fenced: epoch 2"):
                sent[0].apply()
        assert await reread(disk, 3) == found
        return found

    assert await scenario("never") == []
    assert await scenario("before") == [b"one"]
    assert await scenario("behind the fence") == []


async def test_a_cancelled_caller_does_not_fail_a_roll():
    disk = SimulatedDisk()
    log = await opened(disk)
    await log.append([b"one"])
    task = asyncio.create_task(log.roll())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    await log.append([b"two"])
    assert [segment.sealed for segment in await log.segments()] == [True, False]


async def unsynced(size=3 * SECTOR_BYTES):
    """A disk whose only file ends with an append that was written but not synced."""
    disk = SimulatedDisk()
    log = await opened(disk)
    await log.append([b"synced"])
    disk.fault = once(Kind.APPEND, Fault(LOST, ALL))
    with pytest.raises(Unavailable):
        await log.append([b"x" * size])
    disk.fault = lambda _: None
    return disk


async def test_a_dead_process_leaves_all_it_wrote_and_a_dead_machine_only_synced_bytes():
    disk = await unsynced(5)
    assert await reread(disk) == [b"synced", b"xxxxx"]
    disk = await unsynced(5)
    disk.crash(lambda end: b"")
    assert await reread(disk) == [b"synced"]


async def test_bytes_that_a_successor_has_read_survive_the_machine():
    disk = await unsynced(5)
    found = await reread(disk)
    disk.crash(lambda end: pytest.fail(f"{end} is not synced"))
    assert await reread(disk, 3) == found == [b"synced", b"xxxxx"]


async def test_any_sectors_of_an_unsynced_append_may_be_lost():
    async def scenario(lost):
        disk, ends = await unsynced(), []

        def remains(end):
            ends.append(end)
            return end.without_sectors(lambda number: number in lost)

        before = bytes(disk.files("a")[NAME].data)
        disk.crash(remains)
        ((end, after),) = zip(ends, [bytes(disk.files("a")[NAME].data)], strict=True)
        assert len(after) == len(before)
        for offset, byte in enumerate(before):
            gone = offset >= end.offset and offset // SECTOR_BYTES in lost
            assert after[offset] == (0 if gone else byte)
        expected = [b"synced"] if lost else [b"synced", b"x" * 3 * SECTOR_BYTES]
        assert await reread(disk) == expected

    for lost in range(16):
        await scenario({number for number in range(4) if lost >> number & 1})


async def test_a_file_whose_name_was_not_synced_may_vanish_with_the_machine():
    disk = SimulatedDisk()
    disk.fault = once(Kind.CREATE, Fault(LOST, ALL))
    with pytest.raises(Unavailable):
        await (await opened(disk)).append([b"one"])
    disk.crash(lambda end: None)
    assert disk.files("a") == {}


async def test_a_synced_name_does_not_vanish():
    disk = await unsynced()
    with pytest.raises(AssertionError, match="cannot vanish"):
        disk.crash(lambda end: None)


async def test_flipped_bits_are_found_by_reading():
    disk = SimulatedDisk()
    log = await opened(disk)
    await log.append([b"one"])
    await log.close()
    begin = len(Header(1, 1, 0, "a").encode())
    disk.flip("a", NAME, begin + 9, mask=0x40)
    with pytest.raises(Corruption) as caught:
        await reread(disk)
    assert caught.value.details["position"] == f"{NAME}:{begin}"
    disk.flip("a", NAME, begin + 9, mask=0x40)
    assert await reread(disk, 3) == [b"one"]


async def test_an_epoch_is_used_once():
    disk = SimulatedDisk()
    log = await opened(disk, 3)
    await log.append([b"one"])
    with pytest.raises(Corruption, match="of epoch 3 or later"):
        await opened(disk, 3)
    with pytest.raises(Unavailable, match="fenced: epoch 3"):
        await opened(disk, 2)


async def test_repeated_lists_read_the_seal_of_a_segment_once():
    disk, seen = SimulatedDisk(), []
    log = await opened(disk)
    for _ in range(3):
        await log.append([b"one"])
        await log.roll()
    await log.append([b"two"])
    disk.fault = lambda operation: seen.append(operation.kind)
    before = await log.segments()
    assert [segment.sealed for segment in before] == [True, True, True, False]
    assert seen.count(Kind.TAIL) == 4
    assert await log.segments() == before
    assert seen.count(Kind.TAIL) == 5
    await log.drop_before(Position(1, 3, 0))
    assert await log.segments() == before[2:]
