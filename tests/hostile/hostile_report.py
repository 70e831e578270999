"""The report of an attack: figures by family and phase, missed bounds, and a table."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from tests.hostile.hostile_clients import Sent
from tests.hostile.hostile_polite import READ, Asked
from tests.hostile.hostile_requests import Attack
from tests.hostile.hostile_watch import Sample

MB = 1 << 20
ALLOWED = {503, 504, 507}
"""Statuses of 500 and above that report a limit of the server with a reason."""
WORST = 12
MEASURES = ("over_s", "grew_mb", "read_s")
LINGERS_S = 0.5
T = TypeVar("T")


@dataclass(frozen=True)
class Bounds:
    read_p99_ms: float = 50.0
    rss_mb: float = 1024.0
    late_s: float = 5.0
    """An answer that exceeds its time limit by more than this is a hang."""


@dataclass(frozen=True)
class Outcome:
    """The observations of one attack. Times are those of `time.monotonic()`."""

    seed: int
    began: float
    """Start of the attack; earlier requests of the polite client are for comparison."""
    ended: float
    quiet: float
    """End of the quiet time after the attack, and start of the last measurement."""
    sent: list[Sent]
    asked: dict[str, list[Asked]]
    samples: list[Sample]
    peak: int
    """Maximum memory of the server alone, in bytes; 0 if it is not known."""
    lost: list[int]
    """Keys of acknowledged writes that are missing."""
    differences: list[str]
    """Output of `hornbeam verify` if it found differences."""
    restarted: bool
    """The server has ended, or its process id belongs to another process."""
    stopped: bool = False
    """The server was killed because it used too much memory for the machine."""
    left_over: Sequence[int] = ()
    """Children of the server that still run after its end."""
    logged: Sequence[str] = ()
    """Lines of the server's log that report errors."""


def percentile(values: Iterable[float], share: float) -> float:
    """Return the smallest value that at least `share` of `values` do not exceed, or 0."""
    ordered = sorted(values)
    return ordered[max(math.ceil(len(ordered) * share) - 1, 0)] if ordered else 0.0


def milliseconds(asked: Sequence[Asked], share: float) -> float:
    """Return a percentile of latencies in ms; a failed request counts as never answered."""
    return percentile((math.inf if a.failure else a.seconds * 1000 for a in asked), share)


def phases(outcome: Outcome, asked: Sequence[Asked]) -> dict[str, list[Asked]]:
    """Split requests by phase; `during` is the whole run from the first attack to the end."""
    return {
        "before": [a for a in asked if a.due < outcome.began],
        "during": [a for a in asked if a.due >= outcome.began],
        "after": [a for a in asked if a.due >= outcome.quiet],
    }


def status_of(sent: Sent) -> int:
    """Return the HTTP status of the answer; 0 without an answer."""
    word = sent.status.split()[0]
    return int(word) if word.isdigit() else 0


def missed(outcome: Outcome, bounds: Bounds) -> list[str]:
    """Return a sentence for each missed bound."""
    found = []
    for phase, asked in phases(outcome, outcome.asked.get(READ, [])).items():
        p99 = milliseconds(asked, 0.99)
        if phase != "before" and (not asked or p99 > bounds.read_p99_ms):
            found.append(f"Point reads {phase}: p99 is {p99:.1f} ms of {len(asked)} reads.")
    if outcome.peak > bounds.rss_mb * MB:
        found.append(f"The server held {outcome.peak / MB:.0f} MB of memory.")
    found += [
        f"{count} answers {status} to {family}: {label}"
        for (status, family, label), count in Counter(
            (status_of(s), s.family, s.label)
            for s in outcome.sent
            if status_of(s) >= 500 and status_of(s) not in ALLOWED
        ).most_common()
    ]
    found += [
        f"Answered {sent.over_s:.1f} s past its limit of {sent.limit_s:g} s ({sent.status}):"
        f" {sent.family}: {sent.label}"
        for sent in sorted(outcome.sent, key=lambda s: -s.over_s)
        if sent.over_s > bounds.late_s
    ]
    if outcome.lost:
        found.append(f"{len(outcome.lost)} acknowledged writes are lost: {outcome.lost[:5]}.")
    found += [f"hornbeam verify: {words}" for words in outcome.differences]
    if outcome.left_over:
        found.append(f"Children of the server run on: {outcome.left_over}.")
    if outcome.stopped:
        found.append("The server took so much memory that it was killed for the machine's sake.")
    if outcome.restarted:
        found.append("The server has ended during the attack.")
    return found


def by_family(sent: Sequence[Sent]) -> list[dict[str, Any]]:
    families = dict.fromkeys(each.family for each in sent)
    return [_family(name, [s for s in sent if s.family == name]) for name in families]


