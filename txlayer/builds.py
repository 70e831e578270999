"""Builds that are carried out beside the nodes, as Spark does (`pipeline.materialize`): how far
each is, durably, and what of a catalog they concern.

A build bears the name of its table, which no other build ever has. What is kept of it is a fact
that stays true for as long as the table is there: of these keys of the relation that is scanned
(`scanned_relation`), all rows are in the table, and on disk. So it matters neither who writes it
down, nor in which order, nor how often. A leader that has been replaced and writes late can hide
what was finished after it; that is then built again, which changes nothing.

Why ranges may be built at different snapshots: docs of `pipeline.materialize`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import msgspec

from maintain.lifecycle import Event, transition
from maintain.spans import Span, gaps, united
from schema.catalog import Catalog, Purpose, State
from schema.errors import InvalidRequest, NotFound
from storage.ports import NEWEST, TOMBSTONE, Put, TableStore

TABLE = "s.builds"


class Finished(msgspec.Struct, frozen=True, array_like=True):
    """How far a build is. A row of the table; fields are only ever appended.

    `rows` were written, of `scanned` rows that were read: estimates, as what is built twice counts
    twice.
    """

    spans: tuple[Span, ...] = ()
    rows: int = 0
    scanned: int = 0

    def plus(self, span: Span, rows: int, scanned: int) -> Finished:
        spans = united([*self.spans, span])
        return Finished(spans, self.rows + rows, self.scanned + scanned)

    @property
    def missing(self) -> tuple[Span, ...]:
        """Empty: the build is complete."""
        return gaps(self.spans)


class Builds:
    """Of one database; for the node that leads."""

    def __init__(self, store: TableStore) -> None:
        self._store = store
        self._known: dict[str, Finished] = {}

    async def load(self) -> None:
        """What was written down before. Raises Unavailable."""
        known = {}
        async for cells in self._store.scan(TABLE, b"", None, NEWEST):
            for cell in cells:
                known[cell.key.decode()] = msgspec.msgpack.decode(cell.value, type=Finished)
        self._known = known

    def of(self, table: str) -> Finished | None:
        """None: it is not built elsewhere."""
        return self._known.get(table)

    @property
    def tables(self) -> frozenset[str]:
        return frozenset(self._known)

    async def note(self, finished: Mapping[str, Finished], ts: int) -> None:
        """By table; `ts` is later than those before. On return it is on disk.

        Raises Unavailable.
        """
        puts = [Put(t.encode(), msgspec.msgpack.encode(known)) for t, known in finished.items()]
        await self._store.put({TABLE: puts}, ts)
        await self._store.flush()
        self._known |= finished

    async def forget(self, tables: Iterable[str], ts: int) -> None:
        """They are built, or gone. Raises Unavailable."""
        gone = sorted(self.tables.intersection(tables))
        await self._store.put({TABLE: [Put(table.encode(), TOMBSTONE) for table in gone]}, ts)
        self._known = {table: known for table, known in self._known.items() if table not in gone}


# ---------------------------------------------------------------- catalogs


def families(catalog: Catalog, names: Iterable[str]) -> tuple[str, ...]:
    """Views with the indexes on them, and indexes; of relations their indexes. UNIQUE indexes are
    left out: they are filled while writers wait. Raises NotFound."""
    return tuple(dict.fromkeys(found for name in names for found in _family(catalog, name)))


def _family(catalog: Catalog, name: str) -> Iterator[str]:
    if name in catalog.index:
        yield name
        return
    if name in catalog.view:
        yield name
    elif name not in catalog.schema:
        raise NotFound(f"There is no view, index or relation {name} to be built.")
    yield from (index.name for index in catalog.indexes_on(name) if not index.unique)


def building(catalog: Catalog) -> dict[str, str]:
    """By table, the views and indexes that are being built while writers go on."""
    indexes = (index.name for index in catalog.indexes if not index.unique)
    found = [n for n in (*catalog.view, *indexes) if catalog.state[n] is State.BUILDING]
    return {catalog.layout(name).table: name for name in found}


def rebuilt(catalog: Catalog, names: Iterable[str]) -> Catalog:
    """The next catalog: `names` are to be built again, in other tables (`maintain.lifecycle`)."""
    states, numbers = dict(catalog.states), dict(catalog.incarnations)
    for name in names:
        if states[name] is State.READABLE:
            states[name] = transition(State.READABLE, Event.DAMAGED)
        states[name] = transition(states[name], Event.REBUILD)
        numbers[name] = -1  # none has this one: the keeper gives another
    return replace(
        catalog,
        version=catalog.version + 1,
        states=tuple(states.items()),
        incarnations=tuple(numbers.items()),
    )


def cancelled(catalog: Catalog, names: Iterable[str]) -> Catalog:
    """The next catalog, without `names`, which are being built. Raises InvalidRequest."""
    gone = set(names)
    for name in gone:
        if catalog.state[name] is not State.BUILDING:
            raise InvalidRequest(f"{name} is {catalog.state[name]}, not being built.")
        index = catalog.index.get(name)
        if index is not None and index.purpose in (Purpose.DECLARED, Purpose.FOREIGN_KEY):
            raise InvalidRequest(
                f"Index {name} belongs to the schema.", cure="Apply a schema without it."
            )
    return replace(
        catalog,
        version=catalog.version + 1,
        views=tuple(view for view in catalog.views if view.name not in gone),
        indexes=tuple(index for index in catalog.indexes if index.name not in gone),
        states=tuple((name, state) for name, state in catalog.states if name not in gone),
        row_counts=tuple((name, count) for name, count in catalog.row_counts if name not in gone),
    )
