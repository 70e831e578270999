"""Selection of views from trees: candidates, then those worth their upkeep, then the budget.

Source: Synergy, VI-A. Beyond the paper, a view is dropped if its upkeep exceeds its savings, or if
another view serves its queries as well (queries share views), or if it exceeds the storage budget.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from hornbeam_server.viewselect.cost import Choice, Objective, Score
from hornbeam_server.viewselect.cover import ViewPath, marked_paths
from hornbeam_server.viewselect.workload import EdgeId, Workload


@dataclass(frozen=True)
class Dropped:
    """A candidate that was selected for a query and then dropped. `value` is its contribution to
    the objective when it was dropped; `size` is in bytes."""

    view: Choice
    value: float
    size: float
    budget: bool = False


@dataclass(frozen=True)
class Selection:
    score: Score
    dropped: tuple[Dropped, ...] = ()


def select_views(workload: Workload, edges: Collection[EdgeId]) -> frozenset[ViewPath]:
    """The union of the views that the queries of the workload select (VI-A)."""
    return frozenset(use.view for read in workload.reads for use in marked_paths(read, edges))


def keep_paying(objective: Objective, views: Iterable[Choice]) -> Selection:
    """Drop views, the worst first, as long as that improves the objective."""
    kept, dropped = frozenset(views), list[Dropped]()
    while kept:
        score = objective.score(kept)
        if objective.watch.spent:
            return _drop_estimated(objective, Selection(score, tuple(dropped)))
        without = [(objective.score(kept - {view}), view) for view in score.choices]
        best, view = max(without, key=lambda entry: entry[0].order)
        if best.order <= score.order:
            break
        dropped.append(_dropped(score, best, view))
        kept -= {view}
    return Selection(objective.score(kept), tuple(dropped))


def choose_aggregates(objective: Objective) -> Selection:
    """The aggregate views that pay without join views. A candidate that was dropped may be better
    than several others together, so each is also tried in place of those whose blocks it answers.
    """
    candidates = objective.aggregates.candidates
    best = keep_paying(objective, candidates)
    blocks = {
        view: {number for number, name in objective.aggregates.answers if name == view.name}
        for view in candidates
    }
    improved = True
    while improved and not objective.watch.spent:
        improved = False
        for view in candidates:
            every = best.score.aggregates
            others = [other for other in every if not blocks[other] <= blocks[view]]
            trials = [keep_paying(objective, {*kept, view}) for kept in (every, others)]
            trial = max(trials, key=lambda each: each.score.order)
            if trial.score.order > best.score.order:
                best, improved = trial, True
    return _with_dropped(objective, best)


def _with_dropped(objective: Objective, selection: Selection) -> Selection:
    """A selection of aggregate views that lists all other candidates as dropped, each with the
    value that it would have in addition."""
    score = selection.score
    dropped = []
    for view in objective.aggregates.candidates:
        if view not in score.aggregates:
            more = objective.score({*score.choices, view})
            dropped.append(_dropped(more, score, view))
    return Selection(score, tuple(dropped))


def _drop_estimated(objective: Objective, selection: Selection) -> Selection:
    """Repeatedly drop, all at once, the views whose part in the objective is not above 0, by an
    estimate."""
    objective.watch.cut("views that do not pay: dropped by an estimate, not one after the other")
    score, dropped = selection.score, list(selection.dropped)
    while losing := [(v, worth) for v, worth in objective.worth(score).items() if worth <= 0]:
        dropped += [Dropped(view, worth, score.costs[view].size) for view, worth in losing]
        score = objective.score({*score.choices} - {view for view, _ in losing})
    return Selection(score, tuple(dropped))


def keep_budget(objective: Objective, selection: Selection, limit: float) -> Selection:
    """Drop views until they and their indexes take at most `limit` bytes, and further views if that
    improves the objective. The view with the smallest value per byte goes first, so a larger budget
    keeps every view of a smaller one, and is never worse."""
    score, dropped = selection.score, list(selection.dropped)
    kept: Selection | None = None
    while True:
        fits = score.size <= limit
        if fits and (kept is None or score.objective > kept.score.objective):
            kept = Selection(score, tuple(dropped))
        if kept is not None and (not score.choices or objective.watch.spent):
            return kept
        without = [(objective.score({*score.choices} - {view}), view) for view in score.choices]
        best, view = min(without, key=lambda entry: _density(score, *entry))
        dropped.append(_dropped(score, best, view, budget=True))
        score = best


def _density(score: Score, without: Score, view: Choice) -> float:
    """Value per byte of one view, given all others."""
    return (score.objective - without.objective) / max(1.0, score.costs[view].size)


def _dropped(score: Score, without: Score, view: Choice, budget: bool = False) -> Dropped:
    value = score.objective - without.objective
    return Dropped(view, value, score.costs[view].size, budget)
