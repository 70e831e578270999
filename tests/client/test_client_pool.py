"""Pools of connections, for threads and for tasks."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

import hornbeam
from hornbeam import aio
from hornbeam.pool import AsyncPool, Pool
from tests.client import client_world
from tests.client.test_client_http import Node, received

NOWHERE = "hornbeam://127.0.0.1:9"
"""Nothing listens there: a pool opens nothing before a statement."""
LIVE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@pytest.fixture(scope="module", params=["embedded", "http"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with client_world.opened(request.param, tmp_path_factory.mktemp(request.param) / "db") as url:
        yield url


def test_connections_of_a_pool_see_one_anothers_commits(url: str) -> None:
    with Pool(url, max_size=2) as pool:
        with pool.connection() as db:
            db.cursor().execute("DELETE FROM author")
            db.cursor().execute("INSERT INTO author VALUES (1, 'A')")
        with pool.connection() as db, pool.connection() as other:
            assert db.bookmark == other.bookmark > 0
            assert db.cursor().execute("SELECT a_name FROM author").fetchall() == [("A",)]
        assert pool.run(lambda c: c.cursor().execute("SELECT 1 AS n").fetchall()) == [(1,)]
        assert (pool.used, pool.idle) == (0, 2)


def test_a_connection_is_new_and_its_transport_is_the_last_one() -> None:
    with Pool(NOWHERE, isolation="SERIALIZABLE") as pool:
        first, second = pool.connection(), pool.connection()
        transports = [first.transport, second.transport]
        first.isolation, first.autocommit, first.use_views = "READ COMMITTED", True, False
        first.search_path = ["other"]
        second.close()
        first.close()
        first.close()
        assert (pool.used, pool.idle) == (0, 2)
        third = pool.connection()
        assert third.transport is transports[0]
        assert (third.isolation, third.autocommit, third.use_views) == ("SERIALIZABLE", False, True)
        assert third.search_path == ("public",)
        with pytest.raises(hornbeam.InterfaceError, match="is closed"):
            first.cursor()


def test_a_user_who_waits_in_vain_gets_an_error() -> None:
    with Pool(NOWHERE, max_size=1, wait_s=0.01) as pool:
        with pool.connection():
            with pytest.raises(hornbeam.OperationalError, match="all 1 are in use") as failed:
                pool.connection()
            assert (failed.value.code, failed.value.retryable) == ("pool-exhausted", True)
        pool.connection().close()
        assert (pool.used, pool.idle) == (0, 1)


def test_users_wait_in_their_order_and_the_bound_holds() -> None:
    served: list[int] = []
    with Pool(NOWHERE, max_size=1) as pool:
        first, threads = pool.connection(), []

        def use(number: int) -> None:
            with pool.connection():
                assert pool.used == 1
                served.append(number)

        for number in range(5):
            threads.append(threading.Thread(target=use, args=(number,)))
            threads[-1].start()
            while len(pool._shelf._waiters) <= number:
                time.sleep(0.001)
        first.close()
        for thread in threads:
            thread.join()
    assert served == [0, 1, 2, 3, 4]


def test_many_threads_never_exceed_the_bound() -> None:
    most, lock, now = 0, threading.Lock(), 0

    def use() -> None:
        nonlocal most, now
        for _ in range(200):
            with pool.connection():
                with lock:
                    now += 1
                    most = max(most, now)
                with lock:
                    now -= 1

    with Pool(NOWHERE, max_size=3) as pool:
        threads = [threading.Thread(target=use) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert most <= 3
        assert (pool.used, pool.idle <= 3) == (0, True)


def test_a_transport_that_is_too_old_is_replaced() -> None:
    with Pool(NOWHERE, max_age_s=0.05) as pool:
        with pool.connection() as db:
            old = db.transport
        time.sleep(0.06)
        with pool.connection() as db:
            assert db.transport is not old
        with pool.connection() as db:
            time.sleep(0.06)
        assert pool.idle == 0


def test_a_transport_that_was_idle_is_checked_and_replaced_if_it_fails() -> None:
    asked: list[bytes] = []

    def alive(connection: Any) -> None:
        asked.append(received(connection))
        connection.sendall(LIVE)

    node = Node(alive, lambda _: None)
    url = node.address.replace("http:", "hornbeam:")
    with closing(node), Pool(url, check_after_s=0.0) as pool:
        with pool.connection() as db:
            first = db.transport
        with pool.connection() as db:
            assert db.transport is first
        node.wait_for(1)  # so the next check needs another connection
        with pool.connection() as db:
            assert db.transport is not first
        assert (pool.used, pool.idle) == (0, 1)
    assert asked[0].startswith(b"GET /livez ")


def test_a_closed_pool_lends_nothing_and_closes_what_is_given_back() -> None:
    pool = Pool(NOWHERE, max_size=1)
    errors: list[Exception] = []

    def use() -> None:
        try:
            pool.connection()
        except hornbeam.InterfaceError as error:
            errors.append(error)

    db = pool.connection()
    waiting = threading.Thread(target=use)
    waiting.start()
    while not pool._shelf._waiters:
        time.sleep(0.001)
    pool.close()
    pool.close()
    waiting.join()
    db.close()
    assert (pool.used, pool.idle) == (0, 0)
    use()
    assert [str(error) for error in errors] == ["The pool is closed."] * 2


def test_wrong_settings_are_refused_at_once() -> None:
    with pytest.raises(hornbeam.InterfaceError, match="at least 1"):
        Pool(NOWHERE, max_size=0)
    with pytest.raises(hornbeam.InterfaceError, match="Unknown options"):
        Pool(f"{NOWHERE}?what=1")
    with pytest.raises(TypeError):
        Pool(NOWHERE, maximum=1)


async def test_tasks_share_an_async_pool(url: str) -> None:
    async with AsyncPool(url, max_size=2) as pool:
        async with pool.connection() as db:
            await db.cursor().execute("DELETE FROM author")
            await db.cursor().execute("INSERT INTO author VALUES (1, '0')")

        async def count(db: aio.Connection) -> None:
            cursor = db.cursor()
            await cursor.execute("SELECT a_name FROM author WHERE a_id = 1")
            row = await cursor.fetchone()
            assert row is not None
            await cursor.execute("UPDATE author SET a_name = ?", [str(int(row[0]) + 1)])

        await asyncio.gather(*(pool.run(count, attempts=50) for _ in range(6)))
        assert (pool.used, pool.idle) == (0, 2)
        db = await pool.connection()
        cursor = await db.cursor().execute("SELECT a_name FROM author")
        assert await cursor.fetchall() == [("6",)]
        await db.close()
        assert pool.used == 0


async def test_an_async_pool_is_bounded_and_its_users_wait_in_order() -> None:
    served: list[int] = []
    async with AsyncPool(NOWHERE, max_size=1, wait_s=5) as pool:

        async def use(number: int) -> None:
            async with pool.connection():
                assert pool.used == 1
                await asyncio.sleep(0)
                served.append(number)

        await asyncio.gather(*map(use, range(5)))
        assert served == [0, 1, 2, 3, 4]
        pool._wait_s = 0.01
        async with pool.connection() as db:
            with pytest.raises(hornbeam.OperationalError, match="all 1 are in use"):
                await pool.connection()
            giving_up = asyncio.ensure_future(use(5))
            await asyncio.sleep(0)
            giving_up.cancel()
            with pytest.raises(asyncio.CancelledError):
                await giving_up
            transport = db.transport
        async with pool.connection() as db:
            assert db.transport is transport
        assert (pool.used, pool.idle) == (0, 1)


async def test_a_connection_that_comes_too_late_is_given_to_the_next_user() -> None:
    async with AsyncPool(NOWHERE, max_size=1) as pool:
        db = await pool.connection()
        late = asyncio.ensure_future(pool._lend())
        await asyncio.sleep(0)
        await db.close()  # lends it to `late`, whose task has not run yet
        late.cancel()
        with pytest.raises(asyncio.CancelledError):
            await late
        async with asyncio.timeout(5), pool.connection():
            pass
        assert (pool.used, pool.idle) == (0, 1)


async def test_a_closed_async_pool_lends_nothing() -> None:
    pool = AsyncPool(NOWHERE, max_size=1)
    db = await pool.connection()
    waiting = asyncio.ensure_future(pool._lend())
    await asyncio.sleep(0)
    await pool.close()
    with pytest.raises(hornbeam.InterfaceError, match="pool is closed"):
        await waiting
    await db.close()
    assert (pool.used, pool.idle) == (0, 0)
    with pytest.raises(hornbeam.InterfaceError, match="pool is closed"):
        await pool.connection()


async def test_an_async_pool_checks_and_replaces_idle_transports() -> None:
    def alive(connection: Any) -> None:
        received(connection)
        connection.sendall(LIVE)

    node = Node(alive, lambda _: None)
    url = node.address.replace("http:", "hornbeam:")
    async with AsyncPool(url, check_after_s=0.0) as pool:
        async with pool.connection() as db:
            first = db.transport
        async with pool.connection() as db:
            assert db.transport is first
        await asyncio.to_thread(node.wait_for, 1)  # so the next check needs another connection
        async with pool.connection() as db:
            assert db.transport is not first
        pool._shelf.max_age_s = 0.0
        async with pool.connection() as db:
            pass
        assert (pool.used, pool.idle) == (0, 0)
    await asyncio.to_thread(node.close)
