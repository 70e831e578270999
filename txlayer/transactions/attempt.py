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
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from itertools import chain
from typing import Any, TypeVar

from hornbeam_server.query.binding.parameters import Misfit
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.counters import Counter
from hornbeam_server.schema.errors import (
    HornbeamError,
    TransactionAborted,
)
from hornbeam_server.schema.model import Relation
from hornbeam_server.schema.sizes import Budget
from hornbeam_server.schema.turns import ROWS_A_TURN, chunks, made, selected, turn
from hornbeam_server.schema.types import Row, Value
from hornbeam_server.storage.ports import NEWEST, TableReader
from hornbeam_server.storage.read_ranges import ReadRange
from hornbeam_server.txlayer.locking.locks import LockOwner, Locks
from hornbeam_server.txlayer.statements.identity_columns import Numbers
from hornbeam_server.txlayer.statements.requests import (
    InsertRows,
    Parameters,
    RepeatedStatement,
    Statement,
    StatementResult,
    Work,
)
from hornbeam_server.txlayer.statements.write_compiler import with_values
from hornbeam_server.txlayer.statements.write_expressions import Scalar
from hornbeam_server.txlayer.statements.write_parameters import bind_parameters
from hornbeam_server.txlayer.statements.write_plans import (
    Assignments,
    ByKey,
    BySearch,
    Conflict,
    DeletePlan,
    InsertPlan,
    MergeDelete,
    MergeInsert,
    MergePlan,
    MergeUpdate,
    RowPlan,
    Step,
    StepsPlan,
    TruncatePlan,
    UpdatePlan,
    ValueQuery,
    WritePlan,
    needs_duckdb,
    row_after,
    value_queries,
)
from hornbeam_server.txlayer.transactions.batches import (
    RUNS_A_TURN,
    batch_positions,
    inserts_at_once,
    numbered,
    sum_of,
    together,
)
from hornbeam_server.txlayer.transactions.bound_statements import Bound, Upsert, Written
from hornbeam_server.txlayer.transactions.byte_limits import (
    budget_of_reads,
    budget_of_returned,
    budget_of_writes,
)
from hornbeam_server.txlayer.transactions.compiled_catalog import CatalogState
from hornbeam_server.txlayer.transactions.constraint_checks import ConstraintChecks
from hornbeam_server.txlayer.transactions.constraint_errors import key_taken
from hornbeam_server.txlayer.transactions.merges import (
    Matched,
    lock_new_rows,
    matched,
    rows_to_delete,
)
from hornbeam_server.txlayer.transactions.new_rows import NewRows, require_width, written_twice
from hornbeam_server.txlayer.transactions.random_uuids import RandomUuids
from hornbeam_server.txlayer.transactions.referential_actions import Pairs, ReferentialActions
from hornbeam_server.txlayer.transactions.searches import Searches
from hornbeam_server.txlayer.transactions.steps import run_steps
from hornbeam_server.txlayer.transactions.stored_rows import StoredRows
from hornbeam_server.txlayer.transactions.value_queries import ValueQueries, named_parameters
from hornbeam_server.txlayer.transactions.workspace import (
    Key,
    Workspace,
    all_keys,
    gathered,
    gathered_by_key,
)

CONFLICTS_A_TURN = 32
"""Maximum rows of an INSERT with ON CONFLICT in one turn: each is looked up by itself."""

T = TypeVar("T")


