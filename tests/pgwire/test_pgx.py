"""Go's driver pgx, which one Go program uses as applications do."""

import subprocess
from pathlib import Path

import pytest

from tests.pgwire.wire_world import wire_world
from tests.programs import go_built

pytestmark = pytest.mark.go
FOLDER = Path(__file__).parent / "pgx"
DDL = """
CREATE TABLE thing (
  t_id INTEGER PRIMARY KEY, t_name VARCHAR(20) NOT NULL,
  t_price DECIMAL(10,2) CHECK (t_price >= 0));
CREATE TABLE line (
  l_t_id INTEGER REFERENCES thing (t_id), l_number SMALLINT, PRIMARY KEY (l_t_id, l_number));
CREATE TABLE kind (
  k_int INTEGER PRIMARY KEY, k_big BIGINT, k_double DOUBLE PRECISION, k_decimal DECIMAL(10,2),
  k_flag BOOLEAN, k_text TEXT, k_date DATE, k_at TIMESTAMP, k_instant TIMESTAMPTZ, k_uuid UUID,
  k_bytes BYTEA, k_numbers INTEGER[], k_object JSONB);
INSERT INTO thing VALUES (1, 'one', 1.5), (2, 'two', 2.5);
"""
ANSWERS = """
rows: 1 one 1.50, 2 two 2.50
modes: two two two two two
types: []
nulls: true true true
batch: 200 200
failed batch: 23514 0
copy: 500 500
failed copy: 23505 0
rollback: true 0
savepoint: 1
conflict: 40001 other
read only: 25006
errors: 42601 42703 42P01 23505 23502 23503 22012 23514 thing
cancel: true 1
pool: [1 2 3 4 5 6 7 8]
database/sql: two 2.50 10
"""
"""PostgreSQL 15 answers the same."""


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    """What the program prints."""
    program = go_built(FOLDER)
    with wire_world(tmp_path_factory.mktemp("pgx")) as world:
        with world.connect() as connection:
            connection.execute(DDL)
        done = subprocess.run(
            [program, f"postgresql://ann@127.0.0.1:{world.port}/hornbeam"],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout.splitlines()


def test_a_program_works_as_with_postgresql(lines):
    assert "\n".join(lines) == ANSWERS.strip()
