"""Query rewriting: joins that a readable view contains are read from the view (Synergy, VI-B).

Sources whose foreign-key inner joins form the path of a view, or the lower end of a path, are
replaced by the view. The join conditions inside the view are dropped, all others stay, and result
columns keep their names and order. Beyond the paper, this covers blocks in subqueries, self-joins,
several uses of one view in a block, implied joins, and LEFT JOINs beside the replaced sources.

The result is the same for these reasons. A view holds one row per row of its last relation whose
foreign keys up the path are not NULL, joined with its ancestors. The replaced sources' conditions
imply the view's own, so they select from the same combinations. When the view has ancestors above
the sources of the block, the foreign keys up to them must be NOT NULL: since foreign keys are
enforced, each row then has exactly one ancestor, so no row is lost or duplicated. A condition is
dropped only if the view's own join makes it true for all rows of the view.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from sqlglot import exp

from hornbeam_server.query.binding.algebra import Block, Comparison, ForeignKeyJoin, StatementKind
from hornbeam_server.query.binding.binder import BoundQuery, bind_tree
from hornbeam_server.query.binding.blocks import Classes, split
from hornbeam_server.query.dialect.grammar import identifier
from hornbeam_server.query.optimizer.aggregate_answers import Answer, Names, answer
from hornbeam_server.query.optimizer.cover import MAX_CANDIDATES, best_disjoint
from hornbeam_server.query.optimizer.outer_joins import outer_aliases, simplify
from hornbeam_server.query.optimizer.select_trees import (
    Namer,
    conjunction,
    flatten,
    free_names,
    name_projections,
    qualify,
    selects_of,
    view_table,
)
from hornbeam_server.query.parsing.parse import DIALECT
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.trees import nodes_of, supersede, unlink, unlink_gone, written
from hornbeam_server.schema.views import JoinView

_OUTER = "a block with outer, semi or anti joins is answered from its relations"
_POINT = {Comparison.EQ, Comparison.IN}


@dataclass(frozen=True, slots=True)
class ViewUse:
    """A view that replaces the sources `aliases`, in path order. `alias` is the view's alias."""

    view: str
    aliases: tuple[str, ...]
    block: int = 0
    alias: str = ""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The statement over views. `notes` give the reason for each join that no view serves."""

    bound: BoundQuery
    uses: tuple[ViewUse, ...] = ()
    notes: tuple[str, ...] = ()


def rewrite(
    bound: BoundQuery,
    catalog: Catalog,
    *,
    grouped: bool = True,
    stale: frozenset[str] = frozenset(),
) -> Rewritten:
    """Rewrite `bound` over the readable views of `catalog`. Writes stay unchanged. Never raises for
    a bound query. `grouped`: views may answer aggregates, also the deferred views in `stale`."""
    if bound.statement.kind is not StatementKind.SELECT:
        return Rewritten(bound)
    if all(block.inner_only for block in bound.statement.blocks):
        return _over_views(bound, catalog, grouped, stale)
    simple = _with_inner_joins(bound, catalog)
    found = _over_views(simple or bound, catalog, grouped, stale)
    if simple is None:
        return found
    unlink(simple.ast)
    return found if found.uses else replace(found, bound=bound)


def _with_inner_joins(bound: BoundQuery, catalog: Catalog) -> BoundQuery | None:
    """The statement with those outer joins as inner joins that are so in effect, if any."""
    tree = bound.ast.copy()
    if simplify(bound, tree, catalog):
        return _bound_again(tree, bound, catalog)
    unlink(tree)
    return None


def _bound_again(tree: exp.Expr, bound: BoundQuery, catalog: Catalog) -> BoundQuery:
    again = bind_tree(tree, written(tree, DIALECT), catalog)
    return replace(again, columns=bound.columns, parameter_types=bound.parameter_types)


def _over_views(
    bound: BoundQuery, catalog: Catalog, grouped: bool, stale: frozenset[str]
) -> Rewritten:
    selects = selects_of(bound.ast)
    ctes = {cte.alias for cte in nodes_of(bound.ast, exp.CTE)}
    namer = Namer(bound.ast)
    answers: dict[int, Answer] = {}
    found: list[ViewUse] = []
    notes: list[str] = []
    for number, block in enumerate(bound.statement.blocks):
        names = Names(namer, frozenset(ctes), stale)
        if grouped:
            answered, why = answer(number, block, selects[number], catalog, names)
            notes += why
            if answered is not None:
                answers[number] = answered
                continue
        chosen, why = _cover(number, block, selects[number], catalog, ctes)
        found += chosen
        notes += why
    if not found and not answers:
        return Rewritten(bound, (), tuple(notes))
    tree = bound.ast.copy()
    uses = [replace(use, alias=namer.alias(use.view)) for use in found]
    before = nodes_of(tree)
    tree = _answered(tree, answers)
    _Change(tree, catalog, uses).apply(selects_of(tree))
    unlink_gone(before, tree.walk())
    uses += [ViewUse(a.view, a.aliases, n, a.alias) for n, a in answers.items()]
    kept = _bound_again(tree, bound, catalog)
    return Rewritten(kept, tuple(uses), tuple(dict.fromkeys(notes)))


def _answered(tree: exp.Expr, answers: Mapping[int, Answer]) -> exp.Expr:
    """The tree with the blocks that views answer replaced, outer blocks first."""
    for number, found in answers.items():
        select = selects_of(tree)[number]
        if select is tree:
            unlink(tree)
            tree = found.select
        else:
            supersede(select, found.select)
    return tree


# -- which views


def _cover(
    number: int, block: Block, select: exp.Select, catalog: Catalog, ctes: set[str]
) -> tuple[tuple[ViewUse, ...], list[str]]:
    """The views that remove the most joins of a block, and the reasons why other joins stay. A CTE
    in `ctes` hides a view of the same name."""
    if len(block.sources) < 2:
        return (), []
    outer: set[str] | None = set() if block.inner_only else outer_aliases(number, select)
    if outer is None:
        return (), [_OUTER]
    free = free_names(select)
    if free is None:
        return (), ["some columns have no name to call them by: give every FROM item an alias"]
    readable = [view for view in catalog.views if catalog.readable(view.name)]
    hidden = {view.name for view in readable if view.name in ctes or _hidden(view, free)}
    candidates = [
        ViewUse(view.name, aliases, number)
        for view in readable
        if view.name not in hidden
        for aliases in _occurrences(block, view, catalog)
        if outer.isdisjoint(aliases)
    ]
    chosen = _best(candidates, block, catalog)
    covered = {frozenset(pair) for use in chosen for pair in pairwise(use.aliases)}
    uncovered = (
        join
        for join in block.fk_joins
        if not join.implied and frozenset((join.child, join.parent)) not in covered
        if outer.isdisjoint((join.child, join.parent))
    )
    notes = [_why(join, block, catalog, hidden) for join in uncovered]
    return chosen, notes if chosen or notes or not outer else [_OUTER]


def _occurrences(block: Block, view: JoinView, catalog: Catalog) -> Iterator[tuple[str, ...]]:
    """Yield the alias tuples of the block, at least two long, that match the lower end of the
    view's path."""
    for source in block.sources:
        if source.relation == view.last:
            yield from _climb(block, view, catalog, len(view.path) - 1, (source.alias,))


