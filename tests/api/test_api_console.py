"""The files of the console: a strict policy, caching, small size, and the setting."""

from __future__ import annotations

import gzip
import re

import pytest

from hornbeam_server.api.rest.console_files import CONSOLE_FILES, CONSOLE_PATHS
from tests.api.api_world import world
from tests.api.security_world import secure_world
from tests.api.test_api_pages import directives

MOST_BYTES = 250_000
PATHS = ["/", *sorted(CONSOLE_PATHS)]


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with world(tmp_path_factory.mktemp("console")) as served:
        yield served.client


@pytest.mark.parametrize("path", PATHS)
def test_each_file_has_the_strict_policy_and_is_cached_by_its_tag(client, path):
    response = client.get(path)
    found = directives(response)
    assert found["default-src"] == "'none'"
    assert found["script-src"] == found["style-src"] == found["connect-src"] == "'self'"
    assert found["frame-ancestors"] == found["base-uri"] == found["form-action"] == "'none'"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["referrer-policy"] == "no-referrer"
    assert response.headers["cache-control"] == "no-cache"
    tag = response.headers["etag"]
    for known in (tag, f'"other", W/{tag}'):
        again = client.get(path, headers={"If-None-Match": known})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == tag
    assert client.get(path, headers={"If-None-Match": '"other"'}).status_code == 200


def test_the_start_page_names_only_own_files_and_has_no_inline_script(client):
    text = client.get("/").text
    named = re.findall(r'(?:src|href)="([^"]*)"', text)
    assert {f"/{name}" for name in named} - {"/docs"} <= CONSOLE_PATHS
    assert set(re.findall(r"<script[^>]*>(.*?)</script>", text, re.DOTALL)) == {""}
    assert not re.search(r"\son[a-z]+=|style=|javascript:|https?://", text)


def test_scripts_import_only_own_files_and_write_no_html(client):
    for name, file in CONSOLE_FILES.items():
        text = file.content.decode()
        imported = re.findall(r'from "([^"]+)"', text)
        assert {each.removeprefix("./") for each in imported} <= CONSOLE_FILES.keys()
        forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function"
        assert not re.search(forbidden, text), name
        assert not set(re.findall(r"https?://[^\s\"']+", text)) - {"http://www.w3.org/2000/svg"}


def test_every_file_is_used(client):
    texts = {name: file.content.decode() for name, file in CONSOLE_FILES.items()}
    for name in texts.keys() - {"index.html"}:
        users = [other for other, text in texts.items() if other != name and name in text]
        assert users, f"no file of the console uses {name}"


def test_all_files_together_are_small():
    packed = sum(len(gzip.compress(file.content)) for file in CONSOLE_FILES.values())
    assert packed <= MOST_BYTES


def test_files_are_only_read(client):
    for path in PATHS:
        assert client.head(path).status_code == 200
        assert client.post(path).status_code == 405
        assert client.delete(path).status_code == 405


def test_there_is_no_other_file(client):
    for path in ("/console/", "/console/x.js", "/console/index.html", "/console/..%2fapp.py"):
        assert client.get(path).status_code == 404


def test_the_files_need_no_key(tmp_path):
    with secure_world(tmp_path) as secured:
        for path in PATHS:
            assert secured.request(None, "GET", path).status_code == 200
        assert secured.request(None, "GET", "/console/x.js").status_code == 401


def test_the_console_is_switched_off_by_a_setting(tmp_path):
    with world(tmp_path, console=False) as served:
        response = served.client.get("/")
        assert (response.status_code, response.headers["location"]) == (307, "docs")
        assert served.client.get("/docs").status_code == 200
        for path in CONSOLE_PATHS:
            assert served.client.get(path).status_code == 404
