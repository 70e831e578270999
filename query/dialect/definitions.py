"""The functions and macros of ours in a DuckDB database.

There are about a hundred, and to create all of them takes 60 ms of processor time. Most queries
call none. So a worker creates a definition when the first statement calls it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from hornbeam_server.query.dialect import (
    arrays,
    deviations,
    jsonb,
    numerics,
    value_functions,
)

if TYPE_CHECKING:
    import duckdb

_MACROS = value_functions.all_macros()
_FUNCTIONS: Mapping[str, Callable[[duckdb.DuckDBPyConnection], None]] = {
    **{jsonb.PREFIX + name: partial(jsonb.create_function, name) for name in jsonb.FUNCTIONS},
    **{name: partial(numerics.create_function, name) for name in numerics.FUNCTIONS},
    **{
        name: partial(value_functions.create_function, name, function, count)
        for name, (function, count) in value_functions.functions()
    },
    **deviations.FUNCTIONS,
    arrays.ELEMENTS: arrays.create_elements,
}
"""By name: what creates the function."""
_CALLED = re.compile(r"\bhornbeam_\w+", re.IGNORECASE)


class Definitions:
    """The definitions that one DuckDB database has already."""

    def __init__(self) -> None:
        self._present: set[str] = set()

    def create_for(self, sql: str, connection: duckdb.DuckDBPyConnection) -> None:
        """Create the definitions that `sql` calls, and those that they call."""
        self._create(_CALLED.findall(sql), connection)

    def create_all(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._create([*_FUNCTIONS, *_MACROS], connection)

    def _create(self, names: Iterable[str], connection: duckdb.DuckDBPyConnection) -> None:
        for name in map(str.lower, names):
            if name in self._present:
                continue
            if name in _FUNCTIONS:
                _FUNCTIONS[name](connection)
            elif name in _MACROS:
                self._create(_others(name), connection)
                connection.execute(_MACROS[name])
            else:
                continue  # a name in the user's text
            self._present.add(name)


def _others(name: str) -> list[str]:
    """The names that macro `name` calls. A macro does not call itself."""
    return [called for called in _CALLED.findall(_MACROS[name]) if called != name]
