"""The driver's requests and how it handles answers, against a scripted server."""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import json
import sys
import uuid
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import structlog

import hornbeam
from hornbeam.connection import Connection
from hornbeam.exchange import Answer, Lost, NotSent, Request
from hornbeam.options import Options
from hornbeam.transport import Transport, parse_url
from hornbeam.types import row_reader, to_wire
from tests.client import client_world

Scripted = dict[str, Any] | Answer | Exception


class Script:
    """A carrier that gives scripted answers in order, and records the requests."""

    def __init__(self, *answers: Scripted) -> None:
        self.answers = list(answers)
        self.requests: list[tuple[str, Any, Mapping[str, str]]] = []

    def send(self, request: Request) -> Answer:
        body = json.loads(request.body) if request.body else None
        self.requests.append((request.path, body, request.headers))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, Answer) else answered(200, answer)

    def close(self) -> None:
        pass

    @property
    def bodies(self) -> list[Any]:
        return [body for _, body, _ in self.requests]


def answered(status: int, document: Any) -> Answer:
    return Answer(status, {}, [json.dumps(document).encode()])


def connected(*answers: Scripted, autocommit: bool = False) -> tuple[Connection, Script]:
    script = Script(*answers)
    return Connection(Transport(script, "test"), Options(autocommit=autocommit)), script


def rows(*values: list[Any], snapshot: int = 7, reads: Any = ()) -> dict[str, Any]:
    return {
        "columns": [{"name": "a", "type": "INTEGER"}],
        "rows": list(values),
        "snapshot": snapshot,
        "served_by": ["t"],
        "reads": list(reads),
    }


def written(*affected: int, ts: int = 0, **more: Any) -> dict[str, Any]:
    statements = [
        {"affected": n, "columns": [], "rows": [], "tag": f"UPDATE {n}"} for n in affected
    ]
    return {"bookmark": ts, "commit_ts": ts, "statements": statements, **more}


def problem(code: str, status: int, **more: Any) -> Answer:
    return answered(status, {"code": code, "detail": f"it is {code}", **more})


def test_a_transaction_keeps_its_snapshot_and_sends_its_reads() -> None:
    db, script = connected(
        rows([1], snapshot=7, reads=[["t", "aa", 3], ["t", "bb", None]]),
        written(1),
        rows([1], [2], snapshot=7, reads=[["t", "aa", 3]]),
        written(1, ts=20),
    )
    cursor = db.cursor()
    cursor.execute("SELECT a FROM t")
    cursor.execute("INSERT INTO t VALUES (?)", [2])
    cursor.execute("SELECT a FROM t")
    db.commit()
    insert = {"sql": "INSERT INTO t VALUES (?)", "parameters": [2]}
    first, trial, second, commit = script.bodies
    assert first["snapshot"] is None
    assert first["trace"] is True
    assert trial["dry_run"] is True
    assert trial["statements"] == [insert]
    assert (second["snapshot"], second["pending"]) == (7, [insert])
    assert commit["reads"] == [["t", "aa", 3], ["t", "bb", None]]
    assert commit["bookmark"] == 7
    assert db.bookmark == 20
    assert not db.in_transaction


def test_a_repeated_statement_sends_the_replay_of_its_dry_run() -> None:
    db, script = connected(
        written(1, replay={"numbers": [5]}), rows(), written(1, 1, replay={"numbers": [5, 6]}),
        written(1, 1, ts=3),
    )  # fmt: skip
    cursor = db.cursor()
    cursor.execute("INSERT INTO t DEFAULT VALUES")
    cursor.execute("SELECT a FROM t")
    cursor.execute("INSERT INTO t DEFAULT VALUES")
    db.commit()
    assert [body.get("replay") for body in script.bodies] == [
        None, {"numbers": [5]}, {"numbers": [5]}, {"numbers": [5, 6]},
    ]  # fmt: skip


