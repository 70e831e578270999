"""Whole rows as values: `row_to_json(t)`, `count(t)`, `t = ROW(1, 2)`, `t::TEXT`.

DuckDB has structures for rows, with other texts, other JSON and another rule for NULL. So a whole
row is written out as its columns, in the form that the node around it needs. A row that an outer
join does not find is NULL, which its primary key shows, or NULL in all its columns for the row of a
subquery. A column that `ROW(…)` has made in a subquery is a structure, and is written out likewise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from hornbeam_server.query.binding.names import OutputColumn
from hornbeam_server.query.dialect.functions import object_text
from hornbeam_server.query.dialect.grammar import IS_NOT
from hornbeam_server.query.dialect.macros import call, macro
from hornbeam_server.query.dialect.row_order import decided, precedes
from hornbeam_server.query.parsing.nesting import chain
from hornbeam_server.schema.errors import SqlError
from hornbeam_server.schema.trees import unlink
from hornbeam_server.schema.types import Kind

COMPARED = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
TEXTS = (exp.DType.TEXT, exp.DType.VARCHAR)
TO_JSON, TO_JSONB = "row_to_json", "to_jsonb"
FIELD = "struct_extract"
"""The function that gives a column of a structure."""
IN_JSON = frozenset({macro("json"), "json_group_object"})
"""Functions that write their arguments into JSON, by the names that the parser gives them."""
IN_JSONB = frozenset({"jsonb_build_object", "jsonb_build_array"})
Cells = Sequence[exp.Expr]


FIELDS = "fields"
"""Key in the meta of a structure that is a whole row: its columns."""
NAMED = "named_row"
"""Key in the meta of the structure of ROW(…)."""
VISIBLE = "visible"
"""Key in the meta of a column that has the visible name of a column of its item, although it may be
the name of several."""


@dataclass(frozen=True, slots=True)
class WholeRow:
    """The row of an item of FROM: its alias, its columns with the names by which they are referred
    to and those that are shown, and the columns that are all NULL if the row is not there; none if
    it always is. `value`: the structure that is the row, instead of an item."""

    alias: str
    columns: tuple[tuple[str, str, OutputColumn], ...]
    absent: tuple[str, ...] = ()
    value: exp.Expr | None = None

    def cells(self) -> list[exp.Expr]:
        return [self._column(name) for name, _, _ in self.columns]

    def _column(self, name: str) -> exp.Expr:
        """A column of the row. It is mostly copied, so it has no parents that keep it."""
        if self.value is not None:
            field = [self.value.copy(), exp.Literal.string(name)]
            found: exp.Expr = exp.Anonymous(this=FIELD, expressions=field)
        else:
            parts = (exp.to_identifier(part, quoted=True) for part in (name, self.alias))
            found = exp.Column(**dict(zip(("this", "table"), parts, strict=True)))
            found.meta[VISIBLE] = True
        unlink(found)
        return found

    def guarded(self, value: exp.Expr) -> exp.Expr:
        """The value, and NULL if the row is not there."""
        if self.value is not None:
            tests = [_is_null(self.value, is_row=True)]
        else:
            tests = [
                _is_null(self._column(name), is_row=name in self._rows) for name in self.absent
            ]
        if not tests:
            return value
        found = chain(exp.Or, [exp.Not(this=test) for test in tests])
        return exp.Case(ifs=[exp.If(this=found, true=value)])

    def all_null(self, node: exp.Is) -> exp.Expr:
        """`row IS NULL`, which holds if all its columns are NULL. IS NOT NULL holds if none is."""
        none = isinstance(node.parent, exp.Not) and IS_NOT in node.parent.meta
        tests = [_is_null(self._column(n), is_row=n in self._rows) for n, _, _ in self.columns]
        return exp.Paren(this=chain(exp.Or if none else exp.And, tests))

    @property
    def _rows(self) -> frozenset[str]:
        """The columns that are rows."""
        return frozenset(name for name, _, column in self.columns if column.fields)

    def document(self) -> exp.Expr:
        """The row as JSON, as row_to_json writes it."""
        names = (shown for _, shown, _ in self.columns)
        return self.guarded(object_text(zip(names, self.cells(), strict=True)))

    def canonical_document(self) -> exp.Expr:
        """The row as JSONB."""
        pairs: list[exp.Expr] = []
        for (_, shown, _), cell in zip(self.columns, self.cells(), strict=True):
            pairs += [exp.Literal.string(shown), cell]
        return self.guarded(exp.Anonymous(this="jsonb_build_object", expressions=pairs))

    def text(self) -> exp.Expr:
        return self.guarded(text_of_row(self.cells(), [column for _, _, column in self.columns]))

    def structure(self) -> exp.Expr:
        """The row as a value, which a column of a subquery has."""
        columns = [replace(column, name=name) for name, _, column in self.columns]
        found = structure_of(columns, self.cells())
        guarded = self.guarded(found)
        guarded.meta[FIELDS] = found.meta[FIELDS]
        return guarded

    def number(self) -> exp.Expr:
        """The argument of COUNT of the row."""
        there = exp.Boolean(this=True)
        found = self.guarded(there)
        return exp.Star() if found is there else found


def structure_of(columns: Sequence[OutputColumn], cells: Cells) -> exp.Expr:
    """The row of these columns and values, as a value that a column of a subquery has."""
    pairs = zip(columns, cells, strict=True)
    found = exp.Struct(expressions=[_member(column.name, cell) for column, cell in pairs])
    found.meta[FIELDS] = tuple(columns)
    return found


def row_of_value(value: exp.Expr, fields: Sequence[OutputColumn]) -> WholeRow:
    """The row that a column is, whose columns are `fields`."""
    unlink(value)
    return WholeRow("", tuple((each.name, each.name, each) for each in fields), (), value)


def text_of_row(cells: Cells, columns: Sequence[OutputColumn]) -> exp.Expr:
    """The text of a row: `(1,"a b",)`."""
    parts: list[exp.Expr] = []
    for cell, column in zip(cells, columns, strict=True):
        parts += [exp.Literal.string("," if parts else "("), _field(cell, column)]
    return _concat([*parts, exp.Literal.string(")")])


def cells_of(node: exp.Expr) -> Cells:
    """The columns of ROW(…) or `(a, b)`; none for another expression."""
    row = node.unnest()
    called = isinstance(row, exp.Anonymous) and row.name.lower() == "row"
    return row.expressions if called or isinstance(row, exp.Tuple) else ()


def field_name(place: int) -> str:
    """PostgreSQL's name of a column of ROW(…), by its place from 1."""
    return f"f{place}"


