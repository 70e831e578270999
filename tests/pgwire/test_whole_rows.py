"""Short queries of sessions, which are answered without a request to the application."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from itertools import pairwise

import psycopg
import pytest

from hornbeam_server.api.rest.short_queries import ShortQueries
from hornbeam_server.pgwire.server import inside
from tests.api.api_world import occupied
from tests.pgwire.wire_world import wire_world

BY_ID = "SELECT name FROM item WHERE id = %s"


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with wire_world(tmp_path_factory.mktemp("whole"), max_concurrent_requests=4) as served:
        with served.connect() as db:
            db.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, price NUMERIC(9, 2))")
            db.execute("INSERT INTO item VALUES (1, 'pen', 1.50), (2, NULL, 2)")
            db.execute(BY_ID, (1,))  # plans it
        yield served


@pytest.fixture
def whole(monkeypatch):
    """The numbers of rows of the queries that are answered at once."""
    found, rows_now = [], ShortQueries.rows_now

    def noted(self, body, began):
        answer = rows_now(self, body, began)
        if answer is not None:
            found.append(len(answer.rows))
        return answer

    monkeypatch.setattr(ShortQueries, "rows_now", noted)
    return found


def test_a_prepared_query_is_answered_at_once_in_text_and_binary(world, whole):
    with world.connect() as db:
        for binary in (False, True):
            cursor = db.cursor(binary=binary)
            for number, row in ((1, ("pen",)), (2, (None,)), (3, None)):
                assert cursor.execute(BY_ID, (number,), prepare=True).fetchone() == row
    assert whole == [1, 1, 0, 1, 1, 0]


def test_a_query_sees_the_writes_of_its_session(world, whole):
    with world.connect() as db:
        for number in range(20):
            db.execute("UPDATE item SET name = %s WHERE id = 1", (f"n{number}",))
            assert db.execute(BY_ID, (1,)).fetchone() == (f"n{number}",)
    assert len(whole) == 20


def test_a_transaction_takes_the_complete_path(world, whole):
    with world.connect(autocommit=False) as db:
        db.execute("UPDATE item SET name = 'mine' WHERE id = 1")
        assert db.execute(BY_ID, (1,)).fetchone() == ("mine",)
        db.rollback()
    assert not whole


def test_queries_of_the_limit_take_the_complete_path(world, whole):
    with world.connect() as db:
        with (
            occupied(world, world.app.state.at_once._inside),
            pytest.raises(psycopg.OperationalError, match="under way"),
        ):
            db.execute(BY_ID, (1,))
        assert db.execute(BY_ID, (2,)).fetchone() == (None,)
    assert len(whole) == 1


def test_others_have_a_turn_between_queries_that_are_sent_together(world, whole, monkeypatch):
    monkeypatch.setattr(inside, "AT_ONCE", 4)
    turns = []

    async def count():
        while True:
            turns.append(len(whole))
            await asyncio.sleep(0)

    counting = asyncio.run_coroutine_threadsafe(count(), world.loop)
    text = BY_ID.replace("%s", "1").encode() + b"\0"
    together = (b"Q" + struct.pack("!i", 4 + len(text)) + text) * 100
    with world.connect() as db, socket.socket(fileno=os.dup(db.fileno())) as raw:
        raw.setblocking(True)
        raw.sendall(together)
        answered = b""
        while answered.count(b"SELECT 1\0") < 100:
            answered += raw.recv(65_536)
    counting.cancel()
    assert len(whole) == 100
    assert max(later - earlier for earlier, later in pairwise(turns)) <= 4
