"""Tables into which external builders and loaders may put rows."""

from __future__ import annotations

from hornbeam_server.schema.catalog import Catalog, State
from hornbeam_server.txlayer.ddl import load_records


def bulk_tables(catalog: Catalog) -> frozenset[str]:
    """The tables that may be written outside of transactions, for example by Spark: those of
    BUILDING views and indexes, of deferred views, and of the load under way. No commit reads
    them, except that it reads the cells of its own lane of immediate views."""
    building = (name for name, state in catalog.states if state is State.BUILDING)
    built = {name for name in building if name not in catalog.copy}
    immediate = [name for v in catalog.immediate if v.name in built for name in v.stored]
    deferred = [name for view in catalog.deferred for name in view.stored]
    written = {catalog.layout(name).table for name in (*built, *immediate, *deferred)}
    return frozenset(written | set(load_records.tables(catalog).values()))
