"""DDL is read completely or refused at the exact place, with the offending name and a cure."""

import datetime as dt
import re
import uuid
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from hornbeam_server.schema.ddl import load_ddl, read_file
from hornbeam_server.schema.ddl.sources import Source
from hornbeam_server.schema.errors import SchemaError
from hornbeam_server.schema.model import (
    Action,
    Column,
    DeclaredIndex,
    DeclaredView,
    Default,
    DefaultKind,
    ForeignKey,
    Identity,
    KeyPart,
    Refresh,
    Schema,
)
from hornbeam_server.schema.render import render_ddl
from hornbeam_server.schema.sqltext import NUMERIC
from hornbeam_server.schema.types import ColumnType, Declared, Kind

GOOD = """
-- Everything that is read, in one file.
CREATE TABLE Kinds (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  small SMALLINT DEFAULT -5,
  d DECIMAL, d12 NUMERIC(12), d5 DECIMAL(5,2) NOT NULL DEFAULT 1.555,
  f FLOAT, r REAL, dp DOUBLE PRECISION DEFAULT 1e3, db DOUBLE,
  b BOOLEAN DEFAULT TRUE, c CHAR, c3 CHAR(3), v VARCHAR(12) DEFAULT 'it''s; -- so', t TEXT NULL,
  ba BYTEA DEFAULT '\\xdeAD', bl BLOB DEFAULT X'00ff',
  day DATE DEFAULT DATE '2024-02-29', today DATE DEFAULT CURRENT_DATE,
  ts TIMESTAMP WITHOUT TIME ZONE DEFAULT now(),
  tz TIMESTAMP WITH TIME ZONE DEFAULT '2024-01-01 01:00:00+01', tz2 TIMESTAMPTZ,
  u UUID DEFAULT '00000000-0000-0000-0000-000000000001', j JSON DEFAULT '{"a": 1}'
);
CREATE TABLE IF NOT EXISTS child (
  "Key" TEXT, part INT,
  parent BIGINT CONSTRAINT up REFERENCES kinds ON DELETE CASCADE ON UPDATE NO ACTION,
  sibling_key TEXT UNIQUE, sibling_part INT,
  CONSTRAINT child_pk PRIMARY KEY (part, "Key"),
  FOREIGN KEY (sibling_key, sibling_part) REFERENCES child ("Key", part)
    ON DELETE SET NULL DEFERRABLE INITIALLY DEFERRED,
  CONSTRAINT once UNIQUE (parent, part)
);
CREATE UNIQUE INDEX by_parent ON child USING btree (parent, part DESC) INCLUDE ("Key");
CREATE INDEX ON child (part);
CREATE TABLE later (id SERIAL, k INTEGER AUTO_INCREMENT, up BIGINT NOT NULL);
ALTER TABLE ONLY later ADD CONSTRAINT later_pkey PRIMARY KEY (id), ADD UNIQUE (k);
ALTER TABLE ONLY later ADD CONSTRAINT later_up FOREIGN KEY (up) REFERENCES kinds (id);
"""


def identity(**said: object) -> Default:
    return Default(DefaultKind.IDENTITY, identity=Identity(**said))  # type: ignore[arg-type]


def literal(value: object) -> Default:
    return Default(DefaultKind.LITERAL, value)  # type: ignore[arg-type]


IDENTITY, NOW = Default(DefaultKind.IDENTITY), Default(DefaultKind.NOW)


def test_every_type_and_default_is_read() -> None:
    def column(name: str, kind: Kind, default: Default | None = None, **of: Any) -> Column:
        return Column(name, ColumnType(kind, **of), True, default)

    text = Kind.TEXT
    assert load_ddl(GOOD).relation("kinds").columns == (
        Column("id", ColumnType(Kind.BIGINT), False, identity(always=True)),
        Column("small", ColumnType(Kind.INTEGER, declared=Declared.SMALLINT), True, literal(-5)),
        Column("d", NUMERIC),
        column("d12", Kind.DECIMAL, precision=12, scale=0),
        Column("d5", ColumnType(Kind.DECIMAL, 5, 2), False, literal(Decimal("1.56"))),
        column("f", Kind.DOUBLE),
        column("r", Kind.DOUBLE, declared=Declared.REAL),
        column("dp", Kind.DOUBLE, literal(1000.0)),
        column("db", Kind.DOUBLE),
        column("b", Kind.BOOLEAN, literal(True)),
        column("c", text, length=1, declared=Declared.CHAR),
        column("c3", text, length=3, declared=Declared.CHAR),
        column("v", text, literal("it's; -- so"), length=12),
        column("t", text),
        column("ba", Kind.BYTES, literal(b"\xde\xad")),
        column("bl", Kind.BYTES, literal(b"\0\xff")),
        column("day", Kind.DATE, literal(dt.date(2024, 2, 29))),
        column("today", Kind.DATE, NOW),
        column("ts", Kind.TIMESTAMP, NOW),
        column("tz", Kind.TIMESTAMPTZ, literal(dt.datetime(2024, 1, 1, tzinfo=dt.UTC))),
        column("tz2", Kind.TIMESTAMPTZ),
        column("u", Kind.UUID, literal(uuid.UUID(int=1))),
        column("j", Kind.JSON, literal('{"a": 1}')),
    )


def test_keys_and_indexes_are_read() -> None:
    schema = load_ddl(GOOD)
    child = schema.relation("child")
    assert child.primary_key == ("part", "Key")
    assert [c.name for c in child.columns if not c.nullable] == ["Key", "part"]
    assert child.foreign_keys == (
        ForeignKey("up", ("parent",), "kinds", ("id",), Action.CASCADE),
        # The columns have the order of the parent's key, not that of the file.
        ForeignKey(
            "child_sibling_key_sibling_part_fkey",
            ("sibling_part", "sibling_key"),
            "child",
            ("part", "Key"),
            Action.SET_NULL,
        ),
    )
    part = KeyPart("part")
    assert schema.indexes == (
        DeclaredIndex("child_sibling_key_key", "child", (KeyPart("sibling_key"),), (), True),
        DeclaredIndex("once", "child", (KeyPart("parent"), part), (), True),
        DeclaredIndex(
            "by_parent", "child", (KeyPart("parent"), KeyPart("part", True)), ("Key",), True
        ),
        DeclaredIndex("child_part_idx", "child", (part,)),
        DeclaredIndex("later_k_key", "later", (KeyPart("k"),), (), True),
    )


def test_alter_table_adds_constraints_as_pg_dump_writes_them() -> None:
    later = load_ddl(GOOD).relation("later")
    assert later.primary_key == ("id",)
    assert later.foreign_keys == (ForeignKey("later_up", ("up",), "kinds", ("id",)),)
    assert [c.default for c in later.columns] == [IDENTITY, IDENTITY, None]


def test_a_dump_of_postgresql_is_read_unchanged() -> None:
    dump = (Path(__file__).parent / "fixtures" / "pg_dump.sql").read_text()
    assert load_ddl(dump) == load_ddl(
        "CREATE TABLE author (id SERIAL, name VARCHAR(80) NOT NULL, born DATE,"
        "  CONSTRAINT author_pkey PRIMARY KEY (id));"
        "CREATE TABLE book ("
        "  id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,"
        "  author_id INTEGER REFERENCES author ON DELETE CASCADE, isbn CHAR(13) UNIQUE,"
        "  title TEXT NOT NULL DEFAULT 'untitled', price DECIMAL(10,2) NOT NULL DEFAULT 0,"
        "  added_at TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT now());"
        "CREATE INDEX book_title ON book (title);"
    )


