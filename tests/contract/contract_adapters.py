"""The adapters that the contract suites run over. A new adapter adds one entry to its table.

`reopen` says that an adapter keeps its content when it is closed and opened again, `fences` that it
keeps out an owner that is still alive; suites that need this run over the adapters that have it.
`run` runs a coroutine on the kind of event loop that the adapter needs. `cluster` says that it
needs a real cluster: its `open` then takes the cluster before the folder.

Property tests ask `examples` for their number of examples: over HBase an example creates tables,
and each takes a second.
"""

import asyncio
import inspect
import time
from collections.abc import Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any
from uuid import uuid4

import pytest

from hornbeam_server.storage.hbase.store import HBaseStore
from hornbeam_server.storage.hbase.thrift1.store import HBaseThrift1Store
from hornbeam_server.storage.hdfs.log import HdfsLog, hdfs_logs
from hornbeam_server.storage.local.coordination import LocalCoordination
from hornbeam_server.storage.local.log import LocalLog, LocalLogs
from hornbeam_server.storage.local.system import SystemClock
from hornbeam_server.storage.log.segments import SegmentedLog
from hornbeam_server.storage.rocks.store import RocksStore
from hornbeam_server.storage.simulated.chaos import Chaos, Profile
from hornbeam_server.storage.simulated.clock import SimulatedClock
from hornbeam_server.storage.simulated.coordination import SimulatedCoordination, SimulatedRegistry
from hornbeam_server.storage.simulated.files import SimulatedDisk, SimulatedFiles, SimulatedLogs
from hornbeam_server.storage.simulated.loop import run_simulated
from hornbeam_server.storage.simulated.peers import SimulatedNetwork, SimulatedPeers
from hornbeam_server.storage.simulated.store import SimulatedStore
from hornbeam_server.storage.tcp.peers import TcpPeers
from hornbeam_server.storage.zookeeper.coordination import ZookeeperCoordination
from tests.storage.hbase_gateways import make_namespace, page_port


@dataclass(frozen=True)
class Adapter:
    """`open(folder, **options)` opens a port in a folder of its own; its result may be an
    awaitable."""

    name: str
    open: Callable[..., Any]
    reopen: bool = False
    fences: bool = False
    run: Callable[[Any], Any] = asyncio.run
    cluster: bool = False
    examples: int | None = None
    """The maximum number of examples in a property test."""


class InMemory:
    """Opens adapters whose content is in memory, and keeps the content by folder."""

    def __init__(self):
        self.stores = {}
        self.disks = {}
        self.registries = {}
        self.networks = {}

    def store(self, folder):
        left = self.stores.get(folder)
        opened = self.stores[folder] = left.crashed() if left is not None else SimulatedStore()
        return opened

    async def log(self, folder, slave, epoch, **options):
        disk = self.disks.setdefault(folder, SimulatedDisk())
        return await SegmentedLog.open(SimulatedFiles(disk, slave), slave, epoch, **options)

    def logs(self, folder):
        return partial(self.log, folder), SimulatedLogs(
            self.disks.setdefault(folder, SimulatedDisk())
        )

    async def coordination(self, folder):
        registry = self.registries.setdefault(folder, SimulatedRegistry(time.monotonic))
        return await SimulatedCoordination.open(registry)

    def peers(self, folder):
        """One more member, in a process of its own, on the network of that folder."""
        loop = asyncio.get_running_loop()
        network = self.networks.get(folder)
        if network is None:
            network = self.networks[folder] = SimulatedNetwork(loop, Chaos(1, Profile()))
        return SimulatedPeers(network, loop.process("member"))


class OnCluster:
    """Opens adapters of a real cluster, where each folder has a namespace of its own."""

    def __init__(self):
        self.names = {}

    def store(self, cluster, folder):
        return HBaseStore([cluster.thrift], namespace=self._name(folder))

    def thrift1_store(self, cluster, folder):
        name = self._name(folder)
        make_namespace(cluster, name)
        return HBaseThrift1Store([cluster.thrift1], namespace=name, page_port=page_port(cluster))

    def log(self, cluster, folder, slave, epoch, **options):
        return HdfsLog.open(cluster.hdfs_url, f"/{self._name(folder)}", slave, epoch, **options)

    def logs(self, cluster, folder):
        reader = hdfs_logs(cluster.hdfs_url, f"/{self._name(folder)}")
        return partial(self.log, cluster, folder), reader

    def coordination(self, cluster, folder):
        return ZookeeperCoordination.open(str(cluster.zookeeper), f"/{self._name(folder)}")

    def _name(self, folder):
        return self.names.setdefault(folder, f"contract_{uuid4().hex}")


MEMORY = InMemory()
CLUSTER = OnCluster()
STORES = (
    Adapter("rocks", RocksStore.open, reopen=True),
    Adapter("simulated", MEMORY.store, reopen=True),
    Adapter("hbase", CLUSTER.store, reopen=True, cluster=True, examples=8),
    Adapter("hbase-thrift1", CLUSTER.thrift1_store, reopen=True, cluster=True, examples=4),
)
LOGS = (
    Adapter("local", LocalLog.open, reopen=True),
    Adapter("simulated", MEMORY.log, reopen=True, fences=True),
    Adapter("hdfs", CLUSTER.log, reopen=True, fences=True, cluster=True),
)
LOGS_FROM_OUTSIDE = (
    Adapter("local", lambda folder: (partial(LocalLog.open, folder), LocalLogs(folder))),
    Adapter("simulated", MEMORY.logs, fences=True),
    Adapter("hdfs", CLUSTER.logs, fences=True, cluster=True),
)
"""`open` gives a function that opens logs of one folder, and a reader of these logs; if the adapter
fences, the reader removes them, too."""
COORDINATIONS = (
    Adapter("local", LocalCoordination.open, reopen=True),
    Adapter("simulated", MEMORY.coordination, reopen=True),
    Adapter("zookeeper", CLUSTER.coordination, reopen=True, cluster=True),
)
CLOCKS = (
    Adapter("system", lambda folder: SystemClock(), run=asyncio.run),
    Adapter("simulated", lambda folder: SimulatedClock(), run=run_simulated),
)
PEERS = (
    Adapter("simulated", MEMORY.peers, run=run_simulated),
    Adapter("tcp", lambda folder: TcpPeers("contract", b"known to members")),
)


def over(adapters, *, reopen=False, fences=False):
    """Parametrise `adapter` over the adapters that have what a test needs."""
    able = [a for a in adapters if (a.reopen or not reopen) and (a.fences or not fences)]
    return pytest.mark.parametrize("adapter", able, ids=lambda adapter: adapter.name, indirect=True)


def on_loop_of_adapter(test):
    """Run a coroutine test on the kind of event loop that its `adapter` needs."""

    @wraps(test)
    def plain(*, adapter, **others):
        adapter.run(test(adapter=adapter, **others))

    return plain


def examples(adapter, usual):
    """The number of examples of a property test over `adapter`."""
    return min(usual, adapter.examples or usual)


@asynccontextmanager
async def opened(adapter, folder, *arguments, **options):
    port = adapter.open(folder, *arguments, **options)
    if inspect.isawaitable(port):
        port = await port
    try:
        yield port
    finally:
        await port.close()


def run(coroutine):
    return asyncio.run(coroutine)


async def collect(batches):
    return [item for batch in [batch async for batch in batches] for item in batch]
