"""Short writes: a transaction that is one UPDATE or DELETE of the row with a key runs in a straight
line.

Such a transaction meets no change of its own, so it needs no workspace. It reads the row and its
rows of views, locks the root, and computes what is stored. This covers an UPDATE after which the
row has the same key, references the same rows and has the same UNIQUE values, and a DELETE of a row
that no row references. Any other statement takes the general path from its beginning: until the
end nothing but locks has been taken, and that path takes them, too.

`Transaction` stays the reference: a short write stores the same bytes under the same locks, and
raises the same errors (tests/txlayer/test_short_writes.py).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

from hornbeam_server.maintain.changes import Change, Mutation
from hornbeam_server.maintain.inserts import Ancestor, way_to_root
from hornbeam_server.maintain.programs import Programs
from hornbeam_server.maintain.row_changes import RowProgram, compile_row_program, may_change
from hornbeam_server.query.binding.parameters import Misfit
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import HornbeamError
from hornbeam_server.schema.model import Relation
from hornbeam_server.schema.rows import Projection, has_null, projection
from hornbeam_server.schema.types import Row, Value
from hornbeam_server.storage.codec.rows import Codecs, LayoutCodec
from hornbeam_server.storage.ports import NEWEST, Cell, TableReader
from hornbeam_server.storage.snapshot import Snapshot
from hornbeam_server.storage.together import read_together
from hornbeam_server.txlayer.locking.locks import LockName, Mode
from hornbeam_server.txlayer.statements.requests import (
    Parameters,
    Statement,
    StatementResult,
)
from hornbeam_server.txlayer.statements.write_parameters import bind_parameters
from hornbeam_server.txlayer.statements.write_plans import (
    Assignments,
    ByKey,
    Conflict,
    Defaulted,
    DeletePlan,
    InsertPlan,
    Returning,
    UpdatePlan,
    row_after,
)
from hornbeam_server.txlayer.transactions.byte_limits import budget_of_reads, require_moderate
from hornbeam_server.txlayer.transactions.constraints import (
    Constraints,
    UniqueCheck,
)
from hornbeam_server.txlayer.transactions.outcomes import Outcome
from hornbeam_server.txlayer.transactions.short_inserts import (
    LARGE,
    FindOutcome,
    Held,
    Met,
    result_of,
)

_position = attrgetter("position")
KeyPlan = UpdatePlan | DeletePlan
"""A plan whose WHERE fixes the whole primary key (`ByKey`)."""


class Changed(NamedTuple):
    """The result of a statement, the change of its row, if there is one, and all rows that change
    with it."""

    result: StatementResult
    changes: Sequence[Change] = ()
    mutations: Sequence[Mutation] = ()


class FoundRow(NamedTuple):
    """The row with a key, under the lock of its root, and its stored rows of the program's views.
    `row` None: there is no such row, and it stays absent."""

    key: bytes
    row: Row | None
    in_views: Sequence[Sequence[Cell | None]]
    """For each view, its row alone."""


@dataclass(frozen=True, slots=True)
class Child:
    """Finds the rows that reference a row, by a prefix of `table`."""

    table: str
    values: Projection
    prefix: Callable[[Sequence[Value]], bytes]


@dataclass(frozen=True, slots=True)
class ShortWrite:
    """Updates or deletes a row of `relation`, under one version of the catalog."""

    codecs: Codecs
    programs: Programs
    relation: Relation
    codec: LayoutCodec
    key: Callable[[Row], bytes]
    """Encodes the values of a key."""
    program: RowProgram
    tables: tuple[str, ...]
    """The physical tables of the relation and of the views of the program."""
    way: tuple[Ancestor, ...]
    """From the row to its root."""
    computes: bool
    """`RelationChecks.computes`."""
    completed: Callable[[Relation, Row], Row]
    """`Constraints.completed`."""
    required: Projection
    """The columns that must not be NULL."""
    kept: Projection | None
    """Those columns of an update that must keep their values: columns of the key, of foreign keys,
    and columns that other rows reference."""
    unique: tuple[tuple[UniqueCheck, LayoutCodec], ...]
    """The UNIQUE values that an update may change, or that a deletion frees."""
    children: tuple[Child, ...]

    async def run(
        self,
        plan: KeyPlan,
        statement: Statement,
        now: dt.datetime,
        held: Held,
        outcome: FindOutcome | None,
    ) -> Changed | Outcome | None:
        """Run a statement (`short_write`). None if it needs the general path. `outcome` finds the
        outcome of an earlier commit of the request, which is returned if there is one. Raises the
        errors of `Transaction.run` and `ConstraintChecks.check`."""
        assert isinstance(plan.find, ByKey), "as `short_write` says"
        try:
            parameters = bind_parameters(statement.parameters, plan, now)
            values = plan.find.values(parameters)
        except (Misfit, HornbeamError):
            return None
        if values is None:
            return None
        found = await self.found(self.key(values), held, outcome)
        if isinstance(found, Outcome):
            return found
        row, residual = found.row, plan.find.residual
        if row is None or (residual is not None and not residual(row, parameters)):
            return Changed(result_of(plan.returning, None, parameters))
        if isinstance(plan, DeletePlan):
            return await self._deleted(found, row, plan.returning, parameters, held)
        new = row_after(plan.assignments, row, row, parameters)
        return await self.replaced(found, row, new, plan.returning, parameters, held)

    async def met(
        self, plan: InsertPlan, conflict: Conflict, met: Met, held: Held
    ) -> Changed | None:
        """Carry out DO UPDATE on the row that an INSERT has met. None if it needs the general
        path."""
        found, parameters = await self.found(met.key, held, None), met.parameters
        if isinstance(found, Outcome) or found.row is None:
            return None
        both = found.row + met.proposed
        if conflict.where is not None and not conflict.where(both, parameters):
            return Changed(result_of(plan.returning, None, parameters))
        new = row_after(conflict.assignments, found.row, both, parameters)
        return await self.replaced(found, found.row, new, plan.returning, parameters, held)

    async def found(
        self, key: bytes, held: Held, outcome: FindOutcome | None
    ) -> FoundRow | Outcome:
        """The row with a key under the lock of its root, or the outcome if there is one.

        The rows are read before the lock, the outcome together with them. They are current unless
        a new lock was released since then (docs/protocols/locks.md).
        """
        locks, store = held.locks, held.store
        known: set[LockName] = set()
        while True:
            since = locks.known_releases()
            reads: list[Callable[[], Awaitable[Any]]] = [
                partial(store.get, table, [key], NEWEST) for table in self.tables
            ]
            if outcome is not None and not known:
                reads.append(outcome)
            read = await read_together(store, reads)
            if len(read) > len(self.tables) and (recorded := read.pop()) is not None:
                earlier: Outcome = recorded
                return earlier
            (own,), *others = read
            row = None if own is None else self.codec.decode(own.value)
            name: LockName = ("row", self.relation.name, key)
            if row is not None:
                name = await self._root(row, key, store)
            await held.take([name], Mode.SHARED if row is None else Mode.EXCLUSIVE)
            if name in known or locks.undisturbed(held.owner, [name], since):
                return FoundRow(key, row, others)
            known.add(name)

    async def _root(self, row: Row, key: bytes, store: TableReader) -> LockName:
        """The lock of the root above the row. The way ends at a row that references none, or at the
        key of a missing row (roots.py)."""
        name, last = self.relation.name, len(self.way)
        for number, ancestor in enumerate(self.way, start=1):
            if None in ancestor.reference(row):
                break
            name, key = ancestor.foreign_key.parent, ancestor.key(row)
            if number == last:
                break
            (cell,) = await store.get(ancestor.table, [key], NEWEST)
            if cell is None:
                break
            row = ancestor.decode(cell.value)
        return "root", name, key

    async def replaced(
        self,
        found: FoundRow,
        old: Row,
        new: Row,
        returning: Returning | None,
        parameters: Parameters,
        held: Held,
    ) -> Changed | None:
        """Replace the row `old` by `new`, which has no generated values yet. None if that needs the
        general path."""
        if self.computes or has_null(self.required(new)):
            new = self.completed(self.relation, new)
        if self.kept is not None and self.kept(old) != self.kept(new):
            return None
        result = result_of(returning, new, parameters)
        for check, _ in self.unique:
            if check.values(old) != check.values(new):
                return None
        return await self._changed(found, Change(self.relation.name, old, new), result, held)

    async def _deleted(
        self,
        found: FoundRow,
        row: Row,
        returning: Returning | None,
        parameters: Parameters,
        held: Held,
    ) -> Changed | None:
        """Delete the row. None if that needs the general path."""
        await held.take([("row", self.relation.name, found.key)], Mode.EXCLUSIVE)
        for child in self.children:
            prefixes = [child.prefix(child.values(row))]
            # Without room for a row, only the absence of all rows is an answer.
            if await held.store.scan_prefixes(child.table, prefixes, NEWEST, room=1) != [[]]:
                return None
        result = result_of(returning, row, parameters)
        for check, codec in self.unique:
            values = check.values(row)
            if values is not None:
                name = ("unique", check.index.name, codec.prefix(values))
                await held.take([name], Mode.EXCLUSIVE)
        return await self._changed(found, Change(self.relation.name, row, None), result, held)

    async def _changed(
        self, found: FoundRow, change: Change, result: StatementResult, held: Held
    ) -> Changed | None:
        """All rows that change with the row. None if they may be too large, or if a view lacks a
        row. Raises LimitExceeded."""
        _, old, new = change
        assert old is not None, "the row was found"
        size = self.codec.long_bytes(old if new is None else new)
        in_views: list[Row | None] = []
        for view, (cell,) in zip(self.program.views, found.in_views, strict=True):
            in_views.append(None if cell is None else view.decode(cell.value))
            size += 0 if cell is None else len(cell.value)
        if size > LARGE:
            return None
        if not self.program.searches:
            computed = self.program.mutations(old, new, in_views)
        else:
            reader = Snapshot(held.store, self.codecs, NEWEST, budget=budget_of_reads())
            remote = held.store.remote
            computed = await self.programs.mutations([change], reader, remote=remote)
            await require_moderate(computed, self.codecs)
        if computed is None:
            return None
        return Changed(result, [change], computed) if computed else Changed(result)


def compile_short_write(
    catalog: Catalog,
    codecs: Codecs,
    programs: Programs,
    constraints: Constraints,
    name: str,
    assigned: tuple[int, ...] | None = None,
) -> ShortWrite | None:
    """How a row of relation `name` is updated at the positions `assigned`; None: deleted. Returns
    None if the general path does it. Raises SqlError (`Constraints`)."""
    if name in catalog.frozen:
        return None
    relation, checks, codec = catalog.schema.relation(name), constraints[name], codecs(name)
    changed = None if assigned is None else {*assigned, *(c.position for c in checks.generated)}
    names = None if changed is None else {relation.column_names[i] for i in changed}
    program = compile_row_program(catalog, codecs, programs, name, names)
    if program is None:
        return None
    kept = [relation.positions[n] for n in _kept(catalog, relation) if n in (names or ())]
    children: list[Child] = []
    for check in checks.children if assigned is None else ():
        if check.target is not None or check.path is None:
            return None
        path = codecs(check.path)
        children.append(Child(path.layout.table, check.values, path.prefix))
    return ShortWrite(
        codecs,
        programs,
        relation,
        codec,
        codec.key_at(range(len(relation.primary_key))),
        program,
        (codec.layout.table, *(view.table for view in program.views)),
        way_to_root(catalog, codecs, name),
        checks.computes,
        constraints.completed,
        projection(checks.not_null),
        projection(kept) if kept else None,
        tuple(
            (check, codecs(check.index.name))
            for check in checks.unique
            if may_change(catalog, check.index.name, names)
        ),
        tuple(children),
    )


def _kept(catalog: Catalog, relation: Relation) -> dict[str, None]:
    """The columns of the key and of foreign keys, and those that other rows reference."""
    own = [relation.primary_key, *(key.columns for key in relation.foreign_keys)]
    below = [key.parent_columns for _, key in catalog.schema.children(relation.name)]
    return dict.fromkeys(chain.from_iterable([*own, *below]))


class HasShortWrites(Protocol):
    """The part of `CatalogState` that finds short writes."""

    @property
    def short_write(self) -> Callable[[str, tuple[int, ...] | None], ShortWrite | None]: ...


def short_write(state: HasShortWrites, plan: KeyPlan) -> ShortWrite | None:
    """How a transaction of one statement writes the row with a key. None for a plan that searches,
    or that takes values from queries, defaults or DuckDB."""
    if (
        not isinstance(plan.find, ByKey)
        or plan.by_values
        or (plan.returning is not None and plan.returning.queries)
    ):
        return None
    if isinstance(plan, DeletePlan):
        return state.short_write(plan.relation.name, None)
    if plan.queries or Defaulted in map(type, plan.assignments):
        return None
    return state.short_write(plan.relation.name, positions_of(plan.assignments))


def positions_of(assignments: Assignments) -> tuple[int, ...]:
    """The positions of the columns that SET assigns."""
    return tuple(map(_position, assignments))
