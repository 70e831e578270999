"""The page at /docs loads files from this server only, and no inline script."""

from __future__ import annotations

import re

import pytest

from hornbeam_server.api.rest.authentication import OPEN
from tests.api.api_world import world
from tests.api.security_world import secure_world

TYPES = {
    "/docs": "text/html",
    "/docs/start.js": "text/javascript",
    "/docs/swagger-ui-bundle.js": "text/javascript",
    "/docs/swagger-ui.css": "text/css",
}


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with world(tmp_path_factory.mktemp("pages")) as served:
        yield served.client


def directives(response) -> dict[str, str]:
    policy = response.headers["content-security-policy"]
    return dict(part.strip().split(" ", 1) for part in policy.split(";"))


@pytest.mark.parametrize("path", TYPES)
def test_the_page_and_its_files_are_served(client, path):
    response = client.get(path)
    assert response.status_code == 200
    assert response.headers["content-type"].split(";")[0] == TYPES[path]
    assert response.headers["x-content-type-options"] == "nosniff"
    assert client.head(path).status_code == 200


@pytest.mark.parametrize("path", TYPES)
def test_the_content_security_policy_is_strict(client, path):
    found = directives(client.get(path))
    assert found["default-src"] == "'none'"
    assert found["script-src"] == found["style-src"] == found["connect-src"] == "'self'"
    assert found["frame-ancestors"] == found["base-uri"] == found["form-action"] == "'none'"
    assert not {"unsafe", "http", "*"} & set(re.findall(r"[a-z]+|\*", str(found)))


def test_the_page_has_no_external_links_and_no_inline_script(client):
    text = client.get("/docs").text
    named = re.findall(r'(?:src|href)="([^"]*)"', text)
    assert {f"/{name}" for name in named if name != "data:,"} <= TYPES.keys()
    assert len(named) == 4
    assert set(re.findall(r"<script[^>]*>(.*?)</script>", text, re.DOTALL)) == {""}
    assert not re.search(r"\son[a-z]+=|style=|javascript:|https?://", text)
    assert 'url: "openapi.json"' in client.get("/docs/start.js").text
    assert "SwaggerUIBundle" in client.get("/docs/swagger-ui-bundle.js").text[:1_000]


def test_there_is_no_other_page(client):
    for path in ("/redoc", "/docs/", "/docs/oauth2-redirect", "/docs/../api/app.py", "/docs/x.js"):
        assert client.get(path).status_code == 404
    assert not {path for path in client.get("/openapi.json").json()["paths"] if "docs" in path}


def test_the_page_needs_no_key(tmp_path):
    with secure_world(tmp_path) as secured:
        for path in (*TYPES, "/openapi.json"):
            assert path in OPEN
            assert secured.request(None, "GET", path).status_code == 200
