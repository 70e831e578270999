"""What the structure files of applications hold beside tables and columns."""

import pytest

from hornbeam_server.node.schema_problems import checked
from hornbeam_server.schema.ddl import STATEMENT, load_ddl, read_file, render_ddl
from hornbeam_server.schema.ddl.sources import Source, recognised
from hornbeam_server.schema.errors import SchemaError
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


ALTERED = (
    "CREATE TABLE p (k INT PRIMARY KEY, u INT UNIQUE); CREATE TABLE t (a INT PRIMARY KEY, b INT"
)
ALTERED += ", c TEXT, CONSTRAINT k CHECK (b > 1), CONSTRAINT f FOREIGN KEY (b) REFERENCES p,"
ALTERED += (
    " CONSTRAINT q UNIQUE (c)); CREATE INDEX i ON t (a) WHERE b > 3; CREATE INDEX j ON t (c);"
)
PARENT = "CREATE TABLE p (k INT PRIMARY KEY, u INT UNIQUE);"


@pytest.mark.parametrize(
    ("alter", "wanted"),
    [
        ("DROP COLUMN b", "(a INT PRIMARY KEY, c TEXT, CONSTRAINT q UNIQUE (c))"),
        ("DROP b, ADD b INT", "(a INT PRIMARY KEY, c TEXT, b INT, CONSTRAINT q UNIQUE (c))"),
        ("DROP COLUMN c, DROP COLUMN b CASCADE", "(a INT PRIMARY KEY)"),
    ],
)
def test_alter_table_drops_columns_of_a_file_with_what_reads_them(alter: str, wanted: str) -> None:
    schema = load_ddl(f"{ALTERED} ALTER TABLE t {alter};")
    index = "CREATE INDEX j ON t (c);" if "c TEXT" in wanted else ""
    assert schema == load_ddl(f"{PARENT} CREATE TABLE t {wanted}; {index}")


@pytest.mark.parametrize(
    ("alter", "wanted"),
    [
        ("ADD COLUMN d DATE NOT NULL DEFAULT '2026-01-31'", "d DATE NOT NULL"),
        ("ADD COLUMN IF NOT EXISTS b TEXT", "b INTEGER"),
        ("ALTER COLUMN b TYPE BIGINT", "b BIGINT"),
        ("ALTER COLUMN b SET NOT NULL", "b INTEGER NOT NULL"),
        ("ALTER a DROP DEFAULT, ALTER b SET NOT NULL, ALTER b DROP NOT NULL", "b INTEGER"),
        ("DROP COLUMN IF EXISTS z", "b INTEGER"),
        ('ALTER COLUMN b TYPE TEXT COLLATE "C" USING b::text', "b TEXT"),
    ],
)
def test_alter_table_changes_columns_of_a_file(alter: str, wanted: str) -> None:
    schema = load_ddl(f"CREATE TABLE t (a INT PRIMARY KEY, b INT); ALTER TABLE t {alter}")
    assert wanted in columns(schema)


def test_alter_table_drops_constraints_of_a_file_by_name() -> None:
    kept = "CREATE TABLE t (a INT PRIMARY KEY, b INT, c TEXT); CREATE INDEX i ON t (a) WHERE b > 3;"
    drops = "ALTER TABLE t DROP CONSTRAINT k, DROP CONSTRAINT f; ALTER TABLE t DROP CONSTRAINT q;"
    assert load_ddl(ALTERED + drops) == load_ddl(f"{PARENT} {kept} CREATE INDEX j ON t (c)")
    assert problems(ALTERED + "ALTER TABLE t DROP CONSTRAINT z")
    assert not problems(ALTERED + "ALTER TABLE t DROP CONSTRAINT IF EXISTS z")


def test_alter_table_drops_no_constraint_of_another_table_and_no_plain_index() -> None:
    assert problems(ALTERED + "ALTER TABLE p DROP CONSTRAINT q")
    assert problems(ALTERED + "ALTER TABLE t DROP CONSTRAINT j")


