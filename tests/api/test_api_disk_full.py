"""A full disk refuses writes; once there is room, they succeed without a restart."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from tests.api.api_world import PLAN
from tests.api.test_api_serve import ROOT
from tests.depth import depth

MB = 1_000_000
SIZE_MB = 240
ROW_BYTES = 2_000_000
PATIENCE_S = 60


class SmallDisk:
    """A server with its data on a file system of SIZE_MB in its own mount namespace."""

    def __init__(self, folder: Path) -> None:
        data = str(folder / "data")
        code = f"from hornbeam_server.api.serve import serve; serve(data={data!r}, port=0)"
        run = ["sh", sys.executable, "-c", code]
        mount = f"mount -t tmpfs -o size={SIZE_MB}m tmpfs {folder} && exec "
        self.process = subprocess.Popen(
            [*["unshare", "--map-root-user", "--mount", "sh", "-c"], f'{mount} "$@"', *run],
            cwd=ROOT,
            env={k: v for k, v in os.environ.items() if not k.startswith("HORNBEAM_")},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        banner = self.process.stdout.readline()
        assert banner, self.process.stderr.read()
        self.client = httpx.Client(base_url=banner.split()[4], timeout=60)
        self._ballast = Path(f"/proc/{self.process.pid}/root{folder}/ballast")
        self.number = 0

    def leave(self, free_bytes: int) -> None:
        """Fill the disk except for `free_bytes`."""
        disk = os.statvfs(self._ballast.parent)
        with self._ballast.open("ab") as file:
            file.write(b"x" * (disk.f_bavail * disk.f_frsize - free_bytes))

    def make_room(self) -> None:
        self._ballast.unlink()

    def insert(self, bytes_: int = 10) -> httpx.Response:
        self.number += 1
        sql = "INSERT INTO customer (c_id, c_name) VALUES (?, ?)"
        statement = {"sql": sql, "parameters": [self.number, "x" * bytes_]}
        return self.client.post("/v1/transactions", json={"statements": [statement]})

    def count(self) -> int:
        answer = self.client.post("/v1/query", json={"sql": "SELECT count(*) FROM customer"})
        return answer.json()["rows"][0][0]

    def until_refused(self, bytes_: int) -> int:
        """Insert rows until a write is refused; return the number of committed rows."""
        for committed in range(2 * SIZE_MB * MB // bytes_):
            answer = self.insert(bytes_)
            if answer.status_code >= 400:
                assert answer.status_code == 507, answer.text
                problem = answer.json()
                assert problem["code"] == "disk-full"
                assert problem["retryable"]
                assert problem["outcome"] == "none"
                assert "restart" not in problem["cure"].lower()
                return committed
        raise AssertionError("the disk did not become full")

    def until_accepted(self) -> None:
        until = time.monotonic() + PATIENCE_S
        while (answer := self.insert()).status_code != 200:
            assert time.monotonic() < until, answer.text
            assert answer.status_code in (202, 503, 507), answer.text
            time.sleep(0.2)

    def close(self) -> None:
        self.client.close()
        self.process.terminate()
        _, log = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, log


@pytest.mark.parametrize(("free_bytes", "rounds"), [(100_000, 2), (9 * MB, 1), (60 * MB, 1)])
def test_writes_continue_when_the_disk_has_room_again(tmp_path, free_bytes, rounds):
    disk = SmallDisk(tmp_path)
    try:
        planned = disk.client.post("/v1/schema/plan", json=PLAN).json()
        body = PLAN | {"plan_id": planned["plan_id"]}
        assert disk.client.post("/v1/schema/apply", json=body).status_code == 200
        committed = 0
        for _ in range(depth(rounds, long=2)):
            disk.leave(free_bytes)
            committed += disk.until_refused(ROW_BYTES)
            assert disk.insert(ROW_BYTES).status_code == 507
            assert disk.client.get("/livez").status_code == 200
            disk.make_room()
            before = disk.number
            disk.until_accepted()
            last = disk.insert(ROW_BYTES)
            assert last.status_code == 200, last.text
            assert disk.client.get("/readyz").status_code == 200
            assert disk.count() >= committed + 2
            committed = disk.count()
            assert disk.number - before >= 2
        lines = disk.client.post("/v1/verify", json={}).text.splitlines()
        assert '"differences":0' in lines[-1]
    finally:
        disk.close()
