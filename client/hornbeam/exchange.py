"""A request and its answer, independent of their carrier. A carrier is a connection to a node
(`hornbeam/http.py`), or calls an application in this process (`hornbeam/embedded.py`)."""

from __future__ import annotations

from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
)
from dataclasses import dataclass
from typing import NamedTuple, Protocol


class Request(NamedTuple):
    """A request. `path` includes the query string."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = b""


class NotSent(Exception):
    """There is no connection, so the request was not sent."""


class Lost(Exception):
    """The request may have arrived. Its answer is missing or incomplete."""


class CutShort(Lost):
    """Only a part of the answer has arrived."""


def _nothing() -> None:
    pass


@dataclass
class Answer:
    """An answer. `pieces` can be iterated once, as they arrive, and may raise Lost. The names of
    `headers` are in lower case. A reader that stops before the end calls `close`."""

    status: int
    headers: Mapping[str, str]
    pieces: Iterable[bytes]
    close: Callable[[], None] = _nothing

    def read(self) -> bytes:
        """The whole body. Can be called several times."""
        whole = b"".join(self.pieces)
        self.pieces = (whole,)
        return whole

    def lines(self) -> Iterator[str]:
        rest = b""
        for piece in self.pieces:
            *whole, rest = (rest + piece).split(b"\n")
            for line in whole:
                yield line.decode()
        if rest:
            yield rest.decode()


class Carrier(Protocol):
    """Carries requests to the application. One thread uses it at a time. A request may be sent
    before an earlier answer is read to its end."""

    def send(self, request: Request) -> Answer:
        """Send a request. Raises NotSent, Lost."""

    def close(self) -> None:
        """Close the connections. Idempotent."""


async def _nothing_more() -> None:
    pass


@dataclass
class AsyncAnswer:
    """The twin of `Answer` in an event loop."""

    status: int
    headers: Mapping[str, str]
    pieces: AsyncIterable[bytes]
    close: Callable[[], Awaitable[None]] = _nothing_more
    _content: bytes | None = None

    @classmethod
    def whole(cls, status: int, headers: Mapping[str, str], content: bytes) -> AsyncAnswer:
        """An answer whose body has arrived."""
        return cls(status, headers, _Whole(content), _content=content)

    async def read(self) -> bytes:
        """The whole body. Can be called several times."""
        if self._content is None:
            self._content = b"".join([piece async for piece in self.pieces])
        return self._content

    async def lines(self) -> AsyncIterator[str]:
        rest = b""
        async for piece in self.pieces:
            *whole, rest = (rest + piece).split(b"\n")
            for line in whole:
                yield line.decode()
        if rest:
            yield rest.decode()


class _Whole:
    """A body that has arrived."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._content


class AsyncCarrier(Protocol):
    """The twin of `Carrier` in an event loop. One task uses it at a time."""

    async def send(self, request: Request) -> AsyncAnswer:
        """Send a request. Raises NotSent, Lost."""

    async def close(self) -> None:
        """Close the connections. Idempotent."""