NUMBERED = [
    (
        "id INT GENERATED BY DEFAULT AS IDENTITY (START WITH 5 INCREMENT BY 2)",
        {"start": 5, "increment": 2},
    ),
    (
        "id INT GENERATED ALWAYS AS IDENTITY (START 5 CACHE 20 NO CYCLE)",
        {"start": 5, "always": True},
    ),
    ("id INT GENERATED BY DEFAULT AS IDENTITY (NO MINVALUE NO MAXVALUE)", {}),
    (
        "id INT GENERATED BY DEFAULT AS IDENTITY (MINVALUE 10 MAXVALUE 99)",
        {"start": 10, "last": 99},
    ),
    (
        "id INT GENERATED BY DEFAULT AS IDENTITY (INCREMENT BY -2 MAXVALUE 8 MINVALUE -8)",
        {"start": 8, "increment": -2, "last": -8},
    ),
    ("id INT GENERATED BY DEFAULT AS IDENTITY (INCREMENT -1)", {"start": -1, "increment": -1}),
    ("id SERIAL", {}),
    ("identity INT GENERATED BY DEFAULT AS IDENTITY (START WITH 7)", {"start": 7}),
]


@pytest.mark.parametrize(("column", "said"), NUMBERED)
def test_options_of_an_identity_column_are_read(column: str, said: dict[str, object]) -> None:
    schema = load_ddl(f"CREATE TABLE t ({column} PRIMARY KEY, a INT);")
    assert schema.relation("t").columns[0].default == identity(**said)
    assert load_ddl(render_ddl(schema)) == schema


TABLE = "CREATE TABLE t (id SERIAL PRIMARY KEY, a INT);"
OTHER = "CREATE TABLE t (id BIGINT GENERATED ALWAYS AS IDENTITY (INCREMENT BY 10) PRIMARY KEY);"


@pytest.mark.parametrize(
    ("text", "start"),
    [
        (f"{TABLE} SELECT pg_catalog.setval('public.t_id_seq', 42, true);", 43),
        (f"{TABLE} SELECT setval('t_id_seq', 42);", 43),
        (f"{TABLE} SELECT setval('t_id_seq'::regclass, 42, false);", 42),
        (f"{TABLE} ALTER SEQUENCE t_id_seq RESTART WITH 9;", 9),
        (f"{TABLE} ALTER TABLE t ALTER COLUMN id RESTART WITH 9;", 9),
        (f"{TABLE} ALTER TABLE ONLY t ALTER id RESTART 9;", 9),
        (f"{OTHER} SELECT setval('t_id_seq', 42);", 52),
        (f"{OTHER} ALTER TABLE t ALTER id RESTART;", 1),
        (
            "CREATE TABLE t (id INT PRIMARY KEY); CREATE SEQUENCE IF NOT EXISTS t_id_seq AS INT"
            " START 7; ALTER SEQUENCE t_id_seq OWNED BY t.id; ALTER TABLE t ALTER id SET DEFAULT"
            " nextval('t_id_seq'); SELECT setval('t_id_seq', 70, true)",
            71,
        ),
        (
            "CREATE TABLE t (id INT NOT NULL); ALTER TABLE t ALTER COLUMN id ADD GENERATED ALWAYS"
            " AS IDENTITY (SEQUENCE NAME public.other START WITH 4 CACHE 1);"
            "ALTER TABLE t ADD PRIMARY KEY (id); SELECT setval('public.other', 8, false);",
            8,
        ),
    ],
)
def test_a_dump_sets_the_next_number_of_an_identity(text: str, start: int) -> None:
    default = load_ddl(text).relation("t").columns[0].default
    assert default is not None
    assert default.kind is DefaultKind.IDENTITY
    assert default.identity.start == start


def test_forward_references_are_read() -> None:
    text = "CREATE TABLE b (i INT PRIMARY KEY REFERENCES a); CREATE TABLE a (i INT PRIMARY KEY);"
    assert load_ddl(text).relation("b").foreign_keys[0].parent == "a"


def test_foreign_keys_to_unique_columns_and_their_actions_are_read() -> None:
    text = """
    CREATE TABLE p (x INT, y TEXT, z INT PRIMARY KEY, UNIQUE (y, x), w INT NOT NULL DEFAULT 0);
    CREATE TABLE c (
      a INT DEFAULT 3, b TEXT, z INT,
      FOREIGN KEY (a, b) REFERENCES p (x, y) ON UPDATE CASCADE ON DELETE SET DEFAULT,
      FOREIGN KEY (z) REFERENCES p (w) ON UPDATE SET NULL,
      FOREIGN KEY (z) REFERENCES p (z) ON DELETE SET NULL ON UPDATE SET DEFAULT);
    CREATE UNIQUE INDEX ON p (w DESC) INCLUDE (x);
    """
    schema = load_ddl(text)
    assert schema.relation("c").foreign_keys == (
        ForeignKey(
            "c_a_b_fkey", ("b", "a"), "p", ("y", "x"), Action.SET_DEFAULT, Action.CASCADE, True
        ),
        ForeignKey("c_z_fkey", ("z",), "p", ("w",), on_update=Action.SET_NULL, to_unique=True),
        ForeignKey("c_z_fkey1", ("z",), "p", ("z",), Action.SET_NULL, Action.SET_DEFAULT),
    )
    assert [key.name for key in schema.relation("c").key_edges] == ["c_z_fkey1"]
    assert load_ddl(render_ddl(schema)) == schema


@pytest.mark.parametrize(
    ("columns", "note"),
    [
        ("c INT NOT NULL REFERENCES t ON DELETE SET NULL", "ON DELETE SET NULL"),
        ("c INT NOT NULL REFERENCES t ON UPDATE SET NULL", "ON UPDATE SET NULL"),
        ("c INT NOT NULL REFERENCES t ON DELETE SET DEFAULT", "ON DELETE SET DEFAULT"),
        ("c INT NOT NULL DEFAULT 1 REFERENCES t ON DELETE SET DEFAULT", ""),
        ("c INT REFERENCES t ON DELETE SET DEFAULT", ""),
    ],
)
def test_an_action_that_would_set_null_in_a_not_null_column_is_noted(
    columns: str, note: str
) -> None:
    schema = load_ddl(f"CREATE TABLE t (a INT PRIMARY KEY, {columns})")
    said = f"t.t_c_fkey: {note} refuses the statement, because a column is NOT NULL"
    assert schema.notes == ((said,) if note else ())


def test_a_virtual_column_is_stored_and_noted() -> None:
    columns = "a INT PRIMARY KEY, b INT GENERATED ALWAYS AS (a + 1) {}"
    schema = load_ddl(f"CREATE TABLE t ({columns.format('VIRTUAL')} UNIQUE)")
    assert schema == load_ddl(f"CREATE TABLE t ({columns.format('STORED')} UNIQUE)")
    assert schema.notes == ("VIRTUAL columns of the table in line 1 are stored",)


