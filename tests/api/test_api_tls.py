"""TLS end to end: `hornbeam serve` with certificates, and clients that verify them."""

from __future__ import annotations

import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

import hornbeam
from hornbeam_server.api.security import api_keys
from hornbeam_server.api.security.tls import require_safe, server_context
from hornbeam_server.api.serve import serve
from hornbeam_server.node.settings import Settings
from hornbeam_server.schema.errors import InvalidRequest
from tests.api.certificates import Authority
from tests.api.test_api_serve import start


@pytest.fixture(scope="module")
def authority(tmp_path_factory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def certified(authority) -> dict[str, str]:
    """Return settings with a certificate for localhost and 127.0.0.1."""
    certificate, key = authority.signed("server", "DNS:localhost", "IP:127.0.0.1")
    return {"tls_certificate": str(certificate), "tls_key": str(key)}


class Served:
    """A server process with authentication and TLS, its port, and an administrator's key."""

    def __init__(self, process: subprocess.Popen[str], port: int, key: str) -> None:
        self.process = process
        self.port = port
        self.key = key

    def url(self, host: str = "127.0.0.1", **options: object) -> str:
        query = "&".join(f"{name}={value}" for name, value in options.items())
        return f"hornbeam://:{self.key}@{host}:{self.port}?{query}"


@contextmanager
def served(folder: Path, **given: object) -> Iterator[Served]:
    root = api_keys.fresh()
    bootstrap = {"authentication": "keys", "bootstrap_key": api_keys.bootstrap_line(root)}
    process = start(folder / "data", log_level="info", **bootstrap, **given)
    try:
        url = process.stdout.readline().split()[4]
        assert url.startswith("https://"), url
        yield Served(process, int(url.rpartition(":")[2]), root.text)
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=30)
        assert process.returncode == 0
        assert root.text[16:] not in log
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def server(tmp_path_factory, certified) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("tls"), **certified) as found:
        yield found


def one(url: str) -> object:
    with hornbeam.connect(url) as db:
        return db.cursor().execute("SELECT 1").fetchone()


def reach(url: str) -> None:
    """Send one request, which is not repeated when its connection breaks."""
    with hornbeam.connect(url) as db:
        db.ping()


def test_the_driver_connects_over_tls(server, authority):
    for host in ("127.0.0.1", "localhost"):
        assert one(server.url(host, tls="true", ca=authority.certificate)) == (1,)


def test_sqlalchemy_connects_over_tls(server, authority):
    url = server.url(tls="true", ca=authority.certificate)
    engine = create_engine(url)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT 1")).scalar() == 1
    assert server.key not in f"{engine!r} {engine.url} {engine.url!r}"
    engine.dispose()


def test_the_key_may_come_from_the_environment(server, authority, monkeypatch):
    options = f"tls=true&ca={authority.certificate}"
    url = f"hornbeam://127.0.0.1:{server.port}?{options}"
    with pytest.raises(hornbeam.OperationalError, match="needs an API key"):
        one(url)
    monkeypatch.setenv("HORNBEAM_API_KEY", server.key)
    assert one(url) == (1,)


def test_another_authority_is_not_trusted(server, tmp_path):
    """Without `ca`, the client trusts the system's authorities only."""
    other = Authority(tmp_path, "other")
    for options in ({"ca": other.certificate}, {}):
        with pytest.raises(hornbeam.OperationalError, match="CERTIFICATE_VERIFY_FAILED") as refused:
            reach(server.url(tls="true", **options))
        assert server.key not in str(refused.value)
        assert refused.value.outcome == "none"


def test_plain_http_gets_no_answer_from_a_tls_port(server):
    with pytest.raises(hornbeam.OperationalError):
        reach(server.url())


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
def test_tls_before_1_2_is_refused(server, authority):
    context = ssl.create_default_context(cafile=str(authority.certificate))
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with socket.create_connection(("127.0.0.1", server.port)) as plain, pytest.raises(ssl.SSLError):
        context.wrap_socket(plain, server_hostname="localhost")


def test_a_server_may_require_client_certificates(tmp_path, authority, certified):
    own, own_key = authority.signed("client")
    foreign, foreign_key = Authority(tmp_path / "other", "other").signed("client")
    asked = {"host": "0.0.0.0", "tls_client_ca": str(authority.certificate)}
    with served(tmp_path, **asked, **certified) as found:
        trusted = {"tls": "true", "ca": authority.certificate}
        assert one(found.url(**trusted, cert=own, cert_key=own_key)) == (1,)
        for shown in ({}, {"cert": foreign, "cert_key": foreign_key}):
            with pytest.raises(hornbeam.OperationalError):
                reach(found.url(**trusted, **shown))


def test_sighup_replaces_a_certificate_with_the_wrong_name(tmp_path, authority):
    files = [tmp_path / "used.pem", tmp_path / "used.key"]

    def put(name: str, *names: str) -> None:
        for made, used in zip(authority.signed(name, *names), files, strict=True):
            used.write_bytes(made.read_bytes())

    put("first", "DNS:other.example")
    with served(tmp_path, tls_certificate=str(files[0]), tls_key=str(files[1])) as found:
        url = found.url(tls="true", ca=authority.certificate)
        with pytest.raises(hornbeam.OperationalError, match="CERTIFICATE_VERIFY_FAILED"):
            reach(url)
        files[0].write_text("no certificate")
        found.process.send_signal(signal.SIGHUP)
        time.sleep(0.2)
        put("second", "IP:127.0.0.1")
        found.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 20
        while True:
            try:
                reach(url)
                break
            except hornbeam.OperationalError:
                assert time.monotonic() < deadline
                time.sleep(0.05)


# ---------------------------------------------------------------- settings


def test_unusable_certificates_are_refused(tmp_path, authority, certified):
    certificate, key = Path(certified["tls_certificate"]), Path(certified["tls_key"])
    _, another = authority.signed("another", "DNS:x")
    garbage = tmp_path / "garbage.pem"
    garbage.write_text("garbage")
    for files in (
        (tmp_path / "nowhere.pem", key, None),
        (certificate, tmp_path / "nowhere.key", None),
        (garbage, key, None),
        (certificate, another, None),
        (certificate, authority.encrypted(key), None),
        (certificate, key, garbage),
        (certificate, key, tmp_path / "nowhere.pem"),
    ):
        settings = Settings(tls_certificate=files[0], tls_key=files[1], tls_client_ca=files[2])
        with pytest.raises(InvalidRequest, match="cannot be used"):
            server_context(settings)


def test_a_server_with_missing_certificates_exits_with_78(tmp_path, capsys):
    files = {"tls_certificate": tmp_path / "x.pem", "tls_key": tmp_path / "x.key"}
    with pytest.raises(SystemExit) as ended:
        serve(data=tmp_path / "data", port=0, **files)
    assert ended.value.code == 78
    assert "cannot be used" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    "files", [("tls_certificate",), ("tls_key",), ("tls_client_ca",), ("tls_key", "tls_client_ca")]
)
def test_incomplete_tls_settings_are_refused(files, tmp_path):
    with pytest.raises(InvalidRequest):
        require_safe(Settings(**{name: tmp_path / name for name in files}))


def test_without_a_certificate_there_is_no_tls():
    assert server_context(Settings()) is None
