"""Checks of foreign keys and UNIQUE at the end of a transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from hornbeam_server.maintain.changes import Change
from hornbeam_server.schema.errors import ForeignKeyViolation, UniqueViolation
from hornbeam_server.schema.sqltext import shown
from hornbeam_server.schema.turns import chunks, made, turn
from hornbeam_server.schema.types import Row
from hornbeam_server.txlayer.locking.locks import Mode
from hornbeam_server.txlayer.statements.identity_columns import Numbers
from hornbeam_server.txlayer.transactions.constraint_errors import parent_missing, values_taken
from hornbeam_server.txlayer.transactions.constraints import ChildCheck, ParentCheck, UniqueCheck
from hornbeam_server.txlayer.transactions.workspace import Key, Workspace


class ConstraintChecks:
    """Foreign keys and UNIQUE, checked over the net changes before the commit."""

    def __init__(self, workspace: Workspace, identity: Numbers) -> None:
        self._workspace = workspace
        self._state = workspace.state
        self._identity = identity

    async def check(self, *, circles: bool = True) -> None:
        """Check foreign keys and UNIQUE over the net changes; `circles`: also the foreign keys of
        relations that reference one another. Raises ConstraintViolation."""
        by_relation: dict[str, list[Change]] = {}
        for change in await self._workspace.net_changes():
            by_relation.setdefault(change.relation, []).append(change)
        for relation, changes in by_relation.items():
            checks = self._state.constraints[relation]
            for parent in checks.parents:
                if circles or not parent.in_circle:
                    await self._check_parent(relation, parent, changes)
            for unique in checks.unique:
                await self._check_unique(relation, unique, changes)
            replaced = [change for change in changes if change.old is not None]
            for child in checks.children if replaced else ():
                if circles or not child.in_circle:
                    await self._check_children(relation, child, changes)

    async def _check_parent(
        self, relation: str, check: ParentCheck, changes: Sequence[Change]
    ) -> None:
        newly = dict.fromkeys(await made(map(check.newly, changes)))
        for keys in chunks([key for key in newly if key is not None]):
            for key, row in zip(keys, await self._parents(check, keys), strict=True):
                if row is None:
                    raise parent_missing(relation, check.foreign_key, key)
            await turn(keys)

    async def _parents(self, check: ParentCheck, keys: Sequence[Key]) -> list[Row | None]:
        """The rows that `keys` reference, which stay until the commit; None for a missing row."""
        parent = check.foreign_key.parent
        if check.target is not None:
            await self._workspace.lock_unique(check.target, keys, Mode.SHARED)
            return await self._workspace.holders(parent, check.target, keys)
        if not check.same_root:
            encoded = map(self._state.codecs(parent).key_of, keys)
            await self._workspace.lock_existence(parent, encoded, Mode.SHARED)
        return await self._workspace.rows(parent, keys)

    async def _check_unique(
        self, relation: str, check: UniqueCheck, changes: Sequence[Change]
    ) -> None:
        codec = self._state.codecs(relation)
        taken: dict[Key, Key] = {}
        changed: set[bytes] = set()
        for some in chunks(changes):
            await self._workspace.lock_unique(
                check, chain.from_iterable(map(check.freed_and_taken, some))
            )
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
            found = await self._workspace.reader.prefixes(check.index.name, some_values)
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
        codec = self._state.codecs(relation)
        for some in chunks(changes):
            for row in (change.new for change in some if change.new is not None):
                values = check.values(row)
                if values is None or values not in taken:
                    continue
                if taken[values] != codec.key_values(row):
                    raise self._duplicate(relation, check, values)
            await turn(some)

    async def _check_children(
        self, relation: str, check: ChildCheck, changes: Sequence[Change]
    ) -> None:
        left = await made(map(check.left, changes))
        gone = {key: None for key in left if key is not None}
        if not gone:
            return
        if check.target is not None:
            for key in await made(map(check.taken, changes)):
                if key is not None:
                    gone.pop(key, None)
            await self._workspace.lock_unique(check.target, gone)
        if children := await self._workspace.children(check, gone.keys()):
            first = check.parent_key(children[0])
            name = check.foreign_key.name
            raise ForeignKeyViolation(
                f"{relation} {shown(check.foreign_key.parent_columns, first)} is referenced by"
                f" {len(children)} row(s) of {check.child.name}.",
                cure=f"Delete or change them first, or declare {name} ON DELETE CASCADE or"
                " ON UPDATE CASCADE.",
                relation=check.child.name,
                constraint=check.foreign_key.name,
            )

    def _duplicate(self, relation: str, check: UniqueCheck, values: Key) -> UniqueViolation:
        return values_taken(self._state.catalog, self._identity, relation, check, values)
