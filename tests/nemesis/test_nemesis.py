"""A few faults, drawn by seed, against a real cluster of its own. All of them: `make nemesis`.

NEMESIS_SEED sets the seed; by default it is today's date.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import random

import pytest

from tests.nemesis.nemesis_faults import FAULTS
from tests.nemesis.nemesis_run import Database, Round, as_line
from tests.nemesis.nemesis_world import world

KINDS = ("bank", "appends", "list", "dashboard")
"""Without TPC-W, whose schema alone takes a minute."""
ALWAYS = ("kill a node", "kill the leader")
DRAWN = 1


@pytest.mark.timeout(600)
def test_a_few_faults(tmp_path):
    seed = int(os.environ.get("NEMESIS_SEED") or dt.date.today().toordinal())
    others = sorted(FAULTS.keys() - set(ALWAYS))
    chosen = [*ALWAYS, *random.Random(seed).sample(others, DRAWN)]
    print(f"NEMESIS_SEED={seed}: {', '.join(chosen)}")
    with world(tmp_path) as struck:
        database = Database(struck.addresses)
        database.prepare(KINDS)
        for number, fault in enumerate(chosen, 1):
            verdict = asyncio.run(Round(struck, database, KINDS, number, seed + number).run(fault))
            assert verdict.sound, as_line(verdict)
            assert verdict.acknowledged > 0
        database.close()
