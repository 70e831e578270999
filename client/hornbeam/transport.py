"""Sending requests to a database: over HTTP, or to an application in this process.

Both use the same REST interface; only the carrier of a request differs (`hornbeam/exchange.py`).
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from hornbeam.errors import Error, InterfaceError, OperationalError, from_problem
from hornbeam.exchange import Answer, Carrier, CutShort, Lost, NotSent, Request
from hornbeam.http import Http
from hornbeam.nodes import BEHIND, Nodes
from hornbeam.security import Secret, Tls, key_of, redacted, require_private, tls_of

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
    return [(node.hostname or "", node.port or DEFAULT_PORT) for node in nodes]


class Transport:
    """Sends requests, and turns problem documents into exceptions. One thread uses it at a time.

    `where` names the database in messages. `headers` are sent with every request.
    """

    def __init__(
        self, carrier: Carrier, where: str, headers: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self._carrier = carrier
        self._where = where
        self._headers = dict(headers)
        self.behind_s = 0.0
        """Seconds since the node that sent the last answer last learned of commits. 0: the node is
        connected to the other nodes."""

    def json(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
    ) -> Any:
        """The answer's JSON document. Raises DatabaseError."""
        document = self._document(self._send(method, path, body, headers, params))
        if isinstance(document, dict) and isinstance(document.get("error"), dict):
            # The request failed after the server had begun its answer.
            raise from_problem(document["error"])
        return document

    def post(self, path: str, content: bytes, headers: Mapping[str, str]) -> Any:
        """POST bytes. Returns the answer's JSON document. Raises DatabaseError."""
        return self._document(
            self._sent(Request("POST", _quoted(path), {**self._headers, **headers}, content))
        )

    def text(self, path: str, params: Mapping[str, str] | None = None) -> str:
        """The answer's text. Raises DatabaseError."""
        answer = self._send("GET", path, None, None, params)
        with self._reaching():
            return answer.read().decode()

    @contextmanager
    def stream(
        self, path: str, body: Any, headers: Mapping[str, str] | None = None
    ) -> Iterator[Answer]:
        """POST `body`. The caller reads the answer piece by piece. Raises DatabaseError."""
        answer = self._send("POST", path, body, headers)
        try:
            with self._reaching():
                yield answer
        finally:
            answer.close()

    def close(self) -> None:
        """Close the carrier. Idempotent."""
        self._carrier.close()

    def _send(
        self,
        method: str,
        path: str,
        body: Any,
        headers: Mapping[str, str] | None,
        params: Mapping[str, str] | None = None,
    ) -> Answer:
        target = _quoted(path) + (f"?{urlencode(params)}" if params else "")
        given = {**self._headers, **(headers or {})}
        if body is None:
            return self._sent(Request(method, target, given))
        given["Content-Type"] = "application/json"
        return self._sent(Request(method, target, given, _encode(body)))

    def _sent(self, request: Request) -> Answer:
        with self._reaching():
            answer = self._carrier.send(request)
            if answer.is_error:
                raise _problem(answer)
        self.behind_s = float(answer.headers.get(BEHIND, 0))
        return answer

    def _document(self, answer: Answer) -> Any:
        with self._reaching():
            return answer.json()

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        """Raise a carrier's errors as OperationalError. Without a connection nothing was sent. With
        a connection the outcome is unknown."""
        try:
            yield
        except (NotSent, Lost) as error:
            sent = isinstance(error, Lost)
            problem = {
                "code": "unreachable",
                "retryable": not sent,
                "outcome": "unknown" if sent else "none",
            }
            fault = "has not ended its answer" if isinstance(error, CutShort) else "does not answer"
            message = f"The database at {self._where} {fault}: {error}"
            raise OperationalError(message, problem) from error


def _quoted(path: str) -> str:
    """A path in URL encoding. Names in it may be quoted already. Raises InterfaceError."""
    return quote(_utf8(path), safe="/%")


def _encode(body: Any) -> bytes:
    """A body as JSON. Raises InterfaceError."""
    return _utf8(json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False))


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InterfaceError(
            f"{error.object[error.start : error.end]!a} is not text: half a pair of surrogates.\n"
            "  Decode bytes with their own encoding, or send them as bytes."
        ) from None


def _problem(answer: Answer) -> Error:
    """The exception for an error answer. An answer without a problem document does not come from
    Hornbeam's code, but for example from a proxy. If its status is 500 or above, the request may
    have taken effect."""
    try:
        problem = answer.json()
    except ValueError:
        problem = None
    if not isinstance(problem, dict):
        outcome = "unknown" if answer.status >= 500 else "none"
        detail = f"HTTP status {answer.status}"
        problem = {"detail": detail, "code": "internal", "outcome": outcome}
    return from_problem(problem)


def open_transport(target: Target, timeout_s: float) -> Transport:
    """A transport to `target`. Over HTTP it sends nothing yet."""
    if target.folder:
        from hornbeam.embedded import EmbeddedTransport

        return EmbeddedTransport(target.folder)
    tls = None if target.tls is None else target.tls.context()
    nodes = [
        Http(
            address,
            connect_timeout_s=min(timeout_s, 10.0),
            timeout_s=timeout_s + GRACE_S,
            tls=tls,
        )
        for address in target.addresses
    ]
    headers = {"Authorization": Secret(f"Bearer {target.key}")} if target.key else {}
    return Transport(Nodes(nodes), target.addresses[0], headers)


def persistently(send: Callable[[], T]) -> T:
    """Call `send` until it succeeds, fails with an error that a retry would not change, or
    PATIENCE_S have passed since the first failure.

    `send` must be safe to repeat: a read, or a request with an idempotency key. An attempt with an
    unknown outcome is also repeated. If no later attempt succeeds, the error's outcome is
    "unknown".
    """
    unknown, give_up, pause_s = False, math.inf, 0.005
    while True:
        try:
            return send()
        except Error as error:
            # PATIENCE_S begins at the first failure: a frozen node delays the first attempt.
            give_up = min(give_up, time.monotonic() + PATIENCE_S)
            unknown = unknown or error.outcome == "unknown"
            again = error.code in _RETRIED or (unknown and error.code in _LOST)
            if not again or time.monotonic() > give_up:
                if unknown and error.code in _LOST | _RETRIED:
                    error.outcome, error.retryable = "unknown", False
                raise
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, 0.5)


def replanned(apply: Callable[[], T]) -> T:
    """Call `apply`, which plans and applies a schema, until its plan is not stale, at most
    MAX_ATTEMPTS times. New row counts and concurrent schema changes make a plan stale."""
    for attempt in range(MAX_ATTEMPTS - 1):
        try:
            return apply()
        except OperationalError as error:
            if error.code != "stale-plan":
                raise
        time.sleep(0.01 * 2**attempt)
    return apply()


_LOST = {"unreachable", "outcome-unknown"}
