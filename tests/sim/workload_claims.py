"""Claims: jobs that workers look for, take and give back, each by what a job says, not by its key.

Searches look at a snapshot and change what is there now, so everybody finds the same free jobs and
only one may have each. The answers tell who took and who gave back what. In the order of their
timestamps a job is taken when it is free, and given back by whoever has it.
"""

from __future__ import annotations

import random

from database_world import catalog_of
from simulation import Client, Journal

from api.database import Database
from schema.catalog import Catalog
from schema.ddl import load_ddl
from txlayer.model import Statement

SCHEMA = load_ddl(
    """
    CREATE TABLE job (j_id INTEGER PRIMARY KEY, j_worker TEXT, j_taken INTEGER NOT NULL);
    CREATE INDEX job_worker ON job (j_worker);
    """
)
_TAKE = (
    "UPDATE job SET j_worker = ?, j_taken = j_taken + 1 WHERE j_worker IS NULL AND j_id % ? = ?"
    " RETURNING 'taken', j_id, j_worker, j_taken"
)
_HAND_ON = (
    "UPDATE job SET j_worker = ?, j_taken = j_taken + 1 WHERE j_worker = ?"
    " RETURNING 'handed on', j_id, j_worker, j_taken"
)
_GIVE_BACK = (
    "UPDATE job SET j_worker = NULL WHERE j_worker = ?"
    " RETURNING 'given back', j_id, j_worker, j_taken"
)
_JOBS = "SELECT j_id, j_worker, j_taken FROM job"


class Claims:
    oracle = True

    def __init__(self, rng: random.Random) -> None:
        self.jobs = rng.choice([1, 3, 8])
        self.workers = rng.choice([1, 2, 4])
        """Fewer than clients: some act for the same one."""

    def catalog(self) -> Catalog:
        return catalog_of(SCHEMA)

    async def set_up(self, database: Database) -> None:
        jobs = [(n, None, 0) for n in range(self.jobs)]
        await database.load("job", ["j_id", "j_worker", "j_taken"], jobs)

    async def step(self, client: Client) -> None:
        rng = client.random
        me, other = (f"w{rng.randrange(self.workers)}" for _ in range(2))
        share = rng.choice([1, 2])
        (statement,) = rng.choices(
            [
                Statement(_TAKE, (me, share, rng.randrange(share))),
                Statement(_HAND_ON, (other, me)),
                Statement(_GIVE_BACK, (me,)),
            ],
            [5, 2, 3],
        )
        if rng.random() < 0.2:
            await client.read(_JOBS)
        else:
            await client.transact(statement)

    async def check(self, database: Database, journal: Journal) -> None:
        state = dict.fromkeys(range(self.jobs), (None, 0))
        told = sorted(journal.acknowledged.values(), key=lambda answer: answer.commit_ts)
        for what, job, worker, taken in (row for t in told for row in t.statements[0].rows):
            before, times = state[job]
            assert taken == times + (what != "given back"), f"{job} was {what} unseen"
            assert (before is None) == (what == "taken"), f"{job} of {before} was {what}"
            state[job] = (worker, taken)
        stored = {job: (worker, taken) for job, worker, taken in await database.fetch(_JOBS)}
        assert stored == state, "effects are not answers"
