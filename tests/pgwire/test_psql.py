"""psql, the program of PostgreSQL (Debian's package postgresql-client)."""

import re
import shutil
import subprocess

import psycopg
import pytest


@pytest.fixture
def psql(wire):
    """Run psql with a script; return its output and errors."""
    if shutil.which("psql") is None:
        raise RuntimeError("These tests run psql: apt install postgresql-client")

    def run(script, *options):
        command = ["psql", "-X", "-w", "-q", "-A", "-t", *options, wire.dsn()]
        done = subprocess.run(
            command, input=script, capture_output=True, text=True, timeout=120, check=False
        )
        return done.stdout.splitlines(), done.stderr.splitlines()

    return run


def test_a_script_runs_statement_by_statement(psql):
    out, err = psql(
        "INSERT INTO item VALUES (500, 'a', 1), (501, 'b', NULL) RETURNING i_id;\n"
        "\\echo :ROW_COUNT\n"
        "BEGIN; DELETE FROM item WHERE i_id = 500; SELECT count(*) FROM item WHERE i_id > 499;\n"
        "ROLLBACK;\n"
        "SELECT * FROM item WHERE i_id > 499 ORDER BY i_id;\n"
    )
    assert (out, err) == (["500", "501", "2", "1", "500|a|1.00", "501|b|"], [])


def test_errors_have_a_place_and_a_hint_and_the_next_statement_runs(psql):
    out, err = psql("SELECT 1,\n nothing FROM item;\nSELECT 2;\n", "-v", "VERBOSITY=verbose")
    assert out == ["2"]
    assert err[0].startswith("ERROR:  42703: Column nothing is unknown")
    assert err[1:3] == ["LINE 2:  nothing FROM item;", "         ^"]


def test_variables_are_those_of_the_server(psql):
    out, _ = psql("\\echo :SERVER_VERSION_NUM :DBNAME :ENCODING\nSHOW server_version;\n")
    assert out[0].split()[1:] == ["hornbeam", "UTF8"]
    assert int(out[0].split()[0]) >= 150_000
    assert out[1].startswith("15.")


def test_relations_are_described(psql):
    psql("CREATE TABLE part (p_id INTEGER PRIMARY KEY, p_i_id INTEGER REFERENCES item (i_id));\n")
    out, err = psql("\\dt part\n\\d part\n\\d item\n", "-P", "tuples_only=off")
    assert err == []
    assert "public|part|table|hornbeam" in out
    assert "p_i_id|integer|||" in out
    assert out.count('    "part_pkey" PRIMARY KEY, btree (p_id)') == 1
    key = "FOREIGN KEY (p_i_id) REFERENCES item(i_id)"
    assert f'    "part_p_i_id_fkey" {key}' in out
    assert f'    TABLE "part" CONSTRAINT "part_p_i_id_fkey" {key}' in out


COMMENTED = """
CREATE SCHEMA shop;
CREATE TYPE shop.mood AS ENUM ('sad', 'ok');
CREATE DOMAIN shop.small AS INTEGER CONSTRAINT few CHECK (value < 9);
CREATE TABLE shop.item (i_id INTEGER PRIMARY KEY, i_title TEXT, i_mood shop.mood);
CREATE VIEW shop.titles AS SELECT i_title FROM shop.item;
CREATE INDEX by_title ON shop.item (i_title);
CREATE SEQUENCE shop.numbers;
COMMENT ON SCHEMA shop IS 'the shop';
COMMENT ON TYPE shop.mood IS 'the mood';
COMMENT ON DOMAIN shop.small IS 'a small one';
COMMENT ON CONSTRAINT few ON DOMAIN shop.small IS 'not many';
COMMENT ON TABLE shop.item IS 'what the shop sells';
COMMENT ON COLUMN shop.item.i_title IS 'its ''title''';
COMMENT ON VIEW shop.titles IS 'all titles';
COMMENT ON COLUMN shop.titles.i_title IS 'a title';
COMMENT ON INDEX shop.by_title IS 'finds titles';
COMMENT ON SEQUENCE shop.numbers IS 'numbers';
COMMENT ON CONSTRAINT item_pkey ON shop.item IS 'the key';
"""
DESCRIBED = """
\\d+ shop.item
\\dt+ shop.*
\\dv+ shop.*
\\di+ shop.*
\\ds+ shop.*
\\dn+ shop
\\dT+ shop.*
\\dD+ shop.*
\\dd shop.*
"""
SHOWN = """
Table "shop.item"
Column|Type|Collation|Nullable|Default|Storage|Compression|Stats target|Description
i_id|integer||not null||plain|||
i_title|text||||extended|||its 'title'
i_mood|shop.mood||||plain|||
Indexes:
    "item_pkey" PRIMARY KEY, btree (i_id)
    "by_title" btree (i_title)
Access method: heap
List of relations
Schema|Name|Type|Owner|Persistence|Access method|Size|Description
shop|item|table|postgres|permanent|heap|8192 bytes|what the shop sells
(1 row)
List of relations
Schema|Name|Type|Owner|Persistence|Size|Description
shop|titles|view|postgres|permanent|0 bytes|all titles
(1 row)
List of relations
Schema|Name|Type|Owner|Table|Persistence|Access method|Size|Description
shop|by_title|index|postgres|item|permanent|btree|8192 bytes|finds titles
shop|item_pkey|index|postgres|item|permanent|btree|8192 bytes|
(2 rows)
List of relations
Schema|Name|Type|Owner|Persistence|Size|Description
shop|numbers|sequence|postgres|permanent|8192 bytes|numbers
(1 row)
List of schemas
Name|Owner|Access privileges|Description
shop|postgres||the shop
(1 row)
List of data types
Schema|Name|Internal name|Size|Elements|Owner|Access privileges|Description
shop|shop.mood|mood|4|sad
ok|postgres||the mood
shop|shop.small|small|4||postgres||a small one
(2 rows)
List of domains
Schema|Name|Type|Collation|Nullable|Default|Check|Access privileges|Description
shop|small|integer||||CHECK (value < 9)||a small one
(1 row)
Object descriptions
Schema|Name|Object|Description
shop|few|domain constraint|not many
shop|item_pkey|table constraint|the key
(2 rows)
"""
"""What PostgreSQL 15 shows, except that it writes VALUE in a CHECK."""


