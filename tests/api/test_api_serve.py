"""Starting, stopping, and settings."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

import hornbeam
from hornbeam_server.api import serve as serving
from hornbeam_server.api.serve import serve
from hornbeam_server.node.adapters import cluster_ports
from hornbeam_server.node.database import Database
from hornbeam_server.node.settings import (
    NO_SETTINGS,
    Settings,
    describe,
    load_settings,
    read_gateways,
    require_known,
)
from hornbeam_server.schema.errors import HornbeamError, InvalidRequest
from hornbeam_server.storage.codec.implementation import implementation

ROOT = Path(__file__).parents[2]


def start(folder: Path, *, before: str = "pass", **given: object) -> subprocess.Popen[str]:
    """Start a server process that first runs the statement `before`."""
    given = {"data": str(folder), "port": 0, **given}
    code = f"from hornbeam_server.api import serve; {before}; serve.serve(**{given!r})"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HORNBEAM_")}
    return subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_serves_until_a_signal_and_leaves_the_folder_free(tmp_path):
    server = start(tmp_path / "data", log_level="info")
    try:
        banner = server.stdout.readline()
        url = banner.split()[4]
        server.send_signal(signal.SIGHUP)  # without certificates, the signal has no effect
        assert httpx.get(f"{url}/readyz").json() == {"status": "ready"}
        second = start(tmp_path / "data")
        out, err = second.communicate(timeout=30)
        assert second.returncode == 75
        assert out == ""
        assert "open in another process" in err
        assert "Traceback" not in err
        server.send_signal(signal.SIGTERM)
        _, log = server.communicate(timeout=30)
    finally:
        server.kill()
        server.wait()
    assert server.returncode == 0
    assert "event=opened" in log


def test_subscriptions_end_with_the_server_and_go_on_with_the_next(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address, seen, begun = f"127.0.0.1:{port}", [], []

    def follow():
        url = f"hornbeam://{address}"
        with hornbeam.connect(url) as db, db.subscribe("t", rows=False) as changes:
            begun.append(0)
            for each in changes:
                seen.extend(change.after for change in each)
                if len(seen) == 2:
                    return

    def write(number):
        statement = {"sql": f"INSERT INTO t VALUES ({number})"}
        answer = httpx.post(f"http://{address}/v1/transactions", json={"statements": [statement]})
        assert answer.status_code == 200, answer.text

    thread = threading.Thread(target=follow)
    for number in (1, 2):
        server = start(tmp_path / "data", port=port)
        try:
            server.stdout.readline()
            if number == 1:
                plan = {"ddl": "CREATE TABLE t (k BIGINT PRIMARY KEY)", "workload": ""}
                planned = httpx.post(f"http://{address}/v1/schema/plan", json=plan).json()
                body = plan | {"plan_id": planned["plan_id"]}
                httpx.post(f"http://{address}/v1/schema/apply", json=body).raise_for_status()
                thread.start()
                while not begun:
                    time.sleep(0.01)
            write(number)
            until = time.monotonic() + 30
            while len(seen) < number and time.monotonic() < until:
                time.sleep(0.01)
            began = time.monotonic()
            server.send_signal(signal.SIGTERM)
            server.communicate(timeout=30)
            assert time.monotonic() - began < serving.GRACE_S / 2
        finally:
            server.kill()
            server.wait()
    thread.join(30)
    assert seen == [(1,), (2,)]


def workers_of(server: int) -> list[int]:
    """Return the processes that run the statements of a server."""
    return [worker for forking in children(server) for worker in children(forking)]


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_requests_that_a_shutdown_ends_are_answered(tmp_path):
    """A bare 500 would not state the outcome, although the write may have been committed."""
    slow = "(SELECT count(*) FROM range(1000000) a(x), range(1000000) b(y) WHERE sqrt(x) + y < 1)"
    server = start(tmp_path / "data", before="serve.GRACE_S = 0.2", log_level="info")
    try:
        url = server.stdout.readline().split()[4]
        write = {"statements": [{"sql": f"INSERT INTO t SELECT x FROM {slow} s(x)"}]}
        bodies = {"/v1/query": {"sql": f"SELECT * FROM {slow} s"}, "/v1/transactions": write}
        plan = {"ddl": "CREATE TABLE t (k BIGINT PRIMARY KEY)", "workload": ""}
        planned = httpx.post(f"{url}/v1/schema/plan", json=plan).json()
        applied = httpx.post(f"{url}/v1/schema/apply", json=plan | {"plan_id": planned["plan_id"]})
        assert applied.status_code < 300, applied.text
        with ThreadPoolExecutor() as threads:
            asked = [
                threads.submit(httpx.post, url + path, json=body, timeout=30)
                for path, body in bodies.items()
            ]
            while len(workers_of(server.pid)) < len(bodies):
                time.sleep(0.01)
            server.send_signal(signal.SIGTERM)
            query, transaction = (answer.result() for answer in asked)
        _, log = server.communicate(timeout=30)
    finally:
        server.kill()
        server.wait()
    assert (query.status_code, query.json()["outcome"]) == (503, "none")
    assert query.json()["retryable"]
    assert (transaction.status_code, transaction.json()["outcome"]) == (504, "unknown")
    assert "Traceback" not in log
    assert server.returncode == 0


@pytest.mark.parametrize(
    ("given", "code", "words"),
    [
        ({"host": "0.0.0.0"}, 78, "Refusing to listen"),
        ({"port": 99_999}, 78, "Setting port"),
        ({"gateways": "gate1:9091,gate2"}, 78, "'gate2' is not host:port"),
        ({"gateways": "gate1:9091,gate2:70000"}, 78, "'gate2:70000' is not host:port"),
        ({"gateways": "gate1:9091,thrift1://gate1:9090"}, 78, "gateways of one"),
        ({"gateways": "thrift1://gate1"}, 78, "'gate1' is not host:port"),
        ({"database": "default"}, 78, "'default' is a namespace of HBase itself"),
        ({"nonsense": 1}, 78, "Setting nonsense"),
        ({"log_retention_s": "inf"}, 78, "Setting log_retention_s"),
        ({"housekeeping_interval_s": float("nan")}, 78, "Setting housekeeping_interval_s"),
    ],
)
def test_invalid_settings_end_the_server(tmp_path, capsys, given, code, words):
    with pytest.raises(SystemExit) as ended:
        serve(data=tmp_path / "data", **{"port": 0, **given})
    assert ended.value.code == code
    assert words in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_addresses_of_gateways_are_names_or_numbers_of_either_kind():
    named = "gate1:9091, 10.0.0.2:9091,[::1]:9092"
    addresses = (("gate1", 9091), ("10.0.0.2", 9091), ("::1", 9092))
    assert read_gateways(named) == (2, addresses)
    assert read_gateways(",".join(f"thrift1://{each.strip()}" for each in named.split(","))) == (
        1,
        addresses,
    )


def test_an_unknown_variable_is_an_error(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("HORNBEAM_AUTHENTICATON", "keys")
    with pytest.raises(SystemExit) as ended:
        serve(data=tmp_path / "data", port=0)
    assert ended.value.code == 78
    reported = capsys.readouterr().err
    assert "HORNBEAM_AUTHENTICATON" in reported
    assert "Did you mean HORNBEAM_AUTHENTICATION?" in reported


def test_an_implementation_that_there_is_not_ends_the_server(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("HORNBEAM_SPEEDUPS", "rust")
    implementation.cache_clear()
    with pytest.raises(SystemExit) as ended:
        serve(data=tmp_path / "data", port=0)
    implementation.cache_clear()
    assert ended.value.code == 78
    assert "HORNBEAM_SPEEDUPS is 'rust'" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_variables_of_settings_and_other_programs_are_accepted():
    require_known(["PATH", "HORNBEAM_PORT", "hornbeam_tls_key", "HORNBEAM_URL", *NO_SETTINGS])


@pytest.mark.parametrize("content", [b"port = \n", b"slave = '\xff'\n"])
def test_an_unreadable_settings_file_is_an_error(tmp_path, capsys, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    Path("hornbeam.toml").write_bytes(content)
    with pytest.raises(SystemExit) as ended:
        serve(data=tmp_path / "data", port=0)
    assert ended.value.code == 78
    assert "hornbeam.toml cannot be read: " in capsys.readouterr().err


def test_a_folder_that_cannot_be_created_is_an_error(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit) as ended:
        serve(data=tmp_path / "file", port=0)
    assert ended.value.code == 78
    assert "cannot be made: File exists." in capsys.readouterr().err


def test_a_port_in_use_is_an_error(tmp_path, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(SystemExit) as ended:
        serve(data=tmp_path / "data", port=taken.getsockname()[1])
    assert ended.value.code == 75
    assert "Cannot listen on" in capsys.readouterr().err


def test_settings_state_their_source(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HORNBEAM_PORT", "1234")
    monkeypatch.setenv("HORNBEAM_SLAVE", "env")
    Path("hornbeam.toml").write_text('port = 1\nslave = "file"\nlog_level = "debug"\n')
    found = {item["name"]: (item["value"], item["source"]) for item in describe(port=9, host=None)}
    assert found["port"] == (9, "argument")
    assert found["slave"] == ("env", "environment")
    assert found["log_level"] == ("debug", "file hornbeam.toml")
    assert found["host"] == ("127.0.0.1", "default")
    assert found["data"] == ("var/hornbeam", "default")
    assert all(item["description"] for item in describe())
    assert load_settings(port=9).slave == "env"


async def test_statements_of_clients_log_nothing(tmp_path, caplog):
    """Sqlglot would log warnings about statements that it cannot parse or translate exactly."""
    async with await Database.open(Settings(data=tmp_path)) as database:
        with pytest.raises(HornbeamError):
            database.prepare("UPDATE WITH RECURSIVE r AS (SELECT 1) SET a 1")
        sql = "SELECT extract(year FROM TIMESTAMPTZ '2024-05-05 10:00+02')"
        assert await database.fetch(sql) == [(2024,)]
    assert not caplog.records


def test_a_node_on_hbase_creates_its_data_folder(tmp_path):
    given = {"store": "hbase", "zookeeper": "127.0.0.1:1", "gateways": "127.0.0.1:1"}
    given |= {"hdfs": "hdfs://127.0.0.1:1", "node_secret": "00" * 32}
    settings = Settings(data=tmp_path / "not" / "there", **given)
    cluster_ports(settings, None, None)
    assert settings.data.is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(InvalidRequest, match="cannot be made"):
        cluster_ports(settings.model_copy(update={"data": tmp_path / "file"}), None, None)


async def test_housekeeping_continues_after_an_unexpected_error(tmp_path, monkeypatch, capsys):
    settings = Settings(data=tmp_path, housekeeping_interval_s=0.01)
    async with await Database.open(settings) as database:
        done, purge, failures = asyncio.Event(), database.purge, iter([OverflowError("odd")])

        async def failing():
            for error in failures:
                raise error
            done.set()
            return await purge()

        monkeypatch.setattr(database.housekeeping, "purge", failing)
        await asyncio.wait_for(done.wait(), 10)
    assert "OverflowError" in capsys.readouterr().err


async def test_the_database_closes_after_housekeeping_failed(tmp_path):
    async def died():
        raise OverflowError("odd")

    database = await Database.open(Settings(data=tmp_path))
    database._housekeeping_task.cancel()
    database._housekeeping_task = asyncio.ensure_future(died())
    await asyncio.sleep(0)
    await database.close()
    await (await Database.open(Settings(data=tmp_path))).close()
