"""The options of EXPLAIN, as PostgreSQL has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hornbeam.errors import NotSupportedError, ProgrammingError
from hornbeam.statements import Token, separated, tokens

_FLAGS = {"analyze", "verbose", "costs", "timing", "summary"}
_REFUSED = {"settings", "buffers", "wal", "generic_plan"}
_ON, _OFF = {"", "true", "on", "1"}, {"false", "off", "0"}
_QUERIES = {"select", "with", "values", "table", "from", "("}
"""Words that begin a query in parentheses, not a list of options."""
_FORMATS = {"text", "json"}


@dataclass(frozen=True)
class Explained:
    """The statement of EXPLAIN, and its options: `flags` by their names; those that the statement
    does not have are left out."""

    statement: str
    flags: dict[str, bool] = field(default_factory=dict)
    format: str = "text"


def explained_of(sql: str) -> Explained:
    """The parts of EXPLAIN [ANALYZE] [VERBOSE] statement, or EXPLAIN (options) statement. Raises
    ProgrammingError, NotSupportedError."""
    found = list(tokens(sql))[1:]
    words = [token.text.lower().replace("analyse", "analyze") for token in found[:2]]
    if words[:1] == ["("] and words[1:] and words[1] not in _QUERIES:
        return _with_options(sql, found)
    given = words if words == ["analyze", "verbose"] else words[:1]
    flags = {word: True for word in given if word in {"analyze", "verbose"}}
    return Explained(_behind(sql, found, len(flags)), flags)


def _with_options(sql: str, found: Sequence[Token]) -> Explained:
    close = next((i for i, t in enumerate(found) if i and t.text == ")" and not t.depth), 0)
    flags: dict[str, bool] = {}
    format_ = "text"
    for option in separated(found[1:close], 1):
        name, value = _option([_word(token.text) for token in option])
        if name == "format":
            format_ = _format(value)
        else:
            flags[name] = _flag(name, value)
    if flags.get("timing") and not flags.get("analyze"):
        raise ProgrammingError("TIMING of EXPLAIN needs ANALYZE.\n  Write (ANALYZE, TIMING).")
    return Explained(_behind(sql, found, close + 1), flags, format_)


def _word(text: str) -> str:
    """A word of an option. Double quotes keep its case."""
    return text.strip('"') if text.startswith('"') else text.lower().strip("'")


def _option(words: Sequence[str]) -> tuple[str, str]:
    name = words[0].replace("analyse", "analyze") if words else ""
    if name in _REFUSED:
        raise NotSupportedError(f"{name.upper()} of EXPLAIN is not supported.\n  Leave it out.")
    if name not in _FLAGS | {"format"} or len(words) > 2:
        raise ProgrammingError(
            f"EXPLAIN has no option {' '.join(words).upper()}.\n"
            f"  Its options are {', '.join(sorted(map(str.upper, _FLAGS)))} and FORMAT."
        )
    return name, words[1] if len(words) > 1 else ""


def _format(value: str) -> str:
    if value not in _FORMATS:
        raise NotSupportedError(
            f"FORMAT {value.upper()} of EXPLAIN is not supported.\n  Write FORMAT TEXT or JSON."
        )
    return value


def _flag(name: str, value: str) -> bool:
    if value not in _ON | _OFF:
        raise ProgrammingError(f"{name.upper()} of EXPLAIN is on or off.\n  Leave {value} out.")
    return value in _ON


def _behind(sql: str, found: Sequence[Token], place: int) -> str:
    """The text from a token on; "" without one."""
    return sql[found[place].start :] if place < len(found) else ""
