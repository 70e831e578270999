"""Sessions with a real ZooKeeper, while it or the process is away."""

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
from kazoo.client import KazooClient

from hornbeam_server.schema.errors import LimitExceeded, StalePlan, Unavailable
from hornbeam_server.storage.ports import Versioned
from hornbeam_server.storage.zookeeper.coordination import ZookeeperCoordination
from tests.storage import zookeeper_session

SESSION_S = 6.0


@pytest.fixture
def place(real_cluster):
    """(hosts, root); the root does not exist yet."""
    return str(real_cluster.zookeeper), f"/storage_{uuid4().hex}/deeper"


@asynccontextmanager
async def session(place, **options):
    coordination = await ZookeeperCoordination.open(*place, session_s=SESSION_S, **options)
    try:
        yield coordination
    finally:
        await coordination.close()


async def until(condition, seconds=30.0):
    """Wait until `condition` holds, and return how long it took."""
    begun = time.monotonic()
    while not condition():
        assert time.monotonic() - begun < seconds
        await asyncio.sleep(0.05)
    return time.monotonic() - begun


async def test_two_sessions_share_values_and_members(place):
    async with session(place) as a:
        async with session(place) as b:
            assert await a.write("one/x", b"a", 0) == 1
            assert await b.read("one/x") == Versioned(b"a", 1)
            assert await b.read("one") is None
            with pytest.raises(StalePlan, match="one/x is at version 1, not 0"):
                await b.write("one/x", b"b", 0)
            results = await asyncio.gather(
                *[s.write("one/x", b"%d" % n, 1) for n in range(5) for s in (a, b)],
                return_exceptions=True,
            )
            refused = [result for result in results if isinstance(result, StalePlan)]
            assert [result for result in results if result not in refused] == [2]
            assert {error.message for error in refused} == {"one/x is at version 2, not 1."}
            for member in ("b@ä/", "c"):
                await b.join(member, b"b's")
            await a.join("c", b"b's")
            assert await a.members() == await b.members() == {"b@ä/": b"b's", "c": b"b's"}
            await a.join("c", b"a's")
            await b.join("b@ä/", b"new")
            assert (await a.members())["b@ä/"] == b"new"
        assert await a.members() == {"c": b"a's"}


async def test_a_session_has_news_of_the_changes_and_the_end_of_others(place):
    async with session(place) as a:
        b = await ZookeeperCoordination.open(*place, session_s=SESSION_S)
        await b.write("x", b"a", 0)
        await b.join("b")
        for change in (
            lambda: b.write("x", b"b", 1),
            lambda: b.join("b", b"new"),
            lambda: b.join("c"),
            b.close,
        ):
            await a.read("x")
            await a.members()
            before = a.news
            await change()
            await until(lambda before=before: a.news != before)


async def test_members_that_leave_during_a_read_are_never_listed_without_data(place):
    async with session(place) as a, session(place) as b:
        names = {f"m{n}" for n in range(20)}
        for _ in range(10):
            await asyncio.gather(*[b.join(name, name.encode()) for name in names])
            seen, *_ = await asyncio.gather(a.members(), *map(b.leave, names))
            assert seen == {name: name.encode() for name in seen}
            assert await a.members() == {}


async def test_a_too_large_value_is_refused(place):
    async with session(place) as service:
        await service.write("x", b"x" * 1_000_000, 0)
        with pytest.raises(LimitExceeded):
            await service.write("x", b"x" * 1_000_001, 1)
        with pytest.raises(LimitExceeded):
            await service.join("x", b"x" * 1_000_001)
        assert service.alive()


def test_the_session_time_out_is_the_granted_one(place):
    async def scenario(wanted):
        service = await ZookeeperCoordination.open(*place, session_s=wanted)
        async with asyncio.timeout(5):
            await service.close()
        return service.session_s

    assert asyncio.run(scenario(10_000.0)) < 1_000
    assert asyncio.run(scenario(0.5)) > 1.5


async def test_an_address_without_zookeeper_is_reported_in_one_line():
    begun = time.monotonic()
    with pytest.raises(Unavailable) as caught:
        await ZookeeperCoordination.open("127.0.0.1:1", "/x", connect_s=0.5)
    assert caught.value.message == "ZooKeeper at 127.0.0.1:1 does not answer."
    assert time.monotonic() - begun < 5


async def test_a_service_that_comes_back_in_time_finds_the_session(real_cluster, place):
    async with session(place) as service:
        await service.join("a")
        before = service.news
        await asyncio.to_thread(real_cluster.kill, "zookeeper")
        assert service.alive()
        asked = asyncio.create_task(service.read("x"))
        await asyncio.to_thread(real_cluster.restart, "zookeeper")
        with suppress(Unavailable):
            assert await asked is None
        await until(lambda: service.news != before)  # because of the interruption
        assert service.alive()
        assert await service.members() == {"a": b""}
        assert await service.write("x", b"a", 0) == 1


async def test_a_process_without_answers_gives_up_before_the_service_does(real_cluster, place):
    async with session(place) as service:
        await service.join("a")
        await until(service.alive)
        real_cluster.pause("zookeeper")
        begun, seen_alive = time.monotonic(), 0.0
        try:
            while service.alive():
                seen_alive = time.monotonic() - begun
                await asyncio.sleep(0.05)
        finally:
            real_cluster.resume("zookeeper")
        assert SESSION_S / 4 < seen_alive < SESSION_S


async def test_an_ended_session_does_not_come_back(place):
    async with session(place) as watching, session(place) as service:
        await service.join("a")
        assert await watching.members() == {"a": b""}
        await asyncio.to_thread(end_session, place[0], service)
        await until(lambda: not service.alive())
        for _ in range(2):
            for call in (service.read("x"), service.write("x", b"", 0), service.join("b")):
                with pytest.raises(Unavailable, match="ZooKeeper at"):
                    await call
            await asyncio.sleep(1.5)
            assert not service.alive()
        assert await watching.members() == {}


def end_session(hosts, service):
    """End a session from another client, which takes it over by its number and password."""
    thief = KazooClient(hosts, client_id=service._client.client_id)
    thief.start()
    thief.stop()
    thief.close()


async def test_a_process_that_was_frozen_is_no_longer_sure_of_its_session(place):
    async with session(place) as watching:
        with frozen_process(place) as process:
            line = await asyncio.to_thread(process.stdout.readline)
            assert line.endswith("True\n")
            assert await watching.members() == {"frozen": b""}
            os.kill(process.pid, signal.SIGSTOP)
            async with asyncio.timeout(30):
                while await watching.members():  # noqa: ASYNC110 (there is nothing to wait for)
                    await asyncio.sleep(0.2)
            thawed = time.monotonic()
            os.kill(process.pid, signal.SIGCONT)
            for _ in range(100):
                asked, alive = (await asyncio.to_thread(process.stdout.readline)).split()
                if float(asked) > thawed + 2:
                    break
                assert alive == "False" or float(asked) < thawed
            else:
                pytest.fail("it says nothing any more")
            assert await watching.members() == {}


class frozen_process(subprocess.Popen):
    """A process to be frozen in the middle of its work; it is killed at the end."""

    def __init__(self, place):
        root = Path(__file__).parents[2]
        super().__init__(
            [sys.executable, zookeeper_session.__file__, *place],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(root)},
        )

    def __exit__(self, *error):
        self.kill()
        super().__exit__(*error)
