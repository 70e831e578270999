"""HTTP/1.1 without sockets: requests as bytes, and answers from bytes (RFC 9112).

`http.py` reads and writes the bytes with a socket, `aio/http.py` with an event loop. An answer that
is ambiguous is refused, since its end decides whether the connection can be used again: two
lengths, a length that is no plain number, a line that does not end with CR LF.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import SplitResult

from hornbeam.exchange import Request

HEAD_BYTES = 64 * 1024
"""Maximum bytes of a head, of the size of a chunk, and of trailers."""
_UNCODED = "Accept-Encoding: identity\r\n"
_HTTP = b"HTTP/1."
_HEAD_END = b"\r\n\r\n"
_STATUS = re.compile(r"HTTP/1\.([01]) ([1-5]\d\d)(?: [^\r\n\0]*)?")
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_HEADERS = re.compile(rf"(?:\r\n{_TOKEN}:[^\r\n\0]*(?:\r\n[ \t]+[^\r\n\0]*)*)*")
_REQUEST = re.compile(rf"[A-Z]+ [!-~]+ HTTP/1\.1\r\n(?:{_TOKEN}: [\t -~\x80-\xff]*\r\n)+")
_LENGTH = re.compile(r"[0-9]{1,18}")
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?")
_CHANGES_PROTOCOL = 101
_WITHOUT_BODY = {204, 304}
CLOSED = "the node has closed the connection"


class Garbled(Exception):
    """The bytes are no answer, or end before the answer does."""


def host_of(parts: SplitResult) -> str:
    """The value of `Host` for a URL. Raises ValueError for a name that no host can have."""
    host = parts.hostname or ""
    named = f"[{host}]" if ":" in host else host.encode("idna").decode()
    standard = {"http": 80, "https": 443}.get(parts.scheme)
    return named if parts.port in (None, standard) else f"{named}:{parts.port}"


def request_bytes(request: Request, host: str) -> bytes:
    """A request with its body. Raises ValueError for a character that would end a line."""
    head = f"{request.method} {request.path} HTTP/1.1\r\nHost: {host}\r\n{_UNCODED}"
    for name, value in request.headers.items():
        head += f"{name}: {value}\r\n"
    # One check of the whole head: each header and the request line are one line.
    if head.count("\n") != len(request.headers) + 3 or not _REQUEST.fullmatch(head):
        raise ValueError("a path or a header has characters that it cannot have")
    if request.body or request.method != "GET":
        head += f"Content-Length: {len(request.body)}\r\n"
    return head.encode("latin-1") + b"\r\n" + request.body


class AnswerReader:
    """Reads one answer from the bytes of a connection.

    `status` is 0 until the head is complete. `done`: the body is complete. `keeps`: another request
    may follow on this connection; it is set when the answer is done. `count` is the number of bytes
    of the body so far.
    """

    __slots__ = (
        *("_at", "_data", "_left", "_persists", "_step"),
        *("count", "done", "headers", "keeps", "pieces", "status"),
    )

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.pieces: list[bytes] = []
        self.done = self.keeps = False
        self.count = 0
        self._data = b""
        self._at = 0
        """The place in `_data` before which everything is parsed."""
        self._left = 0
        """Bytes that the body or the chunk still has. Behind the last chunk: bytes of trailers."""
        self._persists = True
        self._step: Callable[[AnswerReader], bool] = AnswerReader._head

    def feed(self, data: bytes) -> None:
        """Take the next bytes; none: the connection has ended. Raises Garbled."""
        if not data:
            raise Garbled(CLOSED)
        self._data = self._data[self._at :] + data if self._at < len(self._data) else data
        self._at = 0
        while self._step(self):
            pass

    def take(self) -> list[bytes]:
        """The pieces of the body that have arrived since the last call."""
        taken, self.pieces = self.pieces, []
        return taken

    # ------------------------------------------------------------ steps: each returns whether the
    # next one can run with the bytes that are there

    def _head(self) -> bool:
        end = self._data.find(_HEAD_END, self._at)
        if (len(self._data) if end < 0 else end) - self._at > HEAD_BYTES:
            raise Garbled("the head of the answer is too long")
        if not self._data.startswith(_HTTP[: len(self._data) - self._at], self._at):
            raise Garbled("the answer is not HTTP")
        if end < 0:
            return False
        status, minor, headers = _head_of(self._data[self._at : end].decode("latin-1"))
        self._at = end + len(_HEAD_END)
        if status < 200:
            if status == _CHANGES_PROTOCOL:
                raise Garbled("the node has changed the protocol")
            return True  # an interim answer; the final one follows
        self.status, self.headers = status, headers
        self._persists = _persists(minor, headers.get("connection"))
        if status in _WITHOUT_BODY:
            return self._end()
        if "transfer-encoding" in headers:
            # With both, a proxy may have taken the length for the end.
            self._persists = self._persists and "content-length" not in headers
            if headers["transfer-encoding"].lower() != "chunked":
                raise Garbled("the answer has an encoding that was not asked for")
            self._step = AnswerReader._size
            return True
        self._left = _length(headers.get("content-length"))
        self._step = AnswerReader._sized
        return self._sized()

    def _sized(self) -> bool:
        """A body whose length is known."""
        self._piece()
        return False if self._left else self._end()

    def _size(self) -> bool:
        """The size of the next chunk."""
        line = self._line("the size of a chunk")
        if line is None:
            return False
        size = _SIZE.fullmatch(line)
        if size is None:
            raise Garbled("the size of a chunk is no number")
        self._left = int(size[1], 16)
        self._step = AnswerReader._chunk if self._left else AnswerReader._trailer
        return True

    def _chunk(self) -> bool:
        self._piece()
        if self._left:
            return False
        self._step = AnswerReader._chunk_end
        return True

    def _chunk_end(self) -> bool:
        end = self._data[self._at : self._at + 2]
        if not b"\r\n".startswith(end):
            raise Garbled("a chunk is longer than its size")
        if len(end) < 2:
            return False
        self._at += 2
        self._step = AnswerReader._size
        return True

    def _trailer(self) -> bool:
        """A line behind the last chunk. An empty one is the last; nothing uses the others."""
        line = self._line("the end of the answer")
        if line is None:
            return False
        if not line:
            return self._end()
        self._left += len(line)
        if self._left > HEAD_BYTES:
            raise Garbled("the end of the answer is too long")
        return True

    # ------------------------------------------------------------ inside

    def _piece(self) -> None:
        """Take what is there of the body or the chunk."""
        piece = self._data[self._at : self._at + self._left]
        if piece:
            self._at += len(piece)
            self._left -= len(piece)
            self.count += len(piece)
            self.pieces.append(piece)

    def _end(self) -> bool:
        self.done = True
        self.keeps = self._persists and self._at == len(self._data)
        return False

    def _line(self, name: str) -> bytes | None:
        """The next line; None if it is not complete."""
        end = self._data.find(b"\r\n", self._at)
        if (len(self._data) if end < 0 else end) - self._at > HEAD_BYTES:
            raise Garbled(f"{name} is too long")
        if end < 0:
            return None
        line, self._at = self._data[self._at : end], end + 2
        return line


def _length(text: str | None) -> int:
    if text is None:
        raise Garbled("the answer does not say where it ends")
    if not _LENGTH.fullmatch(text):
        raise Garbled("the length of the answer is no number")
    return int(text)


def _head_of(text: str) -> tuple[int, str, dict[str, str]]:
    """Status, minor version, and headers with their names in lower case. Raises Garbled."""
    end = text.find("\r\n")
    first = text if end < 0 else text[:end]
    status = _STATUS.fullmatch(first)
    if status is None:
        raise Garbled("the answer is not HTTP/1.1")
    if not _HEADERS.fullmatch(text, len(first)):
        raise Garbled("the answer has a header that cannot be read")
    headers: dict[str, str] = {}
    name = ""
    for line in text.split("\r\n")[1:]:
        if line[0] in " \t":  # a value over several lines, of old servers
            headers[name] = f"{headers[name]} {line.strip()}".strip()
            continue
        named, _, value = line.partition(":")
        name, value = named.lower(), value.strip(" \t")
        headers[name] = _merged(name, headers[name], value) if name in headers else value
    return int(status[2]), status[1], headers


def _merged(name: str, before: str, value: str) -> str:
    """The value of a header that is there twice."""
    if name == "content-length":
        if before != value:
            raise Garbled("the answer has two lengths")
        return value
    return f"{before}, {value}"


def _persists(minor: str, connection: str | None) -> bool:
    """Whether the connection stays open after the answer."""
    if connection is None:
        return minor == "1"
    options = {option.strip().lower() for option in connection.split(",")}
    return "close" not in options and (minor == "1" or "keep-alive" in options)
