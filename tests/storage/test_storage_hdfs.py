"""The log on HDFS when HDFS fails: each acknowledged record is read once, and no owner writes
behind the fence."""

import asyncio
import time
from contextlib import suppress
from random import Random

import pytest

from hornbeam_server.schema.errors import DiskFull, InvalidRequest, Unavailable
from hornbeam_server.storage.hdfs.files import HdfsFiles
from hornbeam_server.storage.hdfs.log import HdfsLog
from hornbeam_server.storage.hdfs.logs import HdfsLogs
from hornbeam_server.storage.log.format import scan_segment, segment_name
from hornbeam_server.storage.log.segments import SegmentedLog
from hornbeam_server.storage.ports import START
from hornbeam_server.storage.simulated.loop import run_simulated
from tests.storage.hdfs_world import Fault, Hdfs, Panic
from tests.virtual_time import in_virtual_time

HOME = "/log/a"
SEEDS = 30


async def opened(hdfs, epoch, **options):
    files = HdfsFiles(hdfs.client(), HOME, **options)
    return await SegmentedLog.open(files, "a", epoch, segment_bytes=400)


async def payloads(log):
    return [payload async for _, payload in log.read(START)]


def once(kind, fault):
    """A fault for the first request of a kind from now on."""
    left = [fault]
    return lambda asked: left.pop() if asked == kind and left else None


def always(*kinds):
    return lambda asked: Fault.REFUSED if asked in kinds else None


every_fault = pytest.mark.parametrize("fault", Fault)

# ------------------------------------------------------------ single faults


@every_fault
@pytest.mark.parametrize("kind", ["write", "sync"])
@in_virtual_time
async def test_a_failed_write_is_repeated_in_a_copy_and_the_log_goes_on(kind, fault):
    hdfs = Hdfs(Random(1))
    log = await opened(hdfs, 1)
    await log.append([b"one"])
    hdfs.fault = once(kind, fault)
    end = await log.append([b"two", b"three"])
    assert await payloads(log) == [b"one", b"two", b"three"]
    await asyncio.sleep(100)
    assert await log.append([b"four"]) > end
    await log.roll()
    await log.append([b"five"])
    expected = [b"one", b"two", b"three", b"four", b"five"]
    assert await payloads(log) == expected
    assert [segment.sealed for segment in await log.segments()] == [True, False]
    assert await payloads(await opened(hdfs, 2)) == expected


@every_fault
@pytest.mark.parametrize("kind", ["create", "write", "sync", "close"])
@in_virtual_time
async def test_a_segment_begins_and_ends_in_spite_of_a_failure(kind, fault):
    hdfs = Hdfs(Random(2))
    log = await opened(hdfs, 1)
    hdfs.fault = once(kind, fault)
    await log.append([b"one"])
    hdfs.fault = once(kind, fault)
    await log.roll()
    await log.append([b"two"])
    assert [segment.sealed for segment in await log.segments()] == [True, False]
    await asyncio.sleep(100)
    (closed,) = [file for path, file in hdfs.files.items() if path.endswith("1.log")]
    assert closed.writer is None
    assert await payloads(log) == [b"one", b"two"]
    assert await payloads(await opened(hdfs, 2)) == [b"one", b"two"]


@every_fault
@in_virtual_time
async def test_after_a_rename_without_an_answer_the_log_refuses(fault):
    """The rename may happen late, and would then bring an older copy back."""
    hdfs = Hdfs(Random(3))
    log = await opened(hdfs, 1)
    await log.append([b"one"])
    faults = [once("sync", Fault.REFUSED), once("rename", fault)]
    hdfs.fault = lambda kind: faults[0](kind) or faults[1](kind)
    with pytest.raises(Unavailable):
        await log.append([b"two"])
    with pytest.raises(Unavailable, match="after a failed write"):
        await log.append([b"three"])
    found = await payloads(await opened(hdfs, 2))
    assert found in ([b"one"], [b"one", b"two"])
    await asyncio.sleep(100)
    assert await payloads(await opened(hdfs, 3)) == found


