"""Changes of the schema, all day or at night, over enough rows that builds and reads take long.

Books stand on shelves. Three clients are administrators too: each has a view with its index, an
index or a UNIQUE index, which comes and goes. They change the schema at the same time, through any
process that answers them. The seed draws when: while all clients work, at a rate from rarely to
every other step, or once a night, in its last hours, while the others are idle.

Readers check at every snapshot: the view is the join and the index finds the right books, stored or
not; while the UNIQUE index is known to be in force no two books have one place. At the end every
acknowledged change is in force and built, and views and indexes equal their definitions.
"""

from __future__ import annotations

import asyncio
import enum
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from hornbeam_server.node.database import Database
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import ConstraintViolation, StalePlan
from hornbeam_server.schema.model import DeclaredIndex, KeyPart
from hornbeam_server.txlayer.statements.requests import Statement
from tests.sim.builds import require_built
from tests.sim.simulation import Client, Journal
from tests.txlayer.database_world import catalog_of

SHELVES = 10
MOST_COPIES = 6
LOOKS, LOOK_S = 3, 0.5
"""Reads after a change, and the maximum time between two of them."""
DAY_S, NIGHT_S, CHANGES_S = 1.0, 6.0, 1.5
"""The lengths of a day, of the night after it, and of the last part of the night, which has the
changes."""
SCHEMA = load_ddl(
    """
    CREATE TABLE shelf (s_id INTEGER PRIMARY KEY, s_name TEXT NOT NULL);
    CREATE TABLE book (
      b_id INTEGER PRIMARY KEY, b_s_id INTEGER NOT NULL REFERENCES shelf (s_id),
      b_place INTEGER NOT NULL, b_copies INTEGER NOT NULL);
    """
)
BY_COPIES = DeclaredIndex("by_copies", "book", (KeyPart("b_copies"),), (), False)
ONE_PLACE = DeclaredIndex("one_place", "book", (KeyPart("b_place"),), (), True)
PATH = ("shelf", "book")
_SHELVES = "SELECT s_id, s_name FROM shelf"
_BOOKS = "SELECT b_id, b_s_id, b_place, b_copies FROM book"
_JOINED = "SELECT s_id, s_name, b_id, b_copies FROM shelf, book WHERE s_id = b_s_id"
_INSERT = "INSERT INTO book VALUES (?, ?, ?, ?) RETURNING 1"
_DELETE = "DELETE FROM book WHERE b_id = ? RETURNING -1"
_PUT_IN_PLACE = "UPDATE book SET b_place = b_id WHERE b_place <> b_id"


class Thing(enum.Enum):
    """The object that each administrator changes, by the name of the client."""

    VIEW = "c0"
    INDEX = "c1"
    UNIQUE = "c2"


@dataclass(frozen=True)
class _Wanted:
    """The views and indexes of this workload that a catalog has."""

    view: bool = False
    view_index: bool = False
    index: bool = False
    unique: bool = False

    @classmethod
    def of(cls, catalog: Catalog) -> _Wanted:
        view = "__".join(PATH)
        return cls(
            view in catalog.view,
            f"{view}.by.b_copies" in catalog.index,
            BY_COPIES.name in catalog.index,
            ONE_PLACE.name in catalog.index,
        )

    def part(self, thing: Thing) -> tuple[bool, ...]:
        match thing:
            case Thing.VIEW:
                return (self.view, self.view_index)
            case Thing.INDEX:
                return (self.index,)
            case Thing.UNIQUE:
                return (self.unique,)

    def changed(self, thing: Thing, rng: random.Random) -> _Wanted:
        match thing:
            case Thing.VIEW if self.view and rng.random() < 0.5:
                return replace(self, view_index=not self.view_index)
            case Thing.VIEW:
                return replace(self, view=not self.view, view_index=False)
            case Thing.INDEX:
                return replace(self, index=not self.index)
            case Thing.UNIQUE:
                return replace(self, unique=not self.unique)

    def catalog(self, base: Catalog | None) -> Catalog:
        indexes = [BY_COPIES] * self.index + [ONE_PLACE] * self.unique
        made = catalog_of(
            replace(SCHEMA, indexes=tuple(indexes)),
            views=[PATH] * self.view,
            view_indexes=[("__".join(PATH), "b_copies")] * self.view_index,
            base=base,
        )
        return made if base is None else replace(made, row_counts=base.row_counts)


