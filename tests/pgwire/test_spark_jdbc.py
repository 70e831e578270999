"""Spark's JDBC source over PostgreSQL's driver: a job that needs no package of ours."""

import os
import subprocess
import sys

from hornbeam_server.cluster.artefacts import resolve
from tests.pgwire.test_jdbc import FOLDER
from tests.pgwire.wire_world import wire_world

DDL = """
CREATE TABLE sale (
  s_id INTEGER PRIMARY KEY, s_shop TEXT, s_value DECIMAL(10,2), s_at TIMESTAMPTZ, s_flag BOOLEAN,
  s_bytes BYTEA, s_numbers INTEGER[]);
CREATE TABLE total (s_shop TEXT PRIMARY KEY, total DECIMAL(38,2));
INSERT INTO sale
  SELECT n, CASE WHEN n % 2 = 0 THEN 'north' ELSE 'south' END, n + 0.5,
    TIMESTAMPTZ '2026-01-01 00:00:00+00' + n * INTERVAL '1 hour', n % 3 = 0, '\\x01', ARRAY[n, 7]
  FROM generate_series(1, 1000) AS numbers (n);
"""
TOTALS = [("north", 250_750), ("south", 250_250)]
ANSWERS = """
types: s_id int s_shop string s_value decimal(10,2) s_at timestamp s_flag boolean s_bytes binary s_numbers array<int>
rows: 1000 501000.00
parts: 4 1000
filtered: 2 2026-01-01 02:00:00 4 2026-01-01 04:00:00
written: north 250750.00 south 250250.00
"""  # noqa: E501


def test_a_job_reads_in_parts_and_appends(tmp_path):
    (jar,) = resolve(FOLDER / "pom.xml").glob("postgresql-*.jar")
    with wire_world(tmp_path) as world, world.connect() as connection:
        connection.execute(DDL)
        url = f"jdbc:postgresql://127.0.0.1:{world.port}/hornbeam"
        done = subprocess.run(
            [sys.executable, "-m", "tests.pgwire.spark_jdbc", url, jar, tmp_path / "spark"],
            env=os.environ | {"TZ": "UTC"},
            capture_output=True, text=True, timeout=200, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stdout == ANSWERS.lstrip()
        found = connection.execute("SELECT * FROM total ORDER BY 1").fetchall()
        assert [(shop, int(total)) for shop, total in found] == TOTALS
