"""The rows of a dump are read as they were written, and parents come before their children."""

import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hornbeam_server.schema.ddl import dumps, read_file
from hornbeam_server.schema.ddl.rows import Row, parents_first
from hornbeam_server.schema.ddl.sources import Source
from hornbeam_server.schema.errors import SchemaError
from tests.fuzz.sql_grammar import garbled, mutated
from tests.schema.test_schema_fuzz import outcome
from tests.schema.test_schema_sources import FILES

TABLE = "CREATE TABLE t (a INT PRIMARY KEY, b TEXT, c BLOB)"
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
ROWS = st.lists(st.tuples(st.integers(-99, 99), st.none() | TEXTS, st.none() | st.binary()))


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def quoted_in_mysql(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n").replace("'", "\\'")
    return f"'{escaped}'"


LITERALS: dict[Source, tuple[Callable[[str], str], str]] = {
    Source.POSTGRES: (quoted, r"'\x{}'"),
    Source.MYSQL: (quoted_in_mysql, "x'{}'"),
    Source.SQLITE: (quoted, "X'{}'"),
    Source.SQLSERVER: (lambda text: "N" + quoted(text), "0x{}"),
}


def read(text: str, source: Source) -> list[tuple[object, ...]]:
    reading = read_file(text, "d.sql", source)
    reading.problems.require_none()
    found = dumps.parts([reading], reading.schema)
    return [tuple(row.values) for part in found for row in part.rows()]


@pytest.mark.parametrize("source", Source)
@given(rows=ROWS)
def test_inserted_rows_are_read_as_they_were_written(
    source: Source, rows: list[tuple[int, str | None, bytes | None]]
) -> None:
    text_of, bytes_of = LITERALS[source]
    written = [
        f"({a}, {'NULL' if b is None else text_of(b)},"
        f" {'NULL' if c is None else bytes_of.format(c.hex())})"
        for a, b, c in rows
    ]
    together = f"INSERT INTO t VALUES {', '.join(written)};" if written else ""
    apart = "".join(f"INSERT INTO t (a, b, c) VALUES {row};\n" for row in written)
    wanted = [(str(a), b, c) for a, b, c in rows]
    assert read(f"{TABLE};\n{together}", source) == wanted
    assert read(f"{TABLE};\n{apart}", source) == wanted


@given(rows=ROWS)
def test_copied_rows_are_read_as_they_were_written(
    rows: list[tuple[int, str | None, bytes | None]],
) -> None:
    escapes = {"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"}

    def field(text: str | None) -> str:
        if text is None:
            return r"\N"
        return re.sub(r"[\\\t\n\r]", lambda found: escapes[found[0]], text)

    lines = [
        "\t".join((str(a), field(b), field(None if c is None else rf"\x{c.hex()}")))
        for a, b, c in rows
    ]
    copied = "".join(f"{line}\n" for line in lines)
    text = f"{TABLE};\nCOPY t (a, b, c) FROM stdin;\n{copied}\\.\nCREATE INDEX i ON t (b);"
    assert read(text, Source.POSTGRES) == [(str(a), b, c) for a, b, c in rows]


@given(st.data(), st.integers(1, 12))
def test_parents_come_before_their_children(data: st.DataObject, count: int) -> None:
    parents = [data.draw(st.none() | st.integers(0, i), label=str(i)) for i in range(count)]
    rows = [
        Row(i, ("k", "up"), [str(i), None if parent is None else str(parent)], "")
        for i, parent in enumerate(parents)
    ]
    ordered = parents_first(data.draw(st.permutations(rows)), ["k"], [["up"]])
    assert sorted(row.line for row in ordered) == list(range(count))
    for position, row in enumerate(ordered):
        earlier = {before.values[0] for before in ordered[: position + 1]}
        assert row.values[1] is None or row.values[1] in earlier


def test_rows_that_reference_each_other_come_last() -> None:
    rows = [
        Row(i, ("k", "up"), [k, up], "")
        for i, (k, up) in enumerate([("1", "2"), ("2", "1"), ("3", None), ("4", "3"), ("5", "9")])
    ]
    ordered = parents_first(rows, ["k"], [["up"]])
    assert [row.line for row in ordered] == [2, 3, 4, 0, 1]


@pytest.mark.parametrize("source", Source)
@settings(max_examples=60)
@given(data=st.data())
def test_any_text_is_read_or_has_problems_with_places(source: Source, data: st.DataObject) -> None:
    text = data.draw(mutated(st.just(FILES[source])) | garbled(st.just(FILES[source])))
    reading = read_file(text, "d.sql", source)
    for problem in reading.problems.found():
        line, column = problem.place
        assert 1 <= line <= text.count("\n") + 1
        assert column >= 1
        assert problem.error.cure
    failed = outcome(lambda: [list(p.rows()) for p in dumps.parts([reading], reading.schema)])
    if isinstance(failed, SchemaError):
        assert failed.file == "d.sql"
        assert failed.cure


@pytest.mark.parametrize(
    ("source", "value", "wanted"),
    [
        (Source.MYSQL, r'"a\"b""c"', 'a"b"c'),
        (Source.MYSQL, r"'\0\n\%\x'", "\0\n\\%x"),
        (Source.MYSQL, "_utf8mb4 'é'", "é"),
        (Source.MYSQL, "b'101'", "5"),
        (Source.POSTGRES, r"E'a\n\x41\101'", "a\nAA"),
        (Source.POSTGRES, r"'a\n'", r"a\n"),
        (Source.POSTGRES, "'2026-01-31'::date::text", "2026-01-31"),
        (Source.POSTGRES, "DATE '2026-01-31'", "2026-01-31"),
        (Source.POSTGRES, "- 5", "-5"),
        (Source.POSTGRES, "1.5e-3", "1.5e-3"),
        (Source.POSTGRES, "FALSE", "false"),
        (Source.SQLSERVER, "CAST(N'x' AS NVarChar(5))", "x"),
        (Source.SQLSERVER, "CAST(1.50 AS Decimal(18, 2))", "1.50"),
    ],
)
def test_literals_are_read_as_their_dialect_means_them(
    source: Source, value: str, wanted: str
) -> None:
    text = f"CREATE TABLE t (a INT PRIMARY KEY, b TEXT);\nINSERT INTO t VALUES (1, {value});"
    assert read(text, source) == [("1", wanted)]
