"""Cycles in the graph of the order of transactions, named after Adya's phenomena.

Nodes below `Graph.transactions` are transactions; the others are points of a *timeline*, a chain
that orders many transactions with few edges. Where several reasons order the same two transactions,
the strongest is kept, so a cycle's name is the worst that its edges allow.

| name | edges of the cycle |
| --- | --- |
| G0 | ww |
| G1c | ww and wr, at least one wr |
| G-single | exactly one rw |
| G-nonadjacent | several rw, no two in a row |
| G2-item | several rw, two of them in a row |

A name with a suffix means that at least one edge of the cycle is of the suffix's order. Every
strongly connected component yields a cycle, so a clean answer is a proof. Only the search for
*further* names in a component is bounded: it stops after SEARCH_LIMIT steps for each.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

SEARCH_LIMIT = 100_000


class Edge(enum.IntEnum):
    """The reason why one transaction comes before another; smaller is stronger."""

    WW = 0
    WR = 1
    RW = 2
    SESSION = 3
    REALTIME = 4
    TIMESTAMP = 5


class Base(enum.IntEnum):
    """The phenomena, worst first."""

    G0 = 0
    G1C = 1
    G_SINGLE = 2
    G_NONADJACENT = 3
    G2_ITEM = 4


NAMES = {
    Base.G0: "G0",
    Base.G1C: "G1c",
    Base.G_SINGLE: "G-single",
    Base.G_NONADJACENT: "G-nonadjacent",
    Base.G2_ITEM: "G2-item",
}
# The graphs that are searched, by their weakest edge: data edges alone, then more orders.
SUFFIXES = {
    Edge.RW: "",
    Edge.SESSION: "-session",
    Edge.REALTIME: "-realtime",
    Edge.TIMESTAMP: "-timestamp",
}


class Event(NamedTuple):
    """A transaction on a timeline: its end (`done`), or its beginning after all earlier ends."""

    time: float
    done: bool
    transaction: int


class Graph:
    def __init__(self, transactions: int) -> None:
        self.transactions = transactions
        self.out: list[dict[int, tuple[Edge, Any]]] = [{} for _ in range(transactions)]

    def add(self, before: int, after: int, edge: Edge, why: Any) -> None:
        """Add that `before` comes before `after`; `why` is kept for the explanation."""
        known = self.out[before].get(after)
        if before != after and (known is None or edge < known[0]):
            self.out[before][after] = (edge, why)

    def add_timeline(self, edge: Edge, why: Any, events: Iterable[Event]) -> None:
        """Put each end before all later beginnings. Events of the same time are concurrent:
        beginnings sort before ends."""
        moment: int | None = None
        sealed = False
        for event in sorted(events):
            if event.done:
                if moment is None or sealed:
                    previous, moment, sealed = moment, len(self.out), False
                    self.out.append({})
                    if previous is not None:
                        self.add(previous, moment, edge, why)
                self.add(event.transaction, moment, edge, why)
            elif moment is not None:
                self.add(moment, event.transaction, edge, why)
                sealed = True


class Step(NamedTuple):
    before: int
    after: int
    edge: Edge
    why: Any


@dataclass(frozen=True)
class Cycle:
    base: Base
    weakest: Edge
    steps: tuple[Step, ...]

    @property
    def name(self) -> str:
        return NAMES[self.base] + SUFFIXES[self.weakest]


def components(graph: Graph, weakest: Edge) -> list[set[int]]:
    """The strongly connected components of more than one node, by edges no weaker than `weakest`.

    Tarjan's algorithm with a stack of its own, for histories deeper than Python's.
    """
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    found: list[set[int]] = []

    def enter(node: int) -> tuple[int, Iterator[int]]:
        index[node] = low[node] = len(index)
        stack.append(node)
        on_stack.add(node)
        return node, (to for to, (edge, _) in graph.out[node].items() if edge <= weakest)

    def leave(node: int) -> None:
        if low[node] != index[node]:
            return
        component: set[int] = set()
        while node not in component:
            component.add(stack.pop())
        on_stack.difference_update(component)
        if len(component) > 1:
            found.append(component)

    for root in range(len(graph.out)):
        work = [] if root in index else [enter(root)]
        while work:
            node, rest = work[-1]
            for to in rest:
                if to not in index:
                    work.append(enter(to))
                    break
                if to in on_stack:
                    low[node] = min(low[node], index[to])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                leave(node)
    return found


class _Seen(NamedTuple):
    """The rw edges of a walk so far: how many (at most two count), and whether two were
    adjacent."""

    rws: int
    adjacent: bool
    last_is_rw: bool
    ordered: bool


_Place = tuple[int, _Seen]


@dataclass(frozen=True)
class _Search:
    """The cycles to find: of `base`, inside `inside`, with an edge of `weakest` if that is an order
    and not a data edge."""

    graph: Graph
    inside: Collection[int]
    base: Base
    weakest: Edge

    @property
    def first(self) -> Edge:
        """The edge at which walks start: a cycle has no beginning, but it must have this edge."""
        if self.base is Base.G0:
            return Edge.WW if self.weakest is Edge.RW else self.weakest
        return Edge.WR if self.base is Base.G1C else Edge.RW

    def after(self, seen: _Seen, edge: Edge) -> _Seen | None:
        """The walk after `edge`; None when no cycle of `base` goes on like this."""
        is_rw = edge is Edge.RW
        if (
            (is_rw and self.base < Base.G_SINGLE)
            or (is_rw and self.base is Base.G_SINGLE and seen.rws)
            or (is_rw and self.base is Base.G_NONADJACENT and seen.last_is_rw)
            or (edge is Edge.WR and self.base is Base.G0)
        ):
            return None
        return _Seen(
            min(2, seen.rws + is_rw),
            seen.adjacent or (is_rw and seen.last_is_rw),
            is_rw,
            seen.ordered or edge is self.weakest,
        )

    def closes(self, seen: _Seen) -> bool:
        """Whether the walk, back at its start, is a cycle of `base`. An rw at the end meets the
        first."""
        if not seen.ordered and self.weakest is not Edge.RW:
            return False
        if self.base is Base.G_NONADJACENT:
            return seen.rws == 2 and not seen.last_is_rw
        if self.base is Base.G2_ITEM:
            return seen.rws == 2 and (seen.adjacent or seen.last_is_rw)
        return True

    def starts(self) -> Iterator[tuple[int, int]]:
        for node in sorted(self.inside):
            if node < self.graph.transactions:
                for to, (edge, _) in self.graph.out[node].items():
                    if edge is self.first and to in self.inside:
                        yield node, to

    def shortest(self) -> Cycle | None:
        best: list[int] | None = None
        fewest = self.graph.transactions + 1
        limit = SEARCH_LIMIT
        for start, then in self.starts():
            path, steps = self._walk(start, then, fewest - 1, limit)
            limit -= steps
            if path is not None and len(set(path)) == len(path) - 1:
                best = path
                fewest = sum(node < self.graph.transactions for node in path[1:])
            if limit <= 0 or fewest == 2:
                break
        return _cycle(self.graph, best) if best else None

    def _walk(self, start: int, then: int, most: int, limit: int) -> tuple[list[int] | None, int]:
        """Search breadth first over (node, edges so far), back to `start`, over at most `most`
        transactions; timeline nodes cost nothing. Returns the closed path, and the number of
        steps."""
        is_rw = self.first is Edge.RW
        first = (then, _Seen(int(is_rw), False, is_rw, self.first is self.weakest))
        came: dict[_Place, _Place | None] = {first: None}
        cost = {first: 1}
        queue = deque([first])
        steps = 0
        while queue and steps < limit:
            at = queue.popleft()
            node, seen = at
            steps += 1
            if node == start:
                if self.closes(seen):
                    return [start, *_trail(came, at)], steps
                continue
            weight = int(node < self.graph.transactions)
            if cost[at] + weight > most:
                continue
            for to, (edge, _) in self.graph.out[node].items():
                if edge > self.weakest or to not in self.inside:
                    continue
                state = self.after(seen, edge)
                if state is None:
                    continue
                target = (to, state)
                if cost[at] + weight < cost.get(target, 1 << 60):
                    cost[target] = cost[at] + weight
                    came[target] = at
                    (queue.append if weight else queue.appendleft)(target)
        return None, steps


def _trail(came: dict[_Place, _Place | None], at: _Place | None) -> list[int]:
    nodes: list[int] = []
    while at is not None:
        nodes.append(at[0])
        at = came[at]
    return nodes[::-1]


def _cycle(graph: Graph, path: list[int]) -> Cycle:
    """Name a closed path of nodes and leave its timeline nodes out."""
    steps: list[Step] = []
    for before, after in pairwise(path):
        edge, why = graph.out[before][after]
        if before < graph.transactions:
            steps.append(Step(before, after, edge, why))
        else:
            steps[-1] = steps[-1]._replace(after=after)
    edges = [step.edge for step in steps]
    rws = edges.count(Edge.RW)
    if rws > 1:
        touching = any(a is b is Edge.RW for a, b in pairwise([edges[-1], *edges]))
        base = Base.G2_ITEM if touching else Base.G_NONADJACENT
    elif rws:
        base = Base.G_SINGLE
    else:
        base = Base.G1C if Edge.WR in edges else Base.G0
    return Cycle(base, max(Edge.RW, *edges), tuple(steps))


def _any_cycle(graph: Graph, inside: set[int], weakest: Edge) -> Cycle:
    """Some cycle of a component: every node has a successor in it, so walk until a node repeats."""
    node = min(node for node in inside if node < graph.transactions)
    path = [node]
    at = {node: 0}
    while True:
        node = next(
            to for to, (edge, _) in graph.out[node].items() if to in inside and edge <= weakest
        )
        path.append(node)
        if node in at:
            cycle = path[at[node] :]
            turn = next(i for i, n in enumerate(cycle) if n < graph.transactions)
            return _cycle(graph, [*cycle[turn:], *cycle[1 : turn + 1]])
        at[node] = len(path) - 1


def find(graph: Graph) -> list[Cycle]:
    """A shortest cycle for each component and name.

    A cycle that needs an order is left out where data edges alone, or a stronger order, have one
    that is as bad.
    """
    found: list[Cycle] = []
    if not components(graph, Edge.TIMESTAMP):
        return found
    for weakest in SUFFIXES:
        for component in components(graph, weakest):
            known = [cycle.base for cycle in found if cycle.steps[0].before in component]
            searches = [
                _Search(graph, component, base, weakest)
                for base in Base
                if weakest is Edge.RW or base < min(known, default=len(Base))
            ]
            cycles = [cycle for search in searches if (cycle := search.shortest())]
            found += cycles or ([] if known else [_any_cycle(graph, component, weakest)])
    return found
