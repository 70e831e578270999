"""Invariants of views and indexes that were built during faults."""

from __future__ import annotations

from hornbeam_server.node.database import Database
from hornbeam_server.schema.catalog import State
from tests.txlayer.database_world import settled


async def require_built(database: Database) -> None:
    """Check that every view and index of the catalog is built and equals its definition."""
    await database.keeper.wait_built()
    unbuilt = [name for name, life in database.catalog.states if life is not State.READABLE]
    errors = {name: build.error for name, build in database.keeper.builds.items()}
    assert not unbuilt, [(name, errors.get(name)) for name in unbuilt]
    report = await database.verify()
    assert report.differences == 0, [item for item in report.checked if item.differences]
    await settled(database)
