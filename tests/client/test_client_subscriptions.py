"""Subscriptions of the client: blocking, in an event loop, and on the command line."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from decimal import Decimal

import pytest

import hornbeam
from hornbeam import aio
from hornbeam.errors import InterfaceError, OperationalError, ProgrammingError
from hornbeam.subscriptions import Change, Changes, Follower
from tests.client import client_world

BEGIN = {"type": "begin", "columns": [{"name": "a", "type": "INTEGER"}], "key": ["a"], "moment": 5}


@pytest.fixture(scope="module", params=["embedded", "http"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with client_world.opened(request.param, tmp_path_factory.mktemp(request.param) / "db") as url:
        yield url


@pytest.fixture
def db(url: str) -> Iterator[hornbeam.Connection]:
    with hornbeam.connect(url, autocommit=True) as db:
        yield db
        db.cursor().execute("DELETE FROM book")
        db.cursor().execute("DELETE FROM author")


def test_rows_then_changes_with_their_types(db: hornbeam.Connection) -> None:
    cursor = db.cursor()
    cursor.execute("INSERT INTO author VALUES (1, 'A')")
    cursor.execute("INSERT INTO book VALUES (1, 1, 'T', 1.50, 2)")
    with db.subscribe("book") as books:
        assert books.columns[3] == ("b_price", "DECIMAL(10,2)")
        assert (books.key, books.moment) == (["b_id"], None)
        first, last = next(books), next(books)
        assert first == [Change("insert", None, (1, 1, "T", Decimal("1.50"), 2))]
        assert (first.moment, first.begins, last, last.begins) == (None, True, [], True)
        assert last.moment is not None
        cursor.execute("UPDATE book SET b_price = 2 WHERE b_id = 1")
        changes = next(books)
        (change,) = changes
        assert change.operation == "update"
        assert (change.before or ())[3] == Decimal("1.50")
        assert change.after == (1, 1, "T", Decimal("2.00"), 2)
        assert (change.commit, len(change.transaction_id)) == (db.bookmark, 32)
        assert change.idempotency_key  # the client gives each transaction one
        assert books.moment == last.moment
        assert changes.moment is not None
        assert changes.moment >= db.bookmark


def test_a_subscription_goes_on_after_a_moment(db: hornbeam.Connection) -> None:
    cursor = db.cursor()
    with db.subscribe("author", rows=False) as authors:
        moment = authors.moment
    cursor.execute("INSERT INTO author VALUES (1, 'A'), (2, 'B')")
    with db.subscribe("author", moment=moment, wanted={"a_name": "B"}) as authors:
        assert [change.after for change in next(authors)] == [(2, "B")]


def test_run_calls_a_function(db: hornbeam.Connection) -> None:
    class Enough(Exception):
        pass

    def act(changes: Changes) -> None:
        seen.append(changes)
        raise Enough

    seen: list[Changes] = []
    with db.subscribe("author", rows=False) as authors:
        db.cursor().execute("INSERT INTO author VALUES (1, 'A')")
        with pytest.raises(Enough):
            authors.run(act)
    assert [change.after for change in seen[0]] == [(1, "A")]


def test_errors_of_the_beginning(db: hornbeam.Connection) -> None:
    with pytest.raises(ProgrammingError, match="no relation or view nothing"):
        db.subscribe("nothing")
    with pytest.raises(OperationalError, match="after 5"):
        db.subscribe("book", moment=5)


def test_a_closed_connection_subscribes_to_nothing(url: str) -> None:
    db = hornbeam.connect(url)
    db.close()
    with pytest.raises(InterfaceError):
        db.subscribe("book")


async def test_a_subscription_in_an_event_loop(url: str) -> None:
    async with aio.connect(url, autocommit=True) as db:
        async with db.subscribe("author", rows=False) as authors:
            await db.cursor().execute("INSERT INTO author VALUES (7, 'Z')")
            async for changes in authors:
                assert [change.after for change in changes] == [(7, "Z")]
                break
        async with db.subscribe("author") as authors:
            assert (await anext(authors))[0].after == (7, "Z")
        await db.cursor().execute("DELETE FROM author")
        with pytest.raises(ProgrammingError):
            await db.subscribe("nothing").__aenter__()


def test_watch_prints_rows_and_changes(
    run: client_world.Run, db: hornbeam.Connection, url: str
) -> None:
    db.cursor().execute("INSERT INTO author VALUES (1, 'A')")

    def write() -> None:
        with hornbeam.connect(url, autocommit=True) as other:
            while "hornbeam_subscriptions 1.0" not in other.transport.text("/metrics"):
                time.sleep(0.01)
            other.cursor().execute("UPDATE author SET a_name = 'B' WHERE a_id = 1")

    writer = threading.Thread(target=write)
    writer.start()
    code, out, _ = run("watch", "author", "--limit", "1")
    assert (code, out.splitlines()) == (
        0,
        ["= a_id = 1, a_name = A", "~ a_id = 1, a_name = B   (a_name was A)"],
    )
    writer.join()


def test_watch_prints_json_from_a_moment(run: client_world.Run, db: hornbeam.Connection) -> None:
    with db.subscribe("author", rows=False) as authors:
        moment = authors.moment
    db.cursor().execute("INSERT INTO author VALUES (1, 'A'), (2, 'B')")
    asked = ("watch", "author", "--moment", str(moment), "--where", "a_id=2", "--limit", "1")
    code, out, _ = run(*asked, "--json")
    document = json.loads(out)
    assert (code, document["operation"], document["after"]) == (
        0,
        "insert",
        {"a_id": 2, "a_name": "B"},
    )
    code, _, err = run("watch", "author", "--where", "a_id")
    assert (code, "is not COLUMN=VALUE" in err) == (2, True)
    code, _, err = run("watch", "nothing")
    assert (code, "no relation or view nothing" in err) == (3, True)


# ---------------------------------------------------------------- without a connection


def follower(moment: int | None = None) -> Follower:
    return Follower("v", {}, moment, 30.0, rows=True)


def message(**members: object) -> str:
    return json.dumps(members)


def change(number: int) -> dict[str, object]:
    return {"operation": "insert", "before": None, "after": [number]}


def test_parts_of_a_step_that_were_lost_are_not_taken_twice() -> None:
    one = follower(5)
    one.take(message(**BEGIN, rows=False))
    assert one.take(message(type="changes", moment=None, changes=[change(1)])) is None
    assert one.parameters()["moment"] == "5"  # the connection was lost: the step comes again
    one.take(message(**BEGIN, rows=False))
    assert one.take(message(type="changes", moment=None, changes=[change(1)])) is None
    found = one.take(message(type="changes", moment=9, changes=[change(2)]))
    assert found is not None
    assert [each.after for each in found] == [(1,), (2,)]
    assert one.moment == 5
    one.taken(found)
    assert one.parameters()["moment"] == "9"


def test_moments_without_changes_advance_the_place() -> None:
    one = follower(5)
    one.take(message(**BEGIN, rows=False))
    assert one.take(message(type="moment", moment=8)) is None
    assert one.parameters()["moment"] == "8"


def test_what_passes_is_tried_again_for_some_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("hornbeam.subscriptions.time.monotonic", lambda: now[0])
    passing = OperationalError("gone", {"code": "unreachable"})
    one = follower(5)
    assert 0 < one.pause_s(passing, begun=True) < one.pause_s(passing, begun=True)
    now[0] = 29.0
    one.pause_s(passing, begun=True)
    one.take(message(**BEGIN, rows=False))  # it goes on: the time begins again
    now[0] = 45.0
    one.pause_s(passing, begun=True)
    now[0] = 80.0
    with pytest.raises(OperationalError, match="gone"):
        one.pause_s(passing, begun=True)
    with pytest.raises(OperationalError, match="old"):
        follower(5).pause_s(OperationalError("old", {"code": "snapshot-too-old"}), begun=True)


def test_rows_of_the_beginning_do_not_go_on_in_the_middle() -> None:
    one = follower()
    one.take(message(**BEGIN, rows=True))
    passing = OperationalError("gone", {"code": "unreachable"})
    one.pause_s(passing, begun=False)
    with pytest.raises(OperationalError, match="gone"):
        one.pause_s(passing, begun=True)
