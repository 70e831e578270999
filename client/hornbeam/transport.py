"""Sending requests to a database: over HTTP, or to an application in this process.

Both use the same REST interface; only the carrier of a request differs (`hornbeam/exchange.py`).
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeVar
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from hornbeam.errors import Error, InterfaceError, OperationalError, from_problem
from hornbeam.exchange import Answer, Carrier, CutShort, Lost, NotSent, Request
from hornbeam.http import Http
from hornbeam.http1 import host_of
from hornbeam.nodes import BEHIND, Nodes
from hornbeam.security import Secret, Tls, key_of, redacted, require_private, tls_of
from hornbeam.waiting import Pause, blocking_pause, finished

T = TypeVar("T")
ARROW = "application/vnd.apache.arrow.stream"
DEFAULT_PORT = 8780
MAX_ATTEMPTS = 10
PATIENCE_S = 30.0
"""Seconds for which a failed request is retried. Another node takes over within some ten
seconds."""
GRACE_S = 5.0
"""Seconds that the client waits beyond the request's time limit. So the server gives up first, and
its answer states the outcome of the request."""
_RETRIED = {"transaction-aborted", "overloaded", "unavailable"}
_LOST = {"unreachable", "outcome-unknown"}
ERROR = 400
"""The lowest status of an error."""
NONE: Mapping[str, str] = MappingProxyType({})


class Target(NamedTuple):
    """A parsed URL: either `addresses` (of the nodes of one database) or `folder` is set."""

    addresses: tuple[str, ...]
    folder: str
    options: dict[str, str]
    key: Secret = Secret()
    tls: Tls | None = None


def parse_url(url: str) -> Target:
    """Parse `hornbeam://:key@host:port?options` or `hornbeam:///folder?options`.

    `also=host:port,host:port` among the options names further nodes of the same database.
    Raises InterfaceError for another URL.
    """
    shown = redacted(url)
    wrong = f"{shown!r} is not a Hornbeam URL; write hornbeam://host:port or hornbeam:///folder"
    try:
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        nodes = _nodes(parts, options) if parts.hostname else []
    except ValueError as error:
        raise InterfaceError(f"{wrong} ({redacted(str(error))})") from None
    if parts.scheme.split("+")[0] != "hornbeam":
        raise InterfaceError(wrong)
    if parts.hostname:
        key, tls = key_of(parts.username, unquote(parts.password or "")), tls_of(options)
        for host, _ in nodes:
            require_private(host, key, tls)
        scheme = "https" if tls else "http"
        addresses = [f"{scheme}://{f'[{h}]' if ':' in h else h}:{port}" for h, port in nodes]
        return Target(tuple(addresses), "", options, key, tls)
    folder = unquote(parts.path).removeprefix("/")
    if not folder:
        raise InterfaceError("hornbeam:///folder needs a folder; an absolute one has four slashes")
    return Target((), folder, options)


def _nodes(parts: SplitResult, options: dict[str, str]) -> list[tuple[str, int]]:
    """Host and port of each node. Removes `also` from the options. Raises ValueError."""
    also = options.pop("also", None)
    nodes = [parts, *(urlsplit(f"//{node}") for node in (also.split(",") if also else ()))]
    if also == "" or not all(node.hostname for node in nodes):
        raise ValueError("also= names no host")
    for node in nodes:
        host_of(node)  # raises ValueError for a name that no host can have
    return [(node.hostname or "", node.port or DEFAULT_PORT) for node in nodes]


class Requests(Protocol):
    """Requests for a database, as the code awaits them that both kinds of connections share
    (`hornbeam/waiting.py`)."""

    @property
    def behind_s(self) -> float:
        """Seconds since the node that sent the last answer last learned of commits. 0: the node is
        connected to the other nodes."""

    async def json(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] = NONE
    ) -> Any:
        """The answer's JSON document. `body`: a document, or its bytes. Raises DatabaseError."""

    async def pause(self, seconds: float) -> None:
        """Wait."""


