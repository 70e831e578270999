"""Ranges of encoded keys: their union, their complement, and splitting them at keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple


class Span(NamedTuple):
    """Keys from `start` (included) to `end` (excluded); None: to the last key."""

    start: bytes
    end: bytes | None


def united(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The union of `spans`, in as few spans as possible, in order."""
    found: list[Span] = []
    for span in sorted(spans, key=lambda span: span.start):
        if span.end is not None and span.end <= span.start:
            continue
        last = found[-1] if found else None
        if last is None or (last.end is not None and last.end < span.start):
            found.append(span)
        elif last.end is not None and (span.end is None or span.end > last.end):
            found[-1] = Span(last.start, span.end)
    return tuple(found)


def gaps(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The spans of all keys outside `spans`, in order."""
    found, behind = [], b""
    for span in united(spans):
        if behind < span.start:
            found.append(Span(behind, span.start))
        if span.end is None:
            return tuple(found)
        behind = span.end
    return (*found, Span(behind, None))


def cut(spans: Iterable[Span], keys: Sequence[bytes]) -> Iterator[Span]:
    """Split `spans` at `keys`, which are in order, so that no key lies inside a span."""
    for start, end in spans:
        inner = [key for key in keys if key > start and (end is None or key < end)]
        yield from map(Span, [start, *inner], [*inner, end])
