"""The schema graph: relations, and an edge from parent to child per foreign key.

Source: Synergy, definition 1. Self-references are not part of it. The paper assumes that the graph
has no circles. If relations reference each other in a circle, some of its edges are left out where
an order is needed (`without_circles`). No function here recurses.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from hornbeam_server.schema.model import ForeignKey, Relation, Schema

Node = TypeVar("Node", bound=Hashable)
Edge = TypeVar("Edge")


def parents(schema: Schema) -> dict[str, tuple[str, ...]]:
    """Relation → the distinct other relations that it references, in order of declaration."""
    return {
        relation.name: tuple(
            dict.fromkeys(fk.parent for fk in relation.foreign_keys if fk.parent != relation.name)
        )
        for relation in schema.relations
    }


def circles(schema: Schema) -> list[tuple[str, ...]]:
    """The groups of relations that reference one another in circles, each in the order of
    declaration. A relation that references only itself is in no group."""
    found = [group for group in components(parents(schema)) if len(group) > 1]
    return sorted((tuple(n for n in schema.names if n in group) for group in map(set, found)),
                  key=lambda group: schema.names.index(group[0]))  # fmt: skip


def in_circles(schema: Schema) -> list[tuple[Relation, ForeignKey]]:
    """The foreign keys between relations of one circle, in order of declaration."""
    group = {name: group for group in circles(schema) for name in group}
    return [
        (relation, key)
        for relation in schema.relations
        for key in relation.foreign_keys
        if key.parent != relation.name and key.parent in group.get(relation.name, ())
    ]


def topological_order(schema: Schema, followed: Container[tuple[str, str]] = ()) -> tuple[str, ...]:
    """Relations, parents first; ties are in order of declaration. In a circle, an edge (child,
    parent) that is not `followed`, then a foreign key whose columns may be NULL, and then one that
    is declared later, does not count."""
    above = parents(schema)
    edges = sorted(
        in_circles(schema),
        key=lambda edge: (
            (edge[0].name, edge[1].parent) not in followed,
            any(edge[0].column(name).nullable for name in edge[1].columns),
        ),
    )
    pairs = list(dict.fromkeys((relation.name, key.parent) for relation, key in edges))
    for child, parent in {*pairs} - {*without_circles(pairs, lambda pair: pair)}:
        above[child] = tuple(name for name in above[child] if name != parent)
    return parents_first(above)


def parents_first(above: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """The names, parents first; ties are in the order of `above`, which has the distinct parents of
    each name, without circles."""
    names = tuple(above)
    rank = {name: number for number, name in enumerate(names)}
    below: dict[str, list[str]] = {name: [] for name in names}
    for child, of_child in above.items():
        for name in of_child:
            below[name].append(child)
    missing = {name: len(of_child) for name, of_child in above.items()}
    ready = [rank[name] for name in names if not missing[name]]
    order: list[str] = []
    while ready:
        name = names[heapq.heappop(ready)]
        order.append(name)
        for child in below[name]:
            missing[child] -= 1
            if not missing[child]:
                heapq.heappush(ready, rank[child])
    return tuple(order)


def without_circles(
    edges: Iterable[Edge], ends: Callable[[Edge], tuple[Hashable, Hashable]]
) -> list[Edge]:
    """The edges without those that close a circle with edges before them. `ends` gives the child
    and the parent of an edge. Takes time in the square of the number of edges."""
    above: dict[Hashable, list[Hashable]] = {}
    kept: list[Edge] = []
    for edge in edges:
        child, parent = ends(edge)
        if child not in _reached(parent, above):
            above.setdefault(child, []).append(parent)
            kept.append(edge)
    return kept


def _reached(start: Hashable, above: Mapping[Hashable, Iterable[Hashable]]) -> set[Hashable]:
    """`start`, and all nodes to which its edges lead."""
    found, left = {start}, [start]
    while left:
        for node in above.get(left.pop(), ()):
            if node not in found:
                found.add(node)
                left.append(node)
    return found


def components(above: Mapping[Node, Sequence[Node]]) -> Iterator[list[Node]]:
    """The strongly connected components of a graph, parents first (Tarjan). `above` has the parents
    of each node. The nodes of a component can all be reached from one another."""
    number: dict[Node, int] = {}
    lowest: dict[Node, int] = {}
    held: dict[Node, None] = {}  # the nodes of unfinished components, as a stack
    for start in above:
        if start in number:
            continue
        path: list[tuple[Node, Iterator[Node]]] = []
        _enter(start, above, path, number, lowest, held)
        while path:
            node, left = path[-1]
            parent = next(left, None)
            if parent is None:
                path.pop()
                if path:
                    lowest[path[-1][0]] = min(lowest[path[-1][0]], lowest[node])
                if lowest[node] == number[node]:
                    yield _finished(node, held)
            elif parent not in number:
                _enter(parent, above, path, number, lowest, held)
            elif parent in held:
                lowest[node] = min(lowest[node], number[parent])


def _enter(
    node: Node,
    above: Mapping[Node, Sequence[Node]],
    path: list[tuple[Node, Iterator[Node]]],
    number: dict[Node, int],
    lowest: dict[Node, int],
    held: dict[Node, None],
) -> None:
    path.append((node, iter(above[node])))
    number[node] = lowest[node] = len(number)
    held[node] = None


def _finished(first: Node, held: dict[Node, None]) -> list[Node]:
    """The component whose search began at `first`, in the order in which its nodes were met."""
    found: list[Node] = []
    while not found or found[-1] != first:
        found.append(held.popitem()[0])
    return found[::-1]
