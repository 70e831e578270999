"""Caches of results computed from texts: bounded by number and by length of the texts."""

from hypothesis import given
from hypothesis import strategies as st

from hornbeam_server.schema.caches import SHARE, TextCache, cached


def test_the_least_recently_used_is_dropped_first():
    cache = TextCache(2)
    cache.put("a", 1, "A")
    cache.put("b", 1, "B")
    assert cache.get("a") == "A"
    cache.put("c", 1, "C")
    assert [cache.get(key) for key in "abc"] == ["A", None, "C"]


def test_long_texts_evict_only_as_many_texts_as_necessary():
    cache = TextCache(100, characters=80)
    for key in "abcdefgh":
        cache.put(key, 10, key)
    cache.put("long", 80 // SHARE, "long")
    assert cache.get("a") is None
    assert cache.get("b") == "b"


def test_a_text_that_is_too_long_is_not_kept_and_evicts_none():
    cache = TextCache(100, characters=80)
    cache.put("a", 1, "A")
    cache.put("b", 80 // SHARE + 1, "B")
    assert (cache.get("a"), cache.get("b")) == ("A", None)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 30))))
def test_both_bounds_hold_for_any_sequence_of_puts(puts):
    cache, lengths = TextCache(5, characters=100), {}
    for key, characters in puts:
        cache.put(key, characters, key)
        lengths[key] = characters
        kept = [k for k in range(10) if cache.get(k) is not None]
        assert len(cache) == len(kept) <= 5
        assert sum(lengths[k] for k in kept) <= 100
        assert (key in kept) == (characters <= 100 // SHARE)


def test_a_cached_result_is_not_computed_again():
    calls = []
    compute = cached(lambda text: calls.append(text) or len(text), 10)
    long = "x" * 1_000_000
    assert [compute(text) for text in ("a", "a", long, long)] == [1, 1, 1_000_000, 1_000_000]
    assert calls == ["a", long, long]
