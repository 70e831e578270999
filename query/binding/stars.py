"""Stars that are written out as columns: `*` over USING and NATURAL, whose columns PostgreSQL shows
first, and DuckDB in their places; stars with columns that are rows, which the whole query returns
as texts; and `(r).*` of a column that is a row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from hornbeam_server.query.binding.names import Frame, Item, OutputColumn
from hornbeam_server.query.binding.whole_rows import RowOf


def with_written_stars(
    nodes: Sequence[exp.Expr], frame: Frame, row_of: RowOf, *, outermost: bool
) -> Sequence[exp.Expr]:
    """The items of a SELECT, in which stars are written out where DuckDB's differ. `* EXCLUDE` and
    its like, which PostgreSQL does not have, keep the order of DuckDB. `outermost`: the items are
    those of the whole query."""
    written: dict[int, list[exp.Expr]] = {}
    for node in nodes:
        if _is_of_value(node):
            written[id(node)] = list(_cells(node, row_of))
        elif (table := _table_of(node)) is not None and _is_reordered(frame, table, outermost):
            written[id(node)] = list(_columns(frame, table))
    if not any(written.values()):
        return nodes
    parent = nodes[0].parent
    assert parent is not None
    listed = [each for node in nodes for each in written.get(id(node)) or (node,)]
    parent.set("expressions", listed)
    for node in nodes:
        if written.get(id(node)):
            node.parent = None
    return listed


def _is_of_value(node: exp.Expr) -> bool:
    """Is the node `(r).*`?"""
    return isinstance(node, exp.Dot) and isinstance(node.expression, exp.Star)


def _cells(node: exp.Expr, row_of: RowOf) -> Iterator[exp.Expr]:
    """The columns of `(r).*`; none if `r` is no column that is a row."""
    row = row_of(node.this)
    if row is not None and row.value is not None:
        for (_, shown, _), cell in zip(row.columns, row.cells(), strict=True):
            yield exp.Alias(this=cell, alias=exp.to_identifier(shown, quoted=True))


def _table_of(node: exp.Expr) -> str | None:
    """The item of FROM of a plain star, "" for all; None for another node."""
    if isinstance(node, exp.Star) and not any(node.args.values()):
        return ""
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        return None if any(node.this.args.values()) else node.table
    return None


def _is_reordered(frame: Frame, table: str, outermost: bool) -> bool:
    """Has the star of `table` another order than DuckDB's, or columns that are rows?"""
    if frame.open() or any(not item.name for item in frame.items):
        return False
    columns = list(_of(frame, table))
    if any(name in item.twice for item, name, _ in columns):
        return False
    rows = outermost and any(column.fields for _, _, column in columns)
    return rows or (not table and frame.is_reordered())


def _of(frame: Frame, table: str) -> Iterator[tuple[Item, str, OutputColumn]]:
    """The columns of a star, with the names by which they are referred to."""
    if not table:
        yield from frame.star()
    for item in frame.items:
        if table and item.alias == table:
            yield from ((item, name, column) for name, column in item.columns)


def _columns(frame: Frame, table: str) -> Iterator[exp.Expr]:
    for item, name, _ in _of(frame, table):
        owner = None if name in frame.merged and not table else item.alias
        column = exp.column(name, table=owner, quoted=True)
        shown = item.shown(name)
        yield (
            column
            if shown == name
            else exp.Alias(this=column, alias=exp.to_identifier(shown, quoted=True))
        )
