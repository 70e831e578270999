"""A served database that requires API keys, and helpers that create keys of every role."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx

from hornbeam_server.api.security import api_keys
from tests.api.api_world import PLAN, World, world

ROWS = [
    "INSERT INTO customer VALUES (1, 'ann secret', 10.5, 'ann@secret'), (2, 'bob', 0, 'bob@x')",
    "INSERT INTO orders VALUES (1, 1, 5), (2, 2, 6)",
    "INSERT INTO kinds (k_id) VALUES (1)",
]
VIEW = "customer__orders"


class SecureWorld:
    """The server's world, its administrator's key, and requests with any other key."""

    def __init__(self, world: World, root: str) -> None:
        self.world = world
        self.root = root
        world.client.headers["Authorization"] = f"Bearer {root}"

    def request(self, key: str | None, method: str, path: str, **content: object) -> httpx.Response:
        """Send a request with `key` instead of the administrator's key; None sends no key."""
        request = self.world.client.build_request(method, path, **content)
        headers = [pair for pair in request.headers.raw if pair[0].lower() != b"authorization"]
        if key is not None:
            headers.append((b"Authorization", b"Bearer " + key.encode()))
        request.headers = httpx.Headers(headers)
        return self.world.client.send(request)

    def query(self, key: str | None, sql: str, *parameters: object, **options: object):
        body = {"sql": sql, "parameters": list(parameters), **options}
        return self.request(key, "POST", "/v1/query", json=body)

    def transact(self, key: str | None, *sql: str, headers: object = None, **options: object):
        body = {"statements": [{"sql": text} for text in sql], **options}
        return self.request(key, "POST", "/v1/transactions", json=body, headers=headers)

    def made(self, role: str, grants: Mapping[str, str] | None = None, **more: object) -> str:
        """Create a key; return its full text with the secret."""
        return self.made_document(role, grants, **more)["key"]

    def made_document(
        self, role: str, grants: Mapping[str, str] | None = None, **more: object
    ) -> dict[str, object]:
        body = {"name": f"a {role}", "role": role, "grants": grants, **more}
        made = self.request(self.root, "POST", "/v1/keys", json=body)
        assert made.status_code == 200, made.text
        return made.json()

    def revoke(self, key: str) -> httpx.Response:
        return self.request(self.root, "DELETE", f"/v1/keys/{api_keys.id_in(key)}")


@contextmanager
def secure_world(folder: Path, **options: object) -> Iterator[SecureWorld]:
    """Serve a database with the schema of `api_world` and the rows of `ROWS`."""
    root = api_keys.fresh()
    options = {"bootstrap_key": api_keys.bootstrap_line(root), **options}
    with world(folder, authentication="keys", **options) as served:
        secured = SecureWorld(served, root.text)
        assert served.apply(**PLAN).status_code == 200
        for sql in ROWS:
            assert secured.transact(root.text, sql).status_code == 200
        yield secured
