"""The outcome of one method: its trees, its views and their score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hornbeam_server.viewselect.cost import Score
from hornbeam_server.viewselect.graph import Edge
from hornbeam_server.viewselect.select import Selection


@dataclass(frozen=True)
class Outcome:
    """`parents`: relation → tree edge. `reachable`: weight of the joins that all views along the
    trees could cover. `alternatives`: (relation, foreign key or None) → the objective if that were
    the relation's tree edge."""

    method: str
    parents: Mapping[str, Edge]
    selection: Selection
    reachable: float
    alternatives: Mapping[tuple[str, str | None], float] = field(default_factory=dict)

    @property
    def score(self) -> Score:
        return self.selection.score