def test_comments_are_shown_as_by_postgresql(psql):
    assert psql(COMMENTED) == ([], [])
    out, err = psql(DESCRIBED, "-P", "tuples_only=off")
    shown = SHOWN.replace("postgres", "hornbeam").replace("8192 bytes", "0 bytes").splitlines()[1:]
    assert ([re.sub(r"\d+ \w+B", "0 bytes", line) for line in out], err) == (shown, [])
    out, err = psql(
        "COMMENT ON DATABASE hornbeam IS 'all of it';\n\\l+\n\\d+ shop.titles\n"
        "COMMENT ON DATABASE hornbeam IS NULL;\n"
    )
    assert err == []
    assert out[0].startswith("hornbeam|hornbeam|UTF8|")
    assert out[0].endswith("|pg_default|all of it")
    assert out[1] == "i_title|text||||extended|a title"


@pytest.mark.parametrize(
    ("statement", "sqlstate"),
    [
        ("COMMENT ON TABLE nothing IS 'x'", "42P01"),
        ("COMMENT ON VIEW item IS 'x'", "42809"),
        ("COMMENT ON COLUMN item.nothing IS 'x'", "42703"),
        ("COMMENT ON COLUMN nothing.i_id IS 'x'", "42P01"),
        ("COMMENT ON INDEX nothing IS 'x'", "42P01"),
        ("COMMENT ON SEQUENCE nothing IS 'x'", "42P01"),
        ("COMMENT ON TYPE nothing IS 'x'", "42704"),
        ("COMMENT ON DOMAIN nothing IS 'x'", "42704"),
        ("COMMENT ON CONSTRAINT nothing ON item IS 'x'", "42704"),
        ("COMMENT ON CONSTRAINT nothing ON nothing IS 'x'", "42P01"),
        ("COMMENT ON CONSTRAINT nothing ON DOMAIN nothing IS 'x'", "42704"),
        ("COMMENT ON SCHEMA nothing IS 'x'", "3F000"),
        ("COMMENT ON TABLE nothing.item IS 'x'", "3F000"),
        ("COMMENT ON TABLE item IS 5", "42601"),
        ("COMMENT ON COLUMN i_id IS 'x'", "42601"),
    ],
)
def test_errors_of_comments_have_the_sqlstates_of_postgresql(wire, statement, sqlstate):
    with wire.connect() as connection, pytest.raises(psycopg.Error) as caught:
        connection.execute(statement)
    assert caught.value.sqlstate == sqlstate


def test_the_tag_of_a_comment(wire):
    with wire.connect() as connection:
        assert connection.execute("COMMENT ON TABLE item IS 'x'").statusmessage == "COMMENT"
        found = connection.execute("SELECT obj_description('item'::regclass)").fetchall()
        assert found == [("x",)]
        assert connection.execute("COMMENT ON TABLE item IS NULL").statusmessage == "COMMENT"
