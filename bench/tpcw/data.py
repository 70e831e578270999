"""A TPC-W population: cardinalities and value ranges of the specification (clause 4.3 and 4.6).

For `customers` C and `items` I: address 2 C, orders 0.9 C (or as asked), order_line 3 per order
on average (1 to 5), cc_xacts one per order, author I / 4, country 92. Everything follows from
`seed`. Rows are tuples in column order of `schema.sql`.
"""

from __future__ import annotations

import datetime as dt
import random
import string
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

Row = tuple[Any, ...]

RELATIONS = (
    "country",
    "author",
    "address",
    "customer",
    "item",
    "orders",
    "order_line",
    "cc_xacts",
)
"""Loaded in this order: parents first. Carts begin empty."""

SUBJECTS = [
    "ARTS",
    "BIOGRAPHIES",
    "BUSINESS",
    "CHILDREN",
    "COMPUTERS",
    "COOKING",
    "HEALTH",
    "HISTORY",
    "HOME",
    "HUMOR",
    "LITERATURE",
    "MYSTERY",
    "NON-FICTION",
    "PARENTING",
    "POLITICS",
    "REFERENCE",
    "RELIGION",
    "ROMANCE",
    "SELF-HELP",
    "SCIENCE-NATURE",
    "SCIENCE-FICTION",
    "SPORTS",
    "YOUTH",
    "TRAVEL",
]
BACKINGS = ("HARDBACK", "PAPERBACK", "USED", "AUDIO", "LIMITED-EDITION")
CARDS = ("VISA", "MASTERCARD", "DISCOVER", "AMEX", "DINERS")
SHIPPING = ("AIR", "UPS", "FEDEX", "SHIP", "COURIER", "MAIL")
STATUSES = ("PROCESSING", "SHIPPED", "PENDING", "DENIED")
COUNTRIES = [
    "United States",
    "United Kingdom",
    "Canada",
    "Germany",
    "France",
    "Japan",
    "Netherlands",
    "Italy",
    "Switzerland",
    "Australia",
    "Algeria",
    "Argentina",
    "Armenia",
    "Austria",
    "Azerbaijan",
    "Bahamas",
    "Bahrain",
    "Bangla Desh",
    "Barbados",
    "Belarus",
    "Belgium",
    "Bermuda",
    "Bolivia",
    "Botswana",
    "Brazil",
    "Bulgaria",
    "Cayman Islands",
    "Chad",
    "Chile",
    "China",
    "Christmas Island",
    "Colombia",
    "Croatia",
    "Cuba",
    "Cyprus",
    "Czech Republic",
    "Denmark",
    "Dominican Republic",
    "Eastern Caribbean",
    "Ecuador",
    "Egypt",
    "El Salvador",
    "Estonia",
    "Ethiopia",
    "Falkland Island",
    "Faroe Island",
    "Fiji",
    "Finland",
    "Gabon",
    "Gibraltar",
    "Greece",
    "Guam",
    "Hong Kong",
    "Hungary",
    "Iceland",
    "India",
    "Indonesia",
    "Iran",
    "Iraq",
    "Ireland",
    "Israel",
    "Jamaica",
    "Jordan",
    "Kazakhstan",
    "Kuwait",
    "Lebanon",
    "Luxembourg",
    "Malaysia",
    "Mexico",
    "Mauritius",
    "New Zealand",
    "Norway",
    "Pakistan",
    "Philippines",
    "Poland",
    "Portugal",
    "Romania",
    "Russia",
    "Saudi Arabia",
    "Singapore",
    "Slovakia",
    "South Africa",
    "South Korea",
    "Spain",
    "Sudan",
    "Sweden",
    "Taiwan",
    "Thailand",
    "Trinidad",
    "Turkey",
    "Venezuela",
    "Zambia",
]
SYLLABLES = ["BA", "OG", "AL", "RI", "RE", "SE", "AT", "UL", "IN", "NG"]
TODAY = dt.datetime(2026, 1, 1, 12)


