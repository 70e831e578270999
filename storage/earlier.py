"""Reads of a store in which some tables are read at an earlier snapshot than the others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Sequence, Set

from hornbeam_server.storage.ports import Cell, TableReader


class EarlierTables(TableReader):
    """`store`, whose `tables` are read at snapshot `at` by readers of any later one."""

    def __init__(self, store: TableReader, tables: Set[str], at: int) -> None:
        self._store = store
        self._tables = tables
        self._earlier = at

    @property
    def remote(self) -> bool:
        return self._store.remote

    def _at(self, table: str, at: int) -> int:
        return min(at, self._earlier) if table in self._tables else at

    def get(
        self, table: str, keys: Sequence[bytes], at: int, *, room: int | None = None
    ) -> Awaitable[list[Cell | None]]:
        return self._store.get(table, keys, self._at(table, at), room=room)

    async def scan_prefixes(
        self, table: str, prefixes: Sequence[bytes], at: int, *, room: int | None = None
    ) -> list[list[Cell]]:
        return await self._store.scan_prefixes(table, prefixes, self._at(table, at), room=room)

    def scan(
        self,
        table: str,
        start: bytes,
        end: bytes | None,
        at: int,
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> AsyncIterator[list[Cell]]:
        earlier = self._at(table, at)
        return self._store.scan(table, start, end, earlier, reverse=reverse, limit=limit)

    def scan_values(
        self,
        table: str,
        start: bytes,
        end: bytes | None,
        at: int,
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> AsyncIterator[list[bytes]]:
        earlier = self._at(table, at)
        return self._store.scan_values(table, start, end, earlier, reverse=reverse, limit=limit)
