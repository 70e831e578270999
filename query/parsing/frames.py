"""The distances of window frames that are written as text, as in `RANGE '1 day' PRECEDING`."""

from __future__ import annotations

import re

from sqlglot import exp

_NUMBER = re.compile(r"\s*(\d+(?:\.\d+)?)\s*")


def read_distances(tree: exp.Expr) -> None:
    """Read the texts: as numbers, or else as intervals."""
    for frame in tree.find_all(exp.WindowSpec):
        for side in ("start", "end"):
            value = frame.args.get(side)
            if isinstance(value, exp.Literal) and value.is_string:
                number = _NUMBER.fullmatch(value.this)
                found = exp.Literal.number(number[1]) if number else _interval(value)
                value.replace(found)


def _interval(text: exp.Literal) -> exp.Cast:
    return exp.cast(text, exp.DType.INTERVAL)
