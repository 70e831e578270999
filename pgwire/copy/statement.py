"""The statement COPY: its table or query, its direction, and its options in both notations.

    COPY table [(column, …)] FROM STDIN [[WITH] (option [value], …)] [WHERE condition]
    COPY table [(column, …)] | (query) TO STDOUT [[WITH] (option [value], …)]

Before PostgreSQL 9.0 options stood without parentheses: `WITH DELIMITER ',' NULL '' CSV HEADER`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hornbeam.statements import name_of, quote, tokens
from hornbeam_server.pgwire.copy.options import BadCopy, Given, Options, options_of
from hornbeam_server.pgwire.copy.words import Words
from hornbeam_server.schema.copy_text import unescaped

_PIPES = frozenset({"stdin", "stdout"})
_OLD_FLAGS = {
    "binary": ("format", "binary"),
    "csv": ("format", "csv"),
    "header": ("header", None),
    "freeze": ("freeze", None),
}
_SYNTAX, _PRIVILEGE = "42601", "42501"


@dataclass(frozen=True, slots=True)
class Copy:
    """COPY FROM (`reads`) or COPY TO. `table` is its name as it is written; "" for a query.
    `columns` is empty if the statement names none. `query`, `where`: the offsets at which
    the query of COPY TO, and the condition of COPY FROM, begin and end in the statement."""

    reads: bool
    options: Options
    table: str = ""
    columns: tuple[str, ...] = ()
    query: tuple[int, int] = (0, 0)
    where: tuple[int, int] = (0, 0)

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
        self._words = Words(sql, BadCopy)
        self._given = Given()

    def copy(self) -> Copy:
        words = self._words
        words.take()  # COPY
        if words.peek() == "binary" and words.peek(1) not in {"from", "to", "(", "."}:
            words.take()
            self._given.add("format", "binary")
        table, columns, query = "", tuple[str, ...](), (0, 0)
        if words.peek() == "(":
            query = words.within()
        else:
            table = self._table()
            columns = self._names() if words.peek() == "(" else ()
        direction = words.peek()
        if direction not in {"from", "to"} or (query != (0, 0) and direction == "from"):
            raise words.unexpected()
        words.take()
        self._pipe()
        reads = direction == "from"
        self._options()
        where = self._where(reads)
        options = options_of(self._given, reads=reads)
        return Copy(reads, options, table, columns, query, where)

    def _table(self) -> str:
        start = self._words.offset
        last = self._words.token()
        while self._words.took("."):
            last = self._words.token()
        return self._sql[start : last.start + len(last.text)]

    def _names(self) -> tuple[str, ...]:
        """Names of columns in parentheses."""
        self._words.take()
        found = self._listed()
        self._words.required(")")
        return found

    def _listed(self) -> tuple[str, ...]:
        """Names of columns, separated by commas."""
        found = [name_of(self._words.take())]
        while self._words.took(","):
            found.append(name_of(self._words.take()))
        return tuple(found)

    def _pipe(self) -> None:
        if self._words.take().lower() not in _PIPES:
            raise BadCopy(
                _PRIVILEGE,
                "COPY reads no files and runs no programs of the server.",
                hint="COPY … FROM STDIN and TO STDOUT, and psql's \\copy, work for anyone.",
            )

    def _where(self, reads: bool) -> tuple[int, int]:
        """The offsets of the condition behind WHERE."""
        words = self._words
        if not words.left:
            return 0, 0
        words.required("where")
        if not reads:
            raise BadCopy(_SYNTAX, "WHERE clause not allowed with COPY TO.")
        start = words.offset
        words.balanced()
        return start, words.end

    # ------------------------------------------------------------ options

    def _options(self) -> None:
        words = self._words
        if words.peek() == "using" and words.peek(1) == "delimiters":
            words.take()
        words.took("with")
        if words.peek() == "(":
            self._in_parentheses()
            return
        while words.peek() not in {"", "where"}:
            self._old_option()

    def _in_parentheses(self) -> None:
        words = self._words
        words.take()
        while True:
            name = words.take().lower()
            if words.peek() in {",", ")"}:
                self._given.add(name, None)
            elif words.peek() == "(":
                self._given.add(name, self._names())
            else:
                self._given.add(name, self._value())
            if words.took(")"):
                break
            words.required(",")

    def _old_option(self) -> None:
        words = self._words
        word = words.take().lower()
        if flag := _OLD_FLAGS.get(word):
            self._given.add(*flag)
        elif word in {"delimiter", "delimiters", "null", "quote", "escape", "encoding"}:
            words.took("as")
            self._given.add(word.removesuffix("s"), self._value())
        elif word == "force":
            self._forced()
        else:
            raise words.unexpected(1)

    def _forced(self) -> None:
        """FORCE QUOTE, FORCE NOT NULL or FORCE NULL, with columns without parentheses."""
        words = [self._words.take().lower()]
        if words == ["not"]:
            words.append(self._words.take().lower())
        columns = "*" if self._words.took("*") else self._listed()
        self._given.add("_".join(["force", *words]), columns)

    def _value(self) -> str:
        """A string, E'…', or a word."""
        text = self._words.take()
        if text.lower() == "e" and self._words.peek()[:1] == "'":
            return unescaped(_unquoted(self._words.take()))
        return _unquoted(text)


def _unquoted(text: str) -> str:
    quote = text[:1] if text[:1] in {"'", '"'} else ""
    return text[1:-1].replace(quote * 2, quote) if quote else text


def listed(names: Sequence[str]) -> str:
    """Names of columns as SQL."""
    return ", ".join(map(quote, names))