def _climb(
    block: Block, view: JoinView, catalog: Catalog, level: int, aliases: tuple[str, ...]
) -> Iterator[tuple[str, ...]]:
    """Yield `aliases`, which match the view's path from `level` down to its end, and all their
    extensions upwards."""
    if len(aliases) > 1 and _lossless(view, level, catalog):
        yield aliases
    if level == 0:
        return
    for join in block.fk_joins:
        if join.child == aliases[0] and join.foreign_key == view.edges[level - 1]:
            yield from _climb(block, view, catalog, level - 1, (join.parent, *aliases))


def _lossless(view: JoinView, level: int, catalog: Catalog) -> bool:
    """Whether every row of path[level] has all ancestors above it. Foreign keys are enforced."""
    return not any(
        catalog.schema.relation(child).column(column).nullable
        for child, edge in zip(view.path[1 : level + 1], view.edges[:level], strict=True)
        for column in edge.columns
    )


def _best(candidates: Sequence[ViewUse], block: Block, catalog: Catalog) -> tuple[ViewUse, ...]:
    """The disjoint candidates that remove the most joins. Ties prefer views whose key or index
    serves a filter, then views over the fewest relations. Bounded exhaustive search."""
    filtered = {(f.alias, f.column) for f in block.filters if f.comparison in _POINT}

    def weight(use: ViewUse) -> tuple[int, int, int]:
        view = catalog.view[use.view]
        return len(use.aliases) - 1, _served(use, filtered, catalog), -len(view.path)

    ranked = sorted(candidates, key=weight, reverse=True)[:MAX_CANDIDATES]
    chosen = best_disjoint([frozenset(use.aliases) for use in ranked], [weight(u) for u in ranked])
    return tuple(ranked[number] for number in chosen)


