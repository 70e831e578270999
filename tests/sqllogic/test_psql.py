"""Scripts of psql and their output are read to the statements and answers that they are."""

from __future__ import annotations

import pytest

from tests.sqllogic.psql import read, shared
from tests.sqllogic.records import Expected, Malformed, Query, Statement

OK = Expected.OK


def records(script: str, output: str, files: dict[str, str] | None = None):
    return [*read(script, output, (files or {}).__getitem__)]


def test_statements_have_the_answers_behind_them():
    script = "-- a\nCREATE TABLE t (a int);\n\nSELECT a,\n  b FROM t;\nDROP TABLE x;\nSELECT 1;\n"
    output = (
        "-- a\nCREATE TABLE t (a int);\nSELECT a,\n  b FROM t;\n a |  b  \n---+-----\n 1 | x y\n"
        "   | \n(2 rows)\n\nDROP TABLE x;\nERROR:  no table x\nSELECT 1;\n ?column? \n----------\n"
        "        1\n(1 row)\n\n"
    )
    assert records(script, output) == [
        Statement(2, "CREATE TABLE t (a int);\n", OK),
        Query(4, "SELECT a,\n  b FROM t;\n", "", "nosort", "", ("1\tx y", "\t")),
        Statement(6, "DROP TABLE x;\n", Expected.ERROR, "ERROR:  no table x"),
        Query(7, "SELECT 1;\n", "", "nosort", "", ("1",)),
    ]


def test_strings_keep_their_empty_lines_and_semicolons():
    script = "SELECT 'a;\n\nb';\n"
    output = "SELECT 'a;\n\nb';\n ?column? \n----------\n a;      +\n         +\n b\n(1 row)\n\n"
    assert records(script, output) == [Statement(1, script, OK)]


def test_commands_are_left_out_and_set_what_null_looks_like():
    script = "\\pset null '(null)'\nSELECT NULL;\n\\d t\nSELECT :x;\nA; B;\n"
    output = (
        "\\pset null '(null)'\nSELECT NULL;\n ?column? \n----------\n (null)\n(1 row)\n\n\\d t\n"
        "  Table\n a | int\n\nSELECT :x;\nA; B;\n"
    )
    assert records(script, output) == [
        Query(2, "SELECT NULL;\n", "", "nosort", "", ("",)),
        Statement(4, "SELECT :x;\n", Expected.MAYBE),
        Statement(5, "A; B;\n", Expected.MAYBE),
    ]


def test_copy_inserts_its_rows_unless_it_fails():
    script = (
        "COPY t (a) FROM stdin;\n1\n\\N\n\\.\nCOPY u FROM stdin;\nA;\n"
        "\\set filename :abs_srcdir '/data/v.data'\nCOPY v FROM :'filename';\n"
    )
    output = (
        "COPY t (a) FROM stdin;\nCOPY u FROM stdin;\nERROR:  no u\nA;\n"
        "\\set filename :abs_srcdir '/data/v.data'\nCOPY v FROM :'filename';\n"
    )
    assert records(script, output, {"/data/v.data": "it's\t2\n"}) == [
        Statement(1, "INSERT INTO t (a) VALUES ('1'), (NULL)", OK),
        Statement(5, "COPY u FROM stdin;\n", Expected.ERROR, "ERROR:  no u"),
        Statement(6, "A;\n", OK),
        Statement(8, "INSERT INTO v VALUES ('it''s', '2')", OK),
    ]


def test_an_output_of_another_script_is_refused():
    with pytest.raises(Malformed, match="line 1"):
        records("SELECT 1;\n", "SELECT 2;\n")


def test_relations_that_a_script_names_are_made_before_it():
    setup = (
        "CREATE TABLE one (\n\ta int,\n\tb name\n);\n\\set filename :abs_srcdir '/data/one.data'\n"
        "COPY one FROM :'filename';\nCREATE TABLE two (a int);\nINSERT INTO two VALUES (1);\n"
    )
    made = [each.sql for each in shared(setup, "SELECT a FROM ONE", {"/data/one.data": "1\tx"}.get)]
    assert made == [
        "CREATE TABLE one (\n\ta int,\n\tb text\n);",
        "INSERT INTO one VALUES ('1', 'x')",
    ]
