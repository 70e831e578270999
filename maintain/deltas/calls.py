"""The aggregate calls of one SELECT."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import cast

from sqlglot import exp

from hornbeam_server.maintain.deltas.algebra import Aggregate, Call, Map, Partition
from hornbeam_server.maintain.deltas.decided import NUMBER, decide_call
from hornbeam_server.maintain.deltas.expressions import aggregates_in, names_in, refused, text
from hornbeam_server.maintain.deltas.operators import NUMBERS, check_keys, named
from hornbeam_server.maintain.deltas.relations import Field, Fields, describe, duck_type
from hornbeam_server.query.dialect.aggregates import FUNCTIONS, Function
from hornbeam_server.query.dialect.deviations import LISTED, UNITS, write_deviation
from hornbeam_server.query.dialect.duckdb_types import quoted
from hornbeam_server.query.dialect.macros import macro
from hornbeam_server.query.dialect.sums import WIDE, is_earlier
from hornbeam_server.schema.errors import Unsupported
from hornbeam_server.schema.quotients import QUOTIENT
from hornbeam_server.schema.trees import nodes_of
from hornbeam_server.schema.types import ColumnType, Kind

_SUMMABLE = ("HUGEINT", "DECIMAL")

Output = tuple[str, exp.Expr]
"""An output column: its name and its renamed expression."""


class Calls:
    """Aggregate calls of one SELECT. Equal calls are computed once; arguments are columns."""

    def __init__(self, prefix: str, sql: str) -> None:
        """Names of calls begin with `prefix`; errors give positions in `sql`."""
        self._prefix = prefix
        self._sql = sql
        self._names: dict[tuple[Function, str], str] = {}
        self._written: dict[str, exp.Expr] = {}
        """Each call, as it is computed again for a group."""
        self._others: dict[str, str] = {}
        """The calls without a delta rule: their text → their column."""
        self._numbers: dict[str, list[int]] = {}
        """The numbers of the original calls, by column."""
        self.doubles: set[int] = set()
        """The numbers of the calls that add doubles."""
        self._arguments: dict[str, exp.Expr] = {}
        self._totals: set[str] = set()
        """Sums whose type is BIGINT if their argument is INTEGER."""
        self._doubles: set[str] = set()
        """Averages that are DOUBLE, as in earlier versions."""

    def name(self, part: exp.Expr) -> str:
        """The column that holds this aggregate's value."""
        call = part.this if isinstance(part, exp.Filter) else part
        if any(map(aggregates_in, call.iter_expressions())):
            raise Unsupported(
                "An aggregate cannot be the argument of another.",
                cure="Write a subquery in FROM.",
            )
        parsed = self._parsed(part)
        name = self._other(part) if parsed is None else self._ruled(part, *parsed)
        self._written.setdefault(name, part)
        self._numbers.setdefault(name, []).append(call.meta[NUMBER])
        return name

    def _other(self, part: exp.Expr) -> str:
        return self._others.setdefault(text(part), f"{self._prefix}.other{len(self._others)}")

    def _ruled(self, part: exp.Expr, function: Function, argument: exp.Expr | None) -> str:
        """The column of an aggregate that has a delta rule."""
        if argument is not None:
            sql = text(argument)
            self._arguments.setdefault(sql, argument)
            place = str(list(self._arguments).index(sql))
        else:
            place = ""
        key = function, place
        if key not in self._names:
            self._names[key] = f"{self._prefix}.{len(self._names)}"
        total = part.find(exp.Sum)
        if total is not None and not total.meta.get(WIDE):
            self._totals.add(self._names[key])
        average = part.find(exp.Avg)
        if average is not None and is_earlier(average):
            self._doubles.add(self._names[key])
        return self._names[key]

    def _parsed(self, part: exp.Expr) -> tuple[Function, exp.Expr | None] | None:
        """The function and its argument; None for an aggregate without a delta rule."""
        condition = None
        if isinstance(part, exp.Filter):
            condition = part.expression.this
            part = part.this
        function = FUNCTIONS.get(type(part))
        sql = self._sql
        if function is None:
            return None
        if part.expressions and not isinstance(part, exp.Count):
            raise refused(f"{text(part)}", part, sql, "One argument only.")
        argument = part.this
        if isinstance(argument, exp.Order):
            return None
        if isinstance(argument, exp.Distinct):
            if function is Function.COUNT and len(argument.expressions) == 1:
                function = Function.DISTINCT
            elif function not in (Function.MIN, Function.MAX):
                return None
            argument = argument.expressions[0]
            if isinstance(argument, exp.Tuple):
                return None
        if isinstance(argument, exp.Star) or argument is None:
            if condition is None:
                return Function.ROWS, None
            argument = exp.Literal.number(1)
        if isinstance(part, exp.Count) and part.expressions:
            raise refused(f"{text(part)}", part, sql, "Count one expression.")
        if condition is not None:
            argument = exp.Case(ifs=[exp.If(this=condition.copy(), true=argument.copy())])
        return function, argument

    def arguments(self) -> Iterator[Output]:
        """Output columns of the projection below the aggregation."""
        for i, argument in enumerate(self._arguments.values()):
            yield self._argument(i), argument

    def _argument(self, i: int) -> str:
        return f"argument.{i}"

    def without_rule(self, inner: Map) -> str | None:
        """An aggregate of which changes alone do not say how it changes; None if there is none.
        `inner` has the arguments."""
        for (function, place), name in self._names.items():
            if function in (Function.SUM, Function.AVG):
                argument = inner.field[self._argument(int(place))]
                if argument.type.kind is Kind.DOUBLE:
                    return f"{text(self._written[name])} of {argument.duck}"
        return next(iter(self._others), None)

    @property
    def numbers(self) -> list[int]:
        """The numbers of the original calls (`NUMBER`)."""
        return [number for numbers in self._numbers.values() for number in numbers]

    @property
    def columns(self) -> list[str]:
        """The columns that the calls read."""
        read = (sorted(names_in(part)) for part in self._written.values())
        return list(dict.fromkeys(itertools.chain.from_iterable(read)))

    def partition(self, inner: Map, groups: Fields, cause: str) -> Partition:
        """All calls, computed again for each group because of one (`without_rule`). `inner` has the
        groups and `columns`."""
        by = [quoted(group.name) for group in groups]
        calls: list[str] = []
        for name, part in self._written.items():
            call = part.this if isinstance(part, exp.Filter) else part
            if any(each.name == macro("json") for each in nodes_of(call, exp.Anonymous)):
                cure = "Keep an array, and compute JSON from it when you read the view."
                raise refused("An aggregate of JSON", part, self._sql, cure)
            if self._is_double(inner, call):
                self.doubles.update(self._numbers[name])
            decide_call(cast(exp.Func, call), call.meta[NUMBER] in self.doubles)
            calls.append(f"{text(part)} AS {quoted(name)}")
        sql = f"SELECT {', '.join([*by, *calls])} FROM input GROUP BY {', '.join(by)}"
        fields = (*groups, *describe(sql, {"input": inner.fields})[len(groups) :])
        names = tuple(group.name for group in groups)
        return Partition(inner, names, sql, fields, frozenset(names), cause)

    def _is_double(self, inner: Map, call: exp.Expr) -> bool:
        """Does a SUM or AVG add doubles?"""
        if not isinstance(call, exp.Sum | exp.Avg):
            return False
        value = call.this.this if isinstance(call.this, exp.Order) else call.this
        value = value.expressions[0] if isinstance(value, exp.Distinct) else value
        found = _described(inner, text(value)).type.kind
        if found is Kind.INTERVAL:
            raise _of_intervals()
        return found is Kind.DOUBLE

    def aggregate(self, inner: Map, groups: Fields) -> Aggregate:
        calls: list[Call] = []
        sums: dict[str, Field] = {}
        for (function, place), name in self._names.items():
            argument = self._argument(int(place)) if place else ""
            if function in (Function.SUM, Function.AVG):
                sums[argument] = self._sum(inner, argument)
            calls.append(Call(function, argument, self._field(inner, function, argument, name)))
        for call in calls:
            if call.function in (Function.MIN, Function.MAX, Function.DISTINCT):
                check_keys((inner.field[call.argument],), call.function.value)
        return Aggregate(inner, groups, tuple(calls), tuple(sums.items()))

    def _field(self, inner: Map, function: Function, argument: str, name: str) -> Field:
        if function in (Function.ROWS, Function.COUNT, Function.DISTINCT):
            return Field(name, "BIGINT", ColumnType(Kind.BIGINT), nullable=False)
        whole = argument and inner.field[argument].type.kind in (Kind.INTEGER, Kind.BOOLEAN)
        if function is Function.SUM and whole and name in self._totals:
            return Field(name, "BIGINT", ColumnType(Kind.BIGINT))
        if function is Function.AVG:
            type_ = ColumnType(Kind.DOUBLE) if name in self._doubles else QUOTIENT
            return Field(name, duck_type(type_), type_)
        return named(_described(inner, f"{function.value}({quoted(argument)})"), name)

    def _sum(self, inner: Map, argument: str) -> Field:
        kind = inner.field[argument].type.kind
        if kind is Kind.INTERVAL:
            raise _of_intervals()
        found = _described(inner, f"sum({quoted(argument)})")
        if kind not in (*NUMBERS, Kind.BOOLEAN) or not found.duck.startswith(_SUMMABLE):
            raise Unsupported(
                f"SUM and AVG of {inner.field[argument].duck} cannot be kept up to date from "
                "changes.",
                cure="CAST the argument to a DECIMAL.",
            )
        return found


