"""API keys: their form, and how they are stored.

A key is `hb_<id>_<secret>`. The id, 12 hexadecimal digits, is public and names the key everywhere,
also in logs. The secret has 64 digits. The database stores the SHA-256 of the whole key. A slow
hash (bcrypt, Argon2) would be wrong here: it protects secrets that people choose, but 256 random
bits cannot be guessed at any speed, and every request would pay for it. Beside it stands a verifier
for SCRAM, by which clients of PostgreSQL's protocol log in without sending the key.

Keys are rows of a system table, read and written through the store's port by compare-and-set, so
all nodes over one store share them. A row is never deleted: a revoked key stays in the list, and
its id is never used again.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from hornbeam_server.api.security.roles import Grant, Principal, Role
from hornbeam_server.pgwire.session import scram
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import Corruption, InvalidRequest, NotFound, Unavailable
from hornbeam_server.storage.local.system import RandomIds
from hornbeam_server.storage.ports import NEWEST, TableStore

TABLE = "s.keys"
BOOTSTRAP = "bootstrap"
"""Name of the key from the setting `bootstrap_key`."""
_KEY = re.compile(r"hb_([0-9a-f]{12})_[0-9a-f]{64}")
ID = slice(3, 15)
"""Position of the id in a key. In any other text these characters are no id of a key."""
_ATTEMPTS = 10


class ApiKey(msgspec.Struct, frozen=True, array_like=True):
    """One row of the table. Fields are only ever appended. `grants` are by stored name
    (`Catalog.stored_name`), so they follow a relation or view that gets another name. `expires_ms`
    0: never; `revoked_ms` 0: not revoked.

    `repr` and the list of keys leave out the digest and the verifier: no reader needs them.
    """

    id: str
    digest: bytes
    name: str
    role: Role
    grants: dict[str, Grant] | None
    created_ms: int
    created_by: str = ""
    """Id of the key with which this key was created."""
    expires_ms: int = 0
    revoked_ms: int = 0
    verifier: str = ""
    """With which SCRAM checks a client that has the key, in PostgreSQL's form. "": the key was
    created by an older version, or comes from the settings."""

    def __repr__(self) -> str:
        return f"<ApiKey {self.id} {self.name!r} {self.role}>"

    def principal(self, catalog: Catalog) -> Principal:
        """The principal of the key while `catalog` is in force. A grant on a relation or view that
        is not in it has no effect."""
        named = catalog.named
        grants = self.grants
        if grants is not None:
            grants = {named[stored]: each for stored, each in grants.items() if stored in named}
        return Principal(self.id, self.name, self.role, grants)

    def state(self, wall_ms: int) -> str:
        if self.revoked_ms:
            return "revoked"
        return "expired" if self.expires_ms and self.expires_ms <= wall_ms else "active"


class Fresh(NamedTuple):
    """A new key with its secret, which the answer to its creation shows once and nothing stores."""

    id: str
    text: str

    def __repr__(self) -> str:
        return f"<Fresh {self.id}>"


def fresh() -> Fresh:
    """A new key from the system's source of randomness, even if other ids are simulated."""
    digits = RandomIds().new() + RandomIds().new() + RandomIds().new()[:12]
    return Fresh(digits[64:], f"hb_{digits[64:]}_{digits[:64]}")


def verifier_of(text: str) -> str:
    """The verifier of the key `text`. No client can log in with it."""
    return str(scram.verifier_of(text, bytes.fromhex(RandomIds().new())))


