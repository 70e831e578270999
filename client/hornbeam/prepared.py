"""PREPARE, EXECUTE and DEALLOCATE: statements that a connection keeps by name.

A prepared statement has `$1`, `$2`, … for its values. The server caches the plan of each text, so
the client only keeps the text: with `?` in the places of the values, which EXECUTE computes by a
SELECT. A value whose type PREPARE declares is cast to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from hornbeam.errors import NotSupportedError, ProgrammingError
from hornbeam.statements import Kind, Token, kind, name_of, separated, text_of, tokens

_DISCARDED = {
    **{word: word for word in ("all", "plans", "sequences", "temp")},
    "temporary": "temp",
}


@dataclass(frozen=True)
class Prepared:
    """A prepared statement. `sql` has `?` where its value number `order[i]`, from 0, stands.
    `types`: the declared types of the first values, as text."""

    sql: str
    order: tuple[int, ...] = ()
    types: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """The number of values."""
        return max([len(self.types), *(number + 1 for number in self.order)])

    def select(self, name: str, arguments: Sequence[str]) -> str:
        """The SELECT that computes the values from the arguments of EXECUTE; "" for none. Raises
        ProgrammingError for another number of arguments."""
        if len(arguments) != self.count:
            raise ProgrammingError(
                f"Prepared statement {name} takes {self.count} values, not {len(arguments)}.\n"
                f"  Write EXECUTE {name} with a value for each."
            )
        types = [*self.types, *[""] * (self.count - len(self.types))]
        values = [
            f"CAST({argument} AS {type_})" if type_ and type_.lower() != "unknown" else argument
            for argument, type_ in zip(arguments, types, strict=True)
        ]
        return f"SELECT {', '.join(values)}" if values else ""


@dataclass(frozen=True)
class Execute:
    """EXECUTE `name`, with its arguments as text."""

    name: str
    arguments: tuple[str, ...]


def prepared_of(sql: str) -> tuple[str, Prepared]:
    """The name and the statement of PREPARE name [(types)] AS statement. Raises ProgrammingError,
    NotSupportedError."""
    found = list(tokens(sql))
    at = next((i for i, t in enumerate(found) if not t.depth and t.text.lower() == "as"), 0)
    if at < 2 or at + 1 == len(found):
        raise _incomplete("PREPARE", "PREPARE name (types) AS statement")
    name, types = _named(sql, found[1:at], "PREPARE")
    statement = sql[found[at + 1].start :]
    if kind(statement) not in (Kind.READ, Kind.WRITE):
        raise NotSupportedError(
            "PREPARE takes a query, INSERT, UPDATE, DELETE or MERGE.\n"
            "  Send the other statement without PREPARE."
        )
    return name, _with_placeholders(statement, types)


def execute_of(sql: str) -> Execute:
    """The parts of EXECUTE name [(arguments)]. Raises ProgrammingError."""
    return Execute(*_named(sql, list(tokens(sql))[1:], "EXECUTE"))


def deallocated(sql: str) -> str:
    """The name in DEALLOCATE [PREPARE] name; "" for ALL. Raises ProgrammingError."""
    words = [token.text for token in tokens(sql) if token.text != ";"][1:]
    if len(words) > 1 and words[0].lower() == "prepare":
        words = words[1:]
    if len(words) != 1:
        raise _incomplete("DEALLOCATE", "DEALLOCATE name, or DEALLOCATE ALL")
    return "" if words[0].lower() == "all" else name_of(words[0])


def discarded(sql: str) -> str:
    """What DISCARD ends: "all", "plans", "sequences", or "temp". Raises ProgrammingError."""
    words = [token.text.lower() for token in tokens(sql) if token.text != ";"][1:]
    what = _DISCARDED.get(words[0]) if len(words) == 1 else None
    if what is None:
        raise _incomplete("DISCARD", "DISCARD ALL, PLANS, SEQUENCES or TEMP")
    return what


def _named(sql: str, found: Sequence[Token], word: str) -> tuple[str, tuple[str, ...]]:
    """The name, and the texts in the parentheses behind it."""
    found = [token for token in found if token.depth or token.text != ";"]
    if not found or (len(found) > 1 and (found[1].text, found[-1].text) != ("(", ")")):
        raise _incomplete(word, f"{word} name, or {word} name (…)")
    listed = separated(found[2:-1], 1) if len(found) > 3 else ()
    return name_of(found[0].text), tuple(text_of(part, sql) for part in listed)


def _with_placeholders(statement: str, types: tuple[str, ...]) -> Prepared:
    found = list(tokens(statement))
    parts, order, end = [], [], 0
    for sign, number in pairwise(found):
        if sign.text == "$" and number.text.isdigit() and number.start == sign.start + 1:
            parts.append(statement[end : sign.start])
            order.append(int(number.text) - 1)
            end = number.start + len(number.text)
    if -1 in order:
        raise ProgrammingError("There is no value $0.\n  The first value is $1.")
    sql = " ? ".join([*parts, statement[end:]]).strip().removesuffix(";")
    return Prepared(sql, tuple(order), types)


def _incomplete(word: str, form: str) -> ProgrammingError:
    return ProgrammingError(f"This {word} cannot be read.\n  Write {form}.")
