"""The schema graph: relations, and an edge from parent to child per foreign key.

Source: Synergy, definitions 1 to 3. It is a multigraph: a relation may reference another twice.
Self-references are not part of it, and neither are edges that close a circle. The weight of an edge
is the weight of the workload's joins along it; the weight of a path is the sum over its edges
(V-B2).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import islice

from hornbeam_server.schema.graph import in_circles, parents_first, without_circles
from hornbeam_server.schema.model import ForeignKey, Schema
from hornbeam_server.viewselect.workload import EdgeId

MAX_PATHS = 10_000
"""Maximum paths compared between two relations. A DAG of n relations can have 2^n paths."""


@dataclass(frozen=True)
class Edge:
    """The edge `parent` → `child`, by `foreign_key` of the child."""

    child: str
    foreign_key: ForeignKey
    weight: float = 0.0

    @property
    def parent(self) -> str:
        return self.foreign_key.parent

    @property
    def id(self) -> EdgeId:
        return self.child, self.foreign_key.name


def path_weight(path: Iterable[Edge]) -> Fraction:
    """The exact weight of a path, so that equal paths stay equal when both get more edges."""
    return sum((Fraction(edge.weight) for edge in path), Fraction(0))


@dataclass(frozen=True)
class Graph:
    """`relations` in topological order, parents first; `edges` in order of declaration."""

    relations: tuple[str, ...]
    edges: tuple[Edge, ...]
    _below: dict[str, list[Edge]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        below: dict[str, list[Edge]] = {name: [] for name in self.relations}
        for edge in self.edges:
            below[edge.parent].append(edge)
        object.__setattr__(self, "_below", below)

    @cached_property
    def rank(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.relations)}

    @cached_property
    def edge(self) -> dict[EdgeId, Edge]:
        return {edge.id: edge for edge in self.edges}

    def into(self, relation: str) -> list[Edge]:
        """Edges that end in `relation`."""
        return [edge for edge in self.edges if edge.child == relation]

    @property
    def sources(self) -> tuple[str, ...]:
        """Relations without parents."""
        children = {edge.child for edge in self.edges}
        return tuple(name for name in self.relations if name not in children)

    def paths(self, start: str, end: str) -> list[tuple[Edge, ...]]:
        """Paths from `start` to `end`, heaviest first.

        Among equals, the shorter path comes first, then the path whose relations come first in
        topological order, then the order of declaration. So the order of two paths does not change
        when the same edges are appended to both; step 4 of V-B2 needs this to produce trees. At
        most MAX_PATHS.
        """
        return sorted(islice(self._walk(start, end), MAX_PATHS), key=self._order)

    def _order(self, path: tuple[Edge, ...]) -> tuple[Fraction, int, list[int]]:
        return -path_weight(path), len(path), [self.rank[edge.child] for edge in path]

    def _walk(self, start: str, end: str) -> Iterator[tuple[Edge, ...]]:
        """Depth-first search. Relations after `end` in topological order cannot lead to it."""
        for edge in self._below[start]:
            if edge.child == end:
                yield (edge,)
            elif self.rank[edge.child] < self.rank[end]:
                for rest in self._walk(edge.child, end):
                    yield (edge, *rest)


def schema_graph(schema: Schema, weights: Mapping[EdgeId, float]) -> Graph:
    """The weighted schema graph."""
    edges = _without_circles(schema, list(_edges(schema, weights)))
    above: dict[str, dict[str, None]] = {name: {} for name in schema.names}
    for edge in edges:
        above[edge.child][edge.parent] = None
    order = parents_first({name: tuple(found) for name, found in above.items()})
    return Graph(order, tuple(edges))


def _edges(schema: Schema, weights: Mapping[EdgeId, float]) -> Iterable[Edge]:
    for relation in schema.relations:
        for key in relation.key_edges:
            if key.parent != relation.name:
                yield Edge(relation.name, key, weights.get((relation.name, key.name), 0.0))


def _without_circles(schema: Schema, edges: Sequence[Edge]) -> list[Edge]:
    """The edges without those that close circles. Of a circle, the edges that are joined most are
    kept, and among equals those that a row must have."""
    in_circle = {(relation.name, key.name) for relation, key in in_circles(schema)}

    def order(edge: Edge) -> tuple[float, bool]:
        columns = map(schema.relation(edge.child).column, edge.foreign_key.columns)
        return -edge.weight, any(column.nullable for column in columns)

    chosen = without_circles(
        sorted((edge for edge in edges if edge.id in in_circle), key=order),
        lambda edge: (edge.child, edge.parent),
    )
    kept = {edge.id for edge in chosen}
    return [edge for edge in edges if edge.id in kept or edge.id not in in_circle]
