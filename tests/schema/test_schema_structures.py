"""What the structure files of applications hold beside tables and columns."""

import pytest

from hornbeam_server.node.schema_problems import checked
from hornbeam_server.schema.ddl import load_ddl, read_file, render_ddl
from hornbeam_server.schema.ddl.sources import Source, recognised
from hornbeam_server.schema.model import Schema

MOOD = "CREATE TYPE public.mood AS ENUM ('a', 'b');"


def problems(text: str, source: Source | None = None) -> list[str]:
    return [each.error.message for each in read_file(text, source=source).problems.found()]


def columns(schema: Schema) -> list[str]:
    (relation,) = schema.relations
    return [
        f"{column.name} {column.type.ddl()}{'' if column.nullable else ' NOT NULL'}"
        for column in relation.visible
    ]


@pytest.mark.parametrize(
    "dropped",
    [
        "ALTER TABLE IF EXISTS ONLY public.t DROP CONSTRAINT IF EXISTS t_pkey;",
        "ALTER TABLE IF EXISTS public.t ALTER COLUMN a DROP DEFAULT;",
        "DROP VIEW IF EXISTS public.v; DROP INDEX IF EXISTS public.i;",
    ],
)
def test_a_file_may_drop_first_what_it_declares(dropped: str) -> None:
    text = f"{dropped} CREATE TABLE public.t (a INT PRIMARY KEY)"
    assert load_ddl(text).names == ("t",)


def test_a_conditional_drop_of_sqlserver_is_passed_over() -> None:
    text = (
        "IF EXISTS (SELECT 1)\nALTER TABLE [dbo].[t] DROP CONSTRAINT [f]\nGO\n"
        "CREATE TABLE [dbo].[t] ([a] int NOT NULL\n CONSTRAINT [p] PRIMARY KEY CLUSTERED ([a] ASC)"
        " WITH (PAD_INDEX = OFF))\nGO\n:setvar name value\nUPDATE STATISTICS t\n"
    )
    schema = load_ddl(text)
    assert schema.relation("t").declared_key == ("a",)
    assert "passed over: UPDATE STATISTICS (line 8)" in schema.notes
    assert "passed over: :setvar name value (line 7)" in schema.notes


def test_a_dropped_column_of_a_declared_table_is_a_problem() -> None:
    assert problems("CREATE TABLE t (a INT PRIMARY KEY, b INT); ALTER TABLE t DROP COLUMN b")
    assert problems('CREATE TABLE "T" (a INT PRIMARY KEY, b INT); ALTER TABLE "T" DROP COLUMN b')


def test_a_view_may_be_declared_again_behind_its_drop() -> None:
    table, view = "CREATE TABLE t (a INT PRIMARY KEY);", "VIEW v AS SELECT"
    text = (
        f"{table} CREATE OR REPLACE {view} 1; DROP VIEW IF EXISTS public.v; CREATE {view} a FROM t"
    )
    (found,) = load_ddl(text).views
    assert found.sql == "SELECT a FROM t"
    assert problems(f"{table} CREATE {view} 1; CREATE {view} a FROM t")


@pytest.mark.parametrize(
    "behind",
    [
        "WITH (fillfactor='50')",
        "WITHOUT OIDS",
        "USING heap",
        "TABLESPACE fast",
        "WITH (oids = false) TABLESPACE fast",
    ],
)
def test_storage_of_a_table_is_left_out(behind: str) -> None:
    text = f"CREATE UNLOGGED TABLE t (a INT, PRIMARY KEY (a) WITH (fillfactor=70)) {behind};"
    text += "CREATE INDEX i ON t (a) WITH (fillfactor = 90) TABLESPACE slow WHERE a > 1;"
    text += "ALTER TABLE t ADD CONSTRAINT u UNIQUE (a) USING INDEX TABLESPACE slow"
    wanted = "CREATE TABLE t (a INT PRIMARY KEY); CREATE INDEX i ON t (a) WHERE a > 1;"
    assert load_ddl(text) == load_ddl(wanted + "ALTER TABLE t ADD CONSTRAINT u UNIQUE (a)")


def test_an_option_named_as_a_word_is_a_column() -> None:
    text = 'CREATE TABLE t ("tablespace" INT PRIMARY KEY, "unlogged" INT)'
    assert columns(load_ddl(text)) == ["tablespace INTEGER NOT NULL", "unlogged INTEGER"]


def test_casts_to_an_enum_are_casts_to_its_type() -> None:
    text = MOOD + (
        "CREATE TABLE t (a INT PRIMARY KEY, m public.mood, CHECK (m <> 'a'::public.mood OR a > 1),"
        " CHECK (m = ANY (ARRAY['a'::mood])), CHECK (CAST('a' AS public.mood) = m),"
        " d TEXT DEFAULT lower('A'::public.mood::text));"
        "CREATE INDEX i ON t (a) WHERE m = 'b'::public.mood;"
        "CREATE VIEW v AS SELECT a AS mood FROM t WHERE m = 'b'::public.mood;"
    )
    shown = render_ddl(load_ddl(text))
    assert "mood'" not in shown
    assert shown.count("'::TEXT") == 5
    assert "AS TEXT) = m" in shown
    assert "SELECT a AS mood FROM t WHERE m = 'b'::TEXT" in shown


def test_the_place_of_a_check_is_kept_behind_a_cast_to_a_domain() -> None:
    text = f"{MOOD}\nCREATE TABLE t (a INT PRIMARY KEY, m mood,\n CHECK (m = 'a'::mood AND b = 1))"
    (problem,) = checked(read_file(text)).problems.found()
    assert problem.place == (3, 9)


