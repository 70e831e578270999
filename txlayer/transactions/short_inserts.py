"""Short inserts: a transaction that is one INSERT of one row runs in a straight line.

Such a transaction meets no change of its own and has no old rows, so it needs no workspace. Its
locks, reads and stored rows are compiled once per relation. It takes the steps of `Transaction` one
after the other: locks, reads under the locks, checks, stored rows. That path stays the reference: a
short insert stores the same bytes under the same locks, and raises the same errors
(tests/txlayer/test_short_inserts.py). An INSERT that needs more takes the other path from its
beginning (`short_insert`). Many rows take the same steps in `batch_inserts.py`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

from hornbeam_server.maintain.inserts import InsertProgram, StoredRow, compile_insert
from hornbeam_server.maintain.programs import Programs
from hornbeam_server.query.binding.parameters import Misfit
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import HornbeamError
from hornbeam_server.schema.model import Relation
from hornbeam_server.schema.rows import Projection, has_null, projection
from hornbeam_server.schema.sequences import differs_by_row
from hornbeam_server.schema.sizes import bytes_of
from hornbeam_server.schema.types import Row, Value
from hornbeam_server.storage.codec.rows import Codecs, LayoutCodec
from hornbeam_server.storage.ports import NEWEST, TableReader
from hornbeam_server.storage.together import read_together
from hornbeam_server.txlayer.locking.locks import LockName, LockOwner, Locks, Mode, take_all
from hornbeam_server.txlayer.statements.identity_columns import Numbers
from hornbeam_server.txlayer.statements.requests import (
    InsertRows,
    Parameters,
    RepeatedStatement,
    Statement,
    StatementResult,
    Work,
)
from hornbeam_server.txlayer.statements.write_parameters import bind_parameters
from hornbeam_server.txlayer.statements.write_plans import (
    Conflict,
    Defaulted,
    InsertPlan,
    Returning,
    WritePlan,
)
from hornbeam_server.txlayer.transactions.byte_limits import (
    budget_of_reads,
    budget_of_returned,
    budget_of_stored,
    budget_of_writes,
)
from hornbeam_server.txlayer.transactions.constraint_errors import (
    key_taken,
    parent_missing,
    values_taken,
)
from hornbeam_server.txlayer.transactions.constraints import Constraints, RelationChecks
from hornbeam_server.txlayer.transactions.outcomes import Outcome

LARGE = 1 << 20
"""Fewer bytes are within all limits of a transaction."""
Complete = Callable[[Relation, Mapping[int, Value]], Awaitable[Row]]
"""`NewRows.complete`."""
FindOutcome = Callable[[], Awaitable[Outcome | None]]
"""Finds the outcome of an earlier commit of the request."""


class Held(NamedTuple):
    """An attempt of a transaction: what it reads, and the locks that it takes."""

    store: TableReader
    locks: Locks
    owner: LockOwner
    deadline: float
    numbers: Numbers

    async def take(self, names: Sequence[LockName], mode: Mode) -> None:
        """Take locks. Does not suspend while they are free and in this process. Raises
        TransactionAborted, StatementTimeout."""
        await take_all(self.locks, self.owner, names, mode, self.deadline)


class HasShortInserts(Protocol):
    """The part of `CatalogState` that finds short inserts."""

    catalog: Catalog

    @property
    def short_insert(self) -> Callable[[str], ShortInsert | None]: ...


class Inserted(NamedTuple):
    """The result of a statement, and all rows that it stores."""

    result: StatementResult
    stored: Sequence[StoredRow]


class Met(NamedTuple):
    """The row with the key of an inserted row is there already: what ON CONFLICT needs. `proposed`
    is the row that the statement gives."""

    key: bytes
    proposed: Row
    parameters: Parameters


class _Read(NamedTuple):
    """`exists`: a row has the key already. `found`: the rows at the places of the program."""

    exists: bool
    found: Sequence[Row | None]


@dataclass(frozen=True, slots=True)
class ShortInsert:
    """Inserts one row into `relation`, under one version of the catalog."""

    catalog: Catalog
    relation: Relation
    program: InsertProgram
    checks: RelationChecks
    codec: LayoutCodec
    entries: tuple[LayoutCodec, ...]
    """The codecs of the unique indexes."""
    required: Projection
    """The columns that must not be NULL."""
    completed: Callable[[Relation, Row], Row]
    """`Constraints.completed`."""
    nothing: tuple[None, ...]
    """No rows at the places of the program."""

    async def run(
        self,
        plan: InsertPlan,
        statement: Statement,
        now: dt.datetime,
        complete: Complete,
        held: Held,
        outcome: FindOutcome | None,
    ) -> Inserted | Met | Outcome | None:
        """Run a statement that inserts one row (`short_insert`); `complete` makes whole rows. None
        if its parameters need another plan; `Met` if ON CONFLICT decides. `outcome` finds the
        outcome of an earlier commit of the request, which is returned if there is one. Raises the
        errors of `Transaction.run` and `ConstraintChecks.check`."""
        try:
            parameters = bind_parameters(statement.parameters, plan, now)
            row = await self._row(plan, parameters, complete)
        except Misfit:
            return None
        except HornbeamError:
            recorded = None if outcome is None else await outcome()
            if recorded is not None:
                return recorded
            raise
        key = self.codec.key(row)
        meets = plan.conflict is not None
        read = await self._read_under_locks(row, key, held, outcome, meets=meets)
        if isinstance(read, Outcome):
            return read
        if read.exists:
            if meets:
                return Met(key, row, parameters)
            values = self.codec.key_values(row)
            raise key_taken(self.catalog, held.numbers, self.relation, values)
        result = result_of(plan.returning, row, parameters)
        await self._require_constraints(row, key, read.found, held)
        stored = self.program.stored(key, read.found)
        if sum([len(each.put.value) for each in stored]) > LARGE:
            budget_of_writes().take(self.codec.long_bytes(row))
            budget_of_stored().take(sum([e.target.long_bytes_of([e.row]) for e in stored]))
        return Inserted(result, stored)

    async def _require_constraints(
        self, row: Row, key: bytes, found: Sequence[Row | None], held: Held
    ) -> None:
        """Check foreign keys and UNIQUE. Raises ForeignKeyViolation, UniqueViolation."""
        for place, parent in enumerate(self.checks.parents, start=1):
            if found[place] is None and None not in (reference := parent.values(row)):
                raise parent_missing(self.relation.name, parent.foreign_key, reference)
        for check, codec in zip(self.checks.unique, self.entries, strict=True):
            values = check.values(row)
            if values is None:
                continue
            prefix = codec.prefix(values)
            (cells,) = await held.store.scan_prefixes(codec.layout.table, [prefix], NEWEST)
            holders = (check.holder_key(codec.decode(cell.value)) for cell in cells)
            if any(self.codec.key_of(holder) != key for holder in holders):
                name = self.relation.name
                raise values_taken(self.catalog, held.numbers, name, check, values)

    async def _row(self, plan: InsertPlan, parameters: Parameters, complete: Complete) -> Row:
        """The whole row. Raises the errors of `NewRows.complete`."""
        if plan.whole_row is None or not isinstance(parameters, tuple):
            (given,) = plan.given(parameters)
            return await complete(self.relation, given)
        row = plan.whole_row(parameters)
        if self.checks.computes or has_null(self.required(row)):
            return self.completed(self.relation, row)
        return row

    async def _read_under_locks(
        self, row: Row, key: bytes, held: Held, outcome: FindOutcome | None, *, meets: bool
    ) -> _Read | Outcome:
        """Take all locks, and read under them. Returns the outcome if there is one. `meets`: if the
        row exists, it is met, and what its constraints need is not locked.

        If the root is found by reading rows, they are read before the locks; so are all rows if an
        outcome is read, together with it, or if the row may be met. They are current unless a new
        lock was released since then (docs/protocols/locks.md).
        """
        if outcome is None and len(self.program.tree) < 2 and not meets:
            await self._lock(row, key, self.nothing, held)
            return await self._read(row, key, held)
        known: set[LockName] = set()
        while True:
            since = held.locks.known_releases()
            reads: list[Callable[[], Awaitable[Any]]] = [partial(self._read, row, key, held)]
            if outcome is not None and not known:
                reads.append(outcome)
            read: _Read
            recorded: list[Outcome | None]
            read, *recorded = await read_together(held.store, reads)
            if recorded and recorded[0] is not None:
                return recorded[0]
            met = meets and read.exists
            names = await self._lock(row, key, read.found, held, met=met)
            new = [name for name in names if name not in known]
            if not new or held.locks.undisturbed(held.owner, new, since):
                return read
            known.update(new)

    async def _lock(
        self, row: Row, key: bytes, found: Sequence[Row | None], held: Held, *, met: bool = False
    ) -> list[LockName]:
        """Take the locks of the transaction, and return them; if the row is `met`, those of its
        root and key."""
        exclusive = [self.root(row, key, found), ("row", self.relation.name, key)]
        if met:
            await held.take(exclusive, Mode.EXCLUSIVE)
            return exclusive
        for check, codec in zip(self.checks.unique, self.entries, strict=True):
            values = check.values(row)
            if values is not None:
                exclusive.append(("unique", check.index.name, codec.prefix(values)))
        shared: list[LockName] = []
        for ancestor, parent in zip(self.program.ancestors, self.checks.parents, strict=False):
            if not parent.same_root and None not in ancestor.reference(row):
                shared.append(("row", ancestor.foreign_key.parent, ancestor.key(row)))
        await held.take(exclusive, Mode.EXCLUSIVE)
        await held.take(shared, Mode.SHARED)
        return exclusive + shared

    def root(self, row: Row, key: bytes, found: Sequence[Row | None]) -> LockName:
        """The lock of the root above the row. The way ends at a row that references none, or at the
        key of a missing row (roots.py)."""
        name, below = self.relation.name, row
        for place in self.program.tree:
            ancestor = self.program.ancestors[place - 1]
            if None in ancestor.reference(below):
                break
            name, key = ancestor.foreign_key.parent, ancestor.key(below)
            above = found[place]
            if above is None:
                break
            below = above
        return "root", name, key

    async def _read(self, row: Row, key: bytes, held: Held) -> _Read:
        """Read the rows at the places of the program, those of a level together. Raises
        LimitExceeded."""
        store, ancestors = held.store, self.program.ancestors
        found: list[Row | None] = [row, *[None] * len(ancestors)]
        reads = [partial(store.get, self.codec.layout.table, [key], NEWEST)]
        at, size, exists = [0], 0, False
        for places in self.program.levels or ((),):
            for place in places:
                ancestor = ancestors[place - 1]
                below = found[ancestor.below]
                if below is not None and None not in ancestor.reference(below):
                    encoded = [ancestor.key(below)]
                    reads.append(partial(store.get, ancestor.table, encoded, NEWEST))
                    at.append(place)
            for place, (cell,) in zip(at, await read_together(store, reads), strict=True):
                if cell is None:
                    continue
                size += len(cell.value)
                if place:
                    found[place] = ancestors[place - 1].decode(cell.value)
                else:
                    exists = True
            reads, at = [], []
        if size > LARGE:
            budget_of_reads().take(size)
        return _Read(exists, found)


def result_of(
    returning: Returning | None, row: Row | None, parameters: Parameters
) -> StatementResult:
    """The result of a statement that has written `row`; None: it has written nothing. Raises
    LimitExceeded, and the errors of RETURNING."""
    affected = 0 if row is None else 1
    if returning is None:
        return StatementResult(affected)
    shown = () if row is None else (returning.row(row, parameters),)
    for each in shown:
        budget_of_returned().take(bytes_of(each))
    return StatementResult(affected, returning.columns, returning.sql_types, shown)


def compile_short_insert(
    catalog: Catalog, codecs: Codecs, programs: Programs, constraints: Constraints, name: str
) -> ShortInsert | None:
    """How a row is inserted into relation `name`; None if the general path inserts it. Raises
    SqlError (`Constraints`)."""
    program = None if name in catalog.frozen else compile_insert(catalog, codecs, programs, name)
    if program is None:
        return None
    checks = constraints[name]
    entries = tuple(codecs(check.index.name) for check in checks.unique)
    relation, nothing = catalog.schema.relation(name), (None,) * (len(program.ancestors) + 1)
    return ShortInsert(
        catalog,
        relation,
        program,
        checks,
        codecs(name),
        entries,
        projection(checks.not_null),
        constraints.completed,
        nothing,
    )


def short_insert(state: HasShortInserts, work: Work, plan: WritePlan | None) -> ShortInsert | None:
    """How a transaction inserts that only inserts rows into one relation, with values that our own
    loops compute without queries. None for any other transaction."""
    if isinstance(work, InsertRows):
        known = work.rows and work.relation in state.catalog.schema
        return state.short_insert(work.relation) if known else None
    if (
        not isinstance(plan, InsertPlan)
        or plan.query is not None
        or plan.queries
        or plan.by_values
        or (isinstance(work, RepeatedStatement) and not work.parameter_sets)
        or (plan.returning is not None and not _returns_one(plan, work))
    ):
        return None
    found = state.short_insert(plan.relation.name)
    if found is not None and plan.conflict is not None:
        return found if _key_decides(plan, plan.conflict, work, found.checks) else None
    return found


def _returns_one(plan: InsertPlan, work: Work) -> bool:
    """Is there one row, for which RETURNING has no queries?"""
    one = isinstance(work, Statement) and len(plan.rows) == 1
    return one and plan.returning is not None and not plan.returning.queries


def _key_decides(plan: InsertPlan, conflict: Conflict, work: Work, checks: RelationChecks) -> bool:
    """Is there one row, for which only its key decides whether it is in conflict, and an update
    that takes no query and no default? The row must be the same if it is computed again."""
    target, given = conflict.target, {each.position for each in plan.rows[0]}
    return (
        isinstance(work, Statement)
        and len(plan.rows) == 1
        and (target.key or target.any)
        and not any(target.has(check.index) for check in checks.unique)
        and not (conflict.queries or conflict.where_queries)
        and Defaulted not in map(type, conflict.assignments)
        and not any(i not in given and differs_by_row(column) for i, column in checks.defaults)
    )
