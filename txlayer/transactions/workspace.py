"""The rows of one attempt at a transaction: locked, read, and changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import aclosing

from hornbeam_server.maintain.changes import Addition, Change, Mutation
from hornbeam_server.maintain.copies import Draw
from hornbeam_server.maintain.immediate.program import Joined
from hornbeam_server.query.engine import QueryStream
from hornbeam_server.schema.errors import BeingLoaded, LimitExceeded, TransactionAborted
from hornbeam_server.schema.intervals import identical
from hornbeam_server.schema.render import spelled
from hornbeam_server.schema.sizes import Budget
from hornbeam_server.schema.turns import ROWS_A_TURN, chunks, made, selected, turn
from hornbeam_server.schema.types import Row, Value
from hornbeam_server.storage.codec.folds import OWN_LANE
from hornbeam_server.storage.ports import TableReader
from hornbeam_server.storage.snapshot import RememberingSnapshot, Snapshot
from hornbeam_server.txlayer.locking.locks import (
    KnownReleases,
    LockName,
    LockOwner,
    Locks,
    Mode,
    take_all,
)
from hornbeam_server.txlayer.transactions.byte_limits import (
    budget_of_reads,
    budget_of_writes,
    require_moderate,
)
from hornbeam_server.txlayer.transactions.compiled_catalog import CatalogState
from hornbeam_server.txlayer.transactions.constraints import ChildCheck, UniqueCheck

MAX_CHANGES = 200_000
"""Maximum number of rows of one relation that a transaction may change. More rows need several
transactions, or `load`."""
Key = tuple[Value, ...]


class _Holders:
    """The rows that a transaction has written, by their values in a unique index."""

    def __init__(self, check: UniqueCheck) -> None:
        self._values = check.values
        self._rows: dict[Key | None, dict[bytes, Row]] = {}
        """Rows by values and key: before the final check, several rows may have the same values."""

    def of(self, values: Key) -> Row | None:
        return next(iter(self._rows.get(values, {}).values()), None)

    def note(self, key: bytes, before: Row | None, after: Row | None) -> None:
        """Record that the row at `key` changes from `before` to `after`."""
        if before is not None:
            del self._rows[self._values(before)][key]
        if after is not None:
            self._rows.setdefault(self._values(after), {})[key] = after


class Workspace:
    """The rows that an attempt has locked and read, with the changes of the attempt laid over them.

    Without `locks` all rows are read at snapshot `at`.
    """

    def __init__(
        self,
        state: CatalogState,
        store: TableReader,
        locks: Locks | None,
        owner: LockOwner,
        deadline: float | None,
        at: int,
    ) -> None:
        self.state = state
        self.changes: dict[str, dict[bytes, Change]] = {}
        """Changes by relation and encoded key."""
        self._net: list[Change] | None = None
        """The net changes, if they are known since the last change."""
        self.repairs: list[Mutation] = []
        self.reader = RememberingSnapshot(store, state.codecs, at, budget_of_reads())
        self._store = store
        self._locks = locks
        self._owner = owner
        self._deadline = deadline
        self._held: dict[LockName, Mode] = {}
        self._reading_since = locks.known_releases() if locks is not None else KnownReleases(0, {})
        self._holders: dict[str, dict[str, _Holders]] = {}
        """By relation and unique index, for those that were looked up."""
        self._budget = budget_of_writes()

    def waited_for(self) -> int:
        """The timestamp of the latest commit that this attempt has waited for."""
        return self._locks.clock(self._owner) if self._locks is not None else 0

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
        held = self._held.get
        missing = [name for name in names if held(name) not in (mode, Mode.EXCLUSIVE)]
        if not missing:
            return False
        await take_all(locks, owner, missing, mode, self._deadline)
        for name in missing:
            self._held[name] = mode
        await turn(missing)
        if locks.undisturbed(owner, missing, self._reading_since):
            return False
        self.reader.forget()
        self._reading_since = locks.known_releases()
        return True

    async def lock_roots(self, relation: str, rows: Sequence[Row]) -> None:
        """Lock the roots of `rows`. Finds them again under the locks, because they may have moved.

        These are the first steps of "A transaction" in docs/protocols/locks.md.
        """
        roots = self.state.roots
        while True:
            names = await roots.find(relation, rows, self.rows)
            taken = await self.lock(dict.fromkeys(names))
            if not taken or not roots.needs_reads(relation):
                return

    async def lock_existence(
        self, relation: str, keys: Iterable[bytes], mode: Mode = Mode.EXCLUSIVE
    ) -> bool:
        return await self.lock([("row", relation, key) for key in keys], mode)

    async def lock_unique(
        self, check: UniqueCheck, values: Iterable[Key], mode: Mode = Mode.EXCLUSIVE
    ) -> None:
        name, prefix = check.index.name, self.state.codecs(check.index.name).prefix
        await self.lock([("unique", name, prefix(each)) for each in dict.fromkeys(values)], mode)

    async def lock_and_read(self, relation: str, keys: Sequence[Key]) -> list[Row | None]:
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
            taken |= await self.lock_existence(relation, absent, Mode.SHARED)
            if not taken:
                return rows

    async def rows(self, relation: str, keys: Sequence[Key]) -> list[Row | None]:
        """The rows with these keys, with this transaction's changes; None for a missing row."""
        if len(keys) < ROWS_A_TURN:
            return await self._some_rows(relation, keys)
        found: list[Row | None] = []
        for some in chunks(keys):
            found += await self._some_rows(relation, some)
            await turn(some)
        return found

    async def _some_rows(self, relation: str, keys: Sequence[Key]) -> list[Row | None]:
        mine = self.changes.get(relation)
        if not mine:
            return await self.committed_rows(relation, keys)
        encode = self.state.codecs(relation).key_of
        return await self.rows_of_keys(relation, keys, list(map(encode, keys)))

    async def rows_of_keys(
        self, relation: str, keys: Sequence[Key], encoded: Sequence[bytes]
    ) -> list[Row | None]:
        """`rows` for at most ROWS_A_TURN keys, which are also given `encoded`."""
        mine = self.changes.get(relation, {})
        changes = list(map(mine.get, encoded))
        others = [key for key, change in zip(keys, changes, strict=True) if change is None]
        committed = iter(await self.committed_rows(relation, others))
        return [next(committed) if change is None else change.new for change in changes]

    async def committed_rows(self, relation: str, keys: Sequence[Key]) -> list[Row | None]:
        found = await self.reader.get(relation, keys)
        return [version.row if version is not None else None for version in found]

    async def children(self, check: ChildCheck, parents: Set[Key]) -> list[Row]:
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
                require_few(name, len(keys))
                await turn(some)
        else:
            async for batch in self.reader.scan(name):
                found = (row for row in batch if check.parent_key(row) in parents)
                keys.update((check.child_key(row), None) for row in found)
                require_few(name, len(keys))
                await turn(batch)
        changed = (c.new for c in self.changes.get(name, {}).values() if c.new is not None)
        keys.update(dict.fromkeys(await made(map(codec.key_values, changed))))
        current = [row for row in await self.rows(name, list(keys)) if row is not None]
        return await selected(current, lambda row: check.parent_key(row) in parents)

    def write(self, relation: str, key: bytes, before: Row | None, after: Row | None) -> None:
        """Record a change of a row. `before` is the row with this transaction's earlier changes.
        Raises BeingLoaded, LimitExceeded."""
        if relation in self.state.catalog.frozen:
            raise BeingLoaded(
                f"{relation} cannot be written now: an initial load is under way.",
                cure="Send it again when the load has ended (hornbeam status: loading).",
                relation=relation,
            )
        changes = self.changes.setdefault(relation, {})
        known = changes.get(key)
        replaced = known.new if known is not None else None
        codec = self.state.codecs(relation)
        size = codec.long_bytes(after)
        self._budget.take(size if replaced is None else size - codec.long_bytes(replaced))
        changes[key] = Change(relation, known.old if known is not None else before, after)
        self._net = None
        require_few(relation, len(changes))
        for holders in self._holders.get(relation, {}).values():
            holders.note(key, replaced, after)

    async def holders(
        self, relation: str, check: UniqueCheck, values: Sequence[Key]
    ) -> list[Row | None]:
        """The row that has each of `values` in a unique index, with this transaction's changes;
        None for values that no row has."""
        found = list(map((await self._own_holders(relation, check)).of, values))
        missing = [i for i, row in enumerate(found) if row is None]
        stored = await self.reader.prefixes(check.index.name, [values[i] for i in missing])
        entries = [
            (i, check.holder_key(entry.row))
            for i, under in zip(missing, stored, strict=True)
            for entry in under
        ]
        rows = await self.rows(relation, [key for _, key in entries])
        for (i, _), row in zip(entries, rows, strict=True):
            if row is not None and check.values(row) == values[i]:
                found[i] = row
        return found

    async def _own_holders(self, relation: str, check: UniqueCheck) -> _Holders:
        """The holders among the rows that this transaction has written. `write` maintains them
        after the first call."""
        holders = self._holders.setdefault(relation, {}).get(check.index.name)
        if holders is None:
            holders = _Holders(check)
            for some in chunks(list(self.changes.get(relation, {}).items())):
                for key, change in some:
                    holders.note(key, None, change.new)
                await turn(some)
            self._holders[relation][check.index.name] = holders
        return holders

    async def net_changes(self) -> list[Change]:
        """The changes whose old and new rows differ, by relation, in the order of first change."""
        if self._net is None:
            found: list[Change] = []
            for changes in self.changes.values():
                found += await selected(list(changes.values()), _differs)
            self._net = found
        return self._net

    async def mutations(self, draw: Draw | None = None) -> list[Mutation]:
        """The changes of all stored rows: of relations, views and indexes, and of copies, unless
        `draw` is None. Raises the errors of `Programs.mutations`, and LimitExceeded."""
        changes = await self.net_changes()
        if not changes:
            return list(self.repairs)
        remote = self._store.remote
        found = await self.state.programs.mutations(changes, self.reader, remote=remote, draw=draw)
        await require_moderate(found, self.state.codecs)
        return [*found, *self.repairs]

    async def additions(self, joined: Sequence[Joined]) -> list[Addition]:
        """What the changes add to the groups of immediate views."""
        return [addition for each in joined for addition in await each.additions()]

    async def joined(self) -> list[Joined]:
        """What the changes change in immediate views."""
        if not self.state.programs.adds:
            return []
        changes, remote = await self.net_changes(), self._store.remote
        return await self.state.programs.joined(changes, self.reader, remote=remote)

    async def lock_joined(self) -> list[Joined]:
        """`joined`, under locks: a parent that a changed row is joined to must stay, and a parent
        that changes is locked exclusively, so that no other transaction changes the rows below it.
        docs/protocols/lanes.md has the reason. Raises TransactionAborted, StatementTimeout."""
        while self.state.programs.adds:
            found = await self.joined()
            changed = {row for each in found for row in each.changed}
            kept = {row for each in found for row in each.kept} - changed
            taken = await self.lock(self._existence(changed))
            taken |= await self.lock(self._existence(kept), Mode.SHARED)
            if not taken:
                return found
        return []

    def _existence(self, rows: Iterable[tuple[str, Key]]) -> list[LockName]:
        codecs = self.state.codecs
        return sorted(("row", relation, codecs(relation).key_of(key)) for relation, key in rows)

    async def require_added(self, base: Snapshot) -> None:
        """Raises TransactionAborted unless the changes add to immediate views over the rows of the
        snapshot `base` what they add over the newest rows. Else they cannot be laid over it: other
        transactions have since changed rows that the views join to the changed ones."""
        older = await self.state.programs.joined(await self.net_changes(), base)
        newest = await self.joined()
        if await self.additions(older) != await self.additions(newest):
            raise changed_since("an immediate view")
        for one, other in zip(older, newest, strict=True):
            same = _same(one.before, other.before) and _same(one.after, other.after)
            if not one.adds and not same:
                raise changed_since(one.program.name)

    async def overlay(self) -> list[Mutation]:
        """The changes of all stored rows, as a query inside this transaction shows them: with
        the additions to immediate views as cells of a lane of their own."""
        codecs = self.state.codecs
        found = await self.mutations()
        for addition in await self.additions(await self.joined()):
            cell = (*addition.group, OWN_LANE, *addition.amounts)
            found.append(Mutation(addition.layout, codecs(addition.layout).key(cell), None, cell))
        return found


