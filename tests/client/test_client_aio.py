"""`hornbeam.aio`: the meaning and the errors of the connection that blocks."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterator
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import hornbeam
from hornbeam import aio, embedded
from hornbeam.embedded import AsyncInProcess, LoopThread
from hornbeam.exchange import Request
from tests.client import client_world

SLOW = "SELECT count(*) FROM generate_series(1, 30000000) g WHERE g % 7 = 3"


@pytest.fixture(scope="module", params=["embedded", "http"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with client_world.opened(request.param, tmp_path_factory.mktemp(request.param) / "db") as url:
        yield url


@pytest.fixture
async def db(url: str) -> AsyncIterator[aio.Connection]:
    async with aio.connect(url) as db:
        yield db
        await db.rollback()
        await db.cursor().execute("DELETE FROM book")
        await db.cursor().execute("DELETE FROM author")


async def rows(db: aio.Connection, sql: str, parameters: Any = ()) -> list[Any]:
    return await (await db.cursor().execute(sql, parameters)).fetchall()


async def test_statements_transactions_and_rows(db: aio.Connection, url: str) -> None:
    cursor = db.cursor()
    await cursor.executemany("INSERT INTO author VALUES (?, ?)", [(1, "A"), (2, "B"), (3, "C")])
    assert cursor.rowcount == 3
    await cursor.execute("INSERT INTO book VALUES (1, 1, 'T', 1.50, 2) RETURNING b_price")
    assert await cursor.fetchone() == (Decimal("1.50"),)
    async with aio.connect(url) as other:
        assert await rows(other, "SELECT * FROM author") == []
    await db.commit()
    await cursor.execute("SELECT a_id, a_name FROM author ORDER BY a_id")
    assert [column[0] for column in cursor.description or ()] == ["a_id", "a_name"]
    assert (await cursor.fetchmany(), cursor.rownumber) == ([(1, "A")], 1)
    assert [row async for row in cursor] == [(2, "B"), (3, "C")]
    assert await cursor.fetchone() is None
    async with aio.connect(url, autocommit=True) as other:
        other.bookmark = db.bookmark
        assert await rows(other, "SELECT a_name FROM author WHERE a_id = :id", {"id": 2}) == [
            ("B",)
        ]


async def test_savepoints_pipelines_and_settings(db: aio.Connection) -> None:
    await db.cursor().execute("INSERT INTO author VALUES (1, 'A')")
    await db.savepoint("s")
    await db.cursor().execute("INSERT INTO author VALUES (2, 'B')")
    await db.rollback_to("s")
    await db.release("s")
    async with db.pipeline():
        child = await db.cursor().execute("INSERT INTO book VALUES (1, 9, 'T', 1, 1)")
        with pytest.raises(hornbeam.InterfaceError, match="has not run yet"):
            child.rowcount  # noqa: B018
        await db.cursor().execute("INSERT INTO author VALUES (9, 'Z')")
    assert child.rowcount == 1
    assert await rows(db, "SELECT a_id FROM author ORDER BY a_id") == [(1,), (9,)]
    await _break_a_pipeline(db)
    with pytest.raises(hornbeam.IntegrityError):  # the write is part of the transaction
        await db.commit()
    await db.rollback()
    assert not db.in_transaction
    await db.set_search_path(["public"])
    assert db.search_path == ("public",)
    db.isolation = "SERIALIZABLE"
    assert await rows(db, "SELECT a_id FROM author") == []
    assert "author" in (await db.explain("SELECT * FROM author", ()))["text"]
    await db.ping()


async def _break_a_pipeline(db: aio.Connection) -> None:
    with contextlib.suppress(ZeroDivisionError):
        async with db.pipeline():
            await db.cursor().execute("INSERT INTO author VALUES (9, 'twice')")
            raise ZeroDivisionError


async def test_schema_changes_and_prepared_statements(db: aio.Connection) -> None:
    cursor = db.cursor()
    await cursor.execute("CREATE TABLE short AS SELECT 7 AS n")
    try:
        await cursor.execute("PREPARE p (INTEGER) AS SELECT n + $1 FROM short")
        await cursor.execute("EXECUTE p (1)")
        assert await cursor.fetchall() == [(8,)]
    finally:
        await db.rollback()
        await cursor.execute("DROP TABLE short")
    assert (await db.cursor().execute("SELECT 1")).statusmessage == "SELECT 1"
    with pytest.raises(hornbeam.ProgrammingError) as failed:
        await cursor.execute("SELECT * FROM short")
    assert failed.value.code == "sql-unknown-name"


async def test_errors_are_those_of_the_other_connection(db: aio.Connection, url: str) -> None:
    cursor = db.cursor()
    await cursor.execute("INSERT INTO author VALUES (1, 'A')")
    with pytest.raises(hornbeam.IntegrityError):
        await cursor.execute("INSERT INTO author VALUES (1, 'A')")
    with pytest.raises(hornbeam.InterfaceError, match="There are no rows"):
        await cursor.fetchone()
    await cursor.close()
    with pytest.raises(hornbeam.InterfaceError, match="cursor is closed"):
        await cursor.execute("SELECT 1")
    closed = await aio.connect(url)
    await closed.close()
    await closed.close()
    for call in (closed.commit, closed.ping):
        with pytest.raises(hornbeam.InterfaceError, match="connection is closed"):
            await call()
    with pytest.raises(hornbeam.InterfaceError, match="connection is closed"):
        closed.cursor()
    with pytest.raises(hornbeam.InterfaceError, match="Unknown options"):
        aio.connect(f"{url}?what=1")


async def test_run_begins_again_after_a_conflict(db: aio.Connection, url: str) -> None:
    await db.cursor().execute("INSERT INTO author VALUES (1, '0')")
    await db.commit()

    async def count(own: aio.Connection) -> None:
        ((name,),) = await rows(own, "SELECT a_name FROM author WHERE a_id = 1")
        await own.cursor().execute("UPDATE author SET a_name = ?", [str(int(name) + 1)])

    async def counted() -> None:
        async with aio.connect(url) as own:
            for _ in range(3):
                await own.run(count, attempts=50)

    await asyncio.gather(*(counted() for _ in range(3)))
    async with aio.connect(url) as other:
        assert await rows(other, "SELECT a_name FROM author") == [("9",)]
    with pytest.raises(hornbeam.InterfaceError, match="at least 1"):
        await db.run(count, attempts=0)


async def test_statements_of_several_tasks_run_one_after_the_other(db: aio.Connection) -> None:
    inserted = (db.cursor().execute("INSERT INTO author VALUES (?, 'A')", [i]) for i in range(8))
    await asyncio.gather(*inserted)
    assert len(await rows(db, "SELECT a_id FROM author")) == 8


async def test_the_loop_goes_on_during_a_statement(db: aio.Connection) -> None:
    turns = 0

    async def tick() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0.001)
            turns += 1

    ticking = asyncio.create_task(tick())
    assert await rows(db, SLOW) == [(4_285_714,)]
    ticking.cancel()
    assert turns > 5


async def test_a_cancelled_statement_leaves_no_answer_behind(db: aio.Connection) -> None:
    before = asyncio.all_tasks()
    for _ in range(3):
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(db.cursor().execute(SLOW), 0.005)
        with pytest.raises(hornbeam.InternalError, match="is aborted"):
            await rows(db, "SELECT 7 AS n")
        await db.rollback()
        assert await rows(db, "SELECT 7 AS n") == [(7,)]
    assert asyncio.all_tasks() == before


async def test_arrow_answers_stream(db: aio.Connection) -> None:
    table = await db.cursor().arrow("SELECT g FROM generate_series(1, 1000) s(g)")
    assert table.num_rows == 1000
    total = 0
    batches = db.cursor().arrow_batches("SELECT g FROM generate_series(1, 300000) s(g)")
    async for batch in batches:
        total += batch.num_rows
    assert total == 300_000
    batches = db.cursor().arrow_batches("SELECT g FROM generate_series(1, 300000) s(g)")
    assert (await anext(batches)).num_rows
    await batches.aclose()
    assert await rows(db, "SELECT 7 AS n") == [(7,)]
    await db.rollback()


async def test_a_cancelled_body_leaves_no_task_in_the_loop_of_the_application() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        await asyncio.Event().wait()

    loop = asyncio.new_event_loop()
    thread = LoopThread("test", loop)
    carrier = AsyncInProcess(SimpleNamespace(app=app, loop=thread))  # type: ignore[arg-type]
    try:
        answer = await carrier.send(Request("GET", "/", {}))
        pieces = aiter(answer.pieces)
        assert await anext(pieces) == b"first"
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(anext(pieces), 0.05)
        await answer.close()
        assert not asyncio.all_tasks(loop)
    finally:
        thread.close()


async def test_an_answer_that_begins_as_its_caller_is_cancelled_ends_its_application() -> None:
    """The answer has begun, and the loop of the caller does not know it yet."""
    ended = threading.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        try:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            while True:
                await send({"type": "http.response.body", "body": b"more", "more_body": True})
        finally:
            ended.set()

    thread = LoopThread("test", asyncio.new_event_loop())
    carrier = AsyncInProcess(SimpleNamespace(app=app, loop=thread))  # type: ignore[arg-type]
    try:
        sending = asyncio.ensure_future(carrier.send(Request("GET", "/", {})))
        await asyncio.sleep(0)
        for _ in range(10):  # turns of the application's loop alone
            thread.run(asyncio.sleep(0))
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        assert await asyncio.to_thread(ended.wait, 10)
    finally:
        thread.close()


async def test_an_opening_that_is_cancelled_closes_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_back = threading.Event()
    give_back = embedded._FOLDERS.give_back

    def noted(folder: Any) -> None:
        give_back(folder)
        given_back.set()

    monkeypatch.setattr(embedded._FOLDERS, "give_back", noted)
    url = client_world.embedded(tmp_path / "db")
    opening = asyncio.ensure_future(aio.connect(url).__aenter__())
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert await asyncio.to_thread(given_back.wait, 10)
    assert (tmp_path / "db").resolve() not in embedded._FOLDERS._open
    async with aio.connect(url) as db:
        assert await rows(db, "SELECT 1 AS n") == [(1,)]