def _of_intervals() -> Unsupported:
    return Unsupported(
        "SUM and AVG of INTERVAL cannot be kept up to date from changes.",
        cure="Write sum(extract(epoch FROM …)), which are seconds.",
    )


def by_rules(part: exp.Expr) -> exp.Expr | None:
    """An aggregate, with its FILTER, as an expression over counts and sums, which have delta rules;
    None for other expressions."""
    found = _by_counts(part)
    return _by_sums(part) if found is None else found


def _by_sums(part: exp.Expr) -> exp.Expr | None:
    """A variance or deviation of exact numbers that are not listed."""
    call = part.this if isinstance(part, exp.Filter) else part
    if call.meta.get(UNITS, LISTED) == LISTED:
        return None
    root = exp.Paren(this=part.copy())
    for each in list(root.find_all(exp.Anonymous)):
        if UNITS in each.meta:
            write_deviation(each)
    for each in list(root.find_all(exp.Anonymous)):
        kind = _ADDED.get(each.name)
        if kind is not None:
            added = kind(this=each.expressions[0].copy())
            added.meta.update({NUMBER: call.meta[NUMBER], WIDE: True})
            each.replace(added)
    found: exp.Expr = root.this
    return found


_ADDED: dict[str, type[exp.AggFunc]] = {"count": exp.Count, "sum": exp.Sum}


