"""The default search for trees, `--method optimal`: the forest with the greatest objective.

A forest gives every relation at most one parent edge. Only edges that the workload joins matter to
views; other edges are kept if they lead to joined edges, or if deletes cascade along them. If views
had two relations only, and each statement met one of them, the objective would be a sum over edges,
and since the graph is acyclic, the best edge of each relation would give the best forest. It is not
additive in general. So the search is a local search that starts from those best edges and from the
paper's forest: each sweep gives every relation the edge that is best in the current forest, or
makes it a root. Small problems are searched exhaustively instead. Among equals, the edge that is
joined more often wins.

With given roots, a root has no parent, and neither has a relation whose chain of parents does not
end in a given root. Learned roots are the relations for which no parent edge is best.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product, takewhile

from hornbeam_server.schema.model import Action
from hornbeam_server.viewselect.aggregates import AggregateView
from hornbeam_server.viewselect.cost import Objective
from hornbeam_server.viewselect.cover import ViewPath, marked_paths
from hornbeam_server.viewselect.graph import Edge, Graph
from hornbeam_server.viewselect.select import Selection, keep_paying, select_views
from hornbeam_server.viewselect.workload import EdgeId, ReadBlock

EXHAUSTIVE = 256
"""Up to this number of forests, the search is exhaustive."""
MAX_SWEEPS = 50
"""Maximum sweeps of one search. Every sweep except the last improves the objective, so this only
bounds the time."""
MAX_SCORES = 10_000
"""Maximum sets of views that a search scores before it stops: a schema of 30 relations and 40
queries stays below. A count, not a time, so that a plan does not depend on the machine."""

_CUT = "trees: not all were compared, the search for better ones was ended"

Parents = dict[str, Edge]
Options = dict[str, tuple[Edge | None, ...]]


class ForestSearch:
    """Searches forests over `graph`. If `roots` is None, the search also chooses the roots.
    `aggregates` are candidates in addition to the join views of any forest."""

    def __init__(
        self,
        graph: Graph,
        objective: Objective,
        roots: Sequence[str] | None,
        aggregates: Iterable[AggregateView] = (),
    ) -> None:
        self.graph, self.objective = graph, objective
        self.aggregates = frozenset(aggregates)
        self.roots = None if roots is None else frozenset(roots)
        self.options: Options = {
            name: (*edges, None) for name in graph.relations if (edges := self._edges(name))
        }
        self._views: dict[tuple[int, frozenset[EdgeId]], frozenset[ViewPath]] = {}
        self._selections: dict[frozenset[ViewPath], Selection] = {}

    def _edges(self, relation: str) -> list[Edge]:
        """Edges that may matter, heaviest first: the joined edges; with given roots also all other
        edges, since a chain to a root may need them."""
        edges = sorted(self.graph.into(relation), key=lambda edge: -edge.weight)
        if self.roots is None:
            return [edge for edge in edges if edge.weight > 0]
        return [] if relation in self.roots else edges

    # value

    def feasible(self, parents: Mapping[str, Edge]) -> Parents:
        """`parents` without the edges that are not below a given root."""
        if self.roots is None:
            return dict(parents)
        kept: Parents = {}
        for relation in self.graph.relations:
            edge = parents.get(relation)
            if edge is None or relation in self.roots:
                continue
            if edge.parent in self.roots or edge.parent in kept:
                kept[relation] = edge
        return kept

    def selection(self, parents: Mapping[str, Edge]) -> Selection:
        """The views of a forest that are worth their upkeep."""
        edges = {edge.id for edge in self.feasible(parents).values()}
        views = frozenset(
            view for read in self.objective.workload.reads for view in self._marked(read, edges)
        )
        if views not in self._selections:
            self._selections[views] = keep_paying(self.objective, views | self.aggregates)
        return self._selections[views]

    def _marked(self, read: ReadBlock, edges: set[EdgeId]) -> frozenset[ViewPath]:
        key = read.number, frozenset(edge for edge, _ in read.joins if edge in edges)
        if key not in self._views:
            self._views[key] = frozenset(use.view for use in marked_paths(read, key[1]))
        return self._views[key]

    def value(self, parents: Mapping[str, Edge]) -> tuple[float, float]:
        return self.selection(parents).score.order

    # search

    def best(self, *starts: Mapping[str, Edge]) -> Parents:
        """The best forest; never worse than one of `starts`."""
        found = [self.feasible(start) for start in starts]
        if math.prod(map(len, self.options.values())) <= EXHAUSTIVE:
            found += takewhile(lambda _: not self._ended(), self.forests())
        else:
            found = [self.climb(start) for start in (self.best_edges(), *found)]
        return self.with_cascades(self.without_idle(max(found, key=self.value)))

    def _ended(self) -> bool:
        """Is the effort of the search used up? If so, note it for the plan."""
        if self.objective.watch.spent:
            self.objective.watch.cut(_CUT)
        return self.objective.watch.spent

    def forests(self) -> Iterator[Parents]:
        """All forests over the edges that may matter."""
        for choice in product(*self.options.values()):
            chosen = zip(self.options, choice, strict=True)
            yield self.feasible({name: edge for name, edge in chosen if edge is not None})

    def best_edges(self) -> Parents:
        """The edge of each relation with the greatest objective by itself, parents first."""
        chosen: Parents = {}
        for relation, options in self.options.items():
            allowed = [edge for edge in options if edge is not None and relation in self.feasible(
                {**chosen, relation: edge})]  # fmt: skip
            if allowed:
                heaviest = allowed[0]
                chosen[relation] = heaviest if self._ended() else max(allowed, key=self._edge_value)
        return chosen

    def _edge_value(self, edge: Edge) -> tuple[float, float]:
        views = select_views(self.objective.workload, {edge.id})
        return keep_paying(self.objective, views).score.order

    def climb(self, start: Mapping[str, Edge]) -> Parents:
        """Local search: give each relation its best edge, or make it a root, while that helps."""
        here = self.feasible(start)
        for _ in range(MAX_SWEEPS):
            before = self.value(here)
            for relation, options in self.options.items():
                if self._ended():
                    return here
                if self.objective.scored > MAX_SCORES:
                    self.objective.watch.cut(_CUT)
                    return here
                flips = (self.flipped(here, relation, edge) for edge in options)
                better = max(flips, key=self.value)
                here = better if self.value(better) > self.value(here) else here
            if self.value(here) == before:
                return here
        self.objective.watch.cut(_CUT)
        return here

    def flipped(self, parents: Mapping[str, Edge], relation: str, edge: Edge | None) -> Parents:
        others = {name: kept for name, kept in parents.items() if name != relation}
        return self.feasible(others | ({relation: edge} if edge is not None else {}))

    def without_idle(self, parents: Mapping[str, Edge]) -> Parents:
        """Drop edges that no query joins and that lead to no joined edge, for finer locks."""
        found = dict(parents)
        for relation in reversed(self.graph.relations):
            below = any(edge.parent == relation for edge in found.values())
            if relation in found and not found[relation].weight and not below:
                del found[relation]
        return found

    def with_cascades(self, parents: Mapping[str, Edge]) -> Parents:
        """Add edges that no query joins if deletes cascade along them, so that CASCADE and SET NULL
        stay under one root. The edges do not change the views."""
        found = dict(parents)
        for relation in self.graph.relations:
            for edge in self._cascading(relation, found):
                trial = self.feasible({**found, relation: edge})
                if relation in trial:
                    found = trial
                    break
        return found

    def _cascading(self, relation: str, parents: Mapping[str, Edge]) -> Iterable[Edge]:
        if relation in parents or relation in (self.roots or ()):
            return ()
        edges = self.graph.into(relation)
        return (e for e in edges if not e.weight and e.foreign_key.on_delete != Action.RESTRICT)
