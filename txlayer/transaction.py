"""One attempt at one transaction: statements run under locks, their changes are collected.

An attempt sees the newest committed rows of the roots it has locked, with its own changes laid
over them. Nothing leaves it before the commit; an attempt that fails is thrown away.

Locks (names are tuples, one table for all; see docs/decisions/0002-existence-locks.md):

- ("root", relation, key)  exclusive for writes below that root, shared for validated reads;
- ("row", relation, key)   *existence*: exclusive to insert or delete the row, shared while a row
  under another root comes to reference it, or when its absence was relied on;
- ("unique", index, values) exclusive to take or free a value of a unique index;
- ("request", id)          exclusive while a request with an idempotency key runs.

A dry run takes no locks and reads at a snapshot; all else is the same code.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from maintain.changes import Change, Mutation
from maintain.recompute import rows_from
from query.engine import QueryStream
from schema.errors import (
    BeingLoaded,
    Corruption,
    ForeignKeyViolation,
    HornbeamError,
    InvalidRequest,
    LimitExceeded,
    NotFound,
    PreconditionFailed,
    ReadConflict,
    SqlError,
    TransactionAborted,
    UniqueViolation,
    UnknownName,
)
from schema.model import Column, Default, DefaultKind, OnDelete, Relation
from schema.sqltext import literal_sql
from schema.types import Row, Value
from storage.codec.rows import LayoutCodec
from storage.ports import NEWEST, Cell, TableStore
from storage.snapshot import Overlay, ReadItem, RememberingSnapshot, Snapshot
from txlayer.constraints import ChildCheck, ParentCheck, UniqueCheck
from txlayer.identity import Numbers
from txlayer.locks import LockName, LockOwner, Locks, Mode, Moment
from txlayer.model import (
    InsertRows,
    Parameters,
    Precondition,
    RepairRows,
    Statement,
    StatementResult,
    Work,
)
from txlayer.plans import (
    Assignments,
    ByKey,
    BySearch,
    Conflict,
    Defaulted,
    DeletePlan,
    InsertPlan,
    Returning,
    Scalar,
    Subquery,
    UpdatePlan,
    WritePlan,
    assigned_moment,
    bind_parameters,
    needs_duckdb,
)
from txlayer.state import CatalogState

MAX_CHANGES = 200_000
"""Rows one transaction may change; more belongs into several, or into `load`."""

Key = tuple[Value, ...]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Bound:
    """A statement with its parameters coerced. `by_duckdb`: some expression of it is evaluated by
    DuckDB."""

    statement: Statement
    parameters: Parameters
    by_duckdb: bool


_NOTHING_BOUND = _Bound(Statement(""), (), by_duckdb=False)


class Transaction:
    """The working state of one attempt.

    Searches look for rows at one snapshot, which `snapshot` gives when the first of them begins:
    one that holds everything up to the timestamp that it is given. Taken this late it holds
    whatever the transaction has waited for by then. Without `locks` all is read at `at`.
    """

    def __init__(
        self,
        state: CatalogState,
        store: TableStore,
        identity: Numbers,
        now: dt.datetime,
        snapshot: Callable[[int], Awaitable[int]],
        locks: Locks | None,
        owner: LockOwner,
        deadline: float | None = None,
        at: int = NEWEST,
    ) -> None:
        self.state = state
        self._store = store
        self._identity = identity
        self._now = now
        self._snapshot = snapshot
        self._searched: Snapshot | None = None
        self._locks = locks
        self._owner = owner
        self._deadline = deadline
        self._held: dict[LockName, Mode] = {}
        self.reader = RememberingSnapshot(store, state.codecs, at)
        self._reading_since = locks.moment() if locks is not None else Moment(0, {})
        self._changes: dict[str, dict[bytes, Change]] = {}
        self._repairs: list[Mutation] = []
        self._bound: dict[int, _Bound] = {}
        """By the identity of the statement, which each of them keeps."""
        self._given: dict[int, list[dict[int, Value]]] = {}
        """The rows of VALUES of each."""

    # ------------------------------------------------------------ locks

    async def lock(self, names: Iterable[LockName], mode: Mode = Mode.EXCLUSIVE) -> bool:
        """Take locks; False if all that was read before is as it was.

        Whoever changes what a lock protects holds it until the change can be read. So what was
        read before the lock was granted still holds if nobody has released that lock since; else
        it is read again. What was read since may be relied on if its lock is held.
        """
        locks, owner = self._locks, self._owner
        if locks is None:
            return False
        missing = [name for name in names if not self._has(name, mode)]
        if not missing:
            return False
        for number, name in enumerate(missing):
            if not locks.take(owner, name, mode):
                await locks.acquire(owner, missing[number:], mode, self._deadline)
                break
        self._held.update(dict.fromkeys(missing, mode))
        if locks.undisturbed(owner, missing, self._reading_since):
            return False
        self.reader.forget()
        self._reading_since = locks.moment()
        return True

    def _has(self, name: LockName, mode: Mode) -> bool:
        held = self._held.get(name)
        return held is mode or held is Mode.EXCLUSIVE

    async def _lock_roots(self, relation: str, rows: Sequence[Row]) -> None:
        """Lock the roots of `rows`, and look again under the lock (protocol.md, steps 1 to 3)."""
        roots = self.state.roots
        while True:
            names = await roots.find(relation, rows, self.rows)
            taken = await self.lock(dict.fromkeys(names))
            if not taken or not roots.needs_reads(relation):
                return

    async def _lock_existence(
        self, relation: str, keys: Iterable[bytes], mode: Mode = Mode.EXCLUSIVE
    ) -> bool:
        return await self.lock([("row", relation, key) for key in keys], mode)

    async def _lock_and_read(self, relation: str, keys: Sequence[Key]) -> list[Row | None]:
        """The rows, read under the locks of their roots; None where there is none."""
        codec = self.state.codecs(relation)
        while True:
            rows = await self.rows(relation, keys)
            present = [row for row in rows if row is not None]
            taken = await self.lock(
                sorted(set(await self.state.roots.find(relation, present, self.rows)))
            )
            # The answer "no such row" must stay true until the commit.
            absent = [codec.key_of(key) for key, row in zip(keys, rows, strict=True) if row is None]
            taken |= await self._lock_existence(relation, absent, Mode.SHARED)
            if not taken:
                return rows

    # ------------------------------------------------------------ state

    async def rows(self, relation: str, keys: Sequence[Key]) -> list[Row | None]:
        """Rows by key values with this transaction's changes."""
        if not keys:
            return []
        mine = self._changes.get(relation)
        if not mine:
            return await self._committed_rows(relation, keys)
        codec = self.state.codecs(relation)
        changes = [mine.get(codec.key_of(key)) for key in keys]
        others = [key for key, change in zip(keys, changes, strict=True) if change is None]
        committed = iter(await self._committed_rows(relation, others))
        return [next(committed) if change is None else change.new for change in changes]

    def _write(self, relation: str, key: bytes, before: Row | None, after: Row | None) -> None:
        """Note a change. `before` is the row as this transaction sees it now."""
        if relation in self.state.catalog.frozen:
            raise BeingLoaded(
                f"{relation} cannot be written now: an initial load is under way.",
                cure="Send it again when the load has ended (hornbeam status: loading).",
                relation=relation,
            )
        changes = self._changes.setdefault(relation, {})
        known = changes.get(key)
        changes[key] = Change(relation, known.old if known is not None else before, after)
        if len(changes) > MAX_CHANGES:
            raise LimitExceeded(
                f"The transaction changes more than {MAX_CHANGES} rows of {relation}.",
                cure="Split it; use load for bulk data.",
            )

    def net_changes(self) -> list[Change]:
        """Changes that change something, in order of first touch."""
        return [
            change
            for changes in self._changes.values()
            for change in changes.values()
            if change.old != change.new
        ]

    async def mutations(self) -> list[Mutation]:
        """Everything stored that differs after this transaction."""
        changes = self.net_changes()
        if not changes:
            return list(self._repairs)
        return [*await self.state.programs.mutations(changes, self.reader), *self._repairs]

    # ------------------------------------------------------------ reading ahead

    async def read_ahead(self, work: Sequence[Work], plans: Sequence[WritePlan | None]) -> None:
        """Read at once the rows that statements name by key, before any of them runs, if the store
        is remote.

        It saves waiting, and decides nothing: what has changed by the time that a statement has
        its locks is read again, like all that was read before.
        """
        if not self._store.remote:
            return
        wanted: dict[str, dict[Key, None]] = {}
        # An error is the statement's own: it is raised when its turn comes, if that comes.
        with suppress(HornbeamError):
            for one, plan in zip(work, plans, strict=True):
                if not isinstance(one, Statement) or plan is None:
                    continue
                for relation, key in await self._named(plan, self._bind(plan, one)):
                    if key is not None and None not in key:
                        wanted.setdefault(relation, {})[key] = None
        await self.reader.prefetch({name: list(keys) for name, keys in wanted.items()})

    async def _named(self, plan: WritePlan, bound: _Bound) -> list[tuple[str, Key | None]]:
        """Relations and keys; of a row that is inserted, those of its parents too."""
        match plan:
            case InsertPlan():
                return list(self._named_by(plan.relation, await self._values(plan, bound)))
            case UpdatePlan(find=ByKey() as find) | DeletePlan(find=ByKey() as find):
                return [(plan.relation.name, await self._key(find, bound))]
        return []

    def _named_by(
        self, relation: Relation, rows: Iterable[Mapping[int, Value]]
    ) -> Iterator[tuple[str, Key]]:
        codec = self.state.codecs(relation.name)
        parents = self.state.constraints[relation.name].parents
        for given in rows:
            row = tuple(map(given.get, range(len(relation.columns))))
            yield relation.name, codec.key_values(row)
            yield from ((p.foreign_key.parent, p.values(row)) for p in parents)

    # ------------------------------------------------------------ statements

    def _bind(self, plan: WritePlan, statement: Statement) -> _Bound:
        """Done once: to read ahead, or else to run. Raises SqlError, TypeMismatch."""
        bound = self._bound.get(id(statement))
        if bound is None:
            types = plan.parameter_types
            parameters = bind_parameters(statement.parameters, types, self._now)
            by_duckdb = needs_duckdb(plan, parameters)
            bound = self._bound[id(statement)] = _Bound(statement, parameters, by_duckdb)
        return bound

    async def _computed(self, bound: _Bound, work: Callable[[], T]) -> T:
        """What `work` returns, which evaluates expressions of the statement."""
        return await self.state.engine.evaluate(work) if bound.by_duckdb else work()

    async def _values(self, plan: InsertPlan, bound: _Bound) -> list[dict[int, Value]]:
        """The rows of VALUES. Done once, like `_bind`."""
        rows = self._given.get(id(bound.statement))
        if rows is None:
            rows = await self._computed(bound, lambda: plan.given(bound.parameters))
            self._given[id(bound.statement)] = rows
        return rows

    async def _key(self, find: ByKey, bound: _Bound) -> Key | None:
        return await self._computed(bound, lambda: find.values(bound.parameters))

    async def run(self, plan: WritePlan, statement: Statement) -> StatementResult:
        bound = self._bind(plan, statement)
        match plan:
            case InsertPlan():
                rows = await self._insert(plan, bound)
            case UpdatePlan():
                rows = await self._update(plan, bound)
            case DeletePlan():
                rows = await self._delete(plan, bound)
        returning = plan.returning
        if returning is None:
            return StatementResult(len(rows))
        return await self._computed(bound, lambda: _result(returning, rows, bound.parameters))

    async def insert(self, batch: InsertRows) -> StatementResult:
        """Insert a batch of rows without SQL. Raises NotFound, TypeMismatch and the rest."""
        if batch.relation not in self.state.catalog.schema:
            raise NotFound(f"There is no relation {batch.relation}.")
        relation = self.state.catalog.schema.relation(batch.relation)
        unknown = [name for name in batch.columns if name not in relation.positions]
        if unknown:
            raise UnknownName(f"Relation {relation.name} has no column {unknown[0]}.")
        positions = [relation.positions[name] for name in batch.columns]
        if any(len(row) != len(positions) for row in batch.rows):
            raise InvalidRequest(f"A row for {relation.name} has not {len(positions)} values.")
        rows = await self._complete_all(relation, positions, batch.rows)
        await self.insert_rows(relation, rows)
        return StatementResult(len(rows))

    async def _insert(self, plan: InsertPlan, bound: _Bound) -> list[Row]:
        relation = plan.relation
        given = [*await self._values(plan, bound)]
        if plan.query is not None:
            stream = await self._run_query(plan.query, bound.parameters)
            for row in await stream.all():
                pairs = zip(plan.query_positions, row, strict=True)
                typed = ((i, relation.columns[i].type, value) for i, value in pairs)
                given.append({i: t.coerce(assigned_moment(v, t.kind)) for i, t, v in typed})
        rows = [await self._complete(relation, values) for values in given]
        return await self.insert_rows(relation, rows, plan.conflict, bound)

    async def _complete(self, relation: Relation, values: Mapping[int, Value]) -> Row:
        """A whole row: given values, then defaults."""
        row = [
            values[i] if i in values else await self._default(relation, column)
            for i, column in enumerate(relation.columns)
        ]
        complete = tuple(row)
        self.state.constraints.require_values(relation, complete)
        return complete

    async def _complete_all(
        self, relation: Relation, positions: Sequence[int], given: Sequence[Sequence[Any]]
    ) -> list[Row]:
        """`_complete` for many rows whose values are not coerced yet, column by column."""
        values = dict(zip(positions, zip(*given, strict=True), strict=False))
        columns: list[Sequence[Value]] = []
        for i, column in enumerate(relation.columns):
            if i in values:
                columns.append(column.type.coerce_all(values[i]))
            elif column.default is not None and column.default.kind is DefaultKind.IDENTITY:
                columns.append([await self._default(relation, column) for _ in given])
            else:
                columns.append([await self._default(relation, column)] * len(given))
        rows = list(zip(*columns, strict=True))
        for number, row in enumerate(rows, start=1):
            if None in row:
                self.state.constraints.require_values(relation, row, number)
        return rows

    async def _default(self, relation: Relation, column: Column) -> Value:
        match column.default:
            case None:
                return None
            case Default(kind=DefaultKind.NOW):
                return assigned_moment(self._now, column.type.kind)
            case Default(kind=DefaultKind.IDENTITY):
                return await self._identity.next(relation.name, column.name)
            case Default(value=value):
                return value

    async def insert_rows(
        self,
        relation: Relation,
        rows: Sequence[Row],
        conflict: Conflict | None = None,
        bound: _Bound = _NOTHING_BOUND,
    ) -> list[Row]:
        """Insert complete rows, set-at-a-time; returns the rows inserted or updated.

        Raises SqlError if ON CONFLICT DO UPDATE means a row that it has written itself.
        """
        name, codec = relation.name, self.state.codecs(relation.name)
        await self._lock_roots(name, rows)
        keys = [codec.key(row) for row in rows]
        await self._lock_existence(name, keys)
        existing = await self.rows(name, [codec.key_values(row) for row in rows])
        written: list[Row] = []
        written_keys: set[bytes] = set()
        mine = self._changes.setdefault(name, {})
        for row, key, stored in zip(rows, keys, existing, strict=True):
            change = mine.get(key)
            before = change.new if change is not None else stored
            holder = None
            if conflict is not None:
                holder = await self._conflicting(relation, conflict, row, before)
            if holder is None and before is None:
                self._write(name, key, None, row)
                written.append(row)
                written_keys.add(key)
            elif holder is None or conflict is None:
                raise UniqueViolation(
                    f"{name} has a row with this primary key already:"
                    f" {_shown(relation.primary_key, codec.key_values(row))}.",
                    cure="Use another key, or ON CONFLICT with the primary key as its target.",
                    relation=name,
                    constraint="primary key",
                )
            elif conflict.assignments:
                if codec.key(holder) in written_keys:
                    raise _written_twice(relation, codec.key_values(holder))
                updated = await self._update_conflicting(relation, conflict, holder, row, bound)
                written += updated
                written_keys.update(map(codec.key, updated))
        return written

    async def _conflicting(
        self, relation: Relation, conflict: Conflict, row: Row, same_key: Row | None
    ) -> Row | None:
        """The row that ON CONFLICT means; `same_key` has the primary key of `row`."""
        if same_key is not None and _targets_key(conflict):
            return same_key
        for check in self.state.constraints[relation.name].unique:
            if not conflict.any_key and check.index != conflict.index:
                continue
            values = check.values(row)
            if None in values:
                continue
            await self._lock_unique(check, values)
            holder = await self._holder(relation, check, values)
            if holder is not None:
                return holder
        return None

    async def _holder(self, relation: Relation, check: UniqueCheck, values: Key) -> Row | None:
        """The row that has `values` in a unique index, as this transaction sees it."""
        for change in self._changes.get(relation.name, {}).values():
            if change.new is not None and check.values(change.new) == values:
                return change.new
        (entries,) = await self.reader.prefixes(check.index.name, [values])
        for entry in entries:
            (row,) = await self.rows(relation.name, [check.holder_key(entry.row)])
            if row is not None and check.values(row) == values:
                return row
        return None

    async def _update_conflicting(
        self,
        relation: Relation,
        conflict: Conflict,
        held: Row,
        proposed: Row,
        bound: _Bound,
    ) -> list[Row]:
        key = self.state.codecs(relation.name).key_values(held)
        (row,) = await self._lock_and_read(relation.name, [key])
        if row is None:
            raise TransactionAborted("The conflicting row was deleted meanwhile.")
        new = await self._computed(
            bound, lambda: _updated_conflicting(conflict, row, proposed, bound.parameters)
        )
        if new is None:
            return []
        new = await self._defaulted(relation, conflict.assignments, new)
        return await self._replace(relation, [(row, new)])

    async def _update(self, plan: UpdatePlan, bound: _Bound) -> list[Row]:
        rows = await self._locate(plan.relation, plan.find, bound)
        pairs = await self._computed(
            bound,
            lambda: [(r, _assigned(plan.assignments, r, r, bound.parameters)) for r in rows],
        )
        relation, assignments = plan.relation, plan.assignments
        pairs = [(row, await self._defaulted(relation, assignments, new)) for row, new in pairs]
        return await self._replace(relation, pairs)

    async def _defaulted(self, relation: Relation, assignments: Assignments, row: Row) -> Row:
        """`row` after what SET … = DEFAULT says."""
        new = list(row)
        for assignment in assignments:
            if isinstance(assignment, Defaulted):
                new[assignment.position] = await self._default(relation, assignment.column)
        return tuple(new)

    async def _replace(self, relation: Relation, pairs: Sequence[tuple[Row, Row]]) -> list[Row]:
        """Old rows become new ones; their keys may change too."""
        name, codec = relation.name, self.state.codecs(relation.name)
        checks = self.state.constraints[name]
        for _, new in pairs:
            self.state.constraints.require_values(relation, new)
        moved = [new for old, new in pairs if any(old[i] != new[i] for i in checks.root_positions)]
        if moved:
            await self._lock_roots(name, moved)
        keys = [(codec.key(old), codec.key(new)) for old, new in pairs]
        rekeyed = [pair for pair in keys if pair[0] != pair[1]]
        if rekeyed:
            await self._lock_existence(name, sorted({key for pair in rekeyed for key in pair}))
        for (old, _), (old_key, new_key) in zip(pairs, keys, strict=True):
            if old_key != new_key:
                self._write(name, old_key, old, None)
        for (old, new), (old_key, new_key) in zip(pairs, keys, strict=True):
            if old_key == new_key:
                self._write(name, new_key, old, new)
            else:
                await self.insert_rows(relation, [new])
        return [new for _, new in pairs]

    async def _delete(self, plan: DeletePlan, bound: _Bound) -> list[Row]:
        rows = await self._locate(plan.relation, plan.find, bound)
        await self._delete_rows(plan.relation, rows)
        return rows

    async def _delete_rows(self, relation: Relation, rows: Sequence[Row]) -> None:
        """Delete rows, and do to those below what ON DELETE says, however deep they go."""
        waiting = [(relation, rows)]
        while waiting:
            parent, gone = waiting.pop()
            if not gone:
                continue
            await self._delete_level(parent.name, gone)
            for check in self.state.constraints[parent.name].children:
                if check.restricts:
                    continue
                below = await self._below(check, gone)
                if check.foreign_key.on_delete is OnDelete.CASCADE:
                    waiting.append((check.child, below))
                else:
                    await self._replace(check.child, [(row, check.nulls(row)) for row in below])

    async def _delete_level(self, relation: str, rows: Sequence[Row]) -> None:
        codec = self.state.codecs(relation)
        keys = [codec.key(row) for row in rows]
        await self._lock_existence(relation, keys)
        for row, key in zip(rows, keys, strict=True):
            self._write(relation, key, row, None)

    async def _below(self, check: ChildCheck, rows: Sequence[Row]) -> list[Row]:
        """Rows that reference one of `rows`, which are deleted, under their locks."""
        gone = {check.values(row) for row in rows}
        children = await self._children(check, list(gone))
        keys = [self.state.codecs(check.child.name).key_values(child) for child in children]
        locked = await self._lock_and_read(check.child.name, keys)
        # A child may have left before its lock was granted; none can come, the parents are locked.
        return [row for row in locked if row is not None and check.parent_key(row) in gone]

    async def _children(self, check: ChildCheck, parents: Sequence[Key]) -> list[Row]:
        """Rows of the child relation that reference one of `parents`, as seen here."""
        wanted = set(parents)
        if not wanted:
            return []
        name, codec = check.child.name, self.state.codecs(check.child.name)
        keys: dict[Key, None] = {}
        if check.path is not None:
            for entries in await self.reader.prefixes(check.path, list(wanted)):
                keys.update((check.child_key(entry.row), None) for entry in entries)
        else:
            async for batch in self.reader.scan(name):
                keys.update((check.child_key(row), None) for row in batch)
        for change in self._changes.get(name, {}).values():
            if change.new is not None:
                keys[codec.key_values(change.new)] = None
        current = await self.rows(name, list(keys))
        return [row for row in current if row is not None and check.parent_key(row) in wanted]

    async def _locate(self, relation: Relation, find: ByKey | BySearch, bound: _Bound) -> list[Row]:
        """The rows that a WHERE means, locked and as they are now."""
        if isinstance(find, BySearch):
            return await self._search(relation, find, bound)
        key = await self._key(find, bound)
        if key is None:
            return []
        rows = await self._lock_and_read(relation.name, [key])
        return await self._matching(rows, find.residual, bound)

    async def _matching(
        self, rows: Sequence[Row | None], predicate: Scalar | None, bound: _Bound
    ) -> list[Row]:
        present = [row for row in rows if row is not None]
        if predicate is None or not present:
            return present
        return await self._computed(
            bound, lambda: [row for row in present if predicate(row, bound.parameters)]
        )

    async def _search(self, relation: Relation, find: BySearch, bound: _Bound) -> list[Row]:
        keys = await (await self._run_query(find.query, bound.parameters)).all()
        rows = await self._lock_and_read(relation.name, keys)
        if find.predicate is None:
            await self._require_unchanged(relation, keys)
        return await self._matching(rows, find.predicate, bound)

    async def _require_unchanged(self, relation: Relation, keys: Sequence[Key]) -> None:
        base = await self._base()
        if await self.reader.get(relation.name, keys) != await base.get(relation.name, keys):
            raise _changed_since(relation.name)

    async def _base(self) -> Snapshot:
        """The snapshot of this transaction's searches, without its own changes."""
        if self._searched is None:
            waited_for = self._locks.clock(self._owner) if self._locks is not None else 0
            at = await self._snapshot(waited_for)
            self._searched = Snapshot(self._store, self.state.codecs, at)
        return self._searched

    async def _run_query(self, query: Subquery, parameters: Parameters) -> QueryStream:
        reader = await self._search_reader(query.prepared.sources)
        return await query.prepared.run(reader, query.parameters(parameters))

    async def _search_reader(self, sources: Set[str]) -> Snapshot:
        """The snapshot that WHEREs and subqueries look at, with this transaction's changes to the
        relations and views that they read."""
        base = await self._base()
        changed = (name for name, changes in self._changes.items() if changes)
        if not self.state.programs.sources(changed) & sources:
            return base
        layout = self.state.catalog.layout
        mutations = [m for m in await self.mutations() if layout(m.layout).source in sources]
        await self._require_base(mutations)
        return Snapshot(self._store, self.state.codecs, base.at, mutations=Overlay(mutations))

    async def _require_base(self, mutations: Sequence[Mutation]) -> None:
        """Mutations may be laid over the snapshot only if they start from what it shows: else an
        index would show the row both as it was then and as it is now."""
        by_layout: dict[str, list[Mutation]] = {}
        for mutation in mutations:
            by_layout.setdefault(mutation.layout, []).append(mutation)
        base = await self._base()
        for layout, changed in by_layout.items():
            codec = self.state.codecs(layout)
            keys = [codec.decode_key(mutation.key) for mutation in changed]
            for version, mutation in zip(await base.get(layout, keys), changed, strict=True):
                if (version.row if version is not None else None) != mutation.old:
                    raise _changed_since(layout)

    # ------------------------------------------------------------ checks before the commit

    async def check(self) -> None:
        """Foreign keys and UNIQUE over the net changes. Raises ConstraintViolation."""
        by_relation: dict[str, list[Change]] = {}
        for change in self.net_changes():
            by_relation.setdefault(change.relation, []).append(change)
        for relation, changes in by_relation.items():
            checks = self.state.constraints[relation]
            for parent in checks.parents:
                await self._check_parent(relation, parent, changes)
            for unique in checks.unique:
                await self._check_unique(relation, unique, changes)
            for child in checks.children:
                await self._check_children(relation, child, changes)

    async def _check_parent(
        self, relation: str, check: ParentCheck, changes: Sequence[Change]
    ) -> None:
        wanted: dict[Key, None] = {}
        for change in changes:
            if change.new is None:
                continue
            values = check.values(change.new)
            if None in values or (change.old is not None and check.values(change.old) == values):
                continue
            wanted[values] = None
        keys, parent = list(wanted), check.foreign_key.parent
        codec = self.state.codecs(parent)
        if not check.same_root:
            await self._lock_existence(parent, map(codec.key_of, keys), Mode.SHARED)
        for key, row in zip(keys, await self.rows(parent, keys), strict=True):
            if row is None:
                raise ForeignKeyViolation(
                    f"{relation} references {parent}"
                    f" {_shown(check.foreign_key.columns, key)}, which does not exist.",
                    cure=f"Insert the row of {parent} first, or in the same transaction.",
                    relation=relation,
                    constraint=check.foreign_key.name,
                    key=[literal_sql(value) for value in key],
                )

    async def _check_unique(
        self, relation: str, check: UniqueCheck, changes: Sequence[Change]
    ) -> None:
        codec = self.state.codecs(relation)
        taken: dict[Key, Key] = {}
        for change in changes:
            old = check.values(change.old) if change.old is not None else None
            new = check.values(change.new) if change.new is not None else None
            if old == new:
                continue
            for values in (old, new):
                if values is not None and None not in values:
                    await self._lock_unique(check, values)
            if change.new is None or new is None or None in new:
                continue
            if new in taken:
                raise _duplicate(relation, check, new)
            taken[new] = codec.key_values(change.new)
        changed = {codec.key(row) for c in changes for row in (c.old, c.new) if row is not None}
        found = await self.reader.prefixes(check.index.name, list(taken)) if taken else []
        for values, entries in zip(taken, found, strict=True):
            for entry in entries:
                if codec.key_of(check.holder_key(entry.row)) not in changed:
                    raise _duplicate(relation, check, values)
        await self._check_unchanged_holders(relation, check, changes, taken)

    async def _check_unchanged_holders(
        self, relation: str, check: UniqueCheck, changes: Sequence[Change], taken: Mapping[Key, Key]
    ) -> None:
        """A row changed elsewhere but keeping its unique values still holds them."""
        codec = self.state.codecs(relation)
        for change in changes:
            if change.new is None:
                continue
            values = check.values(change.new)
            if values in taken and taken[values] != codec.key_values(change.new):
                raise _duplicate(relation, check, values)

    async def _lock_unique(self, check: UniqueCheck, values: Key) -> None:
        prefix = self.state.codecs(check.index.name).prefix(values)
        await self.lock([("unique", check.index.name, prefix)])

    async def _check_children(
        self, relation: str, check: ChildCheck, changes: Sequence[Change]
    ) -> None:
        gone = [check.values(c.old) for c in changes if c.old is not None and c.new is None]
        if gone and (children := await self._children(check, gone)):
            raise ForeignKeyViolation(
                f"{relation} {_shown(check.foreign_key.parent_columns, gone[0])} is referenced by"
                f" {len(children)} row(s) of {check.child.name}.",
                cure=f"Delete them first, or declare {check.foreign_key.name} ON DELETE CASCADE.",
                relation=check.child.name,
                constraint=check.foreign_key.name,
            )

    async def validate(
        self, reads: Sequence[ReadItem], preconditions: Sequence[Precondition]
    ) -> None:
        """Row versions that the client relies on. Raises ReadConflict, PreconditionFailed."""
        await self.reader.prefetch(self._relied_on(reads, preconditions))
        for item in reads:
            known = item.layout in self.state.catalog
            if not known or await self._version(item.layout, item.key) != item.ts:
                raise ReadConflict(
                    f"A row of {item.layout} that this transaction read has changed since.",
                    cure="Begin again and read it anew.",
                )
        for condition in preconditions:
            relation, key = self._precondition_key(condition)
            encoded = self.state.codecs(relation.name).key_of(key)
            version = await self._version(relation.name, encoded)
            if version != condition.version:
                raise PreconditionFailed(
                    f"{relation.name} {_shown(relation.primary_key, key)}"
                    + (" is absent." if version is None else f" is at version {version}."),
                    relation=relation.name,
                    version=version,
                )

    def _relied_on(
        self, reads: Sequence[ReadItem], preconditions: Sequence[Precondition]
    ) -> dict[str, list[Key]]:
        """Keys of the rows whose versions are asked for, and of the base rows they hang on."""
        wanted: dict[str, list[Key]] = {}
        for item in reads:
            if item.layout in self.state.catalog:
                relation, base_key = self._read_origin(item.layout, item.key)
                key = self.state.codecs(item.layout).decode_key(item.key)
                wanted.setdefault(relation, []).append(base_key)
                wanted.setdefault(item.layout, []).append(key)
        for condition in preconditions:
            of, key = self._precondition_key(condition)
            wanted.setdefault(of.name, []).append(key)
        return wanted

    def _precondition_key(self, condition: Precondition) -> tuple[Relation, Key]:
        if condition.relation not in self.state.catalog.schema:
            raise NotFound(f"There is no relation {condition.relation}.")
        relation = self.state.catalog.schema.relation(condition.relation)
        if len(condition.key) != len(relation.primary_key):
            raise InvalidRequest(
                f"A key of {relation.name} has the columns {', '.join(relation.primary_key)}."
            )
        pairs = zip(relation.primary_key, condition.key, strict=True)
        return relation, tuple(relation.column(name).type.coerce(value) for name, value in pairs)

    async def _version(self, layout: str, key: bytes) -> int | None:
        """Commit timestamp of a stored row, under a shared lock of its root."""
        relation, base_key = self._read_origin(layout, key)
        encoded = self.state.codecs(relation).key_of(base_key)
        await self._lock_existence(relation, [encoded], Mode.SHARED)
        while True:
            rows = [r for r in await self._committed_rows(relation, [base_key]) if r is not None]
            names = await self.state.roots.find(relation, rows, self._committed_rows)
            if not await self.lock(names, Mode.SHARED):
                break
        (version,) = await self.reader.get(layout, [self.state.codecs(layout).decode_key(key)])
        return version.ts if version is not None else None

    def _read_origin(self, layout: str, key: bytes) -> tuple[str, Key]:
        """`_origin` of what a client says it has read."""
        catalog = self.state.catalog
        if layout not in catalog.schema and not catalog.maintained(layout):
            raise ReadConflict(f"{layout}, which this transaction read, is gone since.")
        try:
            return self._origin(layout, key)
        except Corruption:
            raise InvalidRequest(f"{key.hex()!r} is no key of {layout}.") from None

    def _origin(self, layout: str, key: bytes) -> tuple[str, Key]:
        """The base row that a stored row hangs on: the last relation of its source, and its key."""
        catalog, codec = self.state.catalog, self.state.codecs(layout)
        source = catalog.layout(codec.layout.source)
        columns = (part.column for part in codec.layout.key)
        by_column = dict(zip(columns, codec.decode_key(key), strict=True))
        relation = catalog.view[source.name].last if source.name in catalog.view else source.name
        return relation, tuple(by_column[part.column] for part in source.key)

    async def repair(self, damaged: RepairRows) -> StatementResult:
        """Write what rows of a view or index should hold, recomputed under their roots' locks.

        What is no key at all belongs to no base row, and no writer comes there: it needs no lock.
        """
        codecs, catalog = self.state.codecs, self.state.catalog
        codec = codecs(damaged.layout)
        origins = [self._origin(damaged.layout, k) for k in damaged.keys if codec.is_key(k)]
        expected: dict[bytes, Row] = {}
        if origins:
            keys = list(dict.fromkeys(key for _, key in origins))
            await self._lock_and_read(origins[0][0], keys)
            expected = await rows_from(catalog, codecs, damaged.layout, self.reader, keys)
        stored = await self._store.get(codec.layout.table, damaged.keys, NEWEST)
        for key, cell in zip(damaged.keys, stored, strict=True):
            old, new = _decoded(codec, cell), expected.get(key)
            if old != new or (cell is not None and old is None):
                self._repairs.append(Mutation(damaged.layout, key, old, new))
        return StatementResult(len(self._repairs))

    async def _committed_rows(self, relation: str, keys: Sequence[Key]) -> list[Row | None]:
        found = await self.reader.get(relation, keys)
        return [version.row if version is not None else None for version in found]


