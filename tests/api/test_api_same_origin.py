"""No web page of another site can read or write a database that requires no key."""

from __future__ import annotations

import json
import socket
from urllib.parse import urlsplit

import pytest

from hornbeam_server import __version__
from hornbeam_server.api.rest.routes import (
    builds,
    exports,
    groups,
    keys,
    queries,
    schema,
    transactions,
    upkeep,
)
from hornbeam_server.node.settings import load_settings
from tests.api.api_world import PLAN, world
from tests.api.security_world import secure_world

ROUTES = [
    route
    for module in (queries, transactions, schema, upkeep, exports, builds, groups, keys)
    for route in module.router.routes
    if "POST" in route.methods
]
SIMPLE = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""]
"""Media types that a page may send to another site without a preflight request."""


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    with world(tmp_path_factory.mktemp("origin"), allowed_hosts="db.example, 192.0.2.7") as served:
        assert served.apply(**PLAN).status_code == 200
        yield served


def port(served) -> int:
    return urlsplit(str(served.client.base_url)).port


def exchange(served, head: str, body: bytes = b"") -> tuple[int, dict]:
    """Send the request byte for byte; return status and document of the answer."""
    with socket.create_connection(("127.0.0.1", port(served)), timeout=10) as connection:
        connection.sendall(head.replace("\n", "\r\n").encode("latin-1") + b"\r\n\r\n" + body)
        received = b""
        while b"\r\n\r\n" not in received or not received.endswith((b"}", b"found.")):
            piece = connection.recv(65_536)
            if not piece:
                break
            received += piece
    status, _, rest = received.partition(b"\r\n")
    content = rest.partition(b"\r\n\r\n")[2]
    document = json.loads(content) if content.startswith(b"{") else {}
    return int(status.split()[1]), document


def ask(served, headers: str, target: str = "/v1/schema", version: str = "1.1"):
    return exchange(served, f"GET {target} HTTP/{version}\nConnection: close\n{headers}".strip())


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1:8780",
        "127.9.9.9:1",
        "localhost",
        "LocalHost:65535",
        "localhost.",
        "localhost.:8780",
        "[::1]",
        "[::1]:8780",
        "[0:0:0:0:0:0:0:1]:8780",
        "[::ffff:127.0.0.1]:8780",
        "db.example",
        "DB.Example.:443",
        "192.0.2.7:8780",
    ],
)
def test_loopback_and_configured_hosts_are_accepted(shop, host):
    assert ask(shop, f"Host: {host}")[0] == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8780",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "127.0.0.1.nip.io:8780",
        "notlocalhost",
        "sub.db.example",
        "0.0.0.0:8780",
        "[::]:8780",
        "192.0.2.8",
        "127.1",
        "2130706433",
        "0x7f.0.0.1",
        "localhost%00.evil.example",
    ],
)
def test_another_host_is_misdirected(shop, host):
    status, document = ask(shop, f"Host: {host}")
    assert (status, document["code"]) == (421, "misdirected-request")
    assert "allowed_hosts" in document["cure"]
    assert document["retryable"] is False


@pytest.mark.parametrize(
    "headers",
    [
        "",
        "Host:",
        "Host: localhost\nHost: localhost",
        "Host: localhost\nHost: evil.example",
        "Host: evil.example\nHost: localhost",
        "Host: localhost, evil.example",
        "Host: localhost@evil.example",
        "Host: evil.example:80:8780",
        "Host: http://localhost",
        "Host: localhost/",
        "Host: ::1",
        "Host: [::1",
        "Host: [localhost]",
        "Host: localhost:port",
        "Host: l\u00f6calhost",
        "Host: .",
    ],
)
@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_request_must_name_exactly_one_host(shop, headers, version):
    status, document = ask(shop, headers, version=version)
    assert (status, document["code"]) == (400, "invalid-request")
    assert "Host:" in document["cure"]


@pytest.mark.parametrize(
    ("target", "host", "status"),
    [
        ("http://localhost:8780/v1/schema", "evil.example", 200),
        ("http://evil.example/v1/schema", "localhost", 421),
        ("HTTP://EVIL.example:80/v1/schema", "localhost", 421),
        ("http://evil.example?/v1/schema", "localhost", 400),
        ("http://localhost@evil.example/v1/schema", "localhost", 400),
        ("//evil.example/v1/schema", "localhost", 404),
    ],
)
def test_the_host_of_an_absolute_target_overrides_the_header(shop, target, host, status):
    assert ask(shop, f"Host: {host}", target)[0] == status


