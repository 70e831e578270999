"""Lists of bodies whose bound is large.

A list with one item more than such a bound takes up to a megabyte. schemathesis would hash and send
it again and again, which takes most of its time. So `fuzz` gives it the document without large
bounds, and `too_long` gives one body for each of these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

LARGE = 500
"""A bound above this is large."""
ITEMS: Mapping[str, object] = {
    "roots": "customer",
    "renames": {"relation": "customer", "new": "customers"},
    "usings": {"relation": "customer", "column": "c_id", "sql": "1"},
    "names": "customer",
    "relations": "customer",
    "parts": {"relation": "customer", "content": ""},
    "pending": {"sql": "DELETE FROM customer"},
    "statements": {"sql": "DELETE FROM customer"},
    "parameter_sets": [],
    "views": "customer",
    "keys": "FQE=",
}
"""A valid item of each list with a large bound."""


def without_large_bounds(part: Any) -> Any:
    """A part of the document without the bounds of lists that are large."""
    if isinstance(part, dict):
        return {
            name: without_large_bounds(value)
            for name, value in part.items()
            if not (name == "maxItems" and isinstance(value, int) and value > LARGE)
        }
    return [*map(without_large_bounds, part)] if isinstance(part, list) else part


def too_long(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], str, int]]:
    """The path of an operation, a body of it with one list that is too long, the name of this list
    and its bound: for each list with a large bound."""
    for path, operations in document["paths"].items():
        content = operations.get("post", {}).get("requestBody", {}).get("content", {})
        schema = content.get("application/json", {}).get("schema")
        for body, name, bound in _too_long(document, schema) if schema else ():
            yield path, body, name, bound


def _too_long(
    document: dict[str, Any], schema: dict[str, Any]
) -> Iterator[tuple[dict[str, Any], str, int]]:
    for name, given in _resolved(document, schema).get("properties", {}).items():
        for each in given.get("anyOf", [given]):
            bound = each.get("maxItems", 0)
            if bound > LARGE:
                yield {name: [ITEMS[name]] * (bound + 1)}, name, bound
            for inner, inner_name, inner_bound in _too_long(document, each.get("items", {})):
                yield {name: [inner]}, inner_name, inner_bound


def _resolved(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    name = schema.get("$ref", "").rpartition("/")[2]
    return document["components"]["schemas"][name] if name else schema
