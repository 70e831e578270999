"""Parts of answers that are bounded by the bytes of their values."""

from hypothesis import given
from hypothesis import strategies as st

from hornbeam_server.storage.batches import fitting, parts_within
from hornbeam_server.storage.ports import Cell


@given(st.lists(st.binary(max_size=9)), st.integers(1, 20))
def test_parts_have_all_rows_and_end_where_their_values_reach_the_bound(values, room):
    cells = [Cell(b"k", i, value) for i, value in enumerate(values)]
    expected, left = [], cells
    while left:
        expected.append(left[: fitting(left, room)])
        left = left[len(expected[-1]) :]
    assert list(parts_within(cells, values, room)) == expected
    assert all(sum(len(cell.value) for cell in part[:-1]) < room for part in expected)
