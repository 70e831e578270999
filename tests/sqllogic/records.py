"""The format of sqllogictest files: from text to records.

https://sqlite.org/sqllogictest describes the format. DuckDB adds loops, files and settings,
sqllogictest-rs (RisingLight, RisingWave) adds patterns of errors, counts and includes,
CockroachDB adds users, partial orders and names of columns. All of it is read by one parser; the
dialect decides where the text of an error ends.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

SORTS = ("nosort", "rowsort", "valuesort")
NAMES = "colnames"
"""The option of a query whose result begins with the names of its columns, which are not read."""
_LOOPS = {"loop", "foreach", "concurrentloop", "concurrentforeach"}
_SIGNED = ("tinyint", "smallint", "integer", "bigint", "hugeint")
_UNSIGNED = ("utinyint", "usmallint", "uinteger", "ubigint", "uhugeint")
_INTEGRAL = (*_SIGNED, *_UNSIGNED)
_NUMERIC = (*_INTEGRAL, "float", "double")
COLLECTIONS = {
    "<signed>": _SIGNED,
    "<unsigned>": _UNSIGNED,
    "<integral>": _INTEGRAL,
    "<numeric>": _NUMERIC,
    "<alltypes>": (*_NUMERIC, "bool", "interval", "varchar"),
}
"""DuckDB's names for lists of types in `foreach`."""


class Expected(Enum):
    """The expected end of a statement."""

    OK = "ok"
    ERROR = "error"
    MAYBE = "maybe"
    COUNT = "count"


class Malformed(Exception):
    """The file breaks the format, or uses a part of it that is unknown."""


