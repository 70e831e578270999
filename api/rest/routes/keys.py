"""API keys: administrators create, list and revoke them. A key is shown once, when it is
created."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Request, Response

from hornbeam_server.api.rest import response_models
from hornbeam_server.api.rest.audit import note
from hornbeam_server.api.rest.dependencies import Db, encoded, key_ring_of, principal_of, tagged
from hornbeam_server.api.rest.request_models import KeyBody
from hornbeam_server.api.security import api_keys
from hornbeam_server.api.security.roles import Role, needs

router = tagged("keys")
ADMIN = needs(Role.ADMIN)
KeyId = Annotated[str, Path(pattern="^[0-9a-f]{12}$", description="The key's public part.")]


@router.post(
    "/v1/keys",
    responses=response_models.of(response_models.FreshKey, 400, 404, 413, 422, 429, 503, 507),
    openapi_extra=ADMIN,
)
async def create_key(body: KeyBody, request: Request, db: Db) -> Response:
    """Create a key. Only this answer shows the whole key.

    The key is valid at this node at once, and at other nodes within `key_refresh_s`.
    """
    catalog, ring = db.catalog, key_ring_of(request)
    grants = api_keys.checked_grants(body.role, body.grants, catalog)
    fresh, now_ms = api_keys.fresh(), db.clock.wall_ms()
    key = api_keys.ApiKey(
        fresh.id,
        api_keys.digest_of(fresh.text),
        body.name,
        body.role,
        grants,
        now_ms,
        created_by=principal_of(request).key,
        expires_ms=0 if body.valid_for_s is None else now_ms + body.valid_for_s * 1000,
        verifier=api_keys.verifier_of(fresh.text),
    )
    await api_keys.add_key(await ring.make_table(), key, await db.committer.reserve())
    await ring.reload()
    note(request.scope, subject=fresh.id)
    answer = encoded(api_keys.document(key, now_ms, catalog) | {"key": fresh.text})
    answer.headers["Cache-Control"] = "no-store"
    return answer


@router.get(
    "/v1/keys", responses=response_models.of(list[response_models.Key], 503), openapi_extra=ADMIN
)
async def list_keys(request: Request, db: Db) -> Response:
    """All keys, including expired and revoked ones."""
    found = await key_ring_of(request).all()
    now_ms = db.clock.wall_ms()
    return encoded([api_keys.document(key, now_ms, db.catalog) for key in found])


@router.delete(
    "/v1/keys/{key_id}",
    responses=response_models.of(response_models.Key, 404, 422, 503, 507),
    openapi_extra=ADMIN,
)
async def revoke_key(key_id: KeyId, request: Request, db: Db) -> Response:
    """Revoke a key. This node refuses it before it answers, other nodes within `key_refresh_s`.

    Requests with the key that are under way run to their end.
    """
    ring, now_ms = key_ring_of(request), db.clock.wall_ms()
    store = await ring.make_table()
    revoked = await api_keys.revoke_key(store, key_id, now_ms, await db.committer.reserve())
    await ring.reload()
    note(request.scope, subject=key_id)
    return encoded(api_keys.document(revoked, now_ms, db.catalog))
