"""Dumps in other encodings than UTF-8, compressed dumps, and the literals of each dialect."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import hornbeam
from hornbeam.cli.texts import encoding_of
from tests.client import client_world
from tests.client.client_world import Run

TABLE = (
    "CREATE TABLE `t` (`a` int NOT NULL, `b` varchar(30), `c` blob, PRIMARY KEY (`a`)) ENGINE=X;\n"
)


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    where = client_world.embedded(tmp_path / "db")
    with hornbeam.connect(where):
        yield where


def rows(url: str) -> list[tuple[Any, ...]]:
    with hornbeam.connect(url, autocommit=True) as db:
        return [tuple(row) for row in db.cursor().execute("SELECT * FROM t ORDER BY a").fetchall()]


@pytest.mark.parametrize(
    ("head", "encoding", "options"),
    [
        ("/*!40101 SET NAMES latin1 */;\n", "cp1252", ()),
        ("SET NAMES 'koi8r';\n", "koi8-r", ()),
        ("", "shift_jis", ("--encoding", "sjis")),
        ("SET NAMES utf8mb4;\n", "utf-8", ()),
        ("SET NAMES latin1;\n", "utf-8", ("--encoding", "utf-8")),
    ],
)
def test_a_dump_is_read_in_its_encoding(
    run: Run, url: str, tmp_path: Path, head: str, encoding: str, options: tuple[str, ...]
) -> None:
    text = {"koi8-r": "Ёж", "shift_jis": "東京"}.get(encoding, "Málaga € ß")
    dump = tmp_path / "d.sql"
    insert = f"INSERT INTO `t` VALUES (1,'{text}',_binary '{text}');\n"
    dump.write_bytes((head + TABLE + insert).encode(encoding))
    code, _, errors = run("import", str(dump), *options, "--url", url)
    assert code == 0, errors
    assert rows(url) == [(1, text, text.encode(encoding))]


def test_an_unknown_encoding_is_named(run: Run, url: str, tmp_path: Path) -> None:
    dump = tmp_path / "d.sql"
    dump.write_text(TABLE)
    code, _, errors = run("import", str(dump), "--encoding", "klingon", "--url", url)
    assert code != 0
    assert "klingon" in errors


@pytest.mark.parametrize(
    ("ending", "compress"),
    [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)],
)
def test_a_compressed_dump_is_planned_and_imported(
    run: Run, url: str, tmp_path: Path, ending: str, compress: Callable[[bytes], bytes]
) -> None:
    dump = tmp_path / f"d.sql{ending}"
    dump.write_bytes(compress(f"{TABLE}INSERT INTO t VALUES (1,'é',NULL);".encode()))
    code, out, errors = run("schema", "plan", str(dump), "--suggest", "--url", url)
    assert code == 0, errors
    assert "CREATE TABLE t" in out
    code, _, errors = run("import", str(dump), "--url", url)
    assert code == 0, errors
    assert rows(url) == [(1, "é", None)]


def test_a_damaged_file_is_named(run: Run, url: str, tmp_path: Path) -> None:
    dump = tmp_path / "d.sql.xz"
    dump.write_bytes(lzma.compress(TABLE.encode())[:-9])
    code, _, errors = run("import", str(dump), "--url", url)
    assert code != 0
    assert "d.sql.xz cannot be read" in errors


@pytest.mark.parametrize(
    ("head", "wanted"),
    [
        (b"SET client_encoding = 'LATIN1';", "iso8859-1"),
        (b"SET client_encoding TO WIN1251;", "cp1251"),
        (b"SET client_encoding = 'SQL_ASCII';", "utf-8"),
        (b"-- x\n  set names 'latin1';", "cp1252"),
        (b"SET NAMES binary;", "utf-8"),
        (b"\xef\xbb\xbfSET NAMES latin1;", "utf-8"),
        (b"INSERT INTO t VALUES ('SET NAMES latin1');", "utf-8"),
        (b"", "utf-8"),
    ],
)
def test_the_encoding_that_a_file_says(head: bytes, wanted: str) -> None:
    assert encoding_of(head) == wanted


MYSQL = r"""
INSERT INTO `t` VALUES (1,'it\'s ''x'' \"y\" \\ \0 \Z \% \_ \n',x'00ff'),(2,_utf8mb4'é',0x41),
 (3,b'101',X'6162'),(4,"a ""b"" 'c'",_binary 'a\0b'),(5,N'n',NULL),(-6,'+5',''),(+7,1.5e3,0x);
