"""Several nodes that serve at a time: one test for each violation that the simulation found."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from hornbeam_server.schema.errors import OutcomeUnknown, Unavailable
from hornbeam_server.storage.simulated import files
from hornbeam_server.storage.simulated.chaos import Chaos, Profile
from hornbeam_server.txlayer.statements.requests import Statement, TransactionRequest
from tests.sim.simulated_members import MembersCluster
from tests.sim.stories import opened, run
from tests.virtual_time import in_virtual_time


@asynccontextmanager
async def three_nodes(**options):
    """A cluster of three nodes, with three accounts of 100."""
    cluster = MembersCluster(asyncio.get_running_loop(), Chaos(1, Profile()), places=3, **options)
    try:
        await cluster.start()
        leader = await cluster.leader()
        await run(leader, opened(leader.database))
        yield cluster
    finally:
        await cluster.stop()


@in_virtual_time
async def test_a_commit_of_unknown_outcome_is_not_repeated_at_another_node():
    """The log has the commit, but its append reports a failure. A retry with the same key at
    another node waits until that log is recovered."""
    async with three_nodes() as cluster:
        node, other, _ = cluster.serving
        move = Statement("UPDATE account SET a_balance = a_balance + 1 WHERE a_id = 0")
        request = TransactionRequest((move,), idempotency_key="once")
        lost = files.Fault(Unavailable("No answer."), files.ALL, synced=True)

        def lose(operation):
            theirs = (node.log, 1, files.Kind.APPEND)
            found = (operation.folder, operation.epoch, operation.kind)
            return lost if found == theirs else None

        cluster.disk.fault = lose
        with pytest.raises(OutcomeUnknown) as unknown:
            await run(node, node.database.transact(request))
        transaction = unknown.value.details["transaction_id"]
        assert await run(other, other.database.unfinished(transaction)) is not None
        again = await run(other, other.database.transact(request))
        assert again.transaction_id == transaction
        sql = "SELECT a_balance FROM account WHERE a_id = 0"
        assert await run(other, other.database.fetch(sql, strong=True)) == [(101,)]
