"""The row of a group of an immediate view, from the cells of the group.

A cell is a row of the layout of cells (`ImmediateView.cells`): the grouping columns, the lane, the
number of rows, and the sums. A group is the sum over its cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Context, Decimal
from functools import cache, reduce
from typing import Any, NamedTuple

from hornbeam_server.schema.catalog import Layout, cells_of_index
from hornbeam_server.schema.errors import Corruption, LimitExceeded
from hornbeam_server.schema.model import Column
from hornbeam_server.schema.quotients import quotient
from hornbeam_server.schema.sqltext import literal_sql
from hornbeam_server.schema.types import MAX_DECIMAL_PRECISION, ColumnType, Kind, Row, Value
from hornbeam_server.schema.views import FoldedColumn, Folding, ImmediateView

LANES = range(1, 16)
"""The lanes that members of a cluster can have. The encoded key of every lane has two bytes."""
BASE_LANE = 16
"""The lane of the rows that a build of the view has read."""
OWN_LANE = 17
"""The lane of the changes of an open transaction, which are never stored."""
_LANE_BYTES = 2
_OF_VALUES = (Folding.MIN, Folding.MAX, Folding.DISTINCT)
_EXACT = Context(prec=2 * MAX_DECIMAL_PRECISION)
"""The sum over lanes may pass values that do not fit its type."""


Compute = Callable[[Row], Row | None]
"""From the terms of a group (`Computed`) to the row of the view; None if the group has no row.
Raises SqlError for an expression that fails."""


class Fold:
    """Folds cells of one immediate view to rows. With `compute` these are rows of the view; without
    it, of a view that computes columns, its terms. `index` is the name of an index on the view if
    the cells are those of the index."""

    def __init__(
        self, view: ImmediateView, compute: Compute | None = None, index: str | None = None
    ) -> None:
        self.name = view.name if index is None else index
        self.cells = view.cells_name if index is None else cells_of_index(index)
        """The name of the layout of the cells."""
        self.indexed = None if index is None else view.cells_name
        """Of an index: the name of the layout of the view's own cells."""
        self.values = view.values_names
        """The names of the layouts of values."""
        self.grouped = view.grouped
        self._width = len(view.cells.key) - 1
        self._compute = compute
        made, origins = (*view.columns, *view.hidden), view.folded
        if view.computed is not None:
            made, origins = view.computed.terms, view.computed.folded
        self.columns = made if compute is None else (*view.columns, *view.hidden)
        """The columns of the rows."""
        self._finish = tuple(
            _finisher(column, folded, self._width)
            for column, folded in zip(made, origins, strict=True)
        )
        self._nothing = (0,) * (len(view.cells.columns) - self._width - 1)
        self.no_values = (NO_VALUES,) * len(self.values)
        self.needed = tuple(
            frozenset(f.folding for f in origins if f.folding in _OF_VALUES and f.position == i)
            for i in range(len(self.values))
        )
        """For each layout of values, the kinds of columns that follow from it."""

    def group(self, cell: Row) -> Row:
        """The grouping columns of a cell."""
        return cell[: self._width]

    def group_key(self, cell: bytes) -> bytes:
        """The encoded key of the group of a cell, from the encoded key of the cell."""
        return cell[:-_LANE_BYTES]

    def exists(self, cells: Sequence[Row]) -> bool:
        """Does a group with these cells exist? Raises Corruption for a group with fewer than no
        rows."""
        at = self._width + 1
        rows: Any = cells[0][at] if len(cells) == 1 else sum([cell[at] for cell in cells])
        if rows < 0:
            raise Corruption(f"A group of {self.name} has {rows} rows.", cure="Rebuild the view.")
        return rows > 0 or not self.grouped

    def row(self, cells: Sequence[Row], values: Sequence[Values] | None = None) -> Row | None:
        """The row of a group with these cells, and these values for each layout of values; None if
        the group has no rows, or HAVING excludes it.

        Raises Corruption for a group with fewer than no rows, and SqlError for an expression that
        fails.
        """
        if not self.exists(cells):
            return None
        values = self.no_values if values is None else values
        group: Row = (1,)
        totals: Row = self._nothing
        if cells:
            group, at = cells[0][: self._width], self._width + 1
            totals = cells[0][at:] if len(cells) == 1 else added(row[at:] for row in cells)
        row = tuple([finish(group, totals, values) for finish in self._finish])
        return row if self._compute is None else self._compute(row)


