"""Check-and-put through Thrift 1, whose `checkAndPut` chooses the version itself.

So HBase compares and swaps another cell of the row, its **register**, and the row's version is put
at the chosen timestamp afterwards. The register holds the last **claim**: a version and the value
that is to be the newest one from then on.

1. Read the row's newest version and its register, in one get.
2. If the register holds a claim that is later than the newest version, put it as that version: its
   author may have died before it did. Begin again.
3. Compare the newest version with the expected value.
4. Swap the register, from the bytes that were read to a claim of a later version.
5. Put the version that was claimed.

A claim has random bytes, and a register is never deleted, so its bytes never come back: if the swap
succeeds, no other claim was made since the read. A claimed version may be put late and several
times, by its author and by helpers; it is the same version each time.

The value is signed with the random bytes of its claim. They show whether a swap that HBase's client
repeated, and then reports as refused, was made by this call: then the version has them, once step 2
has put it.

Once a purge drops all versions of a row, its last claim would be later than its newest version
again. So `settled` first replaces the claim by the mark that nothing is left to do.

A put that runs at the same time as a check-and-put of its row is not compared. Rows that
`check_and_put` writes are written by nothing else.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from hornbeam_server.storage.hbase.base import present
from hornbeam_server.storage.hbase.calls import Calls
from hornbeam_server.storage.hbase.cells import signed
from hornbeam_server.storage.hbase.ranges import after_timestamp
from hornbeam_server.storage.hbase.thrift1.interface import THRIFT
from hornbeam_server.storage.hbase.thrift1.messages import COLUMN, REGISTER, call_of_puts
from hornbeam_server.storage.ports import NEWEST

_SETTLED, _CLAIM = b"\0", b"\1"
_TOKEN, _VERSION = 16, 8
_KEPT = 2
"""Versions of a register that are asked for: more than one is to be trimmed."""


class Claim(NamedTuple):
    """A version that is to be put. `stored` is the signed value."""

    version: int
    stored: bytes

    def encoded(self) -> bytes:
        return _CLAIM + self.version.to_bytes(_VERSION) + self.stored


class _Row(NamedTuple):
    """The newest version of a row (`stored` is None if there is none) and its register."""

    version: int
    stored: bytes | None
    register: bytes | None

    def unfinished(self) -> Claim | None:
        """The claim in the register, if it is later than the newest version."""
        if self.register is None or self.register[:1] != _CLAIM:
            return None
        body = self.register[1:]
        claim = Claim(int.from_bytes(body[:_VERSION]), body[_VERSION:])
        return claim if claim.version > self.version else None


class Claims:
    """Makes and finishes claims. All methods block: they run in threads."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def check_and_put(
        self, table: str, row: bytes, expected: bytes | None, value: bytes, ts: int
    ) -> bool:
        """As the port says, for a stored `row`."""
        ours = signed(value)
        tried: set[Claim] = set()
        while True:
            found = self._read(table, row)
            if any(self._is_put(table, row, claim) for claim in tried):
                return True
            if self._finish(table, row, found):
                continue
            if present(found.stored) != expected:
                return False
            claim = Claim(max(ts, found.version + 1), ours)
            tried.add(claim)
            if self._swap(table, row, found.register, claim.encoded()):
                self._put(table, row, claim)
                return True

    def settled(self, table: str, row: bytes) -> bool:
        """Finish a claim in the register, mark the register as settled, and remove its older
        versions. False if another claim was made since the read."""
        found = self._read(table, row)
        if found.register is None:
            return True
        self._finish(table, row, found)
        if found.register[:1] == _CLAIM and not self._swap(
            table, row, found.register, _SETTLED + os.urandom(_TOKEN)
        ):
            return False
        self._trim(table, row)
        return True

    def _read(self, table: str, row: bytes) -> _Row:
        rows = self._calls.call(
            table,
            lambda client, name: client.getRowWithColumns(name, row, [COLUMN, REGISTER], {}),
        )
        cells = rows[0].columns if rows else {}
        newest, register = cells.get(COLUMN), cells.get(REGISTER)
        return _Row(
            newest.timestamp if newest else -1,
            newest.value if newest else None,
            register.value if register else None,
        )

    def _finish(self, table: str, row: bytes, found: _Row) -> bool:
        """Put the claimed version, if `found` lacks it; returns whether it did."""
        claim = found.unfinished()
        if claim is not None:
            self._put(table, row, claim)
        return claim is not None

    def _put(self, table: str, row: bytes, claim: Claim) -> None:
        name = self._calls.full_name(table)
        call = call_of_puts(name, [(row, claim.stored)], claim.version)
        self._calls.call(table, lambda client, _: client.ask(*call))

    def _swap(self, table: str, row: bytes, old: bytes | None, new: bytes) -> bool:
        """Replace the register's bytes `old` (None: there is no register) by `new`, if it has
        them."""
        wanted = THRIFT.Mutation(column=REGISTER, value=new)
        swapped: bool = self._calls.call(
            table,
            lambda client, name: client.checkAndPut(name, row, REGISTER, old, wanted, {}),
            repeatable=False,
        )
        return swapped

    def _is_put(self, table: str, row: bytes, claim: Claim) -> bool:
        """Whether the row has the version that was claimed."""
        at = after_timestamp(claim.version)
        cells = self._calls.call(
            table, lambda client, name: client.getVerTs(name, row, COLUMN, at, 1, {})
        )
        return bool(cells) and (cells[0].timestamp, cells[0].value) == claim

    def _trim(self, table: str, row: bytes) -> None:
        """Remove all but the newest version of the register."""
        versions = self._calls.call(
            table,
            lambda client, name: client.getVerTs(name, row, REGISTER, NEWEST, _KEPT, {}),
        )
        if len(versions) == _KEPT:
            self._calls.call(
                table,
                lambda client, name: client.deleteAllTs(
                    name, row, REGISTER, versions[0].timestamp - 1, {}
                ),
            )