def _differs(change: Change) -> bool:
    return not identical(change.old, change.new)


def changed_since(layout: str) -> TransactionAborted:
    return TransactionAborted(f"A row of {layout} changed after this transaction's snapshot.")


def require_few(relation: str, rows: int) -> None:
    if rows > MAX_CHANGES:
        raise LimitExceeded(
            f"The transaction changes more than {MAX_CHANGES} rows of {relation}.",
            cure="Split it; use load for bulk data.",
        )


async def gathered(stream: QueryStream, relation: str, budget: Budget) -> list[Row]:
    """All rows of a query, which are to be written to `relation`. Raises LimitExceeded."""
    rows: list[Row] = []
    async with aclosing(stream.batches()) as batches:
        async for batch in batches:
            for some in chunks(batch):
                rows += budget.taking(some)
                await turn(some)
            require_few(relation, len(rows))
    return rows


async def all_keys(stream: QueryStream, relation: str, spaces: Sequence[str]) -> list[Key]:
    """The keys of all rows of a relation, for TRUNCATE. Raises LimitExceeded."""
    try:
        return await gathered(stream, relation, budget_of_reads())
    except LimitExceeded as error:
        key = "SELECT … LIMIT 100000"
        raise LimitExceeded(
            f"{relation} has too many rows for TRUNCATE, which deletes them in one transaction of"
            f" at most {MAX_CHANGES} rows.",
            cure=f"Delete them in parts: DELETE FROM {spelled(relation, spaces)} WHERE key IN"
            f" ({key}).",
        ) from error


async def gathered_by_key(
    stream: QueryStream, width: int, relation: str, budget: Budget
) -> dict[Key, Row]:
    """The rows of a query by their first `width` values, a key of `relation`: of the rows with one
    key the values of the smallest, behind the key. Raises LimitExceeded."""
    found: dict[Key, Row] = {}
    async with aclosing(stream.batches()) as batches:
        async for batch in batches:
            for some in chunks(batch):
                for row in budget.taking(some):
                    key, values = row[:width], row[width:]
                    known = found.setdefault(key, values)
                    if known is not values and _order(values) < _order(known):
                        found[key] = values
                await turn(some)
            require_few(relation, len(found))
    return found


def _order(row: Row) -> list[tuple[bool, bool, Value]]:
    """The order of rows with values of the same types: NULL last, before it NaN."""
    return [_place(value) for value in row]


def _place(value: Value) -> tuple[bool, bool, Value]:
    if value is None or value != value:  # noqa: PLR0124  NaN
        return value is None, True, False
    return False, False, value


def _same(some: Mapping[Key, Row], others: Mapping[Key, Row]) -> bool:
    """Are the rows the same, also in the parts of their intervals?"""
    return some.keys() == others.keys() and all(identical(some[k], others[k]) for k in some)
