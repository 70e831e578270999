"""The table store over HBase, through its Thrift 2 gateways.

Versions are HBase's own: a read at timestamp `at` takes the newest cell of the time range [0, at],
so a scan needs no state in a server. Each batch of a scan is a call of its own that begins behind
the last key. Any gateway answers it, whatever regions and servers did meanwhile.

A put is in its region server's log when it returns, in the memory of all data nodes that keep a
copy (SYNC_WAL); `flush` forces these logs to disk. The files that HBase writes from then on are
on disk once they are closed if HDFS's `dfs.datanode.synconclose` is true, as it should be.

Concurrent gets of one table at one timestamp share calls, and so do concurrent puts into one table
(`sharing`).

A call that failed, or was given up at its deadline, may take effect later: gateways and region
servers repeat it for as long as they are configured to. So all calls but `check_and_put` must be
repeatable; this store repeats them within the deadline. A late put writes the same version as its
repetition; versions that `purge` has hidden stay hidden (see `storage.hbase.tables`).
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, NoReturn, TypeVar

from hornbeam_server.schema.errors import Corruption, Unavailable
from hornbeam_server.storage.batches import bytes_of_values, fitting, groups_within
from hornbeam_server.storage.codec.keys import successor
from hornbeam_server.storage.hbase import names, ranges, servers, tables
from hornbeam_server.storage.hbase.cells import (
    COLUMNS,
    FAMILY,
    FLUSHED,
    QUALIFIER,
    is_plain,
    is_signed,
    key_of,
    signed,
    stored_key,
    stored_value,
    value_of,
)
from hornbeam_server.storage.hbase.gateways import Address, CallFailed, Gateways
from hornbeam_server.storage.hbase.interface import THRIFT
from hornbeam_server.storage.hbase.messages import AnswerTooLong, call_of_gets, call_of_puts
from hornbeam_server.storage.hbase.sharing import SharedCalls
from hornbeam_server.storage.ports import BATCH_BYTES, NEWEST, TOMBSTONE, Cell, Put
from hornbeam_server.storage.together import all_settled

T = TypeVar("T")
Client = Any
"""A client of `THBaseService`."""
THREADS = 32
"""Maximum number of concurrent calls in threads."""
TIMEOUT_S = 15.0
"""Deadline of a call with its repetitions, in seconds. An attempt of a repeatable call has the
share `ATTEMPT` of that: a gateway that waits for a region pauses ever longer, and a new request
finds the region sooner."""
ATTEMPT = 0.4
DEFINITION_TIMEOUT_S = 60.0
SEARCH_S = 900.0
"""Deadline of a call that searches a whole table: HBase reads some 500 000 rows a second."""
LONG_PURGE_S, RESTS = 1.0, 20
"""After a purge that took longer than LONG_PURGE_S, the table is not purged for RESTS times that
duration: HBase has other work."""
PAUSES_S = (0.05, 0.2, 0.8)
"""Pauses before a failed call is repeated, in seconds."""
FIRST_BATCH, LARGEST_BATCH = 256, 2_048
"""Maximum rows of the first call of a scan, and of any call."""
CALL_BYTES = 4 << 20
"""Intended maximum bytes of an answer with rows, as far as its size can be foreseen. A call with
puts exceeds it by one row at most."""
UNKNOWN_ROW_BYTES = BATCH_BYTES // FIRST_BATCH
"""Assumed size of a row of a table that has not been read yet."""
FEWER = 8
"""A call whose answer is too long is repeated for the number of rows divided by this."""
UNREAD = Cell(b"", -1, b"")
"""Stands for a requested row that was not read, since the rows before it had too many bytes."""
GETS, PUTS, PREFIXES, PURGED_ROWS = 500, 1_000, 200, 500
"""Maximum numbers in one call."""
SHARED = 100
"""A request of more gets or puts shares no call with other requests: it would gain nothing and
delay the others."""
_Version = tuple[Put, int]
"""A put and its timestamp."""


class HBaseStore:
    """A `TableStore` in one namespace of HBase."""

    remote = True

    def __init__(
        self,
        gateways: Sequence[tuple[str, int]],
        *,
        namespace: str = "hornbeam",
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        addresses = [Address(*address) for address in gateways]
        self._gateways = Gateways(addresses)
        self._searching = Gateways(addresses)
        """For calls that search a whole table; their deadline is SEARCH_S."""
        self._namespace = namespace
        self._timeout_s = timeout_s
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="hbase")
        self._gets = SharedCalls(self._get_all, timeout_s)
        self._puts = SharedCalls(self._put_all, timeout_s)
        self._full_names: dict[str, bytes] = {}
        self._sound: set[str] = set()
        """Tables that were found to exist with the right settings."""
        self._purged: dict[str, int] = {}
        """Per table the horizon of the last purge."""
        self._rests_until: dict[str, float] = {}
        """Per table the monotonic time until which it is not purged again."""
        self._row_bytes: dict[str, int] = {}
        """Per table the mean value size of the rows that were read last."""
        self._unflushed: set[str] = set()
        """Tables with puts that have returned, or failed, since the last flush."""
        self._flushing = asyncio.Lock()
        self._closed = False

    # ------------------------------------------------------------ tables

    async def create_table(self, table: str, splits: Sequence[bytes] = ()) -> None:
        """As the port says. A new table begins with a region from each of `splits` on."""
        keys = [stored_key(key) for key in splits]
        await self._define(table, partial(self._create, table, keys))

    def _create(self, table: str, splits: list[bytes], client: Client) -> None:
        name = self._name(table)
        self._sound.discard(table)
        if not client.tableExists(name):
            self._make_namespace(client)
            try:
                client.createTable(tables.definition(name), splits)
            except THRIFT.TIOError:
                if not client.tableExists(name):  # else another process was faster
                    raise
        self._require_sound(table, client)
        if not client.isTableEnabled(name):
            raise Unavailable(
                f"Table {table} is disabled in HBase, or is being made.",
                cure="Enable it; if it was being dropped, drop it again.",
            )

    def _make_namespace(self, client: Client) -> None:
        if self._namespace in client.listNamespaces():
            return
        try:
            client.createNamespace(THRIFT.TNamespaceDescriptor(name=self._namespace))
        except THRIFT.TIOError:
            if self._namespace not in client.listNamespaces():
                raise

    async def drop_table(self, table: str) -> None:
        await self._define(table, partial(self._drop, self._name(table)))
        self._sound.discard(table)
        self._purged.pop(table, None)

    def _drop(self, name: Any, client: Client) -> None:
        try:
            if client.tableExists(name) and client.isTableEnabled(name):
                client.disableTable(name)
            if client.tableExists(name):
                client.deleteTable(name)
        except THRIFT.TIOError:
            if client.tableExists(name):  # else another process was faster
                raise

    async def tables(self) -> list[str]:
        return await self._define("", self._tables)

    def _tables(self, client: Client) -> list[str]:
        try:
            found = client.getTableNamesByNamespace(self._namespace)
        except THRIFT.TIOError:
            if self._namespace in client.listNamespaces():
                raise
            return []
        return sorted(names.decode(name.qualifier) for name in found)

    async def _define(self, table: str, work: Callable[[Client], T]) -> T:
        what = f"Table {table}" if table else "The list of tables"
        return await self._in_thread(
            partial(self._repeat, what, work, DEFINITION_TIMEOUT_S, DEFINITION_TIMEOUT_S)
        )

    def _name(self, table: str) -> Any:
        return THRIFT.TTableName(ns=self._namespace.encode(), qualifier=names.encode(table))

    def _full_name(self, table: str) -> bytes:
        name = self._full_names.get(table)
        if name is None:
            name = self._namespace.encode() + b":" + names.encode(table)
            self._full_names[table] = name
        return name

    def _require_sound(self, table: str, client: Client) -> None:
        """Raises Corruption unless the table exists with Hornbeam's settings."""
        if table in self._sound:
            return
        if not client.tableExists(self._name(table)):
            self._is_missing(table)
        wrong = tables.difference(client.getTableDescriptor(self._name(table)))
        if wrong:
            raise Corruption(
                f"Table {table} exists in HBase with other settings: {wrong}.",
                cure="Alter it, or give Hornbeam a namespace of its own.",
            )
        self._sound.add(table)

    def _is_missing(self, table: str) -> NoReturn:
        self._sound.discard(table)
        raise Corruption(f"Table {table} does not exist in HBase's namespace {self._namespace}.")

    # ------------------------------------------------------------ reads

    def get(
        self, table: str, keys: Sequence[bytes], at: int, *, room: int | None = None
    ) -> Awaitable[list[Cell | None]]:
        if room is None:
            return self._gets.ask((table, at, False, _route(keys)), keys)
        some = keys[: self._expected_rows(table, room)]
        return self._first_ones(table, some, at, room, self._ask_for_some(table, some, at))

    def _ask_for_some(
        self, table: str, keys: Sequence[bytes], at: int
    ) -> asyncio.Future[list[Cell | None]]:
        return self._gets.ask((table, at, True, _route(keys)), keys)

    async def _first_ones(
        self,
        table: str,
        keys: Sequence[bytes],
        at: int,
        room: int,
        asked: asyncio.Future[list[Cell | None]],
    ) -> list[Cell | None]:
        """The answer to `asked`, the request for `keys`, as far as it fits in `room`."""
        cells = await asked
        while cells and cells[0] is UNREAD:  # requests that shared the call took the room
            cells = await self._ask_for_some(table, keys, at)
        self._note_row_bytes(table, [cell for cell in cells if cell is not None])
        if UNREAD in cells:
            cells = cells[: cells.index(UNREAD)]
        return cells[: fitting(cells, room)]

    async def _get_all(
        self, route: tuple[str, int, bool, object], keys: Sequence[bytes]
    ) -> list[Cell | None]:
        table, at, first_ones, _ = route
        self._require_open()
        chunks = [keys[i : i + GETS] for i in range(0, len(keys), GETS)]
        found = await all_settled([self._get(table, chunk, at, first_ones) for chunk in chunks])
        return [cell for cells in found for cell in cells]

    async def _get(
        self, table: str, keys: Sequence[bytes], at: int, first_ones: bool
    ) -> list[Cell | None]:
        """The cells of `keys` at timestamp `at`. If they have too many bytes for one call, the
        others are UNREAD with `first_ones`, and read by further calls without."""
        rows = [stored_key(key) for key in keys]
        call = call_of_gets(self._full_name(table), rows, ranges.behind_moment(at))
        try:
            stored = await self._call_at_once(table, *call)
        except AnswerTooLong:
            some = _fewer(len(keys))
            found = await self._get(table, keys[:some], at, first_ones)
            if first_ones:
                return [*found, *[UNREAD] * (len(keys) - len(found))]
            return [*found, *await self._get(table, keys[some:], at, first_ones)]
        return [_visible_cell(key, cell) for key, cell in zip(keys, stored, strict=True)]

    def _expected_rows(self, table: str, room: int) -> int:
        """The estimated number of rows of a table that have `room` bytes, at least 1."""
        return max(room // self._row_bytes.get(table, UNKNOWN_ROW_BYTES), 1)

    def _note_row_bytes(self, table: str, cells: Sequence[Cell]) -> None:
        if cells:
            self._row_bytes[table] = bytes_of_values(cells) // len(cells) + 1

    async def scan(
        self,
        table: str,
        start: bytes,
        end: bytes | None,
        at: int,
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> AsyncIterator[list[Cell]]:
        left = ranges.stored_range(start, end)
        count = min(FIRST_BATCH, self._expected_rows(table, CALL_BYTES))
        count = count if limit is None else min(count, limit)
        read = self._last_rows if reverse else self._first_rows
        batch: asyncio.Future[tuple[list[Cell], int]] | None = None
        batches = 0

        def begun() -> asyncio.Future[tuple[list[Cell], int]] | None:
            """Begin to read the next batch; None if no row is left."""
            if count == 0 or (left.end and left.start >= left.end):
                return None
            return self._begun(partial(read, table, left, count, at))

        try:
            while (batch := batch or begun()) is not None:
                rows, count = await batch
                batch, batches = None, batches + 1
                cells = _visible(rows)[:limit]
                limit = None if limit is None else limit - len(cells)
                if len(rows) == count:
                    last = rows[-1].key
                    left = left._replace(end=last) if reverse else left._replace(start=last + b"\0")
                    count = _next_batch(rows, limit)
                else:
                    count = 0
                if batches > 1:  # a caller that asked for a second batch will ask for more
                    batch = begun()
                while cells:
                    whole = fitting(cells, BATCH_BYTES)
                    yield cells[:whole]
                    cells = cells[whole:]
        finally:
            if batch is not None:
                batch.cancel()

    def _first_rows(
        self, table: str, part: ranges.Range, count: int, at: int
    ) -> tuple[list[Cell], int]:
        return self._scanned(table, [part], count, at)

    def _last_rows(
        self, table: str, part: ranges.Range, count: int, at: int
    ) -> tuple[list[Cell], int]:
        while True:
            wanted = ranges.reverse_scan(part, count, timeRange=ranges.moment(0, at))
            try:
                rows = self._call(
                    table,
                    lambda client, name: client.scanned(name, wanted, count + 1),  # noqa: B023
                )
            except AnswerTooLong:
                count = _fewer(count)
                continue
            inside = [row for row in rows if row.key != part.end and row.key >= part.start]
            self._note_row_bytes(table, inside)
            return inside[:count], count

    def _scanned(
        self, table: str, parts: Sequence[ranges.Range], count: int, at: int
    ) -> tuple[list[Cell], int]:
        """The first rows in `parts`, as they are stored, and the number of rows that was asked
        for: `count`, or fewer if they are large."""
        while True:
            wanted = ranges.scan(parts, count, timeRange=ranges.moment(0, at))
            try:
                rows = self._call(
                    table,
                    lambda client, name: client.scanned(name, wanted, count),  # noqa: B023
                )
            except AnswerTooLong:
                count = _fewer(count)
                continue
            self._note_row_bytes(table, rows)
            return rows, count

    def _rows(self, table: str, wanted: Any, count: int) -> list[Any]:
        return self._call(table, lambda client, name: client.getScannerResults(name, wanted, count))

    async def scan_prefixes(
        self, table: str, prefixes: Sequence[bytes], at: int, *, room: int | None = None
    ) -> list[list[Cell]]:
        while prefixes:
            try:
                groups = await self._all_under(table, prefixes, at, room)
            except _NoRoom:
                prefixes = prefixes[: len(prefixes) // 2]
            else:
                return groups if room is None else groups_within(groups, room)
        return []

    async def _all_under(
        self, table: str, prefixes: Sequence[bytes], at: int, room: int | None
    ) -> list[list[Cell]]:
        """The rows under each of `prefixes`. Raises _NoRoom when they clearly have more than
        `room` bytes."""
        wanted = ranges.of_prefixes(prefixes)
        chunks = [wanted[i : i + PREFIXES] for i in range(0, len(wanted), PREFIXES)]
        found = await self._all([partial(self._under, table, chunk, at, room) for chunk in chunks])
        cells = [cell for part in found for cell in part]
        keys = [cell.key for cell in cells]
        groups = []
        for prefix in prefixes:
            end = successor(prefix)
            last = len(keys) if end is None else bisect_left(keys, end)
            groups.append(cells[bisect_left(keys, prefix) : last])
        return groups

    def _under(self, table: str, left: list[ranges.Range], at: int, room: int | None) -> list[Cell]:
        """All rows in the ranges `left`. Raises _NoRoom when they have more than `room` bytes."""
        cells: list[Cell] = []
        count = min(LARGEST_BATCH, self._expected_rows(table, CALL_BYTES))
        while left:
            rows, count = self._scanned(table, left, count, at)
            cells += _visible(rows)
            if room is not None and (room := room - bytes_of_values(rows)) < 0:
                raise _NoRoom
            if len(rows) < count:
                break
            left = ranges.behind(left, rows[-1].key)
            count = _next_batch(rows, None)
        return cells

    # ------------------------------------------------------------ writes

    async def put(self, writes: Mapping[str, Sequence[Put]], ts: int) -> None:
        try:
            await all_settled(
                [
                    self._puts.ask((table, _route(puts)), [(put, ts) for put in puts])
                    for table, puts in writes.items()
                ]
            )
        finally:
            self._unflushed.update(writes)

    async def _put_all(self, route: tuple[str, object], versions: Sequence[_Version]) -> list[None]:
        table, _ = route
        self._require_open()
        await all_settled([self._put(table, chunk) for chunk in _chunks(versions)])
        return [None] * len(versions)

    async def _put(self, table: str, versions: Sequence[_Version]) -> None:
        stored = [(stored_key(key), stored_value(value), ts) for (key, value), ts in versions]
        await self._call_at_once(table, *call_of_puts(self._full_name(table), stored))

    async def check_and_put(
        self, table: str, key: bytes, expected: bytes | None, value: bytes, ts: int
    ) -> bool:
        """As the port says.

        HBase compares the bytes of a row's newest cell and puts at a timestamp that was chosen
        before. If the value that was read went away and came back meanwhile, the comparison
        would succeed and the put might lie below the newest version. So the comparison is made
        with bytes that no other version has. This method writes values with a fresh signature. A
        newest version without a signature is first written again with one, at its own timestamp;
        readers get the same value, whatever has happened since. A row without any version needs no
        signature: HBase compares with absence, and a tombstone is not an empty cell.

        The signature also shows whether a put that HBase's client repeated, and then reports as
        refused, was made by this call.
        """
        try:
            return await self._in_thread(
                partial(self._check_and_put, table, stored_key(key), expected, value, ts)
            )
        finally:
            self._unflushed.add(table)

    def _check_and_put(
        self, table: str, row: bytes, expected: bytes | None, value: bytes, ts: int
    ) -> bool:
        ours = signed(value)
        tried: set[int] = set()
        while True:
            newest = self._newest(table, row, NEWEST)
            stored = newest.value if newest is not None else None
            if any(self._is_at(table, row, ours, version) for version in tried):
                return True
            if _present(stored) != expected:
                return False
            if newest is None:
                version = ts
            elif is_signed(newest.value):
                version = max(ts, newest.timestamp + 1)
            else:
                self._swap(table, row, stored, signed(value_of(newest.value)), newest.timestamp)
                continue
            tried.add(version)
            if self._swap(table, row, stored, ours, version):
                return True

    def _newest(self, table: str, row: bytes, at: int) -> Any | None:
        """The newest column with ts ≤ `at`, also if it is a tombstone; None if there is none."""
        wanted = _get(row, ranges.moment(0, at), 1)
        result = self._call(table, lambda client, name: client.get(name, wanted))
        return result.columnValues[0] if result.columnValues else None

    def _is_at(self, table: str, row: bytes, stored: bytes, version: int) -> bool:
        found = self._newest(table, row, version)
        return found is not None and found.timestamp == version and found.value == stored

    def _swap(self, table: str, row: bytes, old: bytes | None, new: bytes, ts: int) -> bool:
        """Put `new` at `ts` if the newest cell has the bytes `old` (None: there is none)."""
        swapped: bool = self._call(
            table,
            lambda client, name: client.checkAndPut(
                name, row, FAMILY, QUALIFIER, old, _put(row, new, ts)
            ),
            repeatable=False,
        )
        return swapped

    async def flush(self) -> None:
        """As the port says.

        A mutation with FSYNC_WAL forces everything that its region server has logged to disk. So
        one mutation on each server is enough, if its region is still on that server afterwards. A
        region with puts that has left its server, meanwhile or earlier, was written to files when
        it left. If a region is about to leave its server, this method waits for it.
        """
        async with self._flushing:
            self._require_open()
            written, self._unflushed = self._unflushed, set()
            try:
                if written:
                    await self._force_logs({self._full_name(table) for table in written})
            except BaseException:
                self._unflushed |= written
                raise

    async def _force_logs(self, written: set[bytes]) -> None:
        deadline = time.monotonic() + self._timeout_s
        while True:
            chosen = {region.server: region for region in await self._regions(written)}
            if None not in chosen:
                await self._all([partial(self._force_log, region) for region in chosen.values()])
                if set(chosen.values()) <= set(await self._regions(written)):
                    return
            if time.monotonic() > deadline:
                raise Unavailable("HBase's logs cannot be forced to disk: regions are moving.")
            await asyncio.sleep(PAUSES_S[0])

    async def _regions(self, written: set[bytes]) -> list[servers.Region]:
        return await self._in_thread(
            partial(
                self._repeat,
                "The list of regions",
                lambda client: servers.regions(client, self._namespace, written),
                self._timeout_s,
                self._timeout_s * ATTEMPT,
            )
        )

    def _force_log(self, region: servers.Region) -> None:
        """Put a cell with FSYNC_WAL into `region`. It is always the same cell, in a column that no
        read of this store asks for."""
        mark = THRIFT.TPut(
            row=region.first,
            columnValues=[THRIFT.TColumnValue(family=FAMILY, qualifier=FLUSHED, value=b"")],
            timestamp=0,
            durability=THRIFT.TDurability.FSYNC_WAL,
        )
        self._repeat(
            "HBase's log",
            lambda client: client.put(region.table, mark),
            self._timeout_s,
            self._timeout_s * ATTEMPT,
        )

    # ------------------------------------------------------------ upkeep

    async def splits(self, table: str) -> list[bytes]:
        """The first keys of the table's regions, without that of the first region."""
        regions = await self._regions({self._full_name(table)})
        if not regions:
            raise Corruption(f"Table {table} does not exist in the store.")
        return sorted(key for region in regions if (key := key_of(region.first)))

    async def purge(self, table: str, horizon: int) -> int:
        """As the port says.

        Only rows with a version in (last horizon, `horizon`] can have new versions to drop; HBase
        skips files without such rows. Dropped versions are hidden at once, by a delete marker per
        row for all versions up to a timestamp. Compactions remove them from the disks.

        In a file with such rows HBase reads everything for the few rows, and does not answer before
        it has found them. So a search has a deadline of its own, and a table with a long purge is
        not purged again for a multiple of that time; the purge then returns 0.
        """
        await self._in_thread(partial(self._call, table, lambda client, name: None))
        if (began := time.monotonic()) < self._rests_until.get(table, began):
            return 0
        try:
            return await self._purge_since(table, self._purged.get(table, -1), horizon)
        finally:
            if (took_s := time.monotonic() - began) > LONG_PURGE_S:
                self._rests_until[table] = time.monotonic() + RESTS * took_s

    async def _purge_since(self, table: str, since: int, horizon: int) -> int:
        dropped, left = 0, ranges.stored_range(b"", None)
        while since < horizon:
            wanted = ranges.scan(
                [left],
                PURGED_ROWS,
                timeRange=ranges.moment(since + 1, horizon),
                filterString=b"KeyOnlyFilter()",
            )
            rows = await self._in_thread(partial(self._found, table, wanted, PURGED_ROWS))
            keys = [row.row for row in rows]
            if keys:
                dropped += await self._in_thread(partial(self._purge, table, keys, horizon))
            if len(rows) < PURGED_ROWS:
                self._purged[table] = horizon
                break
            left = left._replace(start=keys[-1] + b"\0")
        return dropped

    def _found(self, table: str, wanted: Any, count: int) -> list[Any]:
        """As `_rows`, for a scan that may read many rows to find a few."""
        return self._call(
            table, lambda client, name: client.getScannerResults(name, wanted, count), search=True
        )

    def _purge(self, table: str, rows: Sequence[bytes], horizon: int) -> int:
        """Drop the versions of `rows` that no snapshot ≥ `horizon` reads; returns how many."""
        when = ranges.moment(0, horizon)
        gets = [_get(row, when, ranges.ALL_VERSIONS) for row in rows]
        results = self._call(table, lambda client, name: client.getMultiple(name, gets))
        dropped, deletes = 0, []
        for result in results:
            invisible = _invisible(result.columnValues)
            if invisible:
                dropped += len(invisible)
                deletes.append(_delete(result.row, invisible[0].timestamp))
        if deletes:
            self._call(table, lambda client, name: client.deleteMultiple(name, deletes))
        return dropped

    async def size(self, table: str) -> int:
        """As the port says. A scan over all versions reads lengths instead of values."""
        total, left, count = 0, ranges.stored_range(b"", None), LARGEST_BATCH
        while True:
            wanted = ranges.scan(
                [left],
                count,
                maxVersions=ranges.ALL_VERSIONS,
                filterString=b"KeyOnlyFilter(true)",
                cacheBlocks=False,
            )
            rows = await self._in_thread(partial(self._rows, table, wanted, count))
            for row in rows:
                lengths = [int.from_bytes(cell.value) for cell in row.columnValues]
                total += len(row.row) * len(lengths) + sum(lengths)
            if len(rows) < count:
                return total
            left = left._replace(start=rows[-1].row + b"\0")

    async def close(self) -> None:
        """As the port says. Waits for running calls, each until its deadline at most, and aborts
        searches."""
        if self._closed:
            return
        try:
            await self.flush()
        finally:
            self._closed = True
            self._searching.abort()
            await self._gets.finish()
            await self._puts.finish()
            await asyncio.to_thread(self._threads.shutdown)
            self._gateways.close()

    # ------------------------------------------------------------ calls

    def _require_open(self) -> None:
        if self._closed:
            raise Unavailable("The store is closed.")

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await self._begun(work)

    def _begun(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Run `work` in a thread. Cancelling the future only stops the wait."""
        self._require_open()
        asked = time.monotonic()

        def in_time() -> T:
            if time.monotonic() - asked > self._timeout_s:
                raise Unavailable("HBase is too slow: all connections were busy for too long.")
            return work()

        return asyncio.get_running_loop().run_in_executor(self._threads, in_time)

    async def _all(self, works: Sequence[Callable[[], T]]) -> list[T]:
        """All results in order. After a failure, too, all works have ended."""
        self._require_open()
        if len(works) == 1:
            return [await self._in_thread(works[0])]
        return await all_settled([self._in_thread(work) for work in works])

    async def _call_at_once(self, table: str, function: str, call: bytes) -> Any:
        """The answer to a repeatable call. The event loop makes the call itself if the table is
        known to be sound and a connection is free. Otherwise, or if that fails, `_call` makes it
        in a thread, in the time that is left."""
        began = time.monotonic()
        if table in self._sound:
            with suppress(CallFailed):
                return await self._gateways.call_at_once(
                    function, call, began + self._timeout_s * ATTEMPT
                )
        left_s = self._timeout_s - (time.monotonic() - began)

        def again(client: Client, _name: bytes) -> Any:
            return client.ask(function, call)

        return await self._in_thread(partial(self._call, table, again, timeout_s=left_s))

    def _call(
        self,
        table: str,
        work: Callable[[Client, bytes], T],
        *,
        repeatable: bool = True,
        timeout_s: float | None = None,
        search: bool = False,
    ) -> T:
        """Do `work` on an existing table; repeat it if that may help. Runs in a thread. A `search`
        may take SEARCH_S; it ends when the store is closed."""
        name = self._full_name(table)

        def on_table(client: Client) -> T:
            self._require_sound(table, client)
            return work(client, name)

        attempt_s = self._timeout_s * (ATTEMPT if repeatable else 1)
        if search:
            timeout_s = attempt_s = SEARCH_S
        try:
            return self._repeat(
                f"Table {table}",
                on_table,
                self._timeout_s if timeout_s is None else timeout_s,
                attempt_s,
                repeatable=repeatable,
                gateways=self._searching if search else self._gateways,
            )
        except CallFailed as failed:
            if failed.refused:
                self._require_existence(table)
            raise

    def _require_existence(self, table: str) -> None:
        """Raises Corruption if the table does not exist. HBase's refusals do not say that for
        certain, so this method asks HBase."""
        name = self._name(table)
        if not self._repeat(
            f"Table {table}",
            lambda client: client.tableExists(name),
            self._timeout_s,
            self._timeout_s * ATTEMPT,
        ):
            self._is_missing(table)

    def _repeat(
        self,
        what: str,
        work: Callable[[Client], T],
        timeout_s: float,
        attempt_s: float,
        *,
        repeatable: bool = True,
        gateways: Gateways | None = None,
    ) -> T:
        gateways = gateways or self._gateways
        deadline = time.monotonic() + timeout_s
        for pause in (*PAUSES_S, None):
            try:
                return gateways.call(work, min(deadline, time.monotonic() + attempt_s))
            except CallFailed as failed:
                in_time = pause is not None and time.monotonic() + pause < deadline
                if failed.lasting or (failed.sent and not repeatable) or not in_time:
                    failed.message = f"{what} is out of reach. {failed.message}"
                    failed.args = (failed.message,)
                    raise
            time.sleep(pause or 0)
        raise AssertionError("the last try returns or raises")


class _NoRoom(Exception):
    """The rows have more bytes than the caller has room for."""


def _fewer(rows: int) -> int:
    """The number of rows to ask for after the answer with `rows` rows was too long. An answer with
    two rows never is."""
    return max(rows // FEWER, 1)


def _route(items: Sequence[object]) -> object:
    """Part of the route of a request for `items`: equal for all requests that may share a call."""
    return None if len(items) <= SHARED else object()


def _get(row: bytes, when: Any, versions: int) -> Any:
    return THRIFT.TGet(row=row, columns=COLUMNS, timeRange=when, maxVersions=versions)


def _put(row: bytes, stored: bytes, ts: int) -> Any:
    column = THRIFT.TColumnValue(family=FAMILY, qualifier=QUALIFIER, value=stored)
    return THRIFT.TPut(row=row, columnValues=[column], timestamp=ts)


def _delete(row: bytes, ts: int) -> Any:
    """A delete of all versions ≤ `ts`. A crash may undo it, as it may undo any purge."""
    return THRIFT.TDelete(
        row=row,
        columns=[THRIFT.TColumn(family=FAMILY, qualifier=QUALIFIER, timestamp=ts)],
        deleteType=THRIFT.TDeleteType.DELETE_COLUMNS,
        durability=THRIFT.TDurability.ASYNC_WAL,
    )


def _present(stored: bytes | None) -> bytes | None:
    """The value of a cell; None: there is none, or a tombstone."""
    value = value_of(stored) if stored is not None else TOMBSTONE
    return value if value != TOMBSTONE else None


def _visible_cell(key: bytes, stored: Cell | None) -> Cell | None:
    if stored is None:
        return None
    value = value_of(stored.value)
    return Cell(key, stored.ts, value) if value != TOMBSTONE else None


def _visible(rows: Sequence[Cell]) -> list[Cell]:
    """The rows that readers get from stored rows; nearly all are the same."""
    found = [row if is_plain(row.key, row.value) else _seen(row) for row in rows]
    return [cell for cell in found if cell.value != TOMBSTONE]


def _seen(row: Cell) -> Cell:
    return Cell(key_of(row.key), row.ts, value_of(row.value))


def _next_batch(rows: Sequence[Cell], limit: int | None) -> int:
    """The number of rows to ask for after the full batch `rows`: as many as fit in CALL_BYTES if
    they are as large as `rows`. It may exceed `limit`, lest tombstones are read one by one."""
    if limit == 0:
        return 0
    size = sum([len(key) + len(value) for key, _, value in rows])
    room = max(CALL_BYTES * len(rows) // size, 1)
    return min(LARGEST_BATCH, room, max(4 * len(rows), limit or LARGEST_BATCH))


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


def _invisible(columns: Sequence[Any]) -> Sequence[Any]:
    """The versions that no snapshot ≥ a horizon reads. `columns` are all versions of a row ≤ that
    horizon, newest first.

    Such snapshots read the newest one, unless it is a tombstone: without it the row is absent, too.
    """
    if not columns or value_of(columns[0].value) == TOMBSTONE:
        return columns
    return columns[1:]
