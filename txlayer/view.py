"""What one member has seen of the assignment: the newest version it knows, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Set

from crc32c import crc32c
from msgspec import msgpack

from hornbeam_server.schema.errors import Unavailable
from hornbeam_server.txlayer.assignment import SLOTS, Assignment, Member
from hornbeam_server.txlayer.locks import LockName


def slot_of(name: LockName) -> int:
    """The slot whose owner grants a lock. A row's existence lies where the row's root lock would:
    a root relation's row needs one owner, not two."""
    what = name[1:] if name[0] in ("root", "row") else name
    return crc32c(msgpack.encode(what)) % SLOTS


class View:
    """Changed by `see` alone; between two versions nothing changes."""

    def __init__(self, name: str) -> None:
        self.name = name
        """The member whose view it is."""
        self.version = 0
        self.assignment = Assignment.founded("", 0)
        self.members: Set[str] = frozenset()
        self._seen = asyncio.Event()

    def see(self, version: int, assignment: Assignment) -> None:
        self.version, self.assignment = version, assignment
        self.members = frozenset(member.name for member in assignment.members)
        self._seen.set()
        self._seen = asyncio.Event()

    async def change(self) -> None:
        """Return at the next version."""
        await self._seen.wait()

    def owner(self, slot: int) -> str:
        """Who grants locks of `slot`; "" if nobody does now."""
        return self.assignment.slots[slot]

    def is_mine(self, slot: int) -> bool:
        """May locks of `slot` be granted here?"""
        return self.owner(slot) == self.name and slot not in self.assignment.leaving

    def member(self, name: str) -> Member:
        """Raises Unavailable."""
        found = self.assignment.member(name)
        if found is None:
            raise Unavailable(f"Node {name} has gone.", cure="Try again.")
        return found

    @property
    def others(self) -> list[str]:
        """The members but this one, in an order that is the same everywhere."""
        return sorted(self.members - {self.name})

    @property
    def may_commit(self) -> bool:
        """May this member commit?"""
        me = self.assignment.member(self.name)
        return me is not None and me.commits