PARTS = """
CREATE TABLE pay (id INT NOT NULL, at DATE NOT NULL, PRIMARY KEY (id, at)) PARTITION BY RANGE (at);
CREATE TABLE old (id INT PRIMARY KEY, what TEXT);
CREATE TABLE pay_2025 (id INT NOT NULL, at DATE NOT NULL);
CREATE TABLE pay_2026 PARTITION OF pay FOR VALUES FROM ('2026-01-01') TO ('2027-01-01')
  PARTITION BY LIST (id);
CREATE TABLE pay_2026_1 PARTITION OF pay_2026 FOR VALUES IN (1);
CREATE TABLE old_x (CONSTRAINT x CHECK (what IN ('(', 'x,'))) INHERITS (old);
CREATE TABLE old_y () INHERITS (public.old);
ALTER TABLE ONLY public.pay ATTACH PARTITION public.pay_2025 FOR VALUES FROM ('1') TO ('2');
ALTER TABLE ONLY pay_2025 ADD CONSTRAINT pay_2025_pkey PRIMARY KEY (id, at);
CREATE INDEX pay_2025_idx ON public.pay_2025 USING btree (at);
CREATE INDEX pay_idx ON ONLY public.pay USING btree (at);
ALTER INDEX public.pay_idx ATTACH PARTITION public.pay_2025_idx;
"""


def test_partitions_are_one_table() -> None:
    reading = read_file(PARTS)
    assert list(reading.problems.found()) == []
    assert reading.parts == {
        "pay_2025": "pay", "pay_2026": "pay", "pay_2026_1": "pay", "old_x": "old", "old_y": "old",
    }  # fmt: skip
    assert reading.schema == load_ddl(
        "CREATE TABLE pay (id INT, at DATE, PRIMARY KEY (id, at));"
        "CREATE TABLE old (id INT PRIMARY KEY, what TEXT); CREATE INDEX pay_idx ON pay (at);"
    )
    assert "pay is one table with all rows of its parts (pay_2026, pay_2026_1, pay_2025);" in (
        " ".join(reading.schema.notes)
    )


def test_a_table_that_inherits_and_has_columns_is_no_part() -> None:
    text = "CREATE TABLE a (i INT PRIMARY KEY); CREATE TABLE b (CHECK (i > 1), j INT) INHERITS (a);"
    assert "INHERITS is not supported" in refused(text).message


def test_indexes_of_other_kinds_and_dumped_views_are_passed_over() -> None:
    schema = load_ddl(
        "--\n-- PostgreSQL database dump\n--\n"
        "CREATE TABLE t (a INT PRIMARY KEY, b TEXT, c TSVECTOR NOT NULL);\n"
        "CREATE INDEX i ON public.t USING gin (to_tsvector('english', b));\n"
        "CREATE INDEX j ON t USING gist (c);\n"
        "CREATE MATERIALIZED VIEW public.v AS SELECT a FROM t\n WITH NO DATA;\n"
        "CREATE UNIQUE INDEX k ON public.v USING btree (a);\n"
    )
    assert (len(schema.relations), schema.indexes, schema.views) == (1, (), ())
    assert schema.notes == (
        "t.c: TSVECTOR is kept as TEXT; @@ is refused",
        "passed over: CREATE INDEX USING gin (line 5)",
        "passed over: CREATE INDEX USING gist (line 6)",
        "passed over: CREATE MATERIALIZED (line 7)",
        "passed over: CREATE INDEX (line 9)",
    )


def test_a_view_that_calls_a_function_of_the_file_is_passed_over() -> None:
    schema = load_ddl(
        "CREATE TABLE t (a INT PRIMARY KEY);\n"
        "CREATE OR REPLACE FUNCTION public.length(n INT) RETURNS INT AS $$SELECT 1$$;\n"
        "CREATE VIEW v AS SELECT length (a) AS n FROM t;\n"
        "CREATE VIEW w AS SELECT a AS length FROM t;\n"
    )
    assert [view.name for view in schema.views] == ["w"]
    assert "passed over: CREATE VIEW (line 3)" in schema.notes


def test_a_self_reference_is_no_cycle() -> None:
    text = "CREATE TABLE t (i INT PRIMARY KEY, up INT REFERENCES t ON DELETE SET NULL)"
    assert load_ddl(text).relation("t").foreign_keys[0].parent == "t"


def test_the_tpcw_schema_is_read() -> None:
    text = (Path(__file__).parents[2] / "demo" / "tpcw" / "schema.sql").read_text()
    schema = load_ddl(text)
    assert [len(relation.columns) for relation in schema.relations] == [
        4, 6, 7, 17, 22, 11, 6, 9, 2, 3,
    ]  # fmt: skip
    edges = [(fk.parent, r.name) for r in schema.relations for fk in r.foreign_keys]
    assert edges == [
        ("country", "address"),
        ("address", "customer"),
        ("author", "item"),
        ("customer", "orders"),
        ("address", "orders"),
        ("address", "orders"),
        ("orders", "order_line"),
        ("item", "order_line"),
        ("orders", "cc_xacts"),
        ("country", "cc_xacts"),
        ("shopping_cart", "shopping_cart_line"),
        ("item", "shopping_cart_line"),
    ]


def refused(text: str) -> SchemaError:
    with pytest.raises(SchemaError) as caught:
        load_ddl(text, "shop.sql")
    assert caught.value.file == "shop.sql"
    assert caught.value.cure
    return caught.value


