"""The application's statements: a workload file, or a log of executed statements.

A workload file is SQL, with statements separated by `;`. The comment `-- name: X` names the next
statement, and `-- weight: N` gives its relative frequency (1 if absent); both may also be inside
the statement. Unnamed statements are named s1, s2 … in order.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import count

import msgspec
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from hornbeam_server.schema.catalog import WorkloadStatement
from hornbeam_server.schema.drafts import Place
from hornbeam_server.schema.sqltext import no_fallback_warnings, tokenize
from hornbeam_server.schema.trees import unlink, unlink_unfinished

_DIALECT = Dialect.get_or_raise("duckdb")
_ANNOTATION = re.compile(r"^[ \t]*--[ \t]*(name|weight)[ \t]*:(.*)$", re.IGNORECASE | re.MULTILINE)


class _Text:
    """The text of a workload file, split into statements."""

    def __init__(self, text: str, file: str) -> None:
        self.text, self.file = text, file

    def place(self, offset: int) -> Place:
        return Place.at(self.text, offset, self.file)

    def statements(self) -> Iterator[tuple[int, int, list[Token]]]:
        """Start and end offset of each part between semicolons, and its tokens."""
        start, found = 0, list[Token]()
        for token in tokenize(_DIALECT, self.text, Place(self.file, 1, 1)):
            if token.token_type is TokenType.SEMICOLON:
                yield start, token.start, found
                start, found = token.end + 1, []
            else:
                found.append(token)
        yield start, len(self.text), found

    def annotations(self, start: int, end: int, tokens: list[Token]) -> Iterator[tuple[str, ...]]:
        """(key, value, offset) in the gaps between tokens, where only comments can be."""
        edges = [start, *(edge for t in tokens for edge in (t.start, t.end + 1)), end]
        for gap_start, gap_end in zip(edges[::2], edges[1::2], strict=True):
            for match in _ANNOTATION.finditer(self.text[gap_start:gap_end]):
                offset = gap_start + match.start(1)
                yield match[1].lower(), match[2].strip(), str(offset)


def load_workload(text: str, file: str = "<workload>") -> tuple[WorkloadStatement, ...]:
    """The statements of a workload file, in order. Their SQL is not checked here.

    Raises SchemaError with file, line and column: duplicate or unused names, bad weights, open
    quotes.
    """
    source = _Text(text, file)
    drafts: list[tuple[str | None, str, float]] = []
    names: dict[str, Place] = {}
    for start, end, tokens in source.statements():
        name, weight = _read_annotations(source, start, end, tokens, names)
        if tokens:
            drafts.append((name, text[tokens[0].start : tokens[-1].end + 1], weight))
    made = (f"s{number}" for number in count(1) if f"s{number}" not in names)
    return tuple(WorkloadStatement(name or next(made), sql, weight) for name, sql, weight in drafts)


def _read_annotations(
    source: _Text, start: int, end: int, tokens: list[Token], names: dict[str, Place]
) -> tuple[str | None, float]:
    """The name and weight of one statement; `names` collects all names."""
    found: dict[str, str] = {}
    for key, value, offset in source.annotations(start, end, tokens):
        place = source.place(int(offset))
        if not tokens:
            cure = "Put the statement behind it, or delete the comment."
            raise place.error(f"{key}: {value} belongs to no statement.", cure=cure)
        if key in found:
            raise place.error(f"A statement has two {key}s.", cure="Is a `;` missing between them?")
        found[key] = value
        if key == "name":
            _check_name(value, place, names)
        else:
            _check_weight(value, place)
    return found.get("name"), float(found.get("weight", "1"))


def _check_name(name: str, place: Place, names: dict[str, Place]) -> None:
    if not name or not name.isprintable() or " " in name:
        raise place.error(
            f"{name!r} cannot name a statement.", cure="Write one word without blanks.", name=name
        )
    if name in names:
        raise place.error(
            f"Two statements are named {name}.",
            cure=f"Rename one of them; the first is in line {names[name].line}.",
            name=name,
        )
    names[name] = place


def _check_weight(text: str, place: Place) -> None:
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if not (math.isfinite(weight) and weight >= 0):
        raise place.error(
            f"Weight {text!r} is not a number of 0 or more.", cure="Write, say, -- weight: 2.5."
        )


class _Entry(msgspec.Struct, forbid_unknown_fields=False):
    """A line of a JSON log; other fields are ignored."""

    sql: str
    count: float = 1.0


_TRANSACTION_CONTROL = (exp.Transaction, exp.Commit, exp.Rollback)


def load_query_log(lines: Iterable[str], file: str = "<log>") -> tuple[WorkloadStatement, ...]:
    """A log as a workload: equal statements become one, whose weight is the number of executions.

    A line is an SQL statement, or a JSON object with `sql` and optionally `count`. Statements are
    equal if they differ only in literals, parameters, white space and letter case of keywords;
    literals become `?`. BEGIN, COMMIT and ROLLBACK are ignored. Statements are named s1, s2 … in
    order of first appearance. Raises SchemaError with the line.
    """
    weights: dict[str, float] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        entry = _entry(line, Place(file, number, 1))
        for sql in _normal_forms(entry.sql, Place(file, number, 1)):
            weights[sql] = weights.get(sql, 0.0) + entry.count
    return tuple(
        WorkloadStatement(f"s{number}", sql, weight)
        for number, (sql, weight) in enumerate(weights.items(), 1)
    )


def weighted_by_log(
    workload: Iterable[WorkloadStatement], log: Iterable[WorkloadStatement]
) -> tuple[WorkloadStatement, ...]:
    """`workload` with the weights of a query log, followed by the log's other statements.

    Statements are matched by their normal form. A statement that is not in the log has weight 1:
    it ran at most once.
    """
    counts = {statement.sql: statement.weight for statement in log}
    named: list[WorkloadStatement] = []
    for statement in workload:
        forms = _normal_forms(statement.sql, Place(statement.name, 1, 1))
        weight = sum(counts.pop(form, 0.0) for form in forms)
        named.append(replace(statement, weight=weight or 1.0))
    names = {statement.name for statement in named}
    numbers = (f"log{number}" for number in itertools.count(1))
    free = (name for name in numbers if name not in names)
    return (*named, *(WorkloadStatement(next(free), sql, w) for sql, w in counts.items()))


def _entry(line: str, place: Place) -> _Entry:
    if not line.lstrip().startswith("{"):
        return _Entry(line)
    try:
        entry = msgspec.json.decode(line, type=_Entry)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        cure = 'Write {"sql": "SELECT …", "count": 3}.'
        raise place.error(f"This line of the log is not an entry: {error}", cure=cure) from None
    if entry.count < 0:
        raise place.error(f"Count {entry.count} is negative.", cure="Counts are 0 or more.")
    return entry


def _normal_forms(sql: str, place: Place) -> list[str]:
    try:
        with no_fallback_warnings():
            trees = _DIALECT.parse(sql)
            kept = [t for t in trees if t is not None and not isinstance(t, _TRANSACTION_CONTROL)]
            return [_normal_form(tree) for tree in kept]
    except (ParseError, TokenError) as error:
        unlink_unfinished(error)
        raise place.error(
            f"This line of the log is not SQL: {str(error).splitlines()[0].rstrip('.')}.",
            cure="Leave the line out, or write the statement on one line.",
        ) from None
    except RecursionError:
        raise place.error(
            "This line of the log is nested too deeply.", cure="Leave it out."
        ) from None


def _normal_form(tree: exp.Expr) -> str:
    general = tree.transform(_without_literal, copy=False)
    sql: str = general.sql(_DIALECT, comments=False, copy=False)
    unlink(general)
    return sql


def _without_literal(node: exp.Expr) -> exp.Expr:
    """Replace literals and parameters by `?`, except where SQL needs the literal number."""
    inner = node.this if isinstance(node, exp.Neg | exp.Cast) else node
    if not isinstance(inner, exp.Literal | exp.Placeholder | exp.Parameter):
        return node
    if isinstance(node.parent, exp.DataTypeParam | exp.Interval | exp.Ordered | exp.Group):
        return node  # DECIMAL(10, 2), INTERVAL '1' DAY, ORDER BY 1, GROUP BY 1
    return exp.Placeholder()
