"""Python and the module read the same rows of HBase's answers, and refuse the same bytes."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hornbeam_server.storage.hbase import answers
from hornbeam_server.storage.hbase.answers import Rows, Unfamiliar
from hornbeam_server.storage.hbase.found import CELLS, STORED, VALUES
from hornbeam_server.storage.ports import Cell, make_cell
from tests.storage.test_storage_hbase import row_of, scan_answer

KEYS = st.sampled_from([b"", b"\0", b"\0\0\0", b"k", b"k\0", b"\xff" * 9])
VALUES_OF_ROWS = st.binary(max_size=4) | st.sampled_from(
    [b"\xff", b"\xff" + bytes(16), b"\xff" + b"s" * 16 + b"v", b"\xffshort", b"w" * 300]
)
ROWS = st.lists(st.builds(row_of, KEYS, VALUES_OF_ROWS, st.integers(-(1 << 63), (1 << 63) - 1)))
OTHERS = [row_of(b"k", tags=b"some"), row_of(b"k", type=14), row_of(b"k", family=b"other")]
FORMS = [STORED, CELLS, VALUES]


def read(data, size, form, native):
    """What is read of an answer in pieces, with the types of rows, and how many pieces were taken;
    and whether the answer is complete, goes on, or has another shape."""
    rows, taken, ended = Rows(form, native), 0, "goes on"
    try:
        for at in range(0, len(data), size):
            taken += 1
            if rows.take(data[at : at + size]):
                ended = "complete"
                break
    except Unfamiliar:
        return None, taken, "another shape"
    return rows.found, [type(row) for row in rows.found.rows], taken, ended


def assert_alike(native, data, size):
    for form in FORMS:
        assert read(data, size, form, native) == read(data, size, form, None)


@given(ROWS, st.integers(1, 500))
def test_both_read_the_same_rows_in_pieces_of_any_size(native, rows, size):
    assert_alike(native, scan_answer(*rows), size)


@given(ROWS, ROWS, st.sampled_from(OTHERS), st.integers(1, 500))
def test_both_refuse_another_shape_at_the_same_piece(native, before, behind, other, size):
    assert_alike(native, scan_answer(*before, other, *behind), size)


@given(ROWS, st.integers(1, 500), st.data())
def test_both_treat_truncated_and_damaged_answers_alike(native, rows, size, data):
    answer = bytearray(scan_answer(*rows))
    for _ in range(data.draw(st.integers(0, 3))):
        answer[data.draw(st.integers(0, len(answer) - 1))] = data.draw(st.integers(0, 255))
    assert_alike(native, bytes(answer[: data.draw(st.integers(0, len(answer)))]), size)


@given(st.binary(max_size=200), st.integers(1, 300))
@example(b"\x0b\x00\x01\xff\xff\xff\xff", 300)
def test_both_treat_any_bytes_as_rows_alike(native, rows, size):
    """The head announces the maximum number of rows."""
    head = bytearray(scan_answer()[:-1])
    head[-4:] = b"\xff" * 4
    assert_alike(native, bytes(head) + rows, size)


def test_the_module_takes_whole_rows_itself(native):
    """Else the laws compare Python with itself."""
    answer = scan_answer(row_of(b"\0"), row_of(b"k", b"\xff"), row_of(b"l", b"w", 9))[:-1]
    at = answers._ANSWER_HEAD.size
    decoded = native.decode_answer(answer, at, 9, "cells", make_cell)
    assert decoded == ([Cell(b"", 7, b"v"), Cell(b"l", 9, b"w")], 3, 3, 3, b"l", len(answer))
    assert native.decode_answer(answer, at, 1, "stored", make_cell)[0] == [Cell(b"\0", 7, b"v")]
    assert native.decode_answer(answer, at, 3, "values", make_cell)[0] == [b"v", b"w"]
    assert native.decode_answer(answer[:-1], at, 3, "values", make_cell)[0] == [b"v"]


def test_the_module_reads_nothing_outside_of_the_answer(native):
    nothing = ([], 0, 0, 0, b"", 1 << 40)
    assert native.decode_answer(b"\0", 1 << 40, 9, "cells", make_cell) == nothing
    with pytest.raises(ValueError, match="unknown"):
        native.decode_answer(b"", 0, 1, "other", make_cell)
