"""Conditions that narrow one source by others in one direction only. Pure.

Equi-joins of inner joins are in `Block.equi_joins`. Two more kinds of condition justify a lookup:

* the ON of a LEFT JOIN: a row of the right side that matches no row on the left never appears in
  the result, regardless of the other joins;
* `a.x = b.y OR a.x = b.z` (or `a.x IN (b.y, b.z)`) in WHERE: a row of `a` satisfies it only if its
  `x` is one of those values. The condition rejects NULL, so outer joins do not matter.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from hornbeam_server.query.binding.algebra import Block
from hornbeam_server.query.binding.blocks import joinable, split
from hornbeam_server.query.optimizer.access_paths import Equality, Hint, JoinColumn
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.trees import nodes_of
from hornbeam_server.schema.types import ColumnType

Pair = tuple[JoinColumn, JoinColumn]


def find_hints(places: BlockPlaces, number: int, block: Block, catalog: Catalog) -> Iterator[Hint]:
    """Yield the hints for the sources of `block`, which is block `number` of the statement."""
    finder = _Finder(number, block, catalog)
    for join in places.joins.get(number, ()):
        yield from finder.left_join(join)
    for select in places.selects.get(number, ()):
        for node in conjuncts(select):
            yield from finder.alternatives(node)


class BlockPlaces:
    """The SELECTs and joins of each block of a statement, found in one walk over the tree.

    A condition in a subquery does not restrict the rows of an outer block that it refers to."""

    def __init__(self, tree: exp.Expr) -> None:
        self.selects: dict[int, list[exp.Select]] = {}
        self.joins: dict[int, list[exp.Join]] = {}
        self._numbers: dict[int, int] = {}
        for table in nodes_of(tree, exp.Table):
            if "source" in table.meta:
                number = table.meta["source"][0]
                self._numbers.setdefault(id(table.parent_select), number)
                if isinstance(table.parent, exp.Join) and table.arg_key == "this":
                    self.joins.setdefault(number, []).append(table.parent)
        for select in nodes_of(tree, exp.Select):
            found = self.number(select)
            if found is not None:
                self.selects.setdefault(found, []).append(select)

    def number(self, select: exp.Select) -> int | None:
        """The block number of `select`; None if it is not a block."""
        return self._numbers.get(id(select))


def conjuncts(select: exp.Select) -> Iterator[exp.Expr]:
    """Yield the conjuncts of the WHERE of `select`."""
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
            if isinstance(node, exp.EQ):
                for own, other in self._sides(node.this, node.expression):
                    if own.alias == alias:
                        yield Hint(alias, Equality(own.column, (other,)))

    def alternatives(self, node: exp.Expr) -> Iterator[Hint]:
        """Yield the hints of `own = other OR own = another …`: one for every column `own` that all
        the equalities share."""
        found: list[list[Pair]] = []
        for left, right in _alternatives(node):
            sides = list(self._sides(left, right))
            if not sides:  # stop early: most lists hold constants
                return
            found.append(sides)
        if len(found) < 2:
            return
        for own, _ in found[0]:
            others = [other for pairs in found for mine, other in pairs if mine == own]
            if len(others) == len(found):
                yield Hint(own.alias, Equality(own.column, tuple(dict.fromkeys(others))))

    def _sides(self, one: exp.Expr, another: exp.Expr) -> Iterator[Pair]:
        """Yield an equality of columns of two sources in both directions."""
        left, right = self._column(one), self._column(another)
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


def _alternatives(node: exp.Expr) -> Iterator[tuple[exp.Expr, exp.Expr]]:
    """Yield the two sides of each equality in a disjunction; IN counts as several equalities. Any
    other part yields (part, part), which cannot be two columns of different sources."""
    node = node.unnest()
    if isinstance(node, exp.Or):
        yield from _alternatives(node.this)
        yield from _alternatives(node.expression)
    elif isinstance(node, exp.In) and node.expressions:
        yield from ((node.this, value) for value in node.expressions)
    elif isinstance(node, exp.EQ):
        yield node.this, node.expression
    else:
        yield node, node