def test_a_failed_write_leaves_a_transaction_that_returns_to_a_savepoint() -> None:
    db, script = connected(written(1), problem("unique-violation", 409), written(1, ts=9))
    cursor = db.cursor()
    cursor.execute("INSERT INTO t VALUES (1)")
    db.savepoint("s")
    with pytest.raises(hornbeam.IntegrityError, match="it is unique-violation"):
        cursor.execute("INSERT INTO t VALUES (1) -- again")
    db.rollback_to("s")
    db.commit()
    assert [s["sql"] for s in script.bodies[-1]["statements"]] == ["INSERT INTO t VALUES (1)"]


def test_executemany_is_one_statement_of_one_request() -> None:
    db, script = connected(written(3))
    cursor = db.cursor()
    cursor.executemany("DELETE FROM t WHERE a = ?", ([i] for i in range(3)))
    assert cursor.rowcount == 3
    (body,) = script.bodies
    assert body["statements"] == [
        {"sql": "DELETE FROM t WHERE a = ?", "parameter_sets": [[0], [1], [2]]}
    ]
    cursor.executemany("DELETE FROM t WHERE a = ?", [])
    assert cursor.rowcount == 0


def test_a_pipeline_sends_when_a_result_is_needed() -> None:
    db, script = connected(written(1, 2), written(1, 2, 3), written(1, 2, 3, ts=5))
    one, two, three = db.cursor(), db.cursor(), db.cursor()
    with db.pipeline():
        one.execute("UPDATE t SET a = 1")
        two.execute("UPDATE t SET a = 2")
        assert not script.requests
        assert two.rowcount == 2
        three.execute("UPDATE t SET a = 3")
        assert len(script.requests) == 1
    assert (one.rowcount, two.rowcount, three.rowcount) == (1, 2, 3)
    assert len(script.requests) == 2
    db.commit()
    assert len(script.bodies[-1]["statements"]) == 3


def test_a_failed_pipeline_must_be_rolled_back() -> None:
    db, script = connected(problem("foreign-key-violation", 409), written(1))
    pipeline = db.pipeline()
    pipeline.__enter__()
    db.cursor().execute("INSERT INTO t VALUES (1)")
    db.cursor().execute("INSERT INTO t VALUES (2)")
    with pytest.raises(hornbeam.IntegrityError):
        pipeline.__exit__(None, None, None)
    with pytest.raises(hornbeam.InternalError, match="the commit has rolled it back"):
        db.commit()
    db.cursor().execute("INSERT INTO t VALUES (3)")
    assert len(script.bodies[-1]["statements"]) == 1


def test_a_pipeline_in_autocommit_is_one_transaction() -> None:
    db, script = connected(written(1, 1, ts=4), autocommit=True)
    with db.pipeline():
        db.cursor().execute("INSERT INTO t VALUES (1)")
        db.cursor().execute("INSERT INTO t VALUES (2)")
    (body,) = script.bodies
    assert len(body["statements"]) == 2
    assert "dry_run" not in body
    with contextlib.suppress(ZeroDivisionError), db.pipeline():
        db.cursor().execute("INSERT INTO t VALUES (1)")
        raise ZeroDivisionError
    assert len(script.requests) == 1
    assert not db.in_transaction


def test_savepoints_are_positions_in_the_list_of_writes() -> None:
    db, script = connected(written(1), written(1, 1), written(1, 1), written(1, 1, ts=8))
    cursor = db.cursor()
    cursor.execute("INSERT INTO t VALUES (1)")
    db.savepoint("s")
    cursor.execute("INSERT INTO t VALUES (2)")
    db.savepoint("later")
    db.rollback_to("s")
    cursor.execute("INSERT INTO t VALUES (3)")
    db.release("s")
    db.commit()
    texts = [s["sql"] for s in script.bodies[-1]["statements"]]
    assert texts == ["INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (3)"]
    with pytest.raises(hornbeam.ProgrammingError, match="no savepoint"):
        db.rollback_to("later")