# The `^` in the line below the text marks the place; the marker line is cut out before loading.
P = "CREATE TABLE p (x INT, y TEXT, PRIMARY KEY (x, y));\n"
T = "CREATE TABLE t (a INT PRIMARY KEY, b TEXT,\n"
I = "CREATE TABLE t (a INT PRIMARY KEY, b TEXT);\n"  # noqa: E741
ERRORS = [
    # types
    (T + " c NAME)\n   ^", "Type NAME is not supported", "VARCHAR"),
    (T + " c INTERVAL DAY)\n   ^", "INTERVAL DAY is not supported", "Write INTERVAL"),
    (T + " c money_t)\n   ^", "Type money_t is not supported", "Use INTEGER"),
    (T + " c JSONB[])\n   ^", "Type JSONB.. is not supported", "Use JSONB"),
    (T + " c INT(11))\n   ^", "takes no parameters", "INTEGER"),
    (T + " c TIMESTAMP(7))\n   ^", "out of range", "0 ≤ n ≤ 6"),
    (T + " c DECIMAL(9,12))\n   ^", "out of range", "38"),
    (T + " c DECIMAL(3,4))\n   ^", "out of range", "s ≤ p"),
    (T + " c VARCHAR(0))\n   ^", "out of range", "at least 1"),
    (T + " c)\n ^", "Column c has no type", "INTEGER"),
    # defaults
    (T + " c INT DEFAULT 'x')\n               ^", "does not fit its column", "INTEGER"),
    (T + " c VARCHAR(9) DEFAULT uuid())\n                      ^", "does not fit", "UUID"),
    (T + " c INT DEFAULT now())\n               ^", "does not fit type INTEGER", "DATE"),
    (T + " c BLOB DEFAULT '\\x0')\n                ^", "pairs of hexadecimal", "BLOB"),
    (T + " c SERIAL DEFAULT 3)\n ^", "c has two defaults", "Leave one"),
    (T + " c TEXT GENERATED ALWAYS AS IDENTITY)\n ^", "Identity column t.c", "BIGINT"),
    (
        T + " c INT GENERATED ALWAYS AS IDENTITY (START WITH 5 CYCLE))\n"
        "                                                  ^",
        "CYCLE is not supported",
        "numbers are given once",
    ),
    (
        T + " c INT GENERATED ALWAYS AS IDENTITY (START WITH x))\n"
        "                                                ^",
        "x of a sequence",
        "whole number",
    ),
    (T + " c INT GENERATED ALWAYS AS IDENTITY (START WITH 3000000000))\n ^", "hold", "BIGINT"),
    (
        T + " c INT GENERATED ALWAYS AS IDENTITY (START 5 MAXVALUE 4))\n"
        "                                     ^",
        "first number 5 beyond MAXVALUE 4",
        "within",
    ),
    (
        T + " c INT GENERATED ALWAYS AS IDENTITY (INCREMENT BY 0))\n"
        "                                     ^",
        "INCREMENT BY 0",
        "another number",
    ),
    # unsupported clauses
    (T + " CHECK ())\n       ^", "parentheses are empty", "expression"),
    (
        T + " c INT CONSTRAINT x CHECK (c > 1), CONSTRAINT x CHECK (a > 1))\n"
        "                                              ^",
        "Constraint t.x is declared twice",
        "rename",
    ),
    (
        T + " c INT GENERATED ALWAYS AS (a + 1))\n                                 ^",
        "STORED is missing",
        "compute the value in queries",
    ),
    (
        T + " c INT GENERATED BY DEFAULT AS (a + 1) STORED)\n                    ^",
        "BY DEFAULT AS an expression",
        "GENERATED ALWAYS",
    ),
    (T + " c INT DEFAULT 1 GENERATED ALWAYS AS (a + 1) STORED)\n ^", "two defaults", "Leave one"),
    (
        T + " c INT GENERATED ALWAYS AS (a) STORED REFERENCES t ON DELETE SET NULL)\n ^",
        "t.c is generated",
        "RESTRICT or CASCADE",
    ),
    (T + ' c TEXT COLLATE "X")\n                ^', "COLLATE X", "code point"),
    (T + " EXCLUDE (a WITH =))\n ^", "EXCLUDE", "UNIQUE"),
    (T + " LIKE p)\n      ^", "LIKE p", "CREATE TABLE first"),
    ("CREATE\n TEMP TABLE t (a INT PRIMARY KEY)\n ^", "TEMP", "plain table"),
    ("CREATE TABLE t AS SELECT 1 AS a\n^", "without columns", "Declare"),
    (I + "DROP TABLE t\n^", "DROP", "a DDL file holds"),
    ("CREATE NOTHING x\n^", "CREATE NOTHING", "a DDL file holds"),
    ("CREATE\n^", "CREATE", "a DDL file holds"),
    # names
    (I + "CREATE TABLE T (a INT PRIMARY KEY)\n             ^", "t is declared twice", "line 1"),
    (T + " A INT)\n ^", "Column t.a is declared twice", "line 1"),
    ('CREATE TABLE "s.x" (a INT PRIMARY KEY)\n             ^', "s.x is reserved", "another"),
    (
        "CREATE TABLE shop.t (a INT PRIMARY KEY);\n"
        "CREATE INDEX i ON public.t (a)\n                  ^",
        "declared on t, which is not a relation",
        "Relations are: shop.t",
    ),
    (
        "CREATE TABLE shop.t (a INT PRIMARY KEY);\nCREATE INDEX i ON t (a)\n                  ^",
        "declared on t, which is not a relation",
        "Relations are: shop.t",
    ),
    ('CREATE SCHEMA "a.b"\n^', "a.b has a dot", "without a dot"),
    (
        'CREATE SCHEMA a;\nCREATE TABLE "a.t" (a INT PRIMARY KEY)\n             ^',
        "begins with the name of a schema",
        "Write a.t",
    ),
    ("CREATE SCHEMA a WITH TABLE t (a INT PRIMARY KEY)\n^", "with the statements", "behind it"),
    (
        "CREATE TABLE shop.t (a INT PRIMARY KEY); "
        "CREATE MATERIALIZED VIEW shop AS SELECT a FROM shop.t\n^",
        "shop has the name of a materialized view",
        "Rename the view",
    ),
    (
        "CREATE TABLE s.t (a INT PRIMARY KEY); "
        "CREATE MATERIALIZED VIEW s.v AS SELECT a FROM s.t;\n"
        'CREATE TABLE s."v.cells" (a INT)\n             ^',
        "begins with the name of s.v",
        "another name",
    ),
    (
        'CREATE TABLE "v.x" (a INT PRIMARY KEY); '
        'CREATE MATERIALIZED VIEW v AS SELECT a FROM "v.x"\n             ^',
        "begins with the name of v",
        "another name",
    ),
    (
        "CREATE TABLE t (a INT PRIMARY KEY); "
        "CREATE MATERIALIZED VIEW v AS SELECT a, count(*) FROM t GROUP BY a; "
        'CREATE INDEX i ON v (a);\nCREATE INDEX "i.cells" ON t (a)\n             ^',
        "begins with the name of i",
        "another name",
    ),
    ("CREATE TABLE a.b.c (a INT PRIMARY KEY)\n             ^", "The name a.b.c", "schema"),
    # as pg_dump writes it
    (
        "CREATE TABLE t (a INT GENERATED ALWAYS AS IDENTITY (CYCLE))\n"
        "                                                    ^",
        "CYCLE is not supported",
        "once",
    ),
    ("CREATE SEQUENCE s MINVALUE 9 MAXVALUE 3\n                  ^", "MINVALUE 9", "smaller"),
    ("CREATE SEQUENCE s START -5\n                  ^", "-5 beyond MINVALUE 1", "within"),
    ("CREATE SEQUENCE s AS SMALLINT MAXVALUE 40000\n                  ^", "40000", "wider"),
    ("CREATE SEQUENCE s AS TEXT\n                     ^", "Type TEXT", "BIGINT"),
    ("CREATE SEQUENCE s OWNED BY t.a\n                ^", "no such column", "NONE"),
    (I + "CREATE SEQUENCE t\n                ^", "name of a relation", "Rename"),
    ("CREATE SEQUENCE s;\nCREATE SEQUENCE s\n                ^", "twice", "Drop"),
    (
        I + "ALTER TABLE t ALTER a RESTART WITH 5\n                    ^",
        "no identity column of t.a",
        "IDENTITY",
    ),
    (I + "SELECT setval('t_b_seq', 5)\n^", "identity column of sequence t_b_seq", "table_col"),
    (I + "SELECT setval('t_b_seq')\n^", "setval", "42, true"),
    (I + "ALTER SEQUENCE s INCREMENT BY 5\n               ^", "ALTER SEQUENCE", "first"),
    (
        I + "ALTER TABLE t ALTER c ADD GENERATED ALWAYS AS IDENTITY\n                    ^",
        "t has no column c",
        "a, b",
    ),
    (
        "CREATE TABLE t (a SERIAL PRIMARY KEY);\nALTER TABLE t ALTER a DROP DEFAULT\n^",
        "DROP DEFAULT",
        "a DDL file holds",
    ),
    ("\\i other.sql\n^", "reads another file", "by itself"),
    # primary keys
    ("CREATE TABLE t ()\n             ^", "t has no columns", "at least one"),
    (T + " PRIMARY KEY (b))\n              ^", "t has two primary keys", "composite"),
    ("CREATE TABLE t (a INT,\n PRIMARY KEY (a, c))\n                 ^", "names column c", "a"),
    ("CREATE TABLE t (a INT,\n PRIMARY KEY (a, a))\n                 ^", "t.a twice", "once"),
    ("CREATE TABLE t (\n a JSON PRIMARY KEY)\n ^", "JSON cannot be in the primary", "another"),
    # foreign keys
    (T + " c INT REFERENCES q)\n                  ^", "references q", "Relations are: t"),
    (
        "CREATE TABLE p (x INT);\n" + T + " c INT REFERENCES p)\n                  ^",
        "p, which has no primary key",
        "Name columns that are UNIQUE",
    ),
    (
        "CREATE TABLE p (x INT);\n" + T + " c INT REFERENCES p (rowid))\n                     ^",
        "names column rowid, which p does not have",
        "p has: x",
    ),
    ("CREATE TABLE p (x INT);\nCREATE INDEX i ON p (rowid)\n                     ^", "rowid", "x"),
    (P + T + " c INT REFERENCES p (x))\n                     ^", "whole primary key", "p .x, y., "),
    (P + T + " c INT REFERENCES p)\n ^", "has 1 columns for the 2", "each of x, y"),
    (P + T + " FOREIGN KEY (b, a) REFERENCES p)\n              ^", "t.b is TEXT, p.x", "INTEGER"),
    (P + T + " FOREIGN KEY (a, c) REFERENCES p)\n                 ^", "column c", "t has: a, b"),
    (
        P + T + " FOREIGN KEY (a, b) REFERENCES p (x, z))\n                                     ^",
        "names column z, which p",
        "p has: x, y",
    ),
    (T + " c TEXT UNIQUE, d INT REFERENCES t (c))\n                ^", "t.c is TEXT", "as TEXT"),
    (T + " c INT REFERENCES t (b))\n                     ^", "nor UNIQUE", "t .a., or declare"),
    (
        "CREATE TABLE p (x INT UNIQUE, y INT);\n" + T + " c INT REFERENCES p (y))\n"
        "                     ^",
        "neither its whole primary key nor",
        "Reference p .x., or declare UNIQUE .y.",
    ),
    (
        T + " c INT, FOREIGN KEY (a, c) REFERENCES t MATCH FULL)\n"
        "                                              ^",
        "MATCH FULL",
        "Leave",
    ),
    (
        T + " c INT REFERENCES t,\n FOREIGN KEY (c) REFERENCES t (a))\n              ^",
        "says the same as t_c_fkey",
        "Drop one",
    ),
    (
        T + " CONSTRAINT f FOREIGN KEY (a) REFERENCES t,\n"
        " CONSTRAINT f FOREIGN KEY (a) REFERENCES t)\n            ^",
        "Foreign key t.f is declared twice",
        "line 2",
    ),
    # indexes
    (I + "CREATE INDEX i ON u (a)\n                  ^", "declared on u", "Relations are: t"),
    (I + "CREATE INDEX i ON t (c)\n                     ^", "names column c", "t has: a, b"),
    (I + "CREATE INDEX i ON t (a, a) INCLUDE (a)\n                        ^", "twice", ""),
    (I + "CREATE INDEX t ON t (a)\n             ^", "name of a relation", "Rename"),
    (
        I + "CREATE INDEX i ON t (a);\nCREATE INDEX i ON t (b)\n             ^",
        "Index i is declared twice",
        "line 2",
    ),
    (I + "CREATE INDEX i ON t (b hash_class)\n                     ^", "hash_class", "Write"),
    (I + "CREATE INDEX i ON t USING zorder (b)\n                    ^", "USING zorder", "Write"),
    # ALTER TABLE
    ("ALTER TABLE t ADD PRIMARY KEY (a)\n            ^", "not declared above", "CREATE TABLE"),
    (I + "ALTER TABLE t ADD COLUMN b INT\n                         ^", "twice", "Drop"),
    (I + "ALTER TABLE t RENAME TO u\n^", "RENAME TO u is", "a DDL file holds"),
    # text that is no SQL
    ("CREATE TABLE t (a INT) SO\n^", "This CREATE TABLE is not understood", "Correct its syntax"),
    (T + " c d e INT)\n     ^", "Syntax error at e", "c d e INT"),
    ("CREATE TABLE (a INT)\n             ^", "expected table name", "CREATE TABLE .a INT."),
    (T + " c TEXT DEFAULT 'x)\n                ^", "is not closed", "Close the quote"),
    (T + " c TEXT) /* so\n         ^", "is not closed", "comment"),
]  # fmt: skip


