"""Statements that differ only in literals share one plan.

Literals of a text become parameters, which compare as their literals (decision 44). Only literals
that a WHERE, ON or HAVING compares with a plain column are taken, and the numbers of LIMIT and
OFFSET. All others stay in the text: they may decide its meaning, as in the names of columns, in
GROUP BY and ORDER BY, and in types and intervals. Which ones are taken depends on the *shape* of a
text, which is the text without its literals; it is parsed once. Pure.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from sqlglot import exp

from hornbeam_server.query.parsing.parse import parse
from hornbeam_server.schema.errors import SqlError
from hornbeam_server.schema.trees import nodes_of, unlink
from hornbeam_server.schema.types import Value

MAX_LITERALS = 100
"""A text with more literals is not split."""
_PART = re.compile(
    r"""(?P<odd>[^\W\d]\w*'|--|/\*|[$?`{}]|(?<!:):(?!:))
    |(?P<date>\b[Dd][Aa][Tt][Ee]\s+'\d{4}-\d\d-\d\d'(?!'))
    |(?P<timestamp>\b[Tt][Ii][Mm][Ee][Ss][Tt][Aa][Mm][Pp]\s+
        '\d{4}-\d\d-\d\d\ \d\d:\d\d:\d\d(?:\.\d{1,6})?'(?!'))
    |[^\W\d]\w*
    |"(?:[^"]|"")*"
    |(?P<text>'(?:[^']|'')*'(?!'))
    |(?P<decimal>\d+\.\d+(?![\w.]))
    |(?P<integer>(?<![\w.])\d+(?![\w.]))
    |(?P<other>[\d'"])""",
    re.VERBOSE,
)
"""The parts of a text in which digits and quotes have a meaning. `odd` and `other`: the text is not
split, since it has comments, parameters, strings of other forms or numbers of other forms."""
_MARKS = {"text": "\1", "decimal": "\2", "integer": "\3", "date": "\4", "timestamp": "\5"}
_FIRST = 7_000_000_000_001
"""The number of the first stand-in for a literal, which no usual text contains."""
_DECIMAL = re.compile(r"\b(?:DECIMAL|NUMERIC|DEC)\s*\(\s*$", re.IGNORECASE)
"""The beginning of a DECIMAL with parameters, at the end of a text."""
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_CONDITIONS = (exp.And, exp.Or, exp.Not, exp.Paren)
_TIMES: Mapping[str, Callable[[str], Value]] = {
    "date": dt.date.fromisoformat,
    "timestamp": dt.datetime.fromisoformat,
}
"""From the text of a typed literal to its value, by its kind. Raises ValueError."""
_TYPED = ("DATE", "TIMESTAMP", "TIMESTAMPNTZ")
_OTHER_ROWS = (exp.AggFunc, exp.Window, exp.Group, exp.Query)
"""Parts of statements whose plans may depend on a literal, since views may answer them."""


@dataclass(frozen=True, slots=True)
class Split:
    """A text without its literals: `parts` are the texts between them, `kinds` and `literals` their
    kinds and spellings."""

    parts: tuple[str, ...]
    kinds: tuple[str, ...]
    literals: tuple[str, ...]

    @property
    def shape(self) -> str:
        """Equal for texts that differ only in literals."""
        return self._joined([_MARKS[kind] for kind in self.kinds])

    def taking(self, places: Sequence[int]) -> tuple[str, tuple[Value, ...]]:
        """The text with `?` in place of the literals at `places`, and their values."""
        spelt = list(self.literals)
        for place in places:
            spelt[place] = "?"
        return self._joined(spelt), tuple([self._value(place) for place in places])

    def with_literals(self, others: Mapping[int, str]) -> str:
        """The text with other literals at some places."""
        spelt = [others.get(place, given) for place, given in enumerate(self.literals)]
        return self._joined(spelt)

    def _value(self, place: int) -> Value:
        kind, spelt = self.kinds[place], self.literals[place]
        if kind == "text":
            return spelt[1:-1].replace("''", "'")
        if kind in _TIMES:
            return _TIMES[kind](_quoted(spelt))
        return int(spelt) if kind == "integer" else Decimal(spelt)

    def _sizes(self) -> set[int]:
        """The places of the parameters of types DECIMAL."""
        found: set[int] = set()
        for place, before in enumerate(self.parts[: len(self.literals)]):
            if _DECIMAL.search(before) or (place - 1 in found and before.strip() == ","):
                found.add(place)
        return found

    def _joined(self, between: Sequence[str]) -> str:
        pairs = zip(self.parts, (*between, ""), strict=True)
        return "".join([piece for pair in pairs for piece in pair])

    def compared(self) -> tuple[int, ...]:
        """The places of literals of a SELECT that become parameters."""
        return self._places(_compares)

    def compared_simply(self) -> tuple[int, ...]:
        """The same if the SELECT has no aggregates and no subqueries, which views may answer; else
        none."""
        return self._places(lambda tree, node: _is_simple(tree) and _compares(tree, node))

    def written(self) -> tuple[int, ...]:
        """The places of literals that are a value of VALUES or SET, or that the WHERE of an UPDATE
        or DELETE requires a column to equal."""
        return self._places(_writes)

    def _places(self, takes: Callable[[exp.Expr, exp.Expr], bool]) -> tuple[int, ...]:
        """The places of the literals that `takes` accepts, given their statement and their node."""
        numbers = [str(_FIRST + place) for place in range(len(self.literals))]
        names = list(map(_content, self.kinds, numbers))
        stand_ins = dict(enumerate(map(stand_in, self.kinds, numbers)))
        for place in self._sizes():  # a DECIMAL of that many digits would be refused
            del stand_ins[place]
        try:
            tree = parse(self.with_literals(stand_ins))
        except SqlError:
            return ()
        try:
            found = {node.name.partition(".")[0]: node for node in nodes_of(tree, exp.Literal)}
            nodes = [(place, found.get(name)) for place, name in enumerate(names)]
            return tuple([i for i, node in nodes if node is not None and takes(tree, node)])
        finally:
            unlink(tree)


def split(sql: str) -> Split | None:
    """The text without its literals; None if it has none, too many, or parts of unusual forms."""
    if "\\" in sql:  # it may have a meaning in a string
        return None
    parts: list[str] = []
    kinds: list[str] = []
    literals: list[str] = []
    end = 0
    for found in _PART.finditer(sql):
        kind = found.lastgroup
        if kind is None:
            continue
        if kind in ("odd", "other") or len(literals) == MAX_LITERALS:
            return None
        if kind in _TIMES and not _exists(kind, found[0]):
            return None
        parts.append(sql[end : found.start()])
        kinds.append(kind)
        literals.append(found[0])
        end = found.end()
    return Split((*parts, sql[end:]), tuple(kinds), tuple(literals)) if literals else None


def stand_in(kind: str, number: str) -> str:
    """A literal of this kind that has the last digits of `number`."""
    content = _content(kind, number)
    match kind:
        case "text":
            return f"'{content}'"
        case "decimal":
            return f"{content}.5"
        case "date" | "timestamp":
            return f"{kind} '{content}'"
    return content


def _content(kind: str, number: str) -> str:
    """What a stand-in consists of; of a decimal, what is before its point."""
    if kind not in _TIMES:
        return number
    date = f"{9_000 + int(number) % 1_000}-01-01"
    return date if kind == "date" else f"{date} 00:00:00"


def _quoted(spelt: str) -> str:
    return spelt[spelt.index("'") + 1 : -1]


def _exists(kind: str, spelt: str) -> bool:
    """Is there such a date or time?"""
    try:
        _TIMES[kind](_quoted(spelt))
    except ValueError:
        return False
    return True


def _is_simple(tree: exp.Expr) -> bool:
    return isinstance(tree, exp.Select) and not any(
        node is not tree and isinstance(node, _OTHER_ROWS) for node in tree.walk()
    )


def _compares(tree: exp.Expr, node: exp.Expr) -> bool:
    """Does a condition of a SELECT compare the literal with a column, or does it limit its rows?"""
    if not isinstance(tree, exp.Query):
        return False
    if isinstance(node.parent, exp.Cast) and node.parent.to.this.name in _TYPED:
        node = node.parent
    test = node.parent
    match test:
        case exp.Limit() | exp.Offset():
            return isinstance(node, exp.Literal) and test.expression is node
        case exp.In() | exp.Between():
            others = [test.this]
        case exp.Expr() if isinstance(test, _COMPARISONS):
            others = [side for side in (test.this, test.expression) if side is not node]
        case _:
            return False
    conditional = isinstance(_condition_of(test), exp.Where | exp.Join | exp.Having)
    return conditional and all(isinstance(each, exp.Column) for each in others)


def _writes(tree: exp.Expr, node: exp.Expr) -> bool:
    """Is the literal a value of VALUES or SET, or equal to a column by the WHERE of a write?"""
    holder = node.parent
    if holder is None:
        return False
    if isinstance(tree, exp.Insert):
        return isinstance(holder.parent, exp.Values) and holder.parent.parent is tree
    if not (isinstance(tree, exp.Update | exp.Delete) and isinstance(holder, exp.EQ)):
        return False
    if holder.parent is tree:
        return holder.expression is node
    condition = _condition_of(holder)
    return isinstance(condition, exp.Where) and condition.parent is tree


def _condition_of(test: exp.Expr) -> exp.Expr | None:
    """The clause of which a test is a part, by AND, OR and NOT."""
    place = test.parent
    while isinstance(place, _CONDITIONS):
        place = place.parent
    return place
