"""Definitions of tables in HBase."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from hornbeam_server.schema.errors import Unavailable
from hornbeam_server.storage.hbase import names, tables
from hornbeam_server.storage.hbase.calls import Calls, Client, T
from hornbeam_server.storage.hbase.cells import stored_key
from hornbeam_server.storage.hbase.interface import THRIFT

DEFINITION_TIMEOUT_S = 60.0


class Definitions:
    """Creates, drops and lists the tables of the namespace."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def create(self, table: str, splits: Sequence[bytes] = ()) -> None:
        """Create a table, unless it exists. If the gateway can, a new table begins with a region
        from each of `splits` on."""
        keys = [stored_key(key) for key in splits]
        await self._define(table, partial(self._create, table, keys))

    def _create(self, table: str, splits: list[bytes], client: Client) -> None:
        name = self._calls.name(table)
        self._calls.sound.discard(table)
        if not client.tableExists(name):
            try:
                self._make(client, name, splits)
            except self._calls.kind.refusals:
                if not client.tableExists(name):  # else another process was faster
                    raise
        self._calls.require_sound(table, client)
        if not client.isTableEnabled(name):
            raise Unavailable(
                f"Table {table} is disabled in HBase, or is being made.",
                cure="Enable it; if it was being dropped, drop it again.",
            )

    def _make(self, client: Client, name: Any, splits: list[bytes]) -> None:
        """Create a table that did not exist shortly before."""
        self._make_namespace(client)
        client.createTable(tables.definition(name), splits)

    def _make_namespace(self, client: Client) -> None:
        if self._calls.namespace in client.listNamespaces():
            return
        try:
            client.createNamespace(THRIFT.TNamespaceDescriptor(name=self._calls.namespace))
        except THRIFT.TIOError:
            if self._calls.namespace not in client.listNamespaces():
                raise

    async def drop(self, table: str) -> None:
        await self._define(table, partial(self._drop, self._calls.name(table)))
        self._calls.sound.discard(table)

    def _drop(self, name: Any, client: Client) -> None:
        try:
            if client.tableExists(name) and client.isTableEnabled(name):
                client.disableTable(name)
            if client.tableExists(name):
                client.deleteTable(name)
        except self._calls.kind.refusals:
            if client.tableExists(name):  # else another process was faster
                raise

    async def names(self) -> list[str]:
        return await self._define("", self._tables)

    def _tables(self, client: Client) -> list[str]:
        try:
            found = client.getTableNamesByNamespace(self._calls.namespace)
        except THRIFT.TIOError:
            if self._calls.namespace in client.listNamespaces():
                raise
            return []
        return sorted(names.decode(name.qualifier) for name in found)

    async def _define(self, table: str, work: Callable[[Client], T]) -> T:
        what = f"Table {table}" if table else "The list of tables"
        return await self._calls.in_thread(
            partial(self._calls.repeat, what, work, DEFINITION_TIMEOUT_S, DEFINITION_TIMEOUT_S)
        )
