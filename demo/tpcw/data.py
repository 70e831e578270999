"""A TPC-W population: cardinalities and value ranges of the specification (clause 4.3 and 4.6).

For `customers` C and `items` I: address 2 C, orders 0.9 C (or `orders_per_customer`), order_line 3
per order on average (1 to 5), cc_xacts one per order, author I / 4, country 92. `seed` determines
all values. Rows are tuples in column order of `schema.sql`.
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
"""The relations in loading order: parents first. Carts are empty at first."""

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
    """The size of a population. `orders_per_customer` is 0.9 in the specification, 10 in
    Synergy."""

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
        """The number of rows of each relation, for the planner."""
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
    """The user name of a customer: the specification's DigSyl, a syllable per decimal digit."""
    return "".join(SYLLABLES[int(digit)] for digit in str(customer))


class Population:
    """All rows for a size and a seed."""

    def __init__(self, size: Size, seed: int = 1) -> None:
        self.size = size
        self._seed = seed

    def rows(self, relation: str) -> Iterator[Row]:
        """The rows of a relation in key order. Every call gives the same rows."""
        rng = random.Random(f"{self._seed}/{relation}")
        rows: Iterator[Row] = getattr(self, f"_{relation}")(rng)
        return rows

    def _country(self, rng: random.Random) -> Iterator[Row]:
        for i, name in enumerate(COUNTRIES, start=1):
            yield i, name, round(rng.uniform(0.1, 2000), 6), _text(rng, 3, 18)

    def _author(self, rng: random.Random) -> Iterator[Row]:
        for i in range(1, self.size.authors + 1):
            born = dt.date(1800, 1, 1) + dt.timedelta(rng.randrange(190 * 365))
            names = (_text(rng, 3, 20), _text(rng, 1, 20), _text(rng, 1, 20))
            yield (i, *names, born, _text(rng, 125, 500))

    def _address(self, rng: random.Random) -> Iterator[Row]:
        for i in range(1, self.size.addresses + 1):
            yield i, *address_fields(rng)

    def _customer(self, rng: random.Random) -> Iterator[Row]:
        for i in range(1, self.size.customers + 1):
            yield customer_row(i, rng.randint(1, self.size.addresses), rng)

    def _item(self, rng: random.Random) -> Iterator[Row]:
        items = self.size.items
        for i in range(1, items + 1):
            published = dt.date(1930, 1, 1) + dt.timedelta(rng.randrange(90 * 365))
            price = _money(rng, 100, 999_999)
            yield (
                i,
                _text(rng, 14, 60),
                (i - 1) % self.size.authors + 1,
                published,
                _text(rng, 14, 60),
                rng.choice(SUBJECTS),
                _text(rng, 40, 100),
                *(rng.randint(1, items) for _ in range(5)),
                f"img{i % 100}/thumb_{i}.gif",
                f"img{i % 100}/image_{i}.gif",
                price,
                (price * rng.randint(50, 100) / 100).quantize(Decimal("0.01")),
                published + dt.timedelta(rng.randint(1, 30)),
                rng.randint(10, 30),
                _digits(rng, 13),
                rng.randint(20, 9_999),
                rng.choice(BACKINGS),
                "x".join(f"{rng.randint(1, 9999) / 100:.2f}" for _ in range(3)),
            )

    def _orders(self, rng: random.Random) -> Iterator[Row]:
        for i in range(1, self.size.orders + 1):
            ordered = TODAY - dt.timedelta(days=rng.randint(1, 60), seconds=i % 86_400)
            total = _money(rng, 1_000, 99_999)
            yield (
                i,
                rng.randint(1, self.size.customers),
                ordered,
                total,
                (total * 825 / 10_000).quantize(Decimal("0.01")),
                (total * 10_825 / 10_000).quantize(Decimal("0.01")) + 3,
                rng.choice(SHIPPING),
                ordered + dt.timedelta(days=rng.randint(0, 7)),
                rng.randint(1, self.size.addresses),
                rng.randint(1, self.size.addresses),
                rng.choice(STATUSES),
            )

    def _order_line(self, rng: random.Random) -> Iterator[Row]:
        for order in range(1, self.size.orders + 1):
            for line in range(1, rng.randint(1, 5) + 1):
                item, quantity = rng.randint(1, self.size.items), rng.randint(1, 300)
                discount = rng.randint(0, 30) / 100
                yield line, order, item, quantity, discount, _text(rng, 20, 100)

    def _cc_xacts(self, rng: random.Random) -> Iterator[Row]:
        for order in range(1, self.size.orders + 1):
            yield card_row(order, rng)


def address_fields(rng: random.Random) -> Row:
    """An address without its key."""
    return (
        _text(rng, 15, 40),
        _text(rng, 15, 40),
        _text(rng, 4, 30),
        _text(rng, 2, 20),
        _digits(rng, rng.randint(5, 10)),
        rng.randint(1, len(COUNTRIES)),
    )


def customer_row(customer: int, address: int, rng: random.Random) -> Row:
    name = user_name(customer)
    since = TODAY.date() - dt.timedelta(rng.randint(1, 730))
    last = min(since + dt.timedelta(rng.randint(0, 60)), TODAY.date())
    return (
        customer,
        name,
        name.lower(),
        _text(rng, 8, 15),
        _text(rng, 8, 15),
        address,
        _digits(rng, rng.randint(9, 16)),
        f"{name}@{_text(rng, 2, 9)}.com",
        since,
        last,
        TODAY,
        TODAY + dt.timedelta(hours=2),
        rng.randint(0, 50) / 100,
        Decimal("0.00"),
        _money(rng, 0, 99_999),
        dt.date(1880, 1, 1) + dt.timedelta(rng.randrange(130 * 365)),
        _text(rng, 100, 500),
    )


def card_row(order: int, rng: random.Random) -> Row:
    return (
        order,
        rng.choice(CARDS),
        _digits(rng, 16),
        _text(rng, 14, 30),
        TODAY.date() + dt.timedelta(rng.randint(10, 730)),
        _text(rng, 15, 15),
        _money(rng, 1_000, 99_999),
        TODAY - dt.timedelta(days=rng.randint(1, 60)),
        rng.randint(1, len(COUNTRIES)),
    )


_POOL = "".join(random.Random(0).choices(string.ascii_letters + "     ", k=65_536))


def _text(rng: random.Random, shortest: int, longest: int) -> str:
    """A random text: a slice of one pool, since drawing letters one by one would take minutes."""
    start = rng.randrange(len(_POOL) - longest)
    return _POOL[start : start + rng.randint(shortest, longest)]


def _digits(rng: random.Random, count: int) -> str:
    return f"{rng.randrange(10**count):0{count}d}"


def _money(rng: random.Random, lowest_cents: int, highest_cents: int) -> Decimal:
    return Decimal(rng.randint(lowest_cents, highest_cents)) / 100
