"""The log on a real HDFS of three DataNodes: owners follow each other, and processes of HDFS die or
freeze while it is written."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from uuid import uuid4

import pytest
from hdfs_native import WriteOptions

from hornbeam_server.cluster import artefacts
from hornbeam_server.schema.errors import DiskFull, Unavailable
from hornbeam_server.storage.hdfs.client import HdfsClient
from hornbeam_server.storage.hdfs.files import HdfsFiles
from hornbeam_server.storage.hdfs.log import HdfsLog
from hornbeam_server.storage.ports import START
from tests.real_cluster import guarded_cluster
from tests.storage import hdfs_owner

STALL_S = 20.0
"""How long an append may take when a DataNode is lost: two attempts without an answer, and some
seconds until the NameNode notices."""

PATIENCE_S = 200.0
"""How long a NameNode may take to start on a busy machine."""


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory):
    """A cluster that tests may harm; each test leaves it whole."""
    with guarded_cluster(tmp_path_factory.mktemp("hdfs"), data_nodes=3) as cluster:
        yield cluster


@pytest.fixture
def folder():
    return f"/logs_{uuid4().hex}"


async def payloads(log):
    return [payload async for _, payload in log.read(START)]


class Appending:
    """Appends without end, one record after the other."""

    def __init__(self, log, name=""):
        self._log = log
        self._name = name
        self.acknowledged = []
        self.longest = 0.0
        self._task = asyncio.create_task(self._append())

    async def _append(self):
        while True:
            payload = f"{self._name}{len(self.acknowledged)}".encode()
            begun = time.monotonic()
            await self._log.append([payload])
            self.longest = max(self.longest, time.monotonic() - begun)
            self.acknowledged.append(payload)

    async def more(self, count=20):
        """Wait until `count` more records are acknowledged."""
        wanted = len(self.acknowledged) + count
        while len(self.acknowledged) < wanted:
            if self._task.done():
                self._task.result()
            await asyncio.sleep(0.01)

    async def stop(self):
        """Stop, and return the error that ended the appends before, or the cancellation."""
        self._task.cancel()
        (result,) = await asyncio.gather(self._task, return_exceptions=True)
        return result


async def taken_over(url, folder, epoch, appending):
    """Take the log over. The next owner reads all acknowledged records, and at most one more."""
    await appending.stop()
    log = await HdfsLog.open(url, folder, "a", epoch)
    try:
        found = await payloads(log)
    finally:
        await log.close()
    assert found[: len(appending.acknowledged)] == appending.acknowledged
    assert len(found) <= len(appending.acknowledged) + 1


async def test_owners_follow_each_other_while_the_last_still_appends(hdfs, folder):
    owners, found = [], []
    for epoch in range(1, 5):
        log = await HdfsLog.open(hdfs.hdfs_url, folder, "a", epoch, segment_bytes=2_000)
        found.append(await payloads(log))
        for owner in owners:
            assert set(owner.acknowledged) <= set(found[-1])
        owners.append(Appending(log, f"{epoch}-"))
        await owners[-1].more(100)
    final = await HdfsLog.open(hdfs.hdfs_url, folder, "a", 9)
    last = await payloads(final)
    assert [last[: len(each)] for each in found] == found
    assert all(set(owner.acknowledged) <= set(last) for owner in owners)
    assert len(set(last)) == len(last)
    await final.close()
    for owner in owners:
        assert isinstance(await owner.stop(), Unavailable)


async def test_requests_under_way_have_no_effect_behind_the_fence(hdfs, folder):
    """The client library sends paths: a file whose folder is gone is not created."""
    home = f"{folder}/a"
    old, new = (HdfsFiles(HdfsClient(hdfs.hdfs_url, {}), home) for _ in range(2))
    await old.fence(1)
    await old.create("x", b"one")
    late = HdfsClient(hdfs.hdfs_url, {})
    path = f"{home}/{1:010d}"
    draft = await late.create(f"{path}/y.new", WriteOptions(create_parent=False))
    await draft.write(b"two")
    await new.fence(2)
    options = WriteOptions(create_parent=False)
    for request in (
        late.create(f"{path}/z", options),
        late.rename(f"{path}/y.new", f"{path}/x", True),
        late.delete(f"{path}/x"),
        draft.write(b"late"),
        old.append("x", [b"late"]),
        old.finish("x", b"late"),
        old.create("z", b"late"),
        old.delete(["x"]),
        old.names(),
    ):
        with suppress(FileNotFoundError, Unavailable):
            assert await request is False
    assert await new.names() == ["x"]
    assert await new.read("x") == b"one"
    with pytest.raises(Unavailable, match="epoch 2 has taken over"):
        await old.fence(1)
    for files in (old, new):
        await files.close()


async def test_an_owner_that_was_frozen_across_the_fence_is_refused(hdfs, folder):
    with owner_process(hdfs.hdfs_url, folder, 1) as owner:
        said = [await asyncio.to_thread(owner.stdout.readline) for _ in range(50)]
        os.kill(owner.pid, signal.SIGSTOP)
        log = await HdfsLog.open(hdfs.hdfs_url, folder, "a", 2)
        found = await payloads(log)
        await log.append([b"new"])
        os.kill(owner.pid, signal.SIGCONT)
        said += await asyncio.to_thread(owner.stdout.readlines)
        assert said.pop() == "The log is fenced: epoch 2 has taken over.\n"
        acknowledged = [line.strip().encode() for line in said]
        assert found[: len(acknowledged)] == acknowledged
        assert await payloads(log) == [*found, b"new"]
        await log.close()


@asynccontextmanager
async def harmed(cluster, how, name):
    """Kill or freeze a process of the cluster for a while."""
    await asyncio.to_thread(getattr(cluster, how), name)
    try:
        yield
    finally:
        if how == "pause":
            cluster.resume(name)
        else:
            await asyncio.to_thread(cluster.restart, name)


@pytest.mark.parametrize("how", ["kill", "pause"])
async def test_the_loss_of_a_data_node_costs_seconds_and_no_record(hdfs, folder, how):
    log = await HdfsLog.open(hdfs.hdfs_url, folder, "a", 1, segment_bytes=20_000)
    appending = Appending(log)
    await appending.more()
    async with harmed(hdfs, how, "data-node-2"):
        await appending.more(200)
        assert appending.longest < STALL_S
        await taken_over(hdfs.hdfs_url, folder, 2, appending)
    assert await copies(hdfs, folder) == {3}
    with suppress(Unavailable):
        await log.close()


async def copies(cluster, folder):
    """The replication that HDFS is to keep of the segments of epoch 2."""
    client = HdfsClient(cluster.hdfs_url, {})
    return {s.replication for s in await client.list_status(f"{folder}/a/{2:010d}")}


async def test_the_log_goes_on_after_a_restart_of_the_name_node(hdfs, folder):
    log = await HdfsLog.open(hdfs.hdfs_url, folder, "a", 1, patience_s=PATIENCE_S)
    appending = Appending(log)
    await appending.more()
    async with harmed(hdfs, "kill", "name-node"):
        await asyncio.sleep(3)
    await appending.more(50)
    await taken_over(hdfs.hdfs_url, folder, 2, appending)


async def test_an_exceeded_quota_is_reported_as_a_full_disk(hdfs, folder):
    log = await HdfsLog.open(hdfs.hdfs_url, folder, "a", 1)
    await log.append([b"one"])
    await log.roll()
    await asyncio.to_thread(set_quota, hdfs, f"{folder}/a", 1 << 20)
    with pytest.raises(DiskFull, match=r"cannot grow: .*quota"):
        await log.append([b"two"])
    await log.close()


def set_quota(cluster, path, count):
    java, jars = artefacts.java(), cluster.jars()
    admin = "org.apache.hadoop.hdfs.tools.DFSAdmin"
    classes = f"{cluster.folder}/conf:{jars}/*"
    command = [java, "-cp", classes, admin, "-setSpaceQuota", str(count), path]
    subprocess.run(command, check=True, capture_output=True, timeout=60)


class owner_process(subprocess.Popen):
    """A process that owns the log; it is killed at the end."""

    def __init__(self, *arguments):
        super().__init__(
            [sys.executable, hdfs_owner.__file__, *map(str, arguments)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        )

    def __exit__(self, *error):
        self.kill()
        super().__exit__(*error)