def named_row(cells: Cells) -> exp.Expr:
    """The value of ROW(…), with PostgreSQL's names of its columns, which JSON shows."""
    named = [
        _member(field_name(i), named_row(row) if (row := cells_of(cell)) else cell.copy())
        for i, cell in enumerate(cells, start=1)
    ]
    found = exp.Struct(expressions=named)
    found.meta[NAMED] = True
    return found


def _member(name: str, value: exp.Expr) -> exp.Expr:
    return exp.PropertyEQ(this=exp.to_identifier(name, quoted=True), expression=value)


def fields_of(node: exp.Expr) -> Cells:
    """The columns of a row that `named_row` has written; none for another expression."""
    return [each.expression for each in node.expressions] if NAMED in node.meta else ()


def keeps_values(node: exp.Expr) -> bool:
    """Does a node have its arguments as values in its result?"""
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in _KEEPING
    return isinstance(node, exp.Array | exp.Coalesce | exp.If | exp.Case)


def may_hold_row(node: exp.Expr) -> bool:
    """May the column of a row stand below this node, and be written out or compared there?"""
    called = isinstance(node, exp.Anonymous) and node.name.lower() == FIELD
    return called or keeps_values(node) or isinstance(node, _HOLDERS)


def _field(cell: exp.Expr, column: OutputColumn) -> exp.Expr:
    if isinstance(cell, exp.Null):
        return exp.Literal.string("")
    if inner := cells_of(cell):
        unknown = [OutputColumn("", None)] * len(inner)
        return call("quoted_field", text_of_row(inner, unknown))
    if column.fields:
        return call("quoted_field", row_of_value(cell, column.fields).text())
    if column.type is None:
        return call("field_of_row", cell)
    if column.type.kind is Kind.BOOLEAN:
        return exp.Coalesce(this=call("letter", cell), expressions=[exp.Literal.string("")])
    return call("quoted_field", exp.cast(cell, exp.DType.TEXT, copy=False))


def _concat(parts: Cells) -> exp.Expr:
    return exp.Anonymous(this="concat", expressions=list(parts))


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


def _is_null(cell: exp.Expr, *, is_row: bool) -> exp.Expr:
    """Is a value NULL? A row of NULLs is none, although IS NULL holds for it."""
    kind = exp.NullSafeEQ if is_row else exp.Is
    return kind(this=cell.copy(), expression=exp.Null())


# ---------------------------------------------------------------- nodes that take rows

_HOLDERS = (
    *(exp.Alias, exp.Select, exp.Ordered, exp.Group, exp.Paren, exp.Tuple, exp.PropertyEQ),
    *(exp.In, exp.Is, exp.Count, exp.Distinct, exp.Dot, *COMPARED),
)
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
            if row is None or row.value is not None:
                return None
            alias = exp.to_identifier(row.alias, quoted=True)
            return exp.Column(this=node.expression.copy(), table=alias)
        case exp.Count():
            _count(node, row_of)
        case exp.Cast() if node.is_type(*TEXTS):
            row = row_of(node.this)
            if row is not None:
                node.this.replace(row.text())
            return None
        case exp.Is() if isinstance(node.expression, exp.Null):
            row = row_of(node.this)
            return None if row is None else row.all_null(node)
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
        row is not None or bool(cells_of(side)) for side, row in zip(sides, rows, strict=True)
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
    return cells_of(side) if row is None else row.cells()
