"""The table store over HBase, through its Thrift 1 gateways.

What Thrift 1 cannot do is done by other means, at a price: `claims` (check-and-put), `purging`
(purge and size), `promises` (forced logs, and delete markers that stay). Reads and puts are those
of `storage.hbase.base`. Tables are the same as through Thrift 2, so a database may change to
Thrift 2 gateways and back; all its nodes use one kind at any time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from hornbeam_server.storage.hbase.base import GatewayStore
from hornbeam_server.storage.hbase.calls import TIMEOUT_S, Calls
from hornbeam_server.storage.hbase.cells import stored_key
from hornbeam_server.storage.hbase.thrift1.claims import Claims
from hornbeam_server.storage.hbase.thrift1.definitions import Definitions
from hornbeam_server.storage.hbase.thrift1.kind import THRIFT_1
from hornbeam_server.storage.hbase.thrift1.promises import Promises
from hornbeam_server.storage.hbase.thrift1.purging import Purging, size_of
from hornbeam_server.storage.ports import Put


class HBaseThrift1Store(GatewayStore):
    """A `TableStore` in one namespace of HBase, which must exist. `page_port` is the port of the
    region servers' web page; 0: the operator has made sure that they keep the `promises`."""

    def __init__(
        self,
        gateways: Sequence[tuple[str, int]],
        *,
        namespace: str = "hornbeam",
        page_port: int,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        calls = Calls(gateways, namespace, timeout_s, THRIFT_1)
        self._promises, self._claims = Promises(calls, page_port), Claims(calls)
        super().__init__(calls, Definitions(calls), self._promises, Purging(calls, self._claims))

    async def create_table(self, table: str, splits: Sequence[bytes] = ()) -> None:
        """As the port says. Raises InvalidRequest if there is no namespace, and the errors of
        `Promises.of_created`."""
        await super().create_table(table, splits)
        await self._promises.of_created(table)

    async def drop_table(self, table: str) -> None:
        await super().drop_table(table)
        self._promises.forget(table)

    async def put(
        self, writes: Mapping[str, Sequence[Put]], ts: int, *, forced: bool = False
    ) -> None:
        await self._promises.before_puts(writes)
        await super().put(writes, ts)
        if forced:  # all puts are, but by a promise of the servers
            await self.flush()

    async def check_and_put(
        self, table: str, key: bytes, expected: bytes | None, value: bytes, ts: int
    ) -> bool:
        """As the port says, against all other calls of this method: a `put` of the same row at the
        same time is not compared (`claims`)."""
        await self._promises.before_puts([table])
        try:
            return await self._calls.in_thread(
                partial(self._claims.check_and_put, table, stored_key(key), expected, value, ts)
            )
        finally:
            self._flushing.unflushed.add(table)

    async def size(self, table: str) -> int:
        """As the port says. Versions that newer ones hide are estimated behind the first rows: see
        `size_of`."""
        return await size_of(self._calls, table)
