"""Initial loads: an external loader, usually Spark (`pipeline.load.driver`), fills empty relations
with their indexes and all views over them, next to the transactions. All rows become visible at
once.

1. *Begun*: a catalog with a `Load` is put into force between two transactions; the relations are
   empty in it. The load's tables are new, and no query reads them. From then on no transaction
   writes a loaded relation, one that it references, directly or indirectly, or one that references
   it (`Catalog.frozen`, checked in `Workspace.write`).
2. The loader puts rows into the new tables, each at a snapshot of its own. All snapshots since the
   load began show the same parents. So a foreign key that was checked at one of them holds, and a
   row of a view that was joined at one of them is right. It matters neither at which snapshot, nor
   how often a row is put. Finished ranges are recorded durably (`txlayer.ddl.build_records`), under
   the table of the relation.
3. *Ended*: a catalog in which these tables are the tables of the relations, views and indexes
   (`Catalog.loaded`) is put into force. It is used for snapshots from then on, but not for earlier
   ones. The rows are not in the log, so followers of the log begin again (`node.change_feed`).

Only one load runs at a time. Until its end it can be given up; its tables are then dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from hornbeam_server.maintain.recompute import scanned_relation
from hornbeam_server.schema.catalog import Catalog, Load
from hornbeam_server.schema.errors import BeingLoaded, InvalidRequest, NotFound, StalePlan
from hornbeam_server.txlayer.ddl.copy_records import being_copied

NEW = -1
"""A placeholder: no table has this number, and the keeper gives a new one."""


def begun(catalog: Catalog, relations: Sequence[str], identity: str) -> Catalog:
    """The next catalog with the load, or the same catalog when this load is under way.

    Raises NotFound, InvalidRequest, BeingLoaded, StalePlan.
    """
    asked = Load(tuple(relations), identity, NEW)
    if catalog.load is not None:
        if replace(catalog.load, number=NEW) == asked:
            return catalog
        raise BeingLoaded(
            f"Another load is under way, of {', '.join(catalog.load.relations)}.",
            cure="End it, or give it up: hornbeam load --cancel.",
        )
    if catalog.copies or catalog.staged:
        raise being_copied(catalog)
    for name in relations:
        if name not in catalog.schema:
            raise NotFound(f"There is no relation {name}.")
    if not relations or len(set(relations)) < len(relations):
        raise InvalidRequest(
            "A load takes one or more relations, each once.", cure="Name each relation once."
        )
    loading = replace(catalog, version=catalog.version + 1, load=asked)
    for name in loading.loading:
        if name not in catalog.schema and not catalog.readable(name):
            raise StalePlan(
                f"{name} is {catalog.state[name]}: the load would make it, too.",
                cure="Wait until it is readable, or drop it.",
            )
    return loading


def require(catalog: Catalog, number: int) -> Load:
    """The load under way. Raises NotFound unless its number is `number`: rows of another load are
    in other tables, even if it loaded the same relations."""
    if catalog.load is None or catalog.load.number != number:
        raise NotFound("This load is not under way.", cure="It has ended, or was given up.")
    return catalog.load


def ended(catalog: Catalog, rows: Mapping[str, int]) -> Catalog:
    """The next catalog, which has the loaded tables. `rows`: the number of rows by relation."""
    counts = dict(catalog.row_counts) | dict(rows)
    return replace(catalog.loaded, version=catalog.version + 1, row_counts=tuple(counts.items()))


def cancelled(catalog: Catalog) -> Catalog:
    """The next catalog, without the load. Raises NotFound."""
    if catalog.load is None:
        raise NotFound("No load is under way.", cure="It has ended, or was given up.")
    return replace(catalog, version=catalog.version + 1, load=None)


def tables(catalog: Catalog) -> dict[str, str]:
    """The tables that the load under way fills, by the name of the relation, view or index."""
    return {name: catalog.loaded.layout(name).table for name in catalog.loading}


def splits(catalog: Catalog, keys: Mapping[str, Sequence[bytes]]) -> dict[str, Sequence[bytes]]:
    """The keys at which to split each new table, by table. `keys` is by relation. A view is split
    like the relation that makes its rows, because it has the same key; indexes are not split."""
    rows = {name: name for name in catalog.loading if name in catalog.schema}
    rows |= {
        name: scanned_relation(catalog, name) for name in catalog.loading if name in catalog.view
    }
    made = tables(catalog)
    return {made[name]: keys[relation] for name, relation in rows.items() if relation in keys}


def require_same(made: Catalog, current: Catalog) -> None:
    """Raises BeingLoaded when a schema change concerns the tables of the load under way."""
    if made.load == current.load and _filled(made) != _filled(current):
        assert current.load is not None
        raise BeingLoaded(
            f"{', '.join(current.load.relations)}: a load is under way, and the change concerns"
            " what it makes.",
            cure="Wait until it has ended, or give it up: hornbeam load --cancel.",
        )


def _filled(catalog: Catalog) -> Iterable[object]:
    """All definitions that decide how the tables of a load are filled."""
    if catalog.load is None:
        return ()
    return (
        [catalog.schema.relation(name) for name in catalog.load.relations],
        [(catalog.loaded.layout(name), catalog.index.get(name)) for name in catalog.loading],
    )
