"""The choice of look-ups: which access path finds rows of an operator by some of its columns.

* a relation is looked up by its primary key, a prefix of it, or a readable index whose key begins
  with some of the columns (a second read then gets the row by its primary key);
* a projection or filter by the columns that it passes on;
* a join by one side, then the other side by the join columns of the rows found;
* an aggregate by its grouping columns, or by one of its results, from its state.

An operator that cannot be looked up is refused when the view is declared; no look-up silently
falls back to a full scan.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hornbeam_server.maintain.deltas.algebra import (
    Aggregate,
    Bound,
    Join,
    JoinKind,
    Map,
    Node,
    Partition,
    Scan,
    Union,
)
from hornbeam_server.maintain.deltas.lookups import (
    Between,
    Joined,
    LayoutRows,
    Lookup,
    Mapped,
    Narrowed,
    Never,
    Partitioned,
    State,
    Stored,
    United,
)
from hornbeam_server.maintain.deltas.relations import Field, stored_fields
from hornbeam_server.maintain.deltas.stored_rows import StoredRows
from hornbeam_server.schema.catalog import Catalog, Layout
from hornbeam_server.schema.errors import Unsupported


@dataclass(frozen=True)
class Ways:
    """The context in which look-ups are planned. `state` returns the state of an aggregate, and
    `kept` the stored rows of partitions. With `bound`, the look-up finds the rows between the old
    and the new value of the bound, instead of the rows with single values of the only column."""

    catalog: Catalog
    state: Callable[[Aggregate], State]
    kept: Callable[[Partition], StoredRows]
    bound: Bound | None = None


def find_lookup(node: Node, columns: Sequence[str], ways: Ways) -> Lookup:
    """The look-up of rows of `node` at S0 by `columns` (or some of them: see `Lookup.columns`).

    Raises Unsupported, with the index that would help as its cure.
    """
    wanted = tuple(dict.fromkeys(columns))
    match node:
        case Scan():
            return _scan(node, wanted, ways)
        case Map():
            return _mapped(node, wanted, ways)
        case Join():
            return _joined(node, wanted, ways)
        case Union():
            return _united(node, wanted, ways)
        case Aggregate():
            return _aggregate(node, wanted, ways)
        case Partition():
            return _partition(node, wanted, ways)
    raise AssertionError(node)


def _scan(node: Scan, wanted: Sequence[str], ways: Ways) -> Lookup:
    catalog = ways.catalog
    base = catalog.layout(node.relation)
    by_column = {node.column[name]: name for name in wanted}
    indexes = [i.name for i in catalog.whole_indexes_on(node.relation) if catalog.readable(i.name)]
    layouts = [base, *(catalog.layout(name) for name in indexes)]
    # The longest key prefix wins. Among equals the relation wins, since it needs no second read.
    best = max(layouts, key=lambda layout: len(_leading(layout, by_column)))
    leading = _leading(best, by_column)
    if not leading:
        names = ", ".join(by_column)
        raise Unsupported(
            f"Rows of {node.relation} are looked up by {names or 'nothing'} when what they are "
            "joined with changes, and no access path serves that.",
            cure=f"CREATE INDEX ON {node.relation} ({names})"
            if names
            else "Join on a column, or compare one with the subquery: column > (SELECT …).",
        )
    targets = stored_fields(best.columns[best.positions[column]] for column in leading)
    stored = tuple(
        Field(column, field.duck, field.type)
        for column, field in zip(node.columns, node.fields, strict=True)
    )
    rows = LayoutRows(best, None if best is base else base, stored)
    columns = tuple(by_column[column] for column in leading)
    if ways.bound is not None:
        return Between(node.fields, columns, rows, targets[0], ways.bound.above)
    return Stored(node.fields, columns, rows, targets)


def _leading(layout: Layout, wanted: Mapping[str, str] | Sequence[str]) -> list[str]:
    """The longest prefix of the layout's key that consists of columns of `wanted`."""
    leading: list[str] = []
    for part in layout.key:
        if part.column not in wanted:
            break
        leading.append(part.column)
    return leading


def _mapped(node: Map, wanted: Sequence[str], ways: Ways) -> Lookup:
    if node.nulls.intersection(wanted):
        return Never(node.fields, tuple(wanted))
    passed = {node.passes[name]: name for name in wanted if name in node.passes}
    if wanted and not passed:
        raise _computed(wanted)
    inner = find_lookup(node.input, list(passed), ways)
    return Mapped(node.fields, tuple(passed[c] for c in inner.columns), node, inner)


def _joined(node: Join, wanted: Sequence[str], ways: Ways) -> Lookup:
    """Look up the side whose look-up uses more of the columns; among equals, the left side."""
    found: list[Lookup] = []
    errors: list[Unsupported] = []
    sides = [True] if node.kind in (JoinKind.SEMI, JoinKind.ANTI) else [True, False]
    for from_left in sides:
        try:
            found.append(_from_side(node, wanted, from_left, ways))
        except Unsupported as error:
            errors.append(error)
    if not found:
        raise errors[0]
    return max(found, key=lambda lookup: len(lookup.columns))