@dataclass(frozen=True, slots=True)
class Condition:
    """`onlyif` or `skipif` with the name of an engine, or a comparison of a loop's variable."""

    word: str
    text: str


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement whose rows do not matter. `pattern` is a regular expression that the error has to
    match; "" for any. `count`: the expected number of changed rows."""

    line: int
    sql: str
    expected: Expected
    pattern: str = ""
    count: int = 0
    connection: str = ""
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Query:
    """A query with the lines of its result. `types` has a letter for each column; "" if the file
    gives none. Queries with the same `label` have the same result."""

    line: int
    sql: str
    types: str
    sort: str
    label: str
    result: tuple[str, ...]
    connection: str = ""
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Directive:
    """Any other line: `halt`, `hash-threshold`, `require`, `mode`, `include`, `control`, …"""

    line: int
    word: str
    arguments: tuple[str, ...]
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Loop:
    """Records that are run once for each of `values`. A value binds each of `names`."""

    line: int
    names: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    body: tuple[Record, ...]
    concurrent: bool = False
    conditions: tuple[Condition, ...] = ()


Record = Statement | Query | Directive | Loop


def parse(
    text: str, *, errors_end_at_two_blanks: bool = False, comments_end: bool = False
) -> Iterator[Record]:
    """Yield the records of a file; the lines behind them are not read yet.
    `errors_end_at_two_blanks`: the text of an error behind `----` may have blank lines, as in
    sqllogictest-rs. `comments_end`: a line that begins with `#` ends the SQL before it, as in
    DuckDB. Raises Malformed."""
    lines = text.replace("\r", "").split("\n")
    return _Parser(lines, errors_end_at_two_blanks, comments_end).records(inside_loop=False)


class _Parser:
    """A position in the lines of a file."""

    def __init__(self, lines: Sequence[str], two_blanks: bool, comments_end: bool) -> None:
        self._lines = lines
        self._ends_sql = ("#",) if comments_end else ()
        self._two_blanks = two_blanks
        self._at = 0
        self._connection = ""

    def records(self, *, inside_loop: bool) -> Iterator[Record]:
        conditions: list[Condition] = []
        while self._at < len(self._lines):
            line = self._lines[self._at].strip()
            self._at += 1
            word, *rest = line.split("#")[0].split() or ("",)
            if not word:
                continue
            if word == "endloop":
                if not inside_loop:
                    raise Malformed(f"line {self._at}: endloop without a loop")
                return
            if word in ("onlyif", "skipif"):
                conditions.append(Condition(word, " ".join(rest)))
                continue
            if word == "connection":
                self._connection = rest[0]
                continue
            record = self._record(word, line, rest)
            yield replace(record, conditions=tuple(conditions)) if conditions else record
            conditions = []
            if not isinstance(record, Directive | Loop):
                self._connection = ""
        if inside_loop:
            raise Malformed("a loop has no endloop")

    def _record(self, word: str, line: str, rest: Sequence[str]) -> Record:
        if word == "statement":
            return self._statement(line.split(None, 1)[1] if rest else "ok")
        if word == "query":
            return self._query(line.split()[1:], line)
        if word in _LOOPS:
            return self._loop(word, rest)
        return Directive(self._at, word, tuple(rest))

    def _statement(self, text: str) -> Statement:
        line, (word, *rest) = self._at, text.split()
        try:
            expected = Expected(word.lower())
        except ValueError:
            raise Malformed(f"line {line}: statement {word}") from None
        if expected is Expected.COUNT:
            return Statement(line, self._sql(), expected, "", int(rest[0]), self._named(rest[1:2]))
        if expected is Expected.ERROR:
            pattern = text.partition(word)[2].strip()
            sql, given = self._sql(), self._error_text()
            named = rest if given else []  # in DuckDB's form the connection follows the word
            return Statement(line, sql, expected, given or pattern, 0, self._named(named))
        sql = self._sql()
        if expected is Expected.MAYBE:
            self._error_text()
        return Statement(line, sql, expected, "", 0, self._named(rest))

    def _query(self, words: Sequence[str], line: str) -> Record:
        at = self._at
        if words[:1] == ["error"]:
            pattern = line.partition("error")[2].strip()
            sql, given = self._sql(), self._error_text()
            return Statement(at, sql, Expected.ERROR, given or pattern, 0, self._named([]))
        types, rest = words[0] if words else "", _options(words[1:])
        if "retry" in rest:
            rest = rest[: rest.index("retry")]
        sort = next((word for word in rest if word in SORTS), "nosort")
        others = [word for word in rest if word not in {*SORTS, NAMES}]
        connection = next((word for word in others if re.fullmatch(r"con\d+", word)), "")
        label = next((word for word in others if word != connection), "")
        sql = self._sql()
        result = self._until_blank()[NAMES in rest :]
        return Query(at, sql, types, sort, label, tuple(result), self._named([connection]))

    def _named(self, words: Sequence[str]) -> str:
        return next((word for word in words if word), "") or self._connection

    def _sql(self) -> str:
        """The lines up to a blank line, a comment or `----`, which it leaves."""
        found: list[str] = []
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if not line.strip() or line.strip() == "----" or line.startswith(self._ends_sql):
                break
            found.append(line)
            self._at += 1
        return "\n".join(found)

    def _until_blank(self) -> list[str]:
        """The lines behind `----`."""
        if self._at >= len(self._lines) or self._lines[self._at].strip() != "----":
            return []
        return self._more()

    def _error_text(self) -> str:
        found = self._until_blank()
        while self._two_blanks and found and not self._ends():
            found += ["", *self._more()]
        return "\n".join(found).strip()

    def _more(self) -> list[str]:
        """The lines behind this one, up to a blank line."""
        self._at += 1
        found: list[str] = []
        while self._at < len(self._lines) and self._lines[self._at].strip():
            found.append(self._lines[self._at])
            self._at += 1
        return found

    def _ends(self) -> bool:
        """Whether the file or two blank lines follow."""
        near = self._lines[self._at : self._at + 2]
        return not any(line.strip() for line in near)

    def _loop(self, word: str, rest: Sequence[str]) -> Loop:
        line, names = self._at, tuple(rest[0].split(","))
        if word.endswith("foreach"):
            values = tuple(tuple(each.split(",")) for each in _listed(rest[1:]))
            if len(names) == 1:
                values = tuple((",".join(each),) for each in values)
        else:
            values = tuple((str(n),) for n in range(int(rest[1]), int(rest[2])))
        body = tuple(self.records(inside_loop=True))
        return Loop(line, names, values, body, word.startswith("concurrent"))


def _options(words: Sequence[str]) -> list[str]:
    """The words behind the types of a query. CockroachDB sets commas between them, and says of
    which columns the order is certain: the rows are then compared as a bag."""
    text = re.sub(r"\bpartialsort\([\d,]*\)", "rowsort", " ".join(words))
    return [*filter(None, re.split(r"[ ,]", text))]


def _listed(words: Sequence[str]) -> Iterator[str]:
    """The values of `foreach`, with the collections that the words name; `!word` takes it out."""
    without = {word[1:] for word in words if word.startswith("!")}
    for word in words:
        if not word.startswith("!"):
            yield from (each for each in COLLECTIONS.get(word, (word,)) if each not in without)


def substituted(record: Statement | Query, bound: Mapping[str, str]) -> Statement | Query:
    """The record with the values of the loops around it in the place of `${name}` and `{name}`."""

    def text(given: str) -> str:
        for name, value in bound.items():
            given = given.replace("${" + name + "}", value).replace("{" + name + "}", value)
        return given

    if isinstance(record, Statement):
        return replace(record, sql=text(record.sql), pattern=text(record.pattern))
    result = tuple(map(text, record.result))
    return replace(record, sql=text(record.sql), result=result, label=text(record.label))


_COMPARISONS: Mapping[str, Callable[[str, str], bool]] = {
    "<>": lambda a, b: a != b,
    ">=": lambda a, b: float(a) >= float(b),
    "<=": lambda a, b: float(a) <= float(b),
    "=": lambda a, b: a == b,
    ">": lambda a, b: float(a) > float(b),
    "<": lambda a, b: float(a) < float(b),
}


def holds(condition: Condition, engines: frozenset[str], bound: Mapping[str, str]) -> bool:
    """Whether a record with the condition is run."""
    return (condition.word == "onlyif") == all(
        _names(part, engines, bound) for part in condition.text.split("&&")
    )


def _names(text: str, engines: frozenset[str], bound: Mapping[str, str]) -> bool:
    for sign, compare in _COMPARISONS.items():
        name, found, value = text.partition(sign)
        if found:
            return name.strip() in bound and compare(bound[name.strip()], value.strip())
    return text.strip().lower() in engines
