"""CSV as the server reads it: NULL is an empty field, text is quoted, "" is the empty text.

The client splits records, but does not parse them: it sends the bytes of a file unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import IO, Any

from hornbeam.cli.common import json_form


def csv_line(values: Iterable[Any]) -> str:
    """A record of `values`, with its line end."""
    return ",".join(map(_field, values)) + "\n"


def _field(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | Decimal):
        return str(value)
    text = value if isinstance(value, str) else json_form(value)
    return '"' + text.replace('"', '""') + '"'


def records(file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """The records of a CSV file with their line ends, each after the number of its first line,
    counted from 1. A quoted field may contain line ends."""
    parts: list[bytes] = []
    quotes = 0
    begins = 1
    for number, line in enumerate(file, 1):
        parts.append(line)
        quotes += line.count(b'"')
        if quotes % 2 == 0:
            record = b"".join(parts)
            if record.strip():
                yield begins, record if record.endswith(b"\n") else record + b"\n"
            parts = []
            begins = number + 1
    if parts:
        yield begins, b"".join(parts)
