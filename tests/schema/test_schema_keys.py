"""Keys and indexes of MySQL, SQLite and SQL Server: expressions, beginnings of columns, options."""

import pytest

from hornbeam_server.schema.ddl import load_ddl, render_ddl
from hornbeam_server.schema.ddl.sources import Source

MYSQL_TABLE = "CREATE TABLE t (`a` int PRIMARY KEY, `b` varchar(20), `c D` text"


def indexes(text: str, source: Source) -> list[str]:
    lines = render_ddl(load_ddl(text, source=source)).split("\n")
    return [line.removesuffix(";") for line in lines if "INDEX" in line]


@pytest.mark.parametrize(
    ("key", "wanted"),
    [
        ("KEY i ((lower(`b`)))", "CREATE INDEX i ON t ((lower(b)))"),
        ("KEY ((`a` + 1))", "CREATE INDEX t_expr_idx ON t ((a + 1))"),
        ("UNIQUE KEY j (a, (lower(`C d`)) DESC)", 'UNIQUE INDEX j ON t (a, (lower("c d")) DESC)'),
        ('CONSTRAINT k UNIQUE KEY l ((`b` = "x\'y"))', "UNIQUE INDEX k ON t ((b = 'x''y'))"),
        ("CONSTRAINT k UNIQUE ((1 + a))", "UNIQUE INDEX k ON t ((1 + a))"),
        ("KEY m (b(10) DESC, a)", "CREATE INDEX m ON t (b DESC, a)"),
        ("KEY n ((lower(b))), KEY o ((a * 2))", "CREATE INDEX o ON t ((a * 2))"),
    ],
)
def test_keys_in_a_table_of_mysql_may_have_expressions(key: str, wanted: str) -> None:
    found = indexes(f"{MYSQL_TABLE}, {key})", Source.MYSQL)
    assert any(wanted in line for line in found), found


@pytest.mark.parametrize(
    "added", ["ADD UNIQUE KEY l ((lower(`b`)))", "ADD UNIQUE `l` ((lower(b)))"]
)
def test_keys_may_be_added_behind_a_table_of_mysql(added: str) -> None:
    found = indexes(f"{MYSQL_TABLE}); ALTER TABLE t {added}", Source.MYSQL)
    assert found == ["CREATE UNIQUE INDEX l ON t ((lower(b)))"]


@pytest.mark.parametrize(
    ("index", "wanted"),
    [
        ("INDEX i USING BTREE ON t (b(3), a)", "INDEX i ON t (b, a)"),
        ("UNIQUE INDEX i ON t (a, (lower(`c D`)) DESC)", 'INDEX i ON t (a, (lower("c d")) DESC)'),
        ("INDEX i ON t (`b`(3) DESC) USING HASH COMMENT 'x(' LOCK=NONE", "INDEX i ON t (b DESC)"),
        ("INDEX i ON t ((left(b, 3)))", "INDEX i ON t ((left(b, 3)))"),
    ],
)
def test_indexes_of_mysql(index: str, wanted: str) -> None:
    (found,) = indexes(f"{MYSQL_TABLE}); CREATE {index}", Source.MYSQL)
    assert found.removeprefix("CREATE ").removeprefix("UNIQUE ") == wanted


def test_an_index_on_a_beginning_is_noted_once_a_line() -> None:
    schema = load_ddl(f"{MYSQL_TABLE}, KEY (b(1)), UNIQUE (b(2)));\nCREATE INDEX i ON t (b(3));")
    noted = [note for note in schema.notes if "beginnings" in note]
    assert [note.split("line ")[1][0] for note in noted] == ["1", "2"]


def test_expressions_of_an_index_are_read_in_the_words_of_the_file() -> None:
    lite = "CREATE TABLE t (a INTEGER PRIMARY KEY, [B c] TEXT);"
    wanted = ['CREATE INDEX i ON t ((lower("b c")), ("b c" || a || \'x\'))']
    index = "CREATE INDEX i ON t (lower([B c]), `B C` || \"A\" || 'x' COLLATE nocase)"
    assert indexes(lite + index, Source.SQLITE) == wanted
    server = "CREATE TABLE t ([A] int PRIMARY KEY, [B c] nvarchar(9));\nGO\n"
    index = "CREATE INDEX i ON t ([b C] DESC) WHERE [B c] = N'x'"
    assert indexes(server + index, Source.SQLSERVER) == [
        'CREATE INDEX i ON t ("b c" DESC) WHERE ("b c" = \'x\')'
    ]
