"""The ways to keep a total of one hot group, and their rates and ratios.

Writers insert entries of one account, each entry in a durable transaction. All ways are measured in
turn, round after round, so the ratios of a round are comparable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

from bench.measure import Figure, ratios
from bench.peers.measuring import rotated

TABLES = """
CREATE TABLE region (r_id INTEGER PRIMARY KEY, r_name TEXT);
CREATE TABLE account (
  a_id INTEGER PRIMARY KEY, a_r_id INTEGER NOT NULL REFERENCES region (r_id),
  a_total DECIMAL(20,2));
CREATE TABLE kind (k_id INTEGER PRIMARY KEY, k_name TEXT);
"""
FACT = """
CREATE TABLE {entry} (
  e_id BIGINT PRIMARY KEY, e_a_id INTEGER NOT NULL REFERENCES account (a_id),
  e_k_id INTEGER NOT NULL REFERENCES kind (k_id), e_amount DECIMAL(10,2));
"""
TOTAL = "SELECT e_a_id, count(*) AS entries, sum(e_amount) AS amount FROM {entry} GROUP BY e_a_id"
STAR = """SELECT r_name, k_name, count(*) AS entries, sum(e_amount) AS amount
FROM {entry} JOIN account ON e_a_id = a_id JOIN region ON a_r_id = r_id JOIN kind ON e_k_id = k_id
GROUP BY r_name, k_name"""
ROWS: Mapping[str, Sequence[tuple[object, ...]]] = {
    "region": [(1, "north")],
    "kind": [(1, "sale")],
    "account": [(1, 1, 0), (2, 1, 0)],
}
"""The rows of all relations but the entries. All entries have account 1."""
AMOUNT = Decimal("1.25")
INSERT = f"INSERT INTO {{entry}} VALUES (?, 1, 1, {AMOUNT})"
ADD = f"UPDATE account SET a_total = a_total + {AMOUNT} WHERE a_id = 1"
"""The statement of an application that keeps the total itself, in a row of its own."""


@dataclass(frozen=True, slots=True)
class Way:
    """A way to keep a total in Hornbeam: the SELECT of its immediate view, and whether each
    transaction adds to the total itself."""

    name: str
    select: str = ""
    adds: bool = False

    def ddl(self, entry: str, view: str) -> str:
        """The relation `entry`, and the view over it."""
        text = FACT.format(entry=entry)
        if self.select:
            select = self.select.format(entry=entry)
            text += f"CREATE MATERIALIZED VIEW {view} WITH (refresh = 'immediate') AS {select};\n"
        return text

    def amount(self, entry: str, view: str) -> str:
        """The SELECT of the total, from where this way keeps it."""
        if self.select:
            return f"SELECT amount FROM {view}"
        if self.adds:
            return "SELECT a_total FROM account WHERE a_id = 1"
        return f"SELECT sum(e_amount) FROM {entry}"


NOTHING = Way("no total")
KEPT = Way("immediate view", TOTAL)
STARRED = Way("immediate view over a star of 3", STAR)
OWN = Way("total kept by the application", adds=True)
WAYS = (NOTHING, KEPT, STARRED, OWN)


class WrongTotal(AssertionError):
    """A total differs from the entries that were inserted, so its rates mean nothing."""


def compare(way: str, total: Decimal | None, entries: int) -> None:
    """Raise WrongTotal if `total` is not that of so many entries."""
    if (total or 0) != entries * AMOUNT:
        raise WrongTotal(f"{way}: the total is {total}, and the entries are {entries} × {AMOUNT}.")


class Writers(Protocol):
    """The writers of one way."""

    name: str

    async def rate(self, writers: int, transactions: int) -> float:
        """Insert entries in `transactions` transactions, `writers` at a time. Returns transactions
        a second."""

    async def check(self) -> None:
        """Raise WrongTotal if the total is not that of all entries."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """The ratio of the rates of two ways, by name. Its goal holds for `writers` at a time, or for
    any number of them (None)."""

    name: str
    of: str
    to: str
    at_least: float | None = None
    writers: int | None = None

    def goal(self, writers: int) -> float | None:
        return self.at_least if self.writers in (None, writers) else None


RATIOS = (
    Ratio("view / no total", KEPT.name, NOTHING.name, 0.9, writers=32),
    Ratio("star / no total", STARRED.name, NOTHING.name, 1 / 1.3),
    Ratio("view / application", KEPT.name, OWN.name, 10, writers=32),
)


async def measured_writes(
    ways: Sequence[Writers],
    of: Sequence[Ratio],
    writers: Sequence[int],
    transactions: int,
    rounds: int,
    *,
    prefix: str = "",
    on_round: Callable[[str], None] = lambda _: None,
) -> list[Figure]:
    """The rates of all ways by number of `writers`, and their ratios. Checks all totals at the end.

    `prefix` begins the names of sections. `on_round` is called with a description of each round. A
    first round for each number of writers warms up.
    """
    figures: list[Figure] = []
    for number in writers:
        section = prefix + (f"{number} writers of one group" if number > 1 else "1 writer")
        rates: dict[str, list[float]] = {way.name: [] for way in ways}
        for turn in range(rounds + 1):
            on_round(f"{section}, round {turn} of {rounds}")
            for way in rotated(ways, turn):
                rate = await way.rate(number, transactions)
                if turn:
                    rates[way.name].append(rate)
        figures += [
            Figure(section, name, "transactions/s", tuple(found)) for name, found in rates.items()
        ]
        figures += [
            Figure(
                section, each.name, "×", ratios(rates[each.of], rates[each.to]), each.goal(number)
            )
            for each in of
        ]
    for way in ways:
        await way.check()
    return figures
