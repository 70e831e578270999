"""A request and its answer, whatever carries them: a connection to a node (`hornbeam/http.py`), or
a call into an application in this process (`hornbeam/embedded.py`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol


class Request(NamedTuple):
    """`path` comes with its query."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = b""


class NotSent(Exception):
    """Nobody has seen the request."""


class Lost(Exception):
    """The request may have arrived; its answer has not come, or not to its end."""


class CutShort(Lost):
    """A part of the answer has come."""


def _nothing() -> None:
    pass


@dataclass
class Answer:
    """Its `pieces` come as they arrive, once, and may end with Lost. Names of `headers` are looked
    up in lower case. Whoever does not read to the end closes it."""

    status: int
    headers: Mapping[str, str]
    pieces: Iterable[bytes]
    close: Callable[[], None] = _nothing

    @property
    def is_error(self) -> bool:
        return self.status >= 400

    def read(self) -> bytes:
        """All of it, also the second time."""
        whole = b"".join(self.pieces)
        self.pieces = (whole,)
        return whole

    def json(self) -> Any:
        """Raises ValueError when it is none."""
        return json.loads(self.read())

    def lines(self) -> Iterator[str]:
        rest = b""
        for piece in self.pieces:
            *whole, rest = (rest + piece).split(b"\n")
            for line in whole:
                yield line.decode()
        if rest:
            yield rest.decode()


class Carrier(Protocol):
    """Takes requests to the application. One thread at a time, but a request may be sent while an
    answer is being read."""

    def send(self, request: Request) -> Answer:
        """Raises NotSent and Lost."""

    def close(self) -> None:
        """Idempotent."""
