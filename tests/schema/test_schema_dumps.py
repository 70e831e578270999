"""The rows of a dump are read as they were written, and parents come before their children."""

import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hornbeam_server.schema.ddl import dumps, load_ddl, read_file
from hornbeam_server.schema.ddl.row_order import in_order
from hornbeam_server.schema.ddl.rows import Row
from hornbeam_server.schema.ddl.sources import Source
from hornbeam_server.schema.errors import SchemaError
from hornbeam_server.schema.graph import components
from tests.depth import depth
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
    return [tuple(row.values) for part in found for (row,) in part.units()]


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


CIRCLE = load_ddl(
    "CREATE TABLE a (k INT PRIMARY KEY, a INT REFERENCES a, b INT REFERENCES b);"
    "CREATE TABLE b (k INT PRIMARY KEY, a INT REFERENCES a, b INT REFERENCES b);"
)


@st.composite
def circular_rows(draw: st.DrawFn) -> list[Row]:
    """Draw rows of the two relations of CIRCLE; some of them reference rows that do not exist."""
    number = st.none() | st.integers(0, 6).map(str)
    keys = draw(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 5)), unique=True))
    return [
        Row(name, line, ("k", "a", "b"), [str(key), draw(number), draw(number)], "")
        for line, (name, key) in enumerate(keys)
    ]


@given(circular_rows())
def test_parents_come_before_their_children(rows: list[Row]) -> None:
    units = in_order(rows, CIRCLE.relations)
    assert sorted(row.line for unit in units for row in unit) == list(range(len(rows)))
    known = {(row.relation, row.values[0]) for row in rows}
    inserted: set[tuple[str, object]] = set()
    for unit in units:
        inserted |= {(row.relation, row.values[0]) for row in unit}
        for row in unit:
            wanted = {("a", row.values[1]), ("b", row.values[2])} & known
            assert wanted <= inserted


@given(circular_rows())
def test_only_rows_of_a_circle_are_inserted_together(rows: list[Row]) -> None:
    line = {(row.relation, row.values[0]): row.line for row in rows}
    above = {
        row.line: [
            line[key]
            for key in (("a", row.values[1]), ("b", row.values[2]))
            if key in line and line[key] != row.line
        ]
        for row in rows
    }
    expected = sorted(sorted(group) for group in components(above))
    units = in_order(rows, CIRCLE.relations)
    assert sorted(sorted(row.line for row in unit) for unit in units) == expected


def test_rows_of_one_relation_stand_beside_each_other() -> None:
    cells = [("a", "1", None, "1"), ("b", "1", None, None), ("a", "2", None, "2"),
             ("b", "2", "1", None), ("b", "3", None, None), ("a", "3", "3", "3")]  # fmt: skip
    rows = [Row(name, i, ("k", "a", "b"), values, "") for i, (name, *values) in enumerate(cells)]
    units = in_order(rows, CIRCLE.relations)
    assert [[row.line for row in unit] for unit in units] == [[1], [4], [0], [5], [3], [2]]


@pytest.mark.parametrize("source", Source)
@settings(max_examples=depth(20, long=60))
@given(data=st.data())
def test_any_text_is_read_or_has_problems_with_places(source: Source, data: st.DataObject) -> None:
    text = data.draw(mutated(st.just(FILES[source])) | garbled(st.just(FILES[source])))
    reading = read_file(text, "d.sql", source)
    for problem in reading.problems.found():
        line, column = problem.place
        assert 1 <= line <= text.count("\n") + 1
        assert column >= 1
        assert problem.error.cure
    failed = outcome(lambda: [list(p.units()) for p in dumps.parts([reading], reading.schema)])
    if isinstance(failed, SchemaError):
        assert failed.file == "d.sql"
        assert failed.cure


def test_a_column_with_default_in_its_place_gets_its_default() -> None:
    table = "CREATE TABLE t (a INT PRIMARY KEY, b TEXT DEFAULT 'x', c INT);\n"
    rows = "INSERT INTO t VALUES (1, DEFAULT, 2), (3, 'y', default), (4, 'DEFAULT', 5)"
    assert read(table + rows, Source.POSTGRES) == [("1", "2"), ("3", "y"), ("4", "DEFAULT", "5")]
    numbered = "CREATE TABLE t (a INTEGER PRIMARY KEY AUTO_INCREMENT, b TEXT);\n"
    rows = "INSERT INTO t VALUES (DEFAULT, 'a'), (7, 'b'), (DEFAULT, 'c')"
    assert read(numbered + rows, Source.MYSQL) == [("a", "1"), ("7", "b"), ("c", "8")]
    with pytest.raises(SchemaError, match="DEFAULT"):
        read(table + "INSERT INTO t VALUES (DEFAULT, DEFAULT, DEFAULT)", Source.POSTGRES)


def test_rows_of_sqlite_have_no_values_for_generated_columns() -> None:
    table = "CREATE TABLE t (a INTEGER PRIMARY KEY, b INT AS (a + 1), c TEXT);\n"
    assert read(table + "INSERT INTO t VALUES (1, 'x')", Source.SQLITE) == [("1", "x")]


