"""Keys and certificates in URLs: which are accepted, and that keys are never shown."""

from __future__ import annotations

import io
import json
import logging
import traceback
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from sqlalchemy import create_engine, make_url
from sqlalchemy.engine import URL
from typer.testing import CliRunner

import hornbeam
from hornbeam.cli import app
from hornbeam.security import Tls
from hornbeam.sqlalchemy import HornbeamDialect
from hornbeam.transport import open_transport, parse_url
from tests.client.client_world import apply, embedded

SECRET = "0" * 60 + "beef"
KEY = f"hb_0123456789ab_{SECRET}"


@pytest.fixture(autouse=True)
def _no_key(monkeypatch):
    monkeypatch.delenv("HORNBEAM_API_KEY", raising=False)


def test_a_key_is_the_password_of_the_url():
    target = parse_url(f"hornbeam://:{KEY}@127.0.0.1:99?timeout_s=5")
    assert (target.addresses, str(target.key)) == (("http://127.0.0.1:99",), KEY)
    assert target.options == {"timeout_s": "5"}
    assert parse_url(f"hornbeam://:{KEY}@[::1]").key == KEY
    assert parse_url("hornbeam://:a%2Fb%40c@localhost").key == "a/b@c"
    assert parse_url("hornbeam://127.0.0.1").key == ""


def test_the_environment_provides_a_key_for_servers_only(monkeypatch):
    monkeypatch.setenv("HORNBEAM_API_KEY", "other")
    assert parse_url("hornbeam://127.0.0.1").key == "other"
    assert parse_url(f"hornbeam://:{KEY}@127.0.0.1").key == KEY
    assert parse_url("hornbeam:///folder").key == ""


def test_tls_is_configured_in_the_url():
    target = parse_url("hornbeam://db.example?tls=true&ca=/a.pem&cert=/c.pem&cert_key=/k.pem")
    assert target.addresses == ("https://db.example:8780",)
    assert target.tls == Tls("/a.pem", "/c.pem", "/k.pem")
    assert target.options == {}
    assert parse_url("hornbeam://db.example?tls=false").tls is None


@pytest.mark.parametrize(
    ("url", "words"),
    [
        (f"hornbeam://:{KEY}@db.example", "in the clear"),
        (f"hornbeam://:{KEY}@192.0.2.1", "in the clear"),
        (f"hornbeam://:{KEY}@127.0.0.1?also=db.example", "in the clear"),
        (f"hornbeam://:{KEY}@127.0.0.1.example?tls=false", "in the clear"),
        (f"hornbeam://{KEY}@127.0.0.1", "a colon before"),
        (f"hornbeam://me:{KEY}@127.0.0.1", "a colon before"),
        (f"hornbeam://127.0.0.1:{KEY}", "not a Hornbeam URL"),
        (f"http://:{KEY}@127.0.0.1", "not a Hornbeam URL"),
        (f"hornbeam://:{KEY}%0d%0aX@127.0.0.1", "characters"),
        (f"hornbeam://:{KEY}@127.0.0.1?tls=maybe", "true or false"),
        (f"hornbeam://:{KEY}@127.0.0.1?ca=/x", "tls=true"),
        (f"hornbeam://:{KEY}@127.0.0.1?nonsense=1", "Unknown options"),
        (f"hornbeam://:{KEY}@db.example?tls=true&ca=/nowhere.pem", "cannot be used"),
        (f"hornbeam://:{KEY}@127.0.0.1:1", "does not answer"),
    ],
)
def test_no_error_shows_a_key(url, words):
    with pytest.raises(hornbeam.Error, match=words) as refused, hornbeam.connect(url) as db:
        db.ping()
    report = io.StringIO()
    traceback.print_exception(refused.value, file=report)
    assert SECRET not in report.getvalue()
    assert SECRET not in repr(refused.value) + json.dumps(refused.value.problem)


def test_a_key_of_the_environment_is_not_sent_in_the_clear(monkeypatch):
    monkeypatch.setenv("HORNBEAM_API_KEY", KEY)
    with pytest.raises(hornbeam.InterfaceError, match="in the clear"):
        hornbeam.connect("hornbeam://db.example")


