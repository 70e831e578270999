"""The command line end to end: with an embedded database, with a server, and without one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import hornbeam
from hornbeam.cli.csvtext import csv_line, records
from hornbeam.errors import OperationalError
from hornbeam.session import Session
from hornbeam.transport import Transport
from tests.client import client_world
from tests.client.client_world import Run


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    where = client_world.embedded(tmp_path_factory.mktemp("cli") / "db")
    with hornbeam.connect(where):
        client_world.apply(where)
        yield where


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    (tmp_path / "s.sql").write_text(client_world.DDL)
    (tmp_path / "w.sql").write_text(client_world.WORKLOAD)
    return str(tmp_path / "s.sql"), str(tmp_path / "w.sql")


def test_schema_load_query_and_verify_on_an_embedded_database(
    run: Run, files: tuple[str, str], tmp_path: Path
) -> None:
    where = client_world.embedded(tmp_path / "db")
    code, out, _ = run("schema", "plan", *files, "--roots", "author", on=where)
    assert code == 0
    assert "author__book" in out
    code, out, _ = run("schema", "diff", *files, "--json", on=where)
    assert code == 1
    assert {"action": "add", "kind": "relation", "name": "book", "detail": "5 columns"} in (
        json.loads(out)
    )
    code, _, err = run("schema", "apply", *files, "--json", on=where)
    assert code == 2
    assert "--yes" in err
    code, out, _ = run("schema", "apply", *files, "--yes", "--json", on=where)
    assert code == 0
    applied = json.loads(out)
    assert applied["building"] == []
    _, out, _ = run("schema", "show", "--json", on=where)
    assert applied["catalog_version"] == json.loads(out)["version"] > 1, "what is built, too"
    rows = tmp_path / "author.csv"
    rows.write_text('a_id,a_name\n1,"A\n""B"""\n2,""\n')
    code, out, _ = run("load", "author", str(rows), "--json", on=where)
    assert (code, json.loads(out)["rows"]) == (0, 2)
    code, out, _ = run("sql", "SELECT * FROM author ORDER BY a_id", "--json", on=where)
    assert json.loads(out)["rows"] == [[1, 'A\n"B"'], [2, ""]]
    code, out, _ = run("verify", "--json", on=where)
    assert (code, json.loads(out)["differences"]) == (0, 0)
    code, out, _ = run("view", "list", "--json", on=where)
    assert [view["state"] for view in json.loads(out)] == ["readable"]


def test_a_byte_order_mark_before_a_file_is_skipped(run: Run, tmp_path: Path) -> None:
    ddl = tmp_path / "s.sql"
    ddl.write_text("CREATE TABLE t (a INT PRIMARY KEY);", encoding="utf-8-sig")
    assert run("schema", "diff", str(ddl), on=client_world.embedded(tmp_path / "db"))[0] == 1


