"""`to_char` of values of all types, and `to_number` as text."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

from hornbeam_server.query.values.number_templates import number_to_char, to_number
from hornbeam_server.query.values.time_templates import time_to_char
from hornbeam_server.schema.errors import TypeMismatch
from hornbeam_server.schema.intervals import Interval


def to_char(value: Any, template: str) -> str | None:
    """The value in the form of the template. Raises TypeMismatch."""
    if isinstance(value, dt.date | dt.time | Interval):
        return time_to_char(value, template)
    if isinstance(value, int | Decimal | float) and not isinstance(value, bool):
        return number_to_char(value, template)
    raise TypeMismatch(
        "to_char takes numbers, dates, times and intervals.", cure="CAST the value to one of them."
    )


def number_of_text(text: str, template: str) -> str | None:
    """The digits of the number in a text of the form of the template. Raises TypeMismatch."""
    number = to_number(text, template)
    return None if number is None else f"{number:f}"
