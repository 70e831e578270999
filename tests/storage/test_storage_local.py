"""Local adapters under faults: failed writes and syncs, missing and damaged files, second opens."""

import asyncio
import errno
import fcntl
import os
from contextlib import suppress

import pytest

from hornbeam_server.schema.errors import Corruption, DiskFull, InvalidRequest, Unavailable
from hornbeam_server.storage.local import log as local_log
from hornbeam_server.storage.local.coordination import LocalCoordination
from hornbeam_server.storage.local.log import LocalLog
from hornbeam_server.storage.log.files import NoRoom
from hornbeam_server.storage.log.format import segment_name
from hornbeam_server.storage.ports import START, Position


async def payloads(log, start=START):
    return [payload async for _, payload in log.read(start)]


def failing(error_number, *, after=0):
    """A stand-in for an os function that fails once, on its call number `after`."""
    calls = iter(range(1_000_000))

    def wrap(real):
        def call(*arguments):
            if next(calls) == after:
                raise OSError(error_number, os.strerror(error_number))
            return real(*arguments)

        return call

    return wrap


@pytest.mark.parametrize(
    ("function", "number", "error"),
    [
        ("write", errno.EIO, Unavailable),
        ("fdatasync", errno.EIO, Unavailable),
        ("fdatasync", errno.ENOSPC, DiskFull),
        ("fdatasync", errno.EDQUOT, DiskFull),
    ],
)
async def test_after_a_failed_write_or_sync_no_append_succeeds(
    tmp_path, monkeypatch, function, number, error
):
    log = await LocalLog.open(tmp_path, "a", 1)
    await log.append([b"before"])
    monkeypatch.setattr(os, function, failing(number)(getattr(os, function)))
    first, *others = await asyncio.gather(
        log.append([b"fails"]), log.append([b"queued"]), log.append([b"too"]),
        return_exceptions=True,
    )  # fmt: skip
    assert type(first) is error
    assert [type(other) for other in others] == [Unavailable, Unavailable]
    with pytest.raises(Unavailable, match="closed after a failed write"):
        await log.append([b"later"])
    with pytest.raises(Unavailable):
        await log.roll()
    await log.close()
    monkeypatch.undo()
    found = await payloads(await LocalLog.open(tmp_path, "a", 2))
    assert found[:1] == [b"before"]
    assert found[1:] in ([], [b"fails"])


def short_of_room(number, *, after):
    """An `os.write` with room for only `after[0]` more bytes."""
    real = os.write

    def write(file, data):
        part = data[: after[0]]
        if not part:
            raise OSError(number, os.strerror(number))
        after[0] -= len(part)
        return real(file, part)

    return write


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("room", range(0, 120, 7))
@pytest.mark.parametrize("joined", [0, 1_000])
async def test_after_a_write_without_room_appends_go_on(
    tmp_path, monkeypatch, number, room, joined
):
    """The room ends in the head of a new segment, in an append (in one call, or piece by piece), or
    in a seal."""
    monkeypatch.setattr("hornbeam_server.storage.local.log.JOINED_BYTES", joined)
    left = [room]
    log = await LocalLog.open(tmp_path, "a", 1, segment_bytes=60)
    monkeypatch.setattr(os, "write", short_of_room(number, after=left))
    written, refused = [], 0
    for payload in (b"%d" % n for n in range(200)):
        try:
            await log.append([payload, b"and " + payload])
        except NoRoom:
            refused += 1
            left[0] += 11
        else:
            written += [payload, b"and " + payload]
    with suppress(NoRoom):
        await log.roll()
    left[0] = 1_000
    await log.append([b"last"])
    assert refused
    expected = [*written, b"last"]
    assert await payloads(log) == expected
    assert log.torn_bytes == 0
    await log.close()
    again = await LocalLog.open(tmp_path, "a", 2)
    assert await payloads(again) == expected
    assert again.torn_bytes == 0
    await again.close()


async def test_a_segment_that_has_no_room_begins_later(tmp_path, monkeypatch):
    log = await LocalLog.open(tmp_path, "a", 1)
    monkeypatch.setattr(os, "open", failing(errno.ENOSPC)(os.open))
    with pytest.raises(NoRoom) as refused:
        await log.append([b"one"])
    assert (refused.value.retryable, refused.value.outcome) == (True, "none")
    monkeypatch.undo()
    await log.append([b"two"])
    assert await payloads(log) == [b"two"]
    await log.close()
    assert [s.sealed for s in await (await LocalLog.open(tmp_path, "a", 2)).segments()] == [True]