@pytest.mark.parametrize(("marked", "message", "cure"), ERRORS)
def test_error_names_place_and_cure(marked: str, message: str, cure: str) -> None:
    text, _, marker = marked.rpartition("\n")
    error = refused(text)
    assert (error.line, error.column) == (text.count("\n") + 1, marker.index("^") + 1), str(error)
    with pytest.raises(SchemaError, match=message):
        raise error
    assert re.search(cure, error.cure), error.cure


def test_the_quote_of_mysql_is_refused_in_a_file_of_postgresql() -> None:
    with pytest.raises(SchemaError, match="The quote ` is not supported") as caught:
        load_ddl("CREATE TABLE `t` (a INT)", source=Source.POSTGRES)
    assert caught.value.column == 14
    assert "--dialect mysql" in caught.value.cure


def test_a_circle_is_taken_and_noted() -> None:
    text = (
        "CREATE TABLE x (i INT PRIMARY KEY, b INT REFERENCES b);\n"
        "CREATE TABLE a (i INT PRIMARY KEY, b INT CONSTRAINT down REFERENCES b);\n"
        "CREATE TABLE b (i INT PRIMARY KEY, b INT REFERENCES b, a INT REFERENCES a);\n"
    )
    schema = load_ddl(text)
    assert [fk.name for fk in schema.relation("b").foreign_keys] == ["b_b_fkey", "b_a_fkey"]
    (note,) = schema.notes
    assert note.startswith("a and b reference one another in a circle: ")
    assert load_ddl(render_ddl(schema)) == schema


def test_the_error_text_begins_with_file_line_and_column() -> None:
    error = refused("CREATE TABLE t ()")
    assert str(error).splitlines()[0] == "shop.sql:1:14: Relation t has no columns."


def test_generated_names_avoid_given_ones() -> None:
    text = (
        "CREATE TABLE t (a INT PRIMARY KEY, b INT UNIQUE REFERENCES t,"
        " CONSTRAINT t_b_fkey FOREIGN KEY (a) REFERENCES t, CONSTRAINT t_b_key UNIQUE (a))"
    )
    schema = load_ddl(text)
    assert [fk.name for fk in schema.relation("t").foreign_keys] == ["t_b_fkey1", "t_b_fkey"]
    assert [index.name for index in schema.indexes] == ["t_b_key1", "t_b_key"]


