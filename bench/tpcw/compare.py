"""Each read of the workload with views and on base relations only, in turn, in one run.

Both plans are ours: "base only" is the best plan the same engine finds when views are switched
off. The answers are compared as well.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from api.database import Database
from bench.tpcw.data import COUNTRIES, SUBJECTS, Size, user_name

Values = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One statement. `ratio` = base p50 / p50 with views."""

    name: str
    served_by: tuple[str, ...]
    joins: bool
    p50_ms: float
    p99_ms: float
    base_p50_ms: float
    equal: bool

    @property
    def ratio(self) -> float:
        return self.base_p50_ms / self.p50_ms

    def json(self) -> dict[str, Any]:
        return {**asdict(self), "ratio": self.ratio}


def parameters(size: Size, chance: random.Random) -> dict[str, Callable[[], Values]]:
    """Parameters that hit, by statement name."""

    def customer() -> Values:
        return (chance.randint(1, size.customers),)

    def name() -> Values:
        return (user_name(chance.randint(1, size.customers)),)

    def item() -> Values:
        return (chance.randint(1, size.items),)

    def order() -> Values:
        return (chance.randint(1, size.orders),)

    def subject() -> Values:
        return (chance.choice(SUBJECTS),)

    def letters() -> str:
        return "".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=2))

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
        "country_by_name": lambda: (chance.choice(COUNTRIES),),
        "address_country": lambda: (chance.randint(1, size.addresses),),
        "get_stock": item,
    }


async def compare_statements(
    database: Database, statements: dict[str, str], size: Size, rounds: int
) -> list[Comparison]:
    """Run every read `rounds` times each way, interleaved."""
    made = parameters(size, random.Random(7))
    return [
        await _compare(database, name, statements[name], [make() for _ in range(rounds)])
        for name, make in made.items()
    ]


async def _compare(database: Database, name: str, sql: str, arguments: list[Values]) -> Comparison:
    with_views: list[float] = []
    base_only: list[float] = []
    equal = True
    for warm_up, values in enumerate([arguments[0], *arguments]):
        answers = []
        for use_views, into in ((True, with_views), (False, base_only)):
            began = time.perf_counter()
            rows = await database.fetch(sql, values, use_views=use_views)
            if warm_up:
                into.append((time.perf_counter() - began) * 1000)
            answers.append(sorted(map(repr, rows)))
        # A LIMIT over ties may choose other rows; equal lengths is what can be promised then.
        equal &= len(answers[0]) == len(answers[1])
        equal &= "LIMIT" in sql or answers[0] == answers[1]
    prepared = database.prepare(sql)
    ordered = sorted(with_views)
    return Comparison(
        name,
        prepared.served_by,
        len(set(database.prepare(sql, use_views=False).served_by)) > 1,
        statistics.median(ordered),
        ordered[math.ceil(len(ordered) * 0.99) - 1],
        statistics.median(base_only),
        equal,
    )
