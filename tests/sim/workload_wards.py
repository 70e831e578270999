"""Wards: serializable transactions depend on conditions over rows that they do not write.

In each ward at least one doctor is on call, and no ward has more than `most` doctors. A doctor
leaves, or moves to another ward, while the rest of the ward is on call. A doctor is hired while the
ward has room. All of these conditions are counts over rows that other transactions change, insert
and delete. Some transactions are one statement that searches, others read first and commit then.

Readers check at every snapshot that the conditions hold. The answers, in the order of their
timestamps, give the doctors at the end.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

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
    CREATE TABLE doctor (d_id INTEGER PRIMARY KEY, d_ward INTEGER NOT NULL, d_on BOOLEAN NOT NULL);
    CREATE INDEX by_ward ON doctor (d_ward);
    """
)
_DOCTORS = "SELECT d_id, d_ward, d_on FROM doctor"
_WARD = "SELECT d_id, d_on FROM doctor WHERE d_ward = ?"
_ENOUGH = "(SELECT count(*) FROM doctor WHERE d_ward = ? AND d_on) > 1"
_RETURNED = "RETURNING d_id, d_ward, d_on"
_LEAVE = (
    "UPDATE doctor SET d_on = FALSE"
    f" WHERE d_id = ? AND d_ward = ? AND d_on AND {_ENOUGH} {_RETURNED}"
)
_COME = f"UPDATE doctor SET d_on = TRUE WHERE d_id = ? {_RETURNED}"
_MOVE = f"UPDATE doctor SET d_ward = ? WHERE d_id = ? {_RETURNED}"
_DISMISS = (
    f"DELETE FROM doctor WHERE d_id = ? AND d_ward = ? AND {_ENOUGH} RETURNING d_id, NULL, d_on"
)
_HIRE = (
    "INSERT INTO doctor SELECT ?, ?, FALSE"
    f" WHERE (SELECT count(*) FROM doctor WHERE d_ward = ?) < ? {_RETURNED}"
)


class Wards:
    oracle = True

    def __init__(self, rng: random.Random) -> None:
        self.wards = rng.choice([1, 2, 3])
        self.most = rng.choice([3, 4])

    def catalog(self) -> Catalog:
        return catalog_of(SCHEMA)

    async def set_up(self, database: Database) -> None:
        await database.load("doctor", ["d_id", "d_ward", "d_on"], self._opening())

    def _opening(self) -> list[tuple[int, int, bool]]:
        """Two doctors of each ward, both on call."""
        return [(number, number % self.wards, True) for number in range(2 * self.wards)]

    # ------------------------------------------------------------ transactions

    async def step(self, client: Client) -> None:
        work = [self._leave, self._come, self._move, self._dismiss, self._hire, self._read]
        (chosen,) = client.random.choices(work, [25, 20, 15, 10, 15, 15])
        try:
            await chosen(client)
        except ConstraintViolation as error:
            client.journal.counts[type(error).__name__] += 1

    async def _leave(self, client: Client) -> None:
        ward = self._some_ward(client)
        await self._search(client, Statement(_LEAVE, (self._some_doctor(client), ward, ward)))

    async def _come(self, client: Client) -> None:
        await self._search(client, Statement(_COME, (self._some_doctor(client),)))

    async def _dismiss(self, client: Client) -> None:
        ward = self._some_ward(client)
        await self._search(client, Statement(_DISMISS, (self._some_doctor(client), ward, ward)))

    async def _hire(self, client: Client) -> None:
        ward = self._some_ward(client)
        given = (self._some_doctor(client), ward, ward, self.most)
        await self._search(client, Statement(_HIRE, given))

    async def _search(self, client: Client, statement: Statement) -> None:
        await client.transact(statement, serializable=True)

    async def _move(self, client: Client) -> None:
        """Move a doctor, if the ward that he leaves has others on call, and the other one room."""
        ward, other = self._some_ward(client), self._some_ward(client)
        look = Interactive(client, serializable=True)
        here = await look.look(_WARD, (ward,)) or []
        there = await look.look(_WARD, (other,))
        if there is None or len(there) >= self.most or ward == other:
            return
        on_call = [number for number, on in here if on]
        if len(on_call) > 1:
            await look.commit(Statement(_MOVE, (other, client.random.choice(on_call))))

    def _some_ward(self, client: Client) -> int:
        return client.random.randrange(self.wards)

    def _some_doctor(self, client: Client) -> int:
        return client.random.randrange(self.most * self.wards + 2)

    # ------------------------------------------------------------ invariants

    async def _read(self, client: Client) -> None:
        found = await client.read(_DOCTORS)
        if found is not None:
            self._verify(found[0])

    def _verify(self, doctors: Sequence[tuple]) -> None:
        on_call = Counter(ward for _, ward, on in doctors if on)
        assert len(on_call) == self.wards, f"a ward has no doctor on call: {sorted(doctors)}"
        doctors_in = Counter(ward for _, ward, _ in doctors)
        assert max(doctors_in.values()) <= self.most, (
            f"a ward has too many doctors: {sorted(doctors)}"
        )

    async def check(self, database: Database, journal: Journal) -> None:
        stored = await database.fetch(_DOCTORS)
        self._verify(stored)
        doctors = {number: (ward, on) for number, ward, on in self._opening()}
        for answer in sorted(journal.acknowledged.values(), key=lambda answer: answer.commit_ts):
            for number, ward, on in answer.statements[0].rows:
                if ward is None:
                    del doctors[number]
                else:
                    doctors[number] = (ward, on)
        expected = [(number, *rest) for number, rest in doctors.items()]
        assert sorted(stored) == sorted(expected), "effects are not answers"
