"""The statements that Tableau sends when it connects, as the tests of Aircloak have them
(https://github.com/Aircloak/aircloak, integration_tests/test/tableau_test.exs). Those of the system
catalog are in `tests/catalogue`."""

import psycopg
import pytest

CURSOR = """BEGIN;declare "SQL_CUR04645D10" cursor for select relname, nspname, relkind
from pg_catalog.pg_class c, pg_catalog.pg_namespace n where relkind in ('r', 'v') and nspname not in
('pg_catalog', 'information_schema', 'pg_toast', 'pg_temp_1') and n.oid = relnamespace
order by nspname, relname;fetch 2048 in "SQL_CUR04645D10";"""


def test_the_relations_come_through_a_cursor_in_one_text(wire):
    with wire.connect() as connection:
        cursor = connection.execute(CURSOR)
        tags = [cursor.statusmessage]
        while cursor.nextset():
            tags.append(cursor.statusmessage)
        rows = cursor.fetchall()
        assert tags == ["BEGIN", "DECLARE CURSOR", f"FETCH {len(rows)}"]
        assert ("item", "public", "r") in rows
        connection.execute("COMMIT")


@pytest.mark.parametrize("prepare", [False, True])
def test_the_connection_is_tried(wire, prepare):
    with wire.connect() as connection:
        for sql, row in (
            (" \n seLect  \n  -1234\n", (-1234,)),
            ("SELECT  \n 34.457::float ", (34.457,)),
            ("seLect True;", (True,)),
            ("seLect 'ab''cd'", ("ab'cd",)),
            ('show "lc_collate"', ("C",)),
        ):
            assert connection.execute(sql, prepare=prepare).fetchone() == row


@pytest.mark.parametrize(
    ("sql", "sqlstate"),
    [
        (
            "-- statement does not return rows\nSELECT *\n"
            'INTO TEMPORARY TABLE "#Tableau_5_1_Connect"\n'
            "FROM (SELECT 1 AS COL) AS CHECKTEMP\nLIMIT 1",
            "0A000",
        ),
        ('DROP TABLE "#Tableau_5_1_Connect"', "42P01"),
        (
            'CREATE LOCAL TEMPORARY TABLE "#Tableau_5_2_Connect" (\n\t"COL" INTEGER\n\t)'
            " ON COMMIT PRESERVE ROWS",
            "0A000",
        ),
        ("CREATE GLOBAL TEMP TABLE temporary (k INTEGER)", "0A000"),
        ('DEALLOCATE "foobar"', "26000"),
    ],
)
def test_temporary_tables_are_refused_by_name_and_the_session_goes_on(wire, sql, sqlstate):
    with wire.connect() as connection:
        with pytest.raises(psycopg.Error) as caught:
            connection.execute(sql)
        assert caught.value.sqlstate == sqlstate
        if sqlstate == "0A000":
            assert "no temporary tables" in str(caught.value)
        assert connection.execute("SELECT 1").fetchone() == (1,)
