"""Spans contain the same keys after they are united or cut."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from hornbeam_server.maintain.spans import Span, cut, gaps, united

KEYS = st.binary(max_size=2)
SPANS = st.lists(st.builds(Span, KEYS, st.none() | KEYS), max_size=6)


@given(SPANS, KEYS)
@settings(max_examples=200)
def test_every_key_is_finished_or_missing(spans, key):
    def holds(span):
        return span.start <= key and (span.end is None or key < span.end)

    assert any(map(holds, spans)) == any(map(holds, united(spans)))
    assert any(map(holds, gaps(spans))) == (not any(map(holds, spans)))
    for first, second in pairwise(united(spans)):
        assert first.end is not None
        assert first.end < second.start


@given(SPANS, st.lists(KEYS, max_size=4).map(sorted), KEYS)
@settings(max_examples=200)
def test_a_cut_loses_and_duplicates_no_key(spans, keys, key):
    spans = united(spans)
    pieces = list(cut(spans, keys))
    assert united(pieces) == spans
    for piece in pieces:
        assert not any(piece.start < k and (piece.end is None or k < piece.end) for k in keys)
    assert sum(p.start <= key and (p.end is None or key < p.end) for p in pieces) <= 1