@every_fault
@pytest.mark.parametrize("kind", ["mkdirs", "rename", "list", "recover", "open", "read", "sync"])
@in_virtual_time
async def test_a_failed_take_over_can_be_repeated(kind, fault):
    hdfs = Hdfs(Random(4))
    log = await opened(hdfs, 1)
    await log.append([b"one"])
    hdfs.fault = once(kind, fault)
    try:
        await opened(hdfs, 2)
    except Unavailable:
        assert kind in {"rename", "list", "open", "read"}
    assert await payloads(await opened(hdfs, 3)) == [b"one"]
    with pytest.raises(Unavailable, match="fenced: epoch 3 has taken over"):
        await log.append([b"late"])


@in_virtual_time
async def test_a_failed_read_can_be_repeated():
    hdfs = Hdfs(Random(5))
    await (await opened(hdfs, 1)).append([b"one"])
    log = await opened(hdfs, 2)
    await asyncio.sleep(10)
    for kind in ("open", "read"):
        hdfs.fault = once(kind, Fault.ANSWER_LOST)
        with pytest.raises(Unavailable, match="connection reset"):
            await payloads(log)

    def panic(kind):
        if kind == "read":
            raise Panic("Cannot read past end of the file")

    hdfs.fault = panic
    with pytest.raises(Unavailable, match="Cannot read past end"):
        await payloads(log)
    hdfs.fault = lambda _: None
    assert await payloads(log) == [b"one"]


@in_virtual_time
async def test_the_log_fails_when_hdfs_stays_away_beyond_its_patience():
    hdfs = Hdfs(Random(6))
    log = await opened(hdfs, 1, patience_s=30)
    await log.append([b"one"])
    hdfs.fault = always("sync", "create")
    begun = asyncio.get_running_loop().time()
    with pytest.raises(Unavailable, match="connection refused"):
        await log.append([b"two"])
    assert 30 < asyncio.get_running_loop().time() - begun < 45
    hdfs.fault = lambda _: None
    assert await payloads(await opened(hdfs, 2)) == [b"one"]


@pytest.mark.parametrize(
    "said",
    [
        'RPCError("org.apache.hadoop.hdfs.protocol.DSQuotaExceededException", "The DiskSpace…")',
        'RPCError("java.io.IOException", "File /a could only be written to 0 of the 1 min'
        "Replication nodes. There are 3 datanode(s) running and no node(s) are excluded…\\n\\tat",
    ],
)
@in_virtual_time
async def test_a_full_disk_is_reported_at_once_without_retry(said):
    hdfs, seen = Hdfs(Random(7)), []
    log = await opened(hdfs, 1)
    await log.append([b"one"])

    def full(kind):
        seen.append(kind)
        if kind in {"write", "create"}:
            raise RuntimeError(said)

    hdfs.fault = full
    with pytest.raises(DiskFull, match="cannot grow") as caught:
        await log.append([b"two"])
    assert "\\n" not in str(caught.value)
    assert seen == ["write"]


@pytest.mark.parametrize(("running", "excluded"), [(0, 0), (3, 2)])
@in_virtual_time
async def test_missing_data_nodes_are_no_full_disk(running, excluded):
    hdfs = Hdfs(Random(8))
    log = await opened(hdfs, 1, patience_s=0)

    def away(kind):
        if kind == "write":
            raise RuntimeError(
                "could only be written to 0 of the 1 minReplication nodes. There are"
                f" {running} datanode(s) running and {excluded} node(s) are excluded in this"
                " operation."
            )

    hdfs.fault = away
    with pytest.raises(Unavailable) as caught:
        await log.append([b"one"])
    assert not isinstance(caught.value, DiskFull)


@in_virtual_time
async def test_an_append_over_several_blocks_syncs_each():
    hdfs, syncs = Hdfs(Random(9)), []
    hdfs.fault = lambda kind: syncs.append(kind) if kind == "sync" else None
    files = HdfsFiles(hdfs.client(), HOME, block_bytes=10)
    await files.fence(1)
    await files.create("x", b"0123")
    for data, expected in ((b"45", 1), (b"6789", 1), (b"a" * 25, 3), (b"b" * 5, 1)):
        syncs.clear()
        await files.append("x", [data])
        assert len(syncs) == expected
    assert await files.tail("x", 6) == (40, b"abbbbb")
    assert await files.tail("x", 100) == (40, await files.read("x"))
    assert await files.tail("x", 0) == (40, b"")


