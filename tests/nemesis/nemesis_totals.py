"""The views of the dashboard: their SELECTs, and their rows computed from the rows of relations.

The same SELECTs are immediate views and live views.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tests.nemesis.nemesis_clients import Rows

COST = 7
"""The cost of every event, so that each total is a multiple of it."""
PLACES = 3
BASE = {
    "event": "SELECT ev_id, ev_m_id, ev_pr_id, ev_type, ev_cost FROM event",
    "product": "SELECT pr_id, pr_cat_id FROM product",
    "category": "SELECT cat_id, cat_name FROM category",
}
"""The queries of the relations from whose rows `totals` computes all views."""
SELECTS = {
    "everything": "SELECT count(*) AS n, sum(ev_cost) AS cost FROM event",
    "by_merchant": """
      SELECT ev_m_id, pr_cat_id, ev_type, count(*) AS n, sum(ev_cost) AS cost
      FROM event JOIN product ON ev_pr_id = pr_id GROUP BY ev_m_id, pr_cat_id, ev_type""",
    "by_category": """
      SELECT cat_name, count(*) AS n, sum(ev_cost) AS cost, max(ev_id) AS latest
      FROM event JOIN product ON ev_pr_id = pr_id JOIN category ON pr_cat_id = cat_id
      GROUP BY cat_name""",
    "newest": f"""
      SELECT ev_m_id, place, ev_id FROM (
        SELECT ev_m_id, ev_id, row_number() OVER (PARTITION BY ev_m_id ORDER BY ev_id DESC) AS place
        FROM event) AS e
      WHERE place <= {PLACES}""",
}


def totals(events: Rows, products: Rows, categories: Rows) -> Mapping[str, Rows]:
    """The rows of each view, sorted, by the rows of `BASE`. Raises AssertionError for an event
    whose cost a client has not inserted."""
    category, name = dict(products), dict(categories)
    merchants: Counter[tuple[Any, ...]] = Counter()
    names: dict[str, list[int]] = {}
    of_merchant: dict[int, list[int]] = {}
    for number, merchant, product, kind, cost in events:
        assert cost == COST, f"event {number} costs {cost}"
        merchants[merchant, category[product], kind] += 1
        names.setdefault(name[category[product]], []).append(number)
        of_merchant.setdefault(merchant, []).append(number)
    return {
        "everything": [(len(events), len(events) * COST if events else None)],
        "by_merchant": sorted((*key, n, n * COST) for key, n in merchants.items()),
        "by_category": sorted(
            (key, len(rows), len(rows) * COST, max(rows)) for key, rows in names.items()
        ),
        "newest": sorted(
            (merchant, place, number)
            for merchant, numbers in of_merchant.items()
            for place, number in enumerate(sorted(numbers, reverse=True)[:PLACES], 1)
        ),
    }


def require_totals(views: Sequence[str], rows: Sequence[Rows]) -> None:
    """`rows` are those of `views`, by the name of their SELECT, and then of `BASE`, all at one
    snapshot: the views have the totals of the events. Raises AssertionError."""
    expected = totals(*rows[len(views) :])
    for name, unsorted in zip(views, rows, strict=False):
        found = sorted(unsorted)
        assert found == expected[name], f"{name} has {found}, and its SELECT {expected[name]}"
