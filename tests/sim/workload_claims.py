"""Claims: workers search for jobs, take them and give them back, by content and not by key.

A search reads a snapshot and then changes the current rows, so all workers find the same free jobs
and only one worker may get each job. Workers are hired and fired; when a worker is fired, its own
jobs become free, and no others. The seed draws whether a job lies below its worker, and so moves
from root to root.

The answers say which worker took or gave back which job. In the order of their timestamps, a hired
worker takes a job while it is free, and the worker that has a job gives it back.
"""

from __future__ import annotations

import random
from typing import Any

from hornbeam_server.node.database import Database
from hornbeam_server.schema.catalog import Catalog, Forest
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import ConstraintViolation
from hornbeam_server.txlayer.statements.requests import Statement
from tests.sim.simulation import Client, Journal
from tests.txlayer.database_world import catalog_of, first_edges

WORKERS = 3
SCHEMA = load_ddl(
    """
    CREATE TABLE worker (w_id INTEGER PRIMARY KEY);
    CREATE TABLE job (
      j_id INTEGER PRIMARY KEY, j_steps INTEGER NOT NULL,
      j_w_id INTEGER REFERENCES worker (w_id) ON DELETE SET NULL);
    """
)
_JOBS = "SELECT j_id, j_w_id, j_steps FROM job"
_REPORTED = "RETURNING ?, j_id, j_w_id, j_steps"
_TAKE = (
    "UPDATE job SET j_w_id = ?, j_steps = j_steps + 1 WHERE j_w_id IS NULL AND j_id % ? = ?"
    f" {_REPORTED}"
)
_HAND_ON = f"UPDATE job SET j_w_id = ?, j_steps = j_steps + 1 WHERE j_w_id = ? {_REPORTED}"
_GIVE_BACK = f"UPDATE job SET j_w_id = NULL WHERE j_w_id = ? {_REPORTED}"
_WORK_ON = f"UPDATE job SET j_steps = j_steps + 1 WHERE j_id = ? {_REPORTED}"
_FIRE = "DELETE FROM worker WHERE w_id = ? RETURNING ?, w_id"
_HIRE = "INSERT INTO worker VALUES (?) RETURNING ?, w_id"


class Claims:
    oracle = True

    def __init__(self, rng: random.Random) -> None:
        self.jobs = rng.choice([1, 3, 8])
        self.below_worker = rng.random() < 0.5

    def catalog(self) -> Catalog:
        forest = first_edges(SCHEMA) if self.below_worker else Forest(SCHEMA.names, ())
        return catalog_of(SCHEMA, forest=forest)

    async def set_up(self, database: Database) -> None:
        await database.load("worker", ["w_id"], [(n,) for n in range(WORKERS)])
        await database.load("job", ["j_id", "j_steps"], [(n, 0) for n in range(self.jobs)])

    async def step(self, client: Client) -> None:
        rng = client.random
        if rng.random() < 0.2:
            await client.read(_JOBS)
            return
        me, other, share = rng.randrange(WORKERS), rng.randrange(WORKERS), rng.choice([1, 2])
        (statement,) = rng.choices(
            [
                Statement(_TAKE, (me, share, rng.randrange(share), "taken")),
                Statement(_HAND_ON, (other, me, "handed on")),
                Statement(_GIVE_BACK, (me, "given back")),
                Statement(_WORK_ON, (rng.randrange(self.jobs), "worked on")),
                Statement(_FIRE, (me, "fired")),
                Statement(_HIRE, (me, "hired")),
            ],
            [30, 20, 10, 20, 8, 12],
        )
        try:
            await client.transact(statement)
        except ConstraintViolation as error:
            client.journal.counts[type(error).__name__] += 1

    async def check(self, database: Database, journal: Journal) -> None:
        model = _Model(self.jobs)
        for answer in sorted(journal.acknowledged.values(), key=lambda answer: answer.commit_ts):
            for what, *row in answer.statements[0].rows:
                model.take_in(what, *row)
        stored = {job: (worker, steps) for job, worker, steps in await database.fetch(_JOBS)}
        assert stored == model.jobs, "effects are not answers"
        hired = {worker for (worker,) in await database.fetch("SELECT w_id FROM worker")}
        assert hired == model.hired, "effects are not answers"


class _Model:
    """Jobs and workers according to the answers."""

    def __init__(self, jobs: int) -> None:
        self.hired = set(range(WORKERS))
        self.jobs: dict[int, tuple[int | None, int]] = dict.fromkeys(range(jobs), (None, 0))

    def take_in(self, what: str, number: int, *after: Any) -> None:
        match what:
            case "hired":
                assert number not in self.hired, f"{number} was hired twice"
                self.hired.add(number)
            case "fired":
                assert number in self.hired, f"{number} was fired twice"
                self.hired.remove(number)
                for job, (worker, steps) in self.jobs.items():
                    if worker == number:
                        self.jobs[job] = (None, steps)
            case _:
                self._job_reported(what, number, *after)

    def _job_reported(self, what: str, job: int, worker: int | None, steps: int) -> None:
        before, times = self.jobs[job]
        if what == "worked on":
            assert worker == before, f"job {job} of {before} was {what} as that of {worker}"
        else:
            assert (before is None) == (what == "taken"), f"job {job} of {before} was {what}"
        assert steps == times + (what != "given back"), f"job {job} was {what} unseen"
        assert worker is None or worker in self.hired, f"job {job} was {what} by no worker"
        self.jobs[job] = (worker, steps)
