"""The client of a request, as the system catalog knows it."""

from __future__ import annotations

from fastapi import Request

from hornbeam_server.api.rest.dependencies import key_ring_of, principal_of
from hornbeam_server.api.security.roles import Grant, Role
from hornbeam_server.pgwire.ports import BACKEND
from hornbeam_server.pgwire.server.backends import Backends
from hornbeam_server.query.system.asking import Asker


def asker_of(request: Request) -> Asker:
    """The client of a request, with its grants by the names in the catalog in force."""
    principal = key_ring_of(request).named_now(principal_of(request))
    backends: Backends = request.app.state.backends
    pid: int = request.scope.get(BACKEND, 0)
    session, grants = backends.get(pid), principal.grants
    names = {principal.name, principal.key, "" if session is None else session.user}
    return Asker(
        names=frozenset(names - {""}),
        key=principal.key,
        administers=principal.role.includes(Role.ADMIN),
        writes=principal.role.includes(Role.WRITER),
        grants=None if grants is None else {n: g is Grant.WRITE for n, g in grants.items()},
        pid=pid,
        client=request.scope.get("client") or ("", 0),
        backends=backends.shown,
    )
