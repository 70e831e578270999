"""The choice of look-ups: which access path finds rows of an operator by some of its columns.

* a relation is looked up by its primary key, a prefix of it, or a readable index whose key begins
  with some of the columns (a second read then gets the row by its primary key);
* a projection or filter by the columns that it passes on;
* a join by one side, then the other side by the join columns of the rows found;
* an aggregate by its grouping columns, or by one of its results, from its state;
* for a join without an equality, an operator by a range of a column that is compared, through an
  index; else all of its rows, if each of its relations was counted and has at most `SMALL` rows.

An operator that cannot be looked up is refused when the view is declared.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hornbeam_server.maintain.deltas.algebra import (
    Aggregate,
    Bound,
    Clock,
    Join,
    JoinKind,
    Map,
    Node,
    Partition,
    Recursion,
    Scan,
    Union,
    walk,
)
from hornbeam_server.maintain.deltas.fan_out import fan_out
from hornbeam_server.maintain.deltas.lookups import (
    Between,
    Joined,
    LayoutRows,
    Lookup,
    Mapped,
    Narrowed,
    Never,
    Partitioned,
    Recursive,
    State,
    Stored,
    United,
)
from hornbeam_server.maintain.deltas.range_lookups import Limited, Ranged, Whole, relations_of
from hornbeam_server.maintain.deltas.recursion_rows import RecursionRows
from hornbeam_server.maintain.deltas.relations import Field, stored_fields
from hornbeam_server.maintain.deltas.stored_rows import StoredRows
from hornbeam_server.schema.catalog import Catalog, Layout
from hornbeam_server.schema.errors import Unsupported

SMALL = 10_000
"""Maximum rows of a relation that is read whole."""
_ARTICLES = {
    JoinKind.INNER: "an",
    JoinKind.LEFT: "a",
    JoinKind.SEMI: "a",
    JoinKind.ANTI: "an",
}


_Kept = Aggregate | Partition | Recursion
"""The operators with a state."""


@dataclass(frozen=True)
class Ways:
    """The context in which look-ups are planned. `state` returns the state of an aggregate, `kept`
    the stored rows of partitions, and `recursive` those of a recursion. With `bound`, the look-up
    finds the rows between the old and the new value of the bound, and if it is `ranged`, the rows
    in ranges, instead of the rows with single values of the only column. `small` are the relations
    that may be read whole; None: all of them."""

    catalog: Catalog
    state: Callable[[Aggregate], State]
    kept: Callable[[Partition], StoredRows]
    recursive: Callable[[Recursion], RecursionRows]
    small: frozenset[str] | None = None
    bound: Bound | None = None
    ranged: bool = False

    @property
    def by_values(self) -> Ways:
        """The same for look-ups by single values."""
        return replace(self, bound=None, ranged=False)


def small_relations(catalog: Catalog) -> frozenset[str]:
    """The relations that were counted and have at most `SMALL` rows."""
    return frozenset(name for name, rows in catalog.row_counts if rows <= SMALL)


def side_lookup(join: Join, side: int, ways: Ways) -> Lookup:
    """The look-up of rows of the left (0) or the right (1) side of a join, by the columns
    `join.compared` of the other side, or for `join.bound` by the old and the new bound.

    Raises Unsupported, with the cure.
    """
    mine, ways = join.inputs[side], ways.by_values
    wanted = [pair[side] for pair in join.keys]
    if wanted:
        return Narrowed.over(find_lookup(mine, wanted, ways), wanted)
    errors: list[Unsupported] = []
    if join.bound is not None and side == 0:
        try:
            return find_lookup(mine, [join.bound.left], replace(ways, bound=join.bound))
        except Unsupported as error:
            errors.append(error)
    for column, low, high in _limits(join, side):
        try:
            inner = find_lookup(mine, [column], replace(ways, ranged=True))
        except Unsupported as error:
            errors.append(error)
            continue
        return Limited(mine.fields, join.compared(1 - side), inner, low, high)
    try:
        return find_lookup(mine, (), ways)
    except Unsupported as error:
        raise _unranged(join, side, [*errors, error], ways) from None


def _limits(join: Join, side: int) -> Iterator[tuple[str, int | None, int | None]]:
    """The columns of a side that a join compares, and for each the places of its lower and upper
    limits in `join.compared` of the other side. Columns with both limits come first."""
    compared = join.compared(1 - side)
    found: dict[str, list[int | None]] = {}
    for each in join.ranges:
        mine, other = (each.right, each.left) if side else (each.left, each.right)
        is_low = each.above is (side == 0)
        limits, place = found.setdefault(mine, [None, None]), 0 if is_low else 1
        if limits[place] is None:
            limits[place] = compared.index(other)
    for column, (low, high) in sorted(found.items(), key=lambda item: None in item[1]):
        yield column, low, high


def _unranged(
    join: Join, side: int, errors: Sequence[Unsupported], ways: Ways
) -> Unsupported:  # fmt: skip
    """The refusal of a join without an equality. `errors` are those of its look-ups by ranges, and
    then that of all rows."""
    large = _large(join.inputs[side], ways)
    if len(errors) == 1 and any(isinstance(node, Clock) for node in walk(join.right)):
        return Unsupported(
            f"The current time changes in each batch, and each would read all rows of {large} for a"
            " condition that compares no column with it.",
            cure="Write a column alone on one side: at > now() - INTERVAL '1 hour'.",
        )
    if join.one_right or large is None:
        return errors[0]
    cure = errors[0].cure if len(errors) > 1 else "Join on columns: a.x = b.y"
    return Unsupported(
        f"{_ARTICLES[join.kind].capitalize()} {join.kind} join has no equality of two columns, so"
        f" rows are looked up by a range of an index. {errors[-1].message}",
        cure=f"{cure}, or give the number of rows: hornbeam schema plan --rows RELATION=NUMBER.",
    )


def _large(node: Node, ways: Ways) -> str | None:
    """A relation that an operator reads and that may not be read whole."""
    if ways.small is None:
        return None
    return next((name for name in relations_of(node) if name not in ways.small), None)


def find_lookup(node: Node, columns: Sequence[str], ways: Ways) -> Lookup:
    """The look-up of rows of `node` at S0 by `columns` (or some of them: see `Lookup.columns`).

    Raises Unsupported, with the index that would help as its cure.
    """
    wanted = tuple(dict.fromkeys(columns))
    if not wanted and node.unique != frozenset():
        _require_small(node, ways)
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
        case Recursion():
            return _recursive(node, wanted, ways)
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
    if wanted and not leading:
        names = ", ".join(by_column)
        raise Unsupported(
            f"Rows of {node.relation} are looked up by {names} when what they are joined with "
            "changes, and no access path serves that.",
            cure=f"CREATE INDEX ON {node.relation} ({names})",
        )
    targets = stored_fields(best.columns[best.positions[column]] for column in leading)
    stored = tuple(
        Field(column, field.duck, field.type)
        for column, field in zip(node.columns, node.fields, strict=True)
    )
    rows = LayoutRows(best, None if best is base else base, stored)
    columns = tuple(by_column[column] for column in leading)
    if not wanted:
        about = catalog.row_count.get(node.relation)
        return Whole(node.fields, rows, (node.relation,), about)
    if ways.bound is not None:
        return Between(node.fields, columns, rows, targets[0], ways.bound.above)
    if ways.ranged:
        return Ranged(node.fields, columns, rows, targets[0])
    return Stored(node.fields, columns, rows, targets)


def _require_small(node: Node, ways: Ways) -> None:
    """Raise Unsupported if an operator may not be read whole."""
    large = _large(node, ways)
    if large is None:
        return
    rows = ways.catalog.row_count.get(large)
    counted = "its rows were not counted" if rows is None else f"it has {rows} rows"
    raise Unsupported(
        f"All rows of {large} would be read when what they are joined with changes, and {counted};"
        f" a relation of up to {SMALL} rows is read whole.",
        cure="Join on a column, or compare one with the subquery: column > (SELECT …).",
    )


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
    """Look up the side from which fewer rows are read; among equals, the one whose look-up uses
    more of the columns, and then the left one."""
    found: list[Lookup] = []
    errors: list[Unsupported] = []
    # From the right side, left rows without a partner are not found. They have no right columns.
    left_join = node.kind is JoinKind.LEFT and not any(name in node.right.field for name in wanted)
    one_side = left_join or node.kind in (JoinKind.SEMI, JoinKind.ANTI) or not wanted
    sides = [True] if one_side else [True, False]
    for from_left in sides:
        try:
            found.append(_from_side(node, wanted, from_left, ways))
        except Unsupported as error:
            errors.append(error)
    if not found:
        raise errors[0]
    return min(found, key=lambda way: (fan_out(way, ways.catalog).read, -len(way.columns)))


def _from_side(node: Join, wanted: Sequence[str], from_left: bool, ways: Ways) -> Lookup:
    side = node.left if from_left else node.right
    here = _on_side(node, wanted, from_left)
    if wanted and not here:
        raise _computed(wanted)
    first = find_lookup(side, list(here), ways)
    second = side_lookup(node, 1 if from_left else 0, ways)
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


def _asked(nodes: Sequence[Node]) -> Iterator[tuple[_Kept, list[str]]]:
    """The operators with a state below joins, with the columns by which the join looks them up.
    The result depends on the operators only, never on indexes: the layout of a state must not
    change when another index becomes readable."""

    def visit(node: Node, wanted: Sequence[str]) -> Iterator[tuple[_Kept, list[str]]]:
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
            case Aggregate() | Partition() | Recursion():
                yield node, list(wanted)

    for node in nodes:
        if isinstance(node, Join):
            for i, side in enumerate(node.inputs):
                yield from visit(side, list(dict.fromkeys(node.compared(i))))
            if node.bound is not None:
                yield from visit(node.left, [node.bound.left])
        if isinstance(node, Recursion) and node.join is not None:
            yield from visit(node.join.left, [left for left, _ in node.join.keys])


def group_orders(nodes: Sequence[Node]) -> dict[int, tuple[str, ...]]:
    """The order of the grouping columns in the keys of states, by the operator's id: the columns
    by which the first join above looks it up come first."""
    orders: dict[int, tuple[str, ...]] = {}
    for node, wanted in _asked(nodes):
        if isinstance(node, Recursion):
            continue
        names = [group.name for group in node.groups]
        first = [name for name in wanted if name in names]
        if first:
            rest = (name for name in names if name not in first)
            orders.setdefault(id(node), (*first, *rest))
    return orders


def recursion_orders(nodes: Sequence[Node]) -> dict[int, tuple[tuple[str, ...], ...]]:
    """The orders of the stored rows of recursions, by the operator's id: that of its steps, and one
    for each look-up that needs another."""
    orders = {id(node): [node.order] for node in nodes if isinstance(node, Recursion)}
    for node, wanted in _asked(nodes):
        if isinstance(node, Recursion):
            found = orders[id(node)]
            if wanted and not any(order[:1] and order[0] in wanted for order in found):
                found.append(tuple(wanted))
    return {key: tuple(found) for key, found in orders.items()}


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
    if not wanted:
        return Whole(node.fields, rows, relations_of(node), None, state)
    columns = list(itertools.takewhile(lambda name: name in wanted, state.order))
    if not columns:
        columns = [name for name in wanted if name in state.ranks][:1]
        if columns:
            rows = LayoutRows(state.ranks[columns[0]], state.layout, state.fields)
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
    if ways.ranged:
        return Ranged(node.fields, tuple(columns), rows, targets[0], state)
    return Stored(node.fields, tuple(columns), rows, targets, state)


def _partition(node: Partition, wanted: Sequence[str], ways: Ways) -> Lookup:
    kept = ways.kept(node)
    columns = tuple(itertools.takewhile(lambda name: name in wanted, kept.order))
    if (wanted and not columns) or ways.bound is not None or ways.ranged:
        raise Unsupported(
            f"Rows that are computed for each ({', '.join(node.by)}) are looked up by"
            f" {', '.join(wanted)}.",
            cure=f"Join on {kept.order[0]}.",
        )
    return Partitioned(node.fields, columns, node, kept)


def _recursive(node: Recursion, wanted: Sequence[str], ways: Ways) -> Lookup:
    kept = ways.recursive(node)
    if ways.bound is not None or ways.ranged:
        raise Unsupported(
            f"Rows of WITH RECURSIVE are looked up by a range of {', '.join(wanted)}.",
            cure="Join on columns: a.x = b.y",
        )
    if not wanted:
        return Recursive(node.fields, (), node, kept, 0)
    used = [tuple(itertools.takewhile(lambda n: n in wanted, order)) for order in kept.orders]
    order = max(range(len(used)), key=lambda i: len(used[i]))
    return Recursive(node.fields, used[order], node, kept, order)


def _computed(wanted: Iterable[str]) -> Unsupported:
    names = ", ".join(wanted)
    return Unsupported(
        f"Rows are looked up by {names}, which is computed from columns and not one.",
        cure="Join on plain columns.",
    )
