"""The aggregate calls of one SELECT."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from hornbeam_server.maintain.deltas.algebra import Aggregate, Call, Map
from hornbeam_server.maintain.deltas.expressions import aggregates_in, refused, text
from hornbeam_server.maintain.deltas.operators import NUMBERS, check_keys, named
from hornbeam_server.maintain.deltas.relations import Field, Fields, describe, duck_type
from hornbeam_server.query.dialect.aggregates import FUNCTIONS, Function
from hornbeam_server.query.dialect.duckdb_types import quoted
from hornbeam_server.query.dialect.sums import WIDE, is_earlier
from hornbeam_server.schema.errors import Unsupported
from hornbeam_server.schema.quotients import QUOTIENT
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
        self._arguments: dict[str, exp.Expr] = {}
        self._totals: set[str] = set()
        """Sums whose type is BIGINT if their argument is INTEGER."""
        self._doubles: set[str] = set()
        """Averages that are DOUBLE, as in earlier versions."""

    def name(self, part: exp.Expr) -> str:
        """The column that holds this aggregate's value."""
        function, argument = self._parsed(part)
        if argument is not None:
            sql = text(argument)
            if aggregates_in(argument):
                raise Unsupported(
                    "An aggregate cannot be the argument of another.",
                    cure="Write a subquery in FROM.",
                )
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

    def _parsed(self, part: exp.Expr) -> tuple[Function, exp.Expr | None]:
        condition = None
        if isinstance(part, exp.Filter):
            condition = part.expression.this
            part = part.this
        function = FUNCTIONS.get(type(part))
        sql = self._sql
        if function is None:
            raise refused(f"The aggregate {text(part)}", part, sql, "")
        if part.expressions and not isinstance(part, exp.Count):
            raise refused(f"{text(part)}", part, sql, "One argument only.")
        argument = part.this
        if isinstance(argument, exp.Distinct):
            if function is Function.COUNT and len(argument.expressions) == 1:
                function = Function.DISTINCT
            elif function not in (Function.MIN, Function.MAX):
                raise refused(f"{text(part)}", part, sql, "Aggregate over SELECT DISTINCT in FROM.")
            argument = argument.expressions[0]
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
            raise Unsupported(
                "SUM and AVG of INTERVAL cannot be kept up to date from changes.",
                cure="Write sum(extract(epoch FROM …)), which are seconds.",
            )
        found = _described(inner, f"sum({quoted(argument)})")
        if kind not in (*NUMBERS, Kind.BOOLEAN) or not found.duck.startswith(_SUMMABLE):
            raise Unsupported(
                f"SUM and AVG of {inner.field[argument].duck} cannot be kept up to date from "
                "changes: sums of floating-point numbers depend on their order.",
                cure="CAST the argument to a DECIMAL.",
            )
        return found


def _described(inner: Map, sql: str) -> Field:
    return describe(f"SELECT {sql} FROM t", {"t": inner.fields})[0]