"""
SQLITE = """PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT, c BLOB);
INSERT INTO t VALUES(1,replace('a\\nb','\\n',char(10)),X'00ff');
INSERT INTO t VALUES(2,replace(replace('a\\r\\nb','\\r',char(13)),'\\n',char(10)),NULL);
INSERT INTO t VALUES(3,unistr('a\\u000ab\\u0001\\\\'),X'');
INSERT INTO t VALUES(4,'a' || char(10,13) || 'b',x'41');
COMMIT;
"""
SERVER = """SET NOCOUNT ON
GO
/* a /* nested */ comment */
CREATE TABLE [dbo].[t]([a] [int] IDENTITY(1,1) NOT NULL, [b] [nvarchar](30) NULL,
 [c] [varbinary](9) NULL, [d] [datetime] NULL, [e] [date] NULL, [f] [bit] NULL, [g] [money] NULL,
 CONSTRAINT [p] PRIMARY KEY CLUSTERED ([a] ASC)) ON [PRIMARY]
GO
PRINT 'rows; of t'
SET IDENTITY_INSERT [dbo].[t] ON
INSERT [dbo].[t] ([a], [b], [c], [d], [e], [f], [g]) VALUES
 (1, N'it''s', 0x00FF, CAST(0x0000A5DE00C5C100 AS DateTime), CAST(0x5B3A0B00 AS Date), 3, $19.99)
INSERT [dbo].[t] ([a], [b], [c], [d], [e]) VALUES (2, N'G' + CHAR(79), NULL,
 CAST(N'2015-12-31T12:00:00.003' AS DateTime), CAST(N'2016-01-01' AS Date))
SET IDENTITY_INSERT [dbo].[t] OFF
GO
"""


def test_literals_of_mysql(run: Run, url: str, tmp_path: Path) -> None:
    dump = tmp_path / "d.sql"
    dump.write_text(TABLE + MYSQL)
    code, _, errors = run("import", str(dump), "--dialect", "mysql", "--url", url)
    assert code == 0, errors
    assert rows(url) == [
        (-6, "+5", b""),
        (1, "it's 'x' \"y\" \\ \0 \x1a \\% \\_ \n", b"\x00\xff"),
        (2, "é", b"A"),
        (3, "5", b"ab"),
        (4, "a \"b\" 'c'", b"a\0b"),
        (5, "n", None),
        (7, "1.5e3", b""),
    ]


def test_literals_of_sqlite(run: Run, url: str, tmp_path: Path) -> None:
    dump = tmp_path / "d.sql"
    dump.write_text(SQLITE)
    code, _, errors = run("import", str(dump), "--url", url)
    assert code == 0, errors
    assert rows(url) == [
        (1, "a\nb", b"\x00\xff"),
        (2, "a\r\nb", None),
        (3, "a\nb\x01\\", b""),
        (4, "a\n\rb", b"A"),
    ]


def test_literals_of_sqlserver(run: Run, url: str, tmp_path: Path) -> None:
    dump = tmp_path / "d.sql"
    dump.write_text(SERVER, encoding="utf-16")
    code, _, errors = run("import", str(dump), "--url", url)
    assert code == 0, errors
    shown = [[str(value) for value in row] for row in rows(url)]
    assert shown == [
        ["1", "it's", str(b"\x00\xff"), "2016-04-04 12:00:00", "2015-08-26", "True", "19.9900"],
        ["2", "GO", "None", "2015-12-31 12:00:00.003000", "2016-01-01", "None", "None"],
    ]
