"""The log's bytes: the document's example, and every kind of damage."""

import re
from pathlib import Path
from random import Random

import pytest
from crc32c import crc32c

import storage.log.format
from schema.errors import Corruption
from storage.log.format import SEAL, Header, encode_frame, scan_segment, segment_name

FORMAT_MD = Path(storage.log.format.__file__).with_name("FORMAT.md").read_text()
NAME = segment_name(1, 1)
HEADER = Header(1, 1, 7, "a")
RANDOM = Random(4)
PAYLOADS = [RANDOM.randbytes(RANDOM.randint(1, 40)) for _ in range(30)]
FRAMES = [encode_frame(payload) for payload in PAYLOADS]
OPEN = HEADER.encode() + b"".join(FRAMES)
SEALED = OPEN + SEAL


def ends():
    """Where the header and each frame end."""
    offset, found = len(HEADER.encode()), [len(HEADER.encode())]
    for frame in FRAMES:
        offset += len(frame)
        found.append(offset)
    return found


ENDS = ends()


def scanned(data):
    return scan_segment(data, NAME)


def payloads(data):
    return [payload for payload, _ in scanned(data).frames]


def test_the_example_of_the_document():
    text = FORMAT_MD.split("## Example")[1]
    data = bytes.fromhex(re.search(r"```\n(.*?)```", text, re.S).group(1))
    found = scanned(data)
    assert found.header == HEADER
    assert found.frames == ((b"hi", len(data) - len(SEAL)),)
    assert found.sealed
    assert data == HEADER.encode() + encode_frame(b"hi") + SEAL


def test_the_checksum_is_castagnoli():
    assert crc32c(b"123456789") == 0xE3069283


def test_whole_segments():
    for data, sealed in ((OPEN, False), (SEALED, True)):
        found = scanned(data)
        assert (found.header, found.sealed, found.torn_bytes) == (HEADER, sealed, 0)
        assert [payload for payload, _ in found.frames] == PAYLOADS
        assert [end for _, end in found.frames] == ENDS[1:]


@pytest.mark.parametrize("data", [OPEN, SEALED], ids=["open", "sealed"])
def test_every_truncation_drops_the_torn_tail_only(data):
    for cut in range(len(data)):
        found = scanned(data[:cut])
        whole = sum(end <= cut for end in ENDS[1:])
        assert [payload for payload, _ in found.frames] == PAYLOADS[:whole]
        last = max((end for end in ENDS if end <= cut), default=0)
        assert found.torn_bytes == cut - last
        assert not found.sealed
        assert (found.header is None) == (cut < ENDS[0])


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_every_damaged_byte_of_a_sealed_segment_is_corruption_with_its_position(flip):
    for at in range(ENDS[-1]):
        data = bytearray(SEALED)
        data[at] ^= flip
        with pytest.raises(Corruption) as caught:
            scanned(bytes(data))
        frame = max((end for end in ENDS if end <= at), default=0)
        assert caught.value.details["position"] == f"{NAME}:{frame}"


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_a_damaged_seal_loses_no_frame_and_is_no_seal(flip):
    for at in range(ENDS[-1], len(SEALED)):
        data = bytearray(SEALED)
        data[at] ^= flip
        found = scanned(bytes(data))
        assert (found.sealed, found.torn_bytes) == (False, len(SEAL))
        assert [payload for payload, _ in found.frames] == PAYLOADS


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_every_damaged_byte_of_an_open_segment_is_corruption_or_the_last_frame(flip):
    for at in range(len(OPEN)):
        data = bytearray(OPEN)
        data[at] ^= flip
        if at < ENDS[-2]:
            with pytest.raises(Corruption):
                scanned(bytes(data))
        else:
            assert payloads(bytes(data)) == PAYLOADS[:-1]


def test_damage_before_a_torn_tail_is_still_corruption():
    data = bytearray(OPEN[:-3])
    data[ENDS[4] + 9] ^= 1
    with pytest.raises(Corruption) as caught:
        scanned(bytes(data))
    assert caught.value.details["position"] == f"{NAME}:{ENDS[4]}"


@pytest.mark.parametrize("tail", [b"\0" * 5_000, b"\xff" * 5_000, b"\0\0\0\x01" * 1_000])
def test_a_tail_that_was_allocated_but_not_written_is_torn(tail):
    found = scanned(OPEN + tail)
    assert [payload for payload, _ in found.frames] == PAYLOADS
    assert found.torn_bytes == len(tail)


def test_long_frames_behind_damage_are_found_by_the_chain_to_the_end():
    long = [encode_frame(bytes([i]) * 200_000) for i in range(3)]
    data = bytearray(HEADER.encode() + b"".join(long))
    data[ENDS[0] + 100] ^= 1
    with pytest.raises(Corruption) as caught:
        scanned(bytes(data))
    assert caught.value.details["position"] == f"{NAME}:{ENDS[0]}"


def test_the_torn_tail_of_a_large_batch_is_searched_quickly():
    # Half of a batch of small numbers: every second byte could begin a length.
    batch = encode_frame(bytes(RANDOM.choices((0, 1, 7, 200), k=400_000)))
    found = scanned(OPEN + batch[:-1])
    assert found.torn_bytes == len(batch) - 1


def test_bytes_behind_the_seal_are_corruption():
    with pytest.raises(Corruption, match="goes on behind its seal"):
        scanned(SEALED + FRAMES[0])


def test_a_segment_under_another_name_is_corruption():
    with pytest.raises(Corruption, match="holds segment 1 of epoch 1"):
        scan_segment(OPEN, segment_name(1, 2))


def test_a_later_format_version_is_refused_and_not_taken_for_a_torn_header():
    data = bytearray(HEADER.encode())
    data[8] = 2
    with pytest.raises(Corruption, match="format version 2"):
        scanned(bytes(data))


@pytest.mark.parametrize("name", ["", "slave-é", "x" * 255])
def test_headers_hold_any_name(name):
    header = Header(1, 1, 0, name)
    assert scanned(header.encode()).header == header


def test_payloads_that_no_frame_can_hold_are_refused():
    with pytest.raises(ValueError, match="0 bytes"):
        encode_frame(b"")