def _by_counts(part: exp.Expr) -> exp.Expr | None:
    """bool_and and bool_or."""
    call = part.this if isinstance(part, exp.Filter) else part
    if not isinstance(call, exp.Anonymous) or call.name.lower() not in ("bool_and", "bool_or"):
        return None
    value = call.expressions[0]
    value = value.this if isinstance(value, exp.Order) else value
    value = value.expressions[0] if isinstance(value, exp.Distinct) else value
    every = call.name.lower() == "bool_and"

    def count(value: exp.Expr) -> exp.Expr:
        counted = exp.Count(this=value)
        counted.meta.update(call.meta)
        if not isinstance(part, exp.Filter):
            return counted
        return exp.Filter(this=counted, expression=part.expression.copy())

    hit = exp.Paren(this=value.copy())
    one = exp.If(this=exp.Not(this=hit) if every else hit, true=exp.Literal.number(1))
    compare = exp.EQ if every else exp.GT
    result = compare(this=count(exp.Case(ifs=[one])), expression=exp.Literal.number(0))
    some = exp.GT(this=count(value.copy()), expression=exp.Literal.number(0))
    return exp.Paren(this=exp.Case(ifs=[exp.If(this=some, true=result)]))


def _described(inner: Map, sql: str) -> Field:
    return describe(f"SELECT {sql} FROM t", {"t": inner.fields})[0]
