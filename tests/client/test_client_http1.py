"""The reader of answers: equal to `http.client`, and stricter where an answer is ambiguous."""

from __future__ import annotations

import http.client
import io
import itertools
from typing import NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hornbeam.exchange import Request
from hornbeam.http1 import HEAD_BYTES, AnswerReader, Garbled, request_bytes
from tests.depth import depth

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


class Found(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


class _Socket:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, _: str) -> io.BytesIO:
        return io.BytesIO(self._data)


def by_reference(data: bytes) -> Found | None:
    """The answer as the standard library reads it; None if it refuses it, or if it ends too
    early."""
    try:
        response = http.client.HTTPResponse(_Socket(data))
        response.begin()
        if response.length is None and not response.chunked:
            return None
        body = response.read()
    except (http.client.HTTPException, OSError, ValueError):
        return None
    headers: dict[str, list[str]] = {}
    for name, value in response.getheaders():
        headers.setdefault(name.lower(), []).append(value.strip(" \t"))
    return Found(response.status, {name: ", ".join(v) for name, v in headers.items()}, body)


def by_reader(*pieces: bytes) -> Found | None:
    reader = AnswerReader()
    try:
        for piece in filter(None, pieces):
            reader.feed(piece)
            if reader.done:
                break
        if not reader.done:
            reader.feed(b"")
    except Garbled:
        return None
    return Found(reader.status, reader.headers, b"".join(reader.take()))


def pieces_of(data: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(places)]


_VALUES = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20).map(str.strip)
_NAMES = st.from_regex(r"[Xx]-[A-Za-z0-9!#$%&'*+.^_`|~-]{1,8}", fullmatch=True)
_BODIES = st.binary(max_size=300)


@st.composite
def _chunks(draw: st.DrawFn, body: bytes) -> bytes:
    text = b""
    extensions = st.sampled_from([b"", b";a=1", b" ; b"])
    for chunk in pieces_of(body, draw(st.lists(st.integers(0, 300), max_size=4))):
        if chunk:
            text += b"%x%b\r\n%b\r\n" % (len(chunk), draw(extensions), chunk)
    trailers = draw(st.sampled_from([b"", b"X-End: 1\r\n", b"A: b\r\nC: d\r\n"]))
    return text + b"0\r\n" + trailers + b"\r\n"


