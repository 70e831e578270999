"""Serializability of list-append histories, by Elle's method (Kingsbury and Alvaro, VLDB 2020).

A read returns a whole list, so it shows in what order values were appended. The longest read of a
key is its *spine*, and every other must be a prefix of it. From the spines follow Adya's edges: ww
(appended next), wr (read what the other appended), rw (read the state before the other's append).
Further edges come from the orders that Hornbeam promises: session, real time, timestamps. README.md
names the anomalies. `check` returns all anomalies that it finds; none means serializable in those
orders, as far as the reads show.

A transaction of unknown outcome counts as committed once a committed one read a value of it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tests.checkers.cycles import Cycle, Edge, Event, Graph, Step, components, find
from tests.checkers.list_append import Append, Read, Transaction

Values = tuple[int, ...]
FINAL = "final"


@dataclass(frozen=True)
class Anomaly:
    """An anomaly in words, and the transactions that show it."""

    kind: str
    transactions: tuple[str, ...]
    words: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.words}"


def check(
    history: Iterable[Transaction], final: Mapping[str, Values] | None = None
) -> list[Anomaly]:
    """Every anomaly of `history`. `final` has the lists of the keys at the end.

    Raises ValueError for an invalid history: a name or an append that occurs twice.
    """
    observed = _Observed(history, final or {})
    graph = _graph(observed)
    return [
        *_bad_values(observed),
        *_bad_orders(observed),
        *_internal(observed),
        *_lost_updates(observed),
        *_lost_appends(observed),
        *_torn_snapshots(observed, graph),
        *(_in_words(observed, cycle) for cycle in find(graph)),
    ]


def kinds(anomalies: Iterable[Anomaly]) -> set[str]:
    return {anomaly.kind for anomaly in anomalies}


def _final_reads(final: Mapping[str, Values]) -> list[Transaction]:
    """The final state, as a query after all transactions. Missing appends are reported as lost, so
    this query is not bound to real time."""
    reads = tuple(Read(key, values) for key, values in final.items())
    over = math.inf
    return [Transaction(FINAL, reads, FINAL, over, over, kind="snapshot")] if reads else []


class _Observed:
    """The facts that the reads of a history show: committed transactions, writers of values, spines
    of keys."""

    def __init__(self, history: Iterable[Transaction], final: Mapping[str, Values]) -> None:
        self.transactions = [*history, *_final_reads(final)]
        self.writer = _writers(self.transactions)
        self.committed = self._committed()
        self.valid: dict[str, set[int]] = defaultdict(set)
        for (key, value), writer in self.writer.items():
            if writer in self.committed:
                self.valid[key].add(value)
        # (reader, key, the values read, the same without invalid values)
        self.reads = [
            (number, key, values, self._cleaned(key, values))
            for number in sorted(self.committed)
            for key, values in self.transactions[number].reads()
        ]
        self.spines: dict[str, Values] = {}
        for _, key, _, values in self.reads:
            self.spines[key] = max(self.spines.get(key, ()), values, key=len)
        self.lost = {
            (key, value)
            for key, values in final.items()
            for value in self.valid[key].difference(values)
        }
        # by key, the committed values that no spine shows and that are not reported as lost
        self.unseen = defaultdict(
            list,
            {
                key: sorted(v for v in missing if (key, v) not in self.lost)
                for key, values in self.valid.items()
                if (missing := values.difference(self.spines.get(key, ())))
            },
        )

    def _committed(self) -> set[int]:
        doubtful: dict[str, set[int]] = defaultdict(set)
        for (key, value), writer in self.writer.items():
            if self.transactions[writer].outcome == "unknown":
                doubtful[key].add(value)
        committed = {n for n, t in enumerate(self.transactions) if t.outcome == "ok"}
        readers = list(committed)
        while readers:
            for key, values in self.transactions[readers.pop()].reads():
                shown = {self.writer[key, value] for value in doubtful[key].intersection(values)}
                readers += shown - committed
                committed |= shown
        return committed

    def _cleaned(self, key: str, values: Values) -> Values:
        """The values without those that are reported separately (aborted, made up, doubled)."""
        once = dict.fromkeys(values)
        if len(once) == len(values) and once.keys() <= self.valid[key]:
            return values
        return tuple(value for value in once if value in self.valid[key])

    def name(self, number: int) -> str:
        return self.transactions[number].name

    def is_failed(self, number: int) -> bool:
        return self.transactions[number].outcome == "failed"

    def is_prefix(self, key: str, values: Values) -> bool:
        return self.spines[key][: len(values)] == values


def _writers(transactions: Sequence[Transaction]) -> dict[tuple[str, int], int]:
    """The transaction that appended each value. Names and appends must be unique in a history."""
    writer: dict[tuple[str, int], int] = {}
    names: set[str] = set()
    for number, transaction in enumerate(transactions):
        if transaction.name in names:
            raise ValueError(f"two transactions are called {transaction.name}")
        names.add(transaction.name)
        for append in transaction.appends():
            if (append.key, append.value) in writer:
                raise ValueError(f"{append.value} is appended to {append.key} twice")
            writer[append.key, append.value] = number
    return writer


# ---- anomalies in single reads


def _bad_values(observed: _Observed) -> Iterator[Anomaly]:
    """Aborted, intermediate, made-up and doubled values, each reported once for reader and
    writer."""
    answered: set[tuple[object, ...]] = set()
    for reader, key, values, cleaned in observed.reads:
        if cleaned is values and not _ends_amid(observed, reader, key, values):
            continue
        for kind, other, words in _faults(observed, reader, key, values):
            if (reader, kind, other, words) not in answered:
                answered.add((reader, kind, other, words))
                who = (
                    (observed.name(reader),)
                    if other is None
                    else (
                        observed.name(other),
                        observed.name(reader),
                    )
                )
                yield Anomaly(kind, who, words)


def _ends_amid(observed: _Observed, reader: int, key: str, values: Values) -> bool:
    """Whether the read ends with an append that its transaction followed by another."""
    writer = observed.writer.get((key, values[-1]), reader) if values else reader
    if writer == reader or writer not in observed.committed:
        return False
    last = [a.value for a in observed.transactions[writer].appends() if a.key == key][-1]
    return last != values[-1]


def _faults(
    observed: _Observed, reader: int, key: str, values: Values
) -> Iterator[tuple[str, int | None, str]]:
    name = observed.name
    read = f"{name(reader)} read {key} as {list(values)}"
    dirty: int | None = None
    for value in values:
        writer = observed.writer.get((key, value))
        if writer is None:
            yield "garbage", None, f"{read}, but no transaction appended {value}"
        elif observed.is_failed(writer):
            dirty = writer
            yield "G1a", writer, f"{read}, with {value} of {name(writer)}, which failed"
        elif dirty is not None:
            words = f"{name(writer)} appended {key}:{value} upon what {name(dirty)}, which failed,"
            yield "dirty-update", dirty, f"{words} had appended"
            dirty = None
    if len(set(values)) < len(values):
        yield "duplicate", None, f"{read}, with a value twice"
    if _ends_amid(observed, reader, key, values):
        writer = observed.writer[key, values[-1]]
        yield "G1b", writer, f"{read}, amid the appends of {name(writer)}"


def _bad_orders(observed: _Observed) -> Iterator[Anomaly]:
    answered: set[tuple[str, Values]] = set()
    for reader, key, _, values in observed.reads:
        if not observed.is_prefix(key, values) and (key, values) not in answered:
            answered.add((key, values))
            words = f"read {key} as {list(values)}, which another read contradicts with"
            yield Anomaly(
                "incompatible-order",
                (observed.name(reader),),
                f"{observed.name(reader)} {words} {list(observed.spines[key])}",
            )
    for number in sorted(observed.committed):
        by_key: dict[str, list[int]] = defaultdict(list)
        for append in observed.transactions[number].appends():
            by_key[append.key].append(append.value)
        for key, appended in by_key.items():
            if len(appended) == 1:
                continue
            shown = [value for value in observed.spines.get(key, ()) if value in appended]
            if shown != [value for value in appended if value in shown]:
                name = observed.name(number)
                words = f"{name} appended {appended} to {key}, which was read in another order"
                yield Anomaly("incompatible-order", (name,), words)


def _internal(observed: _Observed) -> Iterator[Anomaly]:
    """A transaction must read what it has read and appended before, and no append of its own too
    early."""
    for number in sorted(observed.committed):
        transaction = observed.transactions[number]
        name = transaction.name
        base: dict[str, Values | None] = {}  # None: not read, so only the end is known
        own: dict[str, Values] = defaultdict(tuple)
        for op in transaction.operations:
            if isinstance(op, Append):
                base.setdefault(op.key, None)
                own[op.key] += (op.value,)
                continue
            if op.values is None:
                continue
            known, ending = base.get(op.key, ()), own[op.key]
            if op.key in base and not (
                op.values == known + ending
                if known is not None
                else op.values[len(op.values) - len(ending) :] == ending
            ):
                expected = f"{list(known + ending)}" if known is not None else f"… {list(ending)}"
                words = f"{name} read {op.key} as {list(op.values)}, but should see {expected}"
                yield Anomaly("internal", (name,), words)
            base[op.key], own[op.key] = op.values, ()
        yield from _future_reads(transaction)


def _future_reads(transaction: Transaction) -> Iterator[Anomaly]:
    seen: set[tuple[str, int]] = set()
    for op in transaction.operations:
        if isinstance(op, Read):
            seen.update((op.key, value) for value in op.values or ())
        elif (op.key, op.value) in seen:
            words = f"{transaction.name} read {op.key}:{op.value} before it appended it"
            yield Anomaly("future-read", (transaction.name,), words)


def _lost_updates(observed: _Observed) -> Iterator[Anomaly]:
    """Several transactions that read the same state of a key, then appended to it."""
    based: dict[tuple[str, Values], list[str]] = defaultdict(list)
    for number in sorted(observed.committed):
        transaction = observed.transactions[number]
        first: dict[str, Values | None] = {}
        updated: set[str] = set()
        for op in transaction.operations:
            if isinstance(op, Read):
                first.setdefault(op.key, op.values)
                continue
            read = first.setdefault(op.key, None)
            if read is not None and op.key not in updated:
                updated.add(op.key)
                based[op.key, read].append(transaction.name)
    for (key, values), names in based.items():
        if len(names) > 1:
            words = f"{_and(names)} each read {key} as {list(values)} and then appended to it"
            yield Anomaly("lost-update", tuple(names), words)


def _lost_appends(observed: _Observed) -> Iterator[Anomaly]:
    for key, value in sorted(observed.lost):
        name = observed.name(observed.writer[key, value])
        words = f"{name} appended {key}:{value}, which is not there in the end"
        yield Anomaly("lost-append", (name,), words)


def _torn_snapshots(observed: _Observed, graph: Graph) -> Iterator[Anomaly]:
    """Snapshots with a part of a transaction. Both lie in one component of data edges: the values
    read come before the snapshot, and the missing ones after it."""
    for component in components(graph, Edge.RW):
        for reader in sorted(component):
            if observed.transactions[reader].kind != "snapshot":
                continue
            read: dict[str, set[int]] = defaultdict(set)
            for key, values in observed.transactions[reader].reads():
                read[key].update(values)
            for writer in sorted(component):
                appends = [
                    append
                    for append in observed.transactions[writer].appends()
                    if append.key in read and (append.key, append.value) not in observed.lost
                ]
                missed = [a for a in appends if a.value not in read[a.key]]
                if 0 < len(missed) < len(appends):
                    seen = next(a for a in appends if a not in missed)
                    names = (observed.name(writer), observed.name(reader))
                    words = (
                        f"{names[1]} saw {seen.key}:{seen.value} of {names[0]}, "
                        f"but not {missed[0].key}:{missed[0].value}"
                    )
                    yield Anomaly("torn-snapshot", names, words)


# ---- the graph


def _graph(observed: _Observed) -> Graph:
    graph = Graph(len(observed.transactions))
    _add_appends(graph, observed)
    _add_reads(graph, observed)
    _add_sessions(graph, observed)
    _add_real_time(graph, observed)
    _add_timestamps(graph, observed)
    return graph


def _add_appends(graph: Graph, observed: _Observed) -> None:
    """Add ww edges along the spines. A value that no read shows comes after the spine, unless it is
    lost."""
    for key, spine in observed.spines.items():
        for before, after in pairwise(spine):
            writers = observed.writer[key, before], observed.writer[key, after]
            graph.add(*writers, Edge.WW, (key, before, after))
    for key, unseen in observed.unseen.items():
        if spine := observed.spines.get(key, ()):
            for value in unseen:
                writers = observed.writer[key, spine[-1]], observed.writer[key, value]
                graph.add(*writers, Edge.WW, (key, spine[-1], value))


def _add_reads(graph: Graph, observed: _Observed) -> None:
    """Add wr edges from the writer of the last value read, rw edges to that of the first not
    read."""
    for reader, key, _, values in observed.reads:
        if values:
            graph.add(observed.writer[key, values[-1]], reader, Edge.WR, (key, values[-1]))
        if not observed.is_prefix(key, values):
            continue  # the next value is unknown
        following = observed.spines[key][len(values) : len(values) + 1] or observed.unseen[key]
        for value in following:
            graph.add(reader, observed.writer[key, value], Edge.RW, (key, value))


def _committed(observed: _Observed) -> Iterator[tuple[int, Transaction, float | None]]:
    """Number, transaction and its end; None if the client does not know the end."""
    for number in sorted(observed.committed):
        transaction = observed.transactions[number]
        over = transaction.completed if transaction.outcome == "ok" else None
        yield number, transaction, over


def _add_sessions(graph: Graph, observed: _Observed) -> None:
    """A process that passes on its newest bookmark comes after all that it did before."""
    events: dict[str, list[Event]] = defaultdict(list)
    for number, transaction, over in _committed(observed):
        if over is not None:
            events[transaction.process].append(Event(over, True, number))
        if transaction.bookmark:
            events[transaction.process].append(Event(transaction.invoked, False, number))
    for process, of_process in events.items():
        graph.add_timeline(Edge.SESSION, process, of_process)


def _add_real_time(graph: Graph, observed: _Observed) -> None:
    """A write comes after everything that ended before it on one of its roots, a strong snapshot
    after all writes that ended before it. Other snapshots may be older, but never newer."""
    on_root: dict[str, list[Event]] = defaultdict(list)
    strong: list[Event] = []
    for number, transaction, over in _committed(observed):
        is_write = transaction.kind == "write"
        begin = Event(transaction.invoked, False, number)
        ends = [] if over is None else [Event(over, True, number)]
        for root in transaction.shared_roots():
            on_root[root] += [begin, *ends] if is_write else ends
        if is_write:
            strong += ends
        elif transaction.strong:
            strong.append(begin)
    for root, events in on_root.items():
        graph.add_timeline(Edge.REALTIME, f"on root {root}", events)
    graph.add_timeline(Edge.REALTIME, "which is a strong read", strong)


def _add_timestamps(graph: Graph, observed: _Observed) -> None:
    """Writes in the order of their timestamps; a snapshot at S right after writes up to S."""
    events: list[Event] = []
    for number, transaction, _ in _committed(observed):
        if transaction.kind == "write" and transaction.commit_ts is not None:
            at = 2 * transaction.commit_ts
        elif transaction.snapshot_ts is not None:
            at = 2 * transaction.snapshot_ts + 1
        else:
            continue
        events += [Event(at, False, number), Event(at, True, number)]
    graph.add_timeline(Edge.TIMESTAMP, None, events)


# ---- descriptions of anomalies


def _in_words(observed: _Observed, cycle: Cycle) -> Anomaly:
    names = tuple(observed.name(step.before) for step in cycle.steps)
    return Anomaly(cycle.name, names, "; ".join(_step(observed, step) for step in cycle.steps))


def _step(observed: _Observed, step: Step) -> str:
    before, after = observed.transactions[step.before], observed.transactions[step.after]
    a, b = before.name, after.name
    match step.edge:
        case Edge.WW:
            key, first, second = step.why
            return f"{a} appended {key}:{first} before {b} appended {key}:{second}"
        case Edge.WR:
            key, value = step.why
            return f"{a} appended {key}:{value}, which {b} read"
        case Edge.RW:
            key, value = step.why
            return f"{a} read {key} without {value}, which {b} appended"
        case Edge.SESSION:
            return f"{a} was over before {b} passed on the bookmark of {step.why}"
        case Edge.REALTIME:
            times = f"{before.completed:g}, before {b} was invoked at {after.invoked:g}"
            return f"{a} completed at {times}, {step.why}"
        case _:
            return f"{a} has timestamp {_timestamp(before)}, {b} {_timestamp(after)}"


def _timestamp(transaction: Transaction) -> int | None:
    return transaction.commit_ts if transaction.kind == "write" else transaction.snapshot_ts


def _and(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"
