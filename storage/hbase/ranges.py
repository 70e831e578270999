"""Scans of a table for Thrift 2: key ranges, time ranges, and many key ranges in one call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from hornbeam_server.storage.codec.keys import successor
from hornbeam_server.storage.hbase.cells import COLUMNS, stored_key
from hornbeam_server.storage.hbase.interface import THRIFT
from hornbeam_server.storage.ports import NEWEST

ALL_VERSIONS = (1 << 31) - 1


class Range(NamedTuple):
    """Keys with start ≤ key < end, as HBase stores them; an empty `end` is no bound."""

    start: bytes
    end: bytes


def stored_range(start: bytes, end: bytes | None) -> Range:
    return Range(stored_key(start), b"" if end is None else stored_key(end))


def of_prefixes(prefixes: Iterable[bytes]) -> list[Range]:
    """Disjoint ranges of all keys that start with one of `prefixes`, in order."""
    ranges: list[Range] = []
    last: bytes | None = None
    for prefix in sorted(prefixes):
        if last is None or not prefix.startswith(last):
            last = prefix
            ranges.append(stored_range(prefix, successor(prefix)))
    return ranges


def behind(ranges: Sequence[Range], key: bytes) -> list[Range]:
    """The parts of `ranges` with keys greater than `key`."""
    start = key + b"\0"
    left = [part for part in ranges if not part.end or part.end > start]
    return [part._replace(start=max(part.start, start)) for part in left]


def time_range(oldest: int, newest: int) -> Any:
    """The time range of versions with oldest ≤ ts ≤ newest."""
    return THRIFT.TTimeRange(minStamp=oldest, maxStamp=after_timestamp(newest))


def after_timestamp(newest: int) -> int:
    """The exclusive bound of timestamps ≤ `newest`. It is NEWEST at most: HBase uses that timestamp
    itself, so no version has it."""
    return min(newest + 1, NEWEST)


def scan(ranges: Sequence[Range], rows: int, **options: Any) -> Any:
    """A scan of the first `rows` rows in `ranges`, which are disjoint and in order."""
    if len(ranges) > 1:
        options["filterBytes"] = _multi_row_range(ranges)
    return THRIFT.TScan(
        startRow=ranges[0].start,
        stopRow=ranges[-1].end,
        columns=COLUMNS,
        caching=rows,
        limit=rows,
        **options,
    )


def reverse_scan(whole: Range, rows: int, **options: Any) -> Any:
    """A scan of the last `rows` rows in `whole`, from the last row on. Rows outside of `whole` may
    come before and behind them: see `bounds_backwards`."""
    first, stop = bounds_backwards(whole)
    return THRIFT.TScan(
        startRow=first,
        stopRow=stop,
        columns=COLUMNS,
        caching=rows + 1,
        limit=rows + 1,
        reversed=True,
        **options,
    )


def bounds_backwards(whole: Range) -> tuple[bytes, bytes]:
    """The keys at which HBase begins a reverse scan of `whole`, and before which it stops.

    HBase begins at the key `end` and stops short of a key before `start`. So `end` itself may come
    first, and in theory keys that are a little less than `start` come last.
    """
    return whole.end, _shortly_before(whole.start)


def _shortly_before(key: bytes) -> bytes:
    """A key less than `key`, with hardly any keys between the two."""
    if key.endswith(b"\0"):
        return key[:-1]
    return key[:-1] + bytes([key[-1] - 1]) + b"\xff" * 8 if key else b""


def _multi_row_range(ranges: Sequence[Range]) -> bytes:
    """HBase's MultiRowRangeFilter over `ranges`, in protocol buffers (Filter.proto)."""
    rows = b"".join(
        _field(1, _field(1, start) + b"\x10\x01" + _field(3, end) + b"\x20\x00")
        for start, end in ranges
    )
    return _field(1, b"org.apache.hadoop.hbase.filter.MultiRowRangeFilter") + _field(2, rows)


def _field(number: int, content: bytes) -> bytes:
    """A length-delimited field."""
    size, length = bytearray(), len(content)
    while length > 127:
        size.append(length & 127 | 128)
        length >>= 7
    size.append(length)
    return bytes([number << 3 | 2]) + bytes(size) + content
