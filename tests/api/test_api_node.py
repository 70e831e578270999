"""Nodes that serve one database together."""

import asyncio
import contextlib

import httpx
import pytest

from hornbeam_server.api.rest.app import create_app
from hornbeam_server.node.adapters import Ports
from hornbeam_server.node.database import Database
from hornbeam_server.node.node import Node, Serving
from hornbeam_server.node.schema_plans import PlanRequest
from hornbeam_server.node.settings import Settings
from hornbeam_server.schema.errors import (
    Corruption,
    OutcomeUnknown,
    TransactionAborted,
    Unavailable,
)
from hornbeam_server.storage.local.system import RandomIds, SystemClock
from hornbeam_server.storage.log.segments import SegmentedLog
from hornbeam_server.storage.ports import Versioned
from hornbeam_server.storage.simulated.coordination import SimulatedCoordination, SimulatedRegistry
from hornbeam_server.storage.simulated.files import SimulatedDisk, SimulatedFiles
from hornbeam_server.storage.simulated.store import SimulatedStore, SimulatedTables
from hornbeam_server.storage.tcp.peers import TcpPeers
from hornbeam_server.txlayer.cluster.assignment import Assignment
from hornbeam_server.txlayer.statements.requests import Statement, TransactionRequest
from tests.txlayer.database_world import until

INSERT = "INSERT INTO t (a) VALUES (?)"


class Quorum:
    """The connection to the coordination service, which can lose its quorum."""

    late = False

    def __init__(self):
        self.lost = False
        self.hides = lambda found: False
        """Decides whether an answer is lost in transit."""

    async def one(self, name, effect):
        await asyncio.sleep(0)
        if self.lost:
            raise Unavailable(f"No quorum for {name}.")
        found = effect()
        if self.hides(found):
            raise Unavailable(f"No answer to {name}.")
        return found


class Cluster:
    """An in-memory store, logs and coordination, and the nodes that use them."""

    def __init__(self, folder):
        self.settings = Settings(data=folder)
        self.quorum = Quorum()
        self.quorum_of = {}
        """Separate connections of single nodes, by address."""
        self.registry = SimulatedRegistry(asyncio.get_running_loop().time)
        self.tables, self.disk = SimulatedTables(), SimulatedDisk()

    async def join(self, address):
        async def open_log(name, epoch, version):
            files = SimulatedFiles(self.disk, name)
            return await SegmentedLog.open(files, name, epoch, catalog_version=version)

        ports = Ports(
            SimulatedStore(self.tables),
            await SimulatedCoordination.open(
                self.registry, self.quorum_of.get(address, self.quorum)
            ),
            open_log,
            SystemClock(),
            RandomIds(),
            peers=TcpPeers("nodes", b""),
        )
        return await Database.join(self.settings, ports, address)

    @contextlib.asynccontextmanager
    async def node(self, address):
        serving = Serving()
        node = Node(serving, lambda: self.join(address), SystemClock())
        task = asyncio.ensure_future(node.run())
        try:
            await until(lambda: serving.database)
            yield serving
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    @contextlib.asynccontextmanager
    async def two(self):
        """Yield (the node that leads, the other node); their database has a table."""
        async with self.node("http://first") as first:
            await until(lambda: first.database.keeper.leads)
            await create(first.database)
            async with self.node("http://second") as second:
                yield first, second


@contextlib.asynccontextmanager
async def client(cluster, serving):
    to_app = httpx.ASGITransport(create_app(cluster.settings, serving))
    async with httpx.AsyncClient(transport=to_app, base_url="http://localhost") as opened:
        yield opened


async def answers(cluster, serving, path):
    async with client(cluster, serving) as node:
        return await node.get(path)


async def asks(cluster, serving, path, **body):
    async with client(cluster, serving) as node:
        return await node.post(path, json=body)


async def test_all_nodes_serve_and_one_changes_the_schema(tmp_path):
    cluster = Cluster(tmp_path)
    async with cluster.two() as (first, second):
        for number, node in enumerate((first, second)):
            assert (await answers(cluster, node, "/readyz")).status_code == 200
            await node.database.execute(INSERT, (number,))
        for node in (first, second):
            rows = await node.database.fetch("SELECT a FROM t ORDER BY a", strong=True)
            assert rows == [(0,), (1,)]
        with pytest.raises(Unavailable, match="http://first") as refused:
            await create(second.database, "CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER);")
        assert refused.value.details["leader"] == "http://first"
        await create(first.database, "CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER);")
        await second.database.execute("INSERT INTO t VALUES (2, 3)")


async def test_a_node_that_has_not_joined_is_on_standby(tmp_path):
    cluster = Cluster(tmp_path)
    joining = Serving()
    refused = await answers(cluster, joining, "/readyz")
    assert (refused.status_code, refused.json()["standby"]) == (503, True)
    assert "Retry-After" in refused.headers
    assert (await answers(cluster, joining, "/livez")).status_code == 200
    assert "hornbeam_ready 0" in (await answers(cluster, joining, "/metrics")).text


async def test_a_node_rejoins_after_its_log_fails_and_loses_no_commit(tmp_path):
    async with Cluster(tmp_path).two() as (first, second):
        old = first.database
        await old.execute(INSERT, (1,))
        await old.log.close()
        with pytest.raises(OutcomeUnknown):
            await old.transact(TransactionRequest((Statement(INSERT, (2,)),)))
        await until(lambda: first.database is not old and first.database)
        for number, node in ((3, first), (4, second)):
            await persistently(lambda: node.database.execute(INSERT, (number,)))  # noqa: B023
        rows = await second.database.fetch("SELECT a FROM t ORDER BY a", strong=True)
        assert rows == [(1,), (3,), (4,)]


