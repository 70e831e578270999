"""Connections between nodes: unsafe settings, and TLS that both sides verify."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop
from pydantic import ValidationError
from structlog.testing import capture_logs

from hornbeam_server.api.security.tls import node_contexts, renew, require_safe
from hornbeam_server.node import settings as settings_module
from hornbeam_server.node.settings import Settings, load_settings
from hornbeam_server.schema.errors import InvalidRequest, Unavailable
from hornbeam_server.storage.ports import Caller
from hornbeam_server.storage.tcp.peers import TcpPeers
from tests.api.certificates import Authority

SECRET = "5e" * 32
Run = Callable[[Coroutine[Any, Any, None]], None]


def on_uvloop(main: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main)


on_every_loop = pytest.mark.parametrize("run", [asyncio.run, on_uvloop], ids=["asyncio", "uvloop"])


@pytest.fixture(scope="module")
def authority(tmp_path_factory) -> Authority:
    return Authority(tmp_path_factory.mktemp("nodes"))


def certified(authority: Authority, name: str, **others: object) -> Settings:
    certificate, key = authority.signed(name)
    given = {"tls_certificate": certificate, "tls_key": key, "node_ca": authority.certificate}
    return Settings(**given | others)


def peers(settings: Settings | None) -> TcpPeers:
    tls = None if settings is None else node_contexts(settings)
    return TcpPeers("db", bytes.fromhex(SECRET), tls=tls)


async def echo(caller: Caller, message: bytes) -> bytes:
    return caller.name.encode() + b" " + message


async def exchanged(listener: TcpPeers, caller: TcpPeers) -> bytes:
    """Send a message and return the answer; raise Unavailable without a connection."""
    try:
        link = await caller.connect("a", await listener.listen(echo), 1)
        return await link.ask(b"x")
    finally:
        await caller.close()
        await listener.close()


# ---------------------------------------------------------------- TLS


@on_every_loop
def test_nodes_with_certificates_of_one_authority_connect(run: Run, authority):
    """The certificates may have any name."""

    async def scenario() -> None:
        both = [peers(certified(authority, name)) for name in ("one", "two")]
        assert await exchanged(*both) == b"a x"

    run(scenario())


@on_every_loop
@pytest.mark.parametrize("which", ["listener", "caller"])
def test_a_certificate_of_another_authority_is_refused(run: Run, which, authority, tmp_path):
    """A certificate is refused even if its owner trusts the right authority and has the secret."""
    foreign = certified(Authority(tmp_path, "foreign"), "three", node_ca=authority.certificate)
    ours = certified(authority, "one")
    listener, caller = (foreign, ours) if which == "listener" else (ours, foreign)

    async def scenario() -> None:
        with pytest.raises(Unavailable):
            await exchanged(peers(listener), peers(caller))

    with capture_logs() as logged:
        run(scenario())
    assert [line["event"] for line in logged] == ["a connection of a member was refused"]


@on_every_loop
@pytest.mark.parametrize("which", ["listener", "caller"])
def test_tls_on_one_side_only_is_refused(run: Run, which, authority):
    secured = certified(authority, "one")
    listener, caller = (secured, None) if which == "listener" else (None, secured)

    async def scenario() -> None:
        with pytest.raises(Unavailable):
            await exchanged(peers(listener), peers(caller))

    with capture_logs() as logged:
        run(scenario())
    assert [line["event"] for line in logged] == ["a connection of a member was refused"]


async def test_certificates_of_nodes_can_be_renewed(authority, tmp_path):
    """Unusable certificates are logged, and the old ones stay in use."""
    files = [tmp_path / "used.pem", tmp_path / "used.key"]

    def put(certificate: Path, key: Path) -> None:
        files[0].write_bytes(certificate.read_bytes())
        files[1].write_bytes(key.read_bytes())

    foreign = Authority(tmp_path / "foreign", "foreign")
    put(*foreign.signed("before"))
    given = {"tls_certificate": files[0], "tls_key": files[1], "node_ca": authority.certificate}
    settings = Settings(**given)
    tls = node_contexts(settings)

    async def reach() -> bytes:
        other = peers(certified(authority, "other"))
        return await exchanged(other, TcpPeers("db", bytes.fromhex(SECRET), tls=tls))

    with capture_logs() as logged:
        files[1].write_text("no key")
        renew(tls, settings, authority.certificate)
        with pytest.raises(Unavailable):
            await reach()
        put(*authority.signed("after"))
        renew(tls, settings, authority.certificate)
        assert await reach() == b"a x"
        certificate, _ = authority.signed("without its key")
        files[0].write_bytes(certificate.read_bytes())
        renew(tls, settings, authority.certificate)
        assert await reach() == b"a x"
    levels = [line["log_level"] for line in logged]
    assert levels == ["error", "warning", "warning", "error"]


def test_unusable_certificates_are_refused(authority, tmp_path):
    nowhere = tmp_path / "nowhere.pem"
    for wrong in ({"tls_certificate": nowhere}, {"tls_key": nowhere}, {"node_ca": nowhere}):
        with pytest.raises(InvalidRequest, match="cannot be used"):
            node_contexts(certified(authority, "one", **wrong))


def test_without_an_authority_nodes_use_no_tls():
    assert node_contexts(Settings()) is None


# ---------------------------------------------------------------- settings


BEYOND = ["0.0.0.0", "::", "192.0.2.1", "node.example", ""]


@pytest.mark.parametrize("host", BEYOND)
def test_beyond_loopback_nodes_need_a_secret_and_certificates(tmp_path, host):
    secret = {"node_secret": SECRET}
    certificate = {"tls_certificate": tmp_path / "c.pem", "tls_key": tmp_path / "k.pem"}
    authority = {"node_ca": tmp_path / "ca.pem"}
    beyond = {"store": "hbase", "peer_host": host, "peer_address": "node.example:9000"}
    for options in ({}, certificate, certificate | authority):
        with pytest.raises(InvalidRequest, match="without node_secret"):
            require_safe(Settings(**beyond | options))
    for options in ({}, certificate, {"tls_by_proxy": True}):
        with pytest.raises(InvalidRequest, match="in the clear"):
            require_safe(Settings(**beyond | secret | options))
    require_safe(Settings(**beyond | secret | certificate | authority))
    require_safe(
        Settings(**beyond | {"store": "embedded"})
    )  # an embedded database has no other nodes


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_on_loopback_nodes_need_no_secret_and_no_tls(host):
    require_safe(Settings(store="hbase", peer_host=host))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", ""])
def test_an_unspecified_peer_address_is_refused(host):
    with pytest.raises(InvalidRequest, match="cannot reach"):
        require_safe(Settings(store="hbase", peer_host=host))


def test_an_authority_of_nodes_needs_a_certificate(tmp_path):
    with pytest.raises(InvalidRequest, match="node_ca needs"):
        require_safe(Settings(node_ca=tmp_path / "ca.pem"))


@pytest.mark.parametrize("secret", ["secret", SECRET[1:], SECRET + "00", SECRET.upper(), "g" * 64])
def test_an_invalid_secret_is_refused_and_not_shown(secret):
    with pytest.raises(ValidationError, match="64 hexadecimal digits") as refused:
        load_settings(node_secret=secret)
    assert secret not in str(refused.value.errors()[0]["msg"])


def test_the_secret_is_not_shown():
    settings = Settings(node_secret=SECRET)
    described = settings_module.describe(node_secret=SECRET)
    assert SECRET not in f"{settings!r} {settings} {described}"
    assert settings.node_secret.get_secret_value() == SECRET


@pytest.mark.parametrize("address", ["node", "node:", ":1", "node:0", "node:x", "node:123456"])
def test_a_peer_address_is_a_host_and_a_port(address):
    with pytest.raises(ValidationError):
        Settings(peer_address=address)
