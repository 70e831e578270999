"""Parameters of PostgreSQL's statements, `$1`, as Hornbeam's named parameters, `:p1`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from hornbeam.settings import quoted_text
from hornbeam.statements import Kind, cached_for_statements, kind, tokens

_NAMING = ["current_setting", "("]
"""What is before the name of a setting."""
_ANY_SETTING = "server_version"
_WITH_PARAMETERS = frozenset(
    {Kind.READ, Kind.WRITE, Kind.EXPLAIN, Kind.DDL, Kind.EXECUTE, Kind.CURSOR}
)


class Setting(NamedTuple):
    """A parameter that names the setting of a current_setting: its place in the text, and its
    number, from 1."""

    start: int
    end: int
    number: int


class Statement(NamedTuple):
    """A statement as it is sent to the database. `highest`: the highest number of a parameter.
    `longer`: offsets in `sql` behind parameters, and by how many characters each is longer than
    what the client has written. `settings`: Hornbeam takes names of settings only as literals.
    `only_settings`: the numbers of the parameters that occur nowhere else."""

    sql: str
    kind: Kind
    highest: int
    longer: tuple[tuple[int, int], ...] = ()
    settings: tuple[Setting, ...] = ()
    only_settings: frozenset[int] = frozenset()

    @property
    def returns_no_rows(self) -> bool:
        """Is it a write without RETURNING?"""
        return self.kind is Kind.WRITE and "returning" not in self.sql.lower()

    def given_position(self, position: int) -> int:
        """The position in the text of the client of a character of `sql`, both counted from 1."""
        return position - sum(more for behind, more in self.longer if behind < position)

    def asked(self, values: Sequence[Any]) -> tuple[str, dict[str, Any] | tuple[()]]:
        """The text with the names of settings, and the other values by the names of their
        parameters."""
        named = {
            f"p{number}": value
            for number, value in enumerate(values, 1)
            if number not in self.only_settings
        }
        return self._with_settings([str(value) for value in values]), named or ()

    def to_describe(self) -> str:
        """The text for which the database tells the types: all settings are texts."""
        return self._with_settings([_ANY_SETTING] * self.highest)

    def _with_settings(self, names: Sequence[str]) -> str:
        parts, done = [], 0
        for start, end, number in self.settings:
            parts += [self.sql[done:start], quoted_text(names[number - 1])]
            done = end
        return "".join([*parts, self.sql[done:]])


@cached_for_statements
def statement_of(sql: str) -> Statement:
    """The statement with named parameters. `$1` within names, strings and comments stays."""
    meaning = kind(sql)
    if "$" not in sql or meaning not in _WITH_PARAMETERS:
        return Statement(sql, meaning, 0)
    parts, longer, settings = list[str](), list[tuple[int, int]](), list[Setting]()
    end = size = 0
    others = set[int]()
    found = list(tokens(sql))
    for i, (sign, number) in enumerate(pairwise(found)):
        before = sql[sign.start - 1 : sign.start]
        in_name = before.isalnum() or before == "_"
        adjacent = number.start == sign.start + 1 and not in_name
        if sign.text == "$" and adjacent and number.text.isdecimal():
            # A colon before it would make a cast of both.
            blank = " " if sql[: sign.start].endswith(":") else ""
            count = int(number.text)
            named = f"{blank}:p{count}"
            parts += [sql[end : sign.start], named]
            size += len(parts[-2]) + len(named)
            end = number.start + len(number.text)
            longer.append((size, len(named) - (end - sign.start)))
            if [each.text.lower() for each in found[max(i - 2, 0) : i]] == _NAMING:
                settings.append(Setting(size - len(named), size, count))
            else:
                others.add(count)
    numbers = others | {each.number for each in settings}
    return Statement(
        "".join([*parts, sql[end:]]),
        meaning,
        max(numbers, default=0),
        tuple(longer),
        tuple(settings),
        frozenset(numbers - others),
    )
