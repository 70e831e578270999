"""The Dashboard's rows and its view, in the sizes of the thesis (6.3): 50 shops, 5 000 products, 20
categories and 5 000 events."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

Row = tuple[Any, ...]

SCHEMA = Path(__file__).parent / "schema.sql"
VIEW = "cost_by_shop_and_category"
SELECT = """
SELECT s_name, c_name, count(*) AS events, sum(ev_cost) AS cost
FROM events JOIN shops ON ev_s_id = s_id JOIN products ON ev_p_id = p_id
JOIN categories ON p_c_id = c_id GROUP BY s_name, c_name
"""
"""The cost of each shop in each category (listing 2.1 asks for one of them)."""
UPDATE = "UPDATE events SET ev_cost = ? WHERE ev_id = ?"
SHOPS, PRODUCTS, CATEGORIES = 50, 5_000, 20
DIVISOR = 5
"""All costs are multiples of it, so all sums are (6.2)."""
BEGAN = dt.datetime(2026, 1, 1)
RELATIONS = ("categories", "shops", "address", "products", "events")
"""In loading order: parents first."""


@dataclass(frozen=True, slots=True)
class Mode:
    """A way to keep the view: the options of its definition (None: there is no view), and the
    seconds between batches of a deferred one."""

    name: str
    options: str | None = None
    interval_s: float = 0.0

    @property
    def ddl(self) -> str:
        ddl = SCHEMA.read_text()
        if self.options is not None:
            ddl += f"CREATE MATERIALIZED VIEW {VIEW} WITH ({self.options}) AS {SELECT};\n"
        return ddl


NOTHING = Mode("no view")
IMMEDIATE = Mode("immediate", "refresh = 'immediate'")


def deferred(interval_ms: int) -> Mode:
    options = f"refresh = 'deferred', interval = '{interval_ms} ms'"
    return Mode(f"deferred, {interval_ms} ms", options, interval_ms / 1000)


def rows(relation: str, events: int) -> Iterator[Row]:
    """The rows of a relation in key order and in column order. Every call gives the same rows."""
    rng = random.Random(relation)
    match relation:
        case "categories":
            return ((n, f"category {n}", None if n < 4 else n // 4) for n in range(CATEGORIES))
        case "shops":
            return ((n, f"shop {n}") for n in range(SHOPS))
        case "address":
            return ((n, f"{n} Main St", "Delft", "South", f"{n:05}", "NL") for n in range(SHOPS))
        case "products":
            return (
                (n, n % SHOPS, rng.randrange(CATEGORIES), f"product {n}", "for sale", n // 3)
                for n in range(PRODUCTS)
            )
        case _:
            return (_event(n, rng) for n in range(events))


def _event(number: int, rng: random.Random) -> Row:
    """An event of a random product. A product's number determines its shop."""
    product = rng.randrange(PRODUCTS)
    kind = rng.choice(("click", "view"))
    time = BEGAN + dt.timedelta(seconds=number)
    return number, time, product, product % SHOPS, kind, cost(rng)


def cost(rng: random.Random) -> Decimal:
    return Decimal(DIVISOR * rng.randint(1, 100))
