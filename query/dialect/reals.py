"""REAL as PostgreSQL computes it, for DuckDB.

DuckDB computes and compares a REAL with an integer or a decimal as REAL, PostgreSQL as DOUBLE.
DuckDB's results become Infinity or zero where PostgreSQL reports that they are out of range. And
some of its functions have a REAL for a REAL where PostgreSQL has a DOUBLE. Binding marks such nodes
where the syntax shows the types; `wrap_real` writes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from hornbeam_server.query.dialect.arrays import is_array
from hornbeam_server.query.dialect.macros import call
from hornbeam_server.query.dialect.sums import TypeOf, is_real, whole

READ = "read_reals"
"""Key in the meta of a node: for each operand the macro through which it is read, or None. The mark
is the node's, because operands are exchanged for columns of views."""
AROUND = "around"
"""Key in the meta of a node: the macro through which its value is read."""
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div)
_COMPARISONS = (
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ,
    exp.Between, exp.In, exp.Nullif,
)  # fmt: skip
_DOUBLES = frozenset(
    {"floor", "ceil", "ceiling", "trunc", "sign", "median", "quantile_cont", "mod", "fmod"}
)
"""Functions of a REAL that are DOUBLE in PostgreSQL and REAL in DuckDB."""
_BINARY = (*_ARITHMETIC, *_COMPARISONS, exp.DPipe)
_JOINED = frozenset({"concat", "concat_ws"})
_JSON = frozenset({"to_json", "row_to_json"})


def mark_reals(node: exp.Expr, type_of: TypeOf) -> None:
    """Note how the operands of a node are read (`READ`), and whether its value is rounded
    (`AROUND`)."""
    operands = list(_operands(node))
    reals = [is_real(operand, type_of) for operand in operands]
    if not any(reals) or _is_element(node, operands, type_of):
        return
    pairs = zip(operands, reals, strict=True)
    alike = all(real or isinstance(operand, exp.Null) for operand, real in pairs)
    kept = isinstance(node, exp.Nullif) and reals[0] and not alike
    if isinstance(node, exp.Sum) or (isinstance(node, _ARITHMETIC) and alike) or kept:
        node.meta[AROUND] = "real"
    if not (isinstance(node, exp.Sum) or (isinstance(node, _COMPARISONS) and alike)):
        node.meta[READ] = [_macro(node) if real else None for real in reals]


def _is_element(node: exp.Expr, operands: Sequence[exp.Expr], type_of: TypeOf) -> bool:
    """Whether a REAL is put to an array by `||`, as it is."""
    return isinstance(node, exp.DPipe) and any(is_array(each, type_of) for each in operands)


def _macro(node: exp.Expr) -> str:
    """The macro through which a node reads a REAL."""
    if _is_joined(node):
        return "text_of_real"
    return "shortest" if _is_json(node) else "equal_double"


def _operands(node: exp.Expr) -> Iterator[exp.Expr]:
    """The operands of a node that computes with numbers otherwise than DuckDB does."""
    match node:
        case exp.Between() | exp.In():
            yield from compared_values(node)
        case exp.Round() | exp.Sum():
            yield node.this
        case exp.Anonymous() if _is_read_otherwise(node):
            yield from map(argument_value, node.expressions)
        case exp.Binary() | exp.Nullif() if isinstance(node, _BINARY):
            yield from (node.this, node.expression)


def compared_values(node: exp.Between | exp.In) -> Iterator[exp.Expr]:
    """The value and what it is compared with: bounds, a list, or a query."""
    yield node.this
    if isinstance(node, exp.Between):
        yield from (node.args["low"], node.args["high"])
        return
    yield from node.expressions
    if node.args.get("query") is not None:
        yield node.args["query"]


def argument_value(argument: exp.Expr) -> exp.Expr:
    """An argument without DISTINCT and ORDER BY."""
    inner = argument.this if isinstance(argument, exp.Order) else argument
    return inner.expressions[0] if isinstance(inner, exp.Distinct) else inner


def _is_read_otherwise(node: exp.Anonymous) -> bool:
    return node.name.lower() in _DOUBLES or _is_json(node) or _is_joined(node)


def _is_joined(node: exp.Expr) -> bool:
    named = isinstance(node, exp.Anonymous) and node.name.lower() in _JOINED
    return named or isinstance(node, exp.DPipe)


def _is_json(node: exp.Expr) -> bool:
    name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
    return name in _JSON or name.startswith("json_")


def wrap_real(node: exp.Expr) -> None:
    """Write the macros around the operands of a marked node, and around it, for DuckDB. The node
    itself is still to be written."""
    for operand, macro in zip(list(_operands(node)), node.meta.get(READ, ()), strict=False):
        if macro is not None:
            _within(macro, operand)
    if AROUND in node.meta:
        _within(node.meta[AROUND], whole(node))


def _within(name: str, node: exp.Expr) -> None:
    """Write the call of a macro in the place of a node, its argument."""
    around = call(name)
    node.replace(around)
    around.append("expressions", node)
