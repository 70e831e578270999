"""The guarantees of logs for readers that do not own them (`storage.ports.LogReader`, `.Logs`)."""

import time
from contextlib import suppress

import pytest

from hornbeam_server.schema.errors import Unavailable
from hornbeam_server.storage.log.format import is_sealed, scan_segment, segment_name
from hornbeam_server.storage.ports import Position
from tests.contract.contract_adapters import LOGS_FROM_OUTSIDE, over

every = over(LOGS_FROM_OUTSIDE)


async def frames(logs, epoch, sequence, name="a"):
    data = await logs.read(name, epoch, sequence)
    return [payload for payload, _ in scan_segment(data, segment_name(epoch, sequence)).frames]


@every
async def test_sealed_segments_are_read_whole_while_their_owner_appends(adapter, tmp_path):
    open_log, logs = adapter.open(tmp_path)
    log = await open_log("a", 1)
    for number in range(1, 4):
        await log.append([b"%d" % number, b"x" * 200_000])
        assert await log.roll() == Position(1, number + 1, 0)
        assert await logs.segments("a") == [(1, n) for n in range(1, number + 1)]
        assert await frames(logs, 1, number) == [b"%d" % number, b"x" * 200_000]
        assert is_sealed(await logs.read("a", 1, number), 1, number)
    await log.append([b"open"])
    assert (await logs.segments("a"))[-1] == (1, 4)
    assert await log.roll() == await log.roll() == Position(1, 5, 0)
    await log.close()
    await logs.close()


@every
async def test_segments_of_an_earlier_owner_stay_readable(adapter, tmp_path):
    open_log, logs = adapter.open(tmp_path)
    left = await open_log("a", 1)
    await left.append([b"one"])
    await left.roll()
    await left.append([b"two"])
    new = await open_log("a", 2)
    assert await logs.segments("a") == [(1, 1), (1, 2)]
    await new.append([b"three"])
    await new.close()
    assert await logs.segments("a") == [(1, 1), (1, 2), (2, 1)]
    found = [await frames(logs, *segment) for segment in await logs.segments("a")]
    assert found == [[b"one"], [b"two"], [b"three"]]
    await logs.close()


@every
async def test_missing_logs_and_dropped_segments_are_reported(adapter, tmp_path):
    open_log, logs = adapter.open(tmp_path)
    assert await logs.segments("a") == []
    assert await logs.read("a", 1, 1) is None
    log = await open_log("a", 1)
    assert await logs.segments("a") == []
    for _ in range(3):
        await log.append([b"one"])
        await log.roll()
    await log.drop_before(Position(1, 3, 0))
    assert await logs.segments("a") == [(1, 3)]
    assert await logs.read("a", 1, 2) is None
    assert await frames(logs, 1, 3) == [b"one"]
    await log.close()
    await logs.close()


@over(LOGS_FROM_OUTSIDE, fences=True)
async def test_the_owner_of_a_removed_log_cannot_recreate_it(adapter, tmp_path):
    open_log, logs = adapter.open(tmp_path)
    assert await logs.touched() == {}
    zombie, other = await open_log("a", 1), await open_log("b", 1)
    await zombie.append([b"one"])
    touched = await logs.touched()
    assert touched.keys() == {"a", "b"}
    if adapter.cluster:
        assert abs(touched["a"] - time.time() * 1000) < 60_000
    for _ in range(2):
        await logs.remove("a")
        assert list(await logs.touched()) == ["b"]
    with suppress(Unavailable):  # HDFS keeps an open file for a while
        await zombie.append([b"late"])
        await zombie.roll()
    with pytest.raises(Unavailable):
        await zombie.append([b"in a file of its own"])
    assert list(await logs.touched()) == ["b"]
    assert await logs.segments("a") == []
    assert await logs.read("a", 1, 1) is None
    await other.append([b"goes on"])
    await other.close()
    await logs.close()
