"""Sending requests to a database from an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from hornbeam.aio.http import AsyncHttp
from hornbeam.exchange import AsyncAnswer, AsyncCarrier, Lost, NotSent
from hornbeam.nodes import AsyncNodes
from hornbeam.transport import (
    ERROR,
    NONE,
    Envelope,
    Target,
    http_options,
    problem_of,
    standing_headers,
)


class AsyncTransport:
    """The twin of `hornbeam.transport.Transport` in an event loop. One task uses it at a time."""

    def __init__(
        self, carrier: AsyncCarrier, where: str, headers: Mapping[str, str] = NONE
    ) -> None:
        self._carrier = carrier
        self._envelope = Envelope(where, headers)

    @property
    def behind_s(self) -> float:
        """See `hornbeam.transport.Requests`."""
        return self._envelope.behind_s

    async def json(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] = NONE
    ) -> Any:
        """The answer's JSON document. Raises DatabaseError."""
        try:
            answer = await self._carrier.send(self._envelope.request(method, path, body, headers))
            content = await answer.read()
        except (NotSent, Lost) as error:
            raise self._envelope.unreached(error) from error
        return self._envelope.document(answer.status, answer.headers, content)

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] = NONE,
        *,
        method: str = "POST",
        params: Mapping[str, str] | None = None,
    ) -> AsyncIterator[AsyncAnswer]:
        """Send `body`. The caller reads the answer piece by piece. Raises DatabaseError."""
        request = self._envelope.request(method, path, body, headers, params)
        try:
            answer = await self._carrier.send(request)
            try:
                if answer.status >= ERROR:
                    raise problem_of(answer.status, await answer.read())
                self._envelope.note(answer.headers)
                yield answer
            finally:
                await answer.close()
        except (NotSent, Lost) as error:
            raise self._envelope.unreached(error) from error

    async def close(self) -> None:
        """Close the carrier. Idempotent."""
        await self._carrier.close()


async def open_async_transport(target: Target, timeout_s: float) -> AsyncTransport:
    """A transport to `target`. Over HTTP it sends nothing yet."""
    if target.folder:
        from hornbeam.embedded import AsyncInProcess

        return AsyncTransport(await AsyncInProcess.open(target.folder), target.folder)
    nodes = [AsyncHttp(**options) for options in http_options(target, timeout_s)]
    carrier = nodes[0] if len(nodes) == 1 else AsyncNodes(nodes)
    return AsyncTransport(carrier, target.addresses[0], standing_headers(target))