@pytest.mark.parametrize(
    ("declared", "type_", "wanted"),
    [
        ("INT DEFAULT 7", "TEXT", "'7'"),
        ("TEXT DEFAULT '7'", "BIGINT", "7"),
        ("DATE DEFAULT now()", "TIMESTAMP", "CURRENT_TIMESTAMP"),
        ("UUID DEFAULT gen_random_uuid()", "TEXT", "gen_random_uuid()"),
    ],
)
def test_a_default_follows_the_type_that_alter_table_gives(
    declared: str, type_: str, wanted: str
) -> None:
    text = f"CREATE TABLE t (a INT PRIMARY KEY, b {declared}); ALTER TABLE t ALTER b TYPE {type_}"
    schema = load_ddl(text)
    assert f"b {schema.relation('t').column('b').type.ddl()} DEFAULT {wanted}" in render_ddl(schema)
    assert schema == load_ddl(render_ddl(schema))


@pytest.mark.parametrize("before", ["", "DEFAULT 3", "DEFAULT 1 + 1"])
def test_set_default_of_a_file_replaces_the_default(before: str) -> None:
    table = "CREATE TABLE t (a INT PRIMARY KEY, b INT {});"
    for default in ("4", "2 + 2"):
        set_default = f" ALTER TABLE t ALTER b SET DEFAULT {default}"
        expected = load_ddl(table.format(f"DEFAULT {default}"))
        assert load_ddl(table.format(before) + set_default) == expected


@pytest.mark.parametrize(
    ("declared", "alter", "message"),
    [
        ("SERIAL", "SET DEFAULT 1", "Column b has two defaults."),
        ("INT GENERATED ALWAYS AS (a + 1) STORED", "SET DEFAULT 1", "Column b has two defaults."),
        ("TEXT DEFAULT 'x'", "TYPE INT", "The default of b does not fit the new type: "),
        ("TIMESTAMP DEFAULT now()", "TYPE INT", "Default CURRENT_TIMESTAMP does not fit type "),
        ("UUID DEFAULT gen_random_uuid()", "TYPE INT", "Default gen_random_uuid() does not fit "),
        ("TEXT", 'TYPE TEXT COLLATE "en_US"', "COLLATE en_US is not supported here."),
        ("INT GENERATED ALWAYS AS (a + 1) STORED", "DROP DEFAULT", "ALTER COLUMN b DROP DEFAULT "),
    ],
)
def test_alter_table_of_a_file_refuses_what_a_statement_refuses(
    declared: str, alter: str, message: str
) -> None:
    text = f"CREATE TABLE t (a INT PRIMARY KEY, b {declared}); ALTER TABLE t ALTER b {alter}"
    (found,) = problems(text)
    assert found.startswith(message)


@pytest.mark.parametrize(
    "alter", ["t DROP COLUMN z", "t ALTER z SET NOT NULL", "p DROP COLUMN k, ADD k INT"]
)
def test_alter_table_of_a_file_has_problems(alter: str) -> None:
    keyed = ALTERED.replace("REFERENCES p", "REFERENCES p (k)")
    assert problems(f"{keyed} ALTER TABLE {alter}")


def test_a_domain_in_quotes_may_have_the_name_of_a_type() -> None:
    text = (
        'CREATE DOMAIN "Name" varchar(50) NOT NULL; CREATE TABLE t (a "Name" PRIMARY KEY, b TEXT)'
    )
    assert columns(load_ddl(text)) == ["a VARCHAR(50) NOT NULL", "b TEXT"]
    assert problems("CREATE TABLE t (a INT PRIMARY KEY, b name)")


REFERENCES = (
    "CREATE TABLE p (k {0} PRIMARY KEY); CREATE TABLE t (a INT PRIMARY KEY, k {1} REFERENCES p)"
)


