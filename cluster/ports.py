"""Free ports that stay free: below those that the system assigns to outgoing connections.

A port from the system's own range may be taken by any connection while the process that listens on
it is down; a process that was killed could then not be started again.
"""

from __future__ import annotations

import contextlib
import random
import socket
from itertools import islice
from pathlib import Path

from hornbeam_server.cluster.layout import HOST
from hornbeam_server.schema.errors import Unavailable

_FIRST, _LAST = 15_000, 32_000
_TRIES = 5_000
_OUTGOING = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_ports(count: int) -> list[int]:
    """`count` different ports on which no process listens now.

    Another call may return the same port until a process listens on it, so processes that start
    together get their ports from one call. Raises Unavailable.
    """
    ports = random.sample(_range(), _TRIES)
    found = list(islice(filter(is_free, ports), count))
    if len(found) < count:
        raise Unavailable(
            f"Of {len(ports)} ports tried, {len(found)} are free, and {count} are needed.",
            cure=f"Stop processes that listen on {HOST}, or start fewer.",
        )
    return found


def _range() -> range:
    """The ports to choose from: those below the system's own range, or the whole range if there is
    no room below it."""
    outgoing = int(_OUTGOING.read_text(encoding="ascii").split()[0])
    last = min(_LAST, outgoing)
    return range(_FIRST, last if last - _FIRST >= _TRIES else _LAST)


def is_free(port: int) -> bool:
    with contextlib.closing(socket.socket()) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
        except OSError:
            return False
    return True