def test_checks_are_read_and_named_as_postgresql_names_them() -> None:
    schema = load_ddl(
        "CREATE TABLE t (a INT PRIMARY KEY CHECK (a > 0) CHECK(a<9), b INT CONSTRAINT small CHECK"
        " (b < -- less\n 5 AND\n\tb::date <> 'CHECK (x)') NOT NULL, \"C d\" INT,"
        ' CHECK (lower(a) = b), CONSTRAINT "N" CHECK ("C d" > (a)), CHECK (TRUE));'
        "ALTER TABLE ONLY t ADD CHECK (A > 1), ADD CONSTRAINT c CHECK (b IN (1, 2));"
        'ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (b) REFERENCES t, ADD CHECK ("C d" = 1);'
    )
    relation = schema.relation("t")
    assert [(check.name, check.sql) for check in relation.checks] == [
        ("t_a_check", "a > 0"),
        ("t_a_check1", "a<9"),
        ("small", "b < 5 AND b::date <> 'CHECK (x)'"),
        ("t_check", "lower(a) = b"),
        ("N", '"C d" > (a)'),
        ("t_check1", "TRUE"),
        ("t_a_check2", "A > 1"),
        ("c", "b IN (1, 2)"),
        ("t_C d_check", '"C d" = 1'),
    ]
    assert not relation.column("b").nullable
    assert load_ddl(render_ddl(schema)) == schema


DEFAULTS = [
    ("UUID", "gen_random_uuid()", Default(DefaultKind.UUID)),
    ("UUID", "public.uuid_generate_v4()", Default(DefaultKind.UUID)),
    ("TEXT", "(gen_random_uuid())::text", Default(DefaultKind.UUID)),
    ("DATE", "('now'::text)::date", Default(DefaultKind.NOW)),
    ("TIMESTAMP", "(now() AT TIME ZONE 'utc')", Default(DefaultKind.NOW)),
    ("TIMESTAMP", "timezone('utc'::text, now())", Default(DefaultKind.NOW)),
    ("DATE", "CURRENT_TIMESTAMP::date", Default(DefaultKind.NOW)),
    ("TIMESTAMP", "CURRENT_DATE", "CURRENT_DATE"),
    ("TIMESTAMPTZ", "(CURRENT_DATE)::timestamp", "CURRENT_DATE"),
    ("TIMESTAMP", "('now'::text)::date", "CURRENT_DATE"),
    ("TIMESTAMP", "now()::date", "CURRENT_DATE"),
    ("DATE", "CURRENT_DATE + 30", "CURRENT_DATE + 30"),
    ("TIMESTAMPTZ", "(now() +\n INTERVAL '1 day')", "now() + INTERVAL '1 day'"),
    ("INT", "1 * (2 + 3)", "1 * (2 + 3)"),
    ("INT", "((2 + 3) * (4))", "(2 + 3) * (4)"),
    ("TEXT", "'a, NOT NULL)' || lower('b')", "'a, NOT NULL)' || lower('b')"),
    ("INT", "length('x')::integer", "length('x')::integer"),
]


@pytest.mark.parametrize(("type_", "written", "wanted"), DEFAULTS)
@pytest.mark.parametrize("behind", ["", " NOT NULL", " CHECK (c > c)", " UNIQUE, d INT DEFAULT 2"])
def test_computed_defaults_are_read(
    type_: str, written: str, wanted: Default | str, behind: str
) -> None:
    schema = load_ddl(f"CREATE TABLE t (a INT PRIMARY KEY, c {type_} DEFAULT {written}{behind})")
    if isinstance(wanted, str):
        wanted = Default(DefaultKind.EXPRESSION, sql=wanted)
    assert schema.relation("t").column("c").default == wanted
    assert load_ddl(render_ddl(schema)) == schema


def test_alter_table_of_a_file_moves_columns_between_domains() -> None:
    schema = load_ddl(
        "CREATE DOMAIN one INT DEFAULT 1 CHECK (VALUE > 0); CREATE DOMAIN two INT NOT NULL;"
        "CREATE TABLE t (a one, b one NOT NULL, c one DEFAULT NULL, d INT NOT NULL DEFAULT 4);"
        "ALTER TABLE t ALTER COLUMN a TYPE two; ALTER TABLE t ALTER COLUMN b TYPE INT;"
        "ALTER TABLE t ALTER COLUMN c DROP DEFAULT; ALTER TABLE t ALTER COLUMN d TYPE one;"
        "ALTER TABLE t ALTER COLUMN d DROP NOT NULL;"
    )
    relation = schema.relation("t")
    found = [(c.name, c.nullable, c.default and c.default.value) for c in relation.visible]
    assert found == [("a", False, None), ("b", False, None), ("c", True, 1), ("d", True, 4)]
    assert [check.sql for check in relation.checks] == ["c > 0", "d > 0"]
    assert load_ddl(render_ddl(schema)) == schema


def test_a_column_of_a_domain_gets_its_constraints() -> None:
    schema = load_ddl(
        "CREATE DOMAIN public.year AS integer CONSTRAINT year_check CHECK (((VALUE >= 1901) AND"
        " (value <= 2155)));"
        "CREATE DOMAIN public.word text NOT NULL DEFAULT 'x' CHECK (VALUE <> 'VALUE');"
        "CREATE DOMAIN public.name AS public.word DEFAULT 'y' CHECK (length(VALUE) < 9);"
        "ALTER DOMAIN public.name OWNER TO postgres;"
        'CREATE TABLE public.f (id integer PRIMARY KEY, released public.year, "Of" public.year'
        " NOT NULL DEFAULT 2000 CHECK (id > 0), a public.word NULL, b public.name,"
        " c public.name DEFAULT 'z' UNIQUE);"
    )
    _, released, of, a, b, c = schema.relation("f").columns
    assert (released.type, released.nullable, released.default) == (
        ColumnType(Kind.INTEGER), True, None,
    )  # fmt: skip
    assert (of.nullable, of.default) == (False, Default(DefaultKind.LITERAL, 2000))
    assert [(x.type.kind, x.nullable) for x in (a, b, c)] == [(Kind.TEXT, False)] * 3
    assert [x.default.value for x in (a, b, c) if x.default] == ["x", "y", "z"]
    assert [(check.name, check.sql) for check in schema.relation("f").checks] == [
        ("f_id_check", "id > 0"),
        ("year_check of released", "(released >= 1901) AND (released <= 2155)"),
        ("year_check of Of", '("Of" >= 1901) AND ("Of" <= 2155)'),
        ("word_check of a", "a <> 'VALUE'"),
        ("word_check of b", "b <> 'VALUE'"),
        ("name_check of b", "length(b) < 9"),
        ("word_check of c", "c <> 'VALUE'"),
        ("name_check of c", "length(c) < 9"),
    ]
    assert [check.name for check in schema.relation("f").own_checks] == ["f_id_check"]
    assert [domain.name for domain in schema.domains] == ["year", "word", "name"]
    assert render_ddl(schema).splitlines()[:7] == [
        "CREATE DOMAIN year AS INTEGER CONSTRAINT year_check CHECK ((VALUE >= 1901) AND (value <="
        " 2155));",
        "CREATE DOMAIN word AS TEXT NOT NULL DEFAULT 'x' CONSTRAINT word_check CHECK (VALUE <>"
        " 'VALUE');",
        "CREATE DOMAIN public.name AS word DEFAULT 'y' CONSTRAINT name_check CHECK (length(VALUE) <"
        " 9);",
        "CREATE TABLE f (",
        "  id INTEGER NOT NULL,",
        "  released year,",
        '  "Of" year NOT NULL DEFAULT 2000,',
    ]
    assert load_ddl(render_ddl(schema)) == schema


