"""Serializability of list-append histories by cycle search (Adya's phenomena; Elle's method).

A read returns a whole list, so it shows its key's version order. Edges: ww (appended next), wr
(read what the other appended), rw (read the state before the other's append), and rt (ended before
the other began, `real_time` pairs given by the caller). A cycle of ww is G0, of ww and wr G1c, with
one rw G-single, with more G2-item; a cycle that needs rt is a real-time violation.
Not detected: predicate phenomena, appends that no read shows (so no lost appends).
An unknown outcome counts as committed once somebody reads one of its appends.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal


@dataclass(frozen=True)
class Operation:
    """An append of `values[0]`, or a read that returned `values`."""

    kind: Literal["append", "read"]
    key: str
    values: tuple[int, ...]


@dataclass(frozen=True)
class Transaction:
    name: str
    operations: tuple[Operation, ...]
    outcome: Literal["committed", "aborted", "unknown"] = "committed"

    def appends(self, key: str) -> list[int]:
        return [o.values[0] for o in self.operations if o.kind == "append" and o.key == key]


@dataclass(frozen=True)
class Anomaly:
    name: str
    words: str


def check(
    history: Iterable[Transaction], real_time: Iterable[tuple[str, str]] = ()
) -> list[Anomaly]:
    """Every anomaly of single reads, and one shortest cycle per kind."""
    found: list[Anomaly] = []
    known = list(history)
    writer = {(o.key, o.values[0]): t for t in known for o in t.operations if o.kind == "append"}
    reads = [
        (t, o) for t in known if t.outcome == "committed" for o in t.operations if o.kind == "read"
    ]
    order: dict[str, tuple[int, ...]] = {}
    for t, o in reads:
        found += _bad_read(t, o, writer)
        longest = order.get(o.key, ())
        short, long = sorted((longest, o.values), key=len)
        if long[: len(short)] != short:
            found.append(Anomaly("incompatible-order", f"{o.key} was read as {short} and {long}"))
        order[o.key] = long
    edges: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))

    def link(a: Transaction | None, b: Transaction | None, kind: str) -> None:
        if a and b and a.name != b.name:
            edges[a.name][b.name].add(kind)

    for key, values in order.items():
        for a, b in pairwise(values):
            link(writer.get((key, a)), writer.get((key, b)), "ww")
    for t, o in reads:
        if o.values:
            link(writer.get((o.key, o.values[-1])), t, "wr")
        if len(o.values) < len(order[o.key]):
            link(t, writer.get((o.key, order[o.key][len(o.values)])), "rw")
    for a, b in real_time:
        edges[a][b].add("rt")
    return found + _cycles(edges)


def _bad_read(
    t: Transaction, o: Operation, writer: Mapping[tuple[str, int], Transaction]
) -> list[Anomaly]:
    found = []
    if len(set(o.values)) < len(o.values):
        found.append(Anomaly("duplicate", f"{t.name} read {o.key} as {o.values}"))
    for value in o.values:
        source = writer.get((o.key, value))
        if source is None:
            found.append(Anomaly("unwritten", f"{t.name} read {value} in {o.key}"))
        elif source.outcome == "aborted":
            found.append(
                Anomaly("G1a", f"{t.name} read {value} in {o.key} of aborted {source.name}")
            )
    last = writer.get((o.key, o.values[-1])) if o.values else None
    if last and last.name != t.name and last.appends(o.key)[-1] != o.values[-1]:
        found.append(Anomaly("G1b", f"{t.name} read {o.key} amid the appends of {last.name}"))
    return found


def _cycles(edges: Mapping[str, Mapping[str, set[str]]]) -> list[Anomaly]:
    """The strictest name for a shortest cycle: kinds are tried from the fewest edges up."""
    steps = (
        ("G0", {"ww"}, ""),
        ("G1c", {"ww", "wr"}, ""),
        ("G-single", {"ww", "wr"}, "rw"),
        ("G2-item", {"ww", "wr", "rw"}, ""),
        ("real-time", {"ww", "wr", "rw", "rt"}, ""),
    )
    for name, kinds, first in steps:
        for a in list(edges):
            for b, via in list(edges[a].items()):
                if via & ({first} if first else kinds) and (path := _path(edges, b, a, kinds)):
                    return [Anomaly(name, " → ".join((a, *path)))]
    return []


def _path(
    edges: Mapping[str, Mapping[str, set[str]]], start: str, goal: str, kinds: set[str]
) -> list[str] | None:
    came: dict[str, str] = {start: ""}
    queue = deque([start])
    while queue:
        at = queue.popleft()
        if at == goal:
            path = [at]
            while came[path[-1]]:
                path.append(came[path[-1]])
            return path[::-1]
        for to, via in edges.get(at, {}).items():
            if to not in came and via & kinds:
                came[to] = at
                queue.append(to)
    return None
