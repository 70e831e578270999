"""Whole rows as values: `row_to_json(t)`, `count(t)`, `t = ROW(1, 2)`, `t::TEXT`.

DuckDB has structures for rows, with other texts, other JSON and another rule for NULL. So a whole
row is written out as its columns, in the form that the node around it needs. A row that an outer
join does not find is NULL, which its primary key shows, or NULL in all its columns for the row of a
subquery.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from hornbeam_server.query.dialect.functions import object_text
from hornbeam_server.query.dialect.grammar import IS_NOT
from hornbeam_server.query.dialect.macros import call, macro
from hornbeam_server.query.dialect.row_order import decided, precedes
from hornbeam_server.query.parsing.nesting import chain
from hornbeam_server.schema.errors import SqlError
from hornbeam_server.schema.trees import unlink
from hornbeam_server.schema.types import ColumnType, Kind

COMPARED = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
TEXTS = (exp.DType.TEXT, exp.DType.VARCHAR)
TO_JSON, TO_JSONB = "row_to_json", "to_jsonb"
IN_JSON = frozenset({macro("json"), "json_group_object"})
"""Functions that write their arguments into JSON, by the names that the parser gives them."""
IN_JSONB = frozenset({"jsonb_build_object", "jsonb_build_array"})
Cells = Sequence[exp.Expr]


@dataclass(frozen=True, slots=True)
class WholeRow:
    """The row of an item of FROM: its alias, the names and types of its columns, and the columns
    that are all NULL if the row is not there; none if it always is."""

    alias: str
    columns: tuple[tuple[str, ColumnType | None], ...]
    absent: tuple[str, ...] = ()

    def cells(self) -> list[exp.Expr]:
        return [self._column(name) for name, _ in self.columns]

    def _column(self, name: str) -> exp.Column:
        """A column of the row. It is mostly copied, so it has no parents that keep it."""
        parts = (exp.to_identifier(part, quoted=True) for part in (name, self.alias))
        column = exp.Column(**dict(zip(("this", "table"), parts, strict=True)))
        unlink(column)
        return column

    def guarded(self, value: exp.Expr) -> exp.Expr:
        """The value, and NULL if the row is not there."""
        if not self.absent:
            return value
        found = [exp.Not(this=_is_null(self._column(name))) for name in self.absent]
        return exp.Case(ifs=[exp.If(this=chain(exp.Or, found), true=value)])

    def document(self) -> exp.Expr:
        """The row as JSON, as row_to_json writes it."""
        names = (name for name, _ in self.columns)
        return self.guarded(object_text(zip(names, self.cells(), strict=True)))

    def canonical_document(self) -> exp.Expr:
        """The row as JSONB."""
        pairs: list[exp.Expr] = []
        for (name, _), cell in zip(self.columns, self.cells(), strict=True):
            pairs += [exp.Literal.string(name), cell]
        return self.guarded(exp.Anonymous(this="jsonb_build_object", expressions=pairs))

    def text(self) -> exp.Expr:
        return self.guarded(text_of_row(self.cells(), [type_ for _, type_ in self.columns]))

    def number(self) -> exp.Expr:
        """The argument of COUNT of the row."""
        return self.guarded(exp.Boolean(this=True)) if self.absent else exp.Star()


def text_of_row(cells: Cells, types: Sequence[ColumnType | None]) -> exp.Expr:
    """The text of a row: `(1,"a b",)`."""
    parts: list[exp.Expr] = []
    for cell, type_ in zip(cells, types, strict=True):
        parts += [exp.Literal.string("," if parts else "("), _field(cell, type_)]
    return _concat([*parts, exp.Literal.string(")")])


def cells_of(node: exp.Expr) -> Cells:
    """The columns of ROW(…) or `(a, b)`; none for another expression."""
    row = node.unnest()
    called = isinstance(row, exp.Anonymous) and row.name.lower() == "row"
    return row.expressions if called or isinstance(row, exp.Tuple) else ()


def named_row(cells: Cells) -> exp.Expr:
    """The value of ROW(…), with PostgreSQL's names of its columns, which JSON shows."""
    named = (
        exp.PropertyEQ(
            this=exp.to_identifier(f"f{i}"),
            expression=named_row(row) if (row := cells_of(cell)) else cell.copy(),
        )
        for i, cell in enumerate(cells, start=1)
    )
    return exp.Struct(expressions=list(named))


def keeps_values(node: exp.Expr) -> bool:
    """Does a node have its arguments as values in its result?"""
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in _KEEPING
    return isinstance(node, exp.Array | exp.Coalesce | exp.If | exp.Case)


def _field(cell: exp.Expr, type_: ColumnType | None) -> exp.Expr:
    if isinstance(cell, exp.Null):
        return exp.Literal.string("")
    if inner := cells_of(cell):
        return call("quoted_field", text_of_row(inner, [None] * len(inner)))
    if type_ is None:
        return call("field_of_row", cell)
    if type_.kind is Kind.BOOLEAN:
        return exp.Coalesce(this=call("letter", cell), expressions=[exp.Literal.string("")])
    return call("quoted_field", exp.cast(cell, exp.DType.TEXT, copy=False))


