"""Filters and projections as closures over rows.

    found = compile_map(map_)        # raises NotCompiledError
    found.row((1, "a"))              # the projected row, or None if it does not pass

A row has the values of the input's fields, in order; so has the result of the Map's fields. Values
and types equal DuckDB's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from sqlglot import exp

from hornbeam_server.maintain.deltas.algebra import Map, Scan
from hornbeam_server.maintain.deltas.relations import Field, Fields, duck_type, one_nan
from hornbeam_server.maintain.deltas.rows.parsing import Flat, NotCompiledError, flattened, parsed
from hornbeam_server.maintain.deltas.zsets import Weighted
from hornbeam_server.query.dialect.grammar import NAME
from hornbeam_server.query.expressions import MAY_BE_NAN, CompiledExpression, compile_expression
from hornbeam_server.schema.errors import SqlError
from hornbeam_server.schema.rows import projection
from hornbeam_server.schema.trees import unlink
from hornbeam_server.schema.types import ColumnType, Kind, Row, Value, as_text

Test = Callable[[Row], bool]
Evaluate = Callable[[Row], Value]


@dataclass(frozen=True, slots=True)
class RowMap:
    """A filter and a projection. `passes` None: every row passes."""

    passes: Test | None
    project: Callable[[Row], Row]

    def row(self, row: Row) -> Row | None:
        """The projected row; None if the row does not pass."""
        return self.project(row) if self.passes is None or self.passes(row) else None

    def rows(self, rows: Iterable[Row]) -> list[Row]:
        kept = rows if self.passes is None else filter(self.passes, rows)
        return list(map(self.project, kept))

    def weighted(self, rows: Iterable[Weighted]) -> list[Weighted]:
        """The same of a change."""
        passes, project = self.passes, self.project
        if passes is None:
            return [(project(row), weight) for row, weight in rows]
        return [(project(row), weight) for row, weight in rows if passes(row)]


def compile_map(map_: Map) -> RowMap:
    """A Map over rows of its input. Raises NotCompiledError, with the expression that only DuckDB
    evaluates."""
    return compile_maps((map_,), map_.input.fields, stored=isinstance(map_.input, Scan))


def compile_maps(maps: Sequence[Map], fields: Fields, *, stored: bool) -> RowMap:
    """A chain of Maps over rows of `fields`, the first Map first. `stored`: the rows are those of a
    relation, which have no NaN. Raises NotCompiledError."""
    try:
        flat = flattened(maps, [field.name for field in fields])
        try:
            return _compiled(flat, maps[-1].fields if maps else fields, _Columns(fields, stored))
        finally:
            flat.unlink()
    except RecursionError:
        raise NotCompiledError(maps[-1].select("its input")) from None


def _compiled(flat: Flat, output: Fields, columns: _Columns) -> RowMap:
    tests = [_condition(tree, columns) for tree in flat.conditions]
    return RowMap(_all(tests), _projection(output, flat.columns.values(), columns))


def compile_condition(sql: str, fields: Fields) -> Test:
    """A condition over rows of `fields`: is it true? Raises NotCompiledError."""
    tree = parsed(sql)
    try:
        return _condition(tree, _Columns(fields, stored=False))
    finally:
        unlink(tree)


def _all(tests: Sequence[Test]) -> Test | None:
    if len(tests) < 2:
        return tests[0] if tests else None
    return lambda row: all(test(row) for test in tests)


def _condition(tree: exp.Expr, columns: _Columns) -> Test:
    evaluate = columns.compiled(tree, ColumnType(Kind.BOOLEAN)).evaluate
    return lambda row: evaluate(row, ()) is True


def _projection(
    fields: Fields, trees: Iterable[exp.Expr], columns: _Columns
) -> Callable[[Row], Row]:
    """The projection picks from a row, followed by what is computed from it, and by constants."""
    values = _Values(columns)
    picked = [values.place(tree, field.type) for field, tree in zip(fields, trees, strict=True)]
    return values.projection(picked)


class _Values:
    """The values from which a projection picks: a row, then computed values, then constants."""

    def __init__(self, columns: _Columns) -> None:
        self._columns = columns
        self._computed: list[Evaluate] = []
        self._constants: list[Value] = []

    def place(self, tree: exp.Expr, type_: ColumnType) -> tuple[int, int]:
        """The part of the values (0, 1 or 2) and the place in this part."""
        if isinstance(tree, exp.Column):
            return 0, self._columns.place[tree.name]
        if isinstance(tree, exp.Null):
            return self._constant(None)
        evaluate = self._columns.value(tree, type_)
        if tree.find(exp.Column) is None:
            with suppress(SqlError):  # it fails when it is evaluated, which may be never
                return self._constant(evaluate(()))
        self._computed.append(evaluate)
        return 1, len(self._computed) - 1

    def _constant(self, value: Value) -> tuple[int, int]:
        self._constants.append(value)
        return 2, len(self._constants) - 1

    def projection(self, places: Sequence[tuple[int, int]]) -> Callable[[Row], Row]:
        computed, constants, width = self._computed, tuple(self._constants), len(self._columns)
        begins = (0, width, width + len(computed))
        pick = projection([begins[part] + place for part, place in places])
        if not computed:
            return (lambda row: pick(row + constants)) if constants else pick
        return lambda row: pick((*row, *[value(row) for value in computed], *constants))


class _Columns:
    """The columns that expressions name (`query.expressions.Scope`)."""

    def __init__(self, fields: Fields, stored: bool) -> None:
        self._fields = fields
        self._stored = stored
        self.place = {field.name: i for i, field in enumerate(fields)}

    def resolve(self, column: exp.Column) -> tuple[int, ColumnType]:
        place = self.place[column.name]
        field = self._fields[place]
        if not _is_exact(field):
            raise NotCompiledError(field.name)
        return place, field.type

    def parameter_type(self, name: int | str) -> ColumnType | None:
        return None

    def __len__(self) -> int:
        return len(self._fields)

    def value(self, tree: exp.Expr, type_: ColumnType) -> Evaluate:
        """The closure of an expression of `type_`. Raises NotCompiledError."""
        evaluate = self.compiled(tree, type_).evaluate
        if type_.kind is Kind.DOUBLE:
            return lambda row: one_nan(evaluate(row, ()))
        return lambda row: evaluate(row, ())

    def compiled(self, tree: exp.Expr, type_: ColumnType) -> CompiledExpression:
        self._mark(tree)
        try:
            found = compile_expression(tree, self)
        except NotCompiledError:
            found = None
        if found is None or found.type not in (None, type_):
            raise NotCompiledError(tree.sql(NAME))
        return found

    def _mark(self, tree: exp.Expr) -> None:
        """Mark the columns that may hold NaN, which compares otherwise in DuckDB."""
        for node in tree.find_all(exp.Column):
            double = self._fields[self.place[node.name]].type.kind is Kind.DOUBLE
            node.meta[MAY_BE_NAN] = double and not self._stored


def _is_exact(field: Field) -> bool:
    """Is the column's type in DuckDB the stored one? Others (HUGEINT, TINYINT) give expressions
    other types."""
    text = as_text(field.type).kind is Kind.TEXT
    return field.duck == duck_type(field.type) or (text and field.duck in ("VARCHAR", "TEXT"))