class Values(NamedTuple):
    """The values of a group in one layout of values: the first, the last, and their number."""

    first: Value = None
    last: Value = None
    number: int = 0


NO_VALUES = Values()


def added(amounts: Iterable[Row]) -> Row:
    """The sums of tuples of numbers, position by position."""
    return tuple([reduce(plus, column) for column in zip(*amounts, strict=True)])


def plus(a: Any, b: Any) -> Any:
    """The exact sum of two numbers. The thread's own context would round decimals to 28 digits."""
    return _EXACT.add(a, b) if isinstance(a, Decimal) or isinstance(b, Decimal) else a + b


def minus(a: Any, b: Any) -> Any:
    """The exact difference of two numbers."""
    return _EXACT.subtract(a, b) if isinstance(a, Decimal) or isinstance(b, Decimal) else a - b


Finish = Callable[[Row, Row, Sequence[Values]], Value]
"""From the grouping columns, the sums and the values of a group to a column of its row."""


def _finisher(column: Column, folded: FoldedColumn, width: int) -> Finish:
    at, count = folded.position - width - 1, folded.count - width - 1
    number = folded.position
    match folded.folding:
        case Folding.GROUP:
            return lambda group, _, __: group[number]
        case Folding.COUNT:
            return lambda _, totals, __: totals[at]
        case Folding.SUM if column.type.kind is not Kind.DECIMAL:
            return lambda _, totals, __: totals[at] if totals[count] else None
        case Folding.SUM:
            unit = Decimal((0, (1,), -(column.type.scale or 0)))
            return lambda _, totals, __: _rounded(totals[at], unit) if totals[count] else None
        case Folding.AVG if column.type.kind is Kind.DECIMAL:
            return lambda _, totals, __: (
                quotient(totals[at], totals[count]) if totals[count] else None  # type: ignore[arg-type]
            )
        case Folding.AVG:
            return lambda _, totals, __: (
                float(totals[at]) / float(totals[count]) if totals[count] else None  # type: ignore[arg-type]
            )
        case Folding.MIN:
            return lambda _, __, values: values[number].first
        case Folding.MAX:
            return lambda _, __, values: values[number].last
        case Folding.DISTINCT:
            return lambda _, __, values: values[number].number
        case Folding.COMPUTED:
            raise AssertionError("terms are not computed")


def _rounded(total: Any, unit: Decimal) -> Decimal:
    """The total with the number of decimals of its type."""
    return _EXACT.quantize(total, unit)


def require_within_lane(layout: Layout, key: Row, amounts: Row) -> None:
    """Raises LimitExceeded for sums that leave the share of a lane. The sums of all lanes together
    then have the type of their total. `key` are the columns of the cell up to its lane."""
    for column, amount in zip(layout.columns[len(key) :], amounts, strict=True):
        share = _share(column.type)
        if not -share < amount < share:  # type: ignore[operator]
            group = ", ".join(map(literal_sql, key[:-1]))
            raise LimitExceeded(
                f"A sum of {layout.source} would leave the range of its type, in the group"
                f" ({group}).",
                cure="Write smaller values, or drop the view.",
                view=layout.source,
            )


@cache
def _share(type_: ColumnType) -> int:
    if type_.kind is Kind.DECIMAL:
        digits = (type_.precision or MAX_DECIMAL_PRECISION) - (type_.scale or 0)
        return int(10**digits // (len(LANES) + 1))
    return type_.integers[-1] // (len(LANES) + 1)
