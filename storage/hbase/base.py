"""The part of a table store over HBase that does not depend on the kind of its gateways.

Versions are HBase's own: a read at timestamp `at` takes the newest cell of the time range [0, at],
so a scan needs no state in a server. Each batch of a scan is a call of its own that begins behind
the last key. Any gateway answers it, whatever regions and servers have done since.

Concurrent gets of one table at one timestamp share calls, and so do concurrent puts into one table
(`sharing`).

A call that failed, or was given up at its deadline, may take effect later: gateways and region
servers repeat it for as long as they are configured to. So all calls but check-and-puts must be
repeatable; the stores repeat them within the deadline. A late put writes the same version as its
repetition; versions that `purge` has hidden stay hidden (see `storage.hbase.tables`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from hornbeam_server.storage.hbase import servers
from hornbeam_server.storage.hbase.calls import Calls
from hornbeam_server.storage.hbase.cells import stored_key, stored_value, value_of
from hornbeam_server.storage.hbase.definitions import Definitions
from hornbeam_server.storage.hbase.purging import Purging
from hornbeam_server.storage.hbase.reads import CALL_BYTES, Reads, route_of
from hornbeam_server.storage.hbase.sharing import SharedCalls
from hornbeam_server.storage.ports import TOMBSTONE, Put
from hornbeam_server.storage.together import all_settled

PUTS = 1_000
"""Maximum number of puts in one call."""
_Version = tuple[Put, int]
"""A put and its timestamp."""


class Durable(Protocol):
    """Sees to it that puts survive a crash of the machine."""

    unflushed: set[str]
    """Tables with puts that have returned, or failed, since the last flush."""

    async def flush(self) -> None:
        """On return all earlier puts survive a crash of the machine."""


class GatewayStore:
    """The operations that all stores over gateways have in common."""

    remote = True
    direct = None

    def __init__(
        self, calls: Calls, definitions: Definitions, flushing: Durable, purging: Purging
    ) -> None:
        self._calls, self._definitions = calls, definitions
        self._flushing, self._purging = flushing, purging
        self._reads = Reads(calls)
        self._puts = SharedCalls(self._put_all, calls.timeout_s)
        # Operations of the parts are operations of the store.
        self.tables = definitions.names
        self.get, self.scan = self._reads.get, self._reads.scan
        self.scan_prefixes, self.scan_values = self._reads.scan_prefixes, self._reads.scan_values
        self.flush, self.purge = flushing.flush, purging.purge

    async def create_table(self, table: str, splits: Sequence[bytes] = ()) -> None:
        await self._definitions.create(table, splits)

    async def drop_table(self, table: str) -> None:
        await self._definitions.drop(table)
        self._purging.forget(table)

    async def put(
        self, writes: Mapping[str, Sequence[Put]], ts: int, *, forced: bool = False
    ) -> None:
        try:
            await all_settled(
                [
                    self._puts.ask((table, forced, route_of(puts)), [(put, ts) for put in puts])
                    for table, puts in writes.items()
                ]
            )
        finally:
            if not forced:
                self._flushing.unflushed.update(writes)

    async def _put_all(
        self, route: tuple[str, bool, object], versions: Sequence[_Version]
    ) -> list[None]:
        table, forced, _ = route
        self._calls.require_open()
        await all_settled([self._put(table, chunk, forced) for chunk in _chunks(versions)])
        return [None] * len(versions)

    async def _put(self, table: str, versions: Sequence[_Version], forced: bool) -> None:
        stored = [(stored_key(key), stored_value(value), ts) for (key, value), ts in versions]
        name = self._calls.full_name(table)
        calls = self._calls.kind.calls_of_puts(name, stored, forced=forced)
        await all_settled([self._calls.call_at_once(table, *call) for call in calls])

    async def splits(self, table: str) -> list[bytes]:
        """The first keys of the table's regions, without that of the first region."""
        return await servers.splits(self._calls, table)

    async def close(self) -> None:
        """As the port says. Waits for running calls, each until its deadline at most, and aborts
        searches."""
        if self._calls.closed:
            return
        try:
            await self.flush()
        finally:
            self._calls.refuse()
            await self._reads.shared.finish()
            await self._puts.finish()
            await self._calls.close()


def present(stored: bytes | None) -> bytes | None:
    """The value of a cell; None: there is none, or a tombstone."""
    value = value_of(stored) if stored is not None else TOMBSTONE
    return value if value != TOMBSTONE else None


def _chunks(versions: Sequence[_Version]) -> Iterator[Sequence[_Version]]:
    """Split `versions` into parts of a bounded size. Of several puts of one version of a row the
    last one stays."""
    if len({key for (key, _), _ in versions}) < len(versions):
        versions = list({(put.key, ts): (put, ts) for put, ts in versions}.values())
    begin = size = 0
    for i, ((key, value), _) in enumerate(versions):
        size += len(key) + len(value)
        if i - begin == PUTS - 1 or size >= CALL_BYTES:
            yield versions[begin : i + 1]
            begin, size = i + 1, 0
    if begin < len(versions):
        yield versions[begin:]