def test_a_stale_plan_is_repeated_only_without_confirmation(
    run: Run, files: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where, send, sent = client_world.embedded(tmp_path / "db"), Transport.json, []

    def stale(self: Transport, method: str, path: str, *rest: object) -> object:
        sent.append(path)
        if path == "/v1/schema/apply" and sent.count(path) < 3:
            raise OperationalError("The plan differs.", {"code": "stale-plan"})
        return send(self, method, path, *rest)

    stream = Transport.stream

    def streamed(self: Transport, path: str, *rest: object) -> object:
        sent.append(path)
        return stream(self, path, *rest)

    monkeypatch.setattr(Transport, "json", stale)
    monkeypatch.setattr(Transport, "stream", streamed)
    code, out, _ = run("schema", "apply", *files, "--yes", "--json", on=where)
    assert (code, json.loads(out)["catalog_version"]) == (0, 2), "built, too"
    assert sent.count("/v1/schema/plan") == 3

    sent.clear()
    monkeypatch.setattr(typer, "confirm", lambda *_, **__: True)
    code, _, err = run("schema", "apply", *files, on=where)
    assert (code, sent.count("/v1/schema/plan")) == (3, 1)
    assert "The plan differs." in err


def test_an_unchanged_deferred_view_shows_no_difference(run: Run, tmp_path: Path) -> None:
    where = client_world.embedded(tmp_path / "db")
    client_world.apply(where, client_world.DDL + client_world.DEFERRED)
    ddl = tmp_path / "s.sql"
    ddl.write_text(client_world.DDL + client_world.DEFERRED)
    code, out, _ = run("schema", "diff", str(ddl), "--json", on=where)
    assert (code, json.loads(out)) == (0, [])
    ddl.write_text(client_world.DDL)
    code, out, _ = run("schema", "diff", str(ddl), "--json", on=where)
    assert (code, [change["action"] for change in json.loads(out)]) == (1, ["drop"])


def test_chosen_aggregate_views_are_shown_and_can_be_turned_off(run: Run, tmp_path: Path) -> None:
    where = client_world.embedded(tmp_path / "db")
    ddl, workload = tmp_path / "s.sql", tmp_path / "w.sql"
    ddl.write_text("CREATE TABLE sale (id INTEGER PRIMARY KEY, day DATE, qty INTEGER);")
    workload.write_text("-- name: q\nSELECT day, sum(qty) FROM sale GROUP BY day;")
    files, name = (str(ddl), str(workload)), "sale__grouped_by_day"
    _, out, _ = run("schema", "diff", *files, "--json", on=where)
    assert {"action": "add", "kind": "view", "name": name, "detail": "sale"} in json.loads(out)
    assert run("schema", "apply", *files, "--yes", on=where)[0] == 0
    assert run("schema", "diff", *files, on=where)[0] == 0
    _, out, _ = run("view", "show", name, on=where)
    assert "immediate, chosen for the workload" in out
    _, out, _ = run("explain", "SELECT sum(qty) FROM sale", "--json", on=where)
    assert json.loads(out)["views"] == [name]
    code, out, _ = run("schema", "diff", *files, "--no-aggregates", "--json", on=where)
    assert (code, [change["action"] for change in json.loads(out)]) == (1, ["drop"])
    assert run("schema", "apply", *files, "--no-aggregates", "--yes", on=where)[0] == 0
    _, out, _ = run("schema", "show", "--json", on=where)
    assert json.loads(out)["views"] == []
    assert json.loads(out)["aggregates"] is False


def test_names_may_contain_characters_of_urls(run: Run, tmp_path: Path) -> None:
    where = client_world.embedded(tmp_path / "db")
    named = client_world.DEFERRED.replace("stocked", '"a/b?c %"')
    ddl = client_world.DDL + 'CREATE TABLE "t/?" (id INTEGER PRIMARY KEY);' + named
    client_world.apply(where, ddl)
    code, out, _ = run("view", "show", "a/b?c %", "--json", on=where)
    assert (code, json.loads(out)["name"]) == (0, "a/b?c %")
    rows = tmp_path / "rows.csv"
    rows.write_text("id\n1\n")
    assert run("load", f"t/?={rows}", on=where)[0] == 0


def test_inspection_commands_print_text_and_json(run: Run) -> None:
    for words in (
        ["schema", "show"], ["schema", "graph"], ["view", "list"], ["view", "show", "author__book"],
        ["status", "--sizes"], ["config", "show"], ["verify"],
    ):  # fmt: skip
        code, out, _ = run(*words)
        assert code == 0, words
        assert out.strip(), words
        code, out, _ = run(*words, "--json")
        assert code == 0, words
        json.loads(out)
    assert "author__book" in json.loads(run("status", "--sizes", "--json")[1])["bytes"]
    shown = run("status")[1]
    assert "Builds" in shown
    assert "NULL" not in shown.partition("Builds")[0]
    assert '{"' not in shown
    assert "CREATE TABLE book" in run("schema", "show", "--ddl")[1]
    assert "-- name: by_author" in run("schema", "show", "--workload")[1]
    assert run("schema", "graph", "--format", "svg")[1].lstrip().startswith("<")


def test_statements_and_transactions_are_listed(run: Run, tmp_path: Path) -> None:
    where = client_world.embedded(tmp_path / "db")
    with hornbeam.connect(where):  # one node for all commands
        client_world.apply(where)
        assert "No statement" in run("statements", on=where)[1]
        for number in (1, 2):
            sql = f"SELECT a_name FROM author WHERE a_id = {number}"
            assert run("sql", sql, on=where)[0] == 0
        (found,) = json.loads(run("statements", "--json", on=where)[1])["statements"]
        assert (found["sql"], found["calls"]) == ("SELECT a_name FROM author WHERE a_id = ?", 2)
        code, out, err = run("statements", "--order", "calls", on=where)
        assert code == 0
        assert "a_id = ?" in out
        assert "1 of 1 texts" in err
        code, out, err = run("statements", "--reset", on=where)
        assert (code, out) == (0, "")
        assert "begin again" in err
        assert json.loads(run("statements", "--json", on=where)[1])["statements"] == []
        assert "No transaction is under way." in run("transactions", on=where)[1]
        assert json.loads(run("transactions", "--json", on=where)[1]) == []


def test_statements_of_a_script_take_their_parameters_in_order(run: Run) -> None:
    script = (
        "INSERT INTO author VALUES (?, ?); SELECT a_name FROM author WHERE a_id = ?;"
        " DELETE FROM author WHERE a_id = 77"
    )
    code, out, _ = run("sql", script, "-p", "77", "-p", 'O"Neill', "-p", "77", "--csv")
    assert (code, out) == (0, '"a_name"\n"O""Neill"\n')
    code, out, _ = run("sql", "SELECT 1 AS one, NULL AS none")
    assert "NULL" in out
    _, out, _ = run("sql", "SELECT CAST('-inf' AS DOUBLE), CAST('nan' AS DOUBLE)", "--json")
    assert json.loads(out)["rows"] == [["-Infinity", "NaN"]]


def test_parameters_are_counted_before_any_statement_runs(run: Run) -> None:
    insert = "INSERT INTO author VALUES (60, ?)"
    for words, said in (
        ((insert, "-p", "a", "-p", "b"), "1 values of --param are left over"),
        ((f"{insert}; SELECT ?", "-p", "a"), "1 values for `?` are missing"),
    ):
        code, _, err = run("sql", *words)
        assert (code, said in err) == (2, True)
    assert run("sql", "SELECT * FROM author WHERE a_id = 60", "--csv")[1].count("\n") == 1
    assert run("sql", "EXPLAIN SELECT * FROM author WHERE a_id = ?")[0] == 0


def test_json_output_has_one_document_per_statement(run: Run) -> None:
    _, out, _ = run("sql", "SELECT 1 AS a; SELECT 2 AS a", "--json")
    first, end = json.JSONDecoder().raw_decode(out)
    assert (first["rows"], json.loads(out[end:])["rows"]) == ([[1]], [[2]])


def test_a_closed_output_pipe_is_no_failure(run: Run, tmp_path: Path) -> None:
    """As in `hornbeam … | head`: the remaining statements of a script still run."""

    def unread(*words: str) -> tuple[int, str]:
        reading, writing = os.pipe()
        os.close(reading)
        command = [sys.executable, "-c", "from hornbeam.cli import main; main()", *words]
        env = {**os.environ, "HORNBEAM_URL": where}
        done = subprocess.run(
            command, stdout=writing, stderr=subprocess.PIPE, text=True, env=env, check=False
        )
        os.close(writing)
        return done.returncode, done.stderr

    with client_world.served(tmp_path / "db") as where:
        run("sql", "CREATE TABLE t (id INTEGER PRIMARY KEY)", on=where)
        assert unread("status", "--json") == (0, "")
        assert unread("schema", "show", "--ddl") == (0, "")
        script = "SELECT * FROM range(20000); INSERT INTO t VALUES ({}); SELECT 1"
        assert unread("sql", script.format(1), "--csv") == (0, "")
        assert unread("sql", script.format(2), "--json", "--single-transaction") == (0, "")
        code, err = unread("sql", script.format(3))
        assert (code, "1 row" in err) == (0, True)
        code, err = unread("sql", script.format(3), "--csv")
        assert (code, "primary key" in err) == (3, True)
        assert run("sql", "SELECT id FROM t", "--csv", on=where)[1] == '"id"\n1\n2\n3\n'


@pytest.fixture
def prompted(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., str]:
    """Return a function that types lines at the prompt and returns the output."""

    def prompted_(*lines: str) -> str:
        typed = iter(lines)
        monkeypatch.setattr("hornbeam.cli.sql._HISTORY", tmp_path / "history")
        monkeypatch.setattr("builtins.input", lambda _: next(typed))
        monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
        code, out, err = run("sql")
        assert (code, list(typed)) == (0, [])
        return out + err

    return prompted_


def test_the_prompt_continues_after_errors(prompted: Callable[..., str]) -> None:
    shown = prompted("DROP;", "ALTER TABLE author ADD;", r"\d nothing", "SELECT 41 + 1;", r"\q;")
    assert shown.count("error: ") == 3
    assert "42" in shown


def test_the_prompt_describes_defaults_and_checks(prompted: Callable[..., str]) -> None:
    shown = prompted(
        "CREATE TABLE line (id UUID PRIMARY KEY DEFAULT uuid(), n INT DEFAULT 2 + 3 CHECK (n < 9),"
        " m INT AS (n * 2) STORED, t TIMESTAMP DEFAULT now());",
        r"\d line",
        r"\q",
    )
    for part in (
        "gen_random_uuid()",
        "2 + 3",
        "generated always as (n * 2)",
        "now",
        "line_n_check",
        "n < 9",
    ):
        assert part in shown


def test_ctrl_c_aborts_the_transaction_and_leaves_the_prompt(
    prompted: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Session.query

    def interrupted(self: Session, sql: str, parameters: Any) -> Any:
        if "long" in sql:
            raise KeyboardInterrupt
        return query(self, sql, parameters)

    monkeypatch.setattr(Session, "query", interrupted)
    begun = (r"\begin", "INSERT INTO author VALUES (70, 'kept');", "SELECT 'long';")
    shown = prompted(*begun, "SELECT 1;", r"\commit", "SELECT 'next';", r"\q")
    assert "Interrupted" in shown
    assert "is aborted" in shown
    assert "the commit has rolled it back" in shown
    assert "next" in shown
    assert "kept" not in prompted("SELECT a_name FROM author WHERE a_id = 70;", r"\q")


def test_describe_resolves_names_as_sql_does(prompted: Callable[..., str]) -> None:
    prompted('CREATE TABLE "User of" (id INTEGER PRIMARY KEY, "Key" TEXT);', r"\q")
    for command in (r"\d AUTHOR;", r"\d author", r'\d "author" ;'):
        assert "a_name" in prompted(command, r"\q")
    assert "Key" in prompted(r'\d "User of";', r"\q")
    assert "no relation or view" in prompted(r'\d "Author"', r"\q")
    assert "author__book" in prompted(r"\d;", r"\q")
    prompted('DROP TABLE "User of";', r"\q")


def test_describe_follows_schemas_and_the_search_path(prompted: Callable[..., str]) -> None:
    prompted("CREATE SCHEMA shop;", "CREATE TABLE shop.author (s_only INTEGER PRIMARY KEY);", r"\q")
    assert "s_only" in prompted(r"\d shop.author", r"\q")
    assert "a_name" in prompted(r"\d public.author", r"\q")
    assert "a_name" in prompted(r"\d author", r"\q")
    assert "s_only" in prompted("SET search_path TO shop, public;", r"\d author", r"\q")
    assert "no relation or view shop.book" in prompted(r"\d shop.book", r"\q")
    listed = prompted(r"\dt", r"\q")
    assert re.search(r"shop.*author", listed)
    assert "author__book" not in listed
    assert re.search(r"shop.*author.*relation", prompted(r"\d", r"\q"))
    schemas = prompted(r"\dn", r"\q")
    assert re.search(r"(?s)public.*shop", schemas)
    assert "author" not in schemas
    prompted("DROP SCHEMA shop CASCADE;", r"\q")


def test_a_rename_in_a_schema_keeps_the_schema(run: Run, tmp_path: Path) -> None:
    where, ddl = client_world.embedded(tmp_path / "renamed"), tmp_path / "renamed.sql"
    ddl.write_text("CREATE SCHEMA s; CREATE TABLE s.t (a INTEGER PRIMARY KEY, b TEXT);")
    assert run("schema", "apply", str(ddl), "--yes", on=where)[0] == 0
    assert run("sql", "INSERT INTO s.t VALUES (1, 'kept')", on=where)[0] == 0
    ddl.write_text("CREATE SCHEMA s; CREATE TABLE s.u (a INTEGER PRIMARY KEY, c TEXT);")
    renames = ("--rename", "s.t=u", "--rename", "s.u.b=c")
    code, out, err = run("schema", "apply", str(ddl), *renames, "--yes", on=where)
    assert code == 0, out + err
    assert "kept" in run("sql", "SELECT c FROM s.u", on=where)[1]
    ddl.write_text("CREATE SCHEMA s; CREATE TABLE s.v (a INTEGER PRIMARY KEY, c TEXT);")
    assert run("schema", "apply", str(ddl), "--rename", "s.u=s.v", "--yes", on=where)[0] == 0
    assert "kept" in run("sql", "SELECT c FROM s.v", on=where)[1]


@pytest.mark.parametrize(
    ("sql", "shown"),
    [
        (r"SELECT '\[/red]y'", r"\[/red]y"),
        ("SELECT '[bold]x[/bold]'", "[bold]x[/bold]"),
        ("SELECT ':smile:'", ":smile:"),
        ("SELECT chr(27) || '[31mred' || chr(13) || chr(155)", r"\x1b[31mred\r\x9b"),
        ('SELECT 1 AS "[/]\x1b:smile:"', r"[/]\x1b:smile:"),
        ("SELECT 'a' || chr(10) || 'b'", "b"),
    ],
)
def test_tables_show_markup_literally_and_escape_control_characters(
    run: Run, sql: str, shown: str
) -> None:
    code, out, _ = run("sql", sql)
    assert (code, shown in out, "\x1b" in out) == (0, True, False)


def test_messages_show_markup_literally_and_escape_control_characters(
    run: Run, tmp_path: Path
) -> None:
    code, _, err = run("sql", 'SELECT * FROM "[/red]:smile:\x1b"')
    assert (code, r"[/red]:smile:\x1b" in err) == (3, True)
    code, _, err = run("load", "author", str(tmp_path / "\udcff"))
    assert (code, r"\udcff is not a file" in err) == (2, True)


def test_a_single_transaction_is_all_or_nothing(run: Run) -> None:
    script = "INSERT INTO author VALUES (50, 'x'); INSERT INTO author VALUES (50, 'y')"
    assert run("sql", script, "--single-transaction")[0] == 3
    _, out, _ = run("sql", "SELECT * FROM author WHERE a_id = 50", "--json")
    assert json.loads(out)["rows"] == []


def test_version_prints_the_version(run: Run) -> None:
    assert run("--version")[:2] == (0, f"hornbeam {hornbeam.__version__}\n")


def test_explain_shows_the_views_that_serve(run: Run) -> None:
    sql = "SELECT b_title, a_name FROM book, author WHERE b_a_id = a_id AND b_id = ?"
    code, out, _ = run("explain", sql)
    assert code == 0
    assert "author__book" in out
    assert json.loads(run("explain", sql, "--json", "--no-views")[1])["served_by"] != [
        "author__book"
    ]


def test_a_load_resumes_without_duplicates(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "more.jsonl"
    lines = [json.dumps({"a_id": 1000 + i, "a_name": f"n{i}"}) for i in range(25)]
    path.write_text("\n\n".join([*lines[:20], lines[0], *lines[20:]]) + "\n")
    load = ("load", "author", str(path), "--batch-rows", "10")
    code, _, err = run(*load)
    assert code == 3
    assert "primary key" in err
    path_stat = path.stat()
    code, _, err = run(*load)
    assert code == 3
    assert "--resume" in err
    code, _, err = run(*load, "--resume")
    assert (code, "primary key" in err) == (3, True)
    assert path.stat().st_mtime_ns == path_stat.st_mtime_ns
    good = tmp_path / "good.jsonl"
    good.write_text("\n".join(lines[20:]) + "\n")
    assert run("load", "author", str(good), "--json")[0] == 0
    code, out, _ = run("load", "author", str(good), "--resume", "--json")
    document = json.loads(out)
    assert (code, document["rows"], document["skipped"]) == (0, 0, 5)
    assert run("load", "author", str(good), "--again")[0] == 3


def test_parquet_files_are_loaded_in_batches(run: Run, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"a_id": list(range(2000, 2025)), "a_name": ["p"] * 25})
    pq.write_table(table, tmp_path / "a.parquet")
    code, out, _ = run(
        "load", "author", str(tmp_path / "a.parquet"), "--batch-rows", "10", "--json"
    )
    assert (code, json.loads(out)["batches"]) == (0, 3)
    (tmp_path / "b.parquet").write_bytes(b"nonsense")
    assert run("load", "author", str(tmp_path / "b.parquet"))[0] == 2


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["sql", "SELECT * FROM nothing"], 3, "nothing"),
        (["view", "show", "nothing"], 3, "nothing"),
        (["load", "author", "/no/such/file"], 2, "not a file"),
        (["schema", "plan", "/no/such/file"], 2, "cannot be read"),
        (["sql", "SELECT 1", "--csv", "--json"], 2, "not both"),
        (["nonsense"], 2, "nonsense"),
        (["sql", "DROP"], 3, "ends before"),
        (["sql", "ALTER TABLE author ADD"], 3, "ends before"),
        (["sql", "SELECT ?", "-p", "\udcff"], 2, "not text"),
        (["explain", "SELECT 1; SELECT 2"], 2, "2 statements"),
        (["explain", ";"], 2, "0 statements"),
        (["sql", "SELECT 1", "--url", "http://x"], 2, "Hornbeam URL"),
        (["status", "--url", "hornbeam://127.0.0.1:1"], 4, "hornbeam serve"),
        (["serve", "--host", "192.0.2.1"], 78, "authentication"),
    ],
)
def test_errors_are_short_and_set_the_exit_code(
    run: Run, words: list[str], code: int, said: str
) -> None:
    got, _, err = run(*words)
    assert got == code
    assert said in err
    assert "Traceback" not in err


