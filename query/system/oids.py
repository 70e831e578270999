"""OIDs: the numbers by which the system catalog refers to objects.

The OID of an object is a hash of its kind and its stored name with its incarnation. So it is the
same on all nodes and after a restart, it needs no record in the catalog, and it stays when the
object is renamed, as in PostgreSQL. An object that is dropped and created again gets another one.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

PG_CATALOG, PUBLIC_SPACE, INFORMATION = 11, 2200, 13_000
"""The OIDs of the schemas that always exist."""
OWNER = 10
"""The OID of the only user of SQL."""
DATABASE_OID = 5
FIRST = 16_384
"""The minimum OID of an object of the schema; PostgreSQL's own objects are below it."""
_END = 1 << 31
"""Clients read OIDs into integers of 32 bits, also signed ones."""

Key = tuple[str, ...]


def oids(keys: Iterable[Key]) -> dict[Key, int]:
    """A distinct OID for each object. Of two with the same hash, the second in the order of their
    keys gets the next number."""
    found: dict[Key, int] = {}
    taken: set[int] = set()
    for key in sorted(set(keys)):
        oid = _hashed(key)
        while oid in taken:
            oid = oid + 1 if oid + 1 < _END else FIRST
        taken.add(oid)
        found[key] = oid
    return found


def _hashed(key: Key) -> int:
    digest = blake2b("\0".join(key).encode(), digest_size=8).digest()
    return FIRST + int.from_bytes(digest, "big") % (_END - FIRST)
