"""A cache of values computed from texts, bounded by the length of these texts.

Clients choose the texts, and a value grows with its text: a statement of 1 MB gives a syntax tree
of 150 MB. A cache bounded by a count alone would hold a thousand such trees.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

MAX_CHARACTERS = 400_000
"""Maximum characters of all texts of one cache: a thousand statements of usual length."""
SHARE = 8
"""A text longer than 1/SHARE of a cache's characters is not cached: it would evict many others."""

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class TextCache(Generic[K, T]):
    """An LRU cache of values computed from texts.

    It holds at most `entries` values, from texts of at most `characters` characters together.
    Threads may share it: each step is one operation on a dictionary, and the sum of the lengths is
    taken again whenever it decides.
    """

    def __init__(self, entries: int, characters: int = MAX_CHARACTERS) -> None:
        self._entries = entries
        self._characters = characters
        self._found: OrderedDict[K, tuple[int, T]] = OrderedDict()
        self._at_most = 0
        """A bound of the characters of all texts: their sum when it was last taken, and the texts
        that were put since."""

    def __len__(self) -> int:
        return len(self._found)

    def get(self, key: K) -> T | None:
        """The value under `key`, or None. The key becomes the most recently used."""
        found = self._found.pop(key, None)
        if found is None:
            return None
        self._found[key] = found
        return found[1]

    def put(self, key: K, characters: int, value: T) -> None:
        """Cache `value`, computed from a text of `characters`, unless the text is too long."""
        self._found.pop(key, None)
        if characters > self._characters // SHARE:
            return
        self._found[key] = (characters, value)
        while len(self._found) > self._entries:
            self._found.popitem(last=False)
        self._at_most += characters
        if self._at_most > self._characters:
            self._evict()

    def clear(self) -> None:
        self._found.clear()
        self._at_most = 0

    def _evict(self) -> None:
        """Drop the least recently used texts until the others are within the bound."""
        held = sum(length for length, _ in list(self._found.values()))
        while held > self._characters:
            _, (length, _) = self._found.popitem(last=False)
            held -= length
        self._at_most = held


def cached(compute: Callable[[str], T], entries: int) -> Callable[[str], T]:
    """`compute` with its results cached by text. It must not return None."""
    cache: TextCache[str, T] = TextCache(entries)

    def remembered(text: str) -> T:
        found = cache.get(text)
        if found is None:
            found = compute(text)
            cache.put(text, len(text), found)
        return found

    return remembered