def _family(name: str, sent: Sequence[Sent]) -> dict[str, Any]:
    return {
        "family": name,
        "sent": len(sent),
        "statuses": dict(sorted(Counter(each.status for each in sent).items())),
        "longest_s": round(max(each.seconds for each in sent), 2),
        "over_s": round(max(each.over_s for each in sent), 2),
    }


def worst(outcome: Outcome) -> list[dict[str, Any]]:
    """Return the labels that are worst in one of these: seconds past the limit, growth of memory of
    the server and its children during the request, and latency of a point read during it. Other
    requests may have caused the last two, unless one client attacked alone."""
    samples = sorted(outcome.samples, key=lambda sample: sample.at)
    reads = sorted(outcome.asked.get(READ, []), key=lambda asked: asked.due)
    found: dict[str, dict[str, Any]] = {}
    for each in outcome.sent:
        row = found.setdefault(
            each.label,
            {"family": each.family, "label": each.label, "sent": 0} | dict.fromkeys(MEASURES, 0.0),
        )
        held = [s.all_rss for s in _beside(each, samples, lambda sample: sample.at)]
        late = [a.seconds for a in _beside(each, reads, lambda asked: asked.due)]
        values = (each.over_s, (max(held) - held[0]) / MB if held else 0.0, max(late, default=0.0))
        row["sent"] += 1
        for name, value in zip(MEASURES, values, strict=True):
            row[name] = max(row[name], round(value, 2))
    first = [sorted(found.values(), key=lambda row: -row[name])[:WORST] for name in MEASURES]
    return [row for row in found.values() if any(row in rows for rows in first)]


def _beside(sent: Sent, ordered: Sequence[T], at: Callable[[T], float]) -> Sequence[T]:
    """Select those of `ordered` from the start of the request until LINGERS_S after its answer."""
    start = bisect_left(ordered, sent.began, key=at)
    return ordered[start : bisect_left(ordered, sent.began + sent.seconds + LINGERS_S, key=at)]


def latencies(outcome: Outcome) -> list[dict[str, Any]]:
    rows = []
    for kind, asked in outcome.asked.items():
        for phase, of in phases(outcome, asked).items():
            answered = [a.seconds * 1000 for a in of if not a.failure]
            rows.append(
                {
                    "kind": kind,
                    "phase": phase,
                    "asked": len(of),
                    "p50_ms": milliseconds(of, 0.5),
                    "p99_ms": milliseconds(of, 0.99),
                    "max_ms": max(answered, default=0.0),
                    "failures": dict(Counter(a.failure for a in of if a.failure)),
                }
            )
    return rows


def timeline(outcome: Outcome) -> list[dict[str, Any]]:
    """Return point reads and the server's memory for each minute from the first attack on, which
    shows whether they grow during an attack."""
    reads = _by_minute(outcome, outcome.asked.get(READ, []), lambda asked: asked.due)
    samples = _by_minute(outcome, outcome.samples, lambda sample: sample.at)
    return [
        {
            "minute": minute,
            "p50_ms": milliseconds(reads.get(minute, []), 0.5),
            "p99_ms": milliseconds(reads.get(minute, []), 0.99),
            "max_ms": milliseconds(reads.get(minute, []), 1),
            "rss_mb": max((s.rss for s in samples.get(minute, [])), default=0) // MB,
        }
        for minute in sorted(reads.keys() | samples.keys())
    ]


