"""Seed 002's concurrency control, implemented literally (VII, VIII), over a `TableStore` and a
`Log`.

**Locks** (VIII-A). Each root relation has a lock table, with an entry per root row. Inserting the
row creates the entry. Check-and-put sets it to FREE or HELD. A statement takes one lock, that of
its row's root. The entry of a deleted row stays, for a later insert of the same key. Our port's
check-and-put guarantees more than HBase's, and reads the row first, which costs one call more than
the paper's.

**Writes** (VIII-B). A statement is appended to the log, then run:

* insert, delete: lock; write the base row, its index rows, and the rows of the views in which the
  relation is the last; unlock;
* update, in six steps: (1) lock, (2) read all rows that change, (3) mark the rows of views and
  their indexes, (4) write, and keep the marks, (5) remove the marks, (6) unlock. Each of the steps
  3 to 5 is one batch.

A step that fails leaves the lock HELD and the rows marked, "until the system recovers". This module
does not implement recovery from the log.

**Reads** (VIII-C). Reads ignore locks, and read the newest versions from the store. A query that
reads a marked row begins again. The paper calls that read committed. Its limits:

* An update can tear a scan: the scan reads the first rows of a customer, the update runs all six
  steps, and the scan reads the other rows. It reads no mark, and returns a mixed state of the
  customer, which never existed.
* The same holds for several reads of one query. The paper admits no query that uses a relation
  twice. Here such queries run, so that their times can be compared.
* A writer that dies makes the readers of its rows wait until its recovery.

As in the paper, each write names its row by the whole key. Neither foreign keys nor the uniqueness
of a new key are checked.

**Stored rows** have the format of our codecs, except that the first byte of a marked row is DIRTY
instead of the codecs' format byte.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from bench.peers.port import Cannot, Row
from hornbeam_server.maintain.changes import Change, Mutation
from hornbeam_server.maintain.programs import compile_programs
from hornbeam_server.query.engine import QueryEngine
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.model import DefaultKind, Relation
from hornbeam_server.schema.types import Value
from hornbeam_server.storage.codec.rows import FORMAT, Codecs, LayoutCodec
from hornbeam_server.storage.local.system import SystemClock
from hornbeam_server.storage.ports import NEWEST, TOMBSTONE, Log, Put, TableStore
from hornbeam_server.storage.snapshot import Snapshot
from hornbeam_server.storage.tables import create_tables
from hornbeam_server.txlayer.commit.hlc import HybridClock
from hornbeam_server.txlayer.locking.roots import RootName, Roots
from hornbeam_server.txlayer.statements.requests import Parameters
from hornbeam_server.txlayer.statements.write_compiler import compile_write
from hornbeam_server.txlayer.statements.write_parameters import bind_parameters
from hornbeam_server.txlayer.statements.write_plans import (
    ByKey,
    BySearch,
    Defaulted,
    DeletePlan,
    InsertPlan,
    RowPlan,
    UpdatePlan,
    WritePlan,
    needs_duckdb,
    value_queries,
)

FREE, HELD = b"\x00", b"\x01"
DIRTY = b"\x81"
FIRST_WAIT_S, LONGEST_WAIT_S = 0.001, 0.05
PATIENCE_S = 10.0
"""Maximum time that a writer waits for a lock, or a reader for a marked row."""

Writes = dict[str, list[Put]]


class Dirty(Exception):
    """A read has found a marked row."""


class MarkedCodec(LayoutCodec):
    """A codec of rows that may be marked."""

    def decode(self, data: bytes) -> Row:
        """Decode a row. Raises Dirty, Corruption."""
        if data[:1] == DIRTY:
            raise Dirty
        return super().decode(data)


class MarkedCodecs(Codecs):
    def __init__(self, catalog: Catalog) -> None:
        super().__init__(catalog)
        self._marked: dict[str, MarkedCodec] = {}

    def __call__(self, name: str) -> LayoutCodec:
        codec = self._marked.get(name)
        if codec is None:
            codec = MarkedCodec(self.catalog.layout(name), self._shared(name))
            self._marked[name] = codec
        return codec


class Patience:
    """Waits longer each time, up to PATIENCE_S in all. `reason` begins the message of the error."""

    def __init__(self, reason: str) -> None:
        self._reason = reason
        self._wait_s = FIRST_WAIT_S
        self._until = asyncio.get_running_loop().time() + PATIENCE_S

    async def wait(self) -> None:
        """Wait. Raises Cannot after PATIENCE_S."""
        if asyncio.get_running_loop().time() > self._until:
            raise Cannot(f"{self._reason} for {PATIENCE_S:.0f} s.")
        await asyncio.sleep(self._wait_s)
        self._wait_s = min(2 * self._wait_s, LONGEST_WAIT_S)


class Locks:
    """The locks of root rows, in a table per root relation."""

    def __init__(self, store: TableStore, clock: HybridClock) -> None:
        self._store = store
        self._clock = clock

    @staticmethod
    def table(relation: str) -> str:
        return f"l.{relation}"

    async def create(self, relation: str, keys: Iterable[bytes]) -> None:
        """Create free entries of new rows by check-and-put, as an insert does: HBase's adapter
        marks the cells that it compares."""
        entries = (self._change(("root", relation, key), None, FREE) for key in keys)
        await asyncio.gather(*entries)

    async def take(self, root: RootName, *, new: bool = False) -> bool:
        """Take the lock of a root row; False if it has no entry. `new`: the caller inserts the root
        row, so a missing entry is created. Raises Cannot."""
        if new and await self._change(root, None, HELD):
            return True
        _, relation, key = root
        patience = Patience("Another transaction has held a lock")
        while not await self._change(root, FREE, HELD):
            if await self._store.get(self.table(relation), [key], NEWEST) == [None]:
                return False
            await patience.wait()
        return True

    async def release(self, root: RootName) -> None:
        await self._change(root, HELD, FREE)

    @contextlib.asynccontextmanager
    async def released_on_error(self, root: RootName) -> AsyncIterator[None]:
        """Release a lock when the block fails. The block must not write."""
        try:
            yield
        except BaseException:
            await self.release(root)
            raise

    async def _change(self, root: RootName, was: bytes | None, to: bytes) -> bool:
        _, relation, key = root
        table = self.table(relation)
        return await self._store.check_and_put(table, key, was, to, self._clock.tick())


class Slave:
    """A transaction manager, which also runs the clients' reads. One event loop makes all calls."""

    def __init__(self, store: TableStore, log: Log, catalog: Catalog, engine: QueryEngine) -> None:
        self._store = store
        self._log = log
        self._catalog = catalog
        self._engine = engine
        self._clock = HybridClock(SystemClock())
        self._codecs = MarkedCodecs(catalog)
        self._programs = compile_programs(catalog, self._codecs)
        self._roots = Roots(catalog, self._codecs)
        self._locks = Locks(store, self._clock)
        self._plans: dict[str, WritePlan] = {}
        self._transactions = 0
        self.reader = Snapshot(store, self._codecs, NEWEST)
        """A reader of the newest versions. Its reads raise Dirty."""

    @property
    def tables(self) -> dict[str, str]:
        """The tables of the store, by content."""
        stored = {name: self._catalog.layout(name).table for name in self._catalog.stored}
        return stored | {f"locks of {name}": Locks.table(name) for name in self._root_relations}

    @property
    def _root_relations(self) -> Iterator[str]:
        return (name for name in self._catalog.schema.names if self._is_root(name))

    def _is_root(self, relation: str) -> bool:
        return relation not in self._catalog.forest.parent

    async def create(self) -> None:
        await create_tables(self._store, self.tables.values())

    async def load(self, relation: str, rows: Sequence[Row]) -> None:
        """Insert rows without log and locks, parents first. No client may read or write before."""
        changes = [Change(relation, None, row) for row in rows]
        writes = self._writes(await self._programs.mutations(changes, self.reader))
        await self._put(writes)
        if self._is_root(relation):
            await self._locks.create(relation, map(self._codecs(relation).key, rows))

    # ------------------------------------------------------------ reads

    async def read(self, sql: str, values: Sequence[Any]) -> list[Row]:
        """Run a read statement, and return its rows. Raises Cannot, HornbeamError."""
        prepared = self._engine.prepare(sql, self._catalog)
        patience = Patience("Rows have been marked")
        while True:
            try:
                return await (await prepared.run(self.reader, values)).all()
            except Dirty:
                await patience.wait()

    # ------------------------------------------------------------ writes

    async def write(self, sql: str, values: Sequence[Any]) -> None:
        """Run a write statement. Raises Cannot, HornbeamError."""
        plan = self._plans.get(sql)
        if plan is None:
            plan = self._plans[sql] = compile_write(sql, self._catalog, self._engine)
        if not isinstance(plan, RowPlan) or value_queries(plan):
            raise Cannot("The protocol writes one row, by values that the statement has.")
        given = bind_parameters(values, plan, dt.datetime.now(dt.UTC))
        self._transactions += 1
        await self._log.append([msgspec.msgpack.encode((self._transactions, sql, given))])
        match plan:
            case InsertPlan():
                await self._insert(plan, given)
            case UpdatePlan():
                await self._update(plan, given)
            case DeletePlan():
                await self._delete(plan, given)

    async def _insert(self, plan: InsertPlan, parameters: Parameters) -> None:
        row = await self._computed(plan, parameters, lambda: _new_row(plan, parameters))
        name = plan.relation.name
        root = await self._root(name, row)
        if not await self._locks.take(root, new=root[1] == name):
            raise Cannot(f"The row to lock does not exist in {root[1]}.")
        async with self._locks.released_on_error(root):
            mutations = await self._mutations(Change(name, None, row))
        await self._put(self._writes(mutations))
        await self._locks.release(root)

    async def _delete(self, plan: DeletePlan, parameters: Parameters) -> None:
        found = await self._locked(plan.relation, plan.find, parameters)
        if found is None:
            return
        root, row = found
        async with self._locks.released_on_error(root):
            mutations = await self._mutations(Change(plan.relation.name, row, None))
        await self._put(self._writes(mutations))
        await self._locks.release(root)

    async def _update(self, plan: UpdatePlan, parameters: Parameters) -> None:
        """Update a row in the six steps of the protocol."""
        relation = plan.relation
        if {each.position for each in plan.assignments} & set(relation.key_positions):
            raise Cannot("The protocol does not change keys.")
        found = await self._locked(relation, plan.find, parameters)
        if found is None:
            return
        root, row = found
        async with self._locks.released_on_error(root):
            new = await self._computed(plan, parameters, lambda: _updated(plan, row, parameters))
            mutations = await self._mutations(Change(relation.name, row, new))
        base = [m for m in mutations if not self._of_view(m)]
        viewed = [m for m in mutations if self._of_view(m)]
        marks = (Mutation(m.layout, m.key, None, m.old) for m in viewed if m.old is not None)
        await self._put(self._writes(marks, mark=True))
        await self._put(self._writes(base) | self._writes(viewed, mark=True))
        await self._put(self._writes(m for m in viewed if m.new is not None))
        await self._locks.release(root)

    async def lock_cycle(self, relation: str, keys: Iterable[Sequence[Value]]) -> None:
        """Take the locks of rows of a root relation, one after the other, and release them. Raises
        Cannot."""
        roots = [self._roots.name(relation, key) for key in keys]
        for root in roots:
            if not await self._locks.take(root):
                raise Cannot(f"The row to lock does not exist in {relation}.")
        for root in roots:
            await self._locks.release(root)

    # ------------------------------------------------------------ parts

    async def _computed(
        self, plan: WritePlan, parameters: Parameters, work: Callable[[], Row]
    ) -> Row:
        return await self._engine.evaluate(work) if needs_duckdb(plan, parameters) else work()

    async def _locked(
        self, relation: Relation, find: ByKey | BySearch, parameters: Parameters
    ) -> tuple[RootName, Row] | None:
        """Lock the root of the row to write. Returns the root and the row; None if the row does not
        exist."""
        if not isinstance(find, ByKey) or find.residual is not None:
            raise Cannot("The protocol writes one row per statement, which names its whole key.")
        key = find.values(parameters)
        if key is None:
            return None
        name = relation.name
        while True:
            before, root = await self._unlocked(name, key)
            if root is None or not await self._locks.take(root):
                return None
            async with self._locks.released_on_error(root):
                row = await self._row(name, key)
                still = row is not None and (row == before or await self._root(name, row) == root)
            if row is not None and still:
                return root, row
            await self._locks.release(root)  # the row was deleted, or moved to another root

    async def _unlocked(
        self, relation: str, key: Sequence[Value]
    ) -> tuple[Row | None, RootName | None]:
        """The row, if its root depends on it, and the root; None for a missing row."""
        if self._is_root(relation):
            return None, self._roots.name(relation, key)
        row = await self._row(relation, key)
        return row, None if row is None else await self._root(relation, row)

    async def _mutations(self, change: Change) -> list[Mutation]:
        return await self._programs.mutations([change], self.reader)

    async def _root(self, relation: str, row: Row) -> RootName:
        (root,) = await self._roots.find(relation, [row], self._rows)
        if not self._is_root(root[1]):
            raise Cannot(f"A row of {root[1]} has no root, so there is no lock for it.")
        return root

    async def _row(self, relation: str, key: Sequence[Value]) -> Row | None:
        (row,) = await self._rows(relation, [tuple(key)])
        return row

    async def _rows(self, relation: str, keys: Sequence[tuple[Value, ...]]) -> list[Row | None]:
        found = await self.reader.get(relation, keys)
        return [None if version is None else version.row for version in found]

    def _of_view(self, mutation: Mutation) -> bool:
        return self._catalog.layout(mutation.layout).source in self._catalog.view

    def _writes(self, mutations: Iterable[Mutation], *, mark: bool = False) -> Writes:
        """The puts of mutations, by table. `mark`: mark the rows."""
        writes: Writes = {}
        for mutation in mutations:
            codec = self._codecs(mutation.layout)
            value = TOMBSTONE if mutation.new is None else codec.encode(mutation.new)
            if mark and value:
                value = DIRTY + value.removeprefix(FORMAT)
            writes.setdefault(codec.layout.table, []).append(Put(mutation.key, value))
        return writes

    async def _put(self, writes: Writes) -> None:
        if writes:
            await self._store.put(writes, self._clock.tick())


def _new_row(plan: InsertPlan, parameters: Parameters) -> Row:
    """The row to insert. Raises Cannot."""
    if plan.query is not None or plan.conflict is not None or len(plan.rows) != 1:
        raise Cannot("The protocol inserts one row of given values per statement.")
    given = {each.position: each.value((), parameters) for each in plan.rows[0]}
    return tuple(
        given[i] if i in given else _default(plan.relation, i)
        for i in range(len(plan.relation.columns))
    )


def _updated(plan: UpdatePlan, row: Row, parameters: Parameters) -> Row:
    new = list(row)
    for each in plan.assignments:
        if isinstance(each, Defaulted):
            new[each.position] = _default(plan.relation, each.position)
        else:
            new[each.position] = each.value(row, parameters)
    return tuple(new)


def _default(relation: Relation, position: int) -> Value:
    default = relation.columns[position].default
    if default is None:
        return None
    if default.kind is not DefaultKind.LITERAL:
        raise Cannot("The protocol does not support computed defaults.")
    return default.value
