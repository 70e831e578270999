"""psql, the program of PostgreSQL (Debian's package postgresql-client)."""

import shutil
import subprocess

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
