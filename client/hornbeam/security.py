"""API keys and certificates: the credentials of a connection, and the verification of the server.

A key is sent in every request, so it leaves this machine only over TLS. No message, `repr` or log
contains it.
"""

from __future__ import annotations

import ipaddress
import os
import re
import ssl
from typing import NamedTuple

from hornbeam.errors import InterfaceError

API_KEY_VARIABLE = "HORNBEAM_API_KEY"
_CREDENTIALS = re.compile(r"//[^/?#]*@")
_KEY = re.compile(r"hb_\w+")
_TRUE, _FALSE = {"1", "true", "yes"}, {"0", "false", "no"}


class Secret(str):
    """Text whose `repr` is masked, so that it does not appear in the `repr` of other objects."""

    def __repr__(self) -> str:
        return "'***'"


class Tls(NamedTuple):
    """Paths of the files that verify a server. `ca` "": the system's trusted authorities.

    `certificate` and `private_key` are the client's own, for servers that require a certificate.
    """

    ca: str = ""
    certificate: str = ""
    private_key: str = ""

    def context(self) -> ssl.SSLContext:
        """An SSL context that verifies the server's certificate and name. Raises InterfaceError."""
        try:
            context = ssl.create_default_context(cafile=self.ca or None)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            if self.certificate:
                context.load_cert_chain(
                    self.certificate, self.private_key or None, password=_no_password
                )
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise InterfaceError(f"The certificates of the URL cannot be used: {error}") from None
        return context


def _no_password() -> str:
    """Refuse an encrypted private key. Without this, OpenSSL would prompt at the terminal."""
    raise ValueError("the private key is encrypted")


def redacted(url: str) -> str:
    """`url` without its key, for messages, even if the key is in the wrong place."""
    return _KEY.sub("***", _CREDENTIALS.sub("//***@", url))


def key_of(user: str | None, password: str | None) -> Secret:
    """The key of a URL's `:key@`, else of HORNBEAM_API_KEY, else "". Raises InterfaceError."""
    if user:
        raise InterfaceError("Write a colon before the key: hornbeam://:key@host.")
    key = Secret(password or os.environ.get(API_KEY_VARIABLE, ""))
    if not re.fullmatch(r"[!-~]*", key):
        raise InterfaceError("The API key has characters that API keys cannot have.")
    return key


def tls_of(options: dict[str, str]) -> Tls | None:
    """Remove `tls`, `ca`, `cert` and `cert_key` from a URL's options, and return them; None without
    TLS. Raises InterfaceError."""
    enabled = options.pop("tls", "false").lower()
    if enabled not in _TRUE | _FALSE:
        raise InterfaceError(f"The option tls must be true or false, not {enabled!r}.")
    found = Tls(*(options.pop(name, "") for name in ("ca", "cert", "cert_key")))
    if enabled in _TRUE:
        return found
    if any(found):
        raise InterfaceError("The options ca, cert and cert_key need ?tls=true.")
    return None


def require_private(host: str, key: str, tls: Tls | None) -> None:
    """Check that a key is not sent to another machine without TLS. Raises InterfaceError."""
    if key and tls is None and not _is_loopback(host):
        raise InterfaceError(
            f"The API key would be sent to {host} in the clear.\n"
            "  Add ?tls=true to the URL (and &ca=FILE for your own certificate authority)."
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
