import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hornbeam_server.pgwire.codec import answers
from hornbeam_server.pgwire.codec import requests as asked
from hornbeam_server.pgwire.codec.frames import Frame, Frames, ProtocolViolation

TYPES = st.sampled_from([bytes([code]) for code in b"QPBDECSHXpdcf"])
BODIES = st.binary(max_size=60)


def started(max_bytes=1_000):
    frames = Frames(max_bytes)
    frames.started = True
    return frames


def all_of(frames):
    found = []
    while (frame := frames.next()) is not None:
        found.append(frame)
    return found


@given(st.lists(st.tuples(TYPES, BODIES), max_size=6), st.data())
def test_the_frames_do_not_depend_on_how_the_bytes_arrive(messages, data):
    stream = b"".join(answers.message(type_, body) for type_, body in messages)
    frames, found, at = started(), [], 0
    while at < len(stream):
        size = data.draw(st.integers(1, len(stream) - at))
        frames.feed(stream[at : at + size])
        at += size
        found += all_of(frames)
    assert found == [Frame(*message) for message in messages]
    assert frames.waiting == 0


@given(st.lists(st.tuples(TYPES, BODIES), min_size=2, max_size=4))
def test_the_types_ahead_are_those_of_the_next_frames(messages):
    frames = started()
    frames.feed(b"".join(answers.message(type_, body) for type_, body in messages))
    assert [frames.ahead(1), frames.ahead(2)] == [messages[0][0], messages[1][0]]
    assert frames.ahead(len(messages) + 1) is None


@given(BODIES, st.booleans())
def test_any_bytes_are_frames_or_a_violation(data, is_started):
    frames = Frames(50)
    frames.started = is_started
    frames.feed(data)
    try:
        for frame in all_of(frames):
            asked.request_of(frame) if is_started else asked.opening_of(frame.body)
    except ProtocolViolation:
        pass


@given(TYPES, BODIES)
def test_any_body_is_a_request_or_a_violation(type_, body):
    with contextlib.suppress(ProtocolViolation):
        asked.request_of(Frame(type_, body))


@pytest.mark.parametrize("length", [-1, 0, 3, 1_005, 1 << 30])
def test_a_length_out_of_bounds_is_refused_before_the_body_arrives(length):
    frames = started()
    frames.feed(b"Q" + struct.pack("!i", length))
    with pytest.raises(ProtocolViolation):
        frames.next()


def test_a_first_message_is_short():
    frames = Frames(1 << 20)
    frames.feed(struct.pack("!i", 20_000))
    with pytest.raises(ProtocolViolation):
        frames.next()


def test_messages_are_read_as_the_protocol_has_them():
    def request(type_, body):
        return asked.request_of(Frame(type_, body))

    assert request(b"Q", b"select 1\0") == asked.Query("select 1")
    parse = b"s\0select $1\0" + struct.pack("!hii", 2, 23, 0)
    assert request(b"P", parse) == asked.Parse("s", "select $1", (23, 0))
    bind = b"p\0s\0" + struct.pack("!hhhhi1si", 2, 0, 1, 2, 1, b"x", -1) + struct.pack("!hh", 1, 1)
    assert request(b"B", bind) == asked.Bind("p", "s", (0, 1), (b"x", None), (1,))
    assert request(b"D", b"Pp\0") == asked.Describe(portal=True, name="p")
    assert request(b"C", b"Ss\0") == asked.Close(portal=False, name="s")
    assert request(b"E", b"p\0" + struct.pack("!i", 7)) == asked.Execute("p", 7)
    assert request(b"f", b"no\0") == asked.CopyFail("no")
    start = struct.pack("!i", 3 << 16) + b"user\0ann\0\0"
    assert asked.opening_of(start) == asked.Start(3, 0, {"user": "ann"})
    assert asked.opening_of(struct.pack("!i", asked.SSL)) == asked.Encrypt(gss=False)
    cancel = struct.pack("!ii", asked.CANCEL, 5) + b"abcd"
    assert asked.opening_of(cancel) == asked.Cancel(5, b"abcd")


@pytest.mark.parametrize(
    ("type_", "body"),
    [
        (b"Q", b"no end"),
        (b"Q", b"\xff\0"),
        (b"Q", b"select 1\0 more"),
        (b"B", b"\0\0" + struct.pack("!hhhh", 2, 0, 0, 0)),  # two formats for no value
        (b"B", b"\0\0" + struct.pack("!hhh", 1, 2, 0)),  # format 2
        (b"B", b"\0\0" + struct.pack("!hhi", 0, 1, 9)),  # a value that is too long
        (b"D", b"Xp\0"),
        (b"Z", b""),
    ],
)
def test_what_the_protocol_does_not_have_is_a_violation(type_, body):
    with pytest.raises(ProtocolViolation):
        asked.request_of(Frame(type_, body))


def test_answers_have_the_bytes_of_the_protocol():
    assert (
        answers.data_row([b"a", None]) == b"D" + struct.pack("!ihi", 15, 2, 1) + b"a" + b"\xff" * 4
    )
    field = answers.Field("n", 23, 4, -1)
    described = struct.pack("!h", 1) + b"n\0" + struct.pack("!ihihih", 0, 0, 23, 4, -1, 1)
    assert answers.row_description((field,), (1,)) == answers.message(b"T", described)
    assert answers.error({"S": "ERROR", "H": ""}) == answers.message(b"E", b"SERROR\0\0")
