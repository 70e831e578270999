"""Nodes that serve one database in turn."""

import asyncio
import contextlib

import httpx
import pytest
from database_world import until

from api.app import create_app
from api.database import Database, Ports
from api.node import Node, Serving
from api.planning import PlanRequest
from api.settings import Settings
from schema.errors import Corruption, OutcomeUnknown, Unavailable
from storage.local.system import RandomIds, SystemClock
from storage.log.segments import SegmentedLog
from storage.simulated.coordination import SESSION_S, SimulatedCoordination, SimulatedRegistry
from storage.simulated.files import SimulatedDisk, SimulatedFiles
from storage.simulated.store import SimulatedStore, SimulatedTables
from txlayer.model import Statement, TransactionRequest

INSERT = "INSERT INTO t (a) VALUES (?)"


class Cluster:
    """Store, log and coordination in memory, and the nodes on them."""

    def __init__(self, folder):
        self.settings = Settings(data=folder, slave="a")
        self.registry = SimulatedRegistry(asyncio.get_running_loop().time)
        self.tables, self.disk = SimulatedTables(), SimulatedDisk()

    async def connect(self):
        return await SimulatedCoordination.open(self.registry)

    async def start(self, coordination):
        async def open_log(name, epoch, version):
            files = SimulatedFiles(self.disk, "a")
            return await SegmentedLog.open(files, "a", epoch, catalog_version=version)

        store = SimulatedStore(self.tables)
        ports = Ports(store, coordination, open_log, SystemClock(), RandomIds())
        return await Database.start(self.settings, ports)

    @contextlib.asynccontextmanager
    async def node(self, address):
        serving = Serving()
        node = Node(serving, self.connect, self.start, SystemClock(), RandomIds(), address)
        task = asyncio.ensure_future(node.run())
        try:
            yield serving
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def answers(cluster, serving, path):
    app = create_app(cluster.settings, serving)
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://node"
    ) as client:
        return await client.get(path)


def test_one_serves_and_the_other_says_who(tmp_path):
    async def scenario():
        cluster = Cluster(tmp_path)
        async with cluster.node("http://first") as first:
            await until(lambda: first.database)
            async with cluster.node("http://second") as second:
                await until(lambda: second.leader)
                with pytest.raises(Unavailable, match="http://first serves"):
                    second.require()
                refused = await answers(cluster, second, "/readyz")
                assert (refused.status_code, refused.json()["leader"]) == (503, "http://first")
                assert "Retry-After" in refused.headers
                assert (await answers(cluster, second, "/livez")).status_code == 200
                assert "hornbeam_ready 0" in (await answers(cluster, second, "/metrics")).text
                assert (await answers(cluster, first, "/readyz")).status_code == 200

    asyncio.run(scenario())


def test_a_node_whose_log_has_failed_is_followed_and_nothing_is_lost(tmp_path):
    async def scenario():
        cluster = Cluster(tmp_path)
        async with cluster.node("http://first") as first:
            await until(lambda: first.database)
            old = first.database
            await create(old)
            await old.transact(TransactionRequest((Statement(INSERT, (1,)),)))
            async with cluster.node("http://second") as second:
                await until(lambda: second.leader)
                await old.log.close()
                with pytest.raises(OutcomeUnknown):
                    await old.transact(TransactionRequest((Statement(INSERT, (2,)),)))
                await until(lambda: first.database is not old)
                await until(lambda: first.database or second.database)
                new = first.database or second.database
                assert await new.fetch("SELECT a FROM t") == [(1,)]
                await new.transact(TransactionRequest((Statement(INSERT, (3,)),)))
                assert await new.fetch("SELECT a FROM t ORDER BY a") == [(1,), (3,)]

    asyncio.run(scenario())


def test_a_node_that_is_stopped_is_followed_without_waiting_for_its_session_to_end(tmp_path):
    async def scenario():
        cluster = Cluster(tmp_path)
        async with contextlib.AsyncExitStack() as waiting:
            async with cluster.node("http://first") as first:
                await until(lambda: first.database)
                await create(first.database)
                second = await waiting.enter_async_context(cluster.node("http://second"))
                await until(lambda: second.leader)
            stopped = asyncio.get_running_loop().time()
            await until(lambda: second.database)
            assert asyncio.get_running_loop().time() - stopped < SESSION_S / 2
            assert second.database.catalog.version > 0

    asyncio.run(scenario())


def test_damage_ends_the_node(tmp_path):
    async def scenario():
        cluster = Cluster(tmp_path)

        async def damaged(coordination):
            await coordination.close()
            raise Corruption("The log is damaged.")

        node = Node(Serving(), cluster.connect, damaged, SystemClock(), RandomIds(), "http://x")
        with pytest.raises(Corruption):
            await asyncio.wait_for(node.run(), 20)

    asyncio.run(scenario())


async def create(database):
    request = PlanRequest("CREATE TABLE t (a INTEGER PRIMARY KEY);", "")
    await database.apply_schema(request, database.plan_schema(request).plan_id)
