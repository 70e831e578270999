"""ON DELETE and ON UPDATE: what happens to the rows that reference a deleted or changed row.

Actions run inside the statement, over rows that are locked: first the referenced rows or values
are locked exclusively, so that no other transaction begins to reference them, then the referencing
rows are read under the locks of their roots. RESTRICT is no action: `ConstraintChecks` refuses it
at the end.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set

from hornbeam_server.schema.model import Action, Column, Relation
from hornbeam_server.schema.turns import chunks, made, selected, turn
from hornbeam_server.schema.types import Row, Value
from hornbeam_server.txlayer.transactions.constraints import ChildCheck
from hornbeam_server.txlayer.transactions.workspace import Key, Workspace, require_few

Pairs = Sequence[tuple[Row, Row]]


class ReferentialActions:
    """The actions of one transaction. `default` gives the default of a column. `replace` replaces
    the old row of each pair by the new one, and carries out no actions; it returns the pairs as
    written, with generated columns."""

    def __init__(
        self,
        workspace: Workspace,
        default: Callable[[Relation, Column], Awaitable[Value]],
        replace: Callable[[Relation, Pairs], Awaitable[Pairs]],
    ) -> None:
        self._workspace = workspace
        self._state = workspace.state
        self._default = default
        self._replace = replace

    async def delete(self, relation: Relation, rows: Sequence[Row]) -> None:
        """Delete rows, and carry out ON DELETE for all rows that reference them, at any depth."""
        waiting = [(relation, rows)]
        while waiting:
            parent, gone = waiting.pop()
            if not gone:
                continue
            await self.delete_level(parent.name, gone)
            for check in self._state.constraints[parent.name].children:
                action = check.foreign_key.on_delete
                if action is Action.RESTRICT:
                    continue
                below = await self._below(check, await self._keys(check, gone))
                if action is Action.CASCADE:
                    waiting.append((check.child, below))
                else:
                    pairs = await self._set(check, action, below)
                    await self.follow(check.child, await self._replace(check.child, pairs))

    async def follow(self, relation: Relation, pairs: Pairs) -> None:
        """Carry out ON UPDATE for rows that reference the old row of a pair, at any depth, after
        the old rows are replaced by the new ones. All rows that reference old values are read
        before any of them changes, so that values can be exchanged."""
        waiting = deque([(relation, pairs)])
        changed = 0
        while waiting:
            parent, moving = waiting.popleft()
            for check in self._state.constraints[parent.name].children:
                if check.foreign_key.on_update is Action.RESTRICT:
                    continue
                moved = dict(filter(None, await made(map(check.moved, moving))))
                if not moved:
                    continue
                following = await self._following(check, moved)
                following = await self._replace(check.child, following)
                waiting.append((check.child, following))
                # Rows that reference one another may be changed without end.
                changed += len(following)
                require_few(check.child.name, changed)
                await asyncio.sleep(0)

    async def _following(self, check: ChildCheck, moved: Mapping[Key, Key]) -> Pairs:
        """The rows that reference the keys of `moved`, each with the row that follows."""
        below = await self._below(check, moved.keys())
        action = check.foreign_key.on_update
        if action is not Action.CASCADE:
            return await self._set(check, action, below)
        pairs = ((row, check.referencing(row, moved[check.parent_key(row)])) for row in below)
        return await made(pairs)

    async def delete_level(self, relation: str, rows: Sequence[Row]) -> None:
        """Delete rows of one relation, and carry out no actions."""
        codec = self._state.codecs(relation)
        for some in chunks(rows):
            keys = [codec.key(row) for row in some]
            await self._workspace.lock_existence(relation, keys)
            for row, key in zip(some, keys, strict=True):
                self._workspace.write(relation, key, row, None)
            await turn(some)

    async def _keys(self, check: ChildCheck, rows: Sequence[Row]) -> set[Key]:
        """The keys of parents, as children hold them, that have no NULL."""
        return {key for key in await made(map(check.values, rows)) if None not in key}

    async def _below(self, check: ChildCheck, gone: Set[Key]) -> list[Row]:
        """The rows that reference one of `gone`, read under their locks."""
        if check.target is not None:
            await self._workspace.lock_unique(check.target, gone)
        children = await self._workspace.children(check, gone)
        keys = await made(map(self._state.codecs(check.child.name).key_values, children))
        locked = await self._workspace.lock_and_read(check.child.name, keys)
        # A child may have left before its lock was granted. None can join: what it would reference
        # is locked.
        present = [row for row in locked if row is not None]
        return await selected(present, lambda row: check.parent_key(row) in gone)

    async def _set(self, check: ChildCheck, action: Action, rows: Sequence[Row]) -> Pairs:
        """The rows, each with what SET NULL or SET DEFAULT makes of it."""
        columns = [check.child.column(name) for name in check.foreign_key.columns]
        pairs: list[tuple[Row, Row]] = []
        for some in chunks(rows):
            for row in some:
                key: Key = (None,) * len(columns)
                if action is Action.SET_DEFAULT:
                    key = tuple([await self._default(check.child, column) for column in columns])
                pairs.append((row, check.referencing(row, key)))
            await turn(some)
        return pairs