def test_there_are_no_savepoints_in_autocommit() -> None:
    db, _ = connected(autocommit=True)
    for savepoint in (db.savepoint, db.rollback_to, db.release):
        with pytest.raises(hornbeam.InterfaceError, match=r"autocommit[^\n]*\n  Set autocommit"):
            savepoint("s")


def test_an_aborted_commit_is_sent_again_with_the_same_key() -> None:
    db, script = connected(
        problem("transaction-aborted", 409, retryable=True),
        Lost("slow"),
        problem("overloaded", 429, retryable=True),
        written(1, ts=4),
        autocommit=True,
    )
    db.cursor().execute("INSERT INTO t VALUES (1)")
    keys = {headers["Idempotency-Key"] for _, _, headers in script.requests}
    assert len(script.requests) == 4
    assert len(keys) == 1


def test_an_unknown_outcome_stays_unknown_when_the_server_goes_away(monkeypatch) -> None:
    monkeypatch.setattr("hornbeam.transport.PATIENCE_S", 0.5)
    lost = [Lost("slow")] + [NotSent("refused")] * 99
    db, script = connected(*lost, autocommit=True)
    with pytest.raises(hornbeam.OperationalError) as caught:
        db.cursor().execute("INSERT INTO t VALUES (1)")
    assert caught.value.outcome == "unknown"
    assert not caught.value.retryable
    assert len(script.requests) > 5


def test_a_refused_connection_is_reported_at_once() -> None:
    db, script = connected(NotSent("refused"), autocommit=True)
    with pytest.raises(hornbeam.OperationalError, match="does not answer") as caught:
        db.cursor().execute("INSERT INTO t VALUES (1)")
    assert (caught.value.code, caught.value.outcome) == ("unreachable", "none")
    assert len(script.requests) == 1


def test_run_repeats_the_work_after_a_conflict() -> None:
    db, script = connected(
        rows([1], snapshot=5), written(1), problem("read-conflict", 409, retryable=True),
        rows([2], snapshot=6), written(1), written(1, ts=9),
    )  # fmt: skip
    seen = []

    def work(connection: Connection) -> int:
        cursor = connection.cursor().execute("SELECT a FROM t")
        seen.append(cursor.fetchone())
        cursor.execute("UPDATE t SET a = 3")
        return len(seen)

    assert db.run(work) == 2
    assert seen == [(1,), (2,)]
    assert script.bodies[3]["snapshot"] is None


def test_run_raises_after_the_last_attempt_and_for_other_errors() -> None:
    db, _ = connected(problem("read-conflict", 409, retryable=True))
    with pytest.raises(hornbeam.OperationalError):
        db.run(lambda c: c.cursor().execute("UPDATE t SET a = 1"), attempts=1)
    with pytest.raises(ZeroDivisionError):
        db.run(lambda _: 1 // 0)
    assert not db.in_transaction


def test_arrow_reads_and_writes_do_not_mix_in_a_transaction() -> None:
    db, _ = connected(written(1))
    db.cursor().execute("INSERT INTO t VALUES (1)")
    with pytest.raises(hornbeam.NotSupportedError, match="use execute"):
        db.cursor().arrow("SELECT 1")


@pytest.mark.parametrize(
    ("response", "error", "code"),
    [
        (Answer(502, {}, [b"<html>"]), hornbeam.InternalError, "internal"),
        (answered(500, [1]), hornbeam.InternalError, "internal"),
        (problem("sql-unknown-name", 422), hornbeam.ProgrammingError, "sql-unknown-name"),
        (problem("sql-unsupported", 422), hornbeam.NotSupportedError, "sql-unsupported"),
        (problem("sql-type-mismatch", 422), hornbeam.DataError, "sql-type-mismatch"),
        (problem("corruption", 500), hornbeam.InternalError, "corruption"),
        (problem("snapshot-too-old", 410), hornbeam.OperationalError, "snapshot-too-old"),
        (answered(200, {"rows": [], "error": {"code": "limit-exceeded"}}),
         hornbeam.OperationalError, "limit-exceeded"),
    ],
)  # fmt: skip
def test_problems_become_pep_249_errors(
    response: Answer, error: type[hornbeam.DatabaseError], code: str
) -> None:
    db, _ = connected(response)
    with pytest.raises(error) as caught:
        db.cursor().execute("SELECT 1")
    assert caught.value.code == code


def test_a_cure_follows_the_message() -> None:
    db, _ = connected(problem("sql-invalid", 422, cure="Write it well."))
    with pytest.raises(hornbeam.ProgrammingError, match=r"it is sql-invalid\n  Write it well\."):
        db.cursor().execute("SELECT")


def test_a_server_error_code_that_is_not_known_is_internal() -> None:
    from hornbeam_server.schema import errors

    codes = {
        kind.code
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.HornbeamError)
    }
    assert codes - set(hornbeam.errors.BY_CODE) == {"internal"}


