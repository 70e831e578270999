"""The audit log: one line per write or administrator's request, and per refusal; no values."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hornbeam_server.api.rest.audit import logger_to
from hornbeam_server.api.security import api_keys
from hornbeam_server.schema.errors import InvalidRequest
from tests.api.api_world import world
from tests.api.security_world import SecureWorld, secure_world


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("audit")
    with secure_world(folder, audit_log=folder / "audit.log") as served:
        yield served


class Lines:
    """The lines written inside the block."""

    def __init__(self, secured: SecureWorld) -> None:
        self.path: Path = secured.world.app.state.settings.audit_log
        self.found: list[dict[str, object]] = []

    def __enter__(self):
        self.before = self.path.stat().st_size
        return self.found

    def __exit__(self, *_: object) -> None:
        text = self.path.read_text()[self.before :]
        self.found += [json.loads(line) for line in text.splitlines()]


def test_a_transaction_is_one_line_without_values(secured):
    key = secured.made("writer")
    with Lines(secured) as lines:
        sql = "INSERT INTO customer (c_id, c_name) VALUES (70, 'private name')"
        done = secured.transact(key, sql).json()
    (line,) = lines
    assert "private" not in json.dumps(line)
    assert line.pop("timestamp").endswith("Z")
    assert line.pop("changed") == ["customer", "customer_c_email_key"]
    assert line == {
        "event": "request",
        "key": api_keys.id_in(key),
        "name": "a writer",
        "role": "writer",
        "client": "127.0.0.1",
        "method": "POST",
        "route": "/v1/transactions",
        "path": "/v1/transactions",
        "status": 200,
        "transaction": done["transaction_id"],
    }


def test_writes_admin_requests_and_refusals_are_logged(secured):
    reader, root = secured.made("reader"), secured.root

    def logged(*request: object, **content: object) -> list[object]:
        with Lines(secured) as lines:
            secured.request(*request, **content)
        return [(line["key"], line["status"]) for line in lines]

    me, admin = api_keys.id_in(reader), api_keys.id_in(root)
    csv = {"Content-Type": "text/csv"}
    select, delete = {"sql": "SELECT 1"}, {"statements": [{"sql": "DELETE FROM orders"}]}
    assert logged(reader, "POST", "/v1/query", json=select) == []
    assert logged(reader, "GET", "/v1/schema") == []
    assert logged(reader, "GET", "/nowhere") == []
    assert logged(None, "GET", "/livez") == []
    assert logged(None, "GET", "/v1/schema") == [(None, 401)]
    assert logged("hb_000000000000_" + "0" * 64, "GET", "/x") == [("0" * 12, 401)]
    assert logged(reader, "POST", "/v1/transactions", json=delete) == [(me, 403)]
    assert logged(reader, "GET", "/v1/keys") == [(me, 403)]
    assert logged(root, "GET", "/v1/keys") == [(admin, 200)]
    assert logged(root, "POST", "/v1/transactions", json={}) == [(admin, 422)]
    assert logged(root, "POST", "/v1/load/nowhere", content="a\n", headers=csv) == [(admin, 404)]
    assert logged(root, "POST", "/v1/verify", json={}) == []
    assert logged(root, "POST", "/v1/verify", json={"repair": True}) == [(admin, 200)]


def test_creating_and_revoking_a_key_log_its_id(secured):
    with Lines(secured) as lines:
        key = secured.made("reader")
        secured.revoke(key)
    assert [line["subject"] for line in lines] == [api_keys.id_in(key)] * 2


def test_a_line_break_in_a_path_starts_no_new_line(secured):
    """A client cannot forge a log line with its path."""
    with Lines(secured) as lines:
        secured.request(None, "GET", '/x%0A{"event":"request","status":200}' + "y" * 500)
    (line,) = lines
    assert line["status"] == 401
    assert line["path"].startswith("/x\n")
    assert len(line["path"]) == 200


def test_a_log_that_is_moved_away_is_created_again(secured, tmp_path):
    path = secured.world.app.state.settings.audit_log
    path.rename(tmp_path / "old.log")
    secured.request(None, "GET", "/v1/schema")
    assert len(path.read_text().splitlines()) == 1
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_log_that_cannot_be_written_stops_no_request(secured, capfd):
    path = secured.world.app.state.settings.audit_log
    path.unlink()
    path.mkdir()
    try:
        sql = "INSERT INTO customer (c_id, c_name) VALUES (71, 'x')"
        assert secured.transact(secured.root, sql).status_code == 200
    finally:
        path.rmdir()
        path.touch()
    assert "the audit log cannot be written" in capfd.readouterr().err


def test_a_log_that_cannot_be_opened_is_an_error_at_the_start(tmp_path):
    with pytest.raises(InvalidRequest, match="cannot be written"):
        logger_to(tmp_path / "nowhere" / "audit.log")


def test_without_the_setting_there_is_no_audit_log(tmp_path, capfd):
    with world(tmp_path, authentication="keys") as served:
        assert served.client.get("/v1/schema").status_code == 401
    assert "request" not in capfd.readouterr().err


def test_standard_error_is_a_target(tmp_path, capfd):
    with world(tmp_path, audit_log=Path("-")) as served:
        served.apply(ddl="CREATE TABLE t (a INTEGER PRIMARY KEY);", workload="")
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert [line["route"] for line in lines] == ["/v1/schema/plan", "/v1/schema/apply"]
    assert {(line["key"], line["role"]) for line in lines} == {("", "admin")}
