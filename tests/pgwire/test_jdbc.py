"""PostgreSQL's JDBC driver (pgjdbc), which one Java program uses as applications do."""

import subprocess
from pathlib import Path

import pytest

from hornbeam_server.cluster.artefacts import java, resolve
from tests.pgwire.wire_world import wire_world

FOLDER = Path(__file__).parent / "jdbc"
DDL = """
CREATE TABLE thing (
  t_id INTEGER PRIMARY KEY, t_name VARCHAR(20) NOT NULL,
  t_price DECIMAL(10,2) CHECK (t_price >= 0));
CREATE TABLE line (
  l_t_id INTEGER REFERENCES thing (t_id), l_number SMALLINT, l_text TEXT DEFAULT 'x',
  l_price DECIMAL(8,3) NOT NULL, PRIMARY KEY (l_t_id, l_number));
CREATE INDEX by_price ON line (l_price);
CREATE TABLE note (n_id INTEGER GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n_text TEXT);
CREATE TABLE kind (
  k_int INTEGER PRIMARY KEY, k_big BIGINT, k_double DOUBLE PRECISION, k_decimal DECIMAL(10,2),
  k_flag BOOLEAN, k_text TEXT, k_date DATE, k_at TIMESTAMP, k_instant TIMESTAMPTZ, k_uuid UUID,
  k_bytes BYTEA, k_numbers INTEGER[]);
INSERT INTO thing VALUES (1, 'one', 1.5), (2, 'two', 2.5);
"""
ANSWERS = """
tables: [kind TABLE, line TABLE, note TABLE, thing TABLE]
columns: [l_t_id 4 int4 10 0 NO NO, l_number 5 int2 5 0 NO NO, l_text 12 text 2147483647 0 YES NO, l_price 2 numeric 8 3 NO NO]
primary keys: [l_t_id 1, l_number 2]
imported keys: [thing t_id line l_t_id]
exported keys: [line l_t_id]
indexes: [f line_pkey l_t_id, f line_pkey l_number, t by_price l_price]
schemas: [information_schema, pg_catalog, public]
product: PostgreSQL true true true
prepared: [two 2.50, one 3.00, two 7.50, one 6.00, two 12.50, one 9.00, two 17.50, one 12.00, varchar, int4]
batch: 300 300
failed batch: 23514 0
generated keys: 2
fetch size: 12502500
rollback: 1 0
savepoint: 2
conflict: 40001
types: []
nulls: true null true
copy: 2 2 700,"a, b",1.00;701,c,;
failed copy: 22P02 true 0
errors: 42601 42703 23505
"""  # noqa: E501
"""PostgreSQL 15 answers the same, but to `conflict`: there the other connection waits."""


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    """What the program prints."""
    program, jars = java(), resolve(FOLDER / "pom.xml")
    with wire_world(tmp_path_factory.mktemp("jdbc")) as world:
        with world.connect() as connection:
            connection.execute(DDL)
        url = f"jdbc:postgresql://127.0.0.1:{world.port}/hornbeam?user=ann"
        command = [program, "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*"]
        done = subprocess.run(
            [*command, FOLDER / "Client.java", url],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_program_works_as_with_postgresql(lines):
    assert "\n".join(lines) == ANSWERS.strip()
