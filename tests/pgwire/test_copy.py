"""COPY over the wire: what PostgreSQL answers to it, and what its clients do with it."""

import asyncio
import io
import json
import select
import struct
import subprocess
from dataclasses import replace
from decimal import Decimal
from itertools import chain

import asyncpg
import psycopg
import pytest
from psycopg import errors
from psycopg.pq import TransactionStatus

from hornbeam_server.pgwire.codec import answers
from tests.pgwire.copy_cases import ANSWERS
from tests.pgwire.copy_cases import answers as answers_of
from tests.pgwire.test_hostile import connected, read_until, started
from tests.pgwire.wire_world import wire_world

READY = b"Z\x00\x00\x00\x05I"
TYPES = ["int4", "varchar", "numeric"]
OTHER_SQLSTATES = {"22008": "22P02", "22023": "22P02", "22001": "22000", "22003": "22000"}
"""Hornbeam's codes stand for several errors of values (docs/postgresql.md)."""


@pytest.fixture
def connection(wire):
    with wire.connect() as found:
        yield found


def test_the_answers_are_those_of_postgresql(tmp_path):
    with wire_world(tmp_path) as world, world.connect() as connection:
        found = answers_of(connection)
    recorded = json.loads(ANSWERS.read_text())
    for answer in recorded.values():
        if answer[0] == "error" and "column" in (answer[2] or ""):
            answer[1] = OTHER_SQLSTATES.get(answer[1], answer[1])
        if answer[0] == "error" and answer[1][:2] == "23":  # without the text of the line
            answer[2] = answer[2].partition(":")[0]
        if answer[:2] == ["error", "22012"]:  # the condition of all rows is one query
            answer[2] = None
    differ = {case: (found.get(case), a) for case, a in recorded.items() if found.get(case) != a}
    assert not differ
    assert found.keys() == recorded.keys()


def refused(connection, sql, data=b""):
    """The error of a COPY FROM that gets these pieces of data, or of a COPY TO."""
    pieces = [data] if isinstance(data, bytes) else data

    def run():
        with connection.cursor().copy(sql) as copy:
            if " TO " in sql:
                list(copy)
            for piece in pieces:
                copy.write(piece)

    with pytest.raises(psycopg.Error) as caught:
        run()
    return caught.value


def ids(connection, first, last):
    found = connection.execute(
        "SELECT i_id FROM item WHERE i_id BETWEEN %s AND %s ORDER BY 1", (first, last)
    )
    return [row[0] for row in found.fetchall()]


def test_binary_rows_go_in_and_come_out(connection):
    rows = [(1, "a", Decimal("1.50")), (2, "b", None)]
    with connection.cursor().copy("COPY item FROM STDIN (FORMAT binary)") as copy:
        copy.set_types(TYPES)
        for row in rows:
            copy.write_row(row)
    query = "COPY (SELECT * FROM item WHERE i_id IN (1, 2) ORDER BY 1) TO STDOUT (FORMAT binary)"
    with connection.cursor().copy(query) as copy:
        copy.set_types(TYPES)
        assert list(copy.rows()) == rows


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"PGCOPY", "signature"),
        (b"NOCOPY\n\xff\r\n\0" + bytes(8), "signature"),
        (b"PGCOPY\n\xff\r\n\0" + struct.pack("!ii", 1 << 16, 0), "critical flags"),
        (b"PGCOPY\n\xff\r\n\0" + bytes(8) + struct.pack("!h", 2), "field count is 2"),
        (b"PGCOPY\n\xff\r\n\0" + bytes(8) + struct.pack("!hi", 3, 4), "Unexpected EOF"),
        (b"PGCOPY\n\xff\r\n\0" + bytes(8) + struct.pack("!hi", 3, -2), "field size"),
        (b"PGCOPY\n\xff\r\n\0" + bytes(8) + struct.pack("!h", -1) + b"x", "after EOF"),
    ],
)
def test_binary_data_that_is_none_is_22p04(connection, data, message):
    pieces = [bytes([byte]) for byte in data]
    error = refused(connection, "COPY item FROM STDIN (FORMAT binary)", pieces)
    assert (error.sqlstate, message in str(error)) == ("22P04", True)