def test_a_tunnel_is_not_opened(shop):
    status, _ = exchange(shop, "CONNECT evil.example:443 HTTP/1.1\nHost: localhost")
    assert status in {400, 405, 421}


def test_a_websocket_is_an_ordinary_request(shop):
    upgrade = "Connection: Upgrade\nUpgrade: websocket\nSec-WebSocket-Version: 13"
    own = exchange(shop, f"GET /v1/nothing HTTP/1.1\nHost: localhost\n{upgrade}")
    assert own[0] == 404
    foreign = f"GET /v1/schema HTTP/1.1\nHost: localhost\nOrigin: http://evil.example\n{upgrade}"
    assert exchange(shop, foreign)[0] == 403
    assert exchange(shop, f"GET /v1/schema HTTP/1.1\nHost: evil.example\n{upgrade}")[0] == 421


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
def test_probes_may_use_any_host(shop, path):
    for host in ("Host: 10.1.2.3:8780", "Host: evil.example", ""):
        assert ask(shop, host, path)[0] == 200
    assert ask(shop, "Host: localhost\nOrigin: http://evil.example", path)[0] == 403


@pytest.mark.parametrize("path", ["/docs", "/openapi.json", "/metrics", "/v1/status", "/nothing"])
def test_every_other_path_checks_the_host(shop, path):
    assert ask(shop, "Host: evil.example", path)[0] == 421


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("localhost:8780", "http://localhost:8780"),
        ("LOCALHOST:8780", "http://localhost:8780"),
        ("localhost", "http://localhost"),
        ("localhost:80", "http://localhost"),
        ("[::1]:8780", "http://[::1]:8780"),
        ("db.example", "http://db.example:80"),
    ],
)
def test_pages_of_the_server_itself_are_accepted(shop, host, origin):
    assert ask(shop, f"Host: {host}\nOrigin: {origin}\nSec-Fetch-Site: same-origin")[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        "Origin: http://evil.example",
        "Origin: null",
        "Origin:",
        "Origin: localhost:8780",
        "Origin: http://localhost",
        "Origin: http://localhost:3000",
        "Origin: https://localhost:8780",
        "Origin: file://localhost:8780",
        "Origin: chrome-extension://localhost:8780",
        "Origin: http://127.0.0.1:8780",
        "Origin: http://localhost:8780.evil.example",
        "Origin: http://localhost:8780@evil.example",
        "Origin: http://localhost:8780 http://evil.example",
        "Origin: http://localhost:8780\nOrigin: http://evil.example",
        "Origin: http://db.example",
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Site: same-site",
        "Sec-Fetch-Site: same-origin\nSec-Fetch-Site: cross-site",
        "Origin: http://localhost:8780\nSec-Fetch-Site: cross-site",
        "Sec-Fetch-Site: cross-site\nSec-Fetch-Mode: navigate\nSec-Fetch-Dest: document",
    ],
)
def test_another_site_is_refused(shop, headers):
    status, document = ask(shop, f"Host: localhost:8780\n{headers}")
    assert (status, document["code"]) == (403, "forbidden")
    assert document["cure"]


def test_nothing_is_written_for_another_site(shop):
    body = b'{"statements": [{"sql": "INSERT INTO customer (c_id, c_name) VALUES (1, \'evil\')"}]}'
    for headers in ("Host: evil.example", "Host: localhost\nOrigin: http://evil.example"):
        head = f"POST /v1/transactions HTTP/1.1\nContent-Type: application/json\n{headers}"
        status, _ = exchange(shop, f"{head}\nContent-Length: {len(body)}", body)
        assert status in {403, 421}
    assert shop.rows("SELECT count(*) FROM customer WHERE c_id = 1") == [[0]]


def test_a_preflight_allows_nothing(shop):
    response = shop.client.options(
        "/v1/query",
        headers={"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"},
    )
    assert response.status_code == 403
    assert not any(name.startswith("access-control") for name in response.headers)


def test_with_keys_the_server_accepts_any_host(tmp_path):
    with secure_world(tmp_path) as secured:
        served = secured.world
        own = f"Authorization: Bearer {secured.root}"
        proxied = f"{own}\nHost: shop.example\nOrigin: https://other.example"
        assert ask(served, proxied)[0] == 200
        assert ask(served, "Host: shop.example\nOrigin: http://evil.example")[0] == 401


