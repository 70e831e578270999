"""Batches of inserts: a transaction that only inserts many rows into one relation.

Such a transaction meets no change of its own but rows with the same key or the same UNIQUE values.
It takes the steps of `ShortInsert` for all rows together: each step goes over the rows in turns, a
parent of many rows is looked up once, and the stored rows are encoded layout by layout. The general
path (`Transaction.insert_rows`) stays the reference: the batch stores the same bytes under the same
locks, and raises the same errors (tests/txlayer/test_short_inserts.py).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple, TypeVar

from hornbeam_server.maintain.inserts import Found, Target
from hornbeam_server.schema.counters import Counter
from hornbeam_server.schema.errors import ConstraintViolation
from hornbeam_server.schema.turns import chunks, made, turn
from hornbeam_server.schema.types import Row, Value
from hornbeam_server.storage.batches import bytes_of_values
from hornbeam_server.storage.ports import BATCH_BYTES, NEWEST, Cell, Put
from hornbeam_server.txlayer.locking.locks import LockName, Mode
from hornbeam_server.txlayer.statements.requests import (
    InsertRows,
    Parameters,
    SqlWork,
    Statement,
    Work,
)
from hornbeam_server.txlayer.statements.write_plans import InsertPlan
from hornbeam_server.txlayer.transactions.batches import batch_positions, numbered, together
from hornbeam_server.txlayer.transactions.byte_limits import (
    budget_of_reads,
    budget_of_stored,
    budget_of_writes,
)
from hornbeam_server.txlayer.transactions.constraint_errors import (
    key_taken,
    parent_missing,
    values_taken,
)
from hornbeam_server.txlayer.transactions.new_rows import NewRows
from hornbeam_server.txlayer.transactions.short_inserts import Held, ShortInsert
from hornbeam_server.txlayer.transactions.workspace import require_few

Violation = TypeVar("Violation", bound=ConstraintViolation)


class Loaded(NamedTuple):
    """The number of inserted rows, the puts of all rows that they store by layout, and the numbers
    of identity columns that a batch has brought."""

    rows: int
    stored: list[tuple[Target, list[Put]]]
    numbers: list[tuple[Counter, list[Any]]]


async def insert_many(
    insert: ShortInsert,
    plan: InsertPlan | None,
    work: Work,
    now: dt.datetime,
    new_rows: NewRows,
    held: Held,
) -> Loaded | None:
    """Insert the rows of a batch, of a statement, or of a statement that is repeated. None if the
    parameters need another plan."""
    if isinstance(work, InsertRows):
        return await insert_batch(insert, work, new_rows, held)
    assert plan is not None, "as `short_insert` says"
    assert isinstance(work, SqlWork), "as `short_insert` says"
    sets = [work.parameters] if isinstance(work, Statement) else work.parameter_sets
    return await insert_sets(insert, plan, sets, now, new_rows, held)


async def insert_batch(
    insert: ShortInsert, batch: InsertRows, new_rows: NewRows, held: Held
) -> Loaded:
    """Insert a batch of rows without SQL. Raises the errors of `Transaction.insert`."""
    relation, positions = batch_positions(batch, insert.catalog.schema)
    rows: list[Row] = []
    for some in chunks(batch.rows):
        rows += await new_rows.complete_all(relation, positions, some, len(rows) + 1)
        await turn(some)
    run = BatchInsert(insert, held)
    await run.add(rows)
    numbers = []
    for position in positions:
        column = relation.columns[position].name
        counter = insert.catalog.counters.get((relation.name, column))
        if counter is not None:
            numbers.append((counter, [row[position] for row in rows]))
    return Loaded(len(rows), await run.stored(), numbers)


async def insert_sets(
    insert: ShortInsert,
    plan: InsertPlan,
    sets: Sequence[Parameters],
    now: dt.datetime,
    new_rows: NewRows,
    held: Held,
) -> Loaded | None:
    """Insert the rows of VALUES for each set of parameters. None if one of them needs another plan;
    then locks are taken, and numbers may be drawn. Raises the errors of
    `Transaction.run_repeated`."""
    run, budget, count = BatchInsert(insert, held), budget_of_writes(), 0
    for some in chunks(sets):
        with numbered(count, len(some), len(sets)):
            bound = together(plan, some, now)
            if bound is None:
                return None
            runs = chain.from_iterable(map(plan.given, bound))
            given = await made(budget.taking(runs, dict.values))
            rows = await new_rows.complete_each(insert.relation, given)
            await run.add(rows)
        count += len(rows)
        await turn(some)
    return Loaded(count, await run.stored(), [])


class BatchInsert:
    """The rows that one attempt of a transaction inserts. `add` locks and checks their keys;
    `stored`, called once at the end, checks the rest."""

    def __init__(self, insert: ShortInsert, held: Held) -> None:
        self._insert = insert
        self._held = held
        self._rows: list[Row] = []
        self._keys: dict[bytes, None] = {}
        """The encoded keys of `_rows`."""
        self._known: dict[str, dict[bytes, Row | None]] = {}
        """Rows that were read under locks, by table and key; None for a missing row."""
        self._locked: set[LockName] = set()
        self._reads, self._writes = budget_of_reads(), budget_of_writes()

    async def add(self, rows: Sequence[Row]) -> None:
        """Add complete rows. Raises UniqueViolation for a key that is taken, LimitExceeded,
        TransactionAborted, StatementTimeout."""
        for some in chunks(rows):
            await self._add_some(some)
            await turn(some)

    async def _add_some(self, rows: Sequence[Row]) -> None:
        codec, name = self._insert.codec, self._insert.relation.name
        keys = list(map(codec.key, rows))
        await self._lock_roots(rows, keys)
        await self._lock([("row", name, key) for key in keys], Mode.EXCLUSIVE)
        cells = await self._cells(codec.layout.table, keys)
        for number, (row, key, cell) in enumerate(zip(rows, keys, cells, strict=True), 1):
            if cell is not None or key in self._keys:
                values = codec.key_values(row)
                insert = self._insert
                error = key_taken(insert.catalog, self._held.numbers, insert.relation, values)
                if len(rows) > 1:
                    error.of_row(number)
                raise error
            self._keys[key] = None
        self._writes.take(codec.long_bytes_of(rows))
        self._rows += rows
        require_few(name, len(self._rows))

    async def _lock_roots(self, rows: Sequence[Row], keys: Sequence[bytes]) -> None:
        """Lock the roots of rows. Where rows are read to find them, they are read again if one of
        the locks was released since (docs/protocols/locks.md)."""
        insert, locks, tree = self._insert, self._held.locks, self._insert.program.tree
        while True:
            since = locks.known_releases()
            found = await self._found(rows, tree[:-1])
            names = map(insert.root, rows, keys, found)
            new = await self._lock(dict.fromkeys(names), Mode.EXCLUSIVE)
            if len(tree) < 2 or not new or locks.undisturbed(self._held.owner, new, since):
                return
            self._known.clear()

    async def _lock(self, names: Iterable[LockName], mode: Mode) -> list[LockName]:
        """Take locks, and return those that were not held before."""
        held, known = self._held, self._locked
        new = [name for name in names if name not in known]
        await held.take(new, mode)
        known.update(new)
        return new

    async def stored(self) -> list[tuple[Target, list[Put]]]:
        """The puts of all rows that the transaction stores, by layout. Afterwards the attempt has
        all its locks. Raises ForeignKeyViolation, UniqueViolation, and the errors of `add`."""
        await self._require_parents()
        await self._require_unique()
        program = self._insert.program
        places = tuple(chain.from_iterable(program.levels))
        keys, budget = list(self._keys), budget_of_stored()
        puts: dict[str, tuple[Target, list[Put]]] = {}
        done = 0
        for some in chunks(self._rows):
            given = await self._found(some, places)
            for each in program.stored_all(keys[done : done + len(some)], given):
                budget.take(each.target.long_bytes_of(each.rows))
                puts.setdefault(each.target.name, (each.target, []))[1].extend(each.puts)
            done += len(some)
            await turn(some)
        return [each for each in puts.values() if each[1]]

    async def _require_parents(self) -> None:
        insert = self._insert
        parents = zip(insert.program.ancestors, insert.checks.parents, strict=False)
        for place, (ancestor, check) in enumerate(parents, start=1):
            for some in chunks(self._rows):
                if not check.same_root:
                    referenced = (r for r in some if None not in ancestor.reference(r))
                    keys = dict.fromkeys(map(ancestor.key, referenced))
                    name = ancestor.foreign_key.parent
                    await self._lock([("row", name, key) for key in keys], Mode.SHARED)
                for row, found in zip(some, await self._found(some, (place,)), strict=True):
                    if found[place] is None and None not in (key := check.values(row)):
                        error = parent_missing(insert.relation.name, check.foreign_key, key)
                        raise self._located(error, check.values, key)
                await turn(some)

    async def _require_unique(self) -> None:
        insert, name = self._insert, self._insert.relation.name
        for check, codec in zip(insert.checks.unique, insert.entries, strict=True):
            taken: dict[tuple[Value, ...], bytes] = {}
            for some in chunks(self._rows):
                given = [values for row in some if (values := check.values(row)) is not None]
                prefixes = dict.fromkeys(map(codec.prefix, given))
                await self._lock(
                    [("unique", check.index.name, prefix) for prefix in prefixes], Mode.EXCLUSIVE
                )
                for values in given:
                    if values in taken:
                        error = values_taken(
                            insert.catalog, self._held.numbers, name, check, values
                        )
                        raise self._located(error, check.values, values, nth=1)
                    taken[values] = codec.prefix(values)
                await turn(some)
            for some_values in chunks(list(taken)):
                encoded = [taken[values] for values in some_values]
                table = codec.layout.table
                groups = await self._held.store.scan_prefixes(table, encoded, NEWEST)
                for values, cells in zip(some_values, groups, strict=True):
                    self._reads.take(bytes_of_values(cells))
                    holders = (check.holder_key(codec.decode(cell.value)) for cell in cells)
                    if any(insert.codec.key_of(holder) not in self._keys for holder in holders):
                        error = values_taken(
                            insert.catalog, self._held.numbers, name, check, values
                        )
                        raise self._located(error, check.values, values)
                await turn(some_values)

    def _located(
        self, error: Violation, of: Callable[[Row], object], wanted: object, nth: int = 0
    ) -> Violation:
        """`error` with the number of its row: the first, or with `nth` a later one, of those whose
        values are the wanted ones."""
        if len(self._rows) > 1:
            numbers = (number for number, row in enumerate(self._rows, 1) if of(row) == wanted)
            error.of_row(next(islice(numbers, nth, None)))
        return error

    async def _found(self, rows: Sequence[Row], places: Sequence[int]) -> list[Found]:
        """For each row the rows at `places`, which are in the order of their levels. A row that is
        known is not read again."""
        ancestors = self._insert.program.ancestors
        nothing = self._insert.nothing[1:]
        found: list[list[Row | None]] = [[row, *nothing] for row in rows]
        for place in places:
            ancestor = ancestors[place - 1]
            reference, encode = ancestor.reference, ancestor.key
            below = [each[ancestor.below] for each in found]
            keys = [None if row is None or None in reference(row) else encode(row) for row in below]
            known = self._known.setdefault(ancestor.table, {})
            missing = sorted({key for key in keys if key is not None and key not in known})
            cells = await self._cells(ancestor.table, missing)
            for absent, cell in zip(missing, cells, strict=True):
                known[absent] = None if cell is None else ancestor.decode(cell.value)
            for each, key in zip(found, keys, strict=True):
                if key is not None:
                    each[place] = known[key]
        return [*found]

    async def _cells(self, table: str, keys: Sequence[bytes]) -> list[Cell | None]:
        """The cells of at most a turn's keys. Raises LimitExceeded."""
        found: list[Cell | None] = []
        while len(found) < len(keys):
            get = self._held.store.get
            cells = await get(table, keys[len(found) :], NEWEST, room=BATCH_BYTES)
            self._reads.take(bytes_of_values(cells))
            found += cells
        return found
