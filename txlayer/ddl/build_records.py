"""Builds: their progress, and the changes of the catalog for builds outside of the nodes, for
example by Spark (`pipeline.build.driver`), whose progress is durable.

An external build bears the name of its table, which no other build ever has. Its record states a
fact that stays true as long as the table exists: for these keys of the scanned relation
(`scanned_relation`), all rows are in the table, and on disk. So records may be written by any
process, in any order, any number of times. A replaced leader that writes late can hide ranges that
were finished after it; they are then built again, which changes nothing.

Why ranges may be built at different snapshots: docs of `pipeline.build.executor`. Immediate views
are built as a whole, at one snapshot (`pipeline.build.immediate`): the table of a view's cells
stands for all its tables, and all keys are finished together, or none.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import msgspec

from hornbeam_server.maintain.deltas.nesting import named
from hornbeam_server.maintain.lifecycle import Event, transition
from hornbeam_server.maintain.spans import Span, gaps, united
from hornbeam_server.schema.catalog import Catalog, Purpose, State
from hornbeam_server.schema.commented import with_kept_comments
from hornbeam_server.schema.errors import HornbeamError, InvalidRequest, NotFound
from hornbeam_server.storage.ports import NEWEST, TOMBSTONE, Put, TableStore

TABLE = "s.builds"


class Finished(msgspec.Struct, frozen=True, array_like=True):
    """The progress of a build; one row of the table. Fields are only ever appended.

    `rows` were written for `scanned` rows that were read. Both are estimates: a range that is built
    twice counts twice. `numbers`: the minimum and maximum number of each loaded identity column.
    """

    spans: tuple[Span, ...] = ()
    rows: int = 0
    scanned: int = 0
    numbers: dict[str, tuple[int, int]] = {}

    def plus(
        self,
        span: Span,
        rows: int,
        scanned: int,
        numbers: Mapping[str, tuple[int, int]] = MappingProxyType({}),
    ) -> Finished:
        spans, far = united([*self.spans, span]), dict(self.numbers)
        for column, (least, most) in numbers.items():
            known = far.get(column, (least, most))
            far[column] = (min(known[0], least), max(known[1], most))
        return Finished(spans, self.rows + rows, self.scanned + scanned, far)

    @property
    def missing(self) -> tuple[Span, ...]:
        """The key ranges that are not finished; empty when the build is complete."""
        return gaps(self.spans)


@dataclass
class Build:
    """Progress of one online build. `total` is the number of rows expected, if it is known.

    An external build (`external`) has no snapshot of its own; its progress is the number of rows
    that were `scanned` for it, of `total`. So is that of immediate views, whose groups (`rows`) are
    only counted at the end.
    """

    name: str
    at: int
    rows: int = 0
    total: int | None = None
    finished: bool = False
    error: str = ""
    """The reason why the build has been given up."""
    external: bool = False
    scanned: int = 0
    failure: HornbeamError | None = None
    """The same as an error."""

    @property
    def ended(self) -> bool:
        return self.finished or bool(self.error)

    def document(self) -> dict[str, Any]:
        """The fields as JSON of the REST interface, where `external` has the key "elsewhere"."""
        fields = dict(vars(self))
        del fields["failure"]
        fields["elsewhere"] = fields.pop("external")
        return fields


class Builds:
    """The records of all external builds of one database; used by the leader."""

    def __init__(self, store: TableStore) -> None:
        self._store = store
        self._known: dict[str, Finished] = {}

    async def load(self) -> None:
        """Read the stored records. Raises Unavailable."""
        known = {}
        async for cells in self._store.scan(TABLE, b"", None, NEWEST):
            for cell in cells:
                known[cell.key.decode()] = msgspec.msgpack.decode(cell.value, type=Finished)
        self._known = known

    def of(self, table: str) -> Finished | None:
        """The progress of the build of `table`; None if it has no external build."""
        return self._known.get(table)

    @property
    def tables(self) -> frozenset[str]:
        return frozenset(self._known)

    async def note(self, finished: Mapping[str, Finished], ts: int) -> None:
        """Store progress by table. `ts` must be later than in earlier calls. On return the records
        are on disk.

        Raises Unavailable.
        """
        puts = [Put(t.encode(), msgspec.msgpack.encode(known)) for t, known in finished.items()]
        await self._store.put({TABLE: puts}, ts)
        await self._store.flush()
        self._known |= finished

    async def forget(self, tables: Iterable[str], ts: int) -> None:
        """Delete the records of `tables`, which are built or gone. Raises Unavailable."""
        gone = sorted(self.tables.intersection(tables))
        await self._store.put({TABLE: [Put(table.encode(), TOMBSTONE) for table in gone]}, ts)
        self._known = {table: known for table, known in self._known.items() if table not in gone}


# ---------------------------------------------------------------- catalogs


def families(catalog: Catalog, names: Iterable[str]) -> tuple[str, ...]:
    """The names to build for `names`: a view with its indexes, an index itself, and the indexes of
    a relation. UNIQUE indexes of views and relations are left out: they are filled while writers
    wait. Raises NotFound."""
    return tuple(dict.fromkeys(found for name in names for found in _family(catalog, name)))


def external_families(catalog: Catalog, names: Iterable[str]) -> tuple[str, ...]:
    """Those of `families` that an external builder can build. Raises NotFound, and InvalidRequest
    if one of `names` is not among them."""
    asked = list(names)
    for name in asked:
        if name in catalog and _only_by_node(catalog, name):
            raise InvalidRequest(
                f"{name} is built only by the node that leads.",
                cure="Leave it out; its build begins by itself. hornbeam verify --repair corrects"
                " it.",
            )
    return tuple(name for name in families(catalog, asked) if not _only_by_node(catalog, name))


def _only_by_node(catalog: Catalog, name: str) -> bool:
    """Is this an immediate view without aggregates, an index on an immediate view, or a copy?"""
    source = catalog.layout(name).source
    listed = source in catalog.transactional_view and name not in catalog.immediate_view
    return listed or name in catalog.copy


def _family(catalog: Catalog, name: str) -> Iterator[str]:
    if name in catalog.index:
        yield name
        return
    if name in catalog.view or name in catalog.transactional_view:
        yield name
    elif name not in catalog.schema:
        raise NotFound(f"There is no view, index or relation {name} to build.")
    yield from (index.name for index in catalog.indexes_on(name) if not index.unique)


def building(catalog: Catalog) -> dict[str, str]:
    """The views, indexes and copies that are being built while writers continue, by table."""
    indexes = (index.name for index in catalog.indexes if not index.unique)
    names = (*catalog.view, *catalog.transactional_view, *indexes, *catalog.copy)
    found = [name for name in names if catalog.state[name] is State.BUILDING]
    return {catalog.layout(name).table: name for name in found}


def external(catalog: Catalog) -> dict[str, str]:
    """Those of `building` that an external builder can build."""
    found = building(catalog).items()
    return {table: name for table, name in found if not _only_by_node(catalog, name)}


def rebuilt(catalog: Catalog, names: Iterable[str]) -> Catalog:
    """The next catalog, in which `names` are built again, in new tables (`maintain.lifecycle`)."""
    states, numbers = dict(catalog.states), dict(catalog.incarnations)
    for name in names:
        if states[name] is State.READABLE:
            states[name] = transition(State.READABLE, Event.DAMAGED)
        states[name] = transition(states[name], Event.REBUILD)
        numbers[name] = -1  # no table has it: the keeper gives a new number
    return replace(
        catalog,
        version=catalog.version + 1,
        states=tuple(states.items()),
        incarnations=tuple(numbers.items()),
    )


def failed(catalog: Catalog, tables: Container[str]) -> Catalog:
    """The next catalog, in which the views that are being built in `tables` are quarantined, with
    new tables: nothing of the failed build is left. The same catalog if there are none."""
    names = [name for table, name in building(catalog).items() if table in tables]
    if not names:
        return catalog
    states = dict(catalog.states)
    states |= {name: transition(states[name], Event.FAILED) for name in names}
    numbers = dict(catalog.incarnations) | dict.fromkeys(names, -1)
    return replace(
        catalog,
        version=catalog.version + 1,
        states=tuple(states.items()),
        incarnations=tuple(numbers.items()),
    )


def require_whole(catalog: Catalog, name: str) -> None:
    """Raises InvalidRequest unless `name` is built as a whole, so that its build fails as a whole.
    Of others, finished ranges are kept."""
    if name not in catalog.immediate_view:
        raise InvalidRequest(
            f"{name} is built range by range, and keeps what is finished.",
            cure="Build the rest, or cancel the build.",
        )


def cancelled(catalog: Catalog, names: Iterable[str]) -> Catalog:
    """The next catalog, without `names`. Raises InvalidRequest unless all are being built, or are
    indexes on immediate views that are."""
    gone = set(names)
    for name in gone:
        follows = _only_by_node(catalog, name) and catalog.layout(name).source in gone - {name}
        if catalog.state[name] is not State.BUILDING and not follows:
            raise InvalidRequest(
                f"{name} is {catalog.state[name]}, not being built.",
                cure="Cancel only what hornbeam view list shows as building.",
            )
        index = catalog.index.get(name)
        of_schema = index is not None and index.purpose in (Purpose.DECLARED, Purpose.FOREIGN_KEY)
        if index is not None and of_schema and index.on not in gone:
            raise InvalidRequest(
                f"Index {name} belongs to the schema.", cure="Apply a schema without it."
            )
        _require_unnamed(catalog, name)
    declared = gone & catalog.transactional_view.keys()
    left = replace(
        catalog,
        version=catalog.version + 1,
        schema=replace(
            catalog.schema,
            views=tuple(view for view in catalog.schema.views if view.name not in declared),
            indexes=tuple(i for i in catalog.schema.indexes if i.relation not in declared),
        ),
        immediate=tuple(view for view in catalog.immediate if view.name not in declared),
        projected=tuple(view for view in catalog.projected if view.name not in declared),
        views=tuple(view for view in catalog.views if view.name not in gone),
        indexes=tuple(index for index in catalog.indexes if index.name not in gone),
        states=tuple((name, state) for name, state in catalog.states if name not in gone),
        row_counts=tuple((name, count) for name, count in catalog.row_counts if name not in gone),
    )
    return with_kept_comments(catalog, left)


def _require_unnamed(catalog: Catalog, name: str) -> None:
    """Raises InvalidRequest if a declared view names the view `name`."""
    for view in catalog.schema.views:
        if view.name != name and name in named(view):
            raise InvalidRequest(
                f"View {view.name} reads {name}.", cure="Apply a schema without both."
            )


def no_build(table: str) -> NotFound:
    return NotFound(
        f"Table {table} has no external build.", cure="Its build has ended, or was cancelled."
    )
