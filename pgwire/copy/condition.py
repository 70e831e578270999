"""COPY FROM … WHERE: the query that finds the rows to insert.

All rows that the client has sent are arrays of one query, a column each: `SELECT … FROM
unnest(CAST(? AS INTEGER[]), …) WHERE …`. So the condition has the meaning that it has in any query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hornbeam.statements import name_of, quote, tokens
from hornbeam_server.pgwire.copy.options import BadCopy

_NUMBER = '"number of the row"'
_UNSUPPORTED, _BAD_COLUMN = "0A000", "42P10"


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of the table. `type`: its declaration, and `default`: the expression, "" for none.
    `generated`: is it GENERATED ALWAYS AS an expression? `numbered`: does it take numbers?"""

    name: str
    type: str
    default: str = ""
    generated: bool = False
    numbered: bool = False


@dataclass(frozen=True, slots=True)
class Condition:
    """The query `sql` of the numbers, from 0, of the rows to insert. Its parameters are the numbers
    of all rows, and the values of the columns at `places` of the data."""

    sql: str
    places: tuple[int, ...]

    def parameters(self, rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
        return [list(range(len(rows))), *([row[place] for row in rows] for place in self.places)]


def condition_of(
    text: str, table: str, data: Sequence[str], columns: Mapping[str, TableColumn]
) -> Condition:
    """The query for the condition `text`. `table`: the name that qualifies columns. `data`: the
    columns that are read; others have their defaults. Raises BadCopy."""
    words = [token.text for token in tokens(text)]
    if "select" in map(str.lower, words):
        raise BadCopy(_UNSUPPORTED, "Cannot use subquery in COPY FROM WHERE condition.")
    named = dict.fromkeys(name_of(word) for word in words)
    used = [column for name, column in columns.items() if name in named]
    for column in used:
        _require_usable(column, column.name in data)
    sent = [column for column in used if column.name in data]
    types = ["BIGINT", *(column.type for column in sent)]
    arrays = ", ".join(f"CAST(? AS {type_}[])" for type_ in types)
    listed = ", ".join([_NUMBER, *(quote(column.name) for column in sent)])
    left = [column for column in used if column.name not in data]
    others = "".join(f", {_default(column)} AS {quote(column.name)}" for column in left)
    sql = (
        f"SELECT {_NUMBER} FROM (SELECT r.*{others} FROM unnest({arrays}) AS r ({listed}))"
        f" AS {quote(table)} WHERE ({text}\n) ORDER BY {_NUMBER}"
    )
    return Condition(sql, tuple(data.index(column.name) for column in sent))


def _require_usable(column: TableColumn, sent: bool) -> None:
    if column.generated:
        detail = f'Column "{column.name}" is a generated column.'
        message = "Generated columns are not supported in COPY FROM WHERE conditions."
        raise BadCopy(_BAD_COLUMN, message, detail)
    if sent and column.type.endswith("[]"):
        message = f"COPY FROM … WHERE of an array, {column.name}, is not supported."
        raise BadCopy(_UNSUPPORTED, message, hint="Copy all rows, and delete some afterwards.")
    if not sent and column.numbered:
        message = f"COPY FROM … WHERE of {column.name}, which takes a number, is not supported."
        raise BadCopy(_UNSUPPORTED, message, hint="Copy all rows, and delete some afterwards.")


def _default(column: TableColumn) -> str:
    return f"CAST({column.default or 'NULL'} AS {column.type})"
