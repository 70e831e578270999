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
    """The verification of a server, as paths of files. `ca` "": the system's trusted authorities.

    `certificate` and `private_key` are the client's own, for servers that require one.
    """

    ca: str = ""
    certificate: str = ""
    private_key: str = ""

    def context(self) -> ssl.SSLContext:
        """A context that verifies the server's certificate and name. Raises InterfaceError."""
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
    """The key in a URL's `:key@`, else in HORNBEAM_API_KEY, else "". Raises InterfaceError."""
    if user:
        raise InterfaceError("A key stands behind a colon: hornbeam://:key@host")
    key = Secret(password or os.environ.get(API_KEY_VARIABLE, ""))
    if not re.fullmatch(r"[!-~]*", key):
        raise InterfaceError("The API key has characters that no API key has.")
    return key


def tls_of(options: dict[str, str]) -> Tls | None:
    """Take `tls`, `ca`, `cert` and `cert_key` out of a URL's options. Raises InterfaceError."""
    asked = options.pop("tls", "false").lower()
    if asked not in _TRUE | _FALSE:
        raise InterfaceError(f"tls is true or false, not {asked!r}")
    found = Tls(*(options.pop(name, "") for name in ("ca", "cert", "cert_key")))
    if asked in _TRUE:
        return found
    if any(found):
        raise InterfaceError("ca, cert and cert_key need ?tls=true")
    return None


def require_private(host: str, key: str, tls: Tls | None) -> None:
    """Check that a key is not sent to another machine without TLS. Raises InterfaceError."""
    if key and tls is None and not _is_loopback(host):
        raise InterfaceError(
            f"An API key would go to {host} in the clear.\n"
            "  Add ?tls=true to the URL (and &ca=FILE for an authority of your own)."
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