def test_a_binary_value_of_another_length_is_22p03_with_its_place(connection):
    row = struct.pack("!hi2sii", 3, 2, b"xx", -1, -1)
    data = b"PGCOPY\n\xff\r\n\0" + bytes(8) + row
    error = refused(connection, "COPY item FROM STDIN (FORMAT binary)", data)
    assert (error.sqlstate, error.diag.context) == ("22P03", "COPY item, line 1, column i_id")


def test_a_copy_is_one_transaction_and_one_commit(wire, connection):
    before = wire.database.manager.committed
    with connection.cursor().copy("COPY item FROM STDIN") as copy:
        for number in range(1_000, 4_000):
            copy.write_row((number, f"n\t{number}", number))
    assert wire.database.manager.committed - before == 1
    assert len(ids(connection, 1_000, 3_999)) == 3_000


def test_a_copy_is_a_part_of_the_open_transaction(wire, connection):
    with wire.connect() as other, connection.transaction():
        for line in ("4000\ta\t1\n4001\tb\t1\n", "4002\tc\t1\n"):
            with connection.cursor().copy("COPY item FROM STDIN") as copy:
                copy.write(line)
        assert ids(connection, 4_000, 4_002) == [4_000, 4_001, 4_002]
        assert ids(other, 4_000, 4_002) == []
    connection.execute("BEGIN")
    with connection.cursor().copy("COPY item FROM STDIN") as copy:
        copy.write("4003\ta\t1\n")
    connection.execute("ROLLBACK")
    assert ids(connection, 4_000, 4_010) == [4_000, 4_001, 4_002]


def test_an_error_in_a_block_aborts_it(connection):
    connection.execute("BEGIN")
    error = refused(connection, "COPY item FROM STDIN", b"4100\ta\t1\n4101\ta\t-1\n")
    assert (error.sqlstate, error.diag.context) == ("23514", "COPY item, line 2")
    assert connection.info.transaction_status is TransactionStatus.INERROR
    assert refused(connection, "COPY item TO STDOUT").sqlstate == "25P02"
    connection.execute("ROLLBACK")
    connection.execute("BEGIN READ ONLY")
    assert refused(connection, "COPY item FROM STDIN", b"4100\ta\t1\n").sqlstate == "25006"
    connection.execute("ROLLBACK")


def test_the_row_of_a_violation_is_found_far_behind_the_first_one(connection):
    lines = [f"{number}\tn\t1\n".encode() for number in range(5_000, 5_900)]
    for wrong, state in [(b"5001\tn\t1\n", "23505"), (b"6000\tn\t-1\n", "23514")]:
        error = refused(connection, "COPY item FROM STDIN", [*lines, wrong])
        assert (error.sqlstate, error.diag.context) == (state, "COPY item, line 901")
    error = refused(connection, "COPY item FROM STDIN", [*lines, b"6000\t" + b"n" * 30 + b"\t1\n"])
    assert error.diag.context == f'COPY item, line 901, column i_name: "{"n" * 30}"'


def test_a_client_that_gives_up_has_inserted_nothing(connection):
    def run():
        with connection.cursor().copy("COPY item FROM STDIN") as copy:
            copy.write("4200\ta\t1\n")
            raise KeyError

    with pytest.raises(KeyError):
        run()
    assert connection.info.transaction_status is TransactionStatus.IDLE
    assert ids(connection, 4_200, 4_200) == []


def test_parameters_belong_into_the_query_that_is_copied(connection):
    query = "COPY (SELECT %s::INTEGER, %s::TEXT) TO STDOUT"
    with connection.cursor().copy(query, (5, "a'b")) as copy:
        assert list(copy.rows()) == [("5", "a'b")]


def test_more_bytes_than_a_body_may_have_are_54000(wire, connection, monkeypatch):
    limits = replace(wire.listener._limits, bytes=50_000)
    monkeypatch.setattr(wire.listener, "_limits", limits)
    with wire.connect() as short:
        pieces = [f"{4_300 + number}\tname\t1\n".encode() * 400 for number in range(20)]
        error = refused(short, "COPY item FROM STDIN", pieces)
    assert (error.sqlstate, "at most 50000 bytes" in str(error)) == ("54000", True)


