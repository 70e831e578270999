"""Parameters of PostgreSQL's statements, `$1`, as Hornbeam's named parameters, `:p1`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from hornbeam.statements import Kind, cached_for_statements, kind, tokens

_WITH_PARAMETERS = frozenset({Kind.READ, Kind.WRITE, Kind.EXPLAIN, Kind.DDL, Kind.EXECUTE})


class Statement(NamedTuple):
    """A statement as it is sent to the database. `highest`: the highest number of a parameter.
    `longer`: offsets in `sql` behind parameters, and by how many characters each is longer than
    what the client has written."""

    sql: str
    kind: Kind
    highest: int
    longer: tuple[tuple[int, int], ...] = ()

    def given_position(self, position: int) -> int:
        """The position in the text of the client of a character of `sql`, both counted from 1."""
        return position - sum(more for behind, more in self.longer if behind < position)

    def named(self, values: Sequence[Any]) -> dict[str, Any] | tuple[()]:
        """The values by the names of their parameters."""
        return {f"p{number}": value for number, value in enumerate(values, 1)} or ()


@cached_for_statements
def statement_of(sql: str) -> Statement:
    """The statement with named parameters. `$1` within names, strings and comments stays."""
    meaning = kind(sql)
    if "$" not in sql or meaning not in _WITH_PARAMETERS:
        return Statement(sql, meaning, 0)
    parts, longer = list[str](), list[tuple[int, int]]()
    end = count = size = 0
    for sign, number in pairwise(tokens(sql)):
        before = sql[sign.start - 1 : sign.start]
        in_name = before.isalnum() or before == "_"
        adjacent = number.start == sign.start + 1 and not in_name
        if sign.text == "$" and adjacent and number.text.isdecimal():
            # A colon before it would make a cast of both.
            blank = " " if sql[: sign.start].endswith(":") else ""
            named = f"{blank}:p{int(number.text)}"
            parts += [sql[end : sign.start], named]
            size += len(parts[-2]) + len(named)
            end = number.start + len(number.text)
            longer.append((size, len(named) - (end - sign.start)))
            count = max(count, int(number.text))
    return Statement("".join([*parts, sql[end:]]), meaning, count, tuple(longer))
