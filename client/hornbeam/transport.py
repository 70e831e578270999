"""How requests reach a database: over HTTP, or into an application in this process.

Both ways go through httpx and the same REST interface; only the lowest layer differs
(`hornbeam/embedded.py`).
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import httpx

from hornbeam.errors import Error, InterfaceError, OperationalError, from_problem
from hornbeam.nodes import BEHIND, Nodes
from hornbeam.security import Secret, Tls, key_of, redacted, require_private, tls_of

T = TypeVar("T")
ARROW = "application/vnd.apache.arrow.stream"
DEFAULT_PORT = 8780
MAX_ATTEMPTS = 10
PATIENCE_S = 30.0
"""A request that has failed is repeated for so long: another node takes over within some ten
seconds."""
GRACE_S = 5.0
"""The server gives up first, so that its answer says what became of the request."""
_TRY_AGAIN = {"transaction-aborted", "overloaded", "unavailable"}


class Target(NamedTuple):
    """A parsed URL: either `addresses` (of the nodes of one database) or `folder` is set."""

    addresses: tuple[str, ...]
    folder: str
    options: dict[str, str]
    key: Secret = Secret()
    tls: Tls | None = None


def parse_url(url: str) -> Target:
    """Read `hornbeam://:key@host:port?options` or `hornbeam:///folder?options`.

    `also=host:port,host:port` among the options names further nodes of the same database.
    Raises InterfaceError for another URL.
    """
    shown = redacted(url)
    wrong = f"{shown!r} is no Hornbeam URL; write hornbeam://host:port or hornbeam:///folder"
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
    """Host and port of each node; takes `also` out of the options. Raises ValueError."""
    also = options.pop("also", None)
    nodes = [parts, *(urlsplit(f"//{node}") for node in (also.split(",") if also else ()))]
    if also == "" or not all(node.hostname for node in nodes):
        raise ValueError("also= names no host")
    return [(node.hostname or "", node.port or DEFAULT_PORT) for node in nodes]


class Transport:
    """Sends requests, and turns problem documents into exceptions. One thread at a time."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        self.behind_s = 0.0
        """For so long the node of the last answer had heard of no commits; 0: it hears of them."""

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
        response = self._send(method, path, json=body, headers=headers, params=params)
        document = response.json()
        if isinstance(document, dict) and isinstance(document.get("error"), dict):
            # The answer was on its way when its rest failed.
            raise from_problem(document["error"])
        return document

    def post(self, path: str, content: bytes, headers: Mapping[str, str]) -> Any:
        """Send bytes, get JSON. Raises DatabaseError."""
        return self._send("POST", path, content=content, headers=headers).json()

    def text(self, path: str, params: Mapping[str, str] | None = None) -> str:
        return self._send("GET", path, params=params).text

    def _send(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        try:
            response = self._client.request(method, path, **arguments)
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error
        self._check(response)
        return response

    @contextmanager
    def stream(
        self, path: str, body: Any, headers: Mapping[str, str] | None = None
    ) -> Iterator[httpx.Response]:
        """A POST whose answer is read piece by piece. Raises DatabaseError."""
        try:
            with self._client.stream("POST", path, json=body, headers=headers) as response:
                if response.is_error:
                    response.read()
                self._check(response)
                yield response
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error

    def _check(self, response: httpx.Response) -> None:
        _require_success(response)
        self.behind_s = float(response.headers.get(BEHIND, 0))

    def close(self) -> None:
        """Idempotent."""
        self._client.close()

    def _unreachable(self, error: httpx.HTTPError) -> OperationalError:
        """Without a connection nothing was sent; later on nobody knows."""
        sent = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
        problem = {
            "code": "unreachable",
            "retryable": not sent,
            "outcome": "unknown" if sent else "none",
        }
        where = self._client.base_url
        return OperationalError(
            f"The database at {where} does not answer: {error or type(error).__name__}", problem
        )


def _require_success(response: httpx.Response) -> None:
    if not response.is_error:
        return
    try:
        problem = response.json()
    except (json.JSONDecodeError, UnicodeDecodeError):
        problem = None
    if not isinstance(problem, dict):
        problem = {"detail": f"HTTP status {response.status_code}", "code": "internal"}
    raise from_problem(problem)


def open_transport(target: Target, timeout_s: float) -> Transport:
    """A transport to `target`. Over HTTP nothing is sent yet."""
    if target.folder:
        from hornbeam.embedded import EmbeddedTransport

        return EmbeddedTransport(target.folder, timeout_s + GRACE_S)
    # Plain HTTP verifies nothing; reading the system's certificates would take 90 ms. A proxy for
    # the web is none for databases.
    verify = False if target.tls is None else target.tls.context()
    client = httpx.Client(
        base_url=target.addresses[0],
        timeout=httpx.Timeout(timeout_s + GRACE_S, connect=min(timeout_s, 10.0)),
        headers={"Authorization": f"Bearer {target.key}"} if target.key else {},
        transport=Nodes(target.addresses, httpx.HTTPTransport(verify=verify, trust_env=False)),
        trust_env=False,
    )
    return Transport(client)


def persistently(send: Callable[[], T]) -> T:
    """Call `send` until it gives an answer that repeating it would not change.

    `send` must be safe to repeat: a read, or a request with an idempotency key. An attempt with
    an unknown outcome is repeated too; if no later one succeeds, the error says "unknown".
    """
    unknown, give_up, pause_s = False, math.inf, 0.005
    while True:
        try:
            return send()
        except Error as error:
            # A frozen node has used up the time of the first try.
            give_up = min(give_up, time.monotonic() + PATIENCE_S)
            unknown = unknown or error.outcome == "unknown"
            again = error.code in _TRY_AGAIN or (unknown and error.code in _LOST)
            if not again or time.monotonic() > give_up:
                if unknown and error.code in _LOST | _TRY_AGAIN:
                    error.outcome, error.retryable = "unknown", False
                raise
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, 0.5)


_LOST = {"unreachable", "outcome-unknown"}