@pytest.mark.parametrize(
    ("ddl", "message", "column"),
    [
        ("CREATE DOMAIN d", "has no type", 8),
        ("CREATE DOMAIN d AS foo", "Type foo is not supported", 20),
        ("CREATE DOMAIN d AS int PRIMARY KEY", "constraint that only columns have", 15),
        ("CREATE DOMAIN d AS int REFERENCES t", "constraint that only columns have", 15),
        ("CREATE DOMAIN d AS int GENERATED ALWAYS AS (1) STORED", "only columns have", 15),
        ("CREATE DOMAIN d AS serial", "only columns have", 15),
        ("CREATE DOMAIN d int, e int", "This CREATE DOMAIN is not understood", 1),
        ("CREATE DOMAIN d int); CREATE TABLE t (a int", "Syntax error", 20),
        ("CREATE DOMAIN d int; CREATE DOMAIN D text", "Domain d is declared twice", 36),
        ("CREATE DOMAIN t int; CREATE TABLE t (a int)", "Domain t has the name of a relation", 15),
        (
            "CREATE DOMAIN d int CONSTRAINT c CHECK (VALUE > 0) CONSTRAINT c CHECK (VALUE > 1)",
            "Domain d has the constraint c twice",
            63,
        ),
    ],
)
def test_other_domains_are_refused(ddl: str, message: str, column: int) -> None:
    error = refused(ddl)
    assert message in error.message
    assert (error.line, error.column) == (1, column)
    assert error.cure


def test_generated_columns_are_read() -> None:
    schema = load_ddl(
        "CREATE TABLE t (a INT PRIMARY KEY, b INT AS (a +\n 1) STORED CHECK (b > 0),"
        " c TEXT GENERATED ALWAYS AS ((a)::text || ')') STORED NOT NULL UNIQUE)"
    )
    _, b, c = schema.relation("t").columns
    assert schema.relation("t").generated == (b, c)
    assert b.default == Default(DefaultKind.GENERATED, sql="a + 1")
    assert (c.default, c.nullable) == (
        Default(DefaultKind.GENERATED, sql="(a)::text || ')'"),
        False,
    )
    assert schema.relation("t").checks[0].name == "t_b_check"
    assert load_ddl(render_ddl(schema)) == schema


@pytest.mark.parametrize(
    "constraint",
    [
        "CHECK (a > 1 AND NOT valid) NOT VALID",
        "CHECK (a > 1 AND NOT valid) NO INHERIT NOT VALID",
        "FOREIGN KEY (a) REFERENCES t NOT VALID",
        "FOREIGN KEY (a) REFERENCES t (a) MATCH FULL ON DELETE CASCADE DEFERRABLE NOT VALID",
    ],
)
def test_a_constraint_that_is_not_validated_is_one_that_is(constraint: str) -> None:
    table = "CREATE TABLE t (a INT PRIMARY KEY, valid BOOLEAN);\n"
    plain = constraint.replace(" NOT VALID", "").replace(" NO INHERIT", "")
    expected = load_ddl(f"{table}ALTER TABLE t ADD CONSTRAINT c {plain.replace(' MATCH FULL', '')}")
    altered = load_ddl(f"{table}ALTER TABLE t ADD CONSTRAINT c {constraint}")
    assert altered.notes == ("NOT VALID in line 2: the stored rows are checked",)
    assert replace(altered, notes=()) == expected
    inside = table.replace(");", f", CONSTRAINT c {constraint});")
    assert load_ddl(inside) == expected


def test_carriage_returns_do_not_shift_lines() -> None:
    error = refused("CREATE TABLE t (\r\n  a INT PRIMARY KEY,\r\n  b NAME)")
    assert (error.line, error.column) == (3, 5)


def test_schemas_load_to_equal_values() -> None:
    assert isinstance(load_ddl(GOOD), Schema)
    assert load_ddl(GOOD) == load_ddl(GOOD.replace("\n", "\n\n"))


def test_a_materialized_view_keeps_the_text_of_its_select() -> None:
    select = "WITH t AS (SELECT * FROM r)\n SELECT a AS x, sum(b) AS s -- why\n FROM t GROUP BY a"
    schema = load_ddl(
        f"CREATE TABLE r (a INT PRIMARY KEY, b INT);"
        f"CREATE MATERIALIZED VIEW One WITH (refresh = 'deferred') AS {select} -- end\n;"
        f"CREATE MATERIALIZED VIEW two WITH ("
        f"refresh = 'deferred', interval = '1.5 min', \"group\" = 'G') AS SELECT 1"
    )
    assert schema.views == (
        DeclaredView("one", select),
        DeclaredView("two", "SELECT 1", 90.0, "G"),
    )


def test_a_live_view_has_a_short_interval_and_a_group_of_its_own_unless_it_names_others() -> None:
    schema = load_ddl(
        "CREATE MATERIALIZED VIEW one WITH (refresh = 'live') AS SELECT 1;"
        "CREATE MATERIALIZED VIEW two WITH (refresh = 'live', interval = '50 ms',"
        " \"group\" = 'g') AS SELECT 2;"
    )
    assert schema.views == (
        DeclaredView("one", "SELECT 1", 0.25, "live", Refresh.LIVE),
        DeclaredView("two", "SELECT 2", 0.05, "g", Refresh.LIVE),
    )
    assert load_ddl(render_ddl(schema)) == schema


@pytest.mark.parametrize(
    ("marked", "message"),
    [
        ("CREATE MATERIALIZED VIEW ^v WITH (group = 'g') AS SELECT 1", "does not say how it is"),
        ("CREATE MATERIALIZED VIEW ^v WITH (refresh = 'x') AS SELECT 1", "how it is maintained"),
        (
            "CREATE MATERIALIZED VIEW ^v WITH (refresh = 'deferred', interval = '5') AS SELECT 1",
            "'5' is no interval",
        ),
        (
            "CREATE MATERIALIZED VIEW ^v WITH (refresh = 'deferred', interval = '0 s') AS SELECT 1",
            "'0 s' is no interval",
        ),
        (
            "CREATE MATERIALIZED VIEW ^v WITH (refresh = 'live', interval = '49 ms') AS SELECT 1",
            "'49 ms' is shorter than the shortest interval, '50 ms'",
        ),
        (
            "CREATE MATERIALIZED VIEW ^v WITH (refresh = 'live', \"group\" = 'g') AS SELECT 1;"
            "CREATE MATERIALIZED VIEW w WITH (refresh = 'recompute', \"group\" = 'g') AS SELECT 1",
            "View v is live, and its group g has w, which is recomputed",
        ),
        (
            "CREATE MATERIALIZED VIEW v ^WITH (refresh = 'deferred', lag = '5 s') AS SELECT 1",
            "lag='5 s' is not supported here",
        ),
        (
            "CREATE MATERIALIZED VIEW v ^WITH (refresh = 'deferred', refresh = 'x') AS SELECT 1",
            "refresh='x' is not supported here",
        ),
        (
            "CREATE MATERIALIZED VIEW ^v (a) WITH (refresh = 'deferred') AS SELECT 1",
            "A list of columns is not supported here",
        ),
        (
            "CREATE TABLE v (a INT PRIMARY KEY);"
            "CREATE MATERIALIZED VIEW ^v WITH (refresh = 'deferred') AS SELECT 1",
            "View v has the name of a relation or an index",
        ),
    ],
)
def test_an_unsupported_view_is_refused_at_its_place(marked: str, message: str) -> None:
    column = marked.index("^") + 1
    with pytest.raises(SchemaError, match=re.escape(message)) as caught:
        load_ddl(marked.replace("^", ""))
    assert (caught.value.details["line"], caught.value.details["column"]) == (1, column)