def test_errors_state_their_place_in_a_file(run: Run, tmp_path: Path) -> None:
    ddl, workload = tmp_path / "s.sql", tmp_path / "w.sql"
    ddl.write_text("CREATE TABLE t (\n  id INTERGER PRIMARY KEY)")
    _, _, err = run("schema", "plan", str(ddl))
    assert f"{ddl}:2:6: Type INTERGER is not supported" in err
    ddl.write_text("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    workload.write_text("SELECT id FROM t;\n-- name: q\nSELECT ids FROM t;")
    _, _, err = run("schema", "plan", str(ddl), str(workload))
    assert f"{workload}:3:1: In statement q: Column ids is unknown" in err
    assert "Did you mean id?" in err


def test_errors_of_ddl_state_their_place_in_the_statement(run: Run, tmp_path: Path) -> None:
    """The place is not one in the text of the whole schema, which the client sends."""
    where = client_world.embedded(tmp_path / "db")
    for statement in (
        "CREATE TABLE a (id INT PRIMARY KEY, t TEXT)",
        "CREATE TABLE b (id INT PRIMARY KEY, a_id INT REFERENCES a)",
    ):
        assert run("sql", statement, on=where)[0] == 0
    for statement, place, said in (
        ("CREATE TABLE c (\n  i INT PRIMARY KEY,\n  a FOO)", "3:5: ", "Type FOO"),
        ("CREATE TABLE c (i INT PRIMARY KEY, i INT)", "1:36: ", "declared twice"),
        ("ALTER TABLE a ADD COLUMN x INT,\n ADD COLUMN y FOO", "2:15: ", "Type FOO"),
        ("ALTER TABLE a ADD id INT", "1:19: ", "declared twice"),
        ("ALTER TABLE a ALTER COLUMN t RESTART WITH 5", "1:28: ", "no identity column of a.t"),
        ("DROP TABLE a", "", "in: CREATE TABLE b"),
    ):
        code, _, err = run("sql", statement, on=where)
        assert code == 3
        assert f"error: {place}" in err
        assert said in err
        assert "<ddl>" not in err
        assert "first is in line" not in err


def test_an_error_names_the_failing_statement_of_a_script(run: Run, tmp_path: Path) -> None:
    script = tmp_path / "s.sql"
    script.write_text("SELECT 1;\n-- then\nSELECT 1;\n\nSELECT\n  nothing;\nSELECT 2;")
    code, _, err = run("sql", "-f", str(script))
    assert code == 3
    assert f"Statement 3, which begins in line 5 of {script}:" in err
    _, _, err = run("sql", "SELECT 1; SELECT nothing")
    assert "Statement 2, which begins in line 1 of the text:" in err
    _, _, err = run("sql", "SELECT nothing")
    assert "begins in line" not in err


def test_a_plan_states_which_row_counts_are_assumed(
    run: Run, files: tuple[str, str], tmp_path: Path
) -> None:
    where = client_world.embedded(tmp_path / "db")

    def planned(*more: str) -> tuple[dict[str, tuple[int, str]], dict[str, Any], str]:
        _, out, _ = run("schema", "plan", *files, *more, "--json", on=where)
        plan = json.loads(out)["plan"]
        rows = {r["relation"]: (r["rows"], r["rows_are"]) for r in plan["relations"]}
        return rows, plan, run("schema", "plan", *files, *more, on=where)[1]

    rows, plan, text = planned()
    assert {origin for _, origin in rows.values()} == {"assumed"}
    assert set(plan["assumed"]) == set(rows)
    assert "--rows RELATION=NUMBER" in plan["note"]
    assert plan["note"] in text
    assert all(set(view["assumed"]) == set(view["path"]) for view in plan["views"])
    rows, plan, text = planned("--rows", "author=7")
    assert rows["author"] == (7, "given")
    assert "author" not in plan["assumed"]
    assert plan["assumed"]
    rows, plan, text = planned(*(w for name in rows for w in ("--rows", f"{name}=50")))
    assert {origin for _, origin in rows.values()} == {"given"}
    assert (plan["assumed"], plan["note"]) == ([], "")
    assert "assumed" not in text
    assert run("schema", "apply", *files, "--yes", on=where)[0] == 0
    assert run("sql", "INSERT INTO author (a_id, a_name) VALUES (1, 'A')", on=where)[0] == 0
    _, out, _ = run("explain", "SELECT * FROM book", on=where)
    assert "assumed: those of book are not counted" in out
    assert planned()[0]["author"] == (1, "counted")
    for wrong in ("author", "author=x", "=5"):
        code, _, err = run("schema", "plan", *files, "--rows", wrong, on=where)
        assert code == 2
        assert "is not RELATION=NUMBER" in err


DUMP = """
SET search_path = '';
CREATE TABLE public.t (id integer NOT NULL, a integer);
CREATE SEQUENCE public.t_id_seq AS integer START WITH 1 INCREMENT BY 1 NO MINVALUE NO MAXVALUE
  CACHE 1;
ALTER SEQUENCE public.t_id_seq OWNED BY public.t.id;
CREATE TABLE public.u (id bigint NOT NULL);
ALTER TABLE public.u ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.u_id_seq
    START WITH 10
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
ALTER TABLE ONLY public.t ALTER COLUMN id SET DEFAULT nextval('public.t_id_seq'::regclass);
SELECT pg_catalog.setval('public.t_id_seq', 42, true);
SELECT pg_catalog.setval('public.u_id_seq', 70, false);
ALTER TABLE ONLY public.t ADD CONSTRAINT t_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.u ADD CONSTRAINT u_pkey PRIMARY KEY (id);
"""


def test_sequences_continue_at_the_values_of_a_dump(run: Run, tmp_path: Path) -> None:
    where, dump = client_world.embedded(tmp_path / "db"), tmp_path / "dump.sql"
    dump.write_text(DUMP)
    assert run("schema", "apply", str(dump), "--yes", on=where)[0] == 0

    def given(sql: str) -> Any:
        code, out, err = run("sql", sql, "--json", on=where)
        assert code == 0, err
        return json.loads(out)["rows"][0][0]

    assert given("INSERT INTO t (a) VALUES (1) RETURNING id") == 43
    assert given("INSERT INTO u DEFAULT VALUES RETURNING id") == 70
    code, out, _ = run("schema", "diff", str(dump), on=where)
    assert (code, out.strip()) == (0, "Nothing changes.")
    rows = tmp_path / "t.csv"
    rows.write_text("id,a\n44,1\n500,1\n")
    assert run("load", "t", str(rows), on=where)[0] == 0
    assert given("INSERT INTO t (a) VALUES (1) RETURNING id") > 500
    assert given("SELECT setval('t_id_seq', 9000)") == 9000
    assert given("INSERT INTO t (a) VALUES (1) RETURNING id") == 9001
    assert run("sql", "ALTER TABLE t ALTER COLUMN id RESTART WITH 77", on=where)[0] == 0
    assert given("INSERT INTO t (a) VALUES (1) RETURNING id") == 77
    assert given("SELECT nextval('t_id_seq')") > 77
    for call in ("currval('t_id_seq')", "lastval()"):
        code, _, err = run("sql", f"SELECT {call}", on=where)
        assert code == 3
        assert "not defined yet in this session" in err


def test_the_header_of_a_file_without_rows_is_checked(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    for text, code, said in (
        ("a_id,a_name\n", 0, ""),
        ("something else\n", 3, "no column 'something else'"),
        ("", 3, "Empty CSV file"),
    ):
        path.write_text(text)
        got, _, err = run("load", "author", str(path))
        assert (got, said in err) == (code, True)


def test_commands_work_over_http(run: Run, tmp_path: Path, files: tuple[str, str]) -> None:
    with client_world.served(tmp_path / "served") as where:
        assert run("schema", "apply", *files, "--yes", on=where)[0] == 0
        assert run("sql", "INSERT INTO author VALUES (1, 'x')", on=where)[0] == 0
        code, out, _ = run("verify", "--repair", on=where)
        assert (code, "0 differences" in out) == (0, True)
        with hornbeam.connect(where) as db:
            assert db.cursor().arrow("SELECT a_id FROM author").num_rows == 1


def test_csv_records_keep_their_lines_and_values_are_quoted() -> None:
    lines = [b'a,"b\n', b'c"\n', b"\n", b"d,e"]
    assert list(records(iter(lines))) == [(1, b'a,"b\nc"\n'), (4, b"d,e\n")]  # type: ignore[arg-type]
    assert csv_line([None, "", 'a"b', 1, True, b"\x00"]) == ',"","a""b",1,true,"AA=="\n'


def test_small_deferred_views_are_refreshed_at_the_nodes_without_java(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HORNBEAM_RESIDENT_REFRESH", "true")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    where = client_world.embedded(tmp_path / "db")
    options = "refresh = 'deferred', interval = '1 h', \"group\" = 'g'"
    with hornbeam.connect(where, autocommit=True) as db:
        cursor = db.cursor()
        cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
        cursor.execute("INSERT INTO t VALUES (1, 1), (2, 1), (3, 2)")
        cursor.execute(
            f"CREATE MATERIALIZED VIEW sums WITH ({options}) AS SELECT n, count(*) AS c"
            " FROM t GROUP BY n"
        )
        code, out, err = run("refresh", "--once", "--json", on=where)
        assert (code, err) == (0, "")
        done = json.loads(out)
        assert (done["group"], done["views"], done["by"]) == ("g", ["sums"], "local")
        assert cursor.execute("SELECT c FROM sums ORDER BY n").fetchall() == [(2,), (1,)]
        cursor.execute("DELETE FROM t WHERE id = 2")
        code, out, _ = run("refresh", "--once", "g", on=where)
        assert (code, "1 views, 1 changes, " in out, "by local" in out) == (0, True, True)
        code, out, _ = run("view", "show", "sums", on=where)
        assert "the nodes do the next batch: local" in out
        cursor.execute(
            "CREATE MATERIALIZED VIEW top WITH (refresh = 'recompute', \"group\" = 'g')"
            " AS SELECT n FROM t ORDER BY n LIMIT 1"
        )
        code, _, err = run("refresh", "--once", on=where)
        assert code == 2
        assert "The nodes leave group g to Spark: top is recomputed in each batch." in err
        assert "Spark works beside a node" in err
        _, out, _ = run("view", "show", "sums", on=where)
        assert "left to Spark, by hornbeam refresh: top is recomputed in each batch" in out
