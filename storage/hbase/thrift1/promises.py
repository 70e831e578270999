"""Two promises of a table store that Thrift 1 cannot make: HBase's configuration makes them.

- `hbase.wal.hsync`: every put is forced to disk, as `flush` promises for earlier puts.
- `hbase.hstore.time.to.purge.deletes`: delete markers stay for a day, so that they hide late copies
  of puts below them (`storage.hbase.tables`).

Region servers show their configuration at their web page. Each one that serves a table of the
namespace is asked when a table is created, as a node does at its start, and each other one before
the first put into one of its tables or in a flush. Puts into a region that has left a server before
that server was asked were written to files when the region left.

If no server that was asked keeps the promises, a setting is wrong. If one does not that came later,
the store goes on without it: what needs that server fails until it is set up, and so do flushes.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import time
from collections.abc import Collection, Mapping, Sequence
from functools import partial

from hornbeam_server.schema.errors import InvalidRequest, Unavailable
from hornbeam_server.storage.hbase import servers
from hornbeam_server.storage.hbase.calls import PAUSES_S, Calls
from hornbeam_server.storage.hbase.tables import MARKERS_STAY

((_MARKERS, _A_DAY_MS),) = MARKERS_STAY.items()
_FORCED = "hbase.wal.hsync"
_PAGE = "/conf?format=json"
_PAGE_TIMEOUT_S = 5.0
VOUCHED = 0
"""In place of a port: the operator has made sure of the promises."""


class Promises:
    """Makes sure that the region servers keep the promises. `port` is that of their web page, or
    VOUCHED."""

    def __init__(self, calls: Calls, port: int) -> None:
        self._calls, self._port = calls, port
        self.unflushed: set[str] = set()
        """Tables with puts that have returned, or failed, since the last flush."""
        self._kept_by: set[bytes] = set()
        """Processes of region servers that keep the promises."""
        self._tables: set[str] = set()
        """Tables whose region servers have been asked."""
        self._asking = asyncio.Lock()

    async def of_created(self, table: str) -> None:
        """Ask the servers of all tables of the namespace, if `table` is new to this store. Raises
        InvalidRequest if one of them does not keep the promises, and none was found yet that does;
        otherwise, or if it cannot be asked, Unavailable."""
        if table not in self._tables:
            async with self._asking:
                await self._require(None)
                self._tables.add(table)

    async def before_puts(self, tables: Collection[str]) -> None:
        """Ask the servers of tables that this store has not used yet. Raises the errors of
        `of_created`."""
        if new := set(tables) - self._tables:
            async with self._asking:
                await self._require(new)
                self._tables |= new

    def forget(self, table: str) -> None:
        """Forget a table that was dropped."""
        self._tables.discard(table)
        self.unflushed.discard(table)

    async def flush(self) -> None:
        """Ask the servers of written tables, if they have not been asked. Their puts are on disk
        already. Raises the errors of `of_created`."""
        async with self._asking:
            self._calls.require_open()
            written, self.unflushed = self.unflushed, set()
            try:
                if written:
                    await self._require(written)
            except BaseException:
                self.unflushed |= written
                raise

    async def _require(self, tables: Collection[str] | None) -> None:
        """Ask the servers of `tables` (None: of all). Raises the errors of `of_created`."""
        if self._port == VOUCHED:
            return
        deadline = time.monotonic() + self._calls.timeout_s
        while True:
            serving = {region.server for region in await servers.regions(self._calls, tables)}
            asked = [server for server in serving if server and server not in self._kept_by]
            await self._ask(asked)
            if None not in serving:
                return
            if time.monotonic() > deadline:
                raise Unavailable(
                    "It is not known which servers of HBase have the last puts: regions are"
                    " moving.",
                    cure="Try again when HBase has no regions in transition.",
                )
            await asyncio.sleep(PAUSES_S[0])

    async def _ask(self, asked: Sequence[bytes]) -> None:
        """Note that these servers keep the promises. Raises the errors of `of_created`."""
        hosts = [server.partition(b",")[0].rpartition(b":")[0].decode() for server in asked]
        found = await self._calls.all([partial(_configuration, host, self._port) for host in hosts])
        error = Unavailable if self._kept_by else InvalidRequest
        for host, settings in zip(hosts, found, strict=True):
            if wrong := broken(settings):
                raise error(
                    f"HBase's region server {host} is not set up for Thrift 1 gateways: {wrong}.",
                    cure="Set it in hbase-site.xml of all region servers, and start these again;"
                    " or use Thrift 2 gateways, which do not need that.",
                )
        self._kept_by.update(asked)


def _configuration(host: str, port: int) -> Mapping[str, str]:
    """The settings of the server whose web page is at `port`. Raises Unavailable."""
    where = f"http://{host}:{port}{_PAGE}"
    cure = (
        "Let this machine reach the page, and correct the setting region_server_page_port; or make"
        f" sure that all region servers have {_FORCED} = true and {_MARKERS} = {_A_DAY_MS} or more,"
        f" and set it to {VOUCHED}."
    )
    connection = http.client.HTTPConnection(host, port, timeout=_PAGE_TIMEOUT_S)
    try:
        connection.request("GET", _PAGE, headers={"Accept": "application/json"})
        with connection.getresponse() as answer:
            if answer.status != http.HTTPStatus.OK:
                raise Unavailable(f"{where} answers {answer.status}.", cure=cure)
            return {each["key"]: each["value"] for each in json.load(answer)["properties"]}
    except (OSError, http.client.HTTPException) as error:
        raise Unavailable(f"{where} cannot be read: {error}.", cure=cure) from None
    except (ValueError, KeyError, TypeError):
        raise Unavailable(f"{where} is not the configuration of HBase.", cure=cure) from None
    finally:
        connection.close()


def broken(settings: Mapping[str, str]) -> str:
    """How `settings` break the promises; empty if they do not."""
    wrong = []
    forced = settings.get(_FORCED, "not set")
    if forced.strip().lower() != "true":
        wrong.append(f"{_FORCED} is {forced}, not true")
    stay = settings.get(_MARKERS, "not set")
    if not (stay.strip().isdecimal() and int(stay) >= int(_A_DAY_MS)):
        wrong.append(f"{_MARKERS} is {stay}, not {_A_DAY_MS} or more")
    return " and ".join(wrong)