async def test_a_log_without_room_for_its_seal_is_closed_and_readable(tmp_path, monkeypatch):
    log = await LocalLog.open(tmp_path, "a", 1)
    await log.append([b"one"])
    monkeypatch.setattr(os, "write", short_of_room(errno.ENOSPC, after=[3]))
    await log.close()
    monkeypatch.undo()
    assert await payloads(await LocalLog.open(tmp_path, "a", 2)) == [b"one"]


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
async def test_a_segment_begins_once_a_descriptor_is_free(tmp_path, monkeypatch, number):
    log = await LocalLog.open(tmp_path, "a", 1)
    for after in (0, 1):  # its file, and the folder with its name
        monkeypatch.setattr(os, "open", failing(number, after=after)(os.open))
        await log.append([b"%d" % after])
        monkeypatch.undo()
        await log.roll()
    await log.close()
    again = await LocalLog.open(tmp_path, "a", 2)
    assert await payloads(again) == [b"0", b"1"]
    await again.close()


async def test_a_segment_that_gets_no_descriptor_in_time_makes_the_log_fail(tmp_path, monkeypatch):
    log = await LocalLog.open(tmp_path, "a", 1)
    monkeypatch.setattr(local_log, "DESCRIPTOR_S", -1)
    monkeypatch.setattr(os, "open", failing(errno.EMFILE)(os.open))
    with pytest.raises(Unavailable, match="Too many open files"):
        await log.append([b"fails"])
    await log.close()


async def test_a_roll_behind_a_failed_append_does_not_seal_its_remains(tmp_path, monkeypatch):
    log = await LocalLog.open(tmp_path, "a", 1)
    await log.append([b"before"])
    real, written = os.write, failing(errno.EIO, after=1)
    monkeypatch.setattr(os, "write", written(lambda file, data: real(file, data[:7])))
    results = await asyncio.gather(log.append([b"fails"]), log.roll(), return_exceptions=True)
    assert [type(result) for result in results] == [Unavailable, Unavailable]
    monkeypatch.undo()
    await log.close()
    assert await payloads(await LocalLog.open(tmp_path, "a", 2)) == [b"before"]


async def test_unsynced_bytes_of_a_dead_process_are_synced_before_they_are_read(
    tmp_path, monkeypatch
):
    log = await LocalLog.open(tmp_path, "a", 1)
    await log.append([b"one"])
    await log.roll()
    await log.append([b"two"])
    done = []
    monkeypatch.setattr(os, "fsync", lambda file: done.append(os.fstat(file).st_ino))
    await LocalLog.open(tmp_path, "a", 2)
    expected = (path_of(tmp_path, 2), tmp_path / "a", tmp_path)
    assert done[:3] == [path.stat().st_ino for path in expected]


async def test_a_failed_seal_makes_the_log_fail(tmp_path, monkeypatch):
    log = await LocalLog.open(tmp_path, "a", 1)
    await log.append([b"one"])
    monkeypatch.setattr(os, "fsync", failing(errno.EIO)(os.fsync))
    with pytest.raises(Unavailable):
        await log.roll()
    with pytest.raises(Unavailable):
        await log.append([b"two"])
    await log.close()
    assert await payloads(await LocalLog.open(tmp_path, "a", 2)) == [b"one"]


async def test_short_writes_are_completed(tmp_path, monkeypatch):
    real = os.write
    monkeypatch.setattr(os, "write", lambda file, data: real(file, data[:7]))
    log = await LocalLog.open(tmp_path, "a", 1)
    await log.append([b"x" * 100, b"y" * 50])
    assert await payloads(log) == [b"x" * 100, b"y" * 50]
    await log.close()


async def test_an_append_is_synced_before_it_returns(tmp_path, monkeypatch):
    done = []
    for name in ("write", "fdatasync"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, n=name, f=real: (done.append(n), f(*a))[1])
    log = await LocalLog.open(tmp_path, "a", 1)
    await log.append([b"first"])
    done.clear()
    await log.append([b"a", b"b", b"c"])
    assert done == ["write", "fdatasync"]
    await log.close()


async def test_an_epoch_is_used_once(tmp_path):
    log = await LocalLog.open(tmp_path, "a", 5)
    await log.append([b"one"])
    await log.close()
    for epoch in (4, 5):
        with pytest.raises(Corruption, match=f"of epoch {epoch} or later"):
            await LocalLog.open(tmp_path, "a", epoch)


def path_of(folder, sequence, epoch=1):
    return folder / "a" / segment_name(epoch, sequence)


