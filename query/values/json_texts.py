"""PostgreSQL's functions that write JSON from arrays of texts."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hornbeam_server.schema.errors import TypeMismatch

Texts = Sequence[str | None]


def object_of_texts(keys: Texts, values: Texts | None = None) -> str:
    """`json_object`: the text of an object of keys and values, or of one list in which they take
    turns. Each value is a text or null, and equal keys stay. Raises TypeMismatch."""
    if values is None:
        if len(keys) % 2:
            raise TypeMismatch("json_object has a key without a value.")
        keys, values = keys[::2], keys[1::2]
    if len(keys) != len(values):
        raise TypeMismatch("json_object has other numbers of keys and values.")
    if None in keys:
        raise TypeMismatch("A key of json_object is NULL.", cure="Leave the pair out.")
    pairs = (f"{_text(key)} : {_text(value)}" for key, value in zip(keys, values, strict=True))
    return "{" + ", ".join(pairs) + "}"


def _text(value: str | None) -> str:
    return json.dumps(value, ensure_ascii=False)
