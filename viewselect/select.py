"""From trees to the views worth keeping: selection, what pays, what fits the budget.

Source: seed 002, VI-A. Beyond the paper: a view that costs more upkeep than it saves is dropped,
one whose queries another view serves as well is dropped (views are shared between queries), and
a storage budget is kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from viewselect.cost import Objective, Score
from viewselect.cover import ViewPath, marked_paths
from viewselect.workload import EdgeId, Workload


@dataclass(frozen=True)
class Dropped:
    """A candidate that was selected for a query and then dropped. `value` is what it added to the
    objective at that time, in row reads per unit of workload."""

    view: ViewPath
    value: float
    size: float
    budget: bool = False


@dataclass(frozen=True)
class Selection:
    score: Score
    dropped: tuple[Dropped, ...] = ()


def select_views(workload: Workload, edges: Collection[EdgeId]) -> frozenset[ViewPath]:
    """The union over the workload of the views that each query selects (VI-A)."""
    return frozenset(use.view for read in workload.reads for use in marked_paths(read, edges))


def keep_paying(objective: Objective, views: Iterable[ViewPath]) -> Selection:
    """Drop views, the worst first, as long as that improves the objective."""
    kept, dropped = frozenset(views), list[Dropped]()
    while kept:
        score = objective.score(kept)
        without = [(objective.score(kept - {view}), view) for view in score.views]
        best, view = max(without, key=lambda entry: entry[0].order)
        if best.order <= score.order:
            break
        dropped.append(_dropped(score, best, view))
        kept -= {view}
    return Selection(objective.score(kept), tuple(dropped))


def keep_budget(objective: Objective, selection: Selection, limit: float) -> Selection:
    """Drop views until they and their indexes take at most `limit` bytes: least value per byte
    first, so that a larger budget keeps all that a smaller one does."""
    score, dropped = selection.score, list(selection.dropped)
    while score.size > limit:
        without = [(objective.score({*score.views} - {view}), view) for view in score.views]
        best, view = min(without, key=lambda entry: _density(score, *entry))
        dropped.append(_dropped(score, best, view, budget=True))
        score = best
    return Selection(score, tuple(dropped))


def _density(score: Score, without: Score, view: ViewPath) -> float:
    """Value per byte of one view, all others kept."""
    return (score.objective - without.objective) / max(1.0, score.costs[view].size)


def _dropped(score: Score, without: Score, view: ViewPath, budget: bool = False) -> Dropped:
    value = score.objective - without.objective
    return Dropped(view, value, score.costs[view].size, budget)