async def three_segments(folder):
    log = await LocalLog.open(folder, "a", 1)
    for payload in (b"one", b"two", b"three"):
        end = await log.append([payload])
        await log.roll()
    await log.close()
    return end


async def test_a_missing_segment_is_corruption(tmp_path):
    await three_segments(tmp_path)
    path_of(tmp_path, 2).unlink()
    log = await LocalLog.open(tmp_path, "a", 2)
    for start in (START, Position(1, 1, 0)):
        with pytest.raises(Corruption, match=r"0000000002\.log is missing"):
            await payloads(log, start)
    path_of(tmp_path, 1).unlink()
    assert await payloads(log) == [b"three"]  # dropped from the front: nothing is missing
    with pytest.raises(Corruption, match=r"0000000001\.log is missing"):
        await payloads(log, Position(1, 1, 50))


async def test_a_missing_first_segment_of_a_later_epoch_is_corruption(tmp_path):
    await three_segments(tmp_path)
    log = await LocalLog.open(tmp_path, "a", 2)
    await log.append([b"four"])
    await log.roll()
    await log.append([b"five"])
    path_of(tmp_path, 1, epoch=2).unlink()
    for start in (START, Position(1, 3, 0)):
        with pytest.raises(Corruption, match=r"0000000002-0000000001\.log is missing"):
            await payloads(log, start)
    for sequence in (1, 2, 3):
        path_of(tmp_path, sequence).unlink()
    assert await payloads(log) == [b"five"]  # dropped from the front: nothing is missing
    await log.close()


async def test_a_segment_without_seal_before_another_is_corruption(tmp_path):
    await three_segments(tmp_path)
    path = path_of(tmp_path, 2)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(Corruption, match="has no seal, but another follows"):
        await payloads(await LocalLog.open(tmp_path, "a", 2))


async def test_the_torn_tail_of_an_earlier_owner_is_dropped_and_counted(tmp_path):
    log = await LocalLog.open(tmp_path, "a", 1)
    end = await log.append([b"one"])
    await log.append([b"torn"])
    await log.close()
    path = path_of(tmp_path, 1)
    path.write_bytes(path.read_bytes()[: end.offset + 5])
    later = await LocalLog.open(tmp_path, "a", 2)
    await later.append([b"two"])
    assert await payloads(later) == [b"one", b"two"]
    assert later.torn_bytes == 5
    await later.close()


async def test_the_segment_at_a_readers_position_is_kept_and_required(tmp_path):
    end = await three_segments(tmp_path)
    log = await LocalLog.open(tmp_path, "a", 2)
    assert await log.drop_before(end) == 2
    assert await payloads(log, end) == []
    path_of(tmp_path, 3).unlink()
    with pytest.raises(Corruption, match=r"0000000003\.log is missing"):
        await payloads(log, end)


async def test_coordination_is_open_once(tmp_path):
    first = LocalCoordination.open(tmp_path / "c")
    with pytest.raises(Unavailable, match="open in another process"):
        LocalCoordination.open(tmp_path / "c")
    await first.close()
    await LocalCoordination.open(tmp_path / "c").close()


@pytest.mark.parametrize(
    ("number", "error"),
    [
        (errno.EROFS, InvalidRequest),
        (errno.EACCES, InvalidRequest),
        (errno.ENOSPC, DiskFull),
        (errno.EMFILE, Unavailable),
    ],
)
def test_an_error_in_opening_a_folder_is_classified(tmp_path, monkeypatch, number, error):
    monkeypatch.setattr(os, "open", failing(number)(os.open))
    with pytest.raises(error):
        LocalCoordination.open(tmp_path)


def test_a_damaged_file_is_corruption_and_leaves_the_lock_free(tmp_path):
    (tmp_path / "values.json").write_bytes(b'{"a": [')
    with pytest.raises(Corruption, match=r"values\.json cannot be read"):
        LocalCoordination.open(tmp_path)
    with (tmp_path / "lock").open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize(("number", "error"), [(errno.ENOSPC, DiskFull), (errno.EIO, Unavailable)])
async def test_a_failed_write_leaves_the_value_unchanged(tmp_path, monkeypatch, number, error):
    service = LocalCoordination.open(tmp_path)
    await service.write("/x", b"old", 0)
    monkeypatch.setattr(os, "fsync", failing(number)(os.fsync))
    with pytest.raises(error):
        await service.write("/x", b"new", 1)
    assert await service.read("/x") == (b"old", 1)
    await service.close()
    again = LocalCoordination.open(tmp_path)
    assert await again.read("/x") == (b"old", 1)
    assert await again.write("/x", b"new", 1) == 2
    await again.close()