def test_a_copy_that_gets_no_data_ends_at_the_time_limit(connection):
    connection.execute("SET statement_timeout = '200ms'")

    def wait():
        select.select([connection.pgconn.socket], [], [], 10)
        yield b""

    error = refused(connection, "COPY item FROM STDIN", chain([b" "], wait()))
    assert (error.sqlstate, "within 0.2 s" in str(error)) == ("57014", True)
    assert connection.info.transaction_status is TransactionStatus.IDLE


def test_a_copy_that_waits_for_data_is_cancelled(connection):
    def cancel():
        connection.cancel_safe()
        yield b""

    error = refused(connection, "COPY item FROM STDIN", chain([b"4400\ta\t1\n"], cancel()))
    assert error.sqlstate == "57014"
    assert ids(connection, 4_400, 4_400) == []


def test_data_behind_an_error_is_passed_over(wire):
    """In the simple protocol the server is ready at once, and ignores the rest of the data."""
    with connected(wire) as raw:
        started(raw)
        raw.sendall(answers.message(b"Q", b"COPY item FROM STDIN\0"))
        read_until(raw, answers.copy_in(3, binary=False))
        data = answers.copy_data(b"x\ty\n") * 3 + answers.message(b"c")
        raw.sendall(data)
        assert read_until(raw, READY).count(b"C22P04\0") == 1
        raw.sendall(answers.message(b"Q", b"SELECT 7\0"))
        assert b"SELECT 1\0" in read_until(raw, READY)


def test_in_the_extended_protocol_an_error_is_passed_over_up_to_sync(wire):
    with connected(wire) as raw:
        started(raw)
        series = answers.message(b"P", b"\0COPY item FROM STDIN\0\0\0")
        series += answers.message(b"B", bytes(8)) + answers.message(b"D", b"P\0")
        series += answers.message(b"E", bytes(5))
        raw.sendall(series + answers.message(b"S"))
        assert answers.NO_DATA in read_until(raw, answers.copy_in(3, binary=False))
        raw.sendall(answers.message(b"f", b"no more\0") + answers.message(b"S"))
        assert b"C57014\0MCOPY from stdin failed: no more" in read_until(raw, READY)
        raw.sendall(series)
        read_until(raw, answers.copy_in(3, binary=False))
        raw.sendall(answers.copy_data(b"4500\ta\t1\n") + answers.message(b"c"))
        raw.sendall(answers.message(b"S"))
        assert b"COPY 1\0" in read_until(raw, READY)
        raw.sendall(series)
        read_until(raw, answers.copy_in(3, binary=False))
        raw.sendall(series + answers.message(b"c") + answers.message(b"S"))
        assert b"C08P01\0" in read_until(raw, READY)


def test_psql_copies_files(wire, tmp_path):
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text('i_id,i_name,i_price\n4600,"a, b",1\n4601,c,\n')
    script = (
        f"\\copy item FROM '{source}' WITH (FORMAT csv, HEADER)\n"
        "\\copy (SELECT * FROM item WHERE i_id BETWEEN 4600 AND 4610 ORDER BY 1)"
        f" TO '{target}' CSV\n"
        "COPY item (i_id, i_name) FROM STDIN;\n4602\td\nx\te\n\\.\nSELECT 5;\n"
    )
    command = ["psql", "-X", "-q", "-A", "-t", wire.dsn()]
    done = subprocess.run(
        command, input=script, capture_output=True, text=True, timeout=60, check=False
    )
    assert target.read_text() == '4600,"a, b",1.00\n4601,c,\n'
    assert done.stdout == "5\n"
    assert done.stderr.splitlines()[-1] == 'CONTEXT:  COPY item, line 2, column i_id: "x"'