def test_with_keys_and_allowed_hosts_others_are_refused(tmp_path):
    with secure_world(tmp_path, allowed_hosts="shop.example") as secured:
        own = f"Authorization: Bearer {secured.root}"
        for headers, status in [
            ("Host: shop.example", 200),
            ("Host: localhost", 200),
            ("Host: evil.example", 421),
            ("Host: shop.example\nOrigin: https://shop.example", 403),
            ("Host: shop.example\nOrigin: http://shop.example", 200),
        ]:
            assert ask(secured.world, f"{own}\n{headers}")[0] == status, headers


def test_behind_a_proxy_that_does_tls_the_origin_is_https(tmp_path):
    with world(tmp_path, allowed_hosts="db.example", tls_by_proxy=True) as served:
        assert ask(served, "Host: db.example\nOrigin: https://db.example")[0] == 200
        assert ask(served, "Host: db.example\nOrigin: https://evil.example")[0] == 403


def test_the_address_setting_is_an_allowed_host(tmp_path):
    with world(tmp_path, address="http://node1.example:8780") as served:
        assert ask(served, "Host: node1.example:8780")[0] == 200
        assert ask(served, "Host: node2.example:8780")[0] == 421


@pytest.mark.parametrize("hosts", ["*", "*.example", "db.example:8780", "http://db.example", "a b"])
def test_allowed_hosts_are_hosts(hosts):
    with pytest.raises(ValueError, match="is not the name or address of a host"):
        load_settings(allowed_hosts=hosts)


# ---------------------------------------------------------------- types of bodies


def path_of(route) -> str:
    named = {"relation:path": "customer", "name:path": "v", "group:path": "g", "upto": "1"}
    path = route.path
    for name, value in named.items():
        path = path.replace("{" + name + "}", value)
    assert "{" not in path
    return path


def takes_body(route) -> bool:
    return route.body_field is not None or "requestBody" in (route.openapi_extra or {})


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
@pytest.mark.parametrize("media_type", SIMPLE)
@pytest.mark.parametrize("body", [b"", b"{}", b'{"sql": "SELECT 1"}', b"c_id,c_name\n9,x\n"])
def test_no_route_accepts_media_types_without_preflight(shop, route, media_type, body):
    headers = {"Content-Type": media_type} if media_type else {}
    response = shop.client.post(path_of(route), content=body, headers=headers)
    if not media_type and not takes_body(route):
        assert response.status_code == 404  # this route reads no body, and the group does not exist
        return
    assert response.status_code == 415, response.text
    document = response.json()
    assert document["code"] == "invalid-request"
    assert document["cure"]
    assert shop.rows("SELECT count(*) FROM customer WHERE c_id = 9") == [[0]]


def test_there_are_routes_with_and_without_a_body():
    assert len(ROUTES) >= 19
    without = [route.name for route in ROUTES if not takes_body(route)]
    assert without == ["begin_batch", "refresh_group"]


@pytest.mark.parametrize("path", ["/v1/query", "/v1/load/customer", "/v1/puts"])
@pytest.mark.parametrize(
    "media_type",
    [
        "text/plain; application/json",
        "text/plain;charset=application/json",
        "application/jsonp",
        "json",
        "application/x-www-form-urlencoded, application/json",
        "text/plain, text/csv",
        "TEXT/PLAIN",
    ],
)
def test_similar_media_types_are_refused(shop, path, media_type):
    headers = {"Content-Type": media_type}
    response = shop.client.post(path, content=b'{"sql": "SELECT 1"}', headers=headers)
    assert response.status_code == 415


@pytest.mark.parametrize(
    "media_type", ["application/json", "Application/JSON", "application/json;charset=utf-8"]
)
def test_the_json_media_type_may_have_parameters(shop, media_type):
    headers = {"Content-Type": media_type}
    response = shop.client.post("/v1/query", content=b'{"sql": "SELECT 1"}', headers=headers)
    assert response.status_code == 200


@pytest.mark.parametrize(
    ("media_type", "number"),
    [("text/csv", 21), ("Text/CSV; charset=utf-8; header=present", 22), ("application/csv", 23)],
)
def test_the_csv_media_type_may_have_parameters(shop, media_type, number):
    headers = {"Content-Type": media_type}
    content = f"c_id,c_name\n{number},ann\n".encode()
    response = shop.client.post("/v1/load/customer", content=content, headers=headers)
    assert response.json()["rows"] == 1


def test_openapi_documents_the_version_and_the_refusals(shop):
    document = shop.client.get("/openapi.json").json()
    assert document["info"]["version"] == __version__
    for methods in document["paths"].values():
        for operation in methods.values():
            assert {"400", "403", "421"} <= operation["responses"].keys()