def _by_minute(
    outcome: Outcome, values: Iterable[T], at: Callable[[T], float]
) -> dict[int, list[T]]:
    minutes: dict[int, list[T]] = {}
    for value in values:
        if at(value) >= outcome.began:
            minutes.setdefault(int((at(value) - outcome.began) // 60), []).append(value)
    return minutes


def stalls(outcome: Outcome, longer_s: float) -> list[dict[str, Any]]:
    """Return the longest periods with point reads slower than `longer_s`, and the requests of the
    server in each period."""
    late: list[list[Asked]] = []
    for read in sorted(outcome.asked.get(READ, []), key=lambda asked: asked.due):
        if read.due >= outcome.began and read.seconds > longer_s:
            if late and read.due < _over(late[-1]) + LINGERS_S:
                late[-1].append(read)
            else:
                late.append([read])
    longest = sorted(late, key=lambda stall: -max(read.seconds for read in stall))[:WORST]
    return [
        {
            "at_s": round(stall[0].due - outcome.began, 1),
            "seconds": round(max(read.seconds for read in stall), 2),
            "reads": len(stall),
            "beside": sorted(
                f"{sent.family}: {sent.label}"
                for sent in outcome.sent
                if sent.began < _over(stall) and sent.began + sent.seconds > stall[0].due
            ),
        }
        for stall in longest
    ]


def _over(stall: Sequence[Asked]) -> float:
    """Return the time at which the last of these reads was answered."""
    return max(read.due + read.seconds for read in stall)


def memory(outcome: Outcome) -> list[dict[str, Any]]:
    parts = {
        "during": [s for s in outcome.samples if outcome.began <= s.at < outcome.ended],
        "after": [s for s in outcome.samples if s.at >= outcome.quiet],
    }
    return [
        {
            "phase": phase,
            "rss_mb": max((s.rss for s in samples), default=0) // MB,
            "all_rss_mb": max((s.all_rss for s in samples), default=0) // MB,
            "threads": max((s.threads for s in samples), default=0),
            "descriptors": max((s.descriptors for s in samples), default=0),
            "children": max((s.children for s in samples), default=0),
        }
        for phase, samples in parts.items()
    ]


def document(outcome: Outcome, bounds: Bounds) -> dict[str, Any]:
    """Return the JSON report, in which null stands for infinity."""
    return {
        "seed": outcome.seed,
        "seconds": round(outcome.ended - outcome.began, 1),
        "bounds": asdict(bounds),
        "missed": missed(outcome, bounds),
        "families": by_family(outcome.sent),
        "latencies": _finite(latencies(outcome)),
        "timeline": _finite(timeline(outcome)),
        "stalls": stalls(outcome, bounds.read_p99_ms / 1000),
        "memory": [*memory(outcome), {"phase": "peak", "rss_mb": outcome.peak // MB}],
        "acknowledged_writes_lost": outcome.lost,
        "worst": worst(outcome),
        "logged": list(outcome.logged),
    }


def _finite(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {name: None if value == math.inf else value for name, value in row.items()} for row in rows
    ]


def table(outcome: Outcome, bounds: Bounds) -> str:
    lines = [f"{'family':9} {'sent':>6} {'longest':>9} {'over':>8}  answers"]
    lines += [
        f"{row['family']:9} {row['sent']:>6} {row['longest_s']:>7.1f} s {row['over_s']:>6.1f} s  "
        + ", ".join(f"{status}: {count}" for status, count in row["statuses"].items())
        for row in by_family(outcome.sent)
    ]
    head = f"{'polite':11} {'phase':7} {'asked':>7} {'p50':>9} {'p99':>9} {'max':>9}"
    lines += ["", f"{head}  failures"]
    lines += [
        f"{row['kind']:11} {row['phase']:7} {row['asked']:>7} {_ms(row['p50_ms'])}"
        f" {_ms(row['p99_ms'])} {_ms(row['max_ms'])}  "
        + ", ".join(f"{kind}: {count}" for kind, count in row["failures"].items())
        for row in latencies(outcome)
    ]
    lines += ["", "server  RSS, MB  with children  threads  descriptors  children"]
    lines += [
        f"{row['phase']:7} {row['rss_mb']:>7} {row['all_rss_mb']:>14} {row['threads']:>8}"
        f" {row['descriptors']:>12} {row['children']:>9}"
        for row in memory(outcome)
    ]
    lines += [f"peak    {outcome.peak // MB:>7}", ""]
    lines += ["the worst: past its limit, memory grown beside it, latest point read beside it"]
    lines += [
        f"  {row['over_s']:>6.1f} s {row['grew_mb']:>6.0f} MB {row['read_s']:>5.1f} s"
        f"  {row['family']}: {row['label'][:130]}"
        for row in sorted(worst(outcome), key=lambda row: [-row[name] for name in MEASURES])
    ]
    lines += ["", "minute  point reads, p50       p99       max  server, MB"]
    lines += [
        f"{row['minute']:>6} {_ms(row['p50_ms']):>16} {_ms(row['p99_ms'])} {_ms(row['max_ms'])}"
        f" {row['rss_mb']:>11}"
        for row in timeline(outcome)
    ]
    lines += ["", *(f"logged: {line[:300]}" for line in outcome.logged[:20])]
    found = missed(outcome, bounds)
    lines += [f"MISSED: {words[:300]}" for words in found] or ["All bounds are kept."]
    return "\n".join(lines)


def _ms(value: float) -> str:
    return f"{value:>6.1f} ms" if value < math.inf else f"{'failed':>9}"


def reported(drawn: Attack) -> str:
    """Describe one request in a line, to show the requests of a seed."""
    times = f" {drawn.at_once} times" if drawn.at_once > 1 else ""
    return (
        f"{drawn.family}: {drawn.label[:100]} ({drawn.limit_s:g} s, {len(drawn.body)} bytes,"
        f" {drawn.manner.value}{times})"
    )
