"""The blanks at the end of a CHAR(n) do not count, wherever its values are compared."""

from __future__ import annotations

import pytest

from hornbeam_server.schema.catalog import State
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import TypeMismatch, UniqueViolation
from tests.txlayer.database_world import catalog_of, check, opened, run_all

TABLES = load_ddl(
    "CREATE TABLE land (code CHAR(4) PRIMARY KEY, name TEXT);"
    "CREATE TABLE town (id INTEGER PRIMARY KEY, land CHAR(4) REFERENCES land, short BPCHAR UNIQUE,"
    " note TEXT)"
)
ROWS = (
    "INSERT INTO land VALUES ('ab  ', 'first'), ('cd', 'second'), ('    ', 'none')",
    "INSERT INTO town VALUES (1, 'ab ', 'x  ', 'ab'), (2, 'cd', 'y', 'cd  '), (3, '', NULL, '')",
)
"""The note of town 2 is a TEXT, whose blanks count."""
FOUND = [
    ("SELECT code, length(code) FROM land WHERE code = 'ab    '", [("ab", 2)]),
    ("SELECT name FROM land WHERE code IN ('cd ', 'zz')", [("second",)]),
    ("SELECT name FROM land WHERE code = ''", [("none",)]),
    ("SELECT name FROM land WHERE code BETWEEN 'ab ' AND 'b '", [("first",)]),
    ("SELECT id FROM town WHERE short = 'x'", [(1,)]),
    ("SELECT id FROM town WHERE 'x      ' = short", [(1,)]),
    ("SELECT id FROM town WHERE short <> 'x '", [(2,)]),
    ("SELECT id FROM town WHERE land = note", [(1,), (3,)]),
    ("SELECT id, name FROM town JOIN land ON land = code WHERE id < 3",
     [(1, "first"), (2, "second")]),
    ("SELECT land || '.' FROM town WHERE id = 1", [("ab.",)]),
    ("SELECT id FROM (SELECT id, land AS l FROM town UNION ALL SELECT 9, 'ab') AS u"
     " WHERE l = 'ab'", [(1,), (9,)]),
    ("SELECT land, count(*) FROM town GROUP BY land HAVING land = 'cd '", [("cd", 1)]),
]  # fmt: skip


async def test_values_are_equal_that_differ_in_blanks_at_the_end(tmp_path):
    async with opened(tmp_path, catalog_of(TABLES)) as database:
        await run_all(database, *ROWS)
        for sql, wanted in FOUND:
            for asked in (sql, f"SELECT * FROM ({sql}) AS q QUALIFY row_number() OVER () > 0"):
                assert sorted(await database.fetch(asked)) == wanted, asked
        given = "SELECT name FROM land WHERE code = ? OR code = ?"
        assert await database.fetch(given, ["cd   ", "zz "]) == [("second",)]
        with pytest.raises(UniqueViolation):
            await database.execute("INSERT INTO land VALUES ('ab   ', 'again')")
        with pytest.raises(TypeMismatch, match=r"CHAR\(4\): longer than 4"):
            await database.execute("INSERT INTO land VALUES ('abcde', 'long')")
        await run_all(
            database,
            "UPDATE town SET land = 'cd   ' WHERE land = 'ab '",
            "DELETE FROM land WHERE code = 'ab   '",
        )
        assert await database.fetch("SELECT count(*) FROM town WHERE land = 'cd'") == [(2,)]
        assert {*database.catalog.state.values()} <= {State.READABLE}
        await check(database)
