"""Clients that break the protocol, stop in the middle, or do not read."""

import socket
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hornbeam_server.pgwire.codec import answers
from tests.depth import depth
from tests.pgwire.conftest import settled

START = struct.pack("!ii", 8 + 28, 3 << 16) + b"user\0x\0database\0hornbeam\0\0"


@pytest.fixture
def raw(wire):
    with connected(wire) as found:
        yield found


def connected(wire):
    return socket.create_connection(("127.0.0.1", wire.port), timeout=10)


def until_closed(connection):
    found = b""
    try:
        while piece := connection.recv(65_536):
            found += piece
    except ConnectionError:
        pass
    return found


def started(connection):
    """Start a session, and read up to ReadyForQuery."""
    body = b"user\0x\0database\0hornbeam\0\0"
    connection.sendall(struct.pack("!ii", len(body) + 8, 3 << 16) + body)
    read_until(connection, b"Z\x00\x00\x00\x05I")


def read_until(connection, end):
    found = b""
    while not found.endswith(end):
        piece = connection.recv(65_536)
        assert piece, found
        found += piece
    return found


def works(wire):
    with wire.connect() as connection:
        return connection.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        struct.pack("!ii", 8, 1 << 16),
        struct.pack("!ii", 9, 3 << 16) + b"u",
        struct.pack("!ii", 8, 80877103) * 5,
    ],
)
def test_what_is_no_start_ends_the_connection(wire, raw, data):
    raw.sendall(data)
    raw.shutdown(socket.SHUT_WR)
    until_closed(raw)
    assert works(wire)


def test_a_message_that_is_none_ends_the_session_with_08p01(wire, raw):
    started(raw)
    raw.sendall(b"Z" + struct.pack("!i", 4))
    assert b"C08P01\0" in until_closed(raw)
    assert works(wire)


def test_a_message_that_is_too_long_is_refused_before_it_arrives(wire, raw):
    started(raw)
    raw.sendall(b"Q" + struct.pack("!i", 1 << 30))
    assert b"C08P01\0" in until_closed(raw)


def test_a_client_that_goes_in_the_middle_leaves_nothing(wire):
    for end in range(1, 60, 7):
        with connected(wire) as raw:
            started(raw)
            message = answers.message(b"Q", b"BEGIN; SELECT * FROM generate_series(1, 100000)\0")
            raw.sendall(message[:end])
    wire.run(settled(wire))
    assert set(wire.leaks().values()) == {0}


def test_a_client_that_goes_during_a_query_ends_it(wire):
    slow = "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b"
    with connected(wire) as raw:
        started(raw)
        raw.sendall(answers.message(b"Q", slow.encode() + b"\0"))
        raw.settimeout(0.3)
        with pytest.raises(TimeoutError):
            raw.recv(1)
    wire.run(settled(wire))
    assert set(wire.leaks().values()) == {0}


def test_a_client_that_does_not_read_is_disconnected(wire, monkeypatch):
    monkeypatch.setattr("hornbeam_server.pgwire.server.wire.STALL_S", 0.2)
    with connected(wire) as raw:
        started(raw)
        many = b"SELECT repeat('x', 1000) FROM generate_series(1, 100000)\0"
        raw.sendall(answers.message(b"Q", many))
        wire.run(settled(wire))
    assert set(wire.leaks().values()) == {0}


def test_a_client_that_does_not_log_in_is_disconnected(wire, monkeypatch):
    monkeypatch.setattr("hornbeam_server.pgwire.server.listener.START_S", 0.1)
    with connected(wire) as raw:
        raw.sendall(b"\0\0")
        assert b"C08006\0" in until_closed(raw)


def test_everything_up_to_sync_is_skipped_after_an_error(wire, raw):
    started(raw)
    parse = answers.message(b"P", b"\0SELECT nothing\0\0\0")
    describe = answers.message(b"D", b"S\0")
    close = answers.message(b"C", b"S\0")
    raw.sendall(parse + describe + close * 3 + answers.message(b"S"))
    found = read_until(raw, b"Z\x00\x00\x00\x05I")
    assert found.count(b"C42703\0") == 1
    assert answers.CLOSE_COMPLETE not in found
    raw.sendall(close + answers.message(b"S"))
    assert read_until(raw, b"Z\x00\x00\x00\x05I").startswith(answers.CLOSE_COMPLETE)


MESSAGES = st.sampled_from(
    [
        answers.message(b"P", b"s\0SELECT $1::INTEGER + 1\0\0\0"),
        answers.message(b"P", b"\0INSERT INTO item VALUES ($1, 'x', 1) RETURNING i_id\0\0\0"),
        answers.message(b"B", b"\0\0" + struct.pack("!hhi3sh", 0, 1, 3, b"700", 0)),
        answers.message(b"B", b"p\0s\0" + struct.pack("!hhhiih", 1, 1, 1, 4, 7, 0)),
        answers.message(b"D", b"P\0"),
        answers.message(b"D", b"Ss\0"),
        answers.message(b"E", b"\0" + struct.pack("!i", 1)),
        answers.message(b"E", b"p\0" + struct.pack("!i", 0)),
        answers.message(b"C", b"Ss\0"),
        answers.message(b"C", b"P\0"),
        answers.message(b"H"),
        answers.message(b"S"),
        answers.message(b"Q", b"BEGIN\0"),
        answers.message(b"Q", b"ROLLBACK; SELECT 1; SELECT nothing\0"),
        answers.message(b"Q", b"\0"),
        answers.message(b"d", b"data"),
        answers.message(b"c"),
    ]
)


@settings(max_examples=depth(20, long=60))
@given(st.lists(MESSAGES, max_size=12))
def test_any_order_of_messages_is_answered_and_ends_ready(wire, messages):
    with connected(wire) as raw:
        started(raw)
        raw.sendall(b"".join(messages) + answers.message(b"S") + answers.message(b"X"))
        found = until_closed(raw)
    syncs = sum(each[:1] in {b"S", b"Q"} for each in messages) + 1
    assert found.count(b"Z\x00\x00\x00\x05") == syncs
    assert b"CXX000\0" not in found