@pytest.mark.parametrize(
    ("url", "addresses", "folder"),
    [
        ("hornbeam://db.example:99?autocommit=true", ("http://db.example:99",), ""),
        ("hornbeam://[::1]", ("http://[::1]:8780",), ""),
        ("hornbeam+http://h", ("http://h:8780",), ""),
        ("hornbeam://h:1?also=i,[::1]:2", ("http://h:1", "http://i:8780", "http://[::1]:2"), ""),
        ("hornbeam:///a/b%20c", (), "a/b c"),
        ("hornbeam:////a", (), "/a"),
    ],
)
def test_urls_are_parsed(url: str, addresses: tuple[str, ...], folder: str) -> None:
    assert parse_url(url)[:2] == (addresses, folder)


@pytest.mark.parametrize(
    "url", ["http://x", "hornbeam://", "hornbeam:///", "hornbeam://h:port", "hornbeam://h?nonsense=1",
            "hornbeam://h?autocommit=perhaps", "hornbeam://h?timeout_s=0",
            "hornbeam://h?also=i:port", "hornbeam://h?also=i,", "hornbeam:///f?also=h",
            "hornbeam://h..i", "hornbeam://h?also=h..i", f"hornbeam://{64 * 'h'}.i"],
)  # fmt: skip
def test_wrong_urls_are_refused(url: str) -> None:
    with pytest.raises(hornbeam.InterfaceError):
        hornbeam.connect(url)


VALUES: list[tuple[str, Any]] = [
    ("DECIMAL(20,3)", Decimal("12345678901234567.125")),
    ("DATE", dt.date(2024, 2, 29)),
    ("TIME", dt.time(1, 2, 3, 456789)),
    ("INTERVAL", dt.timedelta(3, 4, 5)),
    ("INTERVAL", dt.timedelta(-3, 4, 5)),
    ("INTERVAL", hornbeam.Interval(14, -3, 4)),
    ("TIMESTAMP", dt.datetime(2024, 2, 29, 1, 2, 3, 456789)),
    ("TIMESTAMP WITH TIME ZONE", dt.datetime(2024, 2, 29, 1, 2, 3, tzinfo=dt.UTC)),
    ("BLOB", b"\x00\xff"),
    ("UUID", uuid.UUID(int=5)),
    ("BIGINT", 2**62),
    ("TEXT", "ä"),
    ("BOOLEAN", True),
    ("DOUBLE", 0.1),
    ("DOUBLE", float("inf")),
]


@pytest.mark.parametrize(("type_", "value"), VALUES)
def test_values_survive_json(type_: str, value: Any) -> None:
    read: Callable[[list[Any]], tuple[Any, ...]] = row_reader([type_, type_])
    sent = json.loads(json.dumps(to_wire(value)))
    text = sent["value"] if isinstance(sent, dict) else sent
    assert read([text, None]) == (value, None)