def test_bits_of_mysql_are_numbers() -> None:
    table = "CREATE TABLE t (a INT PRIMARY KEY, b BIT(8), c BIT(16));\n"
    rows = "INSERT INTO t VALUES (1, 0x0A, b'100000001')"
    assert read(table + rows, Source.MYSQL) == [("1", "10", "257")]


def test_bytes_of_a_copied_text_are_utf8() -> None:
    table = "CREATE TABLE t (a INT PRIMARY KEY, b TEXT);\n"
    rows = r"1	\303\251\xc3\xa9\u00e9\\x41"
    assert read(f"{table}COPY t FROM stdin;\n{rows}\n\\.\n", Source.POSTGRES) == [
        ("1", "ééu00e9\\x41")
    ]


def test_rows_before_an_alter_table_have_the_columns_before_it() -> None:
    text = (
        "CREATE TABLE t (a INT PRIMARY KEY, b TEXT, c TEXT);\n"
        "COPY t FROM stdin;\n1\tb\tc\n\\.\nINSERT INTO t (b, a) VALUES ('x', 2);\n"
        "ALTER TABLE t DROP COLUMN b, ADD COLUMN d TEXT;\nINSERT INTO t VALUES (3, 'C', 'D');"
    )
    reading = read_file(text, "d.sql", Source.POSTGRES)
    (part,) = dumps.parts([reading], reading.schema)
    rows = [dict(zip(row.columns, row.values, strict=True)) for (row,) in part.units()]
    assert rows == [{"a": "1", "c": "c"}, {"a": "2"}, {"a": "3", "c": "C", "d": "D"}]
    assert read(text.replace("DROP COLUMN b, ", ""), Source.POSTGRES)[0] == ("1", "b", "c")


def test_rows_before_an_alter_table_with_using_are_refused_unless_they_keep_their_values() -> None:
    text = (
        "CREATE TABLE t (a INT PRIMARY KEY, b INT);\nINSERT INTO t VALUES (1, 2);\n"
        "ALTER TABLE t ALTER b TYPE BIGINT USING b * 100;"
    )
    with pytest.raises(SchemaError, match=r"3:1: t.b has rows before it gets another type USING"):
        read(text, Source.POSTGRES)
    for kept in ("b", "(b)::bigint"):
        assert read(text.replace("b * 100", kept), Source.POSTGRES) == [("1", "2")]
    insert = "INSERT INTO t VALUES (1, 2);"
    behind = text.replace(insert, "") + insert
    assert read(behind, Source.POSTGRES) == [("1", "2")]


def test_null_is_the_next_number_in_mysql_and_sqlite() -> None:
    inserts = (
        "INSERT INTO t VALUES (NULL, 'a'), (7, 'b'), (null, 'c'); INSERT INTO t (b) VALUES ('d');"
        " INSERT INTO t VALUES (3, 'e'), (NULL, 'f');"
    )
    for source, numbers in ((Source.MYSQL, "AUTO_INCREMENT"), (Source.SQLITE, "AUTOINCREMENT")):
        table = f"CREATE TABLE t (a INTEGER PRIMARY KEY {numbers}, b TEXT);\n"
        wanted = [("1", "a"), ("7", "b"), ("8", "c"), ("d", "9"), ("3", "e"), ("10", "f")]
        assert read(table + inserts, source) == wanted
        assert read(f"{table} INSERT INTO t (b) VALUES ('a'), ('b')", source) == [("a",), ("b",)]


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
        (Source.POSTGRES, r"E'\u00e9\U0001f600\303\251\xc3\xa9\q'", "é😀ééq"),
        (Source.POSTGRES, "B'0101'", "0101"),
        (Source.POSTGRES, "N'Edinburgh '", "Edinburgh"),
        (Source.POSTGRES, "N'it''s '", "it's"),
        (Source.POSTGRES, "'Edinburgh '", "Edinburgh "),
        (Source.SQLSERVER, "N'Edinburgh '", "Edinburgh "),
        (Source.SQLSERVER, "CAST(N'x' AS NVarChar(5))", "x"),
        (Source.SQLSERVER, "CAST(1.50 AS Decimal(18, 2))", "1.50"),
    ],
)
def test_literals_are_read_as_their_dialect_means_them(
    source: Source, value: str, wanted: str
) -> None:
    text = f"CREATE TABLE t (a INT PRIMARY KEY, b TEXT);\nINSERT INTO t VALUES (1, {value});"
    assert read(text, source) == [("1", wanted)]


def test_an_escaped_line_feed_and_an_escaped_tab_are_parts_of_a_copied_value() -> None:
    text = f"{TABLE};\nCOPY t (a, b) FROM stdin;\n1\tx\\\ny\\\\\n2\te\\\tf\n3\t\\N\n\\.\n"
    assert read(text, Source.POSTGRES) == [("1", "x\ny\\"), ("2", "e\tf"), ("3", None)]