def _served(use: ViewUse, filtered: set[tuple[str, str]], catalog: Catalog) -> int:
    """1 if the view's key or one of its readable indexes begins with a filtered column, else 0."""
    view = catalog.view[use.view]
    indexes = [i.name for i in catalog.indexes_on(use.view) if catalog.readable(i.name)]
    first = {catalog.layout(name).key[0].column for name in (use.view, *indexes)}
    alias = dict(zip(reversed(view.path), reversed(use.aliases), strict=False))
    columns = {(alias[c.relation], c.column) for c in view.columns
               if c.relation in alias and c.name in first}  # fmt: skip
    return int(bool(columns & filtered))


def _why(join: ForeignKeyJoin, block: Block, catalog: Catalog, hidden: set[str]) -> str:
    """The reason why no view serves this join, as text."""
    child, key = block.relation(join.child), join.foreign_key
    what = f"join {join.child} to {join.parent} ({child}.{key.name})"
    if catalog.forest.parent.get(child) != key:
        return f"{what}: the foreign key is no edge of a tree"
    views = [v for v in catalog.views if key in v.edges and child in v.path]
    if not views:
        return f"{what}: no view holds this edge"
    for view in views:
        if not catalog.readable(view.name):
            state = catalog.state.get(view.name)
            return f"{what}: view {view.name} is {state.value if state else 'not built'}"
        if view.name in hidden:
            return f"{what}: an alias or a CTE of the statement has a name of view {view.name}"
    names = ", ".join(view.name for view in views)
    return f"{what}: not the whole of {names} is joined here, or another view serves its sources"


def _hidden(view: JoinView, free: set[str]) -> bool:
    """Whether a column of this view would capture an unqualified name."""
    return bool(free & set(view.names.values()))


# -- the tree


class _Change:
    """Replaces sources by the chosen views in the tree, in place."""

    def __init__(self, tree: exp.Expr, catalog: Catalog, uses: Iterable[ViewUse]) -> None:
        self.tree = tree
        self.catalog = catalog
        self.uses: dict[int, list[ViewUse]] = {}
        self.of: dict[tuple[int | None, str], tuple[ViewUse, str]] = {}
        for use in uses:
            self.uses.setdefault(use.block, []).append(use)
            path = catalog.view[use.view].path[-len(use.aliases) :]
            for alias, relation in zip(use.aliases, path, strict=True):
                self.of[use.block, alias] = use, relation

    def apply(self, selects: dict[int, exp.Select]) -> None:
        for number in self.uses:
            name_projections(selects[number])
            self._replace_sources(selects[number], number)
        for column in list(self.tree.find_all(exp.Column)):
            self._qualify(column)

    def _qualify(self, column: exp.Column) -> None:
        place = column.meta.get("column")
        if place is None:
            return
        number, alias, name = place
        if (number, alias) in self.of:
            use, relation = self.of[number, alias]
            view = self.catalog.view[use.view]
            column.set("this", identifier(view.names[relation, name]))
            column.set("table", identifier(use.alias))
        else:
            qualify(column)

    # FROM and WHERE

    def _replace_sources(self, select: exp.Select, number: int) -> None:
        joins = select.args.get("joins") or []
        outer = [join for join in joins if join.args.get("side")]
        select.set("joins", [join for join in joins if not join.args.get("side")])
        items, conditions = flatten(select)
        where = select.args.get("where")
        if where is not None:
            conditions += split(where.this)
        # Views come first: an item that is lateral to a replaced source must follow the view.
        origin: list[exp.Expr] = [view_table(use.view, use.alias) for use in self.uses[number]]
        origin += [item for item in items if item.meta.get("source") not in self.of]
        select.set("from_", exp.From(this=origin[0]))
        # A condition of an outer join sees only the items that it is joined to, not those before a
        # comma.
        kind = "CROSS" if outer else None
        select.set("joins", [*(exp.Join(this=item, kind=kind) for item in origin[1:]), *outer])
        kept = [condition for condition in conditions if not self._inside(condition)]
        select.set("where", exp.Where(this=conjunction(kept)) if kept else None)

    def _inside(self, condition: exp.Expr) -> bool:
        """Whether the condition is an equality that the view's own join makes true."""
        if not isinstance(condition, exp.EQ):
            return False
        places = [
            side.unnest().meta.get("column") for side in (condition.this, condition.expression)
        ]
        if None in places or any(place[:2] not in self.of for place in places):
            return False
        (left_use, left), (right_use, right) = (self.of[place[:2]] for place in places)
        if left_use is not right_use:
            return False
        classes = _edge_classes(self.catalog.view[left_use.view])
        return classes.same((left, places[0][2]), (right, places[1][2])) and places[0] != places[1]


def _edge_classes(view: JoinView) -> Classes:
    classes = Classes()
    for (parent, child), edge in zip(pairwise(view.path), view.edges, strict=True):
        for column, referenced in zip(edge.columns, edge.parent_columns, strict=True):
            classes.unite((child, column), (parent, referenced))
    return classes
