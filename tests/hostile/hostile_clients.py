"""Hostile clients: threads of a separate process that send the requests drawn by the seed.

They use another loopback address than the polite client. They run at the lowest priority, since
their own work would run on other machines.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from threading import Lock

from tests.hostile.hostile_families import attack
from tests.hostile.hostile_requests import Attack, Manner

FROM = "127.0.0.2"
PIECE = 1 << 16
PIECES, PAUSE_S = 8, 0.5
"""Number of pieces of a slow body, and the pause between them."""
GONE = ConnectionRefusedError.__name__
LEAVES_S = (0.02, 0.3, 1.0)
MOST_BYTES = 200 << 20
"""Maximum number of bytes read of one answer."""


@dataclass(frozen=True)
class Sent:
    """The result of one request. `status` is the answer's, or the reason why there is none."""

    family: str
    label: str
    status: str
    began: float
    seconds: float
    limit_s: float
    bytes: int = 0

    @property
    def over_s(self) -> float:
        """Seconds by which the answer exceeded the time limit of the request."""
        return max(self.seconds - self.limit_s, 0.0)


@dataclass(frozen=True)
class Orders:
    host: str
    port: int
    seed: int
    families: Sequence[str]
    clients: int
    longest_s: float
    until: float
    """A time of `time.monotonic()`, which is common to all processes of a machine."""
    patience_s: float
    """How long past its limit to wait for an answer, in order to measure the delay."""


def besiege(orders: Orders, to: Connection) -> None:
    """Send requests until the time is over; then send the list of `Sent` through `to`."""
    os.nice(19)
    numbers, lock = itertools.count(), Lock()
    sent: list[Sent] = []

    def client() -> None:
        with ThreadPoolExecutor(64) as clients:
            while time.monotonic() < orders.until:
                with lock:
                    number = next(numbers)
                drawn = attack(orders.seed, number, orders.families, orders.longest_s)
                work = [clients.submit(send, orders, drawn, number) for _ in range(drawn.at_once)]
                became = [each.result() for each in work]
                sent.extend(became)
                if any(each.status == GONE for each in became):
                    return  # the server has ended

    with ThreadPoolExecutor(orders.clients) as clients:
        for each in [clients.submit(client) for _ in range(orders.clients)]:
            each.result()
    to.send(sent)
    to.close()


def send(orders: Orders, drawn: Attack, number: int) -> Sent:
    """Send one request in its manner. The time counts from the end of the body."""
    connection = http.client.HTTPConnection(
        orders.host,
        orders.port,
        timeout=drawn.limit_s + orders.patience_s,
        source_address=(FROM, 0),
    )
    began = time.monotonic()
    count = 0
    try:
        began = _post(connection, drawn)
        if drawn.manner is Manner.LEAVE:
            time.sleep(LEAVES_S[number % len(LEAVES_S)])
            status = "left"
        elif drawn.manner is Manner.UNREAD:
            time.sleep(drawn.limit_s)
            status = "unread"
        else:
            deadline = began + drawn.limit_s + orders.patience_s
            status, count = _answer(connection, deadline)
    except TimeoutError:
        status = "none in time"
    except (OSError, http.client.HTTPException) as error:
        status = type(error).__name__
    finally:
        connection.close()
    seconds = time.monotonic() - began
    waited = drawn.manner in (Manner.WAIT, Manner.SLOW)
    return Sent(
        drawn.family,
        drawn.label,
        status,
        began,
        seconds if waited else 0.0,
        drawn.limit_s,
        count,
    )


def _post(connection: http.client.HTTPConnection, drawn: Attack) -> float:
    """Send the request; return when it was sent. A server may refuse a body before its end."""
    connection.putrequest("POST", drawn.path)
    connection.putheader("Content-Type", drawn.content_type)
    connection.putheader("Accept", drawn.accept)
    connection.putheader("Content-Length", str(len(drawn.body)))
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        connection.endheaders()
        for piece in _pieces(drawn):
            connection.send(piece)
    return time.monotonic()


def _pieces(drawn: Attack) -> Iterator[bytes]:
    if drawn.manner is not Manner.SLOW:
        yield drawn.body
        return
    step = max(len(drawn.body) // PIECES, 1)
    for start in range(0, len(drawn.body), step):
        yield drawn.body[start : start + step]
        time.sleep(PAUSE_S)


def _answer(connection: http.client.HTTPConnection, deadline: float) -> tuple[str, int]:
    """Return status and size of the answer. Raises TimeoutError past `deadline`."""
    answer = connection.getresponse()
    count, last = 0, b""
    try:
        while piece := answer.read(PIECE):
            count, last = count + len(piece), (last + piece)[-4_000:]
            if time.monotonic() > deadline:
                raise TimeoutError
            if count > MOST_BYTES:
                return f"{answer.status} long", count
    except (http.client.HTTPException, ConnectionError):
        return f"{answer.status} cut", count
    if answer.status == 200 and b'"error":' in last:
        return "200 error", count
    return str(answer.status), count