class Envelope:
    """Makes requests, and takes the documents out of their answers: problem documents become
    exceptions. `where` names the database in messages. `headers` are sent with every request."""

    def __init__(self, where: str, headers: Mapping[str, str] = NONE) -> None:
        self._where = where
        self._headers = dict(headers)
        self._json_headers = {**self._headers, "Content-Type": "application/json"}
        self.behind_s = 0.0

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] = NONE,
        params: Mapping[str, str] | None = None,
    ) -> Request:
        """A request. `body`: a document, or its bytes. Raises InterfaceError."""
        target = quoted(path)
        if params:
            target += f"?{urlencode(params)}"
        if body is None:
            return Request(method, target, {**self._headers, **headers})
        given = {**self._json_headers, **headers} if headers else self._json_headers
        content = body if isinstance(body, bytes) else encode(body)
        return Request(method, target, given, content)

    def document(self, status: int, headers: Mapping[str, str], body: bytes) -> Any:
        """The document of an answer. Raises DatabaseError, and ValueError for another text."""
        if status >= ERROR:
            raise problem_of(status, body)
        self.note(headers)
        document = _decode(body.decode())
        if type(document) is dict and isinstance(document.get("error"), dict):
            # The request failed after the server had begun its answer.
            raise from_problem(document["error"])
        return document

    def note(self, headers: Mapping[str, str]) -> None:
        """Note the state of the node that has answered."""
        self.behind_s = float(headers.get(BEHIND) or 0)

    def unreached(self, error: NotSent | Lost) -> OperationalError:
        """A carrier's error. Without a connection nothing was sent. With a connection the outcome
        is unknown."""
        sent = isinstance(error, Lost)
        problem = {
            "code": "unreachable",
            "retryable": not sent,
            "outcome": "unknown" if sent else "none",
        }
        fault = "has not ended its answer" if isinstance(error, CutShort) else "does not answer"
        return OperationalError(f"The database at {self._where} {fault}: {error}", problem)


class Transport:
    """Sends requests, and waits for their answers. One thread uses it at a time. The arguments are
    those of `Envelope`."""

    def __init__(self, carrier: Carrier, where: str, headers: Mapping[str, str] = NONE) -> None:
        self._carrier = carrier
        self._envelope = Envelope(where, headers)

    @property
    def behind_s(self) -> float:
        """See `Requests`."""
        return self._envelope.behind_s

    def json(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] = NONE,
        params: Mapping[str, str] | None = None,
    ) -> Any:
        """The answer's JSON document. Raises DatabaseError."""
        try:
            answer = self._carrier.send(self._envelope.request(method, path, body, headers, params))
            return self._envelope.document(answer.status, answer.headers, answer.read())
        except (NotSent, Lost) as error:
            raise self._envelope.unreached(error) from error

    def post(self, path: str, content: bytes, headers: Mapping[str, str]) -> Any:
        """POST bytes. Returns the answer's JSON document. Raises DatabaseError."""
        return self.json("POST", path, content, headers=headers)

    def text(self, path: str, params: Mapping[str, str] | None = None) -> str:
        """The answer's text. Raises DatabaseError."""
        try:
            answer = self._sent(self._envelope.request("GET", path, params=params))
            return answer.read().decode()
        except (NotSent, Lost) as error:
            raise self._envelope.unreached(error) from error

    @contextmanager
    def stream(
        self,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] = NONE,
        *,
        method: str = "POST",
        params: Mapping[str, str] | None = None,
    ) -> Iterator[Answer]:
        """Send `body`. The caller reads the answer piece by piece. Raises DatabaseError."""
        try:
            answer = self._sent(self._envelope.request(method, path, body, headers, params))
            try:
                yield answer
            finally:
                answer.close()
        except (NotSent, Lost) as error:
            raise self._envelope.unreached(error) from error

    def close(self) -> None:
        """Close the carrier. Idempotent."""
        self._carrier.close()

    def _sent(self, request: Request) -> Answer:
        """An answer that is no error. Raises NotSent, Lost, DatabaseError."""
        answer = self._carrier.send(request)
        if answer.status >= ERROR:
            raise problem_of(answer.status, answer.read())
        self._envelope.note(answer.headers)
        return answer


