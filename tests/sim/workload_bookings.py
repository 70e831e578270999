"""Bookings: a transaction depends on the absence of rows, and on its own changes.

Guests book rooms by the hour and pay for them. A room is loud, so it may be booked only while the
rooms beside it are free. A guest reads that they are, pays, reads the credit left, and gives up if
it is negative. Two guests that read neighbouring rooms at the same time must not both book.

Readers check at every snapshot: no neighbouring rooms are booked for one hour; no guest owes; the
credit of a guest and the price of his bookings add up to his opening credit.
"""

from __future__ import annotations

import random
from collections import Counter

from hornbeam_server.node.database import Database
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import ConstraintViolation
from hornbeam_server.txlayer.statements.requests import Statement
from tests.sim.interactive import Interactive
from tests.sim.simulation import Client, Journal
from tests.txlayer.database_world import catalog_of

SCHEMA = load_ddl(
    """
    CREATE TABLE guest (g_id INTEGER PRIMARY KEY, g_credit INTEGER NOT NULL);
    CREATE TABLE booking (
      b_room INTEGER, b_hour INTEGER, b_g_id INTEGER NOT NULL REFERENCES guest (g_id),
      b_price INTEGER NOT NULL, PRIMARY KEY (b_room, b_hour));
    """
)
_GUESTS = "SELECT g_id, g_credit FROM guest"
_BOOKINGS = "SELECT b_room, b_hour, b_g_id, b_price FROM booking"
_JOINED = "SELECT g_id, g_credit, b_price FROM guest, booking WHERE g_id = b_g_id"
_AT = "SELECT b_g_id, b_price FROM booking WHERE b_room = ? AND b_hour = ?"
_LEFT = "SELECT g_credit FROM guest WHERE g_id = ?"
_PAY = "UPDATE guest SET g_credit = g_credit - ? WHERE g_id = ?"
_BOOK = "INSERT INTO booking VALUES (?, ?, ?, ?) RETURNING 1"
_CANCEL = "DELETE FROM booking WHERE b_room = ? AND b_hour = ? RETURNING -1"


class Bookings:
    oracle = True

    def __init__(self, rng: random.Random) -> None:
        self.rooms = rng.choice([2, 3, 5])
        self.hours = rng.choice([1, 2, 4])
        self.guests = rng.choice([1, 2, 4])
        self.opening = rng.choice([10, 20])

    def catalog(self) -> Catalog:
        return catalog_of(SCHEMA)

    async def set_up(self, database: Database) -> None:
        guests = [(guest, self.opening) for guest in range(self.guests)]
        await database.load("guest", ["g_id", "g_credit"], guests)

    # ------------------------------------------------------------ transactions

    async def step(self, client: Client) -> None:
        work = [self._book, self._cancel, self._read]
        (chosen,) = client.random.choices(work, [50, 30, 20])
        try:
            await chosen(client)
        except ConstraintViolation as error:
            client.journal.counts[type(error).__name__] += 1

    async def _book(self, client: Client) -> None:
        room, hour = self._some_room(client)
        guest, price = client.random.randrange(self.guests), client.random.randint(4, 9)
        look = Interactive(client)
        for beside in (room - 1, room + 1):
            if await look.look(_AT, (beside, hour)) != []:
                client.journal.counts["too loud"] += 1
                return
        if await look.write(Statement(_PAY, (price, guest))) is None:
            return
        left = await look.look(_LEFT, (guest,))
        if left is None or left[0][0] < 0:
            client.journal.counts["too dear"] += 1
            return
        await look.commit(Statement(_BOOK, (room, hour, guest, price)))

    async def _cancel(self, client: Client) -> None:
        room, hour = self._some_room(client)
        look = Interactive(client)
        for guest, price in await look.look(_AT, (room, hour)) or ():
            back = Statement(_PAY, (-price, guest))
            await look.commit(Statement(_CANCEL, (room, hour)), back)

    def _some_room(self, client: Client) -> tuple[int, int]:
        return client.random.randrange(self.rooms), client.random.randrange(self.hours)

    # ------------------------------------------------------------ invariants

    async def _read(self, client: Client) -> None:
        found = await client.read(_GUESTS, _BOOKINGS, _JOINED)
        if found is not None:
            self._verify(*found)

    def _verify(self, guests: list[tuple], bookings: list[tuple], joined: list[tuple]) -> None:
        booked = {(room, hour) for room, hour, *_ in bookings}
        loud = [(room, hour) for room, hour in booked if (room + 1, hour) in booked]
        assert not loud, f"booked beside one another: {loud}"
        assert all(left >= 0 for _, left in guests), f"a guest owes: {guests}"
        paid, left = Counter(), dict(guests)
        for _, _, guest, price in bookings:
            paid[guest] += price
        assert {guest: left[guest] + paid[guest] for guest in left} == dict.fromkeys(
            range(self.guests), self.opening
        ), (guests, bookings)
        expected = [(guest, left[guest], price) for *_, guest, price in bookings]
        assert sorted(joined) == sorted(expected), "the view is not the join"

    async def check(self, database: Database, journal: Journal) -> None:
        for use_views in (True, False):
            queries = (_GUESTS, _BOOKINGS, _JOINED)
            found = [await database.fetch(sql, use_views=use_views) for sql in queries]
            self._verify(*found)
        assert len(found[1]) == journal.returned, "effects are not answers"