@st.composite
def answers(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """An answer that is in order, and its body."""
    body = draw(_BODIES)
    interim = draw(st.sampled_from([b"", b"HTTP/1.1 100 Continue\r\n\r\n"]))
    status = draw(st.sampled_from([200, 202, 204, 304, 400, 404, 409, 500, 503]))
    lines = [b"HTTP/1.%d %d Words of it" % (draw(st.integers(0, 1)), status)]
    others = draw(st.dictionaries(_NAMES, _VALUES, max_size=4))
    lines += [f"{name}:{' ' * (len(name) % 3)}{value}".encode() for name, value in others.items()]
    connection = draw(st.sampled_from([None, b"close", b"keep-alive", b"Keep-Alive, X"]))
    lines += [] if connection is None else [b"Connection: " + connection]
    if status in {204, 304}:
        return interim + b"\r\n".join(lines) + b"\r\n\r\n", b""
    if draw(st.booleans()):
        text, more = draw(_chunks(body)), b"Transfer-Encoding: Chunked"
    else:
        text, more = body, b"content-length:%d" % len(body)
    lines.insert(draw(st.integers(1, len(lines))), more)
    return interim + b"\r\n".join(lines) + b"\r\n\r\n" + text, body


@settings(max_examples=depth(130, long=400), deadline=None)
@given(answers(), st.lists(st.integers(0, 2_000), max_size=8))
def test_an_answer_is_read_as_by_the_standard_library(answer, cuts):
    data, body = answer
    found = by_reader(*pieces_of(data, cuts))
    assert found is not None
    assert found == by_reference(data)
    assert found.body == body


@settings(max_examples=depth(70, long=200), deadline=None)
@given(answers(), st.integers(0, 2_000))
def test_an_answer_that_is_cut_off_is_never_whole(answer, cut):
    data, _ = answer
    if cut < len(data):
        assert by_reader(data[:cut]) is None


@settings(max_examples=depth(200, long=600), deadline=None)
@given(answers(), st.lists(st.tuples(st.integers(0, 2_000), st.binary(max_size=3)), max_size=4))
@example((OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nabc", b""), [])
@example((OK + b"Content-Length: +2\r\n\r\nab", b""), [])
def test_a_damaged_answer_is_refused_or_read_as_by_the_standard_library(answer, damages):
    data = answer[0]
    for number, piece in damages:
        place = number % (len(data) + 1)
        data = data[:place] + piece + data[place + len(piece) :]
    found = by_reader(data)
    assert by_reader(*(bytes([byte]) for byte in data)) == found  # wherever it is cut
    if found is not None and b"\n " not in data and b"\n\t" not in data:
        reference = by_reference(data)
        if reference is not None:
            assert (found.status, found.body) == (reference.status, reference.body)


@pytest.mark.parametrize(
    "data",
    [
        OK + b"\r\n",  # it does not say where it ends
        OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
        OK + b"Content-Length: -1\r\n\r\n",
        OK + b"Content-Length: 1_0\r\n\r\n0123456789",
        OK + b"Content-Length: \xb2\r\n\r\nab",
        OK + b"Content-Length : 2\r\n\r\nab",
        OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        OK + b": 1\r\nContent-Length: 0\r\n\r\n",
        OK + b"Content-Length: 0\r\nA: b\nC: d\r\n\r\n",
        OK + b"Content-Length: 0\r\nA: b\0\r\n\r\n",
        b"HTTP/2 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 99 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
        b" HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\0" * 10,
        CHUNKED + b"-1\r\n",
        CHUNKED + b"0x1\r\na\r\n0\r\n\r\n",
        CHUNKED + b"1\r\nabc\r\n0\r\n\r\n",
        CHUNKED + b"\r\n",
        OK + b"A: " + b"b" * HEAD_BYTES,
        OK + b"A: " + b"b" * HEAD_BYTES + b"\r\n\r\n",
        CHUNKED + b"1;" + b"b" * (HEAD_BYTES + 1),
        CHUNKED + b"0\r\n" + b"A: b\r\n" * HEAD_BYTES,
    ],
)
def test_an_answer_that_is_ambiguous_or_too_long_is_refused(data):
    reader = AnswerReader()
    with pytest.raises(Garbled):
        reader.feed(data)


@pytest.mark.parametrize(
    ("data", "keeps"),
    [
        (OK + b"Content-Length: 2\r\n\r\nok", True),
        (OK + b"Content-Length: 2\r\n\r\nok!", False),
        (OK + b"Content-Length: 2\r\n\r\nok" + OK, False),
        (OK + b"Content-Length: 2\r\nConnection: Close\r\n\r\nok", False),
        (OK + b"Content-Length: 2\r\nConnection: a, close\r\n\r\nok", False),
        (OK + b"Content-Length: 2\r\nConnection: a\r\nConnection: close\r\n\r\nok", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", False),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", True),
        (CHUNKED + b"2\r\nok\r\n0\r\n\r\n", True),
        (CHUNKED + b"2\r\nok\r\n0\r\n\r\nmore", False),
        (OK + b"Content-Length: 3\r\n" + CHUNKED[len(OK):] + b"2\r\nok\r\n0\r\n\r\n", False),
        (b"HTTP/1.1 103 Early\r\nLink: a\r\n\r\n" + OK + b"Content-Length: 2\r\n\r\nok", True),
    ],
)  # fmt: skip
def test_a_connection_is_kept_only_if_nothing_is_left_and_the_answer_permits_it(data, keeps):
    reader = AnswerReader()
    reader.feed(data)
    assert (reader.done, reader.keeps, b"".join(reader.take())) == (True, keeps, b"ok")


def test_many_small_chunks_take_time_in_proportion():
    import time

    def spent(count: int) -> float:
        data, began = CHUNKED + b"1\r\na\r\n" * count + b"0\r\n\r\n", time.process_time()
        assert len(by_reader(data).body) == count
        return time.process_time() - began

    spent(1_000)
    assert spent(80_000) < 40 * spent(8_000) + 0.1


def test_a_request_cannot_contain_another_one():
    request = Request("POST", "/v1/query", {"A": "b"}, b"{}")
    assert request_bytes(request, "here:1") == (
        b"POST /v1/query HTTP/1.1\r\nHost: here:1\r\nAccept-Encoding: identity\r\n"
        b"A: b\r\nContent-Length: 2\r\n\r\n{}"
    )
    for header in ({"A": "b\r\nC: d"}, {"A": "b\n"}, {"A: b\r\nC": "d"}, {"A": "\0"}, {"": ""}):
        with pytest.raises(ValueError, match="cannot have"):
            request_bytes(request._replace(headers=header), "here")
    for path in ("/ HTTP/1.1\r\nA: b", "/a b", "/ä", ""):
        with pytest.raises(ValueError, match="cannot have"):
            request_bytes(request._replace(path=path), "here")
