"""A server in a process of its own."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hornbeam_server.api.serve import serve_sealed
from hornbeam_server.cluster.ports import free_ports

START_TIMEOUT_S = 60.0


@contextmanager
def server(folder: Path, **settings: str) -> Iterator[tuple[int, int]]:
    """Serve the database in `folder` in a fresh process. Yields (port, process id). Of the settings
    only `settings` count, not those of this machine's server. The server refreshes live and
    deferred views only if they have resident_refresh."""
    (port,) = free_ports(1)
    with running(
        port, "hornbeam_server.demo.serving", str(folder), str(port), json.dumps(settings)
    ) as process:
        yield port, process


@contextmanager
def running(port: int, module: str, *arguments: str) -> Iterator[int]:
    """Run a module that listens on `port` in a fresh process. Yields the process id. Raises
    RuntimeError if the process does not accept connections."""
    command = [sys.executable, "-m", module, *arguments]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        _wait_until_up(port, process)
        yield process.pid
    finally:
        process.terminate()
        process.wait()


def _wait_until_up(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError(f"The server on port {port} has not started.")


if __name__ == "__main__":
    chosen = {"statement_timeout_s": 600, "resident_refresh": False} | json.loads(sys.argv[3])
    serve_sealed(data=Path(sys.argv[1]), port=int(sys.argv[2]), **chosen)