@dataclass(frozen=True, slots=True)
class Size:
    """How much data. `orders_per_customer` is 0.9 in the specification, 10 in Synergy."""

    customers: int = 1_000
    items: int = 1_000
    orders_per_customer: float = 0.9

    @property
    def orders(self) -> int:
        return int(self.customers * self.orders_per_customer)

    @property
    def addresses(self) -> int:
        return 2 * self.customers

    @property
    def authors(self) -> int:
        return max(self.items // 4, 1)

    @property
    def row_counts(self) -> dict[str, int]:
        """Rows per relation, as the planner is told them."""
        return {
            "country": len(COUNTRIES),
            "author": self.authors,
            "address": self.addresses,
            "customer": self.customers,
            "item": self.items,
            "orders": self.orders,
            "order_line": 3 * self.orders,
            "cc_xacts": self.orders,
        }


def user_name(customer: int) -> str:
    """The specification's DigSyl: a syllable per decimal digit."""
    return "".join(SYLLABLES[int(digit)] for digit in str(customer))


class Population:
    """All rows of one size and seed."""

    def __init__(self, size: Size, seed: int = 1) -> None:
        self.size = size
        self._seed = seed

    def rows(self, relation: str) -> Iterator[Row]:
        """Rows of a relation in key order; the same at every call."""
        chance = random.Random(f"{self._seed}/{relation}")
        maker: Iterator[Row] = getattr(self, f"_{relation}")(chance)
        return maker

    def _country(self, chance: random.Random) -> Iterator[Row]:
        for i, name in enumerate(COUNTRIES, start=1):
            yield i, name, round(chance.uniform(0.1, 2000), 6), _text(chance, 3, 18)

    def _author(self, chance: random.Random) -> Iterator[Row]:
        for i in range(1, self.size.authors + 1):
            born = dt.date(1800, 1, 1) + dt.timedelta(chance.randrange(190 * 365))
            names = (_text(chance, 3, 20), _text(chance, 1, 20), _text(chance, 1, 20))
            yield (i, *names, born, _text(chance, 125, 500))

    def _address(self, chance: random.Random) -> Iterator[Row]:
        for i in range(1, self.size.addresses + 1):
            yield i, *address_fields(chance)

    def _customer(self, chance: random.Random) -> Iterator[Row]:
        for i in range(1, self.size.customers + 1):
            yield customer_row(i, chance.randint(1, self.size.addresses), chance)

    def _item(self, chance: random.Random) -> Iterator[Row]:
        items = self.size.items
        for i in range(1, items + 1):
            published = dt.date(1930, 1, 1) + dt.timedelta(chance.randrange(90 * 365))
            price = _money(chance, 100, 999_999)
            yield (
                i,
                _text(chance, 14, 60),
                (i - 1) % self.size.authors + 1,
                published,
                _text(chance, 14, 60),
                chance.choice(SUBJECTS),
                _text(chance, 40, 100),
                *(chance.randint(1, items) for _ in range(5)),
                f"img{i % 100}/thumb_{i}.gif",
                f"img{i % 100}/image_{i}.gif",
                price,
                (price * chance.randint(50, 100) / 100).quantize(Decimal("0.01")),
                published + dt.timedelta(chance.randint(1, 30)),
                chance.randint(10, 30),
                _digits(chance, 13),
                chance.randint(20, 9_999),
                chance.choice(BACKINGS),
                "x".join(f"{chance.randint(1, 9999) / 100:.2f}" for _ in range(3)),
            )

    def _orders(self, chance: random.Random) -> Iterator[Row]:
        for i in range(1, self.size.orders + 1):
            ordered = TODAY - dt.timedelta(days=chance.randint(1, 60), seconds=i % 86_400)
            total = _money(chance, 1_000, 99_999)
            yield (
                i,
                chance.randint(1, self.size.customers),
                ordered,
                total,
                (total * 825 / 10_000).quantize(Decimal("0.01")),
                (total * 10_825 / 10_000).quantize(Decimal("0.01")) + 3,
                chance.choice(SHIPPING),
                ordered + dt.timedelta(days=chance.randint(0, 7)),
                chance.randint(1, self.size.addresses),
                chance.randint(1, self.size.addresses),
                chance.choice(STATUSES),
            )

    def _order_line(self, chance: random.Random) -> Iterator[Row]:
        for order in range(1, self.size.orders + 1):
            for line in range(1, chance.randint(1, 5) + 1):
                item, quantity = chance.randint(1, self.size.items), chance.randint(1, 300)
                discount = chance.randint(0, 30) / 100
                yield line, order, item, quantity, discount, _text(chance, 20, 100)

    def _cc_xacts(self, chance: random.Random) -> Iterator[Row]:
        for order in range(1, self.size.orders + 1):
            yield card_row(order, chance)


def address_fields(chance: random.Random) -> Row:
    """An address without its key."""
    return (
        _text(chance, 15, 40),
        _text(chance, 15, 40),
        _text(chance, 4, 30),
        _text(chance, 2, 20),
        _digits(chance, chance.randint(5, 10)),
        chance.randint(1, len(COUNTRIES)),
    )


def customer_row(customer: int, address: int, chance: random.Random) -> Row:
    name = user_name(customer)
    since = TODAY.date() - dt.timedelta(chance.randint(1, 730))
    last = min(since + dt.timedelta(chance.randint(0, 60)), TODAY.date())
    return (
        customer,
        name,
        name.lower(),
        _text(chance, 8, 15),
        _text(chance, 8, 15),
        address,
        _digits(chance, chance.randint(9, 16)),
        f"{name}@{_text(chance, 2, 9)}.com",
        since,
        last,
        TODAY,
        TODAY + dt.timedelta(hours=2),
        chance.randint(0, 50) / 100,
        Decimal("0.00"),
        _money(chance, 0, 99_999),
        dt.date(1880, 1, 1) + dt.timedelta(chance.randrange(130 * 365)),
        _text(chance, 100, 500),
    )


def card_row(order: int, chance: random.Random) -> Row:
    return (
        order,
        chance.choice(CARDS),
        _digits(chance, 16),
        _text(chance, 14, 30),
        TODAY.date() + dt.timedelta(chance.randint(10, 730)),
        _text(chance, 15, 15),
        _money(chance, 1_000, 99_999),
        TODAY - dt.timedelta(days=chance.randint(1, 60)),
        chance.randint(1, len(COUNTRIES)),
    )


_POOL = "".join(random.Random(0).choices(string.ascii_letters + "     ", k=65_536))


def _text(chance: random.Random, shortest: int, longest: int) -> str:
    """Random letters; a slice of one pool, since making them one by one would take minutes."""
    start = chance.randrange(len(_POOL) - longest)
    return _POOL[start : start + chance.randint(shortest, longest)]


def _digits(chance: random.Random, count: int) -> str:
    return f"{chance.randrange(10**count):0{count}d}"


def _money(chance: random.Random, lowest_cents: int, highest_cents: int) -> Decimal:
    return Decimal(chance.randint(lowest_cents, highest_cents)) / 100
