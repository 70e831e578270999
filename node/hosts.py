"""Host names in requests and settings: parsed strictly, and compared in a canonical spelling."""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from typing import NamedTuple

_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~%!$&'()*+;=-]+)(?::([0-9]{0,5}))?")
DEFAULT_PORTS = {"http": 80, "https": 443}
_KNOWN = 64
"""Hosts that are remembered: each request names one, and parsing takes longer than a point read."""


class Authority(NamedTuple):
    """A host in its canonical spelling, and a port; None: the default of the scheme."""

    host: str
    port: int | None

    def on(self, scheme: str) -> Authority:
        """The same authority with the port that a client of `scheme` connects to."""
        return Authority(self.host, self.port or DEFAULT_PORTS.get(scheme))


@lru_cache(_KNOWN)
def read_authority(text: str) -> Authority | None:
    """Parse `host`, `host:port`, `[IPv6]` or `[IPv6]:port`; None for anything else.

    The result is in lower case and without the dot that ends an absolute name.
    """
    found = _AUTHORITY.fullmatch(text)
    if found is None:
        return None
    host = _canonical(found[1])
    return Authority(host, int(found[2]) if found[2] else None) if host else None


@lru_cache(_KNOWN)
def is_loopback(host: str) -> bool:
    """Is `host` a loopback address or `localhost`? Asks no name server."""
    try:
        return ipaddress.ip_address(_canonical(host)).is_loopback
    except ValueError:
        return _canonical(host) == "localhost"


def _canonical(host: str) -> str:
    name = host.lower().removesuffix(".")
    bare = name.removeprefix("[").removesuffix("]")
    try:
        address = ipaddress.ip_address(bare)
    except ValueError:
        return "" if name.startswith("[") else name
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)
