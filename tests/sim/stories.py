"""Helpers of the tests that replay one violation each."""

from tests.sim.workload_bank import SCHEMA
from tests.txlayer.database_world import catalog_of


async def opened(database):
    """Create three accounts of 100 in an empty database."""
    await database.keeper.apply(catalog_of(SCHEMA))
    await database.keeper.wait_built()
    await database.load("account", ["a_id", "a_balance"], [(n, 100) for n in range(3)])


def run(node, work):
    """Run `work` in the node's process; it ends with the process."""
    return node.process.start(work)
