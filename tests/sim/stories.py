"""What the stories share that are told of one hole each."""

from database_world import catalog_of
from workload_bank import SCHEMA


async def opened(database):
    """Three accounts of 100 in a database that was empty."""
    await database.keeper.apply(catalog_of(SCHEMA))
    await database.keeper.wait_built()
    await database.load("account", ["a_id", "a_balance"], [(n, 100) for n in range(3)])


def run(node, work):
    """`work` as the node's process does it; it ends with the process."""
    return node.process.start(work)