@pytest.mark.parametrize(("parent", "child"), [("BIGINT", "INTEGER"), ("INTEGER", "BIGINT")])
def test_a_column_gets_the_integer_type_that_it_references(parent: str, child: str) -> None:
    text = f"{REFERENCES}; CREATE TABLE u (k {{1}} PRIMARY KEY REFERENCES p (k), l {{1}})"
    schema = load_ddl(text.format(parent, child))
    wanted = load_ddl(text.replace("l {1}", f"l {child}").format(parent, parent))
    assert schema == wanted
    assert f"t.k: {parent}, as p.k, which it references" in schema.notes
    assert problems(REFERENCES.format("BIGINT", "TEXT"))


def test_integer_types_agree_along_references_and_around_circles() -> None:
    text = (
        "CREATE TABLE a (k INT PRIMARY KEY REFERENCES b); CREATE TABLE b (k BIGINT PRIMARY KEY"
        " REFERENCES c); CREATE TABLE c (k INT PRIMARY KEY REFERENCES b); CREATE TABLE d"
        " (k BIGINT PRIMARY KEY REFERENCES a)"
    )
    schema = load_ddl(text)
    assert len({schema.relation(name).column("k").type for name in "abcd"}) == 1


def test_checks_and_indexes_that_call_functions_of_the_file_are_left_out_and_noted() -> None:
    text = (
        "CREATE FUNCTION public.plain(t TEXT) RETURNS BOOLEAN LANGUAGE sql AS $$ SELECT true $$;\n"
        "CREATE TABLE t (a INT PRIMARY KEY, b TEXT CHECK (plain(b)), CHECK (a > 0));\n"
        "CREATE UNIQUE INDEX i ON t (plain(b));"
    )
    schema = load_ddl(text)
    assert schema == load_ddl("CREATE TABLE t (a INT PRIMARY KEY, b TEXT, CHECK (a > 0))")
    assert "left out: CHECK in line 2, which calls a function of the file" in schema.notes
    (note,) = (each for each in schema.notes if each.startswith("passed over: index i in line 3"))
    assert note.endswith("not UNIQUE any more")


def test_indexes_that_only_make_queries_faster_are_passed_over() -> None:
    table = "CREATE TABLE t (a INT PRIMARY KEY, b INT[], c JSONB);"
    schema = load_ddl(f"{table} CREATE INDEX i ON t (a, b); CREATE INDEX j ON t USING hash (a)")
    assert schema == load_ddl(f"{table} CREATE INDEX j ON t (a)")
    assert any(note.startswith("passed over: index i in line 1") for note in schema.notes)
    assert problems(f"{table} CREATE UNIQUE INDEX i ON t (b)")


def test_an_index_of_a_view_that_is_passed_over_is_passed_over() -> None:
    text = (
        "CREATE TABLE [t] ([a] int PRIMARY KEY, [x] AS (a + 1), [h] hierarchyid)\nGO\n"
        "CREATE VIEW [v] WITH SCHEMABINDING AS SELECT a FROM dbo.t\nGO\n"
        "CREATE UNIQUE CLUSTERED INDEX [i] ON [v] ([a])\nGO\n"
        "CREATE UNIQUE INDEX [j] ON [t] ([x])\nGO\n"
        "DISABLE TRIGGER [r] ON DATABASE\nGO\n"
    )
    schema = load_ddl(text, source=Source.SQLSERVER)
    assert not schema.indexes
    assert schema.relation("t").column("h").type.ddl() == "BLOB"
    assert sum("index" in note for note in schema.notes) == 2


def test_an_index_of_an_immediate_view_is_kept_without_unique() -> None:
    view = "CREATE MATERIALIZED VIEW v AS SELECT b, count(*) AS n FROM t GROUP BY b;"
    text = f"CREATE TABLE t (a INT PRIMARY KEY, b INT NOT NULL); {view}"
    assert load_ddl(f"{text} CREATE UNIQUE INDEX i ON v (n)") == load_ddl(
        f"{text} CREATE INDEX i ON v (n)"
    )