@in_virtual_time
async def test_the_next_owner_removes_unfinished_copies():
    hdfs = Hdfs(Random(11))
    log = await opened(hdfs, 1)
    await log.append([b"one"])
    hdfs.fault = always("sync", "delete")
    with pytest.raises(Unavailable):
        await log.append([b"two"])
    hdfs.fault = lambda _: None
    assert len(hdfs.files) > 2
    assert len(await log.segments()) == 1
    await opened(hdfs, 2)
    assert len(hdfs.files) == 1


@pytest.mark.parametrize("url", ["nonsense", "http://x", "hdfs://a-name-service"])
def test_an_invalid_address_is_refused(url):
    with pytest.raises(InvalidRequest, match=f"^{url} names no HDFS"):
        asyncio.run(HdfsLog.open(url, "/log", "a", 1))


def test_an_address_without_hdfs_is_reported_at_once():
    begun = time.monotonic()
    with pytest.raises(Unavailable, match=r"hdfs://127\.0\.0\.1:1/log/a cannot be used"):
        asyncio.run(HdfsLog.open("hdfs://127.0.0.1:1", "/log", "a", 1))
    assert time.monotonic() - begun < 5


@in_virtual_time
async def test_a_folder_that_is_no_log_is_refused():
    hdfs = Hdfs(Random(10))
    hdfs.mkdirs(f"{HOME}/elsewhere")
    with pytest.raises(Unavailable, match="is no log: it holds elsewhere"):
        await opened(hdfs, 1)


# ------------------------------------------------------------ random faults, several owners


class Owners:
    """Successive owners of a log; some still append when the next has taken over."""

    def __init__(self, seed):
        self.random = Random(seed)
        self.rate = self.random.choice([0.0, 0.02, 0.1, 0.2])
        self.hdfs = Hdfs(self.random, self.fault)
        self.epoch = 0
        self.number = 0
        self.acknowledged = []
        """(epoch, payload), in order."""
        self.found = {}
        """By epoch, the payloads that its owner read when it had taken over."""

    def fault(self, _):
        if self.random.random() < self.rate:
            return self.random.choice(list(Fault))
        return None

    async def take_over(self):
        """Try under the next epoch until one succeeds; return the epoch and the log."""
        while True:
            self.epoch += 1
            epoch = self.epoch
            with suppress(Unavailable):
                log = await opened(self.hdfs, epoch)
                self.found[epoch] = await payloads(log)
                return epoch, log
            await asyncio.sleep(self.random.random())

    async def own(self, epoch, log):
        """Append until the log refuses."""
        with suppress(Unavailable):
            while True:
                batch = [self.payload() for _ in range(self.random.randint(1, 3))]
                await log.append(batch)
                self.acknowledged += [(epoch, payload) for payload in batch]
                if self.random.random() < 0.1:
                    await log.roll()
                await asyncio.sleep(self.random.random() ** 4)
        with suppress(Unavailable):
            await log.close()

    def payload(self):
        self.number += 1
        return b"%d" % self.number

    async def run(self):
        owning = []
        for _ in range(self.random.randint(2, 6)):
            owning.append(asyncio.create_task(self.own(*await self.take_over())))
            await asyncio.sleep(self.random.random() * 20)
            if self.random.random() < 0.3:
                self.hdfs.lose_power()
            if self.random.random() < 0.3:
                owning.pop().cancel()
        self.rate = 0.0
        epoch, log = await self.take_over()
        await asyncio.sleep(100)
        self.hdfs.lose_power()
        assert await payloads(log) == self.found[epoch]
        self.check(self.found[epoch])
        for task in owning:
            task.cancel()
        await asyncio.gather(*owning, return_exceptions=True)
        await log.close()

    def check(self, last):
        assert len(set(last)) == len(last)
        for epoch, found in self.found.items():
            assert found == last[: len(found)], f"something changed behind the fence of {epoch}"
            before = [payload for wrote, payload in self.acknowledged if wrote < epoch]
            assert not set(before) - set(found), f"lost before {epoch}"


