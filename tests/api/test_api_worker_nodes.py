"""Several nodes of one machine behind one address, and settings that cannot have them."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest

import hornbeam
from bench.nodes import NodeProcess, NodeProcesses
from hornbeam_server.api.serve import serve
from hornbeam_server.cluster.ports import free_ports
from tests.api.test_api_serve import children
from tests.query.test_workers import alive, wait_until

pytestmark = pytest.mark.timeout(300)
WORKERS = 2
BASE = {"store": "hbase", "workers": 2}


def status(url: str) -> dict[str, Any]:
    """The status of the worker that gets the connection, under `nodes`; empty while it does not
    serve."""
    try:
        answer = httpx.get(f"{url}/v1/status", timeout=5, trust_env=False)
    except httpx.TransportError:
        return {}
    return answer.json()["nodes"] if answer.is_success else {}


def members(url: str) -> dict[str, str]:
    """The names of the members by address."""
    return {each["address"]: each["name"] for each in status(url).get("members", ())}


def serving_members(url: str) -> dict[str, str]:
    """The members once there are `WORKERS`, and each of them serves. All come from one answer:
    another request may get a worker that does not serve yet, and lists no members."""
    found: dict[str, str] = {}

    def all_serve() -> bool:
        nonlocal found
        found = members(url)
        names = {status(address).get("name") for address in found}
        return len(found) == WORKERS and names == set(found.values())

    wait_until(all_serve, 60)
    return found


def processes_of(node: NodeProcess) -> list[int]:
    """The process ids of the workers. A child may end while this looks for them."""
    assert node.process is not None
    found = []
    for pid in children(node.process.pid):
        with contextlib.suppress(OSError):
            if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


def test_workers_serve_one_database_at_one_address(real_cluster, tmp_path):
    """One of them is killed: the other serves on, and a new one takes its place."""
    (port,) = free_ports(1)
    settings = {"workers": str(WORKERS)}
    node = NodeProcesses(real_cluster, tmp_path, 0, database="workers", settings=settings)._node(
        1, port
    )
    node.start()
    try:
        own = serving_members(node.url)
        assert node.url not in own
        names = set(own.values())
        with hornbeam.connect(f"hornbeam://{node.address}", autocommit=True) as db:
            cursor = db.cursor()
            cursor.execute("CREATE TABLE t (a BIGINT PRIMARY KEY)")
            cursor.executemany("INSERT INTO t VALUES (?)", [(n,) for n in range(100)])
            answering: set[str | None] = set()
            wait_until(lambda: answering.add(status(node.url).get("name")) or answering >= names)
            before = processes_of(node)
            assert len(before) == WORKERS
            os.kill(before[0], signal.SIGKILL)
            wait_until(lambda: len(processes_of(node)) == WORKERS and not alive(before[0]))
            cursor.execute("INSERT INTO t VALUES (100)")
            cursor.execute("SELECT count(*) FROM t")
            assert cursor.fetchall() == [(101,)]
        wait_until(
            lambda: (
                len(now := members(node.url)) == WORKERS and len(set(now.values()) - names) == 1
            ),
            60,
        )
        workers = processes_of(node)
    finally:
        node.stop()
    assert not any(map(alive, workers))


@pytest.mark.parametrize(
    ("given", "code", "words"),
    [
        ({"workers": 4}, 78, 'set store = "hbase"'),
        ({"workers": 0}, 78, "Setting workers"),
        (BASE | {"worker_port": 65_535}, 78, "Choose at most 65534"),
        (BASE | {"peer_port": 65_535}, 78, "peer_port = 65535 leaves no ports for 2 workers"),
        (BASE | {"host": "0.0.0.0"}, 78, "Refusing to listen"),
    ],
)
def test_settings_that_cannot_have_workers(tmp_path, capsys, given, code, words):
    with pytest.raises(SystemExit) as ended:
        serve(**({"data": tmp_path, "port": 0} | given))
    assert ended.value.code == code
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("sharing", [False, True], ids=["alone", "sharing"])
def test_a_port_of_another_program_is_not_shared(tmp_path, capsys, sharing):
    """The kernel would give half of the connections to the other program if that shares, too."""
    other = socket.create_server(("127.0.0.1", 0), reuse_port=sharing)
    with other, pytest.raises(SystemExit) as ended:
        serve(data=tmp_path, port=other.getsockname()[1], **BASE)
    assert ended.value.code == 75
    assert "Cannot listen on 127.0.0.1" in capsys.readouterr().err
