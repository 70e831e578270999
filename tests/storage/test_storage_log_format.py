"""The log's bytes: the document's example, and every kind of damage."""

import re
from pathlib import Path
from random import Random

import pytest
from crc32c import crc32c

import hornbeam_server.storage.log.format
from hornbeam_server.schema.errors import Corruption
from hornbeam_server.storage.log.format import (
    SEAL_BYTES,
    Header,
    encode_append,
    encode_seal,
    require_payloads,
    scan_segment,
    segment_name,
)

FORMAT_MD = Path(hornbeam_server.storage.log.format.__file__).with_name("FORMAT.md").read_text()
NAME = segment_name(1, 1)
HEADER = Header(1, 1, 7, "a")
RANDOM = Random(4)
PAYLOADS = [RANDOM.randbytes(RANDOM.randint(1, 40)) for _ in range(30)]


def appended(data, *payloads):
    """`data` with an append of its own for each payload."""
    for payload in payloads:
        data += b"".join(encode_append([payload], 1, 1, len(data)))
    return data


OPEN = appended(HEADER.encode(), *PAYLOADS)
SEALED = OPEN + encode_seal(1, 1, len(OPEN))
ENDS = [len(appended(HEADER.encode(), *PAYLOADS[:count])) for count in range(len(PAYLOADS) + 1)]


def scanned(data):
    return scan_segment(data, NAME)


def payloads(data):
    return [payload for payload, _ in scanned(data).frames]


def test_the_example_of_the_document():
    text = FORMAT_MD.split("## Example")[1]
    data = bytes.fromhex(re.search(r"```\n(.*?)```", text, re.S).group(1))
    found = scanned(data)
    assert found.header == HEADER
    assert found.frames == ((b"hi", len(data) - SEAL_BYTES),)
    assert found.sealed
    written = appended(HEADER.encode(), b"hi")
    assert data == written + encode_seal(1, 1, len(written))


def test_the_checksum_is_castagnoli():
    assert crc32c(b"123456789") == 0xE3069283


def test_whole_segments():
    for data, sealed in ((OPEN, False), (SEALED, True)):
        found = scanned(data)
        assert (found.header, found.sealed, found.torn_bytes) == (HEADER, sealed, 0)
        assert [payload for payload, _ in found.frames] == PAYLOADS
        assert [end for _, end in found.frames] == ENDS[1:]


@pytest.mark.parametrize("data", [OPEN, SEALED], ids=["open", "sealed"])
def test_every_truncation_drops_only_the_torn_tail(data):
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
        assert (found.sealed, found.torn_bytes) == (False, SEAL_BYTES)
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
def test_an_allocated_but_unwritten_tail_is_torn(tail):
    found = scanned(OPEN + tail)
    assert [payload for payload, _ in found.frames] == PAYLOADS
    assert found.torn_bytes == len(tail)


def test_long_frames_behind_damage_are_found_by_the_chain_to_the_end():
    data = bytearray(appended(HEADER.encode(), *(bytes([i]) * 200_000 for i in range(3))))
    data[ENDS[0] + 100] ^= 1
    with pytest.raises(Corruption) as caught:
        scanned(bytes(data))
    assert caught.value.details["position"] == f"{NAME}:{ENDS[0]}"


def test_the_torn_tail_of_a_large_batch_is_searched_quickly():
    # Half of a batch of small numbers: every second byte could begin a length.
    data = appended(OPEN, bytes(RANDOM.choices((0, 1, 7, 200), k=400_000)))
    assert scanned(data[:-1]).torn_bytes == len(data) - len(OPEN) - 1


def test_bytes_behind_the_seal_are_corruption():
    with pytest.raises(Corruption, match="goes on behind its seal"):
        scanned(appended(SEALED, b"more"))


def test_a_segment_under_another_name_is_corruption():
    with pytest.raises(Corruption, match="holds segment 1 of epoch 1"):
        scan_segment(OPEN, segment_name(1, 2))


def test_other_format_versions_are_refused():
    data = bytearray(HEADER.encode())
    for version in (1, 3):
        data[8] = version
        with pytest.raises(Corruption, match=f"format version {version}; this program reads 2"):
            scanned(bytes(data))


@pytest.mark.parametrize("name", ["", "slave-é", "x" * 255])
def test_headers_hold_any_name(name):
    header = Header(1, 1, 0, name)
    assert scanned(header.encode()).header == header


def test_an_empty_payload_is_refused():
    with pytest.raises(ValueError, match="0 bytes"):
        require_payloads([b"one", b""])


def test_a_frame_is_valid_only_where_it_was_written():
    frame = b"".join(encode_append([b"moved"], 1, 1, len(OPEN)))
    assert payloads(OPEN + frame) == [*PAYLOADS, b"moved"]
    others = [(2, 1, 0), (1, 2, 0), (1, 1, 1), (1, 1, -1), (1, 1, -len(HEADER.encode()))]
    for epoch, sequence, moved in others:
        data = OPEN + b"".join(encode_append([b"moved"], epoch, sequence, len(OPEN) + moved))
        assert payloads(data) == PAYLOADS
        assert scanned(data).torn_bytes == len(frame)
    with_a_hole = OPEN[: ENDS[3]] + OPEN[ENDS[4] :]
    assert payloads(with_a_hole) == PAYLOADS[:3]


def test_rows_that_quote_the_log_do_not_make_a_torn_tail_corruption():
    """A user may store bytes read from a log file; then the machine loses power."""
    data = appended(OPEN, SEALED + encode_seal(1, 1, 0) * 3)
    found = scanned(data[:-1])
    assert [payload for payload, _ in found.frames] == PAYLOADS
