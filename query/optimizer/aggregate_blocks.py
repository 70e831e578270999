"""Aggregate SELECTs over inner joins, in a form in which those of views and statements can be
compared. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp

from hornbeam_server.query.binding.algebra import Block
from hornbeam_server.query.binding.binder import output_name
from hornbeam_server.query.binding.blocks import Classes, ColumnOf, joinable, split
from hornbeam_server.query.dialect.aggregates import FUNCTIONS, Function
from hornbeam_server.query.dialect.functions import function_name, is_aggregate
from hornbeam_server.query.dialect.grammar import NAME, identifier
from hornbeam_server.query.dialect.sums import is_quotient
from hornbeam_server.query.optimizer.select_trees import (
    flatten,
    qualify,
    star_of,
)
from hornbeam_server.query.typing.constants import CONSTANT
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.trees import nodes_of, supersede, unlink, unlink_gone
from hornbeam_server.schema.types import ColumnType

_PARTS = {
    "expressions", "from_", "joins", "where", "group", "having", "order", "limit", "offset",
    "with_",
}  # fmt: skip
_PART_NAMES = {"distinct": "DISTINCT", "qualify": "QUALIFY", "windows": "WINDOW"}
_RANDOM = {
    "error", "gen_random_uuid", "nextval", "pg_sleep", "rand", "random", "setseed", "sleep_ms",
    "uuid", "uuidv4", "uuidv7", "write_log",
}  # fmt: skip
"""Functions that are evaluated for each row."""
_CONSTANTS = (exp.Literal, exp.Null, exp.Boolean, exp.Placeholder)
_EXCHANGED: dict[type[exp.Expr], type[exp.Binary]] = {exp.GT: exp.LT, exp.GTE: exp.LTE}
_SYMMETRIC = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ)


class NotAnswered(Exception):
    """No view, or not this view, answers a block. The message says why, as the end of a
    sentence."""


@dataclass(frozen=True, slots=True)
class Call:
    """An aggregate: `function` of `argument` (None for ROWS), over the rows that fulfil
    `condition` (FILTER)."""

    function: Function
    argument: exp.Expr | None
    condition: exp.Expr | None


@dataclass(frozen=True)
class AggregateBlock:
    """A SELECT with GROUP BY or aggregates over inner joins of relations.

    `select` is a copy of its own, in which no output name stands for an expression. The conditions
    of ON, USING and WHERE are the `equalities` between columns of two sources, and the other
    `conditions`. `keys` are the expressions of GROUP BY.
    """

    number: int
    block: Block
    select: exp.Select
    equalities: tuple[exp.Expr, ...]
    conditions: tuple[exp.Expr, ...]
    keys: tuple[exp.Expr, ...]

    def place(self, node: exp.Expr) -> ColumnOf | None:
        """(alias, column) of a column of this block; None for any other node."""
        number, alias, name = node.meta.get("column", (None, "", ""))
        return (alias, name) if number == self.number and alias else None

    def reads(self, node: exp.Expr) -> bool:
        """Does an expression read a column of this block?"""
        return any(self.place(column) is not None for column in nodes_of(node, exp.Column))

    def pairs(self) -> Iterator[tuple[ColumnOf, ColumnOf]]:
        """The two columns of each equality."""
        for node in self.equalities:
            yield self.pair(node)

    def pair(self, equality: exp.Expr) -> tuple[ColumnOf, ColumnOf]:
        left, right = self.place(equality.this.unnest()), self.place(equality.expression.unnest())
        assert left is not None
        assert right is not None
        return left, right


def aggregates(select: exp.Select) -> bool:
    """Is this a SELECT with GROUP BY or aggregates?"""
    if select.args.get("group") or select.args.get("having"):
        return True
    return any(is_aggregate(node) for part in select.expressions for node in own_nodes(part))


def own_nodes(node: exp.Expr) -> Iterator[exp.Expr]:
    """The nodes of an expression without those inside its subqueries."""
    return node.walk(bfs=False, prune=lambda part: isinstance(part, exp.Query))


def aggregate_block(
    number: int, block: Block, select: exp.Select, catalog: Catalog
) -> AggregateBlock:
    """An aggregate SELECT as a block that can be compared. Raises NotAnswered."""
    if not block.inner_only:
        raise NotAnswered("the block has outer, semi or anti joins")
    copy = select.copy()
    before = nodes_of(copy)
    try:
        found = _read(number, block, copy, catalog)
    except BaseException:
        unlink(copy)
        raise
    finally:
        unlink_gone(before, copy.walk())
    return found


def _read(number: int, block: Block, select: exp.Select, catalog: Catalog) -> AggregateBlock:
    for name, part in select.args.items():
        if part and name not in _PARTS:
            raise NotAnswered(f"the block has {_PART_NAMES.get(name, name.upper())}")
    if any(star_of(node) is not None for node in select.expressions):
        raise NotAnswered("the block selects *")
    if select.find(exp.Window) is not None:
        raise NotAnswered("the block has window functions")
    if any(function_name(call) in _RANDOM for call in nodes_of(select, exp.Func)):
        raise NotAnswered("the block has a function that is evaluated for each row")
    named = _named(select)
    _name_projections(select)
    _spell_out(select, named)
    _check_subqueries(number, select)
    for column in list(select.find_all(exp.Column)):
        qualify(column)
    items, on = flatten(select)
    if not all(isinstance(item, exp.Table) and "source" in item.meta for item in items):
        raise NotAnswered("FROM has an item that is no relation")
    where = select.args.get("where")
    wanted = [*on, *split(where.this if where is not None else None)]
    found = AggregateBlock(number, block, select, (), (), tuple(_keys(select)))
    equal = [node for node in wanted if _is_equality(node, found, catalog)]
    other = [node for node in wanted if not _is_equality(node, found, catalog)]
    conditions = tuple(part for node in other for part in _parted(node))
    return AggregateBlock(number, block, select, tuple(equal), conditions, found.keys)


def _named(select: exp.Select) -> dict[str, exp.Expr]:
    """The expressions of output names; the first of equal names counts."""
    aliases = [node for node in select.expressions if isinstance(node, exp.Alias)]
    return {node.alias: node.this for node in reversed(aliases)}


def _name_projections(select: exp.Select) -> None:
    """Give every result column an explicit name."""
    for node in list(select.expressions):
        if not isinstance(node, exp.Alias):
            name = identifier(output_name(node))
            node.replace(exp.Alias(this=node.copy(), alias=name))


def _spell_out(select: exp.Select, named: Mapping[str, exp.Expr]) -> None:
    """Replace output names by their expressions: a view's column of the same name would hide
    them."""
    while found := [c for c in nodes_of(select, exp.Column) if _is_output_name(c, select)]:
        for column in found:
            value = named.get(column.name)
            if value is None or isinstance(value.unnest(), _CONSTANTS):
                raise NotAnswered("an output name stands for a constant")
            plain = isinstance(value, exp.Column)
            supersede(column, value.copy() if plain else exp.Paren(this=value.copy()))


def _is_output_name(column: exp.Column, select: exp.Select) -> bool:
    return bool(column.meta.get("alias")) and column.parent_select is select


def _check_subqueries(number: int, select: exp.Select) -> None:
    """Raise NotAnswered if a subquery reads a column of the block."""
    for column in select.find_all(exp.Column):
        place = column.meta.get("column", (None,))
        if place[0] == number and column.parent_select is not select:
            raise NotAnswered("a subquery reads a column of the block")


def _keys(select: exp.Select) -> Iterator[exp.Expr]:
    group = select.args.get("group")
    if group is None:
        return
    if any(value for name, value in group.args.items() if name != "expressions"):
        raise NotAnswered("the block has an unusual GROUP BY")
    if group.find(exp.GroupingSets, exp.Rollup, exp.Cube) is not None:
        raise NotAnswered("the block has grouping sets, and a row is in a group of each")
    for node in group.expressions:
        key = node.unnest()
        if isinstance(key, exp.Literal):
            position = int(key.name) if key.is_int else 0
            if not 0 < position <= len(select.expressions):
                raise NotAnswered("the block groups by a constant")
            key = select.expressions[position - 1].unalias().unnest()
        yield key


def _is_equality(node: exp.Expr, block: AggregateBlock, catalog: Catalog) -> bool:
    """Is this condition an equality of comparable columns of two sources?"""
    if not isinstance(node, exp.EQ):
        return False
    left, right = block.place(node.this.unnest()), block.place(node.expression.unnest())
    if left is None or right is None or left[0] == right[0]:
        return False
    return joinable(*(type_of(place, block.block, catalog) for place in (left, right)))


def _parted(node: exp.Expr) -> Iterator[exp.Expr]:
    """BETWEEN as two comparisons; any other condition as it is."""
    if isinstance(node, exp.Between) and not node.args.get("symmetric"):
        yield exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
        yield exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())
    else:
        yield node


def type_of(place: ColumnOf, block: Block, catalog: Catalog) -> ColumnType:
    """The type of a column of a block."""
    layout = catalog.layout(block.relation(place[0]))
    return layout.columns[layout.positions[place[1]]].type.stored()


def is_call(node: exp.Expr) -> bool:
    """Is this node an aggregate, with its FILTER?"""
    return is_aggregate(node.this if isinstance(node, exp.Filter) else node)


def call_of(node: exp.Expr, block: AggregateBlock, catalog: Catalog) -> Call | None:
    """The aggregate that a node calls; None if no view answers it."""
    condition = None
    if isinstance(node, exp.Filter):
        condition, node = node.expression.this, node.this
    function, argument = FUNCTIONS.get(type(node)), node.this
    if function is None or (node.expressions and function is not Function.COUNT):
        return None
    if isinstance(node, exp.Avg) and not is_quotient(node):
        return None
    if isinstance(argument, exp.Distinct):
        if len(argument.expressions) != 1 or function in (Function.SUM, Function.AVG):
            return None
        function = Function.DISTINCT if function is Function.COUNT else function
        argument = argument.expressions[0]
    if function is Function.COUNT:
        if node.expressions:
            return None
        if _never_null(argument, block, catalog):
            return Call(Function.ROWS, None, condition)
    return Call(function, argument.unnest(), condition)


def _never_null(node: exp.Expr | None, block: AggregateBlock, catalog: Catalog) -> bool:
    """Is the argument of a COUNT never NULL?"""
    if node is None or isinstance(node.unnest(), exp.Star | exp.Literal):
        return True
    place = block.place(node.unnest())
    if place is None:
        return False
    relation = catalog.schema.relation(block.block.relation(place[0]))
    return not relation.column(place[1]).nullable or place[1] in relation.primary_key


def classes_of(pairs: Iterable[tuple[ColumnOf, ColumnOf]]) -> Classes:
    classes = Classes()
    for left, right in pairs:
        classes.unite(left, right)
    return classes


Name = Callable[[ColumnOf], ColumnOf]
"""From a column of a block to the column that stands for it in texts."""


def text_of(node: exp.Expr, block: AggregateBlock, name: Name) -> str:
    """An expression as text that is equal for equal expressions. Comparisons have one direction."""

    def named(part: exp.Expr) -> exp.Expr:
        if CONSTANT in part.meta:
            return exp.Literal.string(repr(part.meta[CONSTANT]))
        if not isinstance(part, exp.Column):
            return part
        place = block.place(part)
        if place is None:
            return exp.column(part.name, table=f"outer {part.table}", quoted=True)
        alias, column = name(place)
        return exp.column(column, table=alias, quoted=True)

    copy = node.unnest().copy()
    before = nodes_of(copy)
    copy = copy.transform(named, copy=False)
    try:
        return _directed(copy)
    finally:
        unlink(copy)
        unlink_gone(before, copy.walk())


def _directed(node: exp.Expr) -> str:
    if type(node) in _EXCHANGED:
        node = _EXCHANGED[type(node)](this=node.expression.copy(), expression=node.this.copy())
    if isinstance(node, _SYMMETRIC):
        sides = sorted(side.unnest().sql(NAME) for side in (node.this, node.expression))
        return f"{type(node).__name__} {sides[0]}, {sides[1]}"
    text: str = node.sql(NAME, normalize_functions="lower")
    return text
