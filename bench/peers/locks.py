"""Measures the cost of locks: transactions over many roots next to transactions over as many rows
of one root, and the paper's locks alone (Synergy, IX)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from typing import Any, Protocol

import hornbeam
from bench.microdata import LINES_PER_ORDER, ORDERS_PER_CUSTOMER
from bench.peers.results import ONE_ROOT, PAPER_LOCKS, ROOTS_EACH, Timing

UPDATE = "UPDATE order_line SET ol_qty = ol_qty + 1 WHERE ol_o_id = ? AND ol_id = ?"
ROOT = "customer"

Line = tuple[int, int]
"""The key of an order line: the order, and the number of the line."""


class TakesLocks(Protocol):
    """A system that can take locks alone, such as the paper's."""

    def lock_cycle(self, relation: str, keys: Sequence[tuple[Any, ...]]) -> None:
        """Take the locks of rows of a root relation, and release them."""


def lock_costs(
    url: str, paper: TakesLocks, customers: int, numbers: Sequence[int], rounds: int
) -> dict[str, dict[int, Timing]]:
    """The times by kind (`LOCKS`) and number of rows, on databases of `bench.microdata`. Every row
    is a line of an order, so the maintenance is the same for one root and for many."""
    if max(numbers) > min(customers, ORDERS_PER_CUSTOMER * LINES_PER_ORDER):
        raise ValueError("There are too few roots, or too few rows of a root.")
    found: dict[str, dict[int, Timing]] = {ROOTS_EACH: {}, ONE_ROOT: {}, PAPER_LOCKS: {}}
    with closing(hornbeam.connect(url, autocommit=True)) as db:
        _update(db, of_roots(1))
        for number in numbers:
            each, one, alone = [], [], []
            for run in range(rounds):
                each.append(_timed(_update, db, of_roots(number)))
                one.append(_timed(_update, db, of_one_root(run % customers + 1, number)))
                keys = [(customer,) for customer in range(1, number + 1)]
                alone.append(_timed(paper.lock_cycle, ROOT, keys))
            for kind, times in zip(found, (each, one, alone), strict=True):
                found[kind][number] = Timing(tuple(times))
    return found


def of_roots(number: int) -> list[Line]:
    """A line of each of the first `number` customers."""
    return [((customer - 1) * ORDERS_PER_CUSTOMER + 1, 1) for customer in range(1, number + 1)]


def of_one_root(customer: int, number: int) -> list[Line]:
    """The first `number` lines of a customer."""
    first = (customer - 1) * ORDERS_PER_CUSTOMER + 1
    places = (divmod(place, LINES_PER_ORDER) for place in range(number))
    return [(first + order, line + 1) for order, line in places]


def _update(db: hornbeam.Connection, lines: Sequence[Line]) -> None:
    """Update order lines in one transaction."""
    statements = [{"sql": UPDATE, "parameters": list(line)} for line in lines]
    db.transport.json("POST", "/v1/transactions", {"statements": statements})


def _timed(work: Any, *arguments: Any) -> float:
    began = time.perf_counter()
    work(*arguments)
    return (time.perf_counter() - began) * 1000
