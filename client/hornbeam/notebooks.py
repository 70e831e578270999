"""Results as HTML: notebooks show an object by its method `_repr_html_`."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from html import escape
from itertools import islice
from typing import Any

MOST_ROWS = 60
"""Rows that are shown."""
MOST_CHARACTERS = 400
"""Characters of a value that are shown."""
_RIGHT = ' style="text-align: right"'


def table_html(
    columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[Any]], note: str = ""
) -> str:
    """The first rows as a table, with their number. `columns` are pairs of name and SQL type;
    `note` is a text behind the number."""
    head = "".join(f'<th title="{escape(type_)}">{escape(name)}</th>' for name, type_ in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in islice(rows, MOST_ROWS))
    shown = f"the first {MOST_ROWS} of {len(rows):,} rows" if len(rows) > MOST_ROWS else ""
    count = shown or ("1 row" if len(rows) == 1 else f"{len(rows):,} rows")
    below = escape(f"{count} {note}".strip())
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{below}</p>"


def text_html(text: str) -> str:
    """A text whose lines and blanks count."""
    return f"<pre>{escape(text)}</pre>"


def _cell(value: Any) -> str:
    if value is None:
        return "<td><em>NULL</em></td>"
    text = f"\\x{value.hex()}" if isinstance(value, bytes) else str(value)
    if len(text) > MOST_CHARACTERS:
        text = f"{text[:MOST_CHARACTERS]}…"
    number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    return f"<td{_RIGHT if number else ''}>{escape(text)}</td>"
