"""Initial loads, again and again, beside other work.

Books stand on shelves. One client deletes all books, and has new ones loaded: it begins a load,
executors put books, their index and the rows of views over them through any node, some of them
twice, late, or in vain; then the client ends the load, or cancels it. Other clients change shelves
and books, and are refused while a load is under way.

Readers check at every snapshot: all books of a load are there or none, the view is the join, and
the index finds the right books. At the end every book has its shelf, and views and indexes equal
their definitions.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from typing import Any

from hornbeam_server.maintain.recompute import recompute
from hornbeam_server.maintain.spans import Span
from hornbeam_server.node.database import Database
from hornbeam_server.schema.catalog import Catalog, Load
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import (
    BeingLoaded,
    ConstraintViolation,
    HornbeamError,
    NotFound,
    StalePlan,
    Unavailable,
)
from hornbeam_server.schema.types import Row
from hornbeam_server.storage.codec.rows import Codecs
from hornbeam_server.storage.ports import Put
from hornbeam_server.storage.snapshot import Snapshot
from hornbeam_server.txlayer.statements.requests import Statement
from tests.sim.builds import require_built
from tests.sim.simulated_cluster import NoAnswer
from tests.sim.simulation import Client, Journal
from tests.txlayer.database_world import catalog_of

SHELVES, BOOKS = 8, 60
TRIES = 12
SCHEMA = load_ddl(
    """
    CREATE TABLE shelf (s_id INTEGER PRIMARY KEY, s_name TEXT NOT NULL);
    CREATE TABLE book (
      b_id INTEGER PRIMARY KEY, b_s_id INTEGER NOT NULL REFERENCES shelf (s_id),
      b_load INTEGER NOT NULL, b_copies INTEGER NOT NULL);
    CREATE TABLE guest (g_id INTEGER PRIMARY KEY, g_name TEXT);
    CREATE INDEX by_copies ON book (b_copies);
    """
)
_SHELVES = "SELECT s_id, s_name FROM shelf"
_BOOKS = "SELECT b_id, b_s_id, b_load, b_copies FROM book"
_JOINED = "SELECT s_id, s_name, b_id, b_copies FROM shelf, book WHERE s_id = b_s_id"


class Loads:
    oracle = False
    """The logs do not have loaded rows."""

    def __init__(self, rng: random.Random) -> None:
        self.load_rate = rng.choice([0.1, 0.3])
        self.cancel_rate = rng.choice([0.0, 0.3])
        self.parts = rng.choice([1, 3])
        self._loaded: dict[int, int] = {}
        """The number of books of each load, by its `b_load`; -1 before it is known."""
        self._late: set[asyncio.Future[None]] = set()

    def catalog(self) -> Catalog:
        return catalog_of(SCHEMA, views=[("shelf", "book")])

    async def set_up(self, database: Database) -> None:
        await database.load("shelf", ["s_id", "s_name"], [(n, "first") for n in range(SHELVES)])

    # ------------------------------------------------------------ transactions of clients

    async def step(self, client: Client) -> None:
        rng = client.random
        if client.name == "c0" and rng.random() < self.load_rate:
            await self._load(client)
        elif rng.random() < 0.4:
            await self._read(client)
        else:
            await self._write(client)

    async def _write(self, client: Client) -> None:
        rng = client.random
        shelf, other, copies = rng.randrange(SHELVES), rng.randrange(SHELVES), rng.randrange(5)
        chosen = rng.choice(
            [
                Statement("UPDATE book SET b_s_id = ? WHERE b_s_id = ?", (shelf, other)),
                Statement("UPDATE book SET b_copies = ? WHERE b_s_id = ?", (copies, shelf)),
                Statement("UPDATE shelf SET s_name = ? WHERE s_id = ?", (client.name, shelf)),
                Statement("DELETE FROM shelf WHERE s_id = ?", (shelf,)),
                Statement("INSERT INTO shelf VALUES (?, 'new')", (shelf,)),
                Statement("INSERT INTO guest VALUES (?, ?) ON CONFLICT DO NOTHING", (shelf, "a")),
            ]
        )
        try:
            await client.transact(chosen)
        except ConstraintViolation as error:
            client.journal.counts[type(error).__name__] += 1

    # ------------------------------------------------------------ loading

    async def _load(self, client: Client) -> None:
        """Load books as a driver does. It repeats each request that has no answer."""
        number = len(self._loaded) + 1
        self._loaded[number] = -1
        emptied = await client.transact(Statement("DELETE FROM book"))
        if emptied is None:
            return
        identity = f"{client.name} {number}"
        load = await self._asked(client, _beginning(identity))
        if load is None or load.identity != identity:
            await self._asked(client, _cancelling)
            return
        rows = self._rows(client.random, number)
        keys = sorted(rows)
        cuts = [keys[len(keys) * i // self.parts] for i in range(1, self.parts)]
        spans = [*zip([None, *cuts], [*cuts, None], strict=True)]
        done = [await self._put(client, load.number, rows, *span) for span in spans[:-1]]
        if client.random.random() < 0.2:
            assert not await self._asked(client, _ending(load.number)), "keys are missing"
        done.append(await self._put(client, load.number, rows, *spans[-1]))
        if not all(done) or client.random.random() < self.cancel_rate:
            await self._asked(client, _cancelling)
            return
        self._loaded[number] = len(rows)
        if await self._asked(client, _ending(load.number)):
            client.journal.counts["loads"] += 1

    def _rows(self, rng: random.Random, number: int) -> dict[int, Row]:
        return {
            b: (b, rng.randrange(SHELVES), number, rng.randrange(5))
            for b in rng.sample(range(1_000), BOOKS)
        }

    async def _put(
        self, client: Client, number: int, rows: dict[int, Row], start: int | None, end: int | None
    ) -> bool:
        """Put one range of keys until it is finished. Some executors only appear to be dead and put
        too."""
        mine = [
            row
            for key, row in sorted(rows.items())
            if (start is None or key >= start) and (end is None or key < end)
        ]
        for _ in range(TRIES):
            task = _putting(number, mine)
            if client.random.random() < 0.3:  # an executor that only appears to be dead
                self._late.add(asyncio.ensure_future(_unheard(client._cluster.ask(task))))
            accepted = await client.ask_persistently("put", task)
            if accepted is None:
                continue
            for row in mine:
                if row not in accepted:
                    del rows[row[0]]
            finishing = _finishing(number, start, end, len(accepted))
            return await self._asked(client, finishing) is not None
        return False

    async def _asked(self, client: Client, work: Callable[[Database], Awaitable[Any]]) -> Any:
        """The leader's answer; None when the leader refuses, or no answer comes."""
        for _ in range(TRIES):
            try:
                return await client._cluster.ask_leader(work)
            except (NotFound, StalePlan, BeingLoaded):
                return None
            except (Unavailable, NoAnswer) as error:
                client.journal.counts[f"load: {type(error).__name__}"] += 1
            await asyncio.sleep(client.random.uniform(0.05, 0.5))
        return None

    # ------------------------------------------------------------ invariants

    async def _read(self, client: Client) -> None:
        copies = client.random.randrange(5)
        found = await client.read(
            _SHELVES, _BOOKS, _JOINED, (f"{_BOOKS} WHERE b_copies = ?", (copies,))
        )
        if found is not None:
            shelves, books, joined, indexed = found
            self._verify(shelves, books, joined)
            assert sorted(indexed) == sorted(b for b in books if b[3] == copies), "the index lies"

    def _verify(self, shelves: list[tuple], books: list[tuple], joined: list[tuple]) -> None:
        name = dict(shelves)
        assert all(book[1] in name for book in books), "a book without its shelf"
        expected = [(shelf, name[shelf], book, copies) for book, shelf, _, copies in books]
        assert sorted(joined) == sorted(expected), "the view is not the join"
        there = {book[2] for book in books}
        assert len(there) <= 1, f"books of several loads: {sorted(there)}"
        for number in there:
            assert len(books) == self._loaded[number], f"{len(books)} of {self._loaded[number]}"

    async def check(self, database: Database, journal: Journal) -> None:
        if database.catalog.load is not None:
            await database.initial_loads.cancel()
        await require_built(database)
        for use_views in (True, False):
            found = [
                await database.fetch(sql, use_views=use_views)
                for sql in (_SHELVES, _BOOKS, _JOINED)
            ]
            self._verify(*found)


