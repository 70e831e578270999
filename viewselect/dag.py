"""Reduction of the schema graph to at most one edge between two relations (V-B2, step 1)."""

from __future__ import annotations

from dataclasses import replace

from hornbeam_server.viewselect.graph import Edge, Graph


def to_dag(graph: Graph) -> Graph:
    """Keep the heaviest edge of each pair of relations; among equals, the edge declared first."""
    kept: dict[tuple[str, str], Edge] = {}
    for edge in graph.edges:
        pair = edge.parent, edge.child
        if pair not in kept or edge.weight > kept[pair].weight:
            kept[pair] = edge
    return replace(graph, edges=tuple(kept.values()))
