"""Tallies: each transaction is one statement that writes the row with one key.

Boards are roots, tallies lie below them. Clients count up boards and tallies, add a tally or count
it up (ON CONFLICT DO UPDATE), add boards and tallies that are there already (DO NOTHING), and
delete tallies, and boards that have no tallies. Each statement returns how much it adds to the sum
of all counts, so a statement that is executed twice or not at all shows.

Readers check at every snapshot: each tally lies below a board, and the view is the join.
"""

from __future__ import annotations

import random

from hornbeam_server.node.database import Database
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import ConstraintViolation
from hornbeam_server.txlayer.statements.requests import Statement
from tests.sim.simulation import Client, Journal
from tests.txlayer.database_world import catalog_of

TALLIES = 3
SCHEMA = load_ddl(
    """
    CREATE TABLE board (b_id INTEGER PRIMARY KEY, b_count INTEGER NOT NULL, b_code TEXT UNIQUE);
    CREATE TABLE tally (
      t_b_id INTEGER REFERENCES board (b_id), t_no INTEGER, t_count INTEGER NOT NULL, t_note TEXT,
      PRIMARY KEY (t_b_id, t_no));
    """
)
_BOARDS = "SELECT b_id, b_count FROM board"
_TALLIES = "SELECT t_b_id, t_no, t_count FROM tally"
_JOINED = "SELECT b_id, b_count, t_no, t_count FROM board, tally WHERE b_id = t_b_id"
_OF_BOARD = (
    "UPDATE board SET b_count = b_count + 1 WHERE b_id = ? RETURNING 1",
    "INSERT INTO board VALUES (?, 0, NULL) ON CONFLICT (b_id) DO NOTHING RETURNING 0",
    "DELETE FROM board WHERE b_id = ? RETURNING -b_count",
)
_OF_TALLY = (
    "UPDATE tally SET t_count = t_count + 1 WHERE t_b_id = ? AND t_no = ? RETURNING 1",
    "UPDATE tally SET t_note = 'x', t_count = t_count * 2 WHERE t_b_id = ? AND t_no = ?"
    " RETURNING t_count / 2",
    "INSERT INTO tally VALUES (?, ?, 1, NULL) ON CONFLICT (t_b_id, t_no)"
    " DO UPDATE SET t_count = tally.t_count + excluded.t_count RETURNING 1",
    "INSERT INTO tally VALUES (?, ?, 1, NULL) ON CONFLICT DO NOTHING RETURNING 1",
    "DELETE FROM tally WHERE t_b_id = ? AND t_no = ? RETURNING -t_count",
)


class Tallies:
    oracle = True

    def __init__(self, rng: random.Random) -> None:
        self.boards = rng.choice([1, 2, 5])

    def catalog(self) -> Catalog:
        indexed = [("board__tally", "b_count"), ("board__tally", "t_count")]
        return catalog_of(SCHEMA, view_indexes=indexed)

    async def set_up(self, database: Database) -> None:
        boards = [(n, 0) for n in range(self.boards)]
        await database.load("board", ["b_id", "b_count"], boards)

    async def step(self, client: Client) -> None:
        chance = client.random
        if chance.random() < 0.2:
            return await self._read(client)
        board = chance.randrange(self.boards)
        if chance.random() < 0.4:
            (sql,) = chance.choices(_OF_BOARD, [10, 2, 2])
            statement = Statement(sql, (board,))
        else:
            (sql,) = chance.choices(_OF_TALLY, [6, 1, 6, 2, 3])
            statement = Statement(sql, (board, chance.randrange(TALLIES)))
        try:
            await client.transact(statement)
        except ConstraintViolation as error:
            client.journal.counts[type(error).__name__] += 1
        return None

    async def _read(self, client: Client) -> None:
        found = await client.read(_BOARDS, _TALLIES, _JOINED)
        if found is not None:
            _verify(*found)

    async def check(self, database: Database, journal: Journal) -> None:
        for use_views in (True, False):
            boards, tallies, joined = [
                await database.fetch(sql, use_views=use_views)
                for sql in (_BOARDS, _TALLIES, _JOINED)
            ]
            _verify(boards, tallies, joined)
        counted = sum(count for _, count in boards) + sum(count for *_, count in tallies)
        assert counted == journal.returned, "effects are not answers"


def _verify(boards: list[tuple], tallies: list[tuple], joined: list[tuple]) -> None:
    count = dict(boards)
    assert all(board in count for board, _, _ in tallies), "a tally lies below no board"
    expected = [(board, count[board], no, of_tally) for board, no, of_tally in tallies]
    assert sorted(joined) == sorted(expected), "the view is not the join"
