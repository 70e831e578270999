"""Functions and macros of ours in DuckDB are created when a statement first calls them."""

import gc

from hornbeam_server.query.dialect import definitions
from hornbeam_server.query.dialect.definitions import Definitions
from hornbeam_server.query.dialect.duckdb_types import connect
from hornbeam_server.query.workers.control import Options
from hornbeam_server.query.workers.messages import End, Query
from hornbeam_server.query.workers.statements import Statements


def present(connection):
    rows = connection.execute(
        "SELECT DISTINCT function_name FROM duckdb_functions()"
        " WHERE starts_with(function_name, 'hornbeam_')"
    ).fetchall()
    return {name for (name,) in rows}


def test_a_new_database_has_none():
    with connect() as connection:
        assert present(connection) == set()


def test_a_statement_gets_those_that_it_calls_and_no_others():
    with connect() as connection:
        made = Definitions()
        made.create_for("SELECT HORNBEAM_summed(1), hornbeam_nosuch", connection)
        assert present(connection) == {"hornbeam_summed"}
        made.create_for("SELECT hornbeam_jsonb_pretty(hornbeam_summed(1))", connection)
        assert present(connection) == {"hornbeam_summed", "hornbeam_jsonb_pretty"}


def test_a_macro_brings_those_that_it_calls(monkeypatch):
    outer, inner = "CREATE MACRO hornbeam_o(x) AS hornbeam_i(x)", "CREATE MACRO hornbeam_i(x) AS x"
    monkeypatch.setattr(definitions, "_MACROS", {"hornbeam_o": outer, "hornbeam_i": inner})
    with connect() as connection:
        Definitions().create_for("SELECT hornbeam_o(1)", connection)
        assert connection.execute("SELECT hornbeam_o(1)").fetchall() == [(1,)]


def test_a_function_outlives_the_session_that_first_called_it():
    statements = Statements(Options())
    for _ in range(3):
        reply = statements.answer(Query("SELECT hornbeam_jsonb_pretty('[1]') AS text", {}))
        assert reply.batch[0].to_pylist() == ["[\n    1\n]"]
        statements.answer(End())
        gc.collect()
    statements.close()
