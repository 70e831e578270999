"""A missing or cut newest segment is detected: the server's log and status report it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.storage.log.format import parse_name, scan_segment
from hornbeam_server.storage.ports import NEWEST, Position, Put
from hornbeam_server.storage.rocks.store import RocksStore
from hornbeam_server.txlayer.commit import log_end
from hornbeam_server.txlayer.commit.recovery import recover
from tests.txlayer.database_world import catalog_of, opened
from tests.txlayer.txlayer_world import MemoryLog

DDL = "CREATE TABLE t (a INTEGER PRIMARY KEY);"
ERROR = "the end of the log is missing; commits may be lost"
TORN = "the torn end of a log segment is dropped, as a crash in a write leaves one"


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("**/log/*/*.log"), key=lambda path: parse_name(path.name))


def store_of(folder: Path) -> Path:
    return next(folder.glob("**/store"))


async def written(folder, first, count=3):
    """Commit rows, noting the end of the log for each; return a copy of the folder as a crash
    leaves it."""
    async with opened(folder, catalog_of(load_ddl(DDL)) if first == 0 else None) as database:
        for number in range(first, first + count):
            database.committer._noted_at = float("-inf")
            await database.execute("INSERT INTO t VALUES (?)", (number,))
        await database.store.flush()
        crashed = folder.with_name(f"{folder.name}-crashed")
        shutil.rmtree(crashed, ignore_errors=True)
        shutil.copytree(folder, crashed)
    return crashed


async def found(folder):
    """The missing part of the log by the status, the errors and torn ends by the server's log, and
    the rows."""
    with capture_logs() as lines:
        async with opened(folder) as database:
            status = await database.status()
            rows = [a for (a,) in await database.fetch("SELECT a FROM t ORDER BY a")]
    errors = [line for line in lines if line["event"] == ERROR]
    torn = [line for line in lines if line["event"] == TORN]
    return status["log"]["missing"], errors, torn, rows


def frames_of(path: Path) -> list[int]:
    return [offset for _, offset in scan_segment(path.read_bytes(), path.name).frames]


@pytest.mark.parametrize("crashed", [False, True])
async def test_a_whole_log_is_opened_without_warnings(tmp_path, crashed):
    copy = await written(tmp_path / "data", 0)
    folder = copy if crashed else tmp_path / "data"
    for _ in range(2):
        missing, errors, torn, rows = await found(folder)
        assert (missing, errors, torn, rows) == ([], [], [], [0, 1, 2])


@pytest.mark.parametrize("crashed", [False, True])
@pytest.mark.parametrize("before", [0, 1, 2])
async def test_a_missing_newest_segment_is_reported_with_its_position(tmp_path, crashed, before):
    """The database has been served `before` times."""
    for number in range(before):
        await written(tmp_path / "data", 10 * number)
    copy = await written(tmp_path / "data", 10 * before)
    folder = copy if crashed else tmp_path / "data"
    newest = segments(folder)[-1]
    newest.unlink()
    missing, errors, _, _ = await found(folder)
    (lost,) = missing
    assert lost["log"] == "local"
    assert lost["known_to_reach"].startswith(f"{newest.name}:")
    assert lost["ends_at"] < lost["known_to_reach"] or lost["ends_at"] == "the beginning"
    assert [{k: e[k] for k in lost} for e in errors] == missing
    assert [e["log_level"] for e in errors] == ["error"]
    assert (await found(folder))[:2] == ([], [])  # reported once, by the next owner


@pytest.mark.parametrize("crashed", [False, True])
async def test_every_cut_before_a_noted_commit_is_reported(tmp_path, crashed):
    copy = await written(tmp_path / "data", 0)
    folder = copy if crashed else tmp_path / "data"
    newest = segments(folder)[-1]
    whole = newest.read_bytes()
    store = RocksStore.open(store_of(folder))
    (known, _), name = await log_end.known_end(store, "local"), newest.name
    await store.close()
    frames = frames_of(newest)
    assert known.offset in frames
    for cut in sorted({0, 1, *frames, *(f - 1 for f in frames), *(f + 1 for f in frames)}):
        if cut > len(whole):
            continue
        shutil.rmtree(tmp_path / "cut", ignore_errors=True)
        shutil.copytree(folder, tmp_path / "cut")
        (tmp_path / "cut" / newest.relative_to(folder)).write_bytes(whole[:cut])
        missing, errors, torn, rows = await found(tmp_path / "cut")
        assert bool(missing) == bool(errors) == (cut < known.offset), cut
        if missing:
            assert missing[0]["known_to_reach"] == f"{name}:{known.offset}"
        last = max([0, *(f for f in frames if f <= cut)])
        assert [line["position"] for line in torn] == ([f"{name}:{last}"] if torn else [])
        assert rows == [0, 1, 2]  # the store has them: they had been applied


async def test_a_torn_end_behind_all_commits_is_no_missing_end(tmp_path):
    folder = await written(tmp_path / "data", 0)
    newest = segments(folder)[-1]
    size = newest.stat().st_size
    with newest.open("ab") as file:
        file.write(b"half an append")
    missing, errors, torn, rows = await found(folder)
    assert (missing, errors, rows) == ([], [], [0, 1, 2])
    assert [(t["position"], t["bytes"]) for t in torn] == [(f"{newest.name}:{size}", 14)]


async def test_a_database_of_an_older_version_has_no_notes(tmp_path):
    folder = await written(tmp_path / "data", 0)
    store = RocksStore.open(store_of(folder))
    await store.drop_table(log_end.TABLE)
    await store.close()
    segments(folder)[-1].unlink()
    assert (await found(folder))[:2] == ([], [])


async def test_timestamps_of_a_missing_end_are_not_given_again(tmp_path):
    store = RocksStore.open(tmp_path)
    await store.create_table(log_end.TABLE)
    at = Position(1, 2, 300)
    await store.put({log_end.TABLE: [log_end.note_of("a", at)]}, 10**15)
    recovered = await recover(store, MemoryLog(2), log_name="a")
    assert recovered.last_ts >= 10**15
    assert recovered.lost is not None
    assert recovered.lost.known == at
    assert (await recover(store, MemoryLog(3), log_name="b")).lost is None
    assert (await store.get(log_end.TABLE, [b"a"], NEWEST))[0].value
    await store.put({log_end.TABLE: [Put(b"a", b"")]}, 10**15 + 1)
    await store.close()