class ChangingSchema:
    oracle = False
    """The log does not contain the rows that builds write."""

    def __init__(self, rng: random.Random) -> None:
        self.books = rng.choice([40, 120, 300])
        self.nights = rng.random() < 0.5
        self.think_s = rng.choice([0.6, 1.0]) if self.nights else rng.choice([0.0, 0.0, 0.1])
        self.change_rate = rng.choice([0.04, 0.1, 0.5])
        self._known: dict[Thing, tuple[bool, ...] | None] = dict.fromkeys(Thing)
        """The known state of each object; None if the outcome of its last change is unknown."""

    def catalog(self) -> Catalog:
        return _Wanted(view=True).catalog(None)

    async def set_up(self, database: Database) -> None:
        shelves = [(n, "first") for n in range(SHELVES)]
        books = [(n, n % SHELVES, n, n % MOST_COPIES) for n in range(self.books)]
        await database.load("shelf", ["s_id", "s_name"], shelves)
        await database.load("book", ["b_id", "b_s_id", "b_place", "b_copies"], books)

    # ------------------------------------------------------------ days and nights

    async def step(self, client: Client) -> None:
        await asyncio.sleep(client.random.uniform(0, self.think_s))
        night_left_s = self._night_left_s() if self.nights else 0.0
        administers = client.name in {thing.value for thing in Thing}
        if night_left_s:
            if administers and self._on_duty() is Thing(client.name):
                before_s = client.random.uniform(0, CHANGES_S)
                await asyncio.sleep(max(night_left_s - before_s, 0))
                await self._change(client)
            await asyncio.sleep(self._night_left_s())
        elif administers and not self.nights and client.random.random() < self.change_rate:
            await self._change(client)
        await self._work(client)

    def _night_left_s(self) -> float:
        """Seconds until morning; 0 by day."""
        hour = asyncio.get_running_loop().time() % (DAY_S + NIGHT_S)
        return DAY_S + NIGHT_S - hour if hour >= DAY_S else 0.0

    def _on_duty(self) -> Thing:
        """The administrator of this night."""
        return list(Thing)[int(asyncio.get_running_loop().time() / (DAY_S + NIGHT_S)) % len(Thing)]

    # ------------------------------------------------------------ schema changes

    async def _change(self, client: Client) -> None:
        """Only acknowledged changes count as known: by then the version of the plan has passed, so
        no copy of an earlier request can still be executed."""
        thing = Thing(client.name)
        before, self._known[thing] = self._known[thing], None
        if thing is Thing.UNIQUE and before != (True,):
            await client.transact(Statement(_PUT_IN_PLACE))
        wanted = await client.change(self._changed(client, thing))
        if wanted is not None:
            self._known[thing] = wanted.part(thing)
            # A row that a build has missed is in its index again with the next write of the row.
            for _ in range(LOOKS):
                await self._look(client)
                await asyncio.sleep(client.random.uniform(0, LOOK_S))

    async def _changed(self, client: Client, thing: Thing) -> _Wanted:
        ask = client._cluster.ask_leader
        seen = await client._cluster.ask(_catalog)
        wanted = _Wanted.of(seen).changed(thing, client.random)
        await ask(_changing(seen.version, wanted))
        return wanted

    # ------------------------------------------------------------ transactions

    async def _work(self, client: Client) -> None:
        rng, book = client.random, client.random.randrange(self.books)
        shelf, copies = rng.randrange(SHELVES), rng.randrange(MOST_COPIES)
        place = book if rng.random() < 0.95 else rng.randrange(self.books)
        chosen = rng.choices(
            [
                None,
                Statement(_INSERT, (book, shelf, place, copies)),
                Statement(_DELETE, (book,)),
                Statement("UPDATE book SET b_s_id = ? WHERE b_id = ?", (shelf, book)),
                Statement("UPDATE book SET b_place = ? WHERE b_id = ?", (place, book)),
                Statement("UPDATE book SET b_copies = ? WHERE b_id = ?", (copies, book)),
                Statement("UPDATE shelf SET s_name = ? WHERE s_id = ?", (client.name, shelf)),
            ],
            [25, 20, 20, 10, 10, 10, 5],
        )[0]
        if chosen is None:
            await (self._read if rng.random() < 0.3 else self._read_shelf)(client)
            return
        try:
            await client.transact(chosen)
        except ConstraintViolation as error:
            client.journal.counts[type(error).__name__] += 1

    # ------------------------------------------------------------ invariants

    async def _read(self, client: Client) -> None:
        unique = self._known[Thing.UNIQUE]
        books = await self._look(client)
        if unique == (True,) and self._known[Thing.UNIQUE] is unique:  # no change since
            self._require_places(books)

    async def _look(self, client: Client) -> list[tuple]:
        """Read everything at one snapshot, which may be older than the last change, and check that
        views and indexes are right. Returns the books."""
        copies = client.random.randrange(MOST_COPIES)
        by_index = (f"{_BOOKS} WHERE b_copies = ?", (copies,))
        by_view = (f"{_JOINED} AND b_copies = ?", (copies,))
        found = await client.read(_SHELVES, _BOOKS, _JOINED, by_index, by_view)
        if found is None:
            return []
        shelves, books, joined, indexed, selected = found
        self._verify(shelves, books, joined)
        assert sorted(indexed) == sorted(b for b in books if b[3] == copies), "the index lies"
        assert sorted(selected) == sorted(j for j in joined if j[3] == copies), "the index lies"
        return books

    async def _read_shelf(self, client: Client) -> None:
        shelf = client.random.randrange(SHELVES)
        queries = (
            f"{_SHELVES} WHERE s_id = ?",
            f"{_BOOKS} WHERE b_s_id = ?",
            f"{_JOINED} AND s_id = ?",
        )
        found = await client.read(*((sql, (shelf,)) for sql in queries))
        if found is not None:
            self._verify(*found)

    def _verify(self, shelves: list[tuple], books: list[tuple], joined: list[tuple]) -> None:
        name = dict(shelves)
        expected = [(shelf, name[shelf], book, copies) for book, shelf, _, copies in books]
        assert sorted(joined) == sorted(expected), "the view is not the join"

    def _require_places(self, books: list[tuple]) -> None:
        places = [place for _, _, place, _ in books]
        assert len(set(places)) == len(places), f"two books have one place: {sorted(places)}"

    async def check(self, database: Database, journal: Journal) -> None:
        in_force = _Wanted.of(database.catalog)
        for thing, known in self._known.items():
            assert known in (None, in_force.part(thing)), f"{thing.name} is lost: {in_force}"
        await require_built(database)
        for use_views in (True, False):
            queries = (_SHELVES, _BOOKS, _JOINED)
            found = [await database.fetch(sql, use_views=use_views) for sql in queries]
            self._verify(*found)
        if in_force.unique:
            self._require_places(found[1])
        assert len(found[1]) == self.books + journal.returned, "effects are not answers"


async def _catalog(database: Database) -> Catalog:
    return database.catalog


def _changing(version: int, wanted: _Wanted) -> Callable[[Database], Awaitable[None]]:
    """Put `wanted` into force, if `version` is still in force."""

    async def other(current: Catalog) -> Catalog:
        if current.version != version:
            raise StalePlan("The catalog has changed.")
        return wanted.catalog(current)

    async def work(database: Database) -> None:
        await database.keeper.change(other)

    return work
