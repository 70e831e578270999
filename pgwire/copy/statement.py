"""The statement COPY: its table or query, its direction, and its options in both notations.

    COPY table [(column, …)] FROM STDIN [[WITH] (option [value], …)]
    COPY table [(column, …)] | (query) TO STDOUT [[WITH] (option [value], …)]

Before PostgreSQL 9.0 options stood without parentheses: `WITH DELIMITER ',' NULL '' CSV HEADER`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hornbeam.statements import Token, name_of, text_of, tokens
from hornbeam_server.pgwire.copy.options import BadCopy, Given, Options, options_of
from hornbeam_server.schema.copy_text import unescaped

_PIPES = frozenset({"stdin", "stdout"})
_OLD_FLAGS = {"binary": ("format", "binary"), "csv": ("format", "csv"), "header": ("header", None)}
_FREEZE = {"freeze": ("freeze", None)}
_SYNTAX, _PRIVILEGE, _UNSUPPORTED = "42601", "42501", "0A000"


@dataclass(frozen=True, slots=True)
class Copy:
    """COPY FROM (`reads`) or COPY TO. `table` is its name as it is written; "" for a query.
    `columns` is empty if the statement names none. `query`: the offsets at which the query of COPY
    TO begins and ends in the statement."""

    reads: bool
    options: Options
    table: str = ""
    columns: tuple[str, ...] = ()
    query: tuple[int, int] = (0, 0)

    @property
    def name(self) -> str:
        """The name of the table without its schema, for messages."""
        found = list(tokens(self.table))
        return name_of(found[-1].text) if found else "query"


def copy_of(sql: str) -> Copy:
    """The meaning of a COPY. Raises BadCopy."""
    return _Reading(sql).copy()


class _Reading:
    """Reads one statement from its first word to its last."""

    def __init__(self, sql: str) -> None:
        self._sql = sql
        self._tokens = [token for token in tokens(sql) if token.text != ";"]
        self._at = 1  # behind COPY
        self._given = Given()

    def copy(self) -> Copy:
        if self._word() == "binary" and self._word(1) not in {"from", "to", "(", "."}:
            self._take()
            self._given.add("format", "binary")
        table, columns, query = "", tuple[str, ...](), (0, 0)
        if self._word() == "(":
            query = self._query()
        else:
            table = self._table()
            columns = self._names() if self._word() == "(" else ()
        direction = self._word()
        if direction not in {"from", "to"} or (query != (0, 0) and direction == "from"):
            raise self._unexpected()
        self._take()
        self._pipe()
        self._options()
        reads = direction == "from"
        return Copy(reads, options_of(self._given, reads=reads), table, columns, query)

    def _query(self) -> tuple[int, int]:
        """The offsets of the query in parentheses."""
        opening = self._take()
        start = opening.start + 1
        while self._word() != ")" or self._tokens[self._at].depth != opening.depth:
            self._take()
        return start, self._take().start

    def _table(self) -> str:
        first = self._at
        self._take()
        while self._word() == ".":
            self._at += 1
            self._take()
        return text_of(self._tokens[first : self._at], self._sql)

    def _names(self) -> tuple[str, ...]:
        """Names of columns in parentheses."""
        self._take()
        found = [name_of(self._take().text)]
        while self._word() == ",":
            self._take()
            found.append(name_of(self._take().text))
        self._required(")")
        return tuple(found)

    def _pipe(self) -> None:
        where = self._take().text
        if where.lower() not in _PIPES:
            raise BadCopy(
                _PRIVILEGE,
                "COPY reads no files and runs no programs of the server.",
                hint="COPY … FROM STDIN and TO STDOUT, and psql's \\copy, work for anyone.",
            )

    # ------------------------------------------------------------ options

    def _options(self) -> None:
        if self._word() == "using" and self._word(1) == "delimiters":
            self._take()
        if self._word() == "with":
            self._take()
        if self._word() == "(":
            self._in_parentheses()
        else:
            while self._word() not in {"", "where"}:
                self._old_option()
        if self._word() == "where":
            raise BadCopy(
                _UNSUPPORTED,
                "COPY FROM … WHERE is not supported.",
                hint="Copy all rows, and delete some in the same transaction.",
            )
        if self._word():
            raise self._unexpected()

    def _in_parentheses(self) -> None:
        self._take()
        while True:
            name = self._take().text.lower()
            if self._word() in {",", ")"}:
                self._given.add(name, None)
            elif self._word() == "(":
                self._given.add(name, self._names())
            else:
                self._given.add(name, self._value())
            if self._word() == ")":
                break
            self._required(",")
        self._take()

    def _old_option(self) -> None:
        word = self._take().text.lower()
        if flag := (_OLD_FLAGS | _FREEZE).get(word):
            self._given.add(*flag)
        elif word in {"delimiter", "delimiters", "null", "quote", "escape", "encoding"}:
            if self._word() == "as":
                self._take()
            self._given.add(word.removesuffix("s"), self._value())
        elif word == "force":
            self._forced()
        else:
            self._at -= 1
            raise self._unexpected()

    def _forced(self) -> None:
        """FORCE QUOTE, FORCE NOT NULL or FORCE NULL, with columns without parentheses."""
        words = [self._take().text.lower()]
        if words == ["not"]:
            words.append(self._take().text.lower())
        if self._word() == "*":
            self._take()
            self._given.add("_".join(["force", *words]), "*")
            return
        found = [name_of(self._take().text)]
        while self._word() == ",":
            self._take()
            found.append(name_of(self._take().text))
        self._given.add("_".join(["force", *words]), tuple(found))

    def _value(self) -> str:
        """A string, E'…', or a word."""
        token = self._take()
        if token.text.lower() == "e" and self._word()[:1] == "'":
            return unescaped(_unquoted(self._take().text))
        return _unquoted(token.text)

    # ------------------------------------------------------------ tokens

    def _word(self, ahead: int = 0) -> str:
        """A word in lower case; "" behind the last one."""
        at = self._at + ahead
        return self._tokens[at].text.lower() if at < len(self._tokens) else ""

    def _take(self) -> Token:
        if self._at >= len(self._tokens):
            raise BadCopy(_SYNTAX, "Syntax error at end of input.")
        self._at += 1
        return self._tokens[self._at - 1]

    def _required(self, text: str) -> None:
        if self._word() != text:
            raise self._unexpected()
        self._take()

    def _unexpected(self) -> BadCopy:
        if self._at >= len(self._tokens):
            return BadCopy(_SYNTAX, "Syntax error at end of input.")
        return BadCopy(_SYNTAX, f'Syntax error at or near "{self._tokens[self._at].text}".')


def _unquoted(text: str) -> str:
    quote = text[:1] if text[:1] in {"'", '"'} else ""
    return text[1:-1].replace(quote * 2, quote) if quote else text


def with_blanks(sql: str, start: int, end: int) -> str:
    """The text between two offsets of a statement, at its old place: lines and columns in messages
    about it are those of the statement."""
    before = "".join("\n" if sign == "\n" else " " for sign in sql[:start])
    return before + sql[start:end]


def listed(names: Sequence[str]) -> str:
    """Names of columns as SQL."""
    return ", ".join('"' + name.replace('"', '""') + '"' for name in names)