def digest_of(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def matches(text: str, key: ApiKey) -> bool:
    """Is `text` this key? The time of the comparison does not depend on `text`."""
    return hmac.compare_digest(digest_of(text), key.digest)


def id_in(text: str) -> str | None:
    """The public id in the text of a key; None if the text is no key."""
    found = _KEY.fullmatch(text)
    return None if found is None else found[1]


def bootstrap_line(key: Fresh) -> str:
    """The value of the setting `bootstrap_key` for this key. It holds no secret."""
    return f"{key.id}:{digest_of(key.text).hex()}"


def bootstrap_key(line: str) -> ApiKey:
    """The administrator's key from the setting `bootstrap_key`, whose pattern was checked."""
    key_id, _, digest = line.partition(":")
    return ApiKey(key_id, bytes.fromhex(digest), BOOTSTRAP, Role.ADMIN, None, 0)


# ---------------------------------------------------------------- the table


async def read_keys(store: TableStore) -> dict[str, ApiKey]:
    """All keys by id. Raises Corruption, Unavailable."""
    found: dict[str, ApiKey] = {}
    async for batch in store.scan(TABLE, b"", None, NEWEST):
        for cell in batch:
            key = _decoded(cell.value)
            found[key.id] = key
    return found


async def add_key(store: TableStore, key: ApiKey, ts: int) -> None:
    """Store a new key. Raises Unavailable when its id is taken, or the outcome is unknown."""
    if not await store.check_and_put(TABLE, key.id.encode(), None, _encoder.encode(key), ts):
        raise Unavailable("The new key's id is taken.", cure="Try again.")
    await store.flush()


async def revoke_key(store: TableStore, key_id: str, wall_ms: int, ts: int) -> ApiKey:
    """Revoke a stored key and return it. A key that is revoked already stays as it is. Raises
    NotFound, Unavailable, Corruption."""
    row = key_id.encode()
    for _ in range(_ATTEMPTS):
        (cell,) = await store.get(TABLE, [row], NEWEST)
        if cell is None:
            raise NotFound(
                f"No API key {key_id} is stored.",
                cure="See: hornbeam keys list. The key of the settings is revoked there.",
            )
        key = _decoded(cell.value)
        if key.revoked_ms:
            return key
        revoked = msgspec.structs.replace(key, revoked_ms=wall_ms)
        if await store.check_and_put(TABLE, row, cell.value, _encoder.encode(revoked), ts):
            await store.flush()
            return revoked
    raise Unavailable(f"API key {key_id} is being changed by others.", cure="Try again.")


def _decoded(value: bytes) -> ApiKey:
    try:
        return _decoder.decode(value)
    except msgspec.MsgspecError as error:
        raise Corruption(f"A row of {TABLE} cannot be read: {error}.") from None


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(ApiKey)


# ---------------------------------------------------------------- new keys


def checked_grants(
    role: Role, grants: Mapping[str, Grant] | None, catalog: Catalog
) -> dict[str, Grant] | None:
    """`grants` by stored name, after a check. Raises InvalidRequest if they do not fit the role or
    name a view to write, NotFound for a name that is no relation or view."""
    if grants is None:
        return None
    if role is Role.ADMIN:
        raise InvalidRequest(
            "An administrator's key has no grants: it may do everything.",
            cure="Leave out the grants, or choose another role.",
        )
    for name, grant in grants.items():
        if name not in catalog.named.values():
            raise NotFound(f"There is no relation or view {name}.", cure="Apply its schema first.")
        if grant is Grant.WRITE and (role is Role.READER or name not in catalog.schema):
            what = "A reader writes nothing" if role is Role.READER else f"{name} is a view"
            raise InvalidRequest(
                f"{what}: there is no grant to write {name}.", cure=f"Grant to read {name}."
            )
    return {catalog.stored_name(name): grant for name, grant in grants.items()}


def document(key: ApiKey, wall_ms: int, catalog: Catalog) -> dict[str, Any]:
    """The JSON document of a key, without its digest. Its grants have the names in `catalog`; a
    grant on a relation or view that is not in it has the stored name."""
    grants = key.grants
    if grants is not None:
        grants = {catalog.named.get(stored, stored): each for stored, each in grants.items()}
    return {
        "id": key.id,
        "name": key.name,
        "role": str(key.role),
        "grants": None if grants is None else {n: str(g) for n, g in grants.items()},
        "state": key.state(wall_ms),
        "created_ms": key.created_ms,
        "created_by": key.created_by,
        "expires_ms": key.expires_ms or None,
        "revoked_ms": key.revoked_ms or None,
    }
