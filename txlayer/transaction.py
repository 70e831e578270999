"""One attempt of a transaction: it runs the statements under locks and collects their changes.

An attempt reads the newest committed rows of the roots that it has locked, overlaid with its own
changes. Its changes are in memory until the commit; an attempt that fails is discarded.

Locks (names are tuples; docs/decisions/0002-existence-locks.md):

- ("root", relation, key)  exclusive for writes below that root, shared for validated reads;
- ("row", relation, key)   *existence*: exclusive to insert or delete the row; shared while a row
  under another root begins to reference it, or when the transaction relies on its absence;
- ("unique", index, values) exclusive to take or free a value of a unique index;
- ("request", id)          exclusive while a request with an idempotency key runs.

A dry run takes no locks and reads at a snapshot; the rest of its code is the same.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, TypeVar

from hornbeam_server.maintain.changes import Change, Mutation
from hornbeam_server.maintain.recompute import rows_from
from hornbeam_server.query.engine import QueryStream
from hornbeam_server.query.parameters import Misfit
from hornbeam_server.schema.catalog import Counter
from hornbeam_server.schema.errors import (
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
from hornbeam_server.schema.model import Column, Default, DefaultKind, OnDelete, Relation
from hornbeam_server.schema.render import identifier
from hornbeam_server.schema.sizes import Budget, bytes_of
from hornbeam_server.schema.sqltext import literal_sql
from hornbeam_server.schema.turns import ROWS_A_TURN, chunks, made, selected, turn
from hornbeam_server.schema.types import Row, Value
from hornbeam_server.storage.codec.rows import LayoutCodec
from hornbeam_server.storage.limits import MAX_ROW_BYTES
from hornbeam_server.storage.ports import NEWEST, Cell, TableStore
from hornbeam_server.storage.snapshot import Overlay, ReadItem, RememberingSnapshot, Snapshot
from hornbeam_server.txlayer.constraints import ChildCheck, ParentCheck, UniqueCheck
from hornbeam_server.txlayer.identity import Numbers
from hornbeam_server.txlayer.locks import LockName, LockOwner, Locks, Mode, Moment
from hornbeam_server.txlayer.model import (
    InsertRows,
    Parameters,
    Precondition,
    RepairRows,
    Statement,
    StatementResult,
    Work,
)
from hornbeam_server.txlayer.plans import (
    Assignments,
    ByKey,
    BySearch,
    Conflict,
    Defaulted,
    DeletePlan,
    InsertPlan,
    Scalar,
    Subquery,
    UpdatePlan,
    WritePlan,
    assigned,
    assigned_moment,
    bind_parameters,
    needs_duckdb,
    with_values,
)
from hornbeam_server.txlayer.state import CatalogState

CONFLICTS_A_TURN = 32
"""Maximum rows of an INSERT with ON CONFLICT in one turn: each is looked up by itself."""
MAX_CHANGES = 200_000
"""Maximum number of rows of one relation that a transaction may change. More rows need several
transactions, or `load`."""

MAX_BYTES = 64 << 20
"""Maximum size of the texts and byte strings that a transaction reads in order to write, and of
those that it writes."""
MAX_STORED_BYTES = 2 * MAX_BYTES
"""Maximum size of the texts and byte strings that a transaction stores, with views and indexes."""
_SPLIT = "Split it into transactions over fewer rows, or smaller ones."

Key = tuple[Value, ...]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Bound:
    """A statement with the values of its parameters. `by_duckdb`: DuckDB evaluates some of its
    expressions."""

    statement: Statement
    parameters: Parameters
    by_duckdb: bool


class _Holders:
    """The rows that a transaction has written, by their values in a unique index."""

    def __init__(self, check: UniqueCheck) -> None:
        self._values = check.values
        self._rows: dict[Key, dict[bytes, Row]] = {}
        """Rows by values and key: before the final check, several rows may have the same values."""

    def of(self, values: Key) -> Row | None:
        return next(iter(self._rows.get(values, {}).values()), None)

    def note(self, key: bytes, before: Row | None, after: Row | None) -> None:
        """Record that the row at `key` changes from `before` to `after`."""
        if before is not None:
            del self._rows[self._values(before)][key]
        if after is not None:
            self._rows.setdefault(self._values(after), {})[key] = after


_NOTHING_BOUND = _Bound(Statement(""), (), by_duckdb=False)


class Transaction:
    """The working state of one attempt.

    All searches use one snapshot. The first search gets it from `snapshot`, which returns a
    snapshot at or above its argument; so it holds all commits for which the transaction has waited
    by then. Without `locks`, all rows are read at `at`.
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
        self._loaded: list[tuple[Counter, list[Any]]] = []
        self._now = now
        self._snapshot = snapshot
        self._searched: Snapshot | None = None
        self._locks = locks
        self._owner = owner
        self._deadline = deadline
        self._held: dict[LockName, Mode] = {}
        self.reader = RememberingSnapshot(store, state.codecs, at, _budget_of_reads())
        self._reading_since = locks.moment() if locks is not None else Moment(0, {})
        self._changes: dict[str, dict[bytes, Change]] = {}
        self._holders: dict[str, dict[str, _Holders]] = {}
        """Holders by relation and unique index, where they were needed so far."""
        self._repairs: list[Mutation] = []
        self._bound: dict[int, tuple[WritePlan, _Bound]] = {}
        """Plans and bound statements by the `id` of the statement, which they keep alive."""
        self._given: dict[int, list[dict[int, Value]]] = {}
        """The rows of VALUES by the `id` of the statement."""
        self._values_budget = _budget_of_writes()
        self._changes_budget = _budget_of_writes()
        self._returned_budget = Budget(
            MAX_ROW_BYTES, "What RETURNING gives, which is one row,", "stored", _SPLIT
        )

    # ------------------------------------------------------------ locks

    async def lock(self, names: Iterable[LockName], mode: Mode = Mode.EXCLUSIVE) -> bool:
        """Take locks. False if all rows that were read before are still current; else they are
        forgotten, and the caller must read again.

        A transaction that changes rows holds their lock until the change can be read. So rows read
        before the grant are current if the lock was not released since they were read. Rows read
        after the grant stay current while the lock is held. Raises TransactionAborted,
        StatementTimeout.
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
        await turn(missing)
        if locks.undisturbed(owner, missing, self._reading_since):
            return False
        self.reader.forget()
        self._reading_since = locks.moment()
        return True

    def _has(self, name: LockName, mode: Mode) -> bool:
        held = self._held.get(name)
        return held is mode or held is Mode.EXCLUSIVE

    async def _lock_roots(self, relation: str, rows: Sequence[Row]) -> None:
        """Lock the roots of `rows`. Finds them again under the locks, because they may have moved.

        These are the first steps of "A transaction" in docs/protocols/locks.md.
        """
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
        """The rows with these keys, read under the locks of their roots; None for a row that does
        not exist."""
        found: list[Row | None] = []
        for some in chunks(keys):
            found += await self._lock_and_read_some(relation, some)
            await turn(some)
        return found

    async def _lock_and_read_some(self, relation: str, keys: Sequence[Key]) -> list[Row | None]:
        codec = self.state.codecs(relation)
        while True:
            rows = await self.rows(relation, keys)
            present = [row for row in rows if row is not None]
            taken = await self.lock(
                sorted(set(await self.state.roots.find(relation, present, self.rows)))
            )
            # A missing row must stay missing until the commit.
            absent = [codec.key_of(key) for key, row in zip(keys, rows, strict=True) if row is None]
            taken |= await self._lock_existence(relation, absent, Mode.SHARED)
            if not taken:
                return rows

    # ------------------------------------------------------------ state

    async def rows(self, relation: str, keys: Sequence[Key]) -> list[Row | None]:
        """The rows with these keys, with this transaction's changes; None for a missing row."""
        found: list[Row | None] = []
        for some in chunks(keys):
            found += await self._some_rows(relation, some)
            await turn(some)
        return found

    async def _some_rows(self, relation: str, keys: Sequence[Key]) -> list[Row | None]:
        mine = self._changes.get(relation)
        if not mine:
            return await self._committed_rows(relation, keys)
        codec = self.state.codecs(relation)
        changes = [mine.get(codec.key_of(key)) for key in keys]
        others = [key for key, change in zip(keys, changes, strict=True) if change is None]
        committed = iter(await self._committed_rows(relation, others))
        return [next(committed) if change is None else change.new for change in changes]

    def _write(self, relation: str, key: bytes, before: Row | None, after: Row | None) -> None:
        """Record a change of a row. `before` is the row with this transaction's earlier changes.
        Raises BeingLoaded, LimitExceeded."""
        if relation in self.state.catalog.frozen:
            raise BeingLoaded(
                f"{relation} cannot be written now: an initial load is under way.",
                cure="Send it again when the load has ended (hornbeam status: loading).",
                relation=relation,
            )
        changes = self._changes.setdefault(relation, {})
        known = changes.get(key)
        replaced = known.new if known is not None else None
        self._changes_budget.take(bytes_of(after or ()) - bytes_of(replaced or ()))
        changes[key] = Change(relation, known.old if known is not None else before, after)
        _require_few(relation, len(changes))
        for holders in self._holders.get(relation, {}).values():
            holders.note(key, replaced, after)

    async def net_changes(self) -> list[Change]:
        """The changes whose old and new rows differ, by relation, in the order of first change."""
        found: list[Change] = []
        for changes in self._changes.values():
            found += await selected(list(changes.values()), lambda c: c.old != c.new)
        return found

    async def mutations(self) -> list[Mutation]:
        """The changes of all stored rows: of relations, views and indexes. Raises LimitExceeded."""
        changes = await self.net_changes()
        if not changes:
            return list(self._repairs)
        found = await self.state.programs.mutations(changes, self.reader)
        await _require_moderate(found)
        return [*found, *self._repairs]

    # ------------------------------------------------------------ reading ahead

    async def read_ahead(self, work: Sequence[Work], plans: Sequence[WritePlan | None]) -> None:
        """If the store is remote, read all rows that the statements name by key at once, before the
        first statement runs.

        This only saves waits. Rows that change before a statement has its locks are read again,
        like all rows that were read before.
        """
        if not self._store.remote:
            return
        wanted: dict[str, dict[Key, None]] = {}
        # An error belongs to its statement, which raises it when it runs.
        with suppress(HornbeamError):
            for some in chunks(list(zip(work, plans, strict=True))):
                for one, plan in some:
                    if not isinstance(one, Statement) or plan is None:
                        continue
                    for relation, key in await self._named(*await self._bind(plan, one)):
                        if key is not None and None not in key:
                            wanted.setdefault(relation, {})[key] = None
                await turn(some)
        await self.reader.prefetch({name: list(keys) for name, keys in wanted.items()})

    async def _named(self, plan: WritePlan, bound: _Bound) -> list[tuple[str, Key | None]]:
        """The relations and keys of rows that a statement names; for inserted rows, their parents
        too. Empty for an INSERT of many rows, which reads them part by part."""
        match plan:
            case InsertPlan():
                values = await self._values(plan, bound)
                few = values if len(values) < ROWS_A_TURN else ()
                return list(self._named_by(plan.relation, few))
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

    async def _bind(self, plan: WritePlan, statement: Statement) -> tuple[WritePlan, _Bound]:
        """Bind a statement once, on its first use. Returns another plan when a value does not fit
        its parameter. Raises SqlError, TypeMismatch."""
        found = self._bound.get(id(statement))
        if found is None:
            given, now = statement.parameters, self._now
            try:
                parameters = bind_parameters(given, plan, now)
            except Misfit:
                catalog, engine = self.state.catalog, self.state.engine
                plan, left = await engine.read(
                    len(statement.sql), partial(with_values, plan, given, catalog, engine)
                )
                parameters = bind_parameters(left, plan, now)
            found = plan, _Bound(statement, parameters, needs_duckdb(plan, parameters))
            self._bound[id(statement)] = found
        return found

    async def _computed(self, bound: _Bound, work: Callable[[], T]) -> T:
        """The result of `work`, which evaluates expressions of the statement."""
        return await self.state.engine.evaluate(work) if bound.by_duckdb else work()

    async def _all_computed(self, bound: _Bound, items: Iterable[T]) -> list[T]:
        """All `items`, as a list. Their iteration evaluates expressions of the statement."""
        if bound.by_duckdb:
            return await self.state.engine.evaluate(lambda: list(items))
        return await made(items)

    async def _values(self, plan: InsertPlan, bound: _Bound) -> list[dict[int, Value]]:
        """The rows of VALUES, computed once, on the first use."""
        rows = self._given.get(id(bound.statement))
        if rows is None:
            given = self._values_budget.taking(plan.given(bound.parameters), _values_of)
            rows = self._given[id(bound.statement)] = await self._all_computed(bound, given)
        return rows

    async def _key(self, find: ByKey, bound: _Bound) -> Key | None:
        return await self._computed(bound, lambda: find.values(bound.parameters))

    async def run(self, plan: WritePlan, statement: Statement) -> StatementResult:
        plan, bound = await self._bind(plan, statement)
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
        shown = (returning.row(row, bound.parameters) for row in rows)
        shown_rows = await self._all_computed(bound, self._returned_budget.taking(shown))
        return StatementResult(len(rows), returning.columns, returning.types, tuple(shown_rows))

    async def insert(self, batch: InsertRows) -> StatementResult:
        """Insert a batch of rows without SQL. Raises NotFound, UnknownName, InvalidRequest,
        LimitExceeded, TypeMismatch, and the errors of `insert_rows`."""
        if batch.relation not in self.state.catalog.schema:
            raise NotFound(f"There is no relation {batch.relation}.")
        relation = self.state.catalog.schema.relation(batch.relation)
        unknown = [name for name in batch.columns if name not in relation.positions]
        if unknown:
            raise UnknownName(f"Relation {relation.name} has no column {unknown[0]}.")
        positions = [relation.positions[name] for name in batch.columns]
        if any(len(row) != len(positions) for row in batch.rows):
            raise InvalidRequest(f"A row for {relation.name} has not {len(positions)} values.")
        if len(batch.rows) > MAX_CHANGES:
            raise LimitExceeded(
                f"More than {MAX_CHANGES} rows in one transaction.",
                cure="Load them in several requests, or with hornbeam load.",
            )
        rows: list[Row] = []
        for some in chunks(batch.rows):
            rows += await self._complete_all(relation, positions, some, len(rows) + 1)
            await turn(some)
        await self.insert_rows(relation, rows)
        for position in positions:
            column = relation.columns[position].name
            counter = self.state.catalog.counters.get((relation.name, column))
            if counter is not None and rows:
                self._loaded.append((counter, [row[position] for row in rows]))
        return StatementResult(len(rows))

    async def move_numbers(self) -> None:
        """Move identity columns behind the numbers in batches that `insert` has inserted. To be
        called when nothing can refuse the transaction any more: the columns do not go back."""
        for counter, numbers in self._loaded:
            await self._identity.move_past(counter, numbers)

    async def _insert(self, plan: InsertPlan, bound: _Bound) -> list[Row]:
        relation = plan.relation
        given = [*await self._values(plan, bound)]
        if plan.query is not None:
            stream = await self._run_query(plan.query, bound.parameters)
            rows_found = await _gathered(stream, relation.name, _budget_of_writes())
            _require_width(len(stream.columns), len(plan.query_positions), relation)
            given += await made(_row_assigned(plan, row) for row in rows_found)
        rows: list[Row] = []
        for some in chunks(given):
            rows += [await self._complete(relation, values) for values in some]
            await turn(some)
        return await self.insert_rows(relation, rows, plan.conflict, bound)

    async def _complete(self, relation: Relation, values: Mapping[int, Value]) -> Row:
        """A whole row: the given values, and defaults for the rest. Raises NotNullViolation."""
        row = [
            values[i] if i in values else await self._default(relation, column)
            for i, column in enumerate(relation.columns)
        ]
        complete = tuple(row)
        self.state.constraints.require_values(relation, complete)
        return complete

    async def _complete_all(
        self,
        relation: Relation,
        positions: Sequence[int],
        given: Sequence[Sequence[Any]],
        first: int,
    ) -> list[Row]:
        """Complete many rows like `_complete`, column by column, and coerce their values. `first`
        is the number of the first row in its batch. Raises TypeMismatch, NotNullViolation."""
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
        for number, row in enumerate(rows, start=first):
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
                number = await self._identity.next(
                    self.state.catalog.counters[relation.name, column.name]
                )
                return column.type.coerce(number)
            case Default(value=value):
                return value

    async def insert_rows(
        self,
        relation: Relation,
        rows: Sequence[Row],
        conflict: Conflict | None = None,
        bound: _Bound = _NOTHING_BOUND,
    ) -> list[Row]:
        """Insert complete rows, set-at-a-time. Returns the inserted and updated rows.

        Raises UniqueViolation, LimitExceeded, BeingLoaded, TransactionAborted, StatementTimeout,
        and SqlError if ON CONFLICT DO UPDATE would update a row that the statement has written.
        """
        written: list[Row] = []
        written_keys: set[bytes] = set()
        most = ROWS_A_TURN if conflict is None else CONFLICTS_A_TURN
        for some in chunks(rows, most):
            written += await self._insert_some(relation, some, conflict, bound, written_keys)
            await turn(some, most)
        return written

    async def _insert_some(
        self,
        relation: Relation,
        rows: Sequence[Row],
        conflict: Conflict | None,
        bound: _Bound,
        written_keys: set[bytes],
    ) -> list[Row]:
        """Insert a part of the rows. Adds their keys to `written_keys`, the keys of all rows that
        the statement has written so far."""
        name, codec = relation.name, self.state.codecs(relation.name)
        await self._lock_roots(name, rows)
        keys = [codec.key(row) for row in rows]
        await self._lock_existence(name, keys)
        existing = await self.rows(name, [codec.key_values(row) for row in rows])
        written: list[Row] = []
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
                values = codec.key_values(row)
                cure = "Use another key, or ON CONFLICT with the primary key as its target."
                raise UniqueViolation(
                    f"{name} has a row with this primary key already:"
                    f" {_shown(relation.primary_key, values)}.",
                    cure=self._numbers_cure(name, relation.primary_key, values) or cure,
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
        """The existing row that is in conflict with `row`, by the target of ON CONFLICT; None if
        there is none. `same_key` is the existing row with the primary key of `row`."""
        if same_key is not None and _targets_key(conflict):
            return same_key
        for check in self.state.constraints[relation.name].unique:
            if not conflict.any_key and check.index != conflict.index:
                continue
            values = check.values(row)
            if None in values:
                continue
            await self._lock_unique(check, [values])
            holder = await self._holder(relation, check, values)
            if holder is not None:
                return holder
        return None

    async def _holder(self, relation: Relation, check: UniqueCheck, values: Key) -> Row | None:
        """The row that has `values` in a unique index, with this transaction's changes."""
        own = (await self._own_holders(relation.name, check)).of(values)
        if own is not None:
            return own
        (entries,) = await self.reader.prefixes(check.index.name, [values])
        for entry in entries:
            (row,) = await self.rows(relation.name, [check.holder_key(entry.row)])
            if row is not None and check.values(row) == values:
                return row
        return None

    async def _own_holders(self, relation: str, check: UniqueCheck) -> _Holders:
        """The holders among the rows that this transaction has written. `_write` maintains them
        after the first call."""
        holders = self._holders.setdefault(relation, {}).get(check.index.name)
        if holders is None:
            holders = _Holders(check)
            for some in chunks(list(self._changes.get(relation, {}).items())):
                for key, change in some:
                    holders.note(key, None, change.new)
                await turn(some)
            self._holders[relation][check.index.name] = holders
        return holders

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
        relation, assignments, parameters = plan.relation, plan.assignments, bound.parameters
        after = (_assigned(assignments, row, row, parameters) for row in rows)
        changed = await self._all_computed(bound, _budget_of_writes().taking(after))
        pairs: list[tuple[Row, Row]] = []
        for some in chunks(list(zip(rows, changed, strict=True))):
            pairs += [(row, await self._defaulted(relation, assignments, new)) for row, new in some]
            await turn(some)
        return await self._replace(relation, pairs)

    async def _defaulted(self, relation: Relation, assignments: Assignments, row: Row) -> Row:
        """`row` with the defaults of SET … = DEFAULT."""
        new = list(row)
        for assignment in assignments:
            if isinstance(assignment, Defaulted):
                new[assignment.position] = await self._default(relation, assignment.column)
        return tuple(new)

    async def _replace(self, relation: Relation, pairs: Sequence[tuple[Row, Row]]) -> list[Row]:
        """Replace the old row of each pair by the new one; keys may change. Returns new rows."""
        name, codec = relation.name, self.state.codecs(relation.name)
        new_keys: list[Row] = []
        for some in chunks(pairs):
            await self._lock_to_replace(relation, some)
            for old, new in some:
                old_key = codec.key(old)
                if old_key == codec.key(new):
                    self._write(name, old_key, old, new)
                else:
                    self._write(name, old_key, old, None)
                    new_keys.append(new)
            await turn(some)
        await self.insert_rows(relation, new_keys)  # last: rows of this statement may free the keys
        return [new for _, new in pairs]

    async def _lock_to_replace(self, relation: Relation, pairs: Sequence[tuple[Row, Row]]) -> None:
        """Lock the new roots of rows that move, and the existence of the old and new keys of rows
        whose keys change. Raises NotNullViolation."""
        name, key = relation.name, self.state.codecs(relation.name).key
        positions = self.state.constraints[name].root_positions
        for _, new in pairs:
            self.state.constraints.require_values(relation, new)
        moved = [pair for pair in pairs if any(pair[0][i] != pair[1][i] for i in positions)]
        if not moved:
            return
        await self._lock_roots(name, [new for _, new in moved])
        keys = [(key(old), key(new)) for old, new in moved]
        rekeyed = {one for pair in keys if pair[0] != pair[1] for one in pair}
        await self._lock_existence(name, sorted(rekeyed))

    async def _delete(self, plan: DeletePlan, bound: _Bound) -> list[Row]:
        rows = await self._locate(plan.relation, plan.find, bound)
        await self._delete_rows(plan.relation, rows)
        return rows

    async def _delete_rows(self, relation: Relation, rows: Sequence[Row]) -> None:
        """Delete rows, and carry out ON DELETE for all rows that reference them, at any depth."""
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
                    await self._replace(
                        check.child, await made((row, check.nulls(row)) for row in below)
                    )

    async def _delete_level(self, relation: str, rows: Sequence[Row]) -> None:
        codec = self.state.codecs(relation)
        for some in chunks(rows):
            keys = [codec.key(row) for row in some]
            await self._lock_existence(relation, keys)
            for row, key in zip(some, keys, strict=True):
                self._write(relation, key, row, None)
            await turn(some)

    async def _below(self, check: ChildCheck, rows: Sequence[Row]) -> list[Row]:
        """The rows that reference one of the deleted `rows`, read under their locks."""
        gone = set(await made(map(check.values, rows)))
        children = await self._children(check, gone)
        keys = await made(map(self.state.codecs(check.child.name).key_values, children))
        locked = await self._lock_and_read(check.child.name, keys)
        # A child may have left before its lock was granted. None can join: the parents are locked.
        present = [row for row in locked if row is not None]
        return await selected(present, lambda row: check.parent_key(row) in gone)

    async def _children(self, check: ChildCheck, parents: Set[Key]) -> list[Row]:
        """The rows of the child relation that reference one of `parents`, with this transaction's
        changes. Raises LimitExceeded."""
        if not parents:
            return []
        name, codec = check.child.name, self.state.codecs(check.child.name)
        keys: dict[Key, None] = {}
        if check.path is not None:
            for some in chunks(list(parents)):
                for entries in await self.reader.prefixes(check.path, some):
                    below = await made(check.child_key(entry.row) for entry in entries)
                    keys.update(dict.fromkeys(below))
                _require_few(name, len(keys))
                await turn(some)
        else:
            async for batch in self.reader.scan(name):
                found = (row for row in batch if check.parent_key(row) in parents)
                keys.update((check.child_key(row), None) for row in found)
                _require_few(name, len(keys))
                await turn(batch)
        changed = (c.new for c in self._changes.get(name, {}).values() if c.new is not None)
        keys.update(dict.fromkeys(await made(map(codec.key_values, changed))))
        current = [row for row in await self.rows(name, list(keys)) if row is not None]
        return await selected(current, lambda row: check.parent_key(row) in parents)

    async def _locate(self, relation: Relation, find: ByKey | BySearch, bound: _Bound) -> list[Row]:
        """The rows that match a WHERE, locked, in their newest state."""
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

        def wanted(row: Row) -> object:
            return predicate(row, bound.parameters)

        if bound.by_duckdb:
            return await self.state.engine.evaluate(lambda: list(filter(wanted, present)))
        return await selected(present, wanted)

    async def _search(self, relation: Relation, find: BySearch, bound: _Bound) -> list[Row]:
        stream = await self._run_query(find.query, bound.parameters)
        keys = await _gathered(stream, relation.name, _budget_of_reads())
        rows = await self._lock_and_read(relation.name, keys)
        if find.predicate is None:
            await self._require_unchanged(relation, keys)
        return await self._matching(rows, find.predicate, bound)

    async def _require_unchanged(self, relation: Relation, keys: Sequence[Key]) -> None:
        base = await self._base()
        for some in chunks(keys):
            if await self.reader.get(relation.name, some) != await base.get(relation.name, some):
                raise _changed_since(relation.name)
            await turn(some)

    async def _base(self) -> Snapshot:
        """The snapshot of this transaction's searches, without the transaction's own changes."""
        if self._searched is None:
            waited_for = self._locks.clock(self._owner) if self._locks is not None else 0
            at = await self._snapshot(waited_for)
            self._searched = Snapshot(self._store, self.state.codecs, at)
        return self._searched

    async def _run_query(self, query: Subquery, parameters: Parameters) -> QueryStream:
        reader = await self._search_reader(query.prepared.sources)
        return await query.prepared.run(reader, query.parameters(parameters))

    async def _search_reader(self, sources: Set[str]) -> Snapshot:
        """The snapshot for the WHERE and subqueries of a statement, overlaid with this
        transaction's changes to the relations and views `sources`. Raises TransactionAborted."""
        base = await self._base()
        changed = (name for name, changes in self._changes.items() if changes)
        if not self.state.programs.sources(changed) & sources:
            return base
        layout = self.state.catalog.layout
        mutations = [m for m in await self.mutations() if layout(m.layout).source in sources]
        await self._require_base(mutations)
        return Snapshot(self._store, self.state.codecs, base.at, mutations=Overlay(mutations))

    async def _require_base(self, mutations: Sequence[Mutation]) -> None:
        """Raises TransactionAborted unless the old row of each mutation is the row in the snapshot.
        Else an overlay of the mutations would show both its old and its new entries in an index."""
        by_layout: dict[str, list[Mutation]] = {}
        for mutation in mutations:
            by_layout.setdefault(mutation.layout, []).append(mutation)
        base = await self._base()
        for layout, changed in by_layout.items():
            codec = self.state.codecs(layout)
            for some in chunks(changed):
                keys = [codec.decode_key(mutation.key) for mutation in some]
                for version, mutation in zip(await base.get(layout, keys), some, strict=True):
                    if (version.row if version is not None else None) != mutation.old:
                        raise _changed_since(layout)
                await turn(some)

    # ------------------------------------------------------------ checks before the commit

    async def check(self) -> None:
        """Check foreign keys and UNIQUE over the net changes. Raises ConstraintViolation."""
        by_relation: dict[str, list[Change]] = {}
        for change in await self.net_changes():
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
        parent = check.foreign_key.parent
        codec = self.state.codecs(parent)
        newly = dict.fromkeys(await made(map(check.newly, changes)))
        for keys in chunks([key for key in newly if key is not None]):
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
            await turn(keys)

    async def _check_unique(
        self, relation: str, check: UniqueCheck, changes: Sequence[Change]
    ) -> None:
        codec = self.state.codecs(relation)
        taken: dict[Key, Key] = {}
        changed: set[bytes] = set()
        for some in chunks(changes):
            await self._lock_unique(check, chain.from_iterable(map(check.freed_and_taken, some)))
            for change in some:
                changed.update(codec.key(row) for row in (change.old, change.new) if row)
                values = check.newly(change)
                if values is None or change.new is None:
                    continue
                if values in taken:
                    raise self._duplicate(relation, check, values)
                taken[values] = codec.key_values(change.new)
            await turn(some)
        for some_values in chunks(list(taken)):
            found = await self.reader.prefixes(check.index.name, some_values)
            for values, entries in zip(some_values, found, strict=True):
                for entry in entries:
                    if codec.key_of(check.holder_key(entry.row)) not in changed:
                        raise self._duplicate(relation, check, values)
            await turn(some_values)
        await self._check_unchanged_holders(relation, check, changes, taken)

    async def _check_unchanged_holders(
        self, relation: str, check: UniqueCheck, changes: Sequence[Change], taken: Mapping[Key, Key]
    ) -> None:
        """Raises UniqueViolation if a changed row keeps values that another row takes."""
        codec = self.state.codecs(relation)
        for some in chunks(changes):
            for row in (change.new for change in some if change.new is not None):
                values = check.values(row)
                if values in taken and taken[values] != codec.key_values(row):
                    raise self._duplicate(relation, check, values)
            await turn(some)

    def _duplicate(self, relation: str, check: UniqueCheck, values: Key) -> UniqueViolation:
        columns = tuple(part.column for part in check.index.columns)
        return UniqueViolation(
            f"{relation} has a row with {_shown(columns, values)} already.",
            cure=self._numbers_cure(relation, columns, values)
            or "Use another value, or ON CONFLICT.",
            relation=relation,
            constraint=check.index.name,
        )

    def _numbers_cure(
        self, relation: str, columns: Sequence[str], values: Sequence[Value]
    ) -> str | None:
        """The cure for an identity column that has given a number which a row has already. None if
        the statement itself gave the `values`."""
        for column, value in zip(columns, values, strict=True):
            if (relation, column, value) in self._identity.taken:
                table, name = identifier(relation), identifier(column)
                return (
                    f"Identity column {column} lies behind numbers that rows were given: ALTER"
                    f" TABLE {table} ALTER COLUMN {name} RESTART WITH n, where n is free and behind"
                    f" (SELECT max({name}) FROM {table})."
                )
        return None

    async def _lock_unique(self, check: UniqueCheck, values: Iterable[Key]) -> None:
        name, prefix = check.index.name, self.state.codecs(check.index.name).prefix
        await self.lock([("unique", name, prefix(each)) for each in dict.fromkeys(values)])

    async def _check_children(
        self, relation: str, check: ChildCheck, changes: Sequence[Change]
    ) -> None:
        deleted = (c.old for c in changes if c.old is not None and c.new is None)
        gone = dict.fromkeys(await made(map(check.values, deleted)))
        if children := await self._children(check, gone.keys()):
            first = next(iter(gone))
            raise ForeignKeyViolation(
                f"{relation} {_shown(check.foreign_key.parent_columns, first)} is referenced by"
                f" {len(children)} row(s) of {check.child.name}.",
                cure=f"Delete them first, or declare {check.foreign_key.name} ON DELETE CASCADE.",
                relation=check.child.name,
                constraint=check.foreign_key.name,
            )

    async def validate(
        self, reads: Sequence[ReadItem], preconditions: Sequence[Precondition]
    ) -> None:
        """Check the row versions on which the client relies. Raises ReadConflict,
        PreconditionFailed, NotFound, InvalidRequest, TypeMismatch."""
        await self.reader.prefetch(self._relied_on(reads, preconditions))
        for item in reads:
            known = item.layout in self.state.catalog
            if not known or await self._version(item.layout, item.key) != item.ts:
                raise ReadConflict(
                    f"A row of {item.layout} that this transaction read has changed since.",
                    cure="Begin again and read it again.",
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
        """The keys of all rows whose versions are checked, and of their base rows, by name."""
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
        """The commit timestamp of a stored row, under a shared lock of its root; None if there is
        no such row."""
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
        """`_origin` of a row that a client reports as read. Raises ReadConflict if the relation,
        view or index is gone, InvalidRequest for a malformed key."""
        catalog = self.state.catalog
        if layout not in catalog.schema and not catalog.maintained(layout):
            raise ReadConflict(f"{layout}, which this transaction read, is gone since.")
        try:
            return self._origin(layout, key)
        except Corruption:
            raise InvalidRequest(f"{key.hex()!r} is no key of {layout}.") from None

    def _origin(self, layout: str, key: bytes) -> tuple[str, Key]:
        """The base row of a stored row: the last relation of its source, and the key there. Raises
        Corruption for a malformed key."""
        catalog, codec = self.state.catalog, self.state.codecs(layout)
        source = catalog.layout(codec.layout.source)
        columns = (part.column for part in codec.layout.key)
        by_column = dict(zip(columns, codec.decode_key(key), strict=True))
        relation = catalog.view[source.name].last if source.name in catalog.view else source.name
        return relation, tuple(by_column[part.column] for part in source.key)

    async def repair(self, damaged: RepairRows) -> StatementResult:
        """Compute rows of a view or index again, under the locks of their roots, and write those
        that differ.

        A malformed key needs no lock: it belongs to no base row, and no writer uses it.
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


def _require_width(given: int, wanted: int, relation: Relation) -> None:
    """Raises SqlError unless a SELECT has the `wanted` number of columns. Checked when it runs:
    only DuckDB knows to how many columns it unnests a struct."""
    if given != wanted:
        raise SqlError(
            f"INSERT INTO {relation.name}: {wanted} columns, the SELECT gives {given}.",
            cure="Name the columns that are written, and give each a value.",
        )


def _decoded(codec: LayoutCodec, cell: Cell | None) -> Row | None:
    """The row in `cell`; None if there is no cell, or it cannot be decoded."""
    try:
        return codec.decode(cell.value) if cell is not None else None
    except Corruption:
        return None


def _row_assigned(plan: InsertPlan, row: Row) -> dict[int, Value]:
    """The values by position that a row of INSERT … SELECT assigns. Raises TypeMismatch."""
    columns = plan.relation.columns
    typed = ((i, columns[i].type, v) for i, v in zip(plan.query_positions, row, strict=True))
    return {i: assigned(assigned_moment(value, t.kind), t) for i, t, value in typed}


def _assigned(assignments: Assignments, old: Row, seen: Row, parameters: Parameters) -> Row:
    """`old` with the assignments of SET, except defaults. Their expressions are over `seen`."""
    new = list(old)
    for assignment in assignments:
        if not isinstance(assignment, Defaulted):
            new[assignment.position] = assignment.value(seen, parameters)
    return tuple(new)


def _updated_conflicting(
    conflict: Conflict, row: Row, proposed: Row, parameters: Parameters
) -> Row | None:
    """The row to which ON CONFLICT DO UPDATE changes `row`; None if its WHERE excludes `row`."""
    both = row + proposed
    if conflict.where is not None and not conflict.where(both, parameters):
        return None
    return _assigned(conflict.assignments, row, both, parameters)


async def _gathered(stream: QueryStream, relation: str, budget: Budget) -> list[Row]:
    """All rows of a query, which are to be written to `relation`. Raises LimitExceeded."""
    rows: list[Row] = []
    async with aclosing(stream.batches()) as batches:
        async for batch in batches:
            for some in chunks(batch):
                rows += budget.taking(some)
                await turn(some)
            _require_few(relation, len(rows))
    return rows


def _require_few(relation: str, rows: int) -> None:
    if rows > MAX_CHANGES:
        raise LimitExceeded(
            f"The transaction changes more than {MAX_CHANGES} rows of {relation}.",
            cure="Split it; use load for bulk data.",
        )


async def _require_moderate(mutations: Sequence[Mutation]) -> None:
    """Raises LimitExceeded for too large mutations. They may be much larger than the changes that
    cause them: a view repeats a parent's columns in the row of each child."""
    budget = Budget(
        MAX_STORED_BYTES, "What the transaction stores, with views and indexes,", "stored", _SPLIT
    )
    for some in chunks(mutations):
        for mutation in some:
            budget.take(bytes_of(mutation.new or ()))
        await turn(some)


def _budget_of_reads() -> Budget:
    return Budget(MAX_BYTES, "What the transaction reads in order to write", "read", _SPLIT)


def _budget_of_writes() -> Budget:
    return Budget(MAX_BYTES, "What the transaction writes", "written", _SPLIT)


def _values_of(row: Mapping[int, Value]) -> Iterable[Value]:
    return row.values()


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


def _shown(columns: Sequence[str], values: Sequence[Value]) -> str:
    pairs = ", ".join(f"{c} = {literal_sql(v)}" for c, v in zip(columns, values, strict=True))
    return f"({pairs})"
