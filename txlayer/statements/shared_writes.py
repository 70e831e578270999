"""Short writes that differ only in literals are compiled once.

A *template* is the plan of a statement with stand-ins for literals. The compiler notes which
assignments have nothing but a literal as their value (`Assignment.literal`). Those that have a
stand-in are the ones for which the literals of another statement may be put: each is compiled by
the functions that compile it in the plan of the statement itself. All other literals stay in the
text of the template, since they may decide its meaning. So the plan from a template is the
statement's own plan. Where it might not be, there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from hornbeam_server.query.engine import SHORT
from hornbeam_server.query.expressions import compile_expression
from hornbeam_server.query.sharing import Split, split, stand_in
from hornbeam_server.query.typing.constants import comparable, fold
from hornbeam_server.schema.caches import TextCache
from hornbeam_server.schema.errors import HornbeamError
from hornbeam_server.txlayer.statements.write_expressions import ConstantScope
from hornbeam_server.txlayer.statements.write_plans import (
    Assignment,
    ByKey,
    Defaulted,
    DeletePlan,
    InsertPlan,
    UpdatePlan,
    WritePlan,
    assignment,
)

SHAPES = 1_000
"""Maximum number of shapes that are remembered, and of templates."""
MAX_DIGITS = 18
"""Maximum digits of a number that takes the place of another: BIGINT holds all such numbers."""
_FIRSTS = range(7_001, 30_000, 401)
"""Numbers of the first stand-in, of which one is used that does not occur in the text. Columns of
all integer types hold them."""
_Simple = InsertPlan | UpdatePlan | DeletePlan


class _Different(Exception):
    """A literal may lead to another plan than the stand-in."""


@dataclass(frozen=True, slots=True)
class Template:
    """A plan with stand-ins. `places` are the numbers of the literals of a text, by the spelling of
    their stand-ins."""

    plan: _Simple
    places: Mapping[str, int]

    def filled(self, text: Split) -> WritePlan | None:
        """The plan of a text of the same shape; None if it may have another plan."""
        try:
            return _replaced(self.plan, lambda a, keys: self._filled(a, text, keys=keys))
        except _Different:
            return None

    def _filled(self, given: Assignment, text: Split, *, keys: bool) -> Assignment:
        place = self.places.get(given.literal or "")
        if place is None:
            return given
        literal = _literal(text.kinds[place], text.literals[place])
        compiled = compile_expression(literal, ConstantScope({}))
        column = given.column
        if compiled is None or (keys and comparable(fold(literal), column.type) is None):
            raise _Different
        return assignment(given.position, column, compiled.evaluate, constant=True)


class SharedWrites:
    """The templates of one catalog. `compile_` makes the plan of a text; it raises
    HornbeamError."""

    def __init__(self, compile_: Callable[[str], WritePlan]) -> None:
        self._compile = compile_
        self._places: TextCache[str, tuple[int, ...]] = TextCache(SHAPES)
        """The places of literals that may be others, by shape."""
        self._templates: TextCache[str, tuple[Template | None]] = TextCache(SHAPES)
        """The templates, by the text with `?` at these places."""
        self._seen: TextCache[str, bool] = TextCache(SHAPES)
        """Shapes that have occurred once: a template is only made for the second text."""

    def plan(self, sql: str) -> WritePlan | None:
        """The plan of a statement by a template; None if it has to be compiled."""
        text = split(sql) if len(sql) <= SHORT else None
        if text is None:
            return None
        template = self._template(text)
        return None if template is None else template.filled(text)

    def _template(self, text: Split) -> Template | None:
        shape = text.shape
        if self._seen.get(shape) is None:
            self._seen.put(shape, len(shape), True)
            return None
        places = self._places.get(shape)
        if places is None:
            places = self._taken(text)
            self._places.put(shape, len(shape), places)
        if not places:
            return None
        key = text.taking(places)[0]
        known = self._templates.get(key)
        if known is None:
            known = (self._made(text, places),)
            self._templates.put(key, len(key), known)
        return known[0]

    def _taken(self, text: Split) -> tuple[int, ...]:
        """The places of a text whose literals may be others."""
        made = self._compiled(text, text.written())
        return () if made is None else tuple(sorted(made.places.values()))

    def _made(self, text: Split, places: tuple[int, ...]) -> Template | None:
        made = self._compiled(text, places)
        return made if made is not None and len(made.places) == len(places) else None

    def _compiled(self, text: Split, places: tuple[int, ...]) -> Template | None:
        """The plan with stand-ins at `places`, with those of them that are values by themselves."""
        stand_ins = _stand_ins(text, places)
        if not stand_ins:
            return None
        sql = text.with_literals(stand_ins)
        try:
            plan = self._compile(sql)
        except HornbeamError:
            return None  # the text itself may be right
        if not isinstance(plan, _Simple) or not _is_simple(plan):
            return None
        return Template(plan, _found(plan, {name: place for place, name in stand_ins.items()}))


def _is_simple(plan: _Simple) -> bool:
    """Has the plan no parts that are evaluated by queries or by DuckDB?"""
    if plan.by_values or plan.readers:
        return False
    match plan:
        case InsertPlan():
            return plan.query is None and not plan.queries
        case UpdatePlan():
            return isinstance(plan.find, ByKey) and not plan.queries
        case DeletePlan():
            return isinstance(plan.find, ByKey)


def _found(plan: _Simple, places: Mapping[str, int]) -> dict[str, int]:
    """The stand-ins that are the whole value of an assignment."""
    found: dict[str, int] = {}

    def noted(given: Assignment, _: bool) -> Assignment:
        name = given.literal or ""
        if name in places:
            found[name] = places[name]
        return given

    _replaced(plan, noted)
    return found


def _replaced(plan: _Simple, new: Callable[[Assignment, bool], Assignment]) -> _Simple:
    """The plan with other values of rows, SET, and key. `new` also gets whether it is a key."""
    if isinstance(plan, InsertPlan):
        rows = tuple([tuple([new(a, False) for a in row]) for row in plan.rows])
        return replace(plan, rows=rows, whole_row=None)
    assert isinstance(plan.find, ByKey)
    find = replace(plan.find, key=tuple([new(part, True) for part in plan.find.key]))
    if isinstance(plan, DeletePlan):
        return replace(plan, find=find)
    given = [a if isinstance(a, Defaulted) else new(a, False) for a in plan.assignments]
    return replace(plan, find=find, assignments=tuple(given))


def _stand_ins(text: Split, places: tuple[int, ...]) -> dict[int, str] | None:
    """The spelling of a stand-in for each of these places; None if the text has all of them."""
    count = len(text.literals)
    whole = "".join(text.parts) + " ".join(text.literals)
    for first in _FIRSTS:
        numbers = range(first, first + count)
        if not any(str(number) in whole for number in numbers):
            return {place: stand_in(text.kinds[place], str(numbers[place])) for place in places}
    return None


def _literal(kind: str, spelt: str) -> exp.Literal:
    """The literal as the parser reads it. Raises `_Different` for a number of unusual length."""
    if kind == "text":
        return exp.Literal.string(spelt[1:-1].replace("''", "'"))
    if len(spelt) > MAX_DIGITS:
        raise _Different
    return exp.Literal(this=spelt, is_string=False)
