"""The claim on the catalog: the right of one process to put versions of it into force."""

from __future__ import annotations

import struct
from dataclasses import replace

from hornbeam_server.schema.catalog import Catalog, Forest
from hornbeam_server.schema.codec import decode_catalog
from hornbeam_server.schema.errors import Corruption, StalePlan, Unavailable
from hornbeam_server.schema.model import Schema
from hornbeam_server.storage.ports import NEWEST, Clock, Coordination, TableStore, Versioned

TABLE = "s.catalog"
VERSION = struct.Struct(">Q")
_PATH = "catalog"
"""Path of the coordination service's value that names the version in force."""
NO_CATALOG = Catalog(0, Schema(()), Forest(()))
"""The catalog in force before any other. A node has it until it learns the version in force."""
RETRY_S = 0.1
RETRY_MAX_S = 10.0


class Replaced(Unavailable):
    """Another process owns the catalog now."""


class Claim:
    """The right to put catalog versions into force, until another process takes it."""

    def __init__(
        self, coordination: Coordination, clock: Clock, catalog: Catalog, held: int
    ) -> None:
        self._coordination = coordination
        self._clock = clock
        self.number = held
        """Higher than the number of every earlier claim."""
        self.catalog = catalog
        """The catalog that was in force when the claim was made."""

    @classmethod
    async def take(cls, store: TableStore, coordination: Coordination, clock: Clock) -> Claim:
        """Take the claim from its previous owner. In a new database an empty catalog, version 0,
        is in force. Raises Unavailable, also when another process claims at the same time."""
        known = await coordination.read(_PATH)
        version = int(known.value) if known is not None else await _newest_version(store)
        try:
            held = await coordination.write(
                _PATH, str(version).encode(), known.version if known is not None else 0
            )
        except StalePlan as error:
            raise Replaced(error.message) from None
        return cls(coordination, clock, await load_catalog(store, version), held)

    def require_session(self) -> None:
        """Raises Replaced when another process may own the catalog."""
        if not self._coordination.alive():
            raise Replaced("The session with the coordination service has ended.")

    async def put_in_force(self, version: int) -> None:
        """Put a version into force and renew the claim. Once the first attempt is sent there is no
        way back: the call repeats it until the outcome is known. Raises Replaced.
        """
        value = str(version).encode()
        while self._coordination.alive():
            try:
                self.number = await self._written(value)
            except Replaced:
                raise
            except Unavailable:
                await self._clock.sleep(RETRY_S)
            else:
                return
        raise Replaced("The session with the coordination service has ended.")

    async def _written(self, value: bytes) -> int:
        try:
            return await self._coordination.write(_PATH, value, self.number)
        except StalePlan:
            known = await self._coordination.read(_PATH)
            if known != Versioned(value, self.number + 1):  # else: our earlier attempt
                raise Replaced("Another process has taken the catalog over.") from None
            return known.version


async def _newest_version(store: TableStore) -> int:
    """The newest stored version, for databases older than the value in the coordination service."""
    async for batch in store.scan(TABLE, b"", None, NEWEST, reverse=True, limit=1):
        for cell in batch:
            version: int = VERSION.unpack(cell.key)[0]
            return version
    return 0


async def load_catalog(store: TableStore, version: int) -> Catalog:
    """The catalog of a version that is or was in force. Raises Corruption, Unavailable."""
    if version == 0:
        return NO_CATALOG
    (cell,) = await store.get(TABLE, [VERSION.pack(version)], NEWEST)
    if cell is None:
        raise Corruption(f"Version {version} of the catalog is in force, and not stored.")
    catalog = decode_catalog(cell.value)
    return replace(catalog, since=catalog.since or cell.ts)
