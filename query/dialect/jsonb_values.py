"""PostgreSQL's operators and functions of JSONB, over texts.

An argument of JSONB, and a result, is its canonical text (`schema.jsonb`); an array of texts is the
text of a JSON array. Our own loops call these functions, and DuckDB calls the same ones, so both
have one meaning. None of them is called with NULL. They raise TypeMismatch.
"""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Decimal
from enum import Enum
from typing import Any

from hornbeam_server.query.dialect.text_arrays import texts_in
from hornbeam_server.schema import arrays, jsonb
from hornbeam_server.schema.errors import TypeMismatch

write = jsonb.write
_ABSENT = object()
_PLACE = re.compile(r"\s*[+-]?[0-9]{1,10}")


def read(text: str) -> Any:
    """The value of a text. Raises TypeMismatch."""
    try:
        return jsonb.read(text)
    except ValueError as error:
        raise _no_json(text, error) from None


def of_text(text: str) -> str:
    """A cast of text, or of JSON, to JSONB."""
    try:
        return jsonb.canonical(text)
    except ValueError as error:
        raise _no_json(text, error) from None


def of_text_or_null(text: str) -> str | None:
    try:
        return jsonb.canonical(text)
    except ValueError:
        return None


def _no_json(text: str, error: ValueError) -> TypeMismatch:
    shown = text if len(text) <= 60 else text[:57] + "..."
    return TypeMismatch(f"{shown!r} is not a value of type JSONB: {error}.", type="JSONB")


def type_name(text: str) -> str:
    return _name(read(text))


def _name(value: Any) -> str:
    if value is None:
        return "null"
    return next(name for class_, name in _NAMES if isinstance(value, class_))


_NAMES = (
    (dict, "object"),
    (list, "array"),
    (str, "string"),
    (bool, "boolean"),
    (int, "number"),
    (Decimal, "number"),
)

# --- members ---------------------------------------------------------------------------------


def _field(value: Any, key: str) -> Any:
    return value.get(key, _ABSENT) if isinstance(value, dict) else _ABSENT


def _element(value: Any, place: int) -> Any:
    return value[place] if -len(value) <= place < len(value) else _ABSENT


def field(text: str, key: str) -> str | None:
    return _shown(_field(read(text), key))


def field_text(text: str, key: str) -> str | None:
    return _plain(_field(read(text), key))


def element(text: str, place: int) -> str | None:
    return _shown(_element(_items(read(text)), place))


def element_text(text: str, place: int) -> str | None:
    return _plain(_element(_items(read(text)), place))


def _items(value: Any) -> list[Any]:
    """The elements of an array; a scalar counts as an array of one, as in PostgreSQL."""
    if isinstance(value, dict):
        return []
    return value if isinstance(value, list) else [value]


def path(text: str, steps: str) -> str | None:
    return _shown(_reached(read(text), read(steps)))


def path_text(text: str, steps: str) -> str | None:
    return _plain(_reached(read(text), read(steps)))


def _reached(value: Any, steps: list[str | None]) -> Any:
    for step in steps:
        if step is None:
            return _ABSENT
        if isinstance(value, list):
            value = _element(value, int(step)) if _PLACE.fullmatch(step) else _ABSENT
        else:
            value = _field(value, step)
        if value is _ABSENT:
            return _ABSENT
    return value


def _shown(value: Any) -> str | None:
    return None if value is _ABSENT else write(value)


def _plain(value: Any) -> str | None:
    """A value as text: a string without its quotes, NULL for null."""
    if value is _ABSENT or value is None:
        return None
    return value if isinstance(value, str) else write(value)


# --- tests -----------------------------------------------------------------------------------


def contains(text: str, part: str) -> bool:
    value, wanted = read(text), read(part)
    if isinstance(value, list) and not isinstance(wanted, list | dict):
        wanted = [wanted]  # an array contains a scalar that is one of its elements
    return _contains(value, wanted)


def contained(part: str, text: str) -> bool:
    return contains(text, part)


