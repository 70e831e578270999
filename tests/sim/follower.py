"""A follower of the logs during faults: the commits that a node reports between two snapshots are
exactly the commits between them, whatever happened meanwhile.

The answers are kept, and compared at the end, when all records ever logged are known. So a segment
that still grew after a node had called it final shows, too.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping

from hornbeam_server.node.change_feed import Changes
from hornbeam_server.schema.errors import Corruption, HornbeamError, SnapshotTooOld
from hornbeam_server.storage.log.following import batches, changes
from hornbeam_server.storage.log.format import segment_name
from hornbeam_server.txlayer.statements.requests import TransactionResult
from hornbeam_server.txlayer.transactions.outcomes import transaction_id_for
from tests.sim.oracle import every_batch
from tests.sim.simulated_cluster import Cluster, NoAnswer

PAUSE_S = 0.2
TRIES = 60


class Follower:
    def __init__(self, cluster: Cluster, counts: Counter[str]) -> None:
        self._cluster = cluster
        self._counts = counts
        self._answers: list[Changes] = []
        self._at: int | None = None
        self._anew = False

    async def run(self) -> None:
        while True:
            await self._step()
            await asyncio.sleep(PAUSE_S)

    async def catch_up(self) -> None:
        """Follow once more, after all faults have ended."""
        for _ in range(TRIES):
            if await self._step():
                return
            await asyncio.sleep(PAUSE_S)
        raise AssertionError("no node says what was committed")

    async def _step(self) -> bool:
        after = self._at
        try:
            found: Changes = await self._cluster.ask(lambda database: database.changes(after))
        except (SnapshotTooOld, Corruption) as error:  # a bit has flipped, or segments are dropped
            self._counts[f"follows: {type(error).__name__}"] += 1
            self._at, self._anew = None, True
            return False
        except (HornbeamError, NoAnswer) as error:
            self._counts[f"follows: {type(error).__name__}"] += 1
            return False
        self._counts["follows"] += 1
        self._answers.append(found)
        self._at = found.upto
        return after is not None

    def check(self, acknowledged: Mapping[str, TransactionResult]) -> None:
        """Raises AssertionError with the interval in which commits are missing or surplus."""
        committed = sorted(
            (batch.ts, commit.transaction_id)
            for batch in every_batch(self._cluster)
            for commit in changes(batch)
        )
        logs = self._cluster.whole_logs()
        reported: set[bytes] = set()
        for answer in self._answers:
            between = answer.after, answer.upto
            expected = [commit for commit in committed if between[0] < commit[0] <= between[1]]
            found = []
            for segment in answer.segments:
                place = segment.epoch, segment.sequence
                data = logs[segment.log][segment_name(*place)]
                assert len(data) == segment.bytes, f"{segment} has grown, or shrunk"
                for batch in batches(data, *place):
                    if between[0] < batch.ts <= between[1]:
                        found += [(batch.ts, commit.transaction_id) for commit in changes(batch)]
            assert sorted(found) == expected, f"not what was committed in {between}"
            reported.update(name for _, name in found)
        self._counts["followed"] += len(reported)
        if not self._anew:
            first = self._answers[0].upto
            known = {transaction_id_for(k) for k, r in acknowledged.items() if r.commit_ts > first}
            assert known <= {name.hex() for name in reported}