def _decoded(codec: LayoutCodec, cell: Cell | None) -> Row | None:
    """None for what cannot be decoded, too."""
    try:
        return codec.decode(cell.value) if cell is not None else None
    except Corruption:
        return None


def _assigned(assignments: Assignments, old: Row, seen: Row, parameters: Parameters) -> Row:
    """`old` after the expressions of SET, which are over `seen`."""
    new = list(old)
    for assignment in assignments:
        if not isinstance(assignment, Defaulted):
            new[assignment.position] = assignment.value(seen, parameters)
    return tuple(new)


def _updated_conflicting(
    conflict: Conflict, row: Row, proposed: Row, parameters: Parameters
) -> Row | None:
    """What ON CONFLICT makes of `row`; None: its WHERE lets it be."""
    both = row + proposed
    if conflict.where is not None and not conflict.where(both, parameters):
        return None
    return _assigned(conflict.assignments, row, both, parameters)


def _result(returning: Returning, rows: Sequence[Row], parameters: Parameters) -> StatementResult:
    return StatementResult(
        len(rows),
        returning.columns,
        returning.types,
        tuple(returning.row(row, parameters) for row in rows),
    )


def _changed_since(layout: str) -> TransactionAborted:
    return TransactionAborted(f"A row of {layout} changed after this transaction's snapshot.")


def _written_twice(relation: Relation, key: Key) -> SqlError:
    return SqlError(
        f"ON CONFLICT DO UPDATE would write a row of {relation.name} a second time:"
        f" {_shown(relation.primary_key, key)}.",
        cure="Give each row once, or send one statement for each.",
    )


def _targets_key(conflict: Conflict) -> bool:
    return conflict.any_key or conflict.index is None


def _duplicate(relation: str, check: UniqueCheck, values: Key) -> UniqueViolation:
    columns = tuple(part.column for part in check.index.columns)
    return UniqueViolation(
        f"{relation} has a row with {_shown(columns, values)} already.",
        cure="Use another value, or ON CONFLICT.",
        relation=relation,
        constraint=check.index.name,
    )


def _shown(columns: Sequence[str], values: Sequence[Value]) -> str:
    pairs = ", ".join(f"{c} = {literal_sql(v)}" for c, v in zip(columns, values, strict=True))
    return f"({pairs})"
