"""What the parts that both HBase adapters share ask of the kind of their gateways."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from hornbeam_server.storage.hbase.ranges import Range
from hornbeam_server.storage.ports import Cell

Call = tuple[str, bytes]
"""A function of a gateway and an encoded call of it."""


class Kind(Protocol):
    """Thrift 1 or Thrift 2: how their gateways are called. A `name` is that of a table as the
    functions for definitions take it, `table` is namespace:table."""

    number: int
    """1 or 2, as `getThriftServerType` reports it."""
    start: str
    """The command that starts such a gateway."""
    refusals: tuple[type[Exception], ...]
    """Errors that HBase reports through a gateway. Each has a `message`."""
    ranges_per_call: int
    """Maximum number of key ranges in one scan."""

    def client(self, stream: Any) -> Any:
        """A client that writes to `stream` and reads from it. It has the functions of the
        gateway, and those of `messages.Client`."""

    def answer_to(self, name: str, data: bytes) -> Any:
        """The result of function `name` in the answer `data`. Raises the error that the answer
        holds, Incomplete, and errors of thriftpy2 when the bytes make no sense."""

    def name(self, namespace: str, table: str) -> Any:
        """The name of a table."""

    def difference(self, client: Any, name: Any) -> str:
        """How a table differs from Hornbeam's tables where they must agree, as far as the gateway
        shows it; empty if it does not."""

    def calls_of_puts(
        self, table: bytes, versions: Sequence[tuple[bytes, bytes, int]], *, forced: bool
    ) -> list[Call]:
        """Calls that put `versions`: stored row, stored value, timestamp. `forced`: each server
        forces its log to disk before it answers, if the gateway can ask for that."""

    def call_of_gets(self, table: bytes, rows: Sequence[bytes], behind: int) -> Call:
        """A call that gets the newest versions of stored `rows` with timestamps less than
        `behind`."""

    def in_order(self, rows: Sequence[bytes], found: list[Any]) -> list[Cell | None]:
        """The answer to `call_of_gets` as one stored cell for each of `rows`; None for absent
        rows."""

    def scan(self, parts: Sequence[Range], rows: int, at: int) -> Any:
        """A scan of the first `rows` rows in `parts`, disjoint and in order, as of `at`. The
        client's `scanned` takes it."""

    def reverse_scan(self, whole: Range, rows: int, at: int) -> Any:
        """A scan of the last `rows` rows in `whole`, from the last row on, as of `at`. Rows outside
        of `whole` may come before and behind them."""

    def call_of_scan(self, table: bytes, scan: Any, count: int) -> Call | None:
        """A call that reads the first `count` rows of `scan`; None if it takes several calls."""

    def meta_rows(self, client: Any, start: bytes, stop: bytes) -> list[MetaRow]:
        """The rows of `hbase:meta` with start ≤ key < stop."""


META_COLUMNS = (b"server", b"serverstartcode", b"state")
"""The qualifiers that `meta_rows` reads."""
MetaRow = tuple[bytes, dict[bytes, bytes]]
"""The key of a row of `hbase:meta`, and the values of its columns of the family `info` by their
qualifiers."""