def _concat(parts: Cells) -> exp.Expr:
    return exp.Anonymous(this="concat", expressions=list(parts))


def all_null(node: exp.Is, cells: Cells) -> exp.Expr:
    """`row IS NULL`, which holds if all its columns are NULL. IS NOT NULL holds if none is."""
    none = isinstance(node.parent, exp.Not) and IS_NOT in node.parent.meta
    return exp.Paren(this=chain(exp.Or if none else exp.And, list(map(_is_null, cells))))


def compared(kind: type[exp.Expr], left: Cells, right: Cells) -> exp.Expr:
    """A comparison of two rows. NULL equals NULL, and is larger than all other values, as in
    PostgreSQL if one of the rows is no ROW(…). Raises SqlError for rows of different lengths."""
    if len(left) != len(right):
        raise SqlError(
            f"A row of {len(left)} columns is compared with one of {len(right)}.",
            cure="Compare rows of the same columns.",
        )
    if kind in (exp.EQ, exp.NullSafeEQ, exp.NEQ, exp.NullSafeNEQ):
        same = exp.Paren(this=chain(exp.And, list(map(_same, left, right))))
        return same if kind in (exp.EQ, exp.NullSafeEQ) else exp.Not(this=same)
    pairs = list(zip(left, right, strict=True))
    tests = [precedes(a, b) if kind in (exp.LT, exp.GTE) else precedes(b, a) for a, b in pairs]
    found = exp.Paren(this=decided(pairs, tests))
    return found if kind in (exp.LT, exp.GT) else exp.Not(this=found)


def _same(a: exp.Expr, b: exp.Expr) -> exp.Expr:
    return exp.NullSafeEQ(this=a.copy(), expression=b.copy())


def _is_null(cell: exp.Expr) -> exp.Expr:
    return exp.Is(this=cell.copy(), expression=exp.Null())


# ---------------------------------------------------------------- nodes that take rows

TAKERS = (exp.Anonymous, exp.Count, exp.Is, exp.Cast, exp.Dot, *COMPARED)
"""The nodes that may take a whole row."""
RowOf = Callable[[exp.Expr], WholeRow | None]
"""The whole row that an expression names; None for other expressions."""


def written_out(node: exp.Expr, row_of: RowOf) -> exp.Expr | None:
    """What stands for a node of `TAKERS` whose operands are whole rows; None if the node stays, in
    which rows among the arguments are written out then. Raises SqlError."""
    match node:
        case exp.Anonymous():
            return _of_call(node, row_of)
        case exp.Dot(this=exp.Paren() as inner):
            row = row_of(inner)
            alias = None if row is None else exp.to_identifier(row.alias, quoted=True)
            return None if row is None else exp.Column(this=node.expression.copy(), table=alias)
        case exp.Count():
            _count(node, row_of)
        case exp.Cast() if node.is_type(*TEXTS):
            row = row_of(node.this)
            if row is not None:
                node.this.replace(row.text())
            return None
        case exp.Is() if isinstance(node.expression, exp.Null):
            row = row_of(node.this)
            return None if row is None else all_null(node, row.cells())
        case exp.Binary() if isinstance(node, COMPARED):
            return _comparison(node, row_of)
    return None


def _of_call(node: exp.Anonymous, row_of: RowOf) -> exp.Expr | None:
    name = node.name.lower()
    rows = [row_of(each) for each in node.expressions] if name in _CALLED else []
    if name in (TO_JSON, TO_JSONB):
        row = rows[0] if len(rows) == 1 else None
        if row is None:
            return None
        return row.document() if name == TO_JSON else row.canonical_document()
    for argument, row in zip(node.expressions, rows, strict=False):
        if row is not None:
            argument.replace(row.canonical_document() if name in IN_JSONB else row.document())
    return None


_KEEPING = IN_JSON | IN_JSONB | {TO_JSON, TO_JSONB, "to_json", "array_agg", "json_agg", "jsonb_agg"}
_CALLED = {TO_JSON, TO_JSONB, *IN_JSON, *IN_JSONB}


def _count(node: exp.Count, row_of: RowOf) -> None:
    """Write the row that COUNT takes."""
    value = node.this
    inner = value.expressions[0] if isinstance(value, exp.Distinct) else value
    row = None if inner is None else row_of(inner)
    if row is None:
        return
    if inner is value:
        node.set("this", row.number())
        return
    inner.replace(row.guarded(exp.Anonymous(this="row", expressions=row.cells())))


def _comparison(node: exp.Binary, row_of: RowOf) -> exp.Expr | None:
    sides = [side.unnest() for side in (node.this, node.expression)]
    rows = [row_of(side) for side in sides]
    shapes = [
        row is not None or isinstance(side, exp.Tuple)
        for side, row in zip(sides, rows, strict=True)
    ]
    if rows == [None, None] or not all(shapes):
        return None
    left, right = map(_cells, sides, rows)
    found = compared(type(node), left, right)
    for row in rows:
        if row is not None and not isinstance(node, exp.NullSafeEQ | exp.NullSafeNEQ):
            found = row.guarded(found)
    return exp.Paren(this=found)


def _cells(side: exp.Expr, row: WholeRow | None) -> Cells:
    """The values of a side of a comparison."""
    return side.expressions if row is None else row.cells()
