"""The schema graph: relations, and an edge from parent to child per foreign key.

Source: Synergy, definition 1. Self-references are not part of it. `topological_order` and
`find_cycle` are linear in relations and foreign keys (the order needs a logarithmic factor to break
ties) and do not recurse.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from hornbeam_server.schema.errors import CircularReference
from hornbeam_server.schema.model import Schema


def parents(schema: Schema) -> dict[str, tuple[str, ...]]:
    """Relation → the distinct other relations that it references, in order of declaration."""
    return {
        relation.name: tuple(
            dict.fromkeys(fk.parent for fk in relation.foreign_keys if fk.parent != relation.name)
        )
        for relation in schema.relations
    }


def topological_order(schema: Schema) -> tuple[str, ...]:
    """Relations, parents first; ties are in order of declaration. Raises CircularReference."""
    above = parents(schema)
    rank = {name: number for number, name in enumerate(schema.names)}
    below: dict[str, list[str]] = {name: [] for name in schema.names}
    for child, names in above.items():
        for name in names:
            below[name].append(child)
    missing = {name: len(names) for name, names in above.items()}
    ready = [rank[name] for name in schema.names if not missing[name]]
    order: list[str] = []
    while ready:
        name = schema.names[heapq.heappop(ready)]
        order.append(name)
        for child in below[name]:
            missing[child] -= 1
            if not missing[child]:
                heapq.heappush(ready, rank[child])
    if len(order) < len(above):
        cycle = " -> ".join(find_cycle(schema) or ())
        raise CircularReference(
            f"Relations reference each other in a circle: {cycle}.",
            cure="Drop one of the foreign keys on the circle.",
        )
    return tuple(order)


def find_cycle(schema: Schema) -> tuple[str, ...] | None:
    """A cycle of references such as ("a", "b", "a"): each relation references the next.

    It begins and ends with the relation of the cycle that is declared first. None: no cycle.
    """
    above = parents(schema)
    done: set[str] = set()
    for start in schema.names:
        if start not in done:
            cycle = _walk(start, above, done)
            if cycle:
                return _from_first(cycle, schema.names)
    return None


def _walk(start: str, above: dict[str, tuple[str, ...]], done: set[str]) -> list[str] | None:
    """A cycle that depth-first search from `start` finds; `path` holds the current path."""
    path = [start]
    steps: list[Iterator[str]] = [iter(above[start])]
    on_path = {start}
    while path:
        parent = next(steps[-1], None)
        if parent is None:
            steps.pop()
            on_path.discard(path[-1])
            done.add(path.pop())
        elif parent in on_path:
            return path[path.index(parent) :]
        elif parent not in done:
            path.append(parent)
            on_path.add(parent)
            steps.append(iter(above[parent]))
    return None


def _from_first(cycle: list[str], declared: tuple[str, ...]) -> tuple[str, ...]:
    first = cycle.index(min(cycle, key=declared.index))
    turned = cycle[first:] + cycle[:first]
    return (*turned, turned[0])