def test_nothing_shows_a_key(caplog):
    target = parse_url(f"hornbeam://:{KEY}@127.0.0.1:1")
    transport = open_transport(target, 1.0)
    try:
        shown = f"{target!r} {target} {transport!r} {vars(transport)}"
        with caplog.at_level(logging.DEBUG), pytest.raises(hornbeam.OperationalError):
            transport.json("GET", "/livez")
        assert SECRET not in shown + caplog.text
    finally:
        transport.close()


def test_the_key_is_sent_as_a_bearer_token():
    seen: list[str] = []

    class Server(BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append(self.headers["Authorization"])
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Server) as server:
        Thread(target=server.handle_request).start()
        url = f"hornbeam://:{KEY}@127.0.0.1:{server.server_port}"
        with closing(open_transport(parse_url(url), 10.0)) as transport:
            assert transport.json("GET", "/") == {}
    assert seen == [f"Bearer {KEY}"]


def test_sqlalchemy_passes_the_key_and_hides_it():
    urls = [
        make_url(f"hornbeam://:{KEY}@127.0.0.1:1/?tls=true"),
        URL.create("hornbeam", password=KEY, host="127.0.0.1", port=1, query={"tls": "true"}),
    ]
    for url in urls:
        ((given,), _) = HornbeamDialect().create_connect_args(url)
        assert parse_url(given).key == KEY
        engine = create_engine(url)
        assert SECRET not in f"{engine} {engine!r} {engine.url} {url!r}"
    plain = HornbeamDialect().create_connect_args(make_url("hornbeam:////folder"))
    assert plain == (["hornbeam:////folder"], {})


# ---------------------------------------------------------------- command line


def run(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


def test_keys_of_a_folder_are_created_without_a_server(tmp_path):
    apply(embedded(tmp_path / "db"))
    data = ("--data", str(tmp_path / "db"))
    grants = ("--grant", "book=write", "--grant", "author=read")
    made = run("keys", "create", "shop", "--role", "writer", *grants, "--valid-for", "90d", *data)
    assert made.exit_code == 0, made.output
    key = made.stdout.strip()
    assert key.startswith("hb_")
    (found,) = json.loads(run("keys", "list", "--json", *data).stdout)
    assert found["grants"] == {"book": "write", "author": "read"}
    assert found["expires_ms"] - found["created_ms"] == 90 * 86_400_000
    assert found["id"] == key[3:15]
    listed = run("keys", "list", *data).stdout
    assert "book=write, author=read" in listed
    assert key[16:] not in listed
    assert "is revoked" in run("keys", "revoke", found["id"], *data).stdout
    again = json.loads(run("keys", "revoke", found["id"], "--json", *data).stdout)
    assert again["state"] == "revoked"


def test_wrong_keys_commands_are_refused(tmp_path):
    (tmp_path / "db").mkdir()
    data = ("--data", str(tmp_path / "db"))
    for arguments, words in (
        (("create", "x", "--role", "reader", "--grant", "book"), "not a grant"),
        (("create", "x", "--role", "reader", "--grant", "book=own"), "not a grant"),
        (("create", "x", "--role", "reader", "--valid-for", "0d"), "not a duration"),
        (("create", "x", "--role", "reader", "--valid-for", "1 year"), "not a duration"),
        (("create", "x", "--role", "reader", "--grant", "book=read"), "no relation or view"),
        (("revoke", "x"), "12 hexadecimal digits"),
        (("revoke", "0" * 12), "No API key"),
    ):
        done = run("keys", *arguments, *data)
        assert isinstance(done.exception, hornbeam.Error), done.output
        assert words in str(done.exception)
    nowhere = run("keys", "list", "--data", str(tmp_path / "nowhere"))
    assert "no folder" in str(nowhere.exception)
    assert not (tmp_path / "nowhere").exists()


def test_a_bootstrap_key_is_printed_and_not_stored():
    made = json.loads(run("keys", "bootstrap", "--json").stdout)
    line = made["bootstrap_key"]
    assert line.startswith(f"{made['id']}:")
    assert made["key"][16:] not in line
    plain = run("keys", "bootstrap")
    assert plain.stdout.startswith("hb_")
    assert "bootstrap_key = " in plain.stderr


def test_an_embedded_folder_requires_no_key(tmp_path, monkeypatch):
    monkeypatch.setenv("HORNBEAM_AUTHENTICATION", "keys")
    apply(embedded(tmp_path))
    with hornbeam.connect(embedded(tmp_path)) as db:
        assert db.cursor().execute("SELECT count(*) FROM book").fetchone() == (0,)