class Blocking:
    """`Requests` over a transport that blocks: its coroutines never wait."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    @property
    def behind_s(self) -> float:
        return self._transport.behind_s

    async def json(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] = NONE
    ) -> Any:
        return self._transport.json(method, path, body, headers=headers)

    async def pause(self, seconds: float) -> None:
        time.sleep(seconds)  # noqa: ASYNC251


@lru_cache(maxsize=128)
def quoted(path: str) -> str:
    """A path in URL encoding. Names in it may be quoted already. Raises InterfaceError."""
    return quote(utf8(path), safe="/%")


encode_text = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
"""A body as the text of JSON."""
_decode = json.JSONDecoder().decode


def encode(body: Any) -> bytes:
    """A body as JSON. Raises InterfaceError."""
    return utf8(encode_text(body))


def utf8(text: str) -> bytes:
    """Text as bytes. Raises InterfaceError for half a pair of surrogates."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InterfaceError(
            f"{error.object[error.start : error.end]!a} is not text: half a pair of surrogates.\n"
            "  Decode bytes with their own encoding, or send them as bytes."
        ) from None


def problem_of(status: int, body: bytes) -> Error:
    """The exception for an error answer. An answer without a problem document does not come from
    Hornbeam's code, but for example from a proxy. If its status is 500 or above, the request may
    have taken effect."""
    try:
        problem = json.loads(body)
    except ValueError:
        problem = None
    if not isinstance(problem, dict):
        outcome = "unknown" if status >= 500 else "none"
        problem = {"detail": f"HTTP status {status}", "code": "internal", "outcome": outcome}
    return from_problem(problem)


def open_transport(target: Target, timeout_s: float) -> Transport:
    """A transport to `target`. Over HTTP it sends nothing yet."""
    if target.folder:
        from hornbeam.embedded import EmbeddedTransport

        return EmbeddedTransport(target.folder)
    nodes = [Http(**options) for options in http_options(target, timeout_s)]
    carrier = nodes[0] if len(nodes) == 1 else Nodes(nodes)
    return Transport(carrier, target.addresses[0], standing_headers(target))


def http_options(target: Target, timeout_s: float) -> list[dict[str, Any]]:
    """The arguments of the carrier to each node."""
    tls = None if target.tls is None else target.tls.context()
    return [
        {
            "address": address,
            "connect_timeout_s": min(timeout_s, 10.0),
            "timeout_s": timeout_s + GRACE_S,
            "tls": tls,
        }
        for address in target.addresses
    ]


def standing_headers(target: Target) -> dict[str, str]:
    """The headers of every request to `target`."""
    return {"Authorization": Secret(f"Bearer {target.key}")} if target.key else {}


async def repeated(send: Callable[[], Awaitable[T]], pause: Pause) -> T:
    """Call `send` until it succeeds, fails with an error that a retry would not change, or
    PATIENCE_S have passed since the first failure.

    `send` must be safe to repeat: a read, or a request with an idempotency key. An attempt with an
    unknown outcome is also repeated. If no later attempt succeeds, the error's outcome is
    "unknown".
    """
    unknown, give_up, pause_s = False, math.inf, 0.005
    while True:
        try:
            return await send()
        except Error as error:
            # PATIENCE_S begins at the first failure: a frozen node delays the first attempt.
            give_up = min(give_up, time.monotonic() + PATIENCE_S)
            unknown = unknown or error.outcome == "unknown"
            again = error.code in _RETRIED or (unknown and error.code in _LOST)
            if not again or time.monotonic() > give_up:
                if unknown and error.code in _LOST | _RETRIED:
                    error.outcome, error.retryable = "unknown", False
                raise
        await pause(pause_s)
        pause_s = min(pause_s * 2, 0.5)


def persistently(send: Callable[[], T]) -> T:
    """`repeated` for a function that blocks."""
    return finished(repeated(_awaited(send), blocking_pause))


async def replanned(apply: Callable[[], Awaitable[T]], pause: Pause) -> T:
    """Call `apply`, which plans and applies a schema, until its plan is not stale, at most
    MAX_ATTEMPTS times. New row counts and concurrent schema changes make a plan stale."""
    for attempt in range(MAX_ATTEMPTS - 1):
        try:
            return await apply()
        except OperationalError as error:
            if error.code != "stale-plan":
                raise
        await pause(0.01 * 2**attempt)
    return await apply()


def replanned_blocking(apply: Callable[[], T]) -> T:
    """`replanned` for a function that blocks."""
    return finished(replanned(_awaited(apply), blocking_pause))


def _awaited(call: Callable[[], T]) -> Callable[[], Awaitable[T]]:
    async def awaited() -> T:
        return call()

    return awaited
