"""API keys: administrators create, list and revoke them. A key is shown once, when it is
created."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Request, Response

from hornbeam_server.api import answers, keys
from hornbeam_server.api.access import Role, needs
from hornbeam_server.api.audit import note
from hornbeam_server.api.models import KeyBody
from hornbeam_server.api.requests import Db, encoded, key_ring_of, principal_of, tagged

router = tagged("keys")
ADMIN = needs(Role.ADMIN)
KeyId = Annotated[str, Path(pattern="^[0-9a-f]{12}$", description="The key's public part.")]


@router.post(
    "/v1/keys",
    responses=answers.of(answers.FreshKey, 400, 404, 413, 422, 429, 503, 507),
    openapi_extra=ADMIN,
)
async def create_key(body: KeyBody, request: Request, db: Db) -> Response:
    """Create a key. Only this answer shows the whole key.

    The key is valid at this node at once, and at other nodes within `key_refresh_s`.
    """
    schema, ring = db.catalog.schema, key_ring_of(request)
    grants = keys.checked_grants(
        body.role,
        body.grants,
        frozenset(schema.names),
        frozenset((*db.catalog.view, *db.catalog.deferred_view)),
    )
    fresh, now_ms = keys.fresh(), db.clock.wall_ms()
    key = keys.ApiKey(
        fresh.id,
        keys.digest_of(fresh.text),
        body.name,
        body.role,
        grants,
        now_ms,
        created_by=principal_of(request).key,
        expires_ms=0 if body.valid_for_s is None else now_ms + body.valid_for_s * 1000,
    )
    await keys.add_key(await ring.make_table(), key, await db.committer.reserve())
    await ring.reload()
    note(request.scope, subject=fresh.id)
    answer = encoded(keys.document(key, now_ms) | {"key": fresh.text})
    answer.headers["Cache-Control"] = "no-store"
    return answer


@router.get("/v1/keys", responses=answers.of(list[answers.Key], 503), openapi_extra=ADMIN)
async def list_keys(request: Request, db: Db) -> Response:
    """All keys, including expired and revoked ones."""
    found = await key_ring_of(request).all()
    return encoded([keys.document(key, db.clock.wall_ms()) for key in found])


@router.delete(
    "/v1/keys/{key_id}",
    responses=answers.of(answers.Key, 404, 422, 503, 507),
    openapi_extra=ADMIN,
)
async def revoke_key(key_id: KeyId, request: Request, db: Db) -> Response:
    """Revoke a key. This node refuses it before it answers, other nodes within `key_refresh_s`.

    Requests with the key that are under way run to their end.
    """
    ring, now_ms = key_ring_of(request), db.clock.wall_ms()
    store = await ring.make_table()
    revoked = await keys.revoke_key(store, key_id, now_ms, await db.committer.reserve())
    await ring.reload()
    note(request.scope, subject=key_id)
    return encoded(keys.document(revoked, now_ms))
