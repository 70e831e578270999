"""Functions over arrays in DuckDB that are Python's: how the text of an array is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hornbeam_server.query.dialect.macros import macro
from hornbeam_server.schema.arrays import elements_of
from hornbeam_server.schema.errors import TypeMismatch

if TYPE_CHECKING:  # only workers load DuckDB, not the server process
    import duckdb


ELEMENTS = macro("array_elements")


def create_elements(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the function `elements` in a DuckDB database. DuckDB needs numpy for it."""
    create: Any = connection.create_function
    create(ELEMENTS, elements, ["VARCHAR"], "VARCHAR[]", null_handling="special")


def elements(text: str | None) -> list[str | None] | None:
    """The elements in the text of an array. Raises TypeMismatch."""
    if text is None:
        return None
    try:
        return elements_of(text)
    except ValueError as error:
        shown = text if len(text) <= 60 else text[:57] + "..."
        raise TypeMismatch(f"{shown!r} is not an array: {error}.") from None
