"""Power lost during an append: the machine has written its pages in any order, or not at all."""

from itertools import product

import pytest

from hornbeam_server.schema.errors import Corruption
from hornbeam_server.storage.local.log import LocalLog
from hornbeam_server.storage.log.format import Header, encode_append, scan_segment, segment_name
from hornbeam_server.storage.ports import START

PAGE = 64
NAME = segment_name(1, 1)


def appended(data, *payloads):
    """`data` with one more append."""
    return data + b"".join(encode_append(payloads, 1, 1, len(data)))


SYNCED = appended(appended(Header(1, 1, 0, "a").encode(), b"one", b"two"), b"three")
PAYLOADS = [bytes([65 + i]) * size for i, size in enumerate((30, 100, 5, 60, 90))]
APPEND = appended(SYNCED, *PAYLOADS)[len(SYNCED) :]


def payloads(data):
    return [payload for payload, _ in scan_segment(data, NAME).frames]


def test_frames_of_one_append_are_marked_by_one_bit():
    both = b"".join(encode_append([b"hi", b"ho"], 1, 1, 38))
    first = b"".join(encode_append([b"hi"], 1, 1, 38))
    second = b"".join(encode_append([b"ho"], 1, 1, 38 + len(first)))
    assert both.startswith(first)
    assert both[len(first) :].endswith(b"ho")
    assert (both[0], both[len(first)], second[0]) == (0x00, 0x80, 0x00)
    assert len(both) == len(first) + len(second)


@pytest.mark.parametrize("lost", [b"\0", b"\xee"])
def test_any_lost_pages_of_the_last_append_leave_the_rest_readable(lost):
    pages = [range(i, min(i + PAGE, len(APPEND))) for i in range(0, len(APPEND), PAGE)]
    assert len(pages) > 4
    for kept in product([False, True], repeat=len(pages)):
        tail = bytearray(APPEND)
        for page, there in zip(pages, kept, strict=True):
            if not there:
                tail[page.start : page.stop] = lost * len(page)
        found = payloads(SYNCED + bytes(tail))
        assert found[:3] == [b"one", b"two", b"three"]
        assert (len(found) == 8) == all(kept)
        assert found == payloads(SYNCED + APPEND)[: len(found)]


@pytest.mark.parametrize("position", range(len(SYNCED)))
def test_damage_before_a_whole_append_is_corruption(position):
    damaged = bytearray(SYNCED + APPEND)
    damaged[position] ^= 0x41
    with pytest.raises(Corruption):
        scan_segment(bytes(damaged), NAME)


def test_damage_before_one_append_of_long_frames_is_corruption():
    """Only the chain of its frames shows it: the frame at the end of the data continues the
    append."""
    data = bytearray(appended(SYNCED, b"a" * 100_000, b"b" * 100_000))
    data[len(SYNCED) - 1] ^= 1
    with pytest.raises(Corruption):
        scan_segment(bytes(data), NAME)


def test_a_large_lost_tail_is_recognised_quickly():
    """Blocks that were allocated but never written read as zeros."""
    found = scan_segment(SYNCED + bytes(16 << 20), NAME)
    assert (len(found.frames), found.torn_bytes) == (3, 16 << 20)


async def test_the_next_owner_reads_past_a_torn_append(tmp_path):
    file = tmp_path / "a" / NAME
    file.parent.mkdir()
    file.write_bytes(SYNCED + APPEND[:-4] + bytes(4))
    log = await LocalLog.open(tmp_path, "a", 2)
    await log.append([b"next", b"owner"])
    found = [payload async for _, payload in log.read(START)]
    assert found[:3] == [b"one", b"two", b"three"]
    assert found[-2:] == [b"next", b"owner"]
    assert log.torn_bytes > 0
    await log.close()


async def test_the_log_writes_the_frames_of_an_append_together(tmp_path):
    log = await LocalLog.open(tmp_path, "a", 1)
    await log.append([b"one", b"two"])
    position = await log.append([b"three"])
    assert (tmp_path / "a" / NAME).read_bytes() == SYNCED
    assert position.offset == len(SYNCED)
    await log.close()