def test_a_materialized_view_without_options_is_immediate_and_has_its_rows() -> None:
    for behind in ("", " WITH DATA", " WITH NO DATA"):
        (view,) = load_ddl(f"CREATE MATERIALIZED VIEW v AS SELECT 1 AS n{behind};").views
        assert view == DeclaredView("v", "SELECT 1 AS n", refresh=Refresh.IMMEDIATE)


def test_partial_indexes_are_read_and_written_back() -> None:
    schema = load_ddl(
        "CREATE TABLE t (a INT PRIMARY KEY, b TEXT);"
        "CREATE UNIQUE INDEX i ON t (b DESC NULLS FIRST) INCLUDE (a) WHERE (b IS NOT NULL);"
        "CREATE INDEX j ON public.t USING btree (b) WHERE a > 1\n AND (b = 'x y'::text)"
    )
    assert [index.where for index in schema.indexes] == [
        "b IS NOT NULL",
        "a > 1 AND (b = 'x y'::text)",
    ]
    assert load_ddl(render_ddl(schema)) == schema
    with pytest.raises(SchemaError, match="UNIQUE"):
        load_ddl(render_ddl(schema) + "CREATE TABLE c (b TEXT PRIMARY KEY REFERENCES t (b));")


def test_equal_nulls_are_read_and_written_back() -> None:
    schema = load_ddl(
        'CREATE TABLE t (a INT PRIMARY KEY, b TEXT COLLATE "C" UNIQUE NULLS NOT DISTINCT,'
        ' c TEXT COLLATE pg_catalog."default" UNIQUE NULLS DISTINCT,'
        " UNIQUE NULLS NOT DISTINCT (a, b),"
        " UNIQUE NULLS DISTINCT (b, c));"
        'CREATE UNIQUE INDEX i ON t (lower(c) COLLATE ucs_basic DESC, b COLLATE "POSIX")'
        " INCLUDE (a)"
        " NULLS NOT DISTINCT WHERE a > 1;"
        "CREATE UNIQUE INDEX j ON t (c) NULLS DISTINCT;"
        "CREATE INDEX k ON t (c) NULLS NOT DISTINCT;"
        "ALTER TABLE t ADD CONSTRAINT l UNIQUE NULLS NOT DISTINCT (c);"
    )
    equal = [index.name for index in schema.indexes if not index.nulls_distinct]
    assert equal == ["t_b_key", "t_a_b_key", "i", "l"]
    assert [part.column for part in schema.indexes[4].columns] == ["(lower(c))", "b"]
    assert load_ddl(render_ddl(schema)) == schema


def test_expressions_of_indexes_are_read_and_written_back() -> None:
    schema = load_ddl(
        'CREATE TABLE t (a INT PRIMARY KEY, "B" TEXT, c TEXT UNIQUE);'
        "CREATE UNIQUE INDEX ON public.t USING btree (lower((c)::text) text_pattern_ops);"
        "CREATE INDEX ON t ((a + 1) DESC NULLS LAST, c text_pattern_ops DESC, coalesce(c, ')'))"
        " INCLUDE (a) WHERE a > 1;"
        'CREATE INDEX k ON t (((upper("B"))), ((c)) ASC)'
    )
    assert load_ddl(render_ddl(schema)) == schema
    assert [(i.name, *((p.column, p.descending) for p in i.columns)) for i in schema.indexes] == [
        ("t_c_key", ("c", False)),
        ("t_lower_key", ("(lower((c)::text))", False)),
        ("t_expr_c_expr_idx", ("(a + 1)", True), ("c", True), ("(coalesce(c, ')'))", False)),
        ("k", ('(upper("B"))', False), ("c", False)),
    ]
    assert [each.sql for each in schema.indexes[2].expressions] == ["a + 1", "coalesce(c, ')')"]
    for wrong, said in (
        ("CREATE INDEX j ON t (lower(c), lower(c))", "twice"),
        ("CREATE INDEX j ON t (a other_class)", "not supported"),
        ("CREATE UNIQUE INDEX j ON t (lower(c)); CREATE TABLE u (l TEXT REFERENCES t (lower))",
         "lower"),
        ("CREATE MATERIALIZED VIEW v AS SELECT c FROM t; CREATE INDEX j ON v (lower(c))",
         "has an expression"),
    ):  # fmt: skip
        with pytest.raises(SchemaError, match=said):
            load_ddl(f"{render_ddl(schema)}{wrong};")


def test_plain_views_are_read_and_written_back() -> None:
    schema = load_ddl(
        "CREATE TABLE a (x INT PRIMARY KEY); CREATE VIEW v AS SELECT 1 AS x;"
        'CREATE VIEW public.w (k, "L") AS SELECT x,\n 2 FROM v;'
        "CREATE OR REPLACE VIEW v AS SELECT x FROM a;"
    )
    assert [(view.name, view.refresh) for view in schema.views] == [
        ("v", Refresh.PLAIN),
        ("w", Refresh.PLAIN),
    ]
    assert schema.views[0].sql == "SELECT x FROM a"
    assert load_ddl(render_ddl(schema)) == schema
    assert 'SELECT x,\n 2 FROM v\n) AS w_select (k, "L")' in render_ddl(schema)
    with pytest.raises(SchemaError, match="declared twice"):
        load_ddl("CREATE VIEW v AS SELECT 1 AS n; CREATE VIEW v AS SELECT 2 AS n;")


def test_names_may_have_the_schema_public() -> None:
    schema = load_ddl(
        "CREATE TABLE public.a (x INT PRIMARY KEY);"
        "CREATE TABLE b (y INT PRIMARY KEY, x INT REFERENCES public.a);"
        'CREATE INDEX i ON "public".b (x);'
    )
    assert schema.names == ("a", "b")
    assert schema.relation("b").foreign_keys[0].parent == "a"
    assert schema.indexes[0].relation == "b"


def test_an_enum_is_a_type_of_the_schema() -> None:
    schema = load_ddl(
        "CREATE TYPE public.mpaa AS ENUM ('G', 'NC-17', 'it''s');"
        "CREATE TABLE film (f_id INT PRIMARY KEY, rating mpaa NOT NULL DEFAULT 'G', again mpaa)"
    )
    film = schema.relation("film")
    assert [(c.type.ddl(), c.nullable) for c in film.columns[1:]] == [
        ("mpaa", False),
        ("mpaa", True),
    ]
    assert [each.labels for each in schema.enumerations] == [("G", "NC-17", "it's")]
    assert (film.checks, schema.notes) == ((), ())
    assert load_ddl(render_ddl(schema)) == schema
