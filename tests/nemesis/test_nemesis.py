"""A few faults, drawn by seed, against a real cluster of its own. All of them: `make nemesis`.

NEMESIS_SEED sets the seed. By default each run has the same one, so that it depends on the code
alone. In the long size the default is today's date.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import random
from contextlib import closing

import pytest

from tests.depth import depth
from tests.nemesis.nemesis_faults import FAULTS
from tests.nemesis.nemesis_run import Database, Round, as_line
from tests.nemesis.nemesis_world import world

KINDS = ("bank", "appends", "list", "dashboard")
"""Without TPC-W, whose schema alone takes a minute."""
ALWAYS = ("kill the node that keeps live views", "kill the leader")
DRAWN = 1
OVER_THRIFT_1 = ("kill a node", "kill a Thrift gateway", "move regions")
SEED = 739_963
"""Draws "move regions", which once took three minutes on a machine with little processor time."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("thrift", (2, 1)[: depth(1, long=2)])
def test_a_few_faults(tmp_path, thrift):
    seed = int(os.environ.get("NEMESIS_SEED") or depth(SEED, long=dt.date.today().toordinal()))
    others = sorted(FAULTS.keys() - set(ALWAYS))
    chosen = [*ALWAYS, *random.Random(seed).sample(others, DRAWN)] if thrift == 2 else OVER_THRIFT_1
    print(f"NEMESIS_SEED={seed}: {', '.join(chosen)}")
    with world(tmp_path, thrift) as struck, closing(Database(struck.addresses)) as database:
        database.prepare(KINDS)
        for number, fault in enumerate(chosen, 1):
            verdict = asyncio.run(Round(struck, database, KINDS, number, seed + number).run(fault))
            assert verdict.sound, as_line(verdict)
            assert verdict.acknowledged > 0
            print(as_line(verdict))
