"""A member's view of the assignment: the newest version that it has observed."""

from __future__ import annotations

import asyncio
from collections.abc import Set

from crc32c import crc32c
from msgspec import msgpack

from hornbeam_server.schema.errors import Unavailable
from hornbeam_server.txlayer.cluster.assignment import SLOTS, Assignment, Member
from hornbeam_server.txlayer.locking.locks import LockName


def slot_of(name: LockName) -> int:
    """The slot whose owner grants a lock. A row's existence lock is in the same slot as a root lock
    of the row: so both locks of a row of a root relation have one owner."""
    what = name[1:] if name[0] in ("root", "row") else name
    return crc32c(msgpack.encode(what)) % SLOTS


class View:
    """The newest observed version. Only `see` changes it."""

    def __init__(self, name: str) -> None:
        self.name = name
        """The name of the member that has this view."""
        self.version = 0
        self.assignment = Assignment.founded("", 0)
        self.members: Set[str] = frozenset()
        self.memberships = 0
        """The number of times that the observed members have changed."""
        self._seen = asyncio.Event()

    def see(self, version: int, assignment: Assignment) -> None:
        self.version, self.assignment = version, assignment
        members = frozenset(member.name for member in assignment.members)
        self.memberships += members != self.members
        self.members = members
        self._seen.set()
        self._seen = asyncio.Event()

    async def change(self) -> None:
        """Return when the next version is observed."""
        await self._seen.wait()

    def owner(self, slot: int) -> str:
        """The name of the member that owns `slot`; "" if no member does."""
        return self.assignment.slots[slot]

    def is_mine(self, slot: int) -> bool:
        """May this member grant locks of `slot`?"""
        return self.owner(slot) == self.name and slot not in self.assignment.leaving

    def member(self, name: str) -> Member:
        """The member with this name. Raises Unavailable if there is none."""
        found = self.assignment.member(name)
        if found is None:
            raise Unavailable(f"Node {name} has gone.", cure="Try again.")
        return found

    @property
    def others(self) -> list[str]:
        """The names of the other members, sorted."""
        return sorted(self.members - {self.name})

    @property
    def may_commit(self) -> bool:
        """May this member commit?"""
        me = self.assignment.member(self.name)
        return me is not None and me.commits

    @property
    def lane(self) -> int | None:
        """The lane of this member; None: it has none."""
        me = self.assignment.member(self.name)
        return me.lane if me is not None and me.commits and me.lane else None