def test_elements_of_arrays_survive_json() -> None:
    read: Callable[[list[Any]], tuple[Any, ...]] = row_reader(
        ["DECIMAL(5,2)[]", "TEXT[]", "DATE[]"]
    )
    assert read([["1.50", None], ["a"], None]) == ([Decimal("1.50"), None], ["a"], None)
    assert to_wire([1, None, "a"]) == [1, None, "a"]
    assert to_wire((dt.date(2024, 2, 29),)) == [{"type": "DATE", "value": "2024-02-29"}]


@pytest.mark.parametrize(
    ("value", "plain"),
    [(np.int64(-5), -5), (np.uint8(3), 3), (np.bool_(True), True), (np.float64(0.1), 0.1),
     (np.float32(0.5), 0.5), (np.float32("inf"), {"type": "DOUBLE", "value": "inf"}),
     (np.str_("ä"), "ä")],
)  # fmt: skip
def test_numpy_scalars_become_plain_values(value: Any, plain: Any) -> None:
    assert json.loads(json.dumps(to_wire(value))) == plain


def test_unused_names_of_a_mapping_are_not_sent() -> None:
    db, script = connected(rows(), written(2), {"text": ""})
    cursor = db.cursor()
    given = {"a": 1, "b": 2, "of no form": object()}
    cursor.execute("SELECT ':b', x::b, :a -- :b", given)
    cursor.executemany("UPDATE t SET a = :b", [given, given])
    cursor.execute("EXPLAIN SELECT :a", given)
    select, update, explain = script.bodies
    assert (select["parameters"], explain["parameters"]) == ({"a": 1}, {"a": 1})
    assert update["statements"][0]["parameter_sets"] == [{"b": 2}] * 2


def test_values_of_unknown_types_are_refused() -> None:
    db, _ = connected()
    for wrong in ([object()], [Fraction(1, 3)], [np.datetime64("2024-01-01")], "text", 5, {1, 2}):
        with pytest.raises(hornbeam.InterfaceError):
            db.cursor().execute("SELECT ?", wrong)  # type: ignore[arg-type]


def test_a_lone_surrogate_is_refused() -> None:
    db, _ = connected()
    cursor = db.cursor()
    for sql, values in (
        ("SELECT ?", ["\ud800"]),
        ("SELECT :a", {"a": "\ud800"}),
        ("SELECT '\ud800'", []),
        ("UPDATE t SET a = ?", ["\ud800"]),
    ):
        with pytest.raises(
            hornbeam.InterfaceError, match=r"^'\\ud800' is not text[^\n]*\n  Decode"
        ):
            cursor.execute(sql, values)
    with pytest.raises(hornbeam.InterfaceError, match="not text"):
        db.transport.json("GET", "/v1/views/\ud800")


def test_ddl_keeps_plan_options_and_relations_of_the_workload(tmp_path: Path) -> None:
    where = client_world.embedded(tmp_path / "db")
    with hornbeam.connect(where, autocommit=True) as db:
        body = {
            "ddl": client_world.DDL, "workload": client_world.WORKLOAD,
            "method": "paper", "budget": 0.0,
        }  # fmt: skip
        plan = db.transport.json("POST", "/v1/schema/plan", body)["plan_id"]
        db.transport.json("POST", "/v1/schema/apply", body | {"plan_id": plan})
        db.cursor().execute("CREATE TABLE z (id INTEGER PRIMARY KEY)")
        schema = db.transport.json("GET", "/v1/schema")
        assert (schema["method"], schema["budget"], schema["views"]) == ("paper", 0.0, [])
        with pytest.raises(hornbeam.ProgrammingError, match="Statement by_author of the"):
            db.cursor().execute("DROP TABLE book")
        db.cursor().execute("DROP TABLE z")


def test_an_embedded_database_logs_to_the_present_standard_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program may replace its standard error after it has connected."""
    structlog.reset_defaults()
    with hornbeam.connect(client_world.embedded(tmp_path / "db")):
        replaced = io.StringIO()
        monkeypatch.setattr(sys, "stderr", replaced)
        structlog.get_logger().warning("disk is slow", seconds=2)
    assert 'level=warning event="disk is slow" seconds=2' in replaced.getvalue()
