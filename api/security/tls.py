"""Checks of the addresses to listen on, and the TLS contexts of clients and nodes.

Beyond loopback a server needs authentication and TLS: an eavesdropper learns an API key that
travels in the clear. There, nodes need both a secret and certificates among themselves: the secret
proves that a node belongs to this database, and TLS encrypts their messages.
"""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Iterable
from pathlib import Path

import structlog

from hornbeam_server.node.hosts import is_loopback
from hornbeam_server.node.settings import Settings
from hornbeam_server.schema.errors import InvalidRequest
from hornbeam_server.storage.tcp.peers import Tls

_LOG = structlog.get_logger(__name__)


def require_safe(settings: Settings) -> None:
    """Raises InvalidRequest if it is unsafe to listen on the address with these settings, or if
    settings of TLS are incomplete."""
    if (settings.tls_certificate is None) != (settings.tls_key is None):
        raise InvalidRequest(
            "Of tls_certificate and tls_key only one is set.", cure="Set both, or neither."
        )
    if settings.tls_client_ca is not None and settings.tls_certificate is None:
        raise InvalidRequest(
            "tls_client_ca needs tls_certificate and tls_key.", cure="Set these, or leave it out."
        )
    if settings.node_ca is not None and settings.tls_certificate is None:
        raise InvalidRequest(
            "node_ca needs tls_certificate and tls_key.", cure="Set these, or leave it out."
        )
    if settings.store == "hbase":
        _require_safe_among_nodes(settings)
    if is_loopback(settings.host):
        return
    if settings.authentication == "none":
        raise InvalidRequest(
            f"Refusing to listen on {settings.host}: without authentication only loopback is safe.",
            cure='Set authentication = "keys", and TLS; docs/security.md says how.',
        )
    if settings.tls_certificate is None and not settings.tls_by_proxy:
        raise InvalidRequest(
            f"Refusing to listen on {settings.host}: API keys would travel in the clear.",
            cure="Set tls_certificate and tls_key, or tls_by_proxy if a proxy in front does TLS.",
        )


def _require_safe_among_nodes(settings: Settings) -> None:
    """Raises InvalidRequest if it is unsafe to listen for nodes on `peer_host` with these settings,
    or if other nodes cannot reach it."""
    host = settings.peer_host
    if not settings.peer_address and _is_every_address(host):
        raise InvalidRequest(
            f"Other nodes cannot reach this one at {host}.",
            cure="Set peer_address to a name or an address of this machine, with the port.",
        )
    if is_loopback(host):
        return
    if not settings.node_secret.get_secret_value():
        raise InvalidRequest(
            f"Refusing to listen for nodes on {host}: without node_secret only loopback is safe.",
            cure="Set node_secret, the same on every node; `openssl rand -hex 32` makes one.",
        )
    if settings.tls_certificate is None or settings.node_ca is None:
        raise InvalidRequest(
            f"Refusing to listen for nodes on {host}: what they say would travel in the clear.",
            cure="Set tls_certificate, tls_key and node_ca; docs/security.md says how.",
        )


def _is_every_address(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return host == ""


def server_context(settings: Settings) -> ssl.SSLContext | None:
    """The context for clients, TLS 1.2 or newer, with the certificate of the settings; None without
    one.

    Raises InvalidRequest when the files cannot be used.
    """
    if settings.tls_certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if settings.tls_client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
    _load(context, settings, settings.tls_client_ca)
    return context


def node_contexts(settings: Settings) -> Tls | None:
    """The contexts for both ends of connections between nodes, TLS 1.3, with the certificate of the
    settings; None without `node_ca`.

    Each end verifies that `node_ca` has signed the other's certificate, but not the host name in
    it: a node publishes its own address, which may change. The secret authenticates nodes.
    Raises InvalidRequest when the files cannot be used.
    """
    if settings.node_ca is None:
        return None
    tls = Tls(
        listener=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER),
        caller=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
    )
    tls.caller.check_hostname = False
    for context in tls:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        _load(context, settings, settings.node_ca)
    return tls


def forwarding_context(settings: Settings) -> ssl.SSLContext:
    """The context for requests that this node sends on to another node's address for clients. With
    `node_ca` it is that of connections between nodes; otherwise the machine's authorities must have
    signed the other's certificate, as behind a proxy.

    Raises InvalidRequest when the files cannot be used.
    """
    tls = node_contexts(settings)
    return ssl.create_default_context() if tls is None else tls.caller


def renew(contexts: Iterable[ssl.SSLContext], settings: Settings, authority: Path | None) -> None:
    """Read the certificate files again, for later connections. If a file cannot be used, log an
    error and keep the previous certificate. `authority` is added to the authorities that may sign
    certificates of peers: those that were read before stay trusted until a restart."""
    try:
        # OpenSSL replaces the certificate before it finds that the key is of another one.
        _load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), settings, authority)
        for context in contexts:
            _load(context, settings, authority)
    except InvalidRequest as error:
        _LOG.error("certificates stay as they are", error=str(error))
    else:
        _LOG.warning("certificates renewed")


def _load(context: ssl.SSLContext, settings: Settings, authority: Path | None) -> None:
    assert settings.tls_certificate is not None
    try:
        context.load_cert_chain(settings.tls_certificate, settings.tls_key, password=_no_password)
        if authority is not None:
            context.load_verify_locations(authority)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise InvalidRequest(
            f"The certificates of the settings cannot be used: {error}.",
            cure="tls_certificate, tls_key, tls_client_ca and node_ca are PEM files;"
            " the key is not encrypted.",
        ) from None


def _no_password() -> str:
    """Refuse an encrypted key. Otherwise OpenSSL asks for a password at the terminal."""
    raise ValueError("the private key is encrypted")
