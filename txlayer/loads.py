"""Initial loads: relations that are empty are filled beside the transactions, by Spark as a rule
(`pipeline.load`), with their indexes and all views over them, and are then there at once.

1. *Begun*: a catalog with a `Load` is put into force between two transactions, in which the
   relations are empty. Its tables are new, and no query reads them. From then on no transaction
   writes a relation that is loaded, or that it references, however far up, or that references it
   (`Catalog.frozen`, asked in `Transaction._write`).
2. Whoever loads puts rows into the new tables, each at a snapshot of its own. All snapshots since
   the load began show the same parents. So a foreign key that was checked at one of them holds, a
   row of a view that was joined at one of them is right, and it matters neither at which, nor how
   often the same row is put. What is finished is noted, durably (`txlayer.builds`), under the
   table of the relation.
3. *Ended*: a catalog in which the tables are those of the relations, views and indexes
   (`Catalog.loaded`) is put into force. Snapshots from then on are read by it, earlier ones are
   not, and the log knows nothing of the rows: who follows it begins anew (`api.changes`).

One load at a time. Until it is ended it can be given up, and its tables go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from maintain.recompute import scanned_relation
from schema.catalog import Catalog, Load
from schema.errors import BeingLoaded, InvalidRequest, NotFound, StalePlan

NEW = -1
"""No table has this number: the keeper gives another."""


def begun(catalog: Catalog, relations: Sequence[str], identity: str) -> Catalog:
    """The next catalog, or the same when this load is under way.

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
    for name in relations:
        if name not in catalog.schema:
            raise NotFound(f"There is no relation {name}.")
    if not relations or len(set(relations)) < len(relations):
        raise InvalidRequest("A load takes one or more relations, each once.")
    loading = replace(catalog, version=catalog.version + 1, load=asked)
    for name in loading.loading:
        if name not in catalog.schema and not catalog.readable(name):
            raise StalePlan(
                f"{name} is {catalog.state[name]}: the load would make it, too.",
                cure="Wait until it is readable, or drop it.",
            )
    return loading


def require(catalog: Catalog, number: int) -> Load:
    """The load under way. Raises NotFound when it is another one, or none: what was put for that
    lies in other tables, whatever it loaded."""
    if catalog.load is None or catalog.load.number != number:
        raise NotFound("This load is not under way.", cure="It has ended, or was given up.")
    return catalog.load


def ended(catalog: Catalog, rows: Mapping[str, int]) -> Catalog:
    """The next catalog: what was loaded is there, so many `rows` of each relation."""
    counts = dict(catalog.row_counts) | dict(rows)
    return replace(catalog.loaded, version=catalog.version + 1, row_counts=tuple(counts.items()))


def cancelled(catalog: Catalog) -> Catalog:
    """The next catalog, without the load. Raises NotFound."""
    if catalog.load is None:
        raise NotFound("No load is under way.")
    return replace(catalog, version=catalog.version + 1, load=None)


def tables(catalog: Catalog) -> dict[str, str]:
    """By name, the tables that are filled by the load under way."""
    return {name: catalog.loaded.layout(name).table for name in catalog.loading}


def splits(catalog: Catalog, keys: Mapping[str, Sequence[bytes]]) -> dict[str, Sequence[bytes]]:
    """By table, where to split it when it is made: a view as the relation that makes its rows,
    whose key it has. `keys` is by relation; indexes have other keys."""
    rows = {name: name for name in catalog.loading if name in catalog.schema}
    rows |= {
        name: scanned_relation(catalog, name) for name in catalog.loading if name in catalog.view
    }
    made = tables(catalog)
    return {made[name]: keys[relation] for name, relation in rows.items() if relation in keys}


def require_same(made: Catalog, current: Catalog) -> None:
    """A change of the schema leaves a load that is under way what it fills. Raises BeingLoaded."""
    if made.load == current.load and _filled(made) != _filled(current):
        assert current.load is not None
        raise BeingLoaded(
            f"{', '.join(current.load.relations)}: a load is under way, and the change concerns"
            " what it makes.",
            cure="Wait until it has ended, or give it up: hornbeam load --cancel.",
        )


def _filled(catalog: Catalog) -> Iterable[object]:
    """Everything that says how the tables of a load are filled."""
    if catalog.load is None:
        return ()
    return (
        [catalog.schema.relation(name) for name in catalog.load.relations],
        [(catalog.loaded.layout(name), catalog.index.get(name)) for name in catalog.loading],
    )
