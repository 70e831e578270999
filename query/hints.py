"""Conditions that narrow one source by others in one direction only. Pure.

Equi-joins of inner joins are in `Block.equi_joins`. Two more are worth a look-up:

* the ON of a LEFT JOIN: a row of the right side that matches nothing on the left never shows,
  whatever is joined before or after;
* `a.x = b.y OR a.x = b.z` (or `a.x IN (b.y, b.z)`) in WHERE, which no row of `a` fulfils unless
  its `x` is one of those values; it rejects NULL, so that outer joins do not matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from query.access import Equality, Hint, JoinColumn
from query.algebra import Block
from query.blocks import joinable, split
from schema.catalog import Catalog
from schema.types import ColumnType

Pair = tuple[JoinColumn, JoinColumn]


def find_hints(tree: exp.Expr, number: int, block: Block, catalog: Catalog) -> Iterator[Hint]:
    """Hints for the sources of `block`, which has that number in the statement."""
    finder = _Finder(number, block, catalog)
    for join in tree.find_all(exp.Join):
        yield from finder.left_join(join)
    for select in tree.find_all(exp.Select):
        if own_block(select) == number:
            for node in conjuncts(select):
                yield from finder.alternatives(node)


def own_block(select: exp.Select) -> int | None:
    """The number of the block that `select` is: a condition on columns of an outer block is no
    condition on that block's rows.
    """
    for table in select.find_all(exp.Table):
        if "source" in table.meta and table.parent_select is select:
            number: int = table.meta["source"][0]
            return number
    return None


def conjuncts(select: exp.Select) -> Iterator[exp.Expr]:
    """The conjuncts of its WHERE."""
    where = select.args.get("where")
    yield from split(where.this if where is not None else None)


class _Finder:
    def __init__(self, number: int, block: Block, catalog: Catalog) -> None:
        self.number = number
        self.block = block
        self.catalog = catalog

    def left_join(self, join: exp.Join) -> Iterator[Hint]:
        number, alias = join.this.meta.get("source", (None, ""))
        plain = join.args.get("kind") in (None, "", "OUTER") and not join.args.get("method")
        if number != self.number or join.args.get("side") != "LEFT" or not plain:
            return
        for node in split(join.args.get("on")):
            for own, other in self._sides(node):
                if own.alias == alias:
                    yield Hint(alias, Equality(own.column, (other,)))

    def alternatives(self, node: exp.Expr) -> Iterator[Hint]:
        """`own = other OR own = another …`, for every column that may be `own` throughout."""
        found = [list(self._sides(part)) for part in _alternatives(node)]
        if len(found) < 2:
            return
        for own, _ in found[0]:
            others = [other for pairs in found for mine, other in pairs if mine == own]
            if len(others) == len(found):
                yield Hint(own.alias, Equality(own.column, tuple(dict.fromkeys(others))))

    def _sides(self, node: exp.Expr) -> Iterator[Pair]:
        """An equality of columns of two sources, both ways round."""
        if not isinstance(node, exp.EQ):
            return
        left, right = self._column(node.this), self._column(node.expression)
        if left is None or right is None or left.alias == right.alias:
            return
        if joinable(self._type(left), self._type(right)):
            yield left, right
            yield right, left

    def _column(self, node: exp.Expr) -> JoinColumn | None:
        number, alias, name = node.meta.get("column", (None, "", ""))
        return JoinColumn(alias, name) if number == self.number else None

    def _type(self, column: JoinColumn) -> ColumnType:
        layout = self.catalog.layout(self.block.relation(column.alias))
        return layout.columns[layout.positions[column.column]].type


def _alternatives(node: exp.Expr) -> Sequence[exp.Expr]:
    """The parts of a disjunction, IN written out as equalities."""
    node = node.unnest()
    if isinstance(node, exp.Or):
        return [*_alternatives(node.this), *_alternatives(node.expression)]
    if isinstance(node, exp.In) and node.expressions:
        return [_equal(node.this, value) for value in node.expressions]
    return [node]


def _equal(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return exp.EQ(this=left.copy(), expression=right.copy())
