"""Classification and splitting of SQL, and DDL as changes of the whole schema."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hornbeam.ddl import evolve
from hornbeam.errors import NotSupportedError, ProgrammingError
from hornbeam.namespaces import Setting, setting_of_path
from hornbeam.statements import Kind, is_complete, kind, quote, split, tokens


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT 1", Kind.READ),
        ("  -- insert\n/* update /* nested */ */ (SELECT 1)", Kind.READ),
        ("((SELECT 1) UNION (SELECT 2))", Kind.READ),
        ("FROM t", Kind.READ),
        ("VALUES (1)", Kind.READ),
        ("", Kind.READ),
        ("insert INTO t VALUES (1)", Kind.WRITE),
        ("/* c */ UPDATE t SET a = 'select'", Kind.WRITE),
        ("DELETE FROM t", Kind.WRITE),
        ("REPLACE INTO t VALUES (1)", Kind.WRITE),
        ("truncate table t", Kind.WRITE),
        ("MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN DELETE", Kind.WRITE),
        ("REFRESH MATERIALIZED VIEW v", Kind.DDL),
        ("set search_path to public", Kind.SET),
        ("WITH replace AS (SELECT 1) SELECT * FROM replace", Kind.READ),
        ("WITH x AS (SELECT 1) SELECT * FROM x", Kind.READ),
        ("WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x", Kind.WRITE),
        ("WITH RECURSIVE x (a, b) AS (SELECT 1, 2), y AS MATERIALIZED (SELECT 1)\n"
         "UPDATE t SET a = 1", Kind.WRITE),
        ("WITH a AS (SELECT ')' || $$ ) DELETE $$), b AS NOT MATERIALIZED (SELECT 1)"
         " DELETE FROM t", Kind.WRITE),
        ("WITH x AS (SELECT 1), y (a) AS (DELETE FROM t RETURNING *) SELECT * FROM y", Kind.WRITE),
        ("WITH x AS MATERIALIZED (insert into t VALUES (1)) SELECT 1", Kind.WRITE),
        ("WITH update AS (SELECT 1) SELECT * FROM update", Kind.READ),
        ("WITH x AS (SELECT 1) SELECT 'a) delete from t' FROM x", Kind.READ),
        ("WITH x AS (SELECT 1) (SELECT ') delete' FROM x)", Kind.READ),
        ("(WITH x AS (SELECT 1) SELECT * FROM x)", Kind.READ),
        ("CREATE TABLE t (a INT)", Kind.DDL),
        ("drop index i", Kind.DDL),
        ("ALTER TABLE t ADD COLUMN a INT", Kind.DDL),
        ("EXPLAIN SELECT 1", Kind.EXPLAIN),
        ("BEGIN", Kind.CONTROL),
        ("rollback", Kind.CONTROL),
        ("SET TRANSACTION READ ONLY", Kind.CONTROL),
        ("set session characteristics as transaction read only", Kind.CONTROL),
        ("PREPARE q AS DELETE FROM t", Kind.PREPARE),
        ("execute q (1)", Kind.EXECUTE),
        ("DEALLOCATE ALL", Kind.DEALLOCATE),
        ("VACUUM t", Kind.UPKEEP),
        ("analyse", Kind.UPKEEP),
    ],
)  # fmt: skip
def test_statements_are_classified(sql: str, expected: Kind) -> None:
    assert kind(sql) is expected


def test_split_leaves_strings_comments_and_parentheses_alone() -> None:
    script = "SELECT ';' ; -- a ; b\n;;\nINSERT INTO t VALUES ($x$;$x$) /* ; */; SELECT \"a;b\""
    assert split(script) == [
        "SELECT ';'",
        "INSERT INTO t VALUES ($x$;$x$) /* ; */",
        'SELECT "a;b"',
    ]


def test_a_prompt_knows_when_a_statement_ends() -> None:
    assert is_complete("SELECT 1;")
    assert is_complete("SELECT 1; -- done")
    assert not is_complete("SELECT ';")
    assert not is_complete("SELECT 1 /* ;")
    assert not is_complete("")


@given(st.text(alphabet="ab'\";-$/*()\n ", max_size=40))
def test_tokens_cover_the_text_in_order(text: str) -> None:
    found = list(tokens(text))
    assert [text[t.start : t.start + len(t.text)] for t in found] == [t.text for t in found]
    assert [t.start for t in found] == sorted(t.start for t in found)
    assert all(statement.strip() for statement in split(text))


@given(st.text(min_size=1, max_size=20))
def test_a_quoted_name_is_one_token(name: str) -> None:
    assert [t.text for t in tokens(quote(name))] == [quote(name)]


TWO = 'CREATE TABLE a (\n  id INTEGER\n);\nCREATE TABLE "B c" (\n  id INTEGER\n);\n'


def test_create_adds_and_drop_removes_a_table_with_its_indexes() -> None:
    with_index = evolve(TWO, 'CREATE UNIQUE INDEX i ON "B c" (id);')
    assert with_index == TWO + 'CREATE UNIQUE INDEX i ON "B c" (id);\n'
    assert evolve(with_index, 'DROP TABLE "B c"') == "CREATE TABLE a (\n  id INTEGER\n);\n"
    assert evolve(with_index, "DROP INDEX IF EXISTS i") == TWO
    assert evolve(with_index, "drop index I") == TWO


def test_names_may_have_the_schema_public() -> None:
    with_index = evolve(TWO, "CREATE INDEX i ON public.a (id)")
    assert evolve(with_index, 'DROP TABLE public."B c"').endswith("ON public.a (id);\n")
    assert evolve(with_index, 'DROP TABLE "public".a, "B c"') == ""
    assert evolve(TWO, "CREATE TABLE IF NOT EXISTS public.a (id INTEGER)") == TWO
    with pytest.raises(ProgrammingError, match=r'no schema "s".*\n.*CREATE SCHEMA "s"'):
        evolve(TWO, "CREATE TABLE s.a (id INTEGER)")


SHOP = (
    'CREATE SCHEMA shop;\nCREATE SCHEMA "H r";\nCREATE TABLE a (\n  id INTEGER\n);\n'
    'CREATE TABLE shop.a (\n  id INTEGER\n);\nCREATE TABLE "H r".b (\n  id INTEGER\n);\n'
    "CREATE INDEX i ON shop.a (id);\n"
)


def test_names_belong_to_schemas() -> None:
    assert "shop.a (" not in evolve(SHOP, "DROP TABLE hornbeam.shop.a")
    assert evolve(SHOP, "DROP TABLE a, shop.a") == evolve(
        evolve(SHOP, "DROP TABLE shop.a"), "DROP TABLE a"
    )
    assert evolve(SHOP, "DROP INDEX shop.i") == SHOP[: SHOP.index("CREATE INDEX")]
    assert evolve(SHOP, 'CREATE TABLE IF NOT EXISTS "H r".b (x INT)') == SHOP
    assert evolve(SHOP, 'CREATE INDEX i ON "H r".b (id)').endswith(
        'CREATE INDEX i ON "H r".b (id);\n'
    )
    assert evolve(SHOP, "CREATE SCHEMA IF NOT EXISTS shop") == SHOP
    assert evolve(SHOP, "CREATE SCHEMA more") == SHOP + "CREATE SCHEMA more;\n"
    for statement, wrong in (
        ("CREATE SCHEMA shop", "exists already"),
        ("CREATE SCHEMA public", "exists already"),
        ("CREATE TABLE shop.a (x INT)", '"shop.a" exists already'),
        ("CREATE INDEX i ON shop.a (id)", '"shop.i" exists already'),
        ("CREATE TABLE none.a (x INT)", 'no schema "none"'),
        ("DROP TABLE shop.b", '"shop.b" does not exist'),
        ("DROP INDEX i", '"i" does not exist'),
    ):
        with pytest.raises(ProgrammingError, match=wrong):
            evolve(SHOP, statement)


def test_a_search_path_finds_names_and_is_written_before_new_ones() -> None:
    path = ("none", "H r", "shop", "public")
    assert "shop.a (" not in evolve(SHOP, "DROP TABLE a", path)
    assert evolve(SHOP, "DROP INDEX i", path) == SHOP[: SHOP.index("CREATE INDEX")]
    assert evolve(SHOP, "CREATE TABLE c (x INT)", path) == (
        SHOP + 'SET search_path TO "none", "H r", "shop", "public";\nCREATE TABLE c (x INT);\n'
    )
    with pytest.raises(ProgrammingError, match="exists already"):
        evolve(SHOP, "CREATE TABLE b (x INT)", path)
    with pytest.raises(ProgrammingError, match="No schema of the search path"):
        evolve(SHOP, "CREATE TABLE b (x INT)", ("none",))


@pytest.mark.parametrize(
    ("sql", "path", "local"),
    [
        ("SET search_path TO shop, \"H r\", 'it''s'", ("shop", "H r", "it's"), False),
        ("set session Search_Path = Shop;", ("shop",), False),
        ("SET LOCAL search_path TO a", ("a",), True),
        ("SET SCHEMA 'Shop'", ("Shop",), False),
        ("SET search_path TO DEFAULT", None, False),
        ("RESET search_path", None, False),
    ],
)
def test_a_search_path_is_read(sql: str, path: tuple[str, ...] | None, local: bool) -> None:
    assert kind(sql) is Kind.SET
    assert setting_of_path(sql) == Setting(path, local)


def test_other_settings_are_no_search_path() -> None:
    assert setting_of_path("SET timezone TO utc") is None
    for sql in ("SET search_path TO", "SET search_path TO a b", "SET search_path TO a,"):
        with pytest.raises(ProgrammingError, match="gives no search path"):
            setting_of_path(sql)


def test_drop_removes_all_listed_items_and_accepts_no_other_words() -> None:
    three = TWO + "CREATE TABLE c (\n  id INTEGER\n);\nCREATE INDEX i ON c (id);\n"
    assert evolve(three, 'DROP TABLE a, "B c"').startswith("CREATE TABLE c")
    assert evolve(three, "DROP TABLE c, a") == TWO[TWO.index('CREATE TABLE "B c"') :]
    assert evolve(three, "DROP TABLE IF EXISTS nothing, c") == TWO
    with pytest.raises(ProgrammingError, match='"nothing" does not exist'):
        evolve(three, "DROP TABLE a, nothing")
    for statement, word in (
        ("DROP INDEX i ON c", "ON"), ("DROP TABLE a CASCADE", "CASCADE"), ("DROP TABLE a b", "b"),
        ("DROP TABLE a IF EXISTS", "IF"), ("DROP TABLE a, c d", "d"),
    ):  # fmt: skip
        with pytest.raises(
            NotSupportedError, match=f"^{word} is not supported after DROP .*\n  Give"
        ):
            evolve(three, statement)


@pytest.mark.parametrize(
    "statement",
    ["DROP", "CREATE", "ALTER", "CREATE UNIQUE", "CREATE TABLE", "CREATE TABLE IF NOT EXISTS",
     "CREATE INDEX", "DROP TABLE", "DROP TABLE IF EXISTS", "DROP TABLE a,"],
)  # fmt: skip
def test_a_statement_that_ends_too_early_is_refused(statement: str) -> None:
    with pytest.raises(ProgrammingError, match=r"ends before.*\n  Write"):
        evolve(TWO, statement)


def test_guards_apply_and_unsupported_changes_are_refused() -> None:
    with pytest.raises(ProgrammingError, match="one at a time"):
        evolve(TWO, "CREATE TABLE c (x TEXT); DROP TABLE a")
    assert evolve(TWO, "CREATE TABLE IF NOT EXISTS a (x TEXT)") == TWO
    assert evolve(TWO, "DROP TABLE IF EXISTS nothing") == TWO
    with pytest.raises(ProgrammingError, match="exists already"):
        evolve(TWO, "CREATE TABLE a (x TEXT)")
    with pytest.raises(ProgrammingError, match="does not exist"):
        evolve(TWO, "DROP TABLE nothing")
    with pytest.raises(NotSupportedError, match="CREATE FUNCTION"):
        evolve(TWO, "CREATE FUNCTION f() RETURNS int AS 'SELECT 1'")


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE q (y INT) INHERITS (a)",
        "CREATE TABLE IF NOT EXISTS q () INHERITS (a)",
        "CREATE TABLE s.q (CHECK (x > 'a')) INHERITS (a)",
        "CREATE TABLE q PARTITION OF a FOR VALUES FROM (1) TO (3)",
    ],
)
def test_a_table_of_the_columns_and_rows_of_another_one_is_refused(statement: str) -> None:
    with pytest.raises(NotSupportedError, match=r"(INHERITS|PARTITION OF) is not supported"):
        evolve(f"CREATE SCHEMA s; {TWO}", statement)
    evolve(TWO, "CREATE TABLE q (inherits INT, CHECK (inherits > 0)) PARTITION BY RANGE (inherits)")
