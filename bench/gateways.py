"""The table store over HBase's Thrift 1 gateways next to that over Thrift 2, on one HBase: puts,
gets, scans, scans of prefixes, check-and-puts and purges.

The region servers force every put to disk, as Thrift 1 needs it. Both stores do the same work in
turn, each in a table that it has made itself. A ratio is that of one round: the time over Thrift 1
to the time over Thrift 2.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Annotated

from bench.measure import Figure, ratios, seconds
from bench.nodes import run_on_cluster
from bench.options import EMPTIED, REPORT, ROUNDS, parse
from hornbeam_server.cluster import Cluster
from hornbeam_server.demo.ending import ended_by_sigterm
from hornbeam_server.storage.hbase import purging
from hornbeam_server.storage.ports import NEWEST, Put, TableStore
from hornbeam_server.storage.source import HBaseSource, open_hbase

HBASE: Mapping[str, str | int] = {
    "hbase.wal.hsync": "true",
    "hbase.hstore.time.to.purge.deletes": 24 * 3_600_000,
}
NAMESPACE = "gateways"
THRIFT_1, THRIFT_2 = "Thrift 1", "Thrift 2"
PREFIXES, UNDER, CHANGED = 100, 10, 1_000
VALUE = b"v" * 100


@dataclass(frozen=True, slots=True)
class Options:
    """The options that `--help` explains."""

    rows: Annotated[int, "thousands of rows of the table, of 100 bytes each"] = 20
    repeats: Annotated[int, "repetitions of a short operation in a round"] = 50
    rounds: Annotated[int, ROUNDS] = 5
    folder: Annotated[Path, EMPTIED] = Path("var/bench-gateways")
    output: Annotated[Path, REPORT] = Path("bench/reports/gateways.json")


def parse_options(arguments: list[str] | None = None) -> Options:
    return parse(Options, "bench.gateways", __doc__, arguments)


def key(number: int) -> bytes:
    return b"%08d" % number


class Work:
    """The measured operations on the table of one store."""

    def __init__(self, store: TableStore, table: str, options: Options) -> None:
        self._store, self._table, self._rows = store, table, options.rows * 1_000
        self._clock = count(2)
        often = options.repeats
        self.operations: Mapping[str, tuple[int, Callable[[], Awaitable[None]]]] = {
            "put of 1 row": (often, partial(self._put, 1)),
            "put of 100 rows": (often, partial(self._put, 100)),
            "get of 1 row": (often, partial(self._get, 1)),
            "get of 100 rows": (often, partial(self._get, 100)),
            f"scan of {self._rows} rows": (1, self._scan),
            f"{PREFIXES} prefixes of {UNDER} rows each": (often // 10 + 1, self._prefixes),
            "check-and-put": (often, self._check),
            f"{CHANGED} puts, and a purge among {self._rows} rows": (1, self._purge),
        }
        """By name: how often it is done in a round, and what is done."""

    async def fill(self) -> None:
        await self._store.create_table(self._table)
        for begin in range(0, self._rows, CHANGED):
            await self._write(begin, CHANGED, 1)

    async def _write(self, begin: int, rows: int, ts: int) -> None:
        puts = [Put(key(i), VALUE) for i in range(begin, begin + rows)]
        await self._store.put({self._table: puts}, ts)

    async def _put(self, rows: int) -> None:
        ts = next(self._clock)
        await self._write(ts * 97 % (self._rows - rows), rows, ts)

    async def _get(self, rows: int) -> None:
        first = next(self._clock) * 89
        keys = [key((first + i * 17) % self._rows) for i in range(rows)]
        assert all(await self._store.get(self._table, keys, NEWEST))

    async def _scan(self) -> None:
        scan = self._store.scan_values(self._table, b"", key(self._rows), NEWEST)
        assert sum([len(batch) async for batch in scan]) == self._rows

    async def _prefixes(self) -> None:
        prefixes = [key(i * UNDER)[:-1] for i in range(PREFIXES)]
        found = await self._store.scan_prefixes(self._table, prefixes, NEWEST)
        assert [len(group) for group in found] == [UNDER] * PREFIXES

    async def _check(self) -> None:
        ts = next(self._clock)
        assert await self._store.check_and_put(self._table, b"x" + key(ts), None, VALUE, ts)

    async def _purge(self) -> None:
        ts = next(self._clock)
        await self._write(0, CHANGED, ts)
        assert await self._store.purge(self._table, ts) >= CHANGED


@contextlib.asynccontextmanager
async def opened(cluster: Cluster, options: Options) -> AsyncIterator[Mapping[str, Work]]:
    """The work of each store. That over Thrift 2 makes the namespace."""
    works = {}
    async with contextlib.AsyncExitStack() as closing:
        for name, thrift, address in (
            (THRIFT_2, 2, cluster.thrift),
            (THRIFT_1, 1, cluster.thrift1),
        ):
            store = open_hbase(HBaseSource((str(address),), NAMESPACE, thrift))
            closing.push_async_callback(store.close)
            works[name] = Work(store, f"thrift{thrift}", options)
            await works[name].fill()
        yield works


async def measured(cluster: Cluster, options: Options, show: Callable[[str], None]) -> list[Figure]:
    purging.LONG_PURGE_S = math.inf  # tables whose purge takes long are purged all the same
    figures: list[Figure] = []
    show("filling the tables")
    async with opened(cluster, options) as works:
        for operation, (often, _) in works[THRIFT_1].operations.items():
            show(operation)
            taken = await _in_turns(works, operation, options.rounds)
            for name in (THRIFT_1, THRIFT_2):
                each = tuple(1_000 * s / often for s in taken[name])
                figures.append(Figure(name, operation, "ms", each))
            ratio = ratios(taken[THRIFT_1], taken[THRIFT_2])
            figures.append(Figure(f"{THRIFT_1} / {THRIFT_2}", operation, "×", ratio))
    return figures


async def _in_turns(
    works: Mapping[str, Work], operation: str, rounds: int
) -> dict[str, list[float]]:
    """Seconds of an operation with its repetitions, by store and round. A first round warms up."""
    taken: dict[str, list[float]] = {name: [] for name in works}
    for number in range(rounds + 1):
        for name, work in works.items():
            often, do = work.operations[operation]

            async def repeat(often: int = often, do: Callable[[], Awaitable[None]] = do) -> None:
                for _ in range(often):
                    await do()

            took_s = await seconds(repeat)
            if number:
                taken[name].append(took_s)
    return taken


def main() -> None:
    options = parse_options()
    run_on_cluster(
        options.folder,
        options.output,
        asdict(options),
        lambda cluster, show: asyncio.run(measured(cluster, options, show)),
        HBASE,
    )


if __name__ == "__main__":
    with ended_by_sigterm():
        main()
