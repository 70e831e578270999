"""One attempt of a transaction: it runs the statements under locks and collects their changes.

An attempt reads the newest committed rows of the roots that it has locked, overlaid with its own
changes. Its changes are in memory until the commit; an attempt that fails is discarded.

Locks (names are tuples; docs/decisions/0002-existence-locks.md):

- ("root", relation, key)  exclusive for writes below that root, shared for validated reads;
- ("row", relation, key)   *existence*: exclusive to insert or delete the row; shared while a row
  under another root begins to reference it, or when the transaction relies on its absence;
- ("unique", index, values) exclusive to take or free a value of a unique index; shared while a row
  begins to reference it;
- ("request", id)          exclusive while a request with an idempotency key runs.

A dry run takes no locks and reads at a snapshot; the rest of its code is the same.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from hornbeam_server.maintain.changes import Mutation
from hornbeam_server.query.binding.parameters import Misfit
from hornbeam_server.query.engine import QueryStream
from hornbeam_server.schema.catalog import Counter
from hornbeam_server.schema.errors import (
    HornbeamError,
    InvalidRequest,
    LimitExceeded,
    NotFound,
    SqlError,
    TransactionAborted,
    UniqueViolation,
)
from hornbeam_server.schema.model import Relation
from hornbeam_server.schema.named_columns import require_no_generated, unknown_column
from hornbeam_server.schema.sizes import Budget
from hornbeam_server.schema.sqltext import shown
from hornbeam_server.schema.turns import ROWS_A_TURN, chunks, made, selected, turn
from hornbeam_server.schema.types import Row, Value
from hornbeam_server.storage.limits import MAX_ROW_BYTES
from hornbeam_server.storage.ports import NEWEST, TableStore
from hornbeam_server.storage.snapshot import Overlay, Snapshot
from hornbeam_server.txlayer.transactions.compiled_catalog import CatalogState
from hornbeam_server.txlayer.transactions.constraint_checks import ConstraintChecks, numbers_cure
from hornbeam_server.txlayer.transactions.identity_columns import Numbers
from hornbeam_server.txlayer.transactions.locks import LockOwner, Locks
from hornbeam_server.txlayer.transactions.new_rows import NewRows
from hornbeam_server.txlayer.transactions.random_uuids import RandomUuids
from hornbeam_server.txlayer.transactions.referential_actions import Pairs, ReferentialActions
from hornbeam_server.txlayer.transactions.requests import (
    InsertRows,
    Parameters,
    Statement,
    StatementResult,
    Work,
)
from hornbeam_server.txlayer.transactions.stored_rows import StoredRows
from hornbeam_server.txlayer.transactions.workspace import (
    MAX_CHANGES,
    SPLIT,
    Key,
    Workspace,
    budget_of_reads,
    budget_of_writes,
    changed_since,
    gathered,
)
from hornbeam_server.txlayer.transactions.write_compiler import with_values
from hornbeam_server.txlayer.transactions.write_expressions import Scalar
from hornbeam_server.txlayer.transactions.write_parameters import bind_parameters
from hornbeam_server.txlayer.transactions.write_plans import (
    Assignments,
    ByKey,
    BySearch,
    Conflict,
    Defaulted,
    DeletePlan,
    InsertPlan,
    Subquery,
    UpdatePlan,
    WritePlan,
    assigned,
    needs_duckdb,
)

CONFLICTS_A_TURN = 32
"""Maximum rows of an INSERT with ON CONFLICT in one turn: each is looked up by itself."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Bound:
    """A statement with the values of its parameters. `by_duckdb`: DuckDB evaluates some of its
    expressions."""

    statement: Statement
    parameters: Parameters
    by_duckdb: bool


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
        uuids: RandomUuids,
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
        self._workspace = workspace = Workspace(state, store, locks, owner, deadline, at)
        self._bound: dict[int, tuple[WritePlan, _Bound]] = {}
        """Plans and bound statements by the `id` of the statement, which they keep alive."""
        self._given: dict[int, list[dict[int, Value]]] = {}
        """The rows of VALUES by the `id` of the statement."""
        self._values_budget = budget_of_writes()
        self._returned_budget = Budget(
            MAX_ROW_BYTES, "What RETURNING gives, which is one row,", "stored", SPLIT
        )
        # Operations of the parts are operations of the transaction.
        self._new_rows = NewRows(state, identity, uuids, now)
        self._actions = ReferentialActions(workspace, self._new_rows.default, self._put_in_place)
        checks, stored = ConstraintChecks(workspace, identity), StoredRows(workspace, store)
        self.lock, self.net_changes = workspace.lock, workspace.net_changes
        self.mutations, self.check = workspace.mutations, checks.check
        self.lock_joined, self.additions = workspace.lock_joined, workspace.additions
        self.overlay = workspace.overlay
        self.validate, self.repair = stored.validate, stored.repair

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
        await self._workspace.reader.prefetch({name: list(keys) for name, keys in wanted.items()})

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
            keyed = (parent for parent in parents if parent.target is None)
            yield from ((parent.foreign_key.parent, parent.values(row)) for parent in keyed)

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
        LimitExceeded, TypeMismatch, and the errors of `insert_rows`; SqlError for a generated
        column."""
        if batch.relation not in self.state.catalog.schema:
            raise NotFound(f"There is no relation {batch.relation}.")
        relation = self.state.catalog.schema.relation(batch.relation)
        unknown = [name for name in batch.columns if name not in relation.visible_names]
        if unknown:
            raise unknown_column(relation, unknown[0])
        require_no_generated(relation, batch.columns)
        positions = [relation.positions[name] for name in batch.columns]
        if any(len(row) != len(positions) for row in batch.rows):
            raise InvalidRequest(
                f"A row for {relation.name} does not have {len(positions)} values.",
                cure="Give each row one value for each named column.",
            )
        if len(batch.rows) > MAX_CHANGES:
            raise LimitExceeded(
                f"More than {MAX_CHANGES} rows in one transaction.",
                cure="Load them in several requests, or with hornbeam load.",
            )
        rows: list[Row] = []
        for some in chunks(batch.rows):
            rows += await self._new_rows.complete_all(relation, positions, some, len(rows) + 1)
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
            rows_found = await gathered(stream, relation.name, budget_of_writes())
            _require_width(len(stream.columns), len(plan.query_positions), relation)
            given += await made(_row_assigned(plan, row) for row in rows_found)
        rows: list[Row] = []
        for some in chunks(given):
            rows += [await self._new_rows.complete(relation, values) for values in some]
            await turn(some)
        return await self.insert_rows(relation, rows, plan.conflict, bound)

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
        await self._workspace.lock_roots(name, rows)
        keys = [codec.key(row) for row in rows]
        await self._workspace.lock_existence(name, keys)
        existing = await self._workspace.rows(name, [codec.key_values(row) for row in rows])
        written: list[Row] = []
        mine = self._workspace.changes.setdefault(name, {})
        for row, key, stored in zip(rows, keys, existing, strict=True):
            change = mine.get(key)
            before = change.new if change is not None else stored
            holder = None
            if conflict is not None:
                holder = await self._conflicting(relation, conflict, row, before)
            if holder is None and before is None:
                self._workspace.write(name, key, None, row)
                written.append(row)
                written_keys.add(key)
            elif holder is None or conflict is None:
                values = codec.key_values(row)
                cure = "Use another key, or ON CONFLICT with the primary key as its target."
                raise UniqueViolation(
                    f"{name} has a row with this primary key already:"
                    f" {shown(relation.primary_key, values)}.",
                    cure=numbers_cure(self._identity, name, relation.primary_key, values) or cure,
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
            await self._workspace.lock_unique(check, [values])
            (holder,) = await self._workspace.holders(relation.name, check, [values])
            if holder is not None:
                return holder
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
        (row,) = await self._workspace.lock_and_read(relation.name, [key])
        if row is None:
            raise TransactionAborted("The conflicting row was deleted meanwhile.")
        new = await self._computed(
            bound, lambda: _updated_conflicting(conflict, row, proposed, bound.parameters)
        )
        if new is None:
            return []
        new = await self._new_rows.defaulted(relation, conflict.assignments, new)
        return await self._replace(relation, [(row, new)])

    async def _update(self, plan: UpdatePlan, bound: _Bound) -> list[Row]:
        rows = await self._locate(plan.relation, plan.find, bound)
        relation, assignments, parameters = plan.relation, plan.assignments, bound.parameters
        after = (_assigned(assignments, row, row, parameters) for row in rows)
        changed = await self._all_computed(bound, budget_of_writes().taking(after))
        pairs: list[tuple[Row, Row]] = []
        for some in chunks(list(zip(rows, changed, strict=True))):
            pairs += [
                (row, await self._new_rows.defaulted(relation, assignments, new))
                for row, new in some
            ]
            await turn(some)
        return await self._replace(relation, pairs)

    async def _replace(self, relation: Relation, pairs: Sequence[tuple[Row, Row]]) -> list[Row]:
        """Replace the old row of each pair by the new one, and carry out ON UPDATE. Returns the new
        rows."""
        placed = await self._put_in_place(relation, pairs)
        await self._actions.follow(relation, placed)
        return [new for _, new in placed]

    async def _put_in_place(self, relation: Relation, pairs: Pairs) -> Pairs:
        """Replace the old row of each pair by the new one, with its generated columns; keys may
        change. Returns the pairs with these rows. Raises the errors of `Constraints.completed`."""
        name, codec = relation.name, self.state.codecs(relation.name)
        completed = self.state.constraints.completed
        placed: list[tuple[Row, Row]] = []
        new_keys: list[Row] = []
        for some in chunks(pairs):
            replaced = [(old, completed(relation, new)) for old, new in some]
            await self._lock_to_replace(relation, replaced)
            for old, new in replaced:
                old_key = codec.key(old)
                if old_key == codec.key(new):
                    self._workspace.write(name, old_key, old, new)
                else:
                    self._workspace.write(name, old_key, old, None)
                    new_keys.append(new)
            placed += replaced
            await turn(some)
        await self.insert_rows(relation, new_keys)  # last: rows of this statement may free the keys
        return placed

    async def _lock_to_replace(self, relation: Relation, pairs: Sequence[tuple[Row, Row]]) -> None:
        """Lock the new roots of rows that move, and the existence of the old and new keys of rows
        whose keys change."""
        name, key = relation.name, self.state.codecs(relation.name).key
        positions = self.state.constraints[name].root_positions
        moved = [pair for pair in pairs if any(pair[0][i] != pair[1][i] for i in positions)]
        if not moved:
            return
        await self._workspace.lock_roots(name, [new for _, new in moved])
        keys = [(key(old), key(new)) for old, new in moved]
        rekeyed = {one for pair in keys if pair[0] != pair[1] for one in pair}
        await self._workspace.lock_existence(name, sorted(rekeyed))

    async def _delete(self, plan: DeletePlan, bound: _Bound) -> list[Row]:
        rows = await self._locate(plan.relation, plan.find, bound)
        await self._actions.delete(plan.relation, rows)
        return rows

    async def _locate(self, relation: Relation, find: ByKey | BySearch, bound: _Bound) -> list[Row]:
        """The rows that match a WHERE, locked, in their newest state."""
        if isinstance(find, BySearch):
            return await self._search(relation, find, bound)
        key = await self._key(find, bound)
        if key is None:
            return []
        rows = await self._workspace.lock_and_read(relation.name, [key])
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
        keys = await gathered(stream, relation.name, budget_of_reads())
        rows = await self._workspace.lock_and_read(relation.name, keys)
        if find.predicate is None:
            await self._require_unchanged(relation, keys)
        return await self._matching(rows, find.predicate, bound)

    async def _require_unchanged(self, relation: Relation, keys: Sequence[Key]) -> None:
        base = await self._base()
        for some in chunks(keys):
            if await self._workspace.reader.get(relation.name, some) != await base.get(
                relation.name, some
            ):
                raise changed_since(relation.name)
            await turn(some)

    async def _base(self) -> Snapshot:
        """The snapshot of this transaction's searches, without the transaction's own changes."""
        if self._searched is None:
            at = await self._snapshot(self._workspace.waited_for())
            self._searched = Snapshot(self._store, self.state.codecs, at)
        return self._searched

    async def _run_query(self, query: Subquery, parameters: Parameters) -> QueryStream:
        reader = await self._search_reader(query.prepared.sources)
        return await query.prepared.run(reader, query.parameters(parameters))

    async def _search_reader(self, sources: Set[str]) -> Snapshot:
        """The snapshot for the WHERE and subqueries of a statement, overlaid with this
        transaction's changes to the relations and views `sources`. Raises TransactionAborted."""
        base = await self._base()
        changed = (name for name, changes in self._workspace.changes.items() if changes)
        if not self.state.programs.sources(changed) & sources:
            return base
        layout = self.state.catalog.layout
        mutations = [
            m for m in await self._workspace.overlay() if layout(m.layout).source in sources
        ]
        await self._require_base(mutations)
        if not self.state.catalog.transactional_view.keys().isdisjoint(sources):
            await self._workspace.require_added(base)
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
                        raise changed_since(layout)
                await turn(some)


