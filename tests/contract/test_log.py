"""The guarantees of every log (`storage.ports.Log`)."""

import asyncio

import pytest

from hornbeam_server.schema.errors import Corruption, Unavailable
from hornbeam_server.storage.ports import START, Position
from tests.contract.contract_adapters import LOGS, opened, over

every = over(LOGS)


async def records(log, start=START):
    return [record async for record in log.read(start)]


async def payloads(log, start=START):
    return [payload for _, payload in await records(log, start)]


@every
async def test_appended_records_are_read_in_order_with_their_end_positions(adapter, tmp_path):
    async with opened(adapter, tmp_path, "a", 1) as log:
        assert await records(log) == []
        first = await log.append([b"one", b"two"])
        second = await log.append([b"three"])
        found = await records(log)
        assert [payload for _, payload in found] == [b"one", b"two", b"three"]
        assert [position for position, _ in found][1:] == [first, second]
        assert START < found[0][0] < first < second
        assert await payloads(log, first) == [b"three"]
        assert await payloads(log, found[0][0]) == [b"two", b"three"]
        assert await payloads(log, second) == []


@every
async def test_a_payload_in_pieces_is_read_back_as_one(adapter, tmp_path):
    large = bytes(range(256)) * 1_000
    async with opened(adapter, tmp_path, "a", 1) as log:
        await log.append([[b"one", large, b"", b"two"], b"whole", [b"end"]])
        assert await payloads(log) == [b"one" + large + b"two", b"whole", b"end"]
        with pytest.raises(ValueError, match="0 bytes"):
            await log.append([[b""]])


@every
async def test_overlapping_appends_are_written_in_call_order(adapter, tmp_path):
    async with opened(adapter, tmp_path, "a", 1) as log:
        ends = await asyncio.gather(*[log.append([b"%d" % i]) for i in range(50)])
        assert list(ends) == sorted(ends)
        assert await payloads(log) == [b"%d" % i for i in range(50)]


@every
async def test_segments_roll_at_their_size_and_on_demand(adapter, tmp_path):
    async with opened(adapter, tmp_path, "a", 1, segment_bytes=300) as log:
        for i in range(30):
            await log.append([b"%030d" % i])
        await log.roll()
        await log.roll()
        await log.append([b"last"])
        segments = await log.segments()
        assert [s.sequence for s in segments] == list(range(1, len(segments) + 1))
        assert [s.sealed for s in segments] == [True] * (len(segments) - 1) + [False]
        assert len(segments) > 4
        assert await payloads(log) == [*(b"%030d" % i for i in range(30)), b"last"]


@every
async def test_segments_before_a_position_are_dropped_and_later_ones_stay_readable(
    adapter, tmp_path
):
    async with opened(adapter, tmp_path, "a", 1) as log:
        first = await log.append([b"one"])
        assert await log.drop_before(first) == 0
        await log.roll()
        second = await log.append([b"two"])
        assert await log.drop_before(first) == 0
        assert await payloads(log, first) == [b"two"]
        assert await log.drop_before(second) == 1
        assert await log.drop_before(second) == 0
        assert await log.drop_before(Position(1, 3, 0)) == 0
        assert await payloads(log) == [b"two"]
        with pytest.raises(Corruption):
            await payloads(log, first)


@over(LOGS, reopen=True)
async def test_a_later_epoch_reads_the_records_of_earlier_ones(adapter, tmp_path):
    for epoch in (1, 2, 3):
        async with opened(adapter, tmp_path, "a", epoch) as log:
            assert await payloads(log) == [b"%d" % e for e in range(1, epoch)]
            position = await log.append([b"%d" % epoch])
            assert position.epoch == epoch
    async with opened(adapter, tmp_path, "a", 4) as log:
        assert all(segment.sealed for segment in await log.segments())
        assert await log.drop_before(position) == 2


@every
async def test_logs_of_different_owners_are_separate(adapter, tmp_path):
    async with opened(adapter, tmp_path, "a", 1) as a, opened(adapter, tmp_path, "b", 1) as b:
        await a.append([b"a"])
        await b.append([b"b"])
        assert (await payloads(a), await payloads(b)) == ([b"a"], [b"b"])


@every
async def test_a_closed_log_refuses_appends(adapter, tmp_path):
    log = await adapter.open(tmp_path, "a", 1)
    await log.append([b"one"])
    await log.close()
    await log.close()
    with pytest.raises(Unavailable):
        await log.append([b"two"])
    with pytest.raises(Unavailable):
        await log.roll()


@every
async def test_an_empty_payload_is_refused(adapter, tmp_path):
    async with opened(adapter, tmp_path, "a", 1) as log:
        with pytest.raises(ValueError, match="0 bytes"):
            await log.append([b"one", b""])
        assert await payloads(log) == []


@over(LOGS, fences=True)
async def test_an_owner_of_an_earlier_epoch_cannot_append(adapter, tmp_path):
    old, idle = await adapter.open(tmp_path, "a", 1), await adapter.open(tmp_path, "a", 2)
    with pytest.raises(Unavailable, match="fenced: epoch 2 has taken over"):
        await old.append([b"from a file of its own"])
    await idle.append([b"one"])
    async with opened(adapter, tmp_path, "a", 3) as new:
        for late in (idle.append([b"late"]), old.append([b"later"]), idle.roll()):
            with pytest.raises(Unavailable):
                await late
        await idle.close()
        assert await payloads(new) == [b"one"]
        with pytest.raises(Unavailable, match="fenced: epoch 3 has taken over"):
            await adapter.open(tmp_path, "a", 2)
        await new.append([b"two"])
        assert await payloads(new) == [b"one", b"two"]
