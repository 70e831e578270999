"""Compares each read of the workload with views and without, in turn, in one run.

Two databases hold the same data: one has the chosen views; the other is planned with a budget of
zero for views, so it gets the base indexes that its filters need. Both run the best plan that our
own engine finds. Their answers are compared as well.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from hornbeam_server.demo.measures import percentile
from hornbeam_server.demo.tpcw.data import COUNTRIES, SUBJECTS, Size, user_name
from hornbeam_server.node.database import Database

Values = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of a statement. `views`: whether a view serves it. `ratio` = p50 without views
    / p50 with views."""

    name: str
    served_by: tuple[str, ...]
    views: bool
    p50_ms: float
    p99_ms: float
    base_p50_ms: float
    equal: bool

    @property
    def ratio(self) -> float:
        return self.base_p50_ms / self.p50_ms

    def json(self) -> dict[str, Any]:
        return {**asdict(self), "ratio": self.ratio}


def parameters(size: Size, rng: random.Random) -> dict[str, Callable[[], Values]]:
    """A function for each statement name. It draws parameters that mostly match rows."""

    def customer() -> Values:
        return (rng.randint(1, size.customers),)

    def name() -> Values:
        return (user_name(rng.randint(1, size.customers)),)

    def item() -> Values:
        return (rng.randint(1, size.items),)

    def order() -> Values:
        return (rng.randint(1, size.orders),)

    def subject() -> Values:
        return (rng.choice(SUBJECTS),)

    def letters() -> str:
        return "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=2))

    return {
        "get_name": customer,
        "get_book": item,
        "get_customer": name,
        "search_subject": subject,
        "search_title": lambda: (f"%{letters()}%",),
        "search_author": lambda: (f"{letters()}%",),
        "new_products": subject,
        "best_sellers": subject,
        "related_books": item,
        "admin_related": lambda: item() * 2,
        "get_user_name": customer,
        "get_password": name,
        "get_related1": item,
        "most_recent_order_id": name,
        "most_recent_order": order,
        "most_recent_order_lines": order,
        "get_discount": customer,
        "get_customer_address": customer,
        "country_by_name": lambda: (rng.choice(COUNTRIES),),
        "address_country": lambda: (rng.randint(1, size.addresses),),
        "get_stock": item,
    }


def total_parameters(rng: random.Random) -> dict[str, Callable[[], Values]]:
    """The same for the statements of totals.sql."""
    return {
        "sold_by_subject": lambda: (),
        "sold_of_subject": lambda: (rng.choice(SUBJECTS),),
        "orders_of_country": lambda: (rng.choice(COUNTRIES),),
    }


async def compare_statements(
    database: Database,
    baseline: Database,
    statements: dict[str, str],
    size: Size,
    rounds: int,
) -> list[Comparison]:
    """Run every read `rounds` times on both databases, in turn."""
    drawers = parameters(size, random.Random(7)) | total_parameters(random.Random(8))
    return [
        await _compare(database, baseline, name, statements[name], [draw() for _ in range(rounds)])
        for name, draw in drawers.items()
    ]


async def _compare(
    database: Database, baseline: Database, name: str, sql: str, arguments: list[Values]
) -> Comparison:
    times: tuple[list[float], list[float]] = ([], [])
    equal = True
    for warm_up, values in enumerate([arguments[0], *arguments]):
        answers = []
        for each, into in zip((database, baseline), times, strict=True):
            began = time.perf_counter()
            rows = await each.fetch(sql, values)
            if warm_up:
                into.append((time.perf_counter() - began) * 1000)
            answers.append(sorted(map(repr, rows)))
        # A LIMIT over ties may choose other rows, so then only the numbers of rows must be equal.
        equal &= len(answers[0]) == len(answers[1])
        equal &= "LIMIT" in sql or answers[0] == answers[1]
    return Comparison(
        name,
        database.prepare(sql).served_by,
        bool(database.prepare(sql).rewritten.uses),
        statistics.median(times[0]),
        percentile(times[0], 0.99),
        statistics.median(times[1]),
        equal,
    )