async def test_without_a_quorum_reads_use_the_last_snapshot_and_writes_fail(tmp_path):
    cluster = Cluster(tmp_path)
    async with cluster.two() as (first, second):
        await first.database.execute(INSERT, (1,))
        await second.database.fetch("SELECT a FROM t", strong=True)
        cluster.quorum.lost = True
        await until(lambda: first.retired and second.retired)
        for node in (first, second):
            ready = await answers(cluster, node, "/readyz")
            assert (ready.status_code, ready.json()["standby"]) == (503, True)
            written = await asks(
                cluster, node, "/v1/transactions", statements=[{"sql": "DELETE FROM t"}]
            )
            assert (written.status_code, written.json()["standby"]) == (503, True)
            assert "Retry-After" in written.headers
            assert (await answers(cluster, node, "/v1/schema")).status_code == 200
        read = await asks(cluster, second, "/v1/query", sql="SELECT a FROM t")
        assert read.json()["rows"] == [[1]]
        assert float(read.headers["Hornbeam-Behind-S"]) >= 0
        for newer in ({"consistency": "strong"}, {"bookmark": read.json()["snapshot"] + 1}):
            refused = await asks(cluster, second, "/v1/query", sql="SELECT a FROM t", **newer)
            assert (refused.status_code, refused.json()["standby"]) == (503, True)
        cluster.quorum.lost = False
        await until(lambda: first.database and second.database)
        assert first.retired is second.retired is None
        await persistently(lambda: first.database.execute(INSERT, (2,)))
        read = await asks(cluster, first, "/v1/query", sql="SELECT a FROM t ORDER BY a")
        assert read.json()["rows"] == [[1], [2]]
        assert "Hornbeam-Behind-S" not in read.headers


async def test_a_node_behind_a_schema_change_does_not_read_newer_rows(tmp_path):
    """With its old catalog the node would read a dropped view, which no node maintains any more."""
    tables = """
        CREATE TABLE t (a INTEGER PRIMARY KEY);
        CREATE TABLE u (b INTEGER PRIMARY KEY, ba INTEGER REFERENCES t (a));
    """
    join = "SELECT b FROM t, u WHERE a = ba ORDER BY b"

    def opened(found):
        """Whether the answer is an assignment with an open gate."""
        is_assignment = isinstance(found, Versioned) and b"gate_closed" in found.value
        return is_assignment and not Assignment.decode(found.value).gate_closed

    cluster = Cluster(tmp_path)
    cluster.quorum_of["http://second"] = late = Quorum()
    async with cluster.two() as (first, second):
        await create(first.database, tables, join)
        await first.database.keeper.wait_built()
        await first.database.execute("INSERT INTO t VALUES (1)")
        written = await first.database.execute("INSERT INTO u VALUES (1, 1)")
        found = await asks(cluster, second, "/v1/query", sql=join, bookmark=written.commit_ts)
        assert (found.json()["rows"], found.json()["served_by"]) == ([[1]], ["t__u"])
        late.hides = opened
        await create(first.database, tables)
        written = await persistently(lambda: first.database.execute("INSERT INTO u VALUES (2, 1)"))
        reading = asyncio.ensure_future(
            asks(cluster, second, "/v1/query", sql=join, bookmark=written.commit_ts)
        )
        await asyncio.wait({reading}, timeout=1.0)
        assert not second.database.manager.gate.is_open
        late.hides = lambda found: False
        found = (await reading).json()
        assert found["rows"] == [[1], [2]]
        assert "t__u" not in found["served_by"]


async def test_a_stopped_node_hands_its_work_to_the_others(tmp_path):
    cluster = Cluster(tmp_path)
    async with contextlib.AsyncExitStack() as staying:
        async with cluster.node("http://first") as first:
            await until(lambda: first.database.keeper.leads)
            await create(first.database)
            second = await staying.enter_async_context(cluster.node("http://second"))
        for number in range(20):  # each node owned the locks of some of these rows
            await second.database.execute(INSERT, (number,))
        await until(lambda: second.database.keeper.leads)


async def test_a_node_can_be_stopped_while_it_closes_its_database(tmp_path):
    """Otherwise it would open the database again, and nothing would stop that term."""
    cluster, serving = Cluster(tmp_path), Serving()
    node = Node(serving, lambda: cluster.join("http://node"), SystemClock())
    running = asyncio.ensure_future(node.run())
    await until(lambda: serving.database is not None)
    ending = hold_its_housekeeping(serving.database)
    serving.database.committer._fail(Unavailable("The log has failed."))
    await asyncio.wait_for(ending.wait(), 20)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 20)
    assert serving.database is None


def hold_its_housekeeping(database):
    """Make housekeeping end slowly; the returned event is set when its end begins."""
    ending, begun_with = asyncio.Event(), database._housekeeping_task

    async def slowly():
        try:
            await begun_with
        finally:
            ending.set()
            await asyncio.sleep(0.1)

    database._housekeeping_task = asyncio.ensure_future(slowly())
    return ending


async def test_corruption_ends_the_node():
    async def damaged():
        raise Corruption("The log is damaged.")

    with pytest.raises(Corruption):
        await asyncio.wait_for(Node(Serving(), damaged, SystemClock()).run(), 20)


async def create(database, ddl="CREATE TABLE t (a INTEGER PRIMARY KEY);", workload=""):
    request = PlanRequest(ddl, workload)
    await database.apply_schema(request, database.plan_schema(request).plan_id)


async def persistently(work):
    """Repeat the work, as clients do, until the node's slots have owners again."""
    while True:
        try:
            return await work()
        except (Unavailable, TransactionAborted):
            await asyncio.sleep(0.05)
