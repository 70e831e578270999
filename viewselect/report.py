"""A plan's explanation as plain text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from hornbeam_server.viewselect.explain import size_words
from hornbeam_server.viewselect.explanation import Explanation, QueryReport, RelationReport


def plan_json(explanation: Explanation) -> dict[str, Any]:
    """Every report, by the names of its fields. Sizes are in bytes, costs in row reads."""
    return asdict(explanation)


def plan_summary(explanation: Explanation) -> str:
    """Types, trees, the comparison of both methods, and views."""
    return "\n".join(_summary(explanation))


def plan_text(explanation: Explanation) -> str:
    """The whole explanation."""
    return "\n".join(_all(explanation))


def _all(x: Explanation) -> Iterator[str]:
    yield from _summary(x)
    yield ""
    yield "INDEXES"
    yield from table(
        ("index", "purpose", "why"), [(i.name, i.purpose, i.reason) for i in x.indexes]
    )
    yield ""
    yield "QUERIES (row reads per execution, without and with views)"
    for query in x.queries:
        yield from _query(query)


def _summary(x: Explanation) -> Iterator[str]:
    if x.notes:
        yield "NOTES"
        yield from (f"  {note}" for note in x.notes)
        yield ""
    yield "TREES " + ("(learned roots)" if x.roots is None else f"(roots {', '.join(x.roots)})")
    yield from _trees(x.relations)
    yield ""
    yield "ROWS"
    yield from table(
        ("relation", "rows", "that are"),
        [(r.relation, f"{r.rows:,}", r.rows_are) for r in x.relations],
    )
    if x.note:
        yield f"  {x.note}"
    yield ""
    about = "about " if x.assumed else ""
    size = f"{about}{size_words(x.base_size)}, as the column types have it"
    yield f"METHODS (saved and upkeep in row reads per unit of workload; base relations {size})"
    yield from table(
        (
            "method", "objective", "faster reads", "slower writes", "saved", "upkeep",
            "joins covered", "by its trees", "storage",
        ),
        [
            (
                m.method + (" *" if m.chosen else ""), f"{m.objective:,.2f}",
                f"{m.faster:,.2f} ×", f"{m.slower:.0%}", f"{m.saved:,.0f}", f"{m.upkeep:,.0f}",
                f"{m.joins:g} of {x.joins:g}", f"{m.reachable:g}",
                size_words(m.size),
            )
            for m in x.methods
        ],
    )  # fmt: skip
    for method in x.methods:
        yield f"  views of {method.method}: " + ("; ".join(method.views) or "none")
    other = next(m.method for m in x.methods if not m.chosen)
    for b in x.besides:
        yield (
            f"  {other} serves besides: {b.statement} {b.plan_cost:,.0f} → {b.cost:,.0f} with"
            f" {', '.join(b.views)}; upkeep {b.upkeep:+,.0f}, objective {b.value:+,.2f}"
        )
    yield ""
    yield "VIEWS"
    yield from table(
        ("view", "rows", "storage", "fan-out", "upkeep", "value", "serves", "by rows that are"),
        [
            (
                v.name, f"{v.rows:,}", size_words(v.size), f"{v.fan_out:,.1f}",
                f"{v.upkeep:,.0f}", f"{v.value:,.2f}", ", ".join(v.serves),
                "assumed" if v.assumed else "counted",
            )
            for v in x.views
        ],
    )  # fmt: skip
    for view in x.views:
        if view.sql:
            yield f"  {view.name}: {' '.join(view.sql.split())}"
    for path, reason in x.dropped:
        yield f"  not kept: {path}: {reason}"
    if x.cut:
        yield ""
        yield "CUT SHORT (too much to search; a smaller workload is searched further)"
        yield from (f"  {words}" for words in x.cut)


def _trees(relations: Sequence[RelationReport]) -> Iterator[str]:
    below: dict[tuple[str, ...], list[RelationReport]] = {}
    for relation in relations:
        below.setdefault(relation.path[:-1], []).append(relation)

    def lines(above: tuple[str, ...]) -> Iterator[str]:
        for relation in below.get(above, ()):
            branch = "   " * len(above) + ("└─ " if above else "")
            yield f"  {branch}{relation.relation}: {relation.why}"
            yield from lines(relation.path)

    yield from lines(())


def _query(query: QueryReport) -> Iterator[str]:
    yield f"  {query.statement} (weight {query.weight:g}): {'; '.join(_served(query))}"
    for words in query.reads:
        yield f"      reads {words}"
    for words in query.uncovered:
        yield f"      not covered: {words}"
    for words in query.aggregates:
        yield f"      aggregates: {words}"


def _served(query: QueryReport) -> Iterator[str]:
    if query.deferred:
        yield f"served by deferred {', '.join(query.deferred)}, which is not priced"
    if query.reads or not query.deferred:
        served = f"views {', '.join(query.views)}" if query.views else "base relations"
        yield f"{query.base_cost:,.0f} → {query.cost:,.0f}, served by {served}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of a table: a head with a rule, and padded columns; numbers are right-aligned."""
    lines = [tuple(head), *map(tuple, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    right = [bool(rows) and all(row[i][:1].isdigit() or row[i][:1] == "-" for row in rows)
             for i in range(len(head))]  # fmt: skip
    for number, line in enumerate(lines):
        cells = (
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(line, widths, right, strict=True)
        )
        yield "  " + "  ".join(cells).rstrip()
        if number == 0:
            yield "  " + "  ".join("-" * width for width in widths)