def _require_width(given: int, wanted: int, relation: Relation) -> None:
    """Raises SqlError unless a SELECT has the `wanted` number of columns. Checked when it runs:
    only DuckDB knows to how many columns it unnests a struct."""
    if given != wanted:
        raise SqlError(
            f"INSERT INTO {relation.name}: {wanted} columns, the SELECT gives {given}.",
            cure="Name the columns that are written, and give each a value.",
        )


def _row_assigned(plan: InsertPlan, row: Row) -> dict[int, Value]:
    """The values by position that a row of INSERT … SELECT assigns. Raises TypeMismatch."""
    columns = plan.relation.columns
    typed = ((i, columns[i].type, v) for i, v in zip(plan.query_positions, row, strict=True))
    return {i: assigned(value, t) for i, t, value in typed}


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


def _values_of(row: Mapping[int, Value]) -> Iterable[Value]:
    return row.values()


def _written_twice(relation: Relation, key: Key) -> SqlError:
    return SqlError(
        f"ON CONFLICT DO UPDATE would write a row of {relation.name} a second time:"
        f" {shown(relation.primary_key, key)}.",
        cure="Give each row once, or send one statement for each.",
    )


def _targets_key(conflict: Conflict) -> bool:
    return conflict.any_key or conflict.index is None
