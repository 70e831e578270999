"""Statements that set the next number of a sequence or an identity column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hornbeam.errors import ProgrammingError
from hornbeam.settings import quoted_text
from hornbeam.statements import Token, is_setval, separated, text_of, tokens

_SIGNS = {"-", "+"}
_OPTIONS = {"generated", "increment", "start", "minvalue", "maxvalue", "no", "cache", "cycle"}
"""The words with which the options of an identity column begin behind SET."""


def restarts(statement: str) -> bool:
    """Whether the statement sets the next number of an identity column or a sequence."""
    if is_setval(statement):
        return True
    words = _words(_tokens(statement))
    if words[:2] not in (["alter", "sequence"], ["alter", "table"]):
        return False
    options = words[_first_option(words) :]
    of_column = options[:1] == ["restart"] or (
        options[:1] == ["set"] and options[1:2] and options[1] in _OPTIONS
    )
    return "restart" in options and (words[1] == "sequence" or bool(of_column))


def parted(statement: str) -> tuple[str, str]:
    """ALTER SEQUENCE with RESTART and other options, as two statements: one with all options, which
    changes them, and one with RESTART alone. The first is "" if there are no others."""
    found = _tokens(statement)
    words = _words(found)
    if words[:1] != ["alter"]:
        return "", statement
    first = _first_option(words)
    begin = words.index("restart", first)
    end = _end_of_restart(words, begin)
    if begin == first and end == len(words):
        return "", statement
    head = statement[: found[first].start]
    return statement, head + " ".join(each.text for each in found[begin:end])


def setval_arguments(statement: str) -> str:
    """The query of the arguments of SELECT setval(…): the name of the sequence, the number, and
    whether that was given already."""
    found = _tokens(statement)
    at = next(i for i, token in enumerate(found) if token.text.lower() == "setval") + 1
    opening = found[at]
    closing = next(t for t in found[at + 1 :] if (t.text, t.depth) == (")", opening.depth))
    end = found.index(closing)
    texts = [text_of(each, statement) for each in separated(found[at + 1 : end], opening.depth + 1)]
    name, number, called = (*texts, "true")[:3]
    rest = statement[closing.start + 1 :].rstrip().rstrip(";")
    behind = rest[rest.lower().find("from") :] if "from" in rest.lower() else ""
    return f"SELECT ({name})::text, ({number})::bigint, ({called})::boolean {behind}"


def setval_of(rows: Sequence[Sequence[Any]]) -> str:
    """SELECT setval(…) with the values of its arguments: the rows of their query. An argument that
    is NULL stays. Raises ProgrammingError for several rows or none."""
    if len(rows) != 1:
        raise ProgrammingError(f"setval for {len(rows)} rows.\n  Select one row.")
    name, number, called = ("NULL" if value is None else str(value) for value in rows[0])
    return f"SELECT setval({quoted_text(name)}, {number}, {called.lower()})"


def refused_change() -> ProgrammingError:
    """The error of a schema change in a transaction that has written."""
    return ProgrammingError(
        "This transaction has written, and a schema change would not be part of it.\n"
        "  Commit or roll back before changing the schema."
    )


def _tokens(statement: str) -> Sequence[Token]:
    return [token for token in tokens(statement) if token.text != ";"]


def _words(found: Sequence[Token]) -> list[str]:
    return [token.text.lower() for token in found]


def _first_option(words: list[str]) -> int:
    """The place of the first option, behind the name: of a column behind its own."""
    at = _behind_name(words, 2)
    if words[1] == "table":
        at += 1  # ALTER
        at = _behind_name(words, at + (words[at : at + 1] == ["column"]))
    return at


def _behind_name(words: list[str], at: int) -> int:
    at += 2 * (words[at : at + 2] == ["if", "exists"])
    at += words[at : at + 1] == ["only"]
    while words[at + 1 : at + 2] == ["."]:
        at += 2
    return at + 1


def _end_of_restart(words: list[str], begin: int) -> int:
    end = begin + 1
    end += words[end : end + 1] == ["with"]
    signs = words[end : end + 1]
    end += bool(signs) and signs[0] in _SIGNS
    number = words[end : end + 1]
    return end + (bool(number) and number[0].isdecimal())
