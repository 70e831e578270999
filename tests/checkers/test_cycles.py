"""The search for cycles, compared with a list of all cycles of small random graphs."""

from random import Random

import pytest

from tests.checkers.cycles import SUFFIXES, Edge, Event, Graph, components, find


def every_cycle(graph, component, weakest):
    """Each simple cycle of a component, as nodes, from its smallest on."""

    def extended(path):
        for to, (edge, _) in graph.out[path[-1]].items():
            if edge > weakest or to not in component:
                continue
            if to == path[0]:
                yield path
            elif to > path[0] and to not in path:
                yield from extended([*path, to])

    for start in component:
        yield from extended([start])


def edges_of(graph, path):
    return [graph.out[a][b][0] for a, b in zip(path, [*path[1:], path[0]], strict=True)]


def phenomenon(edges):
    rws = edges.count(Edge.RW)
    if rws == 0:
        return "G1c" if Edge.WR in edges else "G0"
    if rws == 1:
        return "G-single"
    in_a_row = any(a is b is Edge.RW for a, b in zip(edges, [*edges[1:], edges[0]], strict=True))
    return "G2-item" if in_a_row else "G-nonadjacent"


WORST_FIRST = ["G0", "G1c", "G-single", "G-nonadjacent", "G2-item"]


def expected(graph):
    """Names and lengths: each name of a component, unless a weaker graph had one as bad in it."""
    found = []
    for weakest, suffix in SUFFIXES.items():
        for component in components(graph, weakest):
            least = {}
            for path in every_cycle(graph, component, weakest):
                edges = edges_of(graph, path)
                if suffix == "" or weakest in edges:
                    name = phenomenon(edges)
                    least[name] = min(least.get(name, len(path)), len(path))
            known = [WORST_FIRST.index(name) for name, _, _, node in found if node in component]
            found += [
                (name, suffix, length, min(component))
                for name, length in least.items()
                if suffix == "" or WORST_FIRST.index(name) < min(known, default=9)
            ]
    return sorted((name + suffix, length) for name, suffix, length, _ in found)


@pytest.mark.parametrize("seed", range(8))
def test_every_name_is_found_with_its_shortest_cycle(seed):
    choice = Random(seed)
    for _ in range(250):
        graph = Graph(choice.randint(2, 7))
        for _ in range(choice.randint(2, 17)):
            before, after = (
                choice.randrange(graph.transactions),
                choice.randrange(graph.transactions),
            )
            graph.add(before, after, choice.choice([*Edge, Edge.RW]), None)
        found = sorted((cycle.name, len(cycle.steps)) for cycle in find(graph))
        assert found == expected(graph)


@pytest.mark.parametrize("seed", range(4))
def test_a_timeline_orders_ends_before_later_beginnings(seed):
    """The timeline gives the same pairs as a comparison of all intervals, with far fewer edges."""
    choice = Random(seed)
    for _ in range(50):
        spans = [(at, at + choice.randrange(6)) for at in choice.choices(range(20), k=10)]
        graph = Graph(len(spans))
        events = [(begin, False, i) for i, (begin, _) in enumerate(spans)]
        events += [(end, True, i) for i, (_, end) in enumerate(spans)]
        graph.add_timeline(Edge.REALTIME, None, [Event(*event) for event in events])
        for first, (_, end) in enumerate(spans):
            after = {i for i in reached(graph, first) if i < len(spans)}
            assert after == {i for i, (begin, _) in enumerate(spans) if end < begin}


def reached(graph, start):
    seen, stack = set(), [start]
    while stack:
        for to in graph.out[stack.pop()]:
            if to not in seen:
                seen.add(to)
                stack.append(to)
    return seen
