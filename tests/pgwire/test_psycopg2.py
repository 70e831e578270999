"""psycopg 2, which writes its parameters into the text and sends simple queries."""

import datetime as dt
import decimal
import io
import uuid

import psycopg2
import psycopg2.extras
import pytest
from psycopg2 import errors, sql


@pytest.fixture
def connection(wire):
    psycopg2.extras.register_uuid()
    found = psycopg2.connect(wire.dsn())
    found.autocommit = True
    yield found
    found.close()


def test_values_of_all_types_come_back(connection):
    values = {
        "k_id": 1, "k_small": -3, "k_decimal": decimal.Decimal("12.5000000000"), "k_double": 1.5,
        "k_real": 0.25, "k_flag": True, "k_bytes": b"\\x\x00'", "k_date": dt.date(2024, 2, 29),
        "k_time": dt.time(1, 2, 3, 4), "k_at": dt.datetime(2024, 1, 2, 3, 4, 5, 6),
        "k_instant": dt.datetime(2024, 1, 2, tzinfo=dt.UTC),
        "k_interval": dt.timedelta(days=1, seconds=2), "k_uuid": uuid.UUID(int=7),
        "k_text": "it's a \\ 🌲 %", "k_texts": ["a", 'b"', "c,"], "k_numbers": [1, 2],
    }  # fmt: skip
    names = sql.SQL(", ").join(map(sql.Identifier, values))
    marks = sql.SQL(", ").join(sql.Placeholder() * len(values))
    insert = sql.SQL("INSERT INTO kinds ({}) VALUES ({}) RETURNING {}").format(names, marks, names)
    with connection.cursor() as cursor:
        cursor.execute(insert, list(values.values()))
        row = list(cursor.fetchone())
        assert bytes(row[6]) == values["k_bytes"]
        row[6] = values["k_bytes"]
        assert row == list(values.values())
        documents = {"a": [1, None, "ü"]}
        cursor.execute(
            "UPDATE kinds SET k_json = %(d)s, k_jsonb = %(d)s WHERE k_id = 1",
            {"d": psycopg2.extras.Json(documents)},
        )
        cursor.execute("SELECT k_json, k_jsonb, NULL FROM kinds WHERE k_id = 1 ORDER BY random()")
        assert cursor.fetchone() == (documents, documents, None)
        assert [column.type_code for column in cursor.description][:2] == [114, 3802]


def test_transactions_with_savepoints_and_errors(connection):
    connection.autocommit = False
    with connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO item VALUES (600, 'a', 1)")
        cursor.execute("SAVEPOINT s")
        with pytest.raises(errors.UniqueViolation) as caught:
            cursor.execute("INSERT INTO item VALUES (600, 'b', 1)")
        assert caught.value.pgcode == "23505"
        cursor.execute("ROLLBACK TO SAVEPOINT s")
    with pytest.raises(errors.CheckViolation), connection, connection.cursor() as cursor:
        cursor.execute("UPDATE item SET i_price = -1 WHERE i_id = 600")
    with connection.cursor() as cursor:
        cursor.execute("SELECT i_name FROM item WHERE i_id = 600")
        assert cursor.fetchall() == [("a",)]
    connection.rollback()


def test_many_rows_streams_and_copies(connection):
    with connection.cursor() as cursor:
        rows = [(700 + i, f"n{i}", i) for i in range(300)]
        psycopg2.extras.execute_values(cursor, "INSERT INTO item VALUES %s", rows)
        psycopg2.extras.execute_batch(
            cursor, "UPDATE item SET i_price = %s WHERE i_id = %s", [(5, 700), (6, 701)]
        )
        cursor.copy_expert("COPY item FROM STDIN CSV", io.StringIO("1100,x,\n1101,y,2.5\n"))
        written = io.StringIO()
        cursor.copy_expert(
            "COPY (SELECT * FROM item WHERE i_id >= 1100 ORDER BY 1) TO STDOUT", written
        )
        assert written.getvalue() == "1100\tx\t\\N\n1101\ty\t2.50\n"
    connection.autocommit = False
    with connection.cursor("named") as cursor:
        cursor.itersize = 50
        cursor.execute("SELECT i_id, i_price FROM item WHERE i_id BETWEEN 700 AND 999 ORDER BY 1")
        found = list(cursor)
        assert len(found) == 300
        assert [row[1] for row in found[:3]] == [5, 6, 2]
    connection.rollback()
    with connection.cursor(cursor_factory=psycopg2.extras.RealDictCursor) as cursor:
        cursor.execute("SELECT count(*) AS n FROM item WHERE i_id >= 700")
        assert cursor.fetchone() == {"n": 302}
    connection.rollback()