def _contains(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        return isinstance(value, dict) and all(
            key in value and _contains(value[key], inner) for key, inner in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(value, list) and all(
            any(_contains(inner, item) for inner in value) for item in wanted
        )
    return _same(value, wanted)


def _same(value: Any, scalar: Any) -> bool:
    """Is the value this scalar? In Python, true equals 1."""
    return bool(value == scalar) and isinstance(value, bool) is isinstance(scalar, bool)


def exists(text: str, key: str) -> bool:
    return _exists(read(text), key)


def exists_any(text: str, keys: str) -> bool:
    value = read(text)
    return any(_exists(value, key) for key in read(keys) if key is not None)


def exists_all(text: str, keys: str) -> bool:
    value = read(text)
    return all(_exists(value, key) for key in read(keys) if key is not None)


def _exists(value: Any, key: str) -> bool:
    return key in value if isinstance(value, dict) else key in _items(value)


# --- changes ---------------------------------------------------------------------------------


def concatenate(left: str, right: str) -> str:
    a, b = read(left), read(right)
    if isinstance(a, dict) and isinstance(b, dict):
        return write(a | b)
    return write([item for side in (a, b) for item in (side if type(side) is list else [side])])


def without_key(text: str, key: str) -> str:
    return _without(text, {key})


def without_keys(text: str, keys: str) -> str:
    return _without(text, {key for key in read(keys) if key is not None})


def _without(text: str, keys: set[str]) -> str:
    value = _container(read(text), "delete from")
    if isinstance(value, dict):
        return write({key: inner for key, inner in value.items() if key not in keys})
    return write([item for item in value if not (isinstance(item, str) and item in keys)])


def without_element(text: str, place: int) -> str:
    value = _container(read(text), "delete from")
    if isinstance(value, dict):
        raise TypeMismatch("An object has no position.", cure="Delete by a key, which is text.")
    kept = list(value)
    if _element(value, place) is not _ABSENT:
        del kept[place]
    return write(kept)


class _Change(Enum):
    REPLACE = "replace"
    CREATE = "create"
    BEFORE = "before"
    AFTER = "after"
    DELETE = "delete"

    @property
    def adds(self) -> bool:
        return self in (_Change.CREATE, _Change.BEFORE, _Change.AFTER)


def without_path(text: str, steps: str) -> str:
    value = _container(read(text), "delete a path in")
    return write(_changed(value, read(steps), 0, None, _Change.DELETE))


def set_path(text: str, steps: str, new: str, create: bool) -> str:
    value = _container(read(text), "set a path in")
    change = _Change.CREATE if create else _Change.REPLACE
    return write(_changed(value, read(steps), 0, read(new), change))


def insert_path(text: str, steps: str, new: str, after: bool) -> str:
    value = _container(read(text), "set a path in")
    change = _Change.AFTER if after else _Change.BEFORE
    return write(_changed(value, read(steps), 0, read(new), change))


def _container(value: Any, what: str) -> Any:
    if not isinstance(value, list | dict):
        raise TypeMismatch(f"One cannot {what} a scalar, which is {_name(value)}.")
    return value


def _changed(value: Any, steps: list[str | None], level: int, new: Any, change: _Change) -> Any:
    """The value with the change at the end of the path `steps`, of which `level` are taken."""
    if level == len(steps) or not isinstance(value, list | dict):
        return value
    step = steps[level]
    if step is None:
        raise TypeMismatch(f"Step {level + 1} of the path is NULL.", cure="Give it a key.")
    if isinstance(value, dict):
        return _changed_object(value, steps, level, new, change)
    if not _PLACE.fullmatch(step):
        raise TypeMismatch(
            f"Step {level + 1} of the path, {step!r}, is not a position in an array.",
            cure="Write an integer.",
        )
    return _changed_array(value, int(step), steps, level, new, change)


def _changed_object(
    value: dict[str, Any], steps: list[str | None], level: int, new: Any, change: _Change
) -> dict[str, Any]:
    key = steps[level]
    assert key is not None
    last, found = level == len(steps) - 1, key in value
    if not last:
        inner = {key: _changed(value[key], steps, level + 1, new, change)} if found else {}
        return value | inner
    if change is _Change.DELETE:
        return {name: inner for name, inner in value.items() if name != key}
    if found and change in (_Change.BEFORE, _Change.AFTER):
        raise TypeMismatch(f"The key {key!r} exists.", cure="Write jsonb_set to replace its value.")
    return value | {key: new} if found or change.adds else value


def _changed_array(
    value: list[Any], place: int, steps: list[str | None], level: int, new: Any, change: _Change
) -> list[Any]:
    size, last = len(value), level == len(steps) - 1
    place = place + size if place < 0 else place
    if not 0 <= place < size:
        if not (last and change.adds):
            return value
        return [new, *value] if place < 0 else [*value, new]
    old, before, behind = value[place], value[:place], value[place + 1 :]
    if not last:
        return [*before, _changed(old, steps, level + 1, new, change), *behind]
    kept = {_Change.DELETE: [], _Change.BEFORE: [new, old], _Change.AFTER: [old, new]}
    return [*before, *kept.get(change, [new]), *behind]


def strip_nulls(text: str) -> str:
    return write(_stripped(read(text)))


def _stripped(value: Any) -> Any:
    match value:
        case dict():
            return {key: _stripped(inner) for key, inner in value.items() if inner is not None}
        case list():
            return [_stripped(item) for item in value]
    return value


# --- other values ----------------------------------------------------------------------------


def array_length(text: str) -> int:
    return len(_array(text, "array length"))


def _array(text: str, what: str) -> list[Any]:
    value = read(text)
    if isinstance(value, list):
        return value
    kind = _name(value)
    raise TypeMismatch(f"JSONB of type {kind} has no {what}.", cure="Give it an array.")


def elements(text: str) -> list[str]:
    return [write(item) for item in _array(text, "elements")]


def element_texts(text: str) -> list[str | None]:
    return [_plain(item) for item in _array(text, "elements")]


def fields(text: str, key: str, many: bool) -> list[str | None]:
    """The texts of a member in records, NULL where it is missing: in the objects of an array, or
    if not `many` in one object."""
    return [_plain(_field(record, key)) for record in _records(text, many)]


def field_values(text: str, key: str, many: bool) -> list[str | None]:
    """The members themselves, as JSONB."""
    return [_shown(_field(record, key)) for record in _records(text, many)]


def field_arrays(text: str, key: str, many: bool) -> list[str | None]:
    """The members as texts of arrays of SQL."""
    found = (_field(record, key) for record in _records(text, many))
    return [_array_text(value) if isinstance(value, list) else _plain(value) for value in found]


def _records(text: str, many: bool) -> list[dict[str, Any]]:
    records = _array(text, "records") if many else [read(text)]
    for record in records:
        if not isinstance(record, dict):
            raise TypeMismatch(
                f"JSONB of type {_name(record)} is no record.", cure="Give it an object."
            )
    return records


def _array_text(value: list[Any]) -> str:
    texts = [
        _array_text(item) if isinstance(item, list) else arrays.element_text(_plain(item))
        for item in value
    ]
    return f"{{{','.join(texts)}}}"


def keys(text: str) -> list[str]:
    return sorted(_object(text), key=jsonb.key_order)


def member_values(text: str) -> list[str]:
    found = _object(text)
    return [write(found[key]) for key in sorted(found, key=jsonb.key_order)]


def member_texts(text: str) -> list[str | None]:
    found = _object(text)
    return [_plain(found[key]) for key in sorted(found, key=jsonb.key_order)]


def _object(text: str) -> dict[str, Any]:
    value = read(text)
    if isinstance(value, dict):
        return value
    raise TypeMismatch(f"JSONB of type {_name(value)} has no keys.", cure="Give it an object.")


def pretty(text: str) -> str:
    return _pretty(read(text), "\n")


def _pretty(value: Any, line: str) -> str:
    """The value in lines; `line` is the end of a line and the blanks of the next one."""
    inner = f"{line}    "
    match value:
        case dict():
            names = sorted(value, key=jsonb.key_order)
            parts = [f"{write(name)}: {_pretty(value[name], inner)}" for name in names]
        case list():
            parts = [_pretty(item, inner) for item in value]
        case _:
            return write(value)
    first, last = "{}" if isinstance(value, dict) else "[]"
    return first + ",".join(f"{inner}{part}" for part in parts) + line + last


def number(text: str) -> str:
    """A cast to a number: its digits."""
    value = read(text)
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise TypeMismatch(f"JSONB of type {_name(value)} is no number.", cure="Write j ->> 'key'.")
    return write(value)


def whole(text: str) -> str:
    """A cast to an integer: its digits, halves rounded away from zero."""
    return str(int(Decimal(number(text)).to_integral_value(ROUND_HALF_UP)))


def truth(text: str) -> bool:
    value = read(text)
    if not isinstance(value, bool):
        raise TypeMismatch(f"JSONB of type {_name(value)} is no truth value.")
    return value


# --- constructors ----------------------------------------------------------------------------

Texts = list[str | None]


def build_array(items: Texts) -> str:
    """An array of values, each given as JSON text or NULL."""
    return write([None if item is None else read(item) for item in items])


def build_object(items: Texts) -> str:
    """An object of alternating keys and values, each given as JSON text or NULL."""
    if len(items) % 2:
        raise TypeMismatch("An object needs an even number of arguments.", cure="Add a value.")
    found = {}
    for key, value in zip(items[::2], items[1::2], strict=True):
        found[_key(key)] = None if value is None else read(value)
    return write(found)


def object_of_pairs(keys_: Texts, values: Texts) -> str:
    """An object of keys and values, each given as JSON text or NULL."""
    return build_object([item for pair in zip(keys_, values, strict=True) for item in pair])


def _key(text: str | None) -> str:
    value = None if text is None else read(text)
    if value is None:
        raise TypeMismatch("A key of a JSONB object is NULL.", cure="Leave such rows out.")
    if isinstance(value, list | dict):
        raise TypeMismatch("A key of a JSONB object is no scalar.", cure="Write key::TEXT.")
    return value if isinstance(value, str) else write(value)


def object_of_texts(texts: str) -> str:
    """An object of an array of alternating keys and values, which are strings."""
    items = read(texts)
    if len(items) % 2:
        raise TypeMismatch("An object needs an even number of texts.", cure="Add a value.")
    return object_of_two(write(items[::2]), write(items[1::2]))


def object_of_two(keys_: str, values: str) -> str:
    names, found = read(keys_), read(values)
    if len(names) != len(found):
        raise TypeMismatch("The arrays of keys and values differ in length.")
    if None in names:
        raise TypeMismatch("A key of a JSONB object is NULL.")
    return write(dict(zip(names, found, strict=True)))


def json_array(items: Texts) -> str:
    """An array as JSON text, whose values keep their text."""
    return "[" + ", ".join("null" if item is None else item for item in items) + "]"


def texts(text: str) -> str:
    """PostgreSQL's text of an array of texts (`{a,b}`) as text of JSON."""
    found = texts_in(text)
    if found is None:
        raise TypeMismatch(f"{text!r} is not an array of texts.", cure="Write {a,b}.")
    return write(found)