@pytest.mark.parametrize("first", range(0, 8 * SEEDS, SEEDS))
def test_acknowledged_records_are_read_once_under_any_faults(first):
    appended = 0
    for seed in range(first, first + SEEDS):
        owners = Owners(seed)
        run_simulated(owners.run())
        appended += len(owners.acknowledged)
    assert appended > 100 * SEEDS


# ------------------------------------------------------------ listing and removing logs


@in_virtual_time
async def test_the_owner_of_a_removed_log_cannot_recreate_it():
    hdfs = Hdfs(Random(1))
    logs = HdfsLogs(hdfs.client(), "/log")
    assert await logs.touched() == {}
    zombie, other = await opened(hdfs, 1), HdfsFiles(hdfs.client(), "/log/b")
    await other.fence(1)
    await zombie.append([b"one"])
    await opened(hdfs, 2)
    assert await logs.touched() == {"a": 1_000, "b": 1_000}
    for _ in range(2):
        await logs.remove("a")
        assert list(await logs.touched()) == ["b"]
    for late in (zombie.append([b"late"]), zombie.roll(), zombie.append([b"later"])):
        with suppress(Unavailable):
            await late
    assert list(await logs.touched()) == ["b"]
    assert not [path for path in hdfs.files if path.startswith(HOME)]
    assert await payloads(await opened(hdfs, 1)) == []


@every_fault
@pytest.mark.parametrize("kind", ["list", "delete"])
@in_virtual_time
async def test_a_request_about_logs_without_answer_is_unavailable_and_can_be_repeated(kind, fault):
    hdfs = Hdfs(Random(2))
    await opened(hdfs, 1)
    logs = HdfsLogs(hdfs.client(), "/log")
    hdfs.fault = once(kind, fault)
    ask = logs.touched() if kind == "list" else logs.remove("a")
    with pytest.raises(Unavailable, match="/log"):
        await ask
    await logs.remove("a")
    assert await logs.touched() == {}
    await logs.close()


# ------------------------------------------------------------ readers that are not the owner


async def outside(logs, epoch, sequence):
    """The payloads of a segment."""
    data = await logs.read("a", epoch, sequence)
    return [p for p, _ in scan_segment(data, segment_name(epoch, sequence)).frames]


@every_fault
@in_virtual_time
async def test_a_sealed_segment_is_read_whole_even_if_closing_it_fails(fault):
    """An open file reads as shorter than it is."""
    hdfs = Hdfs(Random(3))
    logs = HdfsLogs(hdfs.client(), "/log")
    log = await opened(hdfs, 1)
    await log.append([b"one"])
    hdfs.fault = once("close", fault)
    await log.roll()
    assert await outside(logs, 1, 1) == [b"one"]
    await log.append([b"two"])
    await log.roll()
    assert await outside(logs, 1, 2) == [b"two"]
    assert await payloads(await opened(hdfs, 2)) == [b"one", b"two"]


@in_virtual_time
async def test_a_reader_closes_a_segment_that_its_owner_left_open():
    hdfs = Hdfs(Random(4))
    logs = HdfsLogs(hdfs.client(), "/log")
    log = await opened(hdfs, 1)
    await log.append([b"one"])
    (file,) = [file for path, file in hdfs.files.items() if path.endswith("1.log")]
    assert file.writer is not None
    assert await outside(logs, 1, 1) == [b"one"]
    assert file.writer is None


@pytest.mark.parametrize("kind", ["list", "open", "read"])
@in_virtual_time
async def test_a_reader_finds_a_segment_again_after_a_take_over(kind):
    hdfs = Hdfs(Random(5))
    logs = HdfsLogs(hdfs.client(), "/log")
    log = await opened(hdfs, 1)
    await log.append([b"one"])
    await log.roll()
    await asyncio.sleep(10)
    request, left = logs._client._hdfs.request, [kind]

    async def taken_over_after(asked, effect):
        found = await request(asked, effect)
        if left and asked == kind:
            left.clear()
            await opened(hdfs, 2)
        return found

    hdfs.request = taken_over_after
    assert await outside(logs, 1, 1) == [b"one"]
    assert not left
    assert await logs.segments("a") == [(1, 1)]
