"""Batches that change many groups of an immediate view are made in turns with other work."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from hornbeam_server.schema.errors import Unavailable
from hornbeam_server.schema.turns import ROWS_A_TURN
from hornbeam_server.txlayer.commit import lanes
from hornbeam_server.txlayer.commit.lanes import LaneCell
from tests.txlayer.test_immediate_views import opened, require_right, run, view

GROUPS = 8 * ROWS_A_TURN
DDL = "CREATE TABLE t (k INTEGER PRIMARY KEY, n INTEGER);" + view(
    "SELECT k, count(*) AS rows, sum(n) AS total FROM t GROUP BY k"
)
INSERT = f"INSERT INTO t SELECT i, i FROM generate_series(1, {GROUPS}) AS s (i)"


class Rounds:
    """Counts the rounds of the event loop while it is entered."""

    def __init__(self):
        self.number = 0

    async def count(self):
        while True:
            self.number += 1
            await asyncio.sleep(0)

    async def __aenter__(self):
        self.task = asyncio.ensure_future(self.count())
        return self

    async def __aexit__(self, *_):
        self.task.cancel()


@asynccontextmanager
async def on_groups(tmp_path):
    async with opened(tmp_path, DDL) as database:
        yield database


@pytest.mark.parametrize(("owner", "step"), [(LaneCell, "put"), (lanes, "_sum")])
async def test_other_work_goes_on_while_a_batch_with_many_cells_is_made(
    tmp_path, monkeypatch, owner, step
):
    async with on_groups(tmp_path) as database, Rounds() as rounds:
        seen = []
        original = getattr(owner, step)

        def noted(each):
            seen.append(rounds.number)
            return original(each)

        monkeypatch.setattr(owner, step, noted)
        await run(database, INSERT)
        assert len(seen) == GROUPS
        most = max(seen.count(number) for number in set(seen))
        assert most <= ROWS_A_TURN
        await require_right(database)


async def test_a_transaction_whose_batch_is_being_made_is_refused_when_the_committer_fails(
    tmp_path, monkeypatch
):
    async with on_groups(tmp_path) as database:
        original = LaneCell.put

        def failing(cell):
            database.committer._fail(Unavailable("The disk is gone."))
            return original(cell)

        monkeypatch.setattr(LaneCell, "put", failing)
        with pytest.raises(Unavailable, match="The disk is gone"):
            await run(database, INSERT)
        assert database.committer.failed is not None
    monkeypatch.undo()
    async with opened(tmp_path, DDL) as database:
        assert await database.fetch("SELECT count(*) FROM t") == [(0,)]
        await run(database, INSERT)
        await require_right(database)
