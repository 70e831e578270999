"""Requests that only the leader can carry out are sent on to it, so any node accepts them.

A route refuses such a request with 503 and names the leader in the header `Hornbeam-Leader`; the
refused request has had no effect. The layer then sends the same request to the leader, with the
client's API key, and passes the leader's answer on. Every node authenticates, limits and audits the
request itself.

The answer to a request that was sent on says the leader's version of the catalog. The node waits
until it uses that version, too, so that the client's next request here finds what it has changed.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hornbeam.exchange import Answer, Lost, NotSent, Request
from hornbeam.http import Http
from hornbeam_server.api.rest import problems
from hornbeam_server.api.security.tls import forwarding_context
from hornbeam_server.node.node import Serving
from hornbeam_server.node.settings import Settings
from hornbeam_server.schema.errors import InvalidRequest, OutcomeUnknown
from hornbeam_server.storage.tracing import part, traceparent

FORWARDED = "hornbeam-forwarded"
"""Header of a request that another node has sent on. It is not sent on again."""
CATALOG = "hornbeam-catalog"
"""Header of an answer to such a request: the version of the catalog that the leader uses."""
CATALOG_S = 10.0
"""Maximum seconds that an answer waits for the version of the catalog."""
LOOK_S = 0.005
MAX_BYTES = 16 * 1024 * 1024
"""Longest body that is kept to be sent on."""
CONNECT_S = 5.0
_NEVER = re.compile(r"/v1/(query|transactions|puts|load(/.*)?)")
"""Paths that every node serves. Their bodies may be long, and are not kept."""
_OF_THIS_NODE = frozenset(
    {
        *("host", "content-length", "transfer-encoding", "connection", "keep-alive", "te"),
        *("trailer", "upgrade", "expect", "accept-encoding"),
        *("origin", "referer", "sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest"),
    }
)
"""Headers that are about the connection to this node, or that this node has checked."""
_OF_THE_CONNECTION = frozenset({"content-length", "transfer-encoding", "connection", "keep-alive"})


class Forwarding:
    """The layer, for nodes of a cluster."""

    def __init__(self, app: ASGIApp, serving: Serving, settings: Settings) -> None:
        self._app = app
        self._serving = serving
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or _NEVER.fullmatch(scope["path"]):
            await self._app(scope, receive, send)
            return
        if FORWARDED in Headers(scope=scope):
            await self._app(scope, receive, self._with_version(send))
            return
        body, refusal = _Body(receive), _Refusal(send)
        await self._app(scope, body.receive, refusal.send)
        if refusal.leader is None:
            return
        if not await body.complete():
            await refusal.release()
            return
        try:
            with part("forward", _to, refusal.leader):
                request = _request(scope, bytes(body.kept))
                answer = await asyncio.to_thread(self._ask, refusal.leader, request)
        except NotSent:
            await refusal.release()
        except InvalidRequest as error:
            await problems.response(error)(scope, receive, send)
        except Lost as error:
            lost = OutcomeUnknown(
                f"The node that leads, {refusal.leader}, has not answered: {error}.",
                cure="Look whether the request had an effect before you send it again.",
            )
            await problems.response(lost)(scope, receive, send)
        else:
            await self._follow(answer.headers.get(CATALOG, ""))
            await answer(scope, receive, send)

    def _with_version(self, send: Send) -> Send:
        """`send` with the version of the catalog in the head of the answer."""

        async def sent(message: Message) -> None:
            database = self._serving.database
            if message["type"] == "http.response.start" and database is not None:
                MutableHeaders(scope=message)[CATALOG] = str(database.catalog.version)
            await send(message)

        return sent

    async def _follow(self, version: str) -> None:
        """Wait until this node uses a version of the catalog, or serves no longer."""
        wanted = int(version) if version.isdecimal() else 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CATALOG_S):
                while (database := self._serving.database) is not None:
                    if database.catalog.version >= wanted:
                        return
                    await asyncio.sleep(LOOK_S)

    def _ask(self, leader: str, request: Request) -> Response:
        """The leader's answer. Raises NotSent, Lost, and InvalidRequest when the certificates
        cannot be used: they are read for each request, so that renewed ones count. It blocks."""
        secure = leader.startswith("https:")
        carrier = Http(
            leader,
            connect_timeout_s=CONNECT_S,
            timeout_s=self._settings.max_timeout_s,
            tls=forwarding_context(self._settings) if secure else None,
        )
        try:
            return _response(carrier.send(request))
        finally:
            carrier.close()


class _Body:
    """The body of a request, kept while the application reads it."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._ended = self._gone = False
        self.kept = bytearray()

    async def receive(self) -> Message:
        message = await self._receive()
        self._ended = not message.get("more_body", False)
        self._gone = self._gone or message["type"] == "http.disconnect"
        if len(self.kept) <= MAX_BYTES:
            self.kept.extend(message.get("body", b""))
        return message

    async def complete(self) -> bool:
        """Read what the application has left of the body. Returns whether all of it has come and is
        kept."""
        while not self._ended and len(self.kept) <= MAX_BYTES:
            await self.receive()
        return len(self.kept) <= MAX_BYTES and not self._gone


class _Refusal:
    """Passes messages of an answer on, but holds a refusal that names the leader."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._held: list[Message] = []
        self.leader: str | None = None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.leader = Headers(raw=message["headers"]).get(problems.LEADER)
        if self.leader is None:
            await self._send(message)
        else:
            self._held.append(message)

    async def release(self) -> None:
        for message in self._held:
            await self._send(message)


def _request(scope: Scope, body: bytes) -> Request:
    query = scope["query_string"].decode("latin-1")
    path = scope["raw_path"].decode("latin-1") + (f"?{query}" if query else "")
    headers = _without(_OF_THIS_NODE, Headers(scope=scope).items()) | {FORWARDED: "yes"}
    if trace := traceparent():
        headers["traceparent"] = trace
    return Request(scope["method"], path, headers, body)


def _to(leader: str) -> dict[str, str | int | float]:
    return {"server.address": leader}


def _response(answer: Answer) -> Response:
    headers = _without(_OF_THE_CONNECTION, answer.headers.items())
    return Response(answer.read(), answer.status, headers)


def _without(names: frozenset[str], headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {name: value for name, value in headers if name.lower() not in names}