class Transaction:
    """The working state of one attempt.

    `snapshot` returns the snapshot of its searches (`Searches`), and `ranges` collects what they
    read. Without `locks`, all rows are read at `at`.
    """

    def __init__(
        self,
        state: CatalogState,
        store: TableReader,
        identity: Numbers,
        uuids: RandomUuids,
        now: dt.datetime,
        snapshot: Callable[[int], Awaitable[int]],
        locks: Locks | None,
        owner: LockOwner,
        deadline: float | None = None,
        at: int = NEWEST,
        ranges: list[ReadRange] | None = None,
    ) -> None:
        self.state = state
        self._store = store
        self._identity = identity
        self._loaded: list[tuple[Counter, list[Any]]] = []
        self._now = now
        self._workspace = workspace = Workspace(state, store, locks, owner, deadline, at)
        self._new_searches = partial(Searches, workspace, store, snapshot, ranges)
        self._bound: dict[int, tuple[WritePlan, Bound]] = {}
        """Plans and bound statements by the `id` of the statement, which they keep alive."""
        self._given: dict[int, list[dict[int, Value]]] = {}
        """The rows of VALUES by the `id` of the statement."""
        self._values_budget = budget_of_writes()
        self._returned_budget = budget_of_returned()
        # Operations of the parts are operations of the transaction.
        self._new_rows = NewRows(state, identity, uuids, now)
        checks = ConstraintChecks(workspace, identity)
        self.lock, self.net_changes = workspace.lock, workspace.net_changes
        self.mutations = partial(workspace.mutations, self._new_rows.drawn)
        self.check = checks.check
        self.lock_joined, self.additions = workspace.lock_joined, workspace.additions
        self.overlay = workspace.overlay

    # Most transactions need none of these parts.

    @cached_property
    def _searches(self) -> Searches:
        return self._new_searches()

    @cached_property
    def _actions(self) -> ReferentialActions:
        return ReferentialActions(self._workspace, self._new_rows.default, self._put_in_place)

    @cached_property
    def stored(self) -> StoredRows:
        return StoredRows(self._workspace, self._store)

    async def read_ahead(self, work: Sequence[Work], plans: Sequence[WritePlan | None]) -> None:
        """If the store is remote, read all rows that the statements name by key at once.

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
                        continue  # a repeated INSERT reads its rows part by part
                    for relation, key in await self._named(*await self._bind(plan, one)):
                        if key is not None and None not in key:
                            wanted.setdefault(relation, {})[key] = None
                await turn(some)
        await self._workspace.reader.prefetch({name: list(keys) for name, keys in wanted.items()})

    async def _named(self, plan: WritePlan, bound: Bound) -> list[tuple[str, Key | None]]:
        """The relations and keys of rows that a statement names; for inserted rows, their parents
        too. Empty for an INSERT of many rows, which reads them part by part."""
        match plan:
            case InsertPlan(queries=()):
                values = await self._values(plan, bound, bound.parameters)
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

    async def _bind(
        self, plan: WritePlan, statement: Statement, catalog: Catalog | None = None
    ) -> tuple[WritePlan, Bound]:
        """Bind a statement once. Returns another plan, made under `catalog`, when a value does not
        fit its parameter. Raises SqlError, TypeMismatch."""
        found = self._bound.get(id(statement))
        if found is None:
            given, now = statement.parameters, self._now
            try:
                parameters = bind_parameters(given, plan, now)
            except Misfit:
                catalog, engine = catalog or self.state.catalog, self.state.engine
                plan, left = await engine.read(
                    len(statement.sql), partial(with_values, plan, given, catalog, engine)
                )
                parameters = bind_parameters(left, plan, now)
            found = plan, Bound(statement, parameters, needs_duckdb(plan, parameters))
            self._bound[id(statement)] = found
        return found

    async def _computed(self, bound: Bound, work: Callable[[], T]) -> T:
        """The result of `work`, which evaluates expressions of the statement."""
        return await self.state.engine.evaluate(work) if bound.by_duckdb else work()

    async def _all_computed(
        self, bound: Bound, budget: Budget, items: Callable[[], Iterable[T]]
    ) -> list[T]:
        """All `items()`, as a list. Their iteration evaluates expressions of the statement, and
        takes their sizes from `budget`. DuckDB may have to begin again: then the iteration and the
        budget do, too."""
        if not bound.by_duckdb:
            return await made(items())
        left = budget.left

        def work() -> list[T]:
            budget.left = left
            return list(items())

        return await self.state.engine.evaluate(work)

    async def _values(
        self, plan: InsertPlan, bound: Bound, parameters: Parameters
    ) -> list[dict[int, Value]]:
        """The rows of VALUES, computed once, on the first use."""
        rows = self._given.get(id(bound.statement))
        if rows is None:
            budget = self._values_budget
            rows = self._given[id(bound.statement)] = await self._all_computed(
                bound, budget, lambda: budget.taking(plan.given(parameters), dict.values)
            )
        return rows

    async def _key(self, find: ByKey, bound: Bound) -> Key | None:
        return await self._computed(bound, lambda: find.values(bound.parameters))

    async def run(self, plan: WritePlan, statement: Statement) -> StatementResult:
        self._identity.in_session(statement.session)
        return await self._run(*await self._bind(plan, statement), self._returned_budget)

    async def run_repeated(self, plan: WritePlan, work: RepeatedStatement) -> StatementResult:
        """Run a statement once for each set of parameters, in their order."""
        self._identity.in_session(work.session)
        results: list[StatementResult] = []
        at_once = isinstance(plan, InsertPlan) and inserts_at_once(plan)
        done, whole = 0, len(work.parameter_sets)
        for some in chunks(work.parameter_sets, ROWS_A_TURN if at_once else RUNS_A_TURN):
            with numbered(done, len(some), whole):
                given = together(plan, some, self._now) if at_once else None
                if given is not None:
                    by_duckdb = any(needs_duckdb(plan, each) for each in given)
                    bound = Bound(Statement(work.sql, some[0]), given[0], by_duckdb)
                    results.append(await self._run(plan, bound, self._returned_budget, given[1:]))
                else:
                    for parameters in some:
                        statement = Statement(work.sql, parameters)
                        typed = self.state.typed(work.sql, plan, parameters)
                        results.append(await self.run(typed, statement))
                        del self._bound[id(statement)]  # the next statement may have this id
                        self._given.pop(id(statement), None)
            done += len(some)
            await turn(some, RUNS_A_TURN)
        return sum_of(results)

    async def _run_step(self, step: Step, statement: Statement) -> StatementResult:
        """`run` for a part of a statement. Its rows are the result unless other parts read them."""
        budget = self._returned_budget if step.rows is None else budget_of_reads()
        return await self._run(*await self._bind(step.plan, statement, step.catalog), budget)

    async def _run(
        self, plan: WritePlan, bound: Bound, budget: Budget, others: Sequence[Parameters] = ()
    ) -> StatementResult:
        """Run a bound statement. `others`: see `_insert`; for an INSERT only."""
        match plan:
            case StepsPlan():
                own = self._searches, self._identity, self._run_step
                return await run_steps(plan, bound.parameters, budget, *own)
            case TruncatePlan():
                return StatementResult(await self._truncate(plan))
            case InsertPlan():
                written = await self._insert(plan, bound, others)
            case UpdatePlan():
                written = await self._update(plan, bound)
            case DeletePlan():
                written = await self._delete(plan, bound)
            case MergePlan():
                return StatementResult(await self._merge(plan, bound))
        returning, rows = plan.returning, written.rows
        if returning is None:
            return StatementResult(len(rows))
        given = await written.values.add_all(returning.queries, rows, written.parameters)

        def shown() -> Iterator[Row]:
            pairs = zip(rows, given, strict=True)
            return budget.taking(returning.row(row, each) for row, each in pairs)

        shown_rows = await self._all_computed(bound, budget, shown)
        return StatementResult(len(rows), returning.columns, returning.sql_types, tuple(shown_rows))

    async def insert(self, batch: InsertRows) -> StatementResult:
        """Insert a batch of rows without SQL. Raises the errors of `batch_positions` and of
        `insert_rows`, and TypeMismatch."""
        relation, positions = batch_positions(batch, self.state.catalog.schema)
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
        """Move identity columns behind the numbers in batches that `insert` has inserted: call it
        when nothing can refuse the transaction any more."""
        for counter, numbers in self._loaded:
            await self._identity.move_past(counter, numbers)

    async def _insert(
        self, plan: InsertPlan, bound: Bound, others: Sequence[Parameters]
    ) -> Written:
        """Insert the rows of a statement, and those of its runs with `others`, if `inserts_at_once`
        holds."""
        relation = plan.relation
        values = await self._value_queries(plan)
        if others:
            runs, budget = (bound.parameters, *others), self._values_budget

            def rows_given() -> Iterator[dict[int, Value]]:
                return budget.taking(chain.from_iterable(map(plan.given, runs)), dict.values)

            given = await self._all_computed(bound, budget, rows_given)
        else:
            parameters = await values.add(plan.queries, (), bound.parameters)
            given = [*await self._values(plan, bound, parameters)]
        if plan.query is not None:
            stream = await self._searches.run(plan.query, bound.parameters)
            rows_found = await gathered(stream, relation.name, budget_of_writes())
            if plan.outputs is None:
                require_width(len(stream.columns), len(plan.query_positions), relation)
            else:
                rows_found = await plan.outputs.rows(rows_found, self._identity, self.state.engine)
            given += await made(plan.selected(row) for row in rows_found)
        rows = await self._new_rows.complete_each(relation, given)
        upsert = None if plan.conflict is None else Upsert(plan.conflict, bound, values)
        written = await self.insert_rows(relation, rows, upsert)
        if others and plan.conflict is None:
            own = [each for each in (bound.parameters, *others) for _ in plan.rows]
            return Written(written, own, values)
        return Written(written, [bound.parameters] * len(written), values)

    async def _value_queries(self, plan: RowPlan) -> ValueQueries:
        """The value queries of a statement, made before its first change: they read that state."""
        queries = [each for each in value_queries(plan) if isinstance(each, ValueQuery)]
        if not queries:
            return ValueQueries(None, self._identity)
        sources = frozenset[str]().union(*(each.query.prepared.sources for each in queries))
        return ValueQueries(await self._searches.reader(sources), self._identity)

    async def insert_rows(
        self,
        relation: Relation,
        rows: Sequence[Row],
        upsert: Upsert | None = None,
    ) -> list[Row]:
        """Insert complete rows, set-at-a-time. Returns the inserted and updated rows.

        Raises UniqueViolation, LimitExceeded, BeingLoaded, TransactionAborted, StatementTimeout,
        and SqlError if ON CONFLICT DO UPDATE would update a row that the statement has written.
        """
        written: list[Row] = []
        written_keys: set[bytes] = set()
        most = ROWS_A_TURN if upsert is None else CONFLICTS_A_TURN
        for some in chunks(rows, most):
            written += await self._insert_some(relation, some, upsert, written_keys)
            await turn(some, most)
        return written

    async def _insert_some(
        self,
        relation: Relation,
        rows: Sequence[Row],
        upsert: Upsert | None,
        written_keys: set[bytes],
    ) -> list[Row]:
        """Insert a part of the rows. Adds their keys to `written_keys`, the keys of all rows that
        the statement has written so far."""
        name, codec = relation.name, self.state.codecs(relation.name)
        await self._workspace.lock_roots(name, rows)
        keys = [codec.key(row) for row in rows]
        await self._workspace.lock_existence(name, keys)
        existing = await self._workspace.rows_of_keys(
            name, [codec.key_values(r) for r in rows], keys
        )
        written: list[Row] = []
        mine = self._workspace.changes.setdefault(name, {})
        for row, key, stored in zip(rows, keys, existing, strict=True):
            change = mine.get(key)
            before = change.new if change is not None else stored
            holder = None
            if upsert is not None:
                holder = await self._conflicting(relation, upsert.conflict, row, before)
            if holder is None and before is None:
                self._workspace.write(name, key, None, row)
                written.append(row)
                written_keys.add(key)
            elif holder is None or upsert is None:
                raise key_taken(self.state.catalog, self._identity, relation, codec.key_values(row))
            elif upsert.conflict.assignments:
                if codec.key(holder) in written_keys:
                    raise written_twice(relation, codec.key_values(holder))
                updated = await self._update_conflicting(relation, upsert, holder, row)
                written += updated
                written_keys.update(map(codec.key, updated))
        return written

    async def _conflicting(
        self, relation: Relation, conflict: Conflict, row: Row, same_key: Row | None
    ) -> Row | None:
        """The existing row that is in conflict with `row`, by the target of ON CONFLICT; None if
        there is none. `same_key` is the existing row with the primary key of `row`."""
        if same_key is not None and (conflict.target.any or conflict.target.key):
            return same_key
        for check in self.state.constraints[relation.name].unique:
            if not conflict.target.has(check.index):
                continue
            values = check.values(row)
            if values is None:
                continue
            await self._workspace.lock_unique(check, [values])
            (holder,) = await self._workspace.holders(relation.name, check, [values])
            if holder is not None:
                return holder
        return None

    async def _update_conflicting(
        self, relation: Relation, upsert: Upsert, held: Row, proposed: Row
    ) -> list[Row]:
        conflict, bound, values = upsert.conflict, upsert.bound, upsert.values
        key = self.state.codecs(relation.name).key_values(held)
        (row,) = await self._workspace.lock_and_read(relation.name, [key])
        if row is None:
            raise TransactionAborted("The conflicting row was deleted meanwhile.")
        if values.any:
            await self._searches.require_unchanged(relation.name, [key])
        both, where = row + proposed, conflict.where
        if where is not None:
            given = await values.add(conflict.where_queries, both, bound.parameters)
            if not await self._computed(bound, lambda: where(both, given)):
                return []
        given = await values.add(conflict.queries, both, bound.parameters)
        new = await self._computed(bound, lambda: row_after(conflict.assignments, row, both, given))
        new = await self._new_rows.defaulted(relation, conflict.assignments, new)
        return await self._replace(relation, [(row, new)])

    async def _update(self, plan: UpdatePlan, bound: Bound) -> Written:
        rows, values, given = await self._found(plan, bound)
        computed = await values.add_all(plan.queries, rows, given)
        pairs = await self._changed(plan.relation, plan.assignments, rows, computed, bound)
        return Written(await self._replace(plan.relation, pairs), given, values)

    async def _changed(
        self,
        relation: Relation,
        assignments: Assignments,
        rows: Sequence[Row],
        given: Sequence[Parameters],
        bound: Bound,
    ) -> list[tuple[Row, Row]]:
        """Each row with the new row that SET makes of it, given the parameters for each."""
        budget = budget_of_writes()

        def after() -> Iterator[Row]:
            pairs = zip(rows, given, strict=True)
            return budget.taking(row_after(assignments, r, r, p) for r, p in pairs)

        changed = await self._all_computed(bound, budget, after)
        pairs: list[tuple[Row, Row]] = []
        for some in chunks(list(zip(rows, changed, strict=True))):
            pairs += [
                (row, await self._new_rows.defaulted(relation, assignments, new))
                for row, new in some
            ]
            await turn(some)
        return pairs

    async def _found(
        self, plan: UpdatePlan | DeletePlan, bound: Bound
    ) -> tuple[list[Row], ValueQueries, list[Parameters]]:
        """The rows that a WHERE matches, locked, in their newest state; the value queries of the
        statement; and the parameters for each row."""
        relation, find = plan.relation, plan.find
        if isinstance(find, BySearch):
            rows, given = await self._search(relation, find, bound)
        else:
            rows, given = await self._locate(relation.name, find, bound), []
        values = await self._value_queries(plan)
        if values.any:
            key = self.state.codecs(relation.name).key_values
            await self._searches.require_unchanged(relation.name, await made(map(key, rows)))
        return rows, values, given or [bound.parameters] * len(rows)

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

    async def _delete(self, plan: DeletePlan, bound: Bound) -> Written:
        rows, values, given = await self._found(plan, bound)
        await self._actions.delete(plan.relation, rows)
        return Written(rows, given, values)

    async def _merge(self, plan: MergePlan, bound: Bound) -> int:
        """Carry out a MERGE; return the number of rows written. All new rows are computed before
        the first change. Rows are updated before others are deleted, so that ON DELETE follows from
        the new rows; rows are inserted last, for their keys may be freed."""
        relation, name = plan.relation, plan.relation.name
        values = await self._value_queries(plan)
        stream = await self._searches.run(plan.query, bound.parameters)
        found = await matched(plan, stream, bound.parameters, budget_of_reads())
        changing = [
            key
            for action, pairs in zip(plan.actions, found, strict=True)
            for key in pairs.keys
            if not isinstance(action, MergeInsert)
        ]
        locked = await self._workspace.lock_and_read(name, changing)
        await self._searches.require_unchanged(name, changing)
        rows = {key: row for key, row in zip(changing, locked, strict=True) if row is not None}
        replaced: list[tuple[Row, Row]] = []
        deleted: list[Key] = []
        inserted: list[Row] = []
        for action, pairs in zip(plan.actions, found, strict=True):
            match action:
                case MergeUpdate(assignments=assignments, queries=queries):
                    old = [rows[key] for key in pairs.keys]
                    given = await values.add_all(queries, old, pairs.parameters)
                    replaced += await self._changed(relation, assignments, old, given, bound)
                case MergeDelete():
                    deleted += pairs.keys
                case MergeInsert():
                    inserted += await self._merged_rows(relation, action, pairs, values, bound)
        await self._replace(relation, replaced)
        await self._actions.delete(
            relation, await rows_to_delete(relation, deleted, self._workspace)
        )
        await lock_new_rows(relation, inserted, self._workspace, self._searches)
        await self.insert_rows(relation, inserted)
        return len(replaced) + len(deleted) + len(inserted)

    async def _merged_rows(
        self,
        relation: Relation,
        action: MergeInsert,
        pairs: Matched,
        values: ValueQueries,
        bound: Bound,
    ) -> list[Row]:
        """The new rows of WHEN NOT MATCHED THEN INSERT."""
        nothing: list[Row] = [()] * len(pairs.keys)
        given = await values.add_all(action.queries, nothing, pairs.parameters)
        budget = budget_of_writes()
        computed = await self._all_computed(
            bound, budget, lambda: budget.taking(map(action.given, given), dict.values)
        )
        return await self._new_rows.complete_each(relation, computed)

    async def _truncate(self, plan: TruncatePlan) -> int:
        """Delete all rows of the relations. None is left that references one of them."""
        count = 0
        for relation, search in plan.relations:
            stream = await self._searches.run(search, ())
            keys = await all_keys(stream, relation.name, self.state.catalog.schema.spaces)
            found = await self._workspace.lock_and_read(relation.name, keys)
            rows = [row for row in found if row is not None]
            await self._actions.delete_level(relation.name, rows)
            count += len(rows)
        return count

    async def _locate(self, relation: str, find: ByKey, bound: Bound) -> list[Row]:
        key = await self._key(find, bound)
        if key is None:
            return []
        rows = await self._workspace.lock_and_read(relation, [key])
        return await self._matching(rows, find.residual, bound)

    async def _matching(
        self, rows: Sequence[Row | None], predicate: Scalar | None, bound: Bound
    ) -> list[Row]:
        present = [row for row in rows if row is not None]
        if predicate is None or not present:
            return present

        def wanted(row: Row) -> object:
            return predicate(row, bound.parameters)

        if bound.by_duckdb:
            return await self.state.engine.evaluate(lambda: list(filter(wanted, present)))
        return await selected(present, wanted)

    async def _search(
        self, relation: Relation, find: BySearch, bound: Bound
    ) -> tuple[list[Row], list[Parameters]]:
        """The rows that a search finds, and the parameters for each row if the search gives some of
        their values."""
        stream = await self._searches.run(find.query, bound.parameters)
        name, width = relation.name, len(relation.primary_key)
        found = await gathered_by_key(stream, width, name, budget_of_reads())
        keys = list(found)
        rows = await self._workspace.lock_and_read(name, keys)
        if find.predicate is not None:
            return await self._matching(rows, find.predicate, bound), []
        await self._searches.require_unchanged(name, keys)
        given: list[Parameters] = []
        if find.names:
            named = named_parameters(bound.parameters)
            for some in chunks(list(zip(rows, found.values(), strict=True))):
                present = (values for row, values in some if row is not None)
                given += [{**named, **dict(zip(find.names, v, strict=True))} for v in present]
                await turn(some)
        return [row for row in rows if row is not None], given