def test_asyncpg_copies_records_files_and_queries(wire):
    async def work():
        connection = await asyncpg.connect(
            host="127.0.0.1", port=wire.port, user="ann", database="hornbeam"
        )
        out = io.BytesIO()
        records = [(4_700, "r", Decimal("2.5")), (4_701, "s", None)]
        tags = [
            await connection.copy_records_to_table("item", records=records),
            await connection.copy_to_table("item", source=io.BytesIO(b"4702,a,1\n"), format="csv"),
            await connection.copy_from_query(
                "SELECT i_name FROM item WHERE i_id >= $1 AND i_name <> $2 ORDER BY 1",
                4_701,
                "z'",
                output=out,
                format="csv",
            ),
        ]
        await connection.close()
        return tags, out.getvalue()

    assert asyncio.run(work()) == (["COPY 2", "COPY 1", "COPY 2"], b"a\ns\n")


def test_a_misspelt_statement_is_a_syntax_error_at_its_place(connection):
    for text in ("\n  SELEC 1", "SELECT 1;\nSELEC 1"):
        with pytest.raises(errors.SyntaxError) as caught:
            connection.execute(text)
        assert int(caught.value.diag.statement_position) == text.index("SELEC 1") + 1
    for text in ("LISTEN x", "GRANT SELECT ON item TO ann"):
        with pytest.raises(errors.FeatureNotSupported):
            connection.execute(text)


def test_the_client_hears_of_settings_that_change(connection):
    def known(name):
        return connection.info.parameter_status(name)

    connection.execute("SET application_name = 'x y'")
    assert known("application_name") == "x y"
    connection.execute("BEGIN")
    connection.execute("SET application_name = 'z'; SET default_transaction_read_only = on")
    assert (known("application_name"), known("default_transaction_read_only")) == ("z", "on")
    connection.execute("ROLLBACK")
    assert known("application_name") == "x y"
    connection.execute("DISCARD ALL")
    assert known("application_name") == ""


def test_rows_of_a_query_that_fails_end_in_an_error(connection):
    error = refused(
        connection, "COPY (SELECT 1 / (5 - g) FROM generate_series(1, 9) t (g)) TO STDOUT"
    )
    assert error.sqlstate == "22012"
    assert connection.execute("SELECT 1").fetchone() == (1,)


def test_freeze_is_accepted(connection):
    for number, options in enumerate(("WITH (FREEZE)", "WITH (FREEZE on)", "FREEZE CSV"), 8001):
        with connection.cursor().copy(f"COPY item (i_id, i_name) FROM STDIN {options}") as copy:
            copy.write(f"{number},x\n" if "CSV" in options else f"{number}\tx\n")
    count = connection.execute("SELECT count(*) FROM item WHERE i_id BETWEEN 8001 AND 8003")
    assert count.fetchone() == (3,)


def test_the_condition_of_a_copy_chooses_binary_rows_in_the_open_transaction(connection):
    sql = "COPY item (i_id, i_name) FROM STDIN (FORMAT binary) WHERE i_name LIKE 'a%'"
    with connection.transaction(), connection.cursor() as cursor:
        with cursor.copy(sql) as copy:
            copy.set_types(TYPES[:2])
            for number in range(8100, 8110):
                copy.write_row((number, "ab"[number % 2]))
        assert cursor.statusmessage == "COPY 5"
        cursor.execute("SELECT count(*) FROM item WHERE i_id BETWEEN 8100 AND 8109")
        assert cursor.fetchone() == (5,)


def test_the_condition_of_a_copy_names_no_arrays_and_no_numbers_that_are_not_sent(connection):
    connection.execute("CREATE TABLE given (g SERIAL PRIMARY KEY, a INTEGER[], x INTEGER)")
    for sql in (
        "COPY given (a, x) FROM STDIN WHERE a IS NULL",
        "COPY given (x) FROM STDIN WHERE g > 1",
    ):
        assert refused(connection, sql).sqlstate == "0A000"
    assert refused(connection, "COPY given (x) FROM STDIN WHERE max(x) > 1").sqlstate == "42601"
    with connection.cursor().copy("COPY given (g, x) FROM STDIN WHERE g > 1 AND a IS NULL") as copy:
        copy.write("1\t1\n2\t2\n")
    assert connection.execute("SELECT g, x FROM given").fetchall() == [(2, 2)]
