"""SELECTs that take numbers from sequences: `SELECT nextval('s'), upper(name) FROM item`.

Such a SELECT is split. A query without the calls gives all other values. Its rows are then
completed one after the other, in the order of the result: the calls are made, and the expressions
around them are computed. So only rows of the result take numbers.

Blocks below the outermost SELECT that take numbers run before it (`numbered_queries.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set

from sqlglot import exp

from hornbeam_server.query.binding.binder import OutputColumn
from hornbeam_server.query.dialect.functions import makes_or_takes_rows
from hornbeam_server.query.dialect.grammar import NAME
from hornbeam_server.query.expressions import compile_expression
from hornbeam_server.query.parsing.placeholders import named_placeholder
from hornbeam_server.query.parsing.sequence_calls import (
    CALL,
    NUMBER,
    SequenceCall,
    calls_in,
    is_sequence_call,
    read_call,
    refuse_calls,
)
from hornbeam_server.query.typing.constants import named_type
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import Unsupported
from hornbeam_server.schema.trees import nodes_of, unlink, written
from hornbeam_server.schema.types import ColumnType
from hornbeam_server.txlayer.statements.sequence_outputs import Output, Outputs
from hornbeam_server.txlayer.statements.sequence_values import SequenceValue
from hornbeam_server.txlayer.statements.write_expressions import (
    LIFTED,
    ByValues,
    ConstantScope,
)
from hornbeam_server.txlayer.statements.write_plans import Subquery

_CONSTANTS = (
    exp.Literal, exp.Null, exp.Boolean, exp.DataType, exp.Identifier, exp.Var, exp.DataTypeParam,
)  # fmt: skip
Prepare = Callable[[exp.Expr], Subquery]


def split(
    tree: exp.Expr, prepare: Prepare, catalog: Catalog, columns: Sequence[OutputColumn] = ()
) -> tuple[Subquery, Outputs | None]:
    """The query of a bound SELECT without calls, which `prepare` plans, and the columns that have
    calls; None if it has none. `columns`: those of the SELECT. Raises SqlError and its
    subclasses."""
    if not isinstance(tree, exp.Select) or not any(map(calls_in, tree.expressions)):
        refuse_calls(tree.walk())
        return prepare(tree.copy()), None
    if tree.args.get("distinct"):
        raise Unsupported(
            "SELECT DISTINCT cannot have nextval.",
            cure="Write SELECT DISTINCT … FROM (SELECT nextval('s'), …) AS t.",
        )
    query = tree.copy()
    splitting = _Splitting(query, catalog)
    refuse_calls(query.walk())
    subquery = prepare(query)
    return subquery, splitting.outputs(subquery.prepared.columns, columns)


class _Splitting:
    """Takes the calls out of `query`, a SELECT."""

    def __init__(self, query: exp.Select, catalog: Catalog) -> None:
        self._catalog = catalog
        self._operands: list[exp.Expr] = []
        self._found: list[tuple[int, exp.Expr, list[tuple[str, SequenceCall]], list[str]]] = []
        position = 0
        taken: set[str] = set()
        for item in list(query.expressions):
            if calls_in(item):
                self._take(item, position)
                taken |= {str(position + 1), item.alias_or_name}
            position += _width(item)
        _require_unordered(query, taken)
        self._width = position
        for number, operand in enumerate(self._operands):
            query.append("expressions", exp.alias_(operand, _operand(number), copy=False))

    def _take(self, item: exp.Expr, position: int) -> None:
        value = item.this if isinstance(item, exp.Alias) else item
        root = exp.Paren(this=value.copy())
        calls: list[tuple[str, SequenceCall]] = []
        first = len(self._operands)
        self._split(root.this, calls)
        names = [_operand(number) for number in range(first, len(self._operands))]
        self._found.append((position, root, calls, names))
        value.replace(exp.cast(exp.Null(), "BIGINT", dialect="duckdb"))
        unlink(value)

    def _split(self, node: exp.Expr, calls: list[tuple[str, SequenceCall]]) -> None:
        """Replace the calls below `node` and at it, and the values next to them, by parameters."""
        if is_sequence_call(node):
            name = f"{LIFTED}c{node.meta[CALL]}"
            if name not in dict(calls):  # a translation may have copied the call
                calls.append((name, read_call(node, self._catalog)))
            _replace(node, name)
            return
        if isinstance(node, _CONSTANTS):
            return
        if not calls_in(node) and not isinstance(node, exp.If):
            operand = node.copy()
            _replace(node, _operand(len(self._operands)))
            self._operands.append(operand)
            return
        if makes_or_takes_rows(node) or isinstance(node, exp.Window | exp.Filter):
            raise Unsupported(
                "nextval cannot stand in an aggregate or a window function, nor in its FILTER.",
                cure="Take the numbers in the outermost SELECT.",
            )
        for child in list(node.iter_expressions()):
            self._split(child, calls)

    def outputs(self, columns: Sequence[OutputColumn], bound: Sequence[OutputColumn]) -> Outputs:
        """The columns with calls. `columns` are those of the query, and `bound` those of the
        SELECT, whose types count where an expression has none of its own."""
        typed = bound if len(bound) == self._width else ()
        types: dict[int | str, ColumnType | None] = {}
        places: dict[str, int] = {}
        for number in range(len(self._operands)):
            places[_operand(number)] = place = self._width + number
            types[_operand(number)] = columns[place].type
        computed: list[Output] = []
        for position, root, calls, names in self._found:
            types.update((name, NUMBER) for name, _ in calls)
            scope = ConstantScope(types)
            compiled = compile_expression(root.this, scope)
            type_ = compiled.type if compiled is not None else None
            if type_ is None and typed:
                type_ = typed[position].type
            computed.append(
                Output(
                    position,
                    tuple(SequenceValue.of(call, name, scope, root) for name, call in calls),
                    tuple((name, places[name]) for name in names),
                    ByValues(root.this, scope),
                    type_ or named_type(root.this.args.get("to")),
                )
            )
        return Outputs(self._width, tuple(computed))


def _require_unordered(query: exp.Select, taken: Set[str]) -> None:
    """Raises Unsupported for ORDER BY and GROUP BY of an output column that takes numbers. `taken`
    has the numbers and the names of these columns."""
    for clause in filter(None, (query.args.get("order"), query.args.get("group"))):
        for key in clause.expressions:
            part = key.this if isinstance(key, exp.Ordered) else key
            number = isinstance(part, exp.Literal) and part.is_int
            columns = [each for each in nodes_of(part, exp.Column) if "alias" in each.meta]
            if (number and part.name in taken) or any(each.name in taken for each in columns):
                raise Unsupported(
                    f"{written(key, NAME)} takes numbers, and cannot be an order or a group.",
                    cure="Order by the columns that give the rows; they take their numbers in that"
                    " order.",
                )


def _operand(number: int) -> str:
    """The name of the parameter, and of the query's column, for an operand."""
    return f"{LIFTED}o{number}"


def _replace(node: exp.Expr, name: str) -> None:
    node.replace(named_placeholder(name))
    unlink(node)


def _width(item: exp.Expr) -> int:
    """The number of columns of an item of a bound SELECT."""
    star = item if isinstance(item, exp.Star) else item.this if item.is_star else None
    return 1 if star is None else len(star.meta["columns"])
