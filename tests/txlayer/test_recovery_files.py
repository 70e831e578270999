"""The committer and recovery over the real store and the real log."""

import asyncio
import shutil
from pathlib import Path

from hornbeam_server.storage.local.log import LocalLog
from hornbeam_server.storage.local.system import SystemClock
from hornbeam_server.storage.ports import NEWEST
from hornbeam_server.storage.rocks.store import RocksStore
from hornbeam_server.txlayer.commit.recovery import recover
from hornbeam_server.txlayer.transactions.outcomes import TABLE as OUTCOMES
from tests.txlayer.txlayer_world import TABLE, World, prepared

COMMITS = 60


async def committed(folder: Path, crashed: Path) -> dict[bytes, tuple[int, bytes]]:
    """Commit, copy the log as a crash leaves it, and close; return the acknowledged rows."""
    store, log = RocksStore.open(folder / "store"), await LocalLog.open(folder / "log", "s1", 1)
    for table in (TABLE, OUTCOMES):
        await store.create_table(table)
    world = World(store, log, clock=SystemClock())
    await world.committer.start()
    rows: dict[bytes, tuple[int, bytes]] = {}
    for begin in range(0, COMMITS, 20):
        group = range(begin, begin + 20)
        answers = await asyncio.gather(
            *(world.committer.commit(prepared(number, [str(number)])) for number in group)
        )
        for number, answer in zip(group, answers, strict=True):
            rows[str(number).encode()] = (answer.ts, f"{number}={number}".encode())
    shutil.copytree(folder / "log", crashed)
    await world.committer.close()
    await log.close()
    await store.close()
    return rows


async def recovered_rows(
    folder: Path, log_folder: Path
) -> tuple[int, dict[bytes, tuple[int, bytes]]]:
    """Recover `log_folder` into a new store, twice; return how many are replayed, and the rows."""
    store = RocksStore.open(folder)
    replayed = []
    for epoch in (2, 3):
        log = await LocalLog.open(log_folder, "s1", epoch)
        replayed.append((await recover(store, log)).replayed)
        await log.close()
    assert replayed[1] == 0
    found = {}
    async for batch in store.scan(TABLE, b"", None, NEWEST):
        found |= {cell.key: (cell.ts, cell.value) for cell in batch}
    await store.close()
    return replayed[0], found


async def test_the_log_alone_restores_every_acknowledged_row(tmp_path):
    rows = await committed(tmp_path, tmp_path / "crashed")
    replayed, found = await recovered_rows(tmp_path / "new", tmp_path / "crashed")
    assert replayed == COMMITS
    assert found == rows


async def test_a_torn_tail_loses_its_whole_batch_and_nothing_else(tmp_path):
    rows = await committed(tmp_path, tmp_path / "crashed")
    (segment,) = (tmp_path / "crashed" / "s1").iterdir()
    segment.write_bytes(segment.read_bytes()[:-3])
    replayed, found = await recovered_rows(tmp_path / "new", tmp_path / "crashed")
    last = max(ts for ts, _ in rows.values())
    assert 0 < replayed < COMMITS
    assert found == {key: cell for key, cell in rows.items() if cell[0] < last}


async def test_after_a_clean_close_there_is_nothing_to_replay(tmp_path):
    rows = await committed(tmp_path, tmp_path / "crashed")
    replayed, found = await recovered_rows(tmp_path / "store", tmp_path / "log")
    assert (replayed, found) == (0, rows)
