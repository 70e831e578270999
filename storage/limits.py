"""Maximum sizes of a stored row and of a message between nodes.

The limits of a row are those of HBase with its default settings, and the same for all stores. They
are checked before a row is logged: a logged row must be put, and a transaction whose row the store
always refuses would keep its locks without end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hornbeam_server.schema.errors import LimitExceeded
from hornbeam_server.storage.ports import MESSAGE_BYTES, Put

MAX_KEY_BYTES = 32_000
MAX_ROW_BYTES = 10_000_000


def require_storable(writes: Mapping[str, Sequence[Put]]) -> None:
    """Raises LimitExceeded. `writes` are puts by table."""
    for table, puts in writes.items():
        for key, value in puts:
            if len(key) > MAX_KEY_BYTES:
                raise _too_large(f"A key for {table}", len(key), MAX_KEY_BYTES)
            if len(value) > MAX_ROW_BYTES:
                raise _too_large(f"A row for {table}", len(value), MAX_ROW_BYTES)


def require_sendable(what: str, data: bytes) -> None:
    """Raises LimitExceeded if `data` is longer than MESSAGE_BYTES. `what` names it in the error."""
    if len(data) > MESSAGE_BYTES:
        raise LimitExceeded(
            f"{what} has {len(data)} bytes; {MESSAGE_BYTES} are allowed.",
            cure="Write fewer rows in one transaction.",
        )


def _too_large(what: str, found: int, limit: int) -> LimitExceeded:
    return LimitExceeded(
        f"{what} has {found} bytes; {limit} are the most that can be stored.",
        cure="Keep large values in another store, and their addresses here. A row of a view holds"
        " the columns of all its relations; the answer of RETURNING is stored as a row too.",
    )