async def _unheard(work: Awaitable[Any]) -> None:
    """Run `work` and ignore its result."""
    with contextlib.suppress(HornbeamError, NoAnswer):
        await work


# ---------------------------------------------------------------- requests to nodes


def _beginning(identity: str) -> Callable[[Database], Awaitable[Load | None]]:
    async def work(database: Database) -> Load | None:
        await database.initial_loads.begin(("book",), identity, {})
        return database.catalog.load

    return work


def _putting(number: int, rows: list[Row]) -> Callable[[Database], Awaitable[list[Row]]]:
    """The work of an executor: it puts the rows that have a parent, and returns them."""

    async def work(database: Database) -> list[Row]:
        loop, patience_s = asyncio.get_running_loop(), database.settings.snapshot_retention_s / 2
        async with database.reads.at(strong=True) as (state, at):
            began, catalog = loop.time(), state.catalog
            if catalog.load is None or catalog.load.number != number:
                raise Unavailable("This node knows of no such load.")
        codecs = Codecs(catalog.loaded)
        reader = Snapshot(database.store, codecs, at)
        found = await reader.get("shelf", [(row[1],) for row in rows])
        shelves = {version.row for version in found if version is not None}
        names = {shelf[0] for shelf in shelves}
        base = {"shelf": shelves, "book": [row for row in rows if row[1] in names]}
        for name in catalog.loading:
            codec = codecs(name)
            made = recompute(catalog.loaded, base, name)
            puts = [Put(codec.key(row), codec.encode(row)) for row in made]
            if loop.time() - began > patience_s:  # as in pipeline.sink: it may be purged
                raise Unavailable("It is too late to put anything.")
            await database.store.put({codec.layout.table: puts}, at)
        await database.store.flush()
        return base["book"]

    return work


def _finishing(
    number: int, start: int | None, end: int | None, rows: int
) -> Callable[[Database], Awaitable[bool]]:
    async def work(database: Database) -> bool:
        key_of = database.manager.state.codecs("book").key_of
        span = Span(b"" if start is None else key_of((start,)), end and key_of((end,)))
        await database.initial_loads.finish(number, "book", span, rows)
        return True

    return work


def _ending(number: int) -> Callable[[Database], Awaitable[bool]]:
    async def work(database: Database) -> bool:
        await database.initial_loads.end(number)
        return True

    return work


async def _cancelling(database: Database) -> bool:
    await database.initial_loads.cancel()
    return True
