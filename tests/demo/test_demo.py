"""`hornbeam demo`: its folder, its report, and how emulated browsers meet failures."""

import json

import pytest
from typer.testing import CliRunner

import hornbeam
from hornbeam.cli import app
from hornbeam.errors import InterfaceError, OperationalError, ProgrammingError, from_problem
from hornbeam_server.demo.results import REPORTS
from hornbeam_server.demo.run import DATABASE, WITHOUT_VIEWS
from hornbeam_server.demo.tpcw.sessions import HttpStore, Measured, StatementFailed

SMALL = ("--customers=20", "--items=20", "--rounds=1", "--seconds=0.3", "--sessions=1")


def failure_of(*arguments):
    return CliRunner().invoke(app, ["demo", *map(str, arguments)]).exception


def test_the_report_is_printed_as_json_and_the_story_beside_it(tmp_path, monkeypatch):
    """The settings of another server of this machine do not count."""
    monkeypatch.setenv("HORNBEAM_STORE", "hbase")
    monkeypatch.setenv("HORNBEAM_AUTHENTICATION", "keys")
    monkeypatch.setenv("HORNBEAM_TLS_CERTIFICATE", "/etc/hornbeam/cert.pem")
    monkeypatch.setenv("HORNBEAM_TLS_KEY", "/etc/hornbeam/key.pem")
    monkeypatch.setenv("HORNBEAM_WORKERS", "2")
    monkeypatch.setenv("HORNBEAM_POSTGRESQL_PORT", "1")
    monkeypatch.setenv("HORNBEAM_MAX_REQUEST_BYTES", "no setting")
    (tmp_path / "hornbeam.toml").write_text('audit_log = "/no/folder/audit.log"')
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "demo"
    (folder / DATABASE).mkdir(parents=True)
    (folder / REPORTS[0]).write_text("of a former demo")
    done = CliRunner().invoke(app, ["demo", f"--data={folder}", "--replace", "--json", *SMALL])
    assert done.exit_code == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["differences"], report["errors"]) == (0, [])
    assert report == json.loads((folder / "report.json").read_text())
    assert "0 differences" in done.stderr
    assert {each.name for each in folder.iterdir()} == {DATABASE, WITHOUT_VIEWS, *REPORTS}


@pytest.mark.parametrize(
    ("name", "options", "cure"),
    [
        (DATABASE, (), "--replace"),
        ("letters", (), "another folder"),
        ("letters", ("--replace",), "another folder"),
    ],
)
def test_a_folder_with_files_is_left_alone(tmp_path, name, options, cure):
    (tmp_path / name).mkdir()
    (tmp_path / name / "kept").touch()
    error = failure_of("--data", tmp_path, *options)
    assert isinstance(error, ProgrammingError)
    assert f"{tmp_path} is not empty" in str(error)
    assert cure in str(error)
    assert (tmp_path / name / "kept").exists()


@pytest.mark.parametrize("name", [DATABASE, WITHOUT_VIEWS])
def test_a_demo_that_is_open_is_not_replaced(tmp_path, name):
    database = f"{tmp_path.absolute() / name}"
    with hornbeam.connect(f"hornbeam:///{database}", autocommit=True) as db:
        db.cursor().execute("CREATE TABLE t (k INTEGER PRIMARY KEY)")
        error = failure_of("--data", tmp_path, "--replace")
        assert isinstance(error, OperationalError)
        assert f"The database in {database} is open in another process" in str(error)
        db.cursor().execute("INSERT INTO t VALUES (1)")
    with hornbeam.connect(f"hornbeam:///{database}", autocommit=True) as db:
        cursor = db.cursor()
        cursor.execute("SELECT k FROM t")
        assert cursor.fetchall() == [(1,)]


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "demo").write_text("a letter")
    assert "cannot be used: Not a directory" in str(failure_of("--data", tmp_path / "demo"))


def test_a_report_and_a_server_do_not_share_the_output():
    assert isinstance(failure_of("--json", "--serve"), InterfaceError)


class Requests:
    """Answers with each of `answers` in turn, and raises those that are problems."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.keys = set()

    async def json(self, method, path, body, headers):
        self.keys.add(headers["Idempotency-Key"])
        answer = self.answers.pop(0)
        if "code" in answer:
            raise from_problem(answer)
        return answer

    async def pause(self, seconds):
        pass


WRITTEN = {"commit_ts": 7, "elapsed_ms": 1.5}


@pytest.mark.parametrize(
    "problem", [{"retryable": True}, {"outcome": "unknown"}], ids=["retryable", "unknown"]
)
async def test_a_browser_repeats_a_request_that_may_be_repeated(problem):
    requests, measured = Requests({"code": "unavailable", **problem}, WRITTEN), Measured()
    await HttpStore(requests, {"pay": "UPDATE"}, measured).write(("pay", (1,)))
    assert len(requests.keys) == 1, "a repetition is the same request"
    assert len(measured.latencies["pay"]) == 1
    assert measured.pieces["pay"] == [{"answer": 1.5}]


async def test_a_browser_reports_an_error_with_its_statement():
    requests = Requests({"code": "sql-invalid", "detail": "No such table."})
    with pytest.raises(StatementFailed, match=r"look: sql-invalid: No such table\."):
        await HttpStore(requests, {"look": "SELECT"}, Measured()).read("look")
