"""With any umask, only their owner can read stored files."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

import hornbeam
from hornbeam.cli.rejects import rejects_file
from hornbeam_server.node import adapters
from hornbeam_server.node.adapters import embedded_ports
from hornbeam_server.node.database import Database
from hornbeam_server.node.settings import Settings
from hornbeam_server.pipeline.load import rejects as spark_rejects
from hornbeam_server.storage.local.coordination import LocalCoordination
from hornbeam_server.storage.local.log import LocalLog
from hornbeam_server.storage.ports import Put
from hornbeam_server.storage.rocks.store import RocksStore
from tests.api.api_world import PLAN
from tests.api.test_api_serve import ROOT, start


@contextmanager
def umask(mask):
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def open_to_others(folder: Path) -> list[str]:
    """List `folder` and its contents where the group or others have any permission."""
    found = []
    for place, _, names in os.walk(folder):
        for path in (Path(place), *(Path(place, name) for name in names)):
            mode = stat.S_IMODE(path.lstat().st_mode)
            if mode & 0o077:
                found.append(f"{path.relative_to(folder)}: {mode:o}")
    return found


@pytest.mark.parametrize("mask", [0o000, 0o077])
def test_a_served_folder_is_private(tmp_path, mask):
    with umask(mask):
        server = start(tmp_path / "above" / "data", query_memory_mb=20)
    try:
        url = server.stdout.readline().split()[4]
        plan_id = httpx.post(f"{url}/v1/schema/plan", json=PLAN).json()["plan_id"]
        httpx.post(f"{url}/v1/schema/apply", json=PLAN | {"plan_id": plan_id}).raise_for_status()
        csv = "c_id,c_name\n" + "".join(f"{n},{'x' * 900}\n" for n in range(50_000))
        load = {"content": csv, "headers": {"Content-Type": "text/csv"}, "timeout": 60}
        httpx.post(f"{url}/v1/load/customer", **load).raise_for_status()
        httpx.post(f"{url}/v1/exports", json={}).raise_for_status()
        httpx.post(f"{url}/v1/keys", json={"name": "x", "role": "reader"}).raise_for_status()
        files = [path for path in (tmp_path / "above" / "data").rglob("*") if path.is_file()]
        assert any(path.suffix == ".sst" for path in files)
        assert any(path.suffix == ".log" and "log" in path.parts for path in files)
        assert open_to_others(tmp_path / "above" / "data") == []
    finally:
        server.terminate()
        server.communicate(timeout=60)
    assert open_to_others(tmp_path / "above" / "data") == []


@pytest.mark.parametrize("mask", [0o000, 0o022])
def test_an_embedded_folder_is_private_and_the_umask_stays(tmp_path, mask):
    folder = tmp_path / "data"
    with umask(mask):
        with hornbeam.connect(f"hornbeam:///{folder}") as connection:
            assert connection.cursor().execute("SELECT 1").fetchall() == [(1,)]
        assert os.umask(mask) == mask
        Path(tmp_path, "of the host").touch()
    assert stat.S_IMODE(Path(tmp_path, "of the host").stat().st_mode) == 0o666 & ~mask
    assert open_to_others(folder) == []


async def test_files_that_rocksdb_writes_later_are_private(tmp_path):
    with umask(0):
        store = RocksStore.open(tmp_path / "store")
        await store.create_table("t")
        await store.put({"t": [Put(b"k", b"v")]}, 1)
        store._db.flush()
        await store.checkpoint(tmp_path / "store" / "checkpoint")
        assert open_to_others(tmp_path / "store") == []
        await store.close()


async def test_the_parts_of_a_database_are_private_by_themselves(tmp_path):
    with umask(0):
        coordination = LocalCoordination.open(tmp_path / "coordination")
        await coordination.write("/x", b"v", 0)
        await coordination.close()
        log = await LocalLog.open(tmp_path / "log", "local", 1)
        await log.append([b"x"])
        await log.close()
    assert open_to_others(tmp_path / "coordination") == []
    assert open_to_others(tmp_path / "log") == []


def opened(folder):
    async def scenario():
        made = await embedded_ports(Settings(data=folder), None, None)
        await made.store.close()
        await made.coordination.close()

    asyncio.run(scenario())


def test_a_readable_folder_of_an_older_version_becomes_private(tmp_path):
    folder = tmp_path / "data"
    opened(folder)
    for place, _, names in os.walk(folder):
        os.chmod(place, 0o755)
        for name in names:
            os.chmod(os.path.join(place, name), 0o644)
    os.symlink(tmp_path, folder / "spill" / "link")
    os.chmod(tmp_path, 0o755)
    opened(folder)
    (folder / "spill" / "link").unlink()
    assert open_to_others(folder) == []
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755  # links are not followed


def test_spilled_files_of_a_killed_process_are_removed(tmp_path):
    folder = tmp_path / "data"
    opened(folder)
    left = folder / "spill" / "1234"
    left.mkdir(parents=True)
    (left / "duckdb_temp_storage.tmp").write_bytes(b"x" * 1_000)

    async def scenario():
        async with await Database.open(Settings(data=folder)):
            pass

    asyncio.run(scenario())
    assert list((folder / "spill").iterdir()) == []


def test_an_existing_empty_folder_becomes_private(tmp_path):
    (tmp_path / "data").mkdir(mode=0o755)
    opened(tmp_path / "data")
    assert open_to_others(tmp_path / "data") == []


def test_other_files_in_the_folder_keep_their_permissions(tmp_path):
    (tmp_path / "data").mkdir(mode=0o755)
    (tmp_path / "data" / "notes").write_text("mine")
    os.chmod(tmp_path / "data" / "notes", 0o644)
    opened(tmp_path / "data")
    assert open_to_others(tmp_path / "data") == [".: 755", "notes: 644"]


def test_a_folder_of_another_user_keeps_its_permissions(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    os.chmod(tmp_path / "data", 0o777)
    user = os.geteuid()
    monkeypatch.setattr(adapters.os, "geteuid", lambda: user + 1)
    opened(tmp_path / "data")
    assert open_to_others(tmp_path / "data") == [".: 777"]


def test_files_of_rejected_rows_are_private(tmp_path):
    with umask(0):
        with rejects_file(tmp_path / "cli", 1):
            pass
        with spark_rejects.Rejects(tmp_path / "spark", 1):
            pass
    assert {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("cli", "spark")} == {0o600}


def test_a_first_key_is_created_in_a_private_folder(tmp_path):
    hornbeam_command = Path(sys.executable).with_name("hornbeam")
    command = [hornbeam_command, "keys", "create", "me", "--role", "admin"]
    opened(tmp_path / "data")
    with umask(0):
        subprocess.run(
            [*command, "--data", str(tmp_path / "data")], cwd=ROOT, check=True, capture_output=True
        )
    assert open_to_others(tmp_path / "data") == []
