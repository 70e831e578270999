"""The order of the statements, and their values, which are the same for every system.

First come the reads of loaded rows, then the writes, each after the writes that it needs, and the
reads of written rows.
"""

from __future__ import annotations

import datetime as dt
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from hornbeam_server.demo.tpcw.compare import parameters
from hornbeam_server.demo.tpcw.data import (
    TODAY,
    Population,
    Size,
    address_fields,
    card_row,
    customer_row,
)

Values = tuple[Any, ...]
LATER = TODAY + dt.timedelta(hours=2)

TIES = frozenset({"best_sellers", "admin_related"})
"""Statements with a LIMIT, ordered by a sum: among equal sums a system may choose other rows."""

WRITES = (
    ("create_cart", "reset_cart_time", "cart_line_insert", "cart_line_update"),
    ("get_cart", "cart_line", "cart_size", "cart_line_delete", "clear_cart"),
    ("enter_address", "create_customer", "refresh_session"),
    ("enter_order", "enter_order_line", "enter_cc_xact"),
    ("set_stock", "admin_update", "admin_update_related"),
)
"""The writes, with the reads of carts, which are empty before."""


@dataclass(frozen=True, slots=True)
class Step:
    """A statement, by its name, and the values of each of its runs."""

    name: str
    runs: tuple[Values, ...]


def script(size: Size, rounds: int, seed: int = 7) -> tuple[Step, ...]:
    """All statements of the workload, each `rounds` times. A system can run the script only once,
    since its inserts need new keys."""
    rng = random.Random(seed)
    reads: dict[str, Callable[[], Values]] = dict(parameters(size, rng))
    population = Population(size)
    addresses = [row[1:] for row in itertools.islice(population.rows("address"), 1_000)]
    reads["find_address"] = lambda: rng.choice(addresses)
    # Phoenix 5.2.1 fails for items without orders.
    ordered = [row[2] for row in itertools.islice(population.rows("order_line"), 1_000)]
    reads["admin_related"] = lambda: (rng.choice(ordered),) * 2
    written = _written(size, rng)
    names = (*reads, *itertools.chain.from_iterable(WRITES))
    drawers = reads | written
    return tuple(Step(name, tuple(drawers[name]() for _ in range(rounds))) for name in names)


def _written(size: Size, rng: random.Random) -> dict[str, Callable[[], Values]]:
    """By statement: a function that draws values, with new keys for inserts."""

    def item() -> int:
        return rng.randint(1, size.items)

    def customer() -> int:
        return rng.randint(1, size.customers)

    def money() -> Decimal:
        return Decimal(rng.randint(1_000, 99_999)) / 100

    def order(number: int) -> Values:
        total, address = money(), rng.randint(1, size.addresses)
        amounts = (total, total, total)
        return (number, customer(), TODAY, *amounts, "AIR", LATER, address, address, "PENDING")

    def line(number: int) -> Values:
        return (number % 7 + 1, number, item(), rng.randint(1, 9), 0.5, "as agreed")

    def after(last: int, values: Callable[[int], Values]) -> Callable[[], Values]:
        numbers = itertools.count(last + 1)
        return lambda: values(next(numbers))

    def later(minutes: int) -> dt.datetime:
        return TODAY + dt.timedelta(minutes=minutes)

    def in_cart(cart: int) -> int:
        """The item of the only line of a cart."""
        return cart % size.items + 1

    return {
        "create_cart": after(0, lambda cart: (cart, TODAY)),
        "reset_cart_time": after(0, lambda cart: (LATER, cart)),
        "cart_line_insert": after(0, lambda cart: (cart, in_cart(cart), 1)),
        "cart_line_update": after(0, lambda cart: (2, cart, in_cart(cart))),
        "get_cart": after(0, lambda cart: (cart,)),
        "cart_line": after(0, lambda cart: (cart, in_cart(cart))),
        "cart_size": after(0, lambda cart: (cart,)),
        "cart_line_delete": after(0, lambda cart: (cart, in_cart(cart))),
        "clear_cart": after(0, lambda cart: (cart,)),
        "enter_address": after(size.addresses, lambda n: (n, *address_fields(rng))),
        "create_customer": after(
            size.customers,
            lambda n: customer_row(n, rng.randint(1, size.addresses), rng),
        ),
        "refresh_session": after(0, lambda n: (later(n), later(n + 120), customer())),
        "enter_order": after(size.orders, order),
        "enter_order_line": after(size.orders, line),
        "enter_cc_xact": after(size.orders, lambda n: card_row(n, rng)),
        "set_stock": lambda: (rng.randint(10, 30), item()),
        "admin_update": lambda: (money(), "image.gif", "thumb.gif", TODAY.date(), item()),
        "admin_update_related": lambda: (*(item() for _ in range(5)), item()),
    }
