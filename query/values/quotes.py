"""Text in double quotes, in templates of `to_char` and of its inverse functions."""

from __future__ import annotations

import re

_QUOTED = re.compile(r'"((?:\\.|[^"])*)"?', re.DOTALL)
_CHARACTER = re.compile(r"\\?(.)", re.DOTALL)


def quoted(template: str, start: int) -> tuple[list[str], int]:
    """The characters between the quote at `start` and the next one, or the end of the template; and
    the place behind them. A character behind a backslash stands for itself."""
    found = _QUOTED.match(template, start)
    assert found is not None
    return _CHARACTER.findall(found[1]), found.end()
