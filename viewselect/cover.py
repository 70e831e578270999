"""The choice of views for a query block, and the rewriting of the block over them.

`marked_paths` selects views for a block in given trees (Synergy, VI-A). `best_cover` chooses among
existing views, as `query/optimizer/rewrite.py` does at run time. `over_views` is the paper's
rewriting (VI-B) on the algebra, which is sufficient for costs and indexes.

Beyond the paper, a block may use a relation several times, so paths are paths of aliases.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from hornbeam_server.query.binding.algebra import Block, EquiJoin, ForeignKeyJoin, Source
from hornbeam_server.query.optimizer.cover import MAX_CANDIDATES, best_disjoint
from hornbeam_server.schema.model import Schema
from hornbeam_server.schema.views import JoinView, ViewColumn
from hornbeam_server.viewselect.workload import EdgeId, ReadBlock


@dataclass(frozen=True, slots=True)
class ViewPath:
    """A candidate view (definition 5) by names: the relations from the ancestor down, and the
    foreign key of each relation except the first."""

    relations: tuple[str, ...]
    keys: tuple[str, ...]

    @property
    def edges(self) -> tuple[EdgeId, ...]:
        return tuple(zip(self.relations[1:], self.keys, strict=True))

    def __str__(self) -> str:
        return " → ".join(self.relations)


@dataclass(frozen=True, slots=True)
class Use:
    """The use of `view` in place of `aliases`: the lower end of its path, in path order."""

    view: ViewPath
    aliases: tuple[str, ...]

    @property
    def alias(self) -> str:
        return "+".join(self.aliases)


# -- VI-A


def marked_paths(read: ReadBlock, edges: Collection[EdgeId]) -> tuple[Use, ...]:
    """The views that VI-A selects for a block; `edges` are the edges of the trees.

    Mark the joined edges. While there is a marked edge, choose a path of marked edges from an alias
    without incoming marked edge to an alias without outgoing marked edge; un-mark its aliases and
    their outgoing edges. The paper leaves the order of paths open. Here the longest path comes
    first; among equals, the path whose aliases come first in the query.
    """
    above = _marked(read, edges)
    order = {source.alias: number for number, source in enumerate(read.block.sources)}
    chosen: list[Use] = []
    while paths := [_path_to(alias, above) for alias in above if _is_end(alias, above)]:
        path = min(paths, key=lambda p: (-len(p), [order[alias] for alias in p]))
        chosen.append(Use(_view_path(read.block, path, above), path))
        gone = set(path)
        above = {
            child: join
            for child, join in above.items()
            if child not in gone and join.parent not in gone
        }
    return tuple(chosen)


def _marked(read: ReadBlock, edges: Collection[EdgeId]) -> dict[str, ForeignKeyJoin]:
    """Child alias → its marked join; if there are several, the first in the query."""
    above: dict[str, ForeignKeyJoin] = {}
    for edge, join in read.joins:
        if edge in edges:
            above.setdefault(join.child, join)
    return above


def _is_end(alias: str, above: dict[str, ForeignKeyJoin]) -> bool:
    return not any(join.parent == alias for join in above.values())


def _path_to(alias: str, above: dict[str, ForeignKeyJoin]) -> tuple[str, ...]:
    path = [alias]
    while path[-1] in above:
        path.append(above[path[-1]].parent)
    return tuple(reversed(path))


def _view_path(block: Block, path: Sequence[str], above: dict[str, ForeignKeyJoin]) -> ViewPath:
    return ViewPath(
        tuple(block.relation(alias) for alias in path),
        tuple(above[alias].foreign_key.name for alias in path[1:]),
    )


# -- using existing views


def occurrences(read: ReadBlock, view: ViewPath, schema: Schema) -> Iterator[Use]:
    """Aliases of the block, at least two, that form the lower end of the view's path.

    Every row must have all its ancestors above these aliases, or the view would lack rows: so the
    foreign keys above must be NOT NULL.
    """

    def climb(level: int, aliases: tuple[str, ...]) -> Iterator[Use]:
        if len(aliases) > 1 and _complete_above(view, level, schema):
            yield Use(view, aliases)
        for edge, join in read.joins if level else ():
            if join.child == aliases[0] and edge == view.edges[level - 1]:
                yield from climb(level - 1, (join.parent, *aliases))

    for source in read.block.sources:
        if source.relation == view.relations[-1]:
            yield from climb(len(view.relations) - 1, (source.alias,))


def _complete_above(view: ViewPath, level: int, schema: Schema) -> bool:
    return not any(
        schema.relation(child).column(column).nullable
        for child, key in view.edges[:level]
        for column in schema.relation(child).foreign_key(key).columns
    )


def best_cover(uses: Iterable[Use]) -> tuple[Use, ...]:
    """The disjoint uses that cover the most joins of a block; among equals, the shortest views."""

    def weight(use: Use) -> tuple[int, int]:
        return len(use.aliases) - 1, -len(use.view.relations)

    ranked = sorted(uses, key=weight, reverse=True)[:MAX_CANDIDATES]
    chosen = best_disjoint([frozenset(use.aliases) for use in ranked], [weight(u) for u in ranked])
    return tuple(ranked[number] for number in chosen)


# -- VI-B


def view_name(schema: Schema, view: ViewPath) -> str:
    """`<r1>__<r2>__<r3>`, with the lengths of the names appended if it is ambiguous."""
    name = "__".join(view.relations)
    if any("__" in r or r.startswith("_") or r.endswith("_") for r in view.relations):
        name += "__" + "_".join(str(len(relation)) for relation in view.relations)
    return _unused(name, {*schema.names, *(index.name for index in schema.indexes)})


def join_view(schema: Schema, view: ViewPath) -> JoinView:
    """The view of a path, with columns named as `ViewColumn` describes."""
    relations = [schema.relation(name) for name in view.relations]
    count: dict[str, int] = {}
    for relation in relations:
        for column in relation.column_names:
            count[column] = count.get(column, 0) + 1
    taken = {column for column, times in count.items() if times == 1}
    columns: list[ViewColumn] = []
    for relation in relations:
        for column in relation.column_names:
            name = column
            if count[column] > 1:
                name = _unused(f"{relation.name}_{column}", taken)
                taken.add(name)
            columns.append(ViewColumn(name, relation.name, column))
    edges = tuple(schema.relation(child).foreign_key(key) for child, key in view.edges)
    return JoinView(view_name(schema, view), view.relations, edges, tuple(columns))


def _unused(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name += "_"
    return name


@dataclass(frozen=True)
class Renaming:
    """Maps each (alias, column) of a block to its alias and column after `uses` are applied."""

    block: Block
    uses: tuple[Use, ...]
    views: dict[ViewPath, JoinView]

    @cached_property
    def _place(self) -> dict[str, tuple[Use, str]]:
        found = {}
        for use in self.uses:
            relations = use.view.relations[-len(use.aliases) :]
            for alias, relation in zip(use.aliases, relations, strict=True):
                found[alias] = use, relation
        return found

    def alias(self, alias: str) -> str:
        place = self._place.get(alias)
        return place[0].alias if place else alias

    def column(self, alias: str, column: str) -> str:
        place = self._place.get(alias)
        return self.views[place[0].view].names[place[1], column] if place else column

    def columns(self, alias: str, columns: Iterable[str]) -> tuple[str, ...]:
        return tuple(self.column(alias, column) for column in columns)


def over_views(block: Block, uses: tuple[Use, ...], views: dict[ViewPath, JoinView]) -> Block:
    """`block` with the aliases of each use replaced by one source, without the joins inside it.

    The new alias is `Use.alias`. The result has no foreign-key joins, since no caller needs them.
    """
    to = Renaming(block, uses, views)
    replaced = {alias for use in uses for alias in use.aliases}
    sources = [Source(use.alias, views[use.view].name) for use in uses]
    sources += [source for source in block.sources if source.alias not in replaced]
    columns: dict[str, frozenset[str]] = {}
    for alias, names in block.columns.items():
        new = to.alias(alias)
        columns[new] = columns.get(new, frozenset()) | frozenset(to.columns(alias, names))
    return replace(
        block,
        sources=tuple(sources),
        equi_joins=tuple(_outside(block.equi_joins, to)),
        fk_joins=(),
        filters=tuple(
            replace(f, alias=to.alias(f.alias), column=to.column(f.alias, f.column))
            for f in block.filters
        ),
        order=tuple(
            replace(o, alias=to.alias(o.alias), column=to.column(o.alias, o.column))
            for o in block.order
        ),
        columns=columns,
    )


def _outside(joins: Iterable[EquiJoin], to: Renaming) -> Iterator[EquiJoin]:
    for join in joins:
        left, right = to.alias(join.left), to.alias(join.right)
        if left != right:
            yield EquiJoin(
                left,
                to.columns(join.left, join.left_columns),
                right,
                to.columns(join.right, join.right_columns),
            )