def test_types_of_sqlserver_are_domains() -> None:
    text = (
        "CREATE TYPE [dbo].[Name] FROM nvarchar(50) NULL;\nCREATE TYPE [Flag] FROM bit NOT NULL;\n"
        "EXEC sp_addtype tid ,'varchar(6)' , 'NOT NULL'\nexecute sp_addtype 'sid', 'char(9)'\nGO\n"
        "CREATE TABLE [dbo].[t] ([a] [dbo].[Name] NOT NULL, [b] NAME, [c] [Flag]"
        " CONSTRAINT [d] DEFAULT (1), [e] tid, [f] SID, [g] sysname, [h] xml([s]))\nGO\n"
    )
    schema = load_ddl(text)
    wanted = ["a VARCHAR(50) NOT NULL", "b VARCHAR(50)", "c BOOLEAN NOT NULL"]
    assert columns(schema)[:3] == wanted
    assert columns(schema)[3:] == ["e VARCHAR(6) NOT NULL", "f CHAR(9)", "g VARCHAR(128)", "h TEXT"]


@pytest.mark.parametrize(
    "computed",
    ["AS ISNULL('A' + [dbo].[f](a), '')", "AS a.Level()", "AS (a + 1) PERSISTED NOT NULL"],
)
def test_a_computed_column_of_sqlserver_is_left_out_and_noted(computed: str) -> None:
    schema = load_ddl(f"CREATE TABLE [t] ([a] int PRIMARY KEY,\n [X] {computed}, [b] int)\nGO\n")
    assert [column.name for column in schema.relation("t").columns] == ["a", "b"]
    assert "left out: computed column x in line 2" in schema.notes


@pytest.mark.parametrize("source", [Source.MYSQL, Source.SQLITE])
def test_a_default_of_day_0_is_left_out_and_noted(source: Source) -> None:
    text = "CREATE TABLE t (a INT PRIMARY KEY, d datetime NOT NULL DEFAULT '0000-00-00 00:00:00')"
    schema = load_ddl(text, source=source)
    assert schema.relation("t").column("d").default is None
    assert any("0000-00-00" in note for note in schema.notes)
    assert problems("CREATE TABLE t (a INT PRIMARY KEY, d DATE DEFAULT '0000-00-00')")


def test_a_line_of_hyphens_between_statements_is_a_comment_of_mysql() -> None:
    text = "SET sql_mode = '';\n------\n--x\nCREATE TABLE t (a int PRIMARY KEY, b int DEFAULT --1);"
    assert problems(text.replace("--1", "1"), Source.MYSQL) == []


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("CREATE TABLE t (a INTEGER PRIMARY KEY, b datetime, c tinyint);", Source.SQLITE),
        ("CREATE TABLE t (a INTEGER NOT NULL PRIMARY KEY, b DATETIME);", Source.SQLITE),
        ("CREATE TABLE t (a SERIAL, b INT -- INT IDENTITY (1, 1) N'x'\n);", Source.POSTGRES),
        ("CREATE TABLE t (a INTEGER PRIMARY KEY, b TIMESTAMP);", Source.POSTGRES),
    ],
)
def test_small_files_are_recognised(text: str, source: Source) -> None:
    assert recognised(text) is source


@pytest.mark.parametrize(
    "written",
    ["inet", "cidr", "macaddr", "xml", "public.hstore", "ltree", "point", "geometry(Point, 4326)"],
)
def test_types_that_are_kept_as_text_are_noted(written: str) -> None:
    schema = load_ddl(f"CREATE TABLE t (a INT PRIMARY KEY, b {written})")
    assert columns(schema)[1] == "b TEXT"
    assert any("kept as TEXT" in note for note in schema.notes)


def test_a_view_that_takes_a_bound_of_a_range_is_passed_over() -> None:
    schema = load_ddl(
        "CREATE TABLE t (a INT PRIMARY KEY, r tsrange DEFAULT tsrange(NULL, NULL), x TEXT);"
        "CREATE VIEW v AS SELECT lower(t.r)::date AS d FROM t;"
        "CREATE VIEW w AS SELECT lower(x) AS x, r FROM t;"
    )
    assert [view.name for view in schema.views] == ["w"]
    assert any("CREATE VIEW v" in note for note in schema.notes)


def test_rows_of_another_file_are_noted_in_a_plan() -> None:
    text = (
        "CREATE TABLE [dbo].[t] ([a] int PRIMARY KEY)\nGO\nBULK INSERT [dbo].[t] FROM 'a.csv'\nGO\n"
    )
    assert any("passed over: BULK" in note for note in load_ddl(text).notes)


def test_a_check_with_a_set_of_characters_of_sqlserver_is_left_out_and_noted() -> None:
    text = (
        "CREATE TABLE [t] ([a] char(3) PRIMARY KEY CHECK (a LIKE '[0-9]_%'), [b] int,\n"
        " CONSTRAINT [c] CHECK (b > 1 AND a LIKE N'x[^y]'), CHECK (a LIKE 'x%'))\nGO\n"
    )
    schema = load_ddl(text)
    assert [check.sql for check in schema.relation("t").checks] == ["a LIKE 'x%'"]
    assert [note.split(";")[0] for note in schema.notes if "left out" in note] == [
        "left out: CHECK with LIKE '[…]' in line 1",
        "left out: CHECK with LIKE '[…]' in line 2",
    ]


def test_a_wide_decimal_has_as_many_digits_as_there_are() -> None:
    schema = load_ddl("CREATE TABLE t (a INT PRIMARY KEY, b NUMERIC(40,15), c DECIMAL(65))")
    assert columns(schema)[1:] == ["b DECIMAL(38,15)", "c DECIMAL(38,0)"]
    assert any("more than 38 digits" in note for note in schema.notes)
