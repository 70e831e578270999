"""What one method came to: its trees, its views and their score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from viewselect.cost import Score
from viewselect.graph import Edge
from viewselect.select import Selection


@dataclass(frozen=True)
class Outcome:
    """`parents`: relation → tree edge. `reachable`: weight of the joins that views along the trees
    could cover, kept or not. `alternatives`: the objective with one other edge (or none)."""

    method: str
    parents: Mapping[str, Edge]
    selection: Selection
    reachable: float
    alternatives: Mapping[tuple[str, str | None], float] = field(default_factory=dict)

    @property
    def score(self) -> Score:
        return self.selection.score