def _from_side(node: Join, wanted: Sequence[str], from_left: bool, ways: Ways) -> Lookup:
    side, other = (node.left, node.right) if from_left else (node.right, node.left)
    here = _on_side(node, wanted, from_left)
    if wanted and not here:
        raise _computed(wanted)
    first = find_lookup(side, list(here), ways)
    to_other = [pair[1] if from_left else pair[0] for pair in node.keys]
    second = Narrowed.over(find_lookup(other, to_other, replace(ways, bound=None)), to_other)
    columns = tuple(here[column] for column in first.columns)
    return Joined(node.fields, columns, node, first, second, from_left)


def _on_side(node: Join, wanted: Sequence[str], left: bool) -> dict[str, str]:
    """Column of one side → wanted column: the wanted column itself if it is on this side, or the
    column that the join equates with it."""
    side = node.left if left else node.right
    equal = dict((b, a) if left else (a, b) for a, b in node.keys)
    here: dict[str, str] = {}
    for name in wanted:
        mine = name if name in side.field else equal.get(name)
        if mine is not None:
            here.setdefault(mine, name)
    return here


def _asked(nodes: Sequence[Node]) -> Iterator[tuple[Aggregate | Partition, list[str]]]:
    """The aggregates and partitions below joins, with the columns by which the join looks them up.
    The result depends on the operators only, never on indexes: the layout of a state must not
    change when another index becomes readable."""

    def visit(
        node: Node, wanted: Sequence[str]
    ) -> Iterator[tuple[Aggregate | Partition, list[str]]]:
        match node:
            case Map():
                passed = [node.passes[name] for name in wanted if name in node.passes]
                yield from visit(node.input, passed)
            case Union():
                for part in node.parts:
                    yield from visit(part, wanted)
            case Join():
                for left in (True, False):
                    side = node.left if left else node.right
                    yield from visit(side, list(_on_side(node, wanted, left)))
            case Aggregate() | Partition():
                yield node, list(wanted)

    for node in nodes:
        if isinstance(node, Join):
            for i, side in enumerate(node.inputs):
                yield from visit(side, list(dict.fromkeys(pair[i] for pair in node.keys)))
            if node.bound is not None:
                yield from visit(node.left, [node.bound.left])


def group_orders(nodes: Sequence[Node]) -> dict[int, tuple[str, ...]]:
    """The order of the grouping columns in the keys of states, by the operator's id: the columns
    by which the first join above looks it up come first."""
    orders: dict[int, tuple[str, ...]] = {}
    for node, wanted in _asked(nodes):
        names = [group.name for group in node.groups]
        first = [name for name in wanted if name in names]
        if first:
            rest = (name for name in names if name not in first)
            orders.setdefault(id(node), (*first, *rest))
    return orders


def ranked_calls(nodes: Sequence[Node]) -> dict[int, tuple[str, ...]]:
    """The calls by which groups are looked up, by the aggregate's id: the first wanted column of
    each look-up that has no grouping column."""
    ranked: dict[int, dict[str, None]] = {}
    for node, wanted in _asked(nodes):
        if not isinstance(node, Aggregate):
            continue
        if wanted and node.groups and not node.unique.intersection(wanted):
            ranked.setdefault(id(node), {})[wanted[0]] = None
    return {id_: tuple(names) for id_, names in ranked.items()}


def _united(node: Union, wanted: Sequence[str], ways: Ways) -> Lookup:
    parts = (find_lookup(part, wanted, ways) for part in node.parts)
    columns = tuple(wanted)
    return United(node.fields, columns, tuple(Narrowed.over(part, columns) for part in parts))


def _aggregate(node: Aggregate, wanted: Sequence[str], ways: Ways) -> Lookup:
    state = ways.state(node)
    rows = LayoutRows(state.layout, None, state.fields)
    if ways.bound is None and not node.groups:
        return Stored(node.fields, (), rows, (), state, constant=(1,))
    columns = list(itertools.takewhile(lambda name: name in wanted, state.order))
    if not columns:
        columns = [name for name in wanted if name in state.ranks][:1]
        if columns:
            rows = LayoutRows(state.ranks[columns[0]], state.layout, state.fields)
        elif not wanted:
            raise Unsupported(
                "All groups would have to be read when what they are compared with changes.",
                cure="Compare an aggregate or a grouping column itself: SUM(x) > (SELECT …).",
            )
        elif not set(wanted) & set(state.order):
            raise _computed(wanted)
        else:
            raise Unsupported(
                f"Groups are looked up by {', '.join(wanted)}, and other look-ups use"
                f" {state.order[0]}.",
                cure="Write the subquery twice, in two WITH queries.",
            )
    targets = tuple(node.field[column] for column in columns)
    if ways.bound is not None:
        above = ways.bound.above
        return Between(node.fields, tuple(columns), rows, targets[0], above, state)
    return Stored(node.fields, tuple(columns), rows, targets, state)


def _partition(node: Partition, wanted: Sequence[str], ways: Ways) -> Lookup:
    kept = ways.kept(node)
    columns = tuple(itertools.takewhile(lambda name: name in wanted, kept.order))
    if not columns or ways.bound is not None:
        raise Unsupported(
            f"Rows that are computed for each ({', '.join(node.by)}) are looked up by"
            f" {', '.join(wanted) or 'nothing'}.",
            cure=f"Join on {kept.order[0]}.",
        )
    return Partitioned(node.fields, columns, node, kept)


def _computed(wanted: Iterable[str]) -> Unsupported:
    names = ", ".join(wanted)
    return Unsupported(
        f"Rows are looked up by {names}, which is computed from columns and not one.",
        cure="Join on plain columns.",
    )