def test_a_virtual_table_of_sqlite_is_passed_over() -> None:
    text = "CREATE TABLE t (a INTEGER PRIMARY KEY);\nCREATE VIRTUAL TABLE f USING fts4 (a, b);"
    reading = read_file(text)
    assert reading.source is Source.SQLITE
    assert not reading.problems.found()
    assert "passed over: CREATE VIRTUAL (line 2)" in reading.schema.notes


def test_a_database_of_mysql_may_have_a_character_set() -> None:
    text = "CREATE SCHEMA IF NOT EXISTS `n` DEFAULT CHARACTER SET latin1 ;\nUSE `n` ;\n"
    schema = load_ddl(f"{text}CREATE TABLE `n`.`t` (a INT PRIMARY KEY) ENGINE = InnoDB;")
    assert schema.names == ("t",)


def test_a_unique_constraint_may_be_deferrable() -> None:
    table = "CREATE TABLE t (a INT PRIMARY KEY, b INT, UNIQUE NULLS NOT DISTINCT (b)"
    assert load_ddl(f"{table} DEFERRABLE INITIALLY DEFERRED)") == load_ddl(f"{table})")


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


def test_casts_to_an_enum_name_its_type() -> None:
    text = MOOD + (
        "CREATE TABLE t (a INT PRIMARY KEY, m public.mood, CHECK (m <> 'a'::public.mood OR a > 1),"
        " CHECK (m = ANY (ARRAY['a'::mood])), CHECK (CAST('a' AS public.mood) = m),"
        " d TEXT DEFAULT lower('A'::public.mood::text));"
        "CREATE INDEX i ON t (a) WHERE m = 'b'::public.mood;"
        "CREATE VIEW v AS SELECT a AS mood FROM t WHERE m = 'b'::public.mood;"
    )
    shown = render_ddl(load_ddl(text))
    assert "public" not in shown
    assert shown.count("'::mood") == 5
    assert "AS mood) = m" in shown
    assert "SELECT a AS mood FROM t WHERE m = 'b'::mood" in shown


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
    [
        "inet",
        "bit(3)",
        "bit varying(5)",
        "varbit",
        "timetz",
        "macaddr",
        "xml",
        "public.hstore",
        "ltree",
        "point",
        "geometry(Point, 4326)",
    ],
)
def test_types_that_are_kept_as_text_are_noted(written: str) -> None:
    schema = load_ddl(f"CREATE TABLE t (a INT PRIMARY KEY, b {written})")
    assert columns(schema)[1] == "b TEXT"
    assert any("kept as TEXT" in note for note in schema.notes)


def test_a_unique_index_of_a_view_is_kept_without_unique_in_files_only() -> None:
    text = (
        "CREATE TABLE t (a INT PRIMARY KEY, b INT);"
        "CREATE MATERIALIZED VIEW v WITH (refresh = 'immediate') AS"
        " SELECT b, count(*) AS n FROM t GROUP BY b;"
        "CREATE UNIQUE INDEX i ON v (b);"
    )
    with pytest.raises(SchemaError, match="Index i on a view is UNIQUE"):
        load_ddl(text, STATEMENT)
    schema = load_ddl(text)
    assert any("index i in line 1 is kept without UNIQUE" in note for note in schema.notes)
    (index,) = schema.indexes
    assert (index.name, index.relation, index.unique) == ("i", "v", False)


def test_arrays_of_types_that_are_kept_as_text_are_noted() -> None:
    schema = load_ddl("CREATE TABLE t (a INT PRIMARY KEY, b inet[] DEFAULT '{}'::inet[])")
    assert columns(schema)[1] == "b TEXT[]"
    assert any("INET is kept as TEXT" in note for note in schema.notes)


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


@pytest.mark.parametrize(
    "call", ["uuidv7()", "(uuid_generate_v1())", "public.uuid_generate_v1mc()"]
)
def test_defaults_of_unique_identifiers_are_random(call: str) -> None:
    table = "CREATE TABLE t (a INT PRIMARY KEY, b UUID DEFAULT {})"
    assert load_ddl(table.format(call)) == load_ddl(table.format("gen_random_uuid()"))
    assert problems(table.replace("UUID", "INT").format(call))
