"""Candidate generation exactly as in the paper (Synergy, V-B2): `--method paper`.

The weight of a path counts the workload's joins on it. So a long path can win over a short one
even if only its upper part is joined often: TPC-W's `orders` goes under Country through `address`,
and Customer's tree has no views. `forest` finds better trees.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hornbeam_server.viewselect.dag import to_dag
from hornbeam_server.viewselect.graph import Edge, Graph, path_weight

Parents = Mapping[str, Edge]
"""A forest: relation → its tree edge."""


def paper_forest(graph: Graph, roots: Sequence[str]) -> dict[str, Edge]:
    """The rooted trees of `roots`. In the paper, the designer gives the roots; without roots, the
    roots are the relations that reference nothing."""
    dag = to_dag(graph)
    forest: dict[str, Edge] = {}
    for root, edges in rooted_graphs(dag, roots or dag.sources).items():
        kept = tuple(edge for edge in dag.edges if edge.id in edges)
        forest.update(rooted_tree(replace(dag, edges=kept), root))
    return forest


def rooted_graphs(dag: Graph, roots: Sequence[str]) -> dict[str, set[tuple[str, str]]]:
    """Step 3: root → edges of its rooted graph, in forward topological order.

    A relation gets the heaviest path to it that has only one root, and no relation that is assigned
    to another root.
    """
    graphs: dict[str, set[tuple[str, str]]] = {root: set() for root in roots}
    assigned = {root: root for root in roots}
    for relation in dag.relations:
        if relation in graphs:
            continue
        paths = [path for root in roots for path in dag.paths(root, relation)]
        for path in sorted(paths, key=lambda path: -path_weight(path)):
            root = path[0].parent
            if all(assigned.get(edge.child, root) == root for edge in path):
                assigned[relation] = root
                graphs[root].update(edge.id for edge in path)
                break
    return graphs


def rooted_tree(graph: Graph, root: str) -> dict[str, Edge]:
    """Step 4: in reverse topological order, keep the heaviest path to the last relation."""
    tree: dict[str, Edge] = {}
    reached = {edge.child for edge in graph.edges}
    left = [relation for relation in graph.relations if relation in reached]
    while left:
        path = graph.paths(root, left[-1])[0]
        for edge in path:
            tree.setdefault(edge.child, edge)  # heaviest paths agree up to a shared relation
        left = [relation for relation in left if relation not in tree]
    return tree
