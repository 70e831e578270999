"""Arrays: their values, which are tuples, and PostgreSQL's text of them: `{a,"b c",NULL}`.

An array has one dimension, and its elements are numbered from 1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

_BLANKS = " \t\n\r\v\f"
"""The blanks that an array's text may have around elements; others are part of an element."""
_WORD = r'(?:[^\s"{},\\]|\\.)+'
_ELEMENT = re.compile(
    rf'\s*(?:"((?:[^"\\]|\\.)*)"|({_WORD}(?:\s+{_WORD})*))\s*(?:,|$)', re.DOTALL | re.ASCII
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_QUOTED = re.compile(rf'[{_BLANKS}"{{}},\\]')
_MARKED = re.compile(r'["\\]')
_SEVERAL_DIMENSIONS = re.compile(r"\s*\{\s*\{", re.ASCII)
_BOUNDS = re.compile(r"\s*\[", re.ASCII)
ONE_DIMENSION = "an array has one dimension here; use JSONB for more"


def elements_of(text: str) -> list[str | None]:
    """The elements in the text of an array; None is NULL. Raises ValueError.

    >>> elements_of('{a,"b c",NULL}')
    ['a', 'b c', None]
    """
    if _SEVERAL_DIMENSIONS.match(text):
        raise ValueError(ONE_DIMENSION)
    if _BOUNDS.match(text):
        raise ValueError("the elements of an array are numbered from 1 here, without bounds")
    written = text.strip(_BLANKS)
    if written[:1] != "{" or written[-1:] != "}" or len(written) < 2:
        raise ValueError("arrays are written {a,b}")
    inner, found, at = written[1:-1].strip(_BLANKS), list[str | None](), 0
    while at < len(inner):
        element = _ELEMENT.match(inner, at)
        if element is None or (element.end() == len(inner) and inner.endswith(",")):
            raise ValueError('arrays are written {a,"b c",NULL}')
        found.append(_element(element))
        at = element.end()
    return found


def _element(found: re.Match[str]) -> str | None:
    if found[1] is not None:
        return _ESCAPED.sub(r"\1", found[1])
    return None if found[2].lower() == "null" else _ESCAPED.sub(r"\1", found[2])


def text_of_elements(texts: Iterable[str | None]) -> str:
    """The text of an array from the texts of its elements.

    >>> text_of_elements(["a", "b c", None, "null"])
    '{a,"b c",NULL,"null"}'
    """
    return f"{{{','.join(map(element_text, texts))}}}"


def element_text(text: str | None) -> str:
    """The text of an element as it stands in the text of an array; None is NULL."""
    if text is None:
        return "NULL"
    if text and text.lower() != "null" and not _QUOTED.search(text):
        return text
    marked = _MARKED.sub(r"\\\g<0>", text)
    return f'"{marked}"'


def values_of(given: Sequence[Any], element: Callable[[Any], Any]) -> tuple[Any, ...]:
    """The array of the values that `element` makes of the given ones. Raises ValueError for an
    array of arrays."""
    if any(isinstance(each, list | tuple) for each in given):
        raise ValueError(ONE_DIMENSION)
    return tuple([None if each is None else element(each) for each in given])


def order_of(value: tuple[Any, ...]) -> tuple[Any, ...]:
    """A key by which arrays are ordered: by their elements, of which NULL is the largest, and then
    by their lengths."""
    return tuple([(each is None, each) for each in value])
