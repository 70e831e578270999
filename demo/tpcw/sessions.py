"""Emulated browsers: sessions of TPC-W's web interactions, over the REST interface or another
`Store`.

An interaction sends the statements of the specification's servlets, with existing values as
parameters. A mix of the specification determines the next interaction. Every statement is timed by
name.

Over REST, requests go to the next node when a node stands by or cannot be reached. Requests that
may be repeated are repeated for a while, as the client library does.

As a program, this module runs emulated browsers in a separate process, so that they do not take the
server's time. It prints their measurements as JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import random
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from itertools import count
from typing import Any, Protocol
from uuid import uuid4

import msgspec

from hornbeam.aio.transport import open_async_transport
from hornbeam.errors import Error
from hornbeam.transport import Requests, Target, parse_url
from hornbeam_server.demo.tpcw import WORKLOAD
from hornbeam_server.demo.tpcw.data import (
    COUNTRIES,
    SUBJECTS,
    TODAY,
    Size,
    address_fields,
    card_row,
    customer_row,
    user_name,
)
from hornbeam_server.schema.workload import load_workload

Parameters = Sequence[Any]
PATIENCE_S = 30.0
"""Seconds for which a failed request is repeated."""
TIMEOUT_S = 55.0
"""Time limit of a request."""


INTERACTIONS = (
    *("home", "new_products", "best_sellers", "product_detail", "search", "shopping_cart"),
    *("registration", "buy_request", "buy_confirm", "order_inquiry", "order_display", "admin"),
)
MIXES = {
    "browsing": (2900, 1100, 1100, 2100, 2300, 200, 82, 75, 69, 30, 25, 19),
    "shopping": (1600, 500, 500, 1700, 3700, 1160, 300, 260, 120, 75, 66, 19),
    "ordering": (912, 46, 46, 1235, 2761, 1353, 1286, 1273, 1018, 25, 22, 23),
}
"""Weights of the interactions, in hundredths of a per cent (clause 5.2.1)."""


class StatementFailed(Exception):
    """The answer of a statement is an error. The message contains its code and detail."""


@dataclass
class Measured:
    """The measurements of a run: latencies in milliseconds by statement name, and errors."""

    latencies: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    served_by: dict[str, list[str]] = field(default_factory=dict)
    pieces: dict[str, list[dict[str, float]]] = field(default_factory=lambda: defaultdict(list))
    """By statement: for each latency, the milliseconds that the node reports for its parts."""
    interactions: int = 0
    errors: list[str] = field(default_factory=list)


def wire(value: Any) -> Any:
    """A value as JSON of the REST interface."""
    if isinstance(value, Decimal):
        return str(value)
    return value.isoformat() if isinstance(value, dt.date) else value


class Store(Protocol):
    """Runs the statements of the workload, by name, for one client. Raises StatementFailed."""

    async def read(self, name: str, *parameters: Any) -> Sequence[Sequence[Any]]:
        """Run a read statement, and return its rows."""

    async def write(self, *statements: tuple[str, Parameters]) -> None:
        """Run write statements as one transaction."""


class HttpStore:
    """A `Store` over the REST interface."""

    def __init__(self, requests: Requests, statements: dict[str, str], measured: Measured) -> None:
        self._requests = requests
        self._statements = statements
        self._measured = measured
        self._bookmark = 0

    async def read(self, name: str, *parameters: Any, use_views: bool = True) -> list[list[Any]]:
        body = {
            "sql": self._statements[name],
            "parameters": [wire(value) for value in parameters],
            "use_views": use_views,
            "bookmark": self._bookmark,
        }
        answer = await self._post("/v1/query", body, name)
        self._measured.served_by.setdefault(name, answer["served_by"])
        rows: list[list[Any]] = answer["rows"]
        return rows

    async def write(self, *statements: tuple[str, Parameters]) -> None:
        body = {
            "statements": [
                {"sql": self._statements[name], "parameters": [wire(v) for v in parameters]}
                for name, parameters in statements
            ]
        }
        names = list(dict.fromkeys(name for name, _ in statements))
        answer = await self._post("/v1/transactions", body, " + ".join(names))
        self._bookmark = answer["commit_ts"]

    async def _post(self, path: str, body: dict[str, Any], name: str) -> dict[str, Any]:
        give_up, headers = time.monotonic() + PATIENCE_S, {"Idempotency-Key": uuid4().hex}
        while True:
            began = time.perf_counter()
            try:
                document: dict[str, Any] = await self._requests.json("POST", path, body, headers)
            except Error as error:
                is_repeatable = error.retryable or error.outcome == "unknown"
                if not is_repeatable or time.monotonic() > give_up:
                    raise StatementFailed(f"{name}: {error.code}: {error}") from error
            else:
                self._measured.latencies[name].append((time.perf_counter() - began) * 1000)
                self._measured.pieces[name].append(_own_times(document))
                return document
            await self._requests.pause(0.05)


def _own_times(document: dict[str, Any]) -> dict[str, float]:
    """The milliseconds that the node reports, by part."""
    parts: dict[str, float] | None = document.get("timings_ms")
    return {"answer": document["elapsed_ms"]} if parts is None else parts


class Counter:
    """New keys for all emulated browsers of a run, also in several threads. `skip`: the number of
    new keys of each kind that earlier runs have taken."""

    def __init__(self, size: Size, skip: int = 0) -> None:
        self._numbers = {
            "cart": count(skip + 1),
            "order": count(skip + size.orders + 1),
            "customer": count(skip + size.customers + 1),
            "address": count(skip + size.addresses + 1),
        }

    def new(self, kind: str) -> int:
        return next(self._numbers[kind])


class EmulatedBrowser:
    """An emulated browser: a session of a customer."""

    def __init__(self, store: Store, size: Size, counter: Counter, seed: str) -> None:
        self._store = store
        self._size = size
        self._counter = counter
        self._rng = random.Random(seed)
        self._customer = self._rng.randint(1, size.customers)
        self._cart = 0

    async def run(self, until: float, mix: str, measured: Measured) -> None:
        """Interact until monotonic time `until`. An interaction that ends later is not counted."""
        while time.monotonic() < until:
            try:
                await self.interact(MIXES[mix])
                measured.interactions += time.monotonic() <= until
            except StatementFailed as error:
                measured.errors.append(str(error))

    async def interact(self, weights: Sequence[int]) -> None:
        """Run one of INTERACTIONS, drawn by `weights`. Raises StatementFailed."""
        (name,) = self._rng.choices(INTERACTIONS, weights)
        interaction: Callable[[], Awaitable[None]] = getattr(self, name)
        await interaction()

    def _item(self) -> int:
        return self._rng.randint(1, self._size.items)

    async def home(self) -> None:
        await self._store.read("get_name", self._customer)
        await self._store.read("get_related1", self._item())
        await self._store.read("related_books", self._item())

    async def new_products(self) -> None:
        await self._store.read("new_products", self._rng.choice(SUBJECTS))

    async def best_sellers(self) -> None:
        await self._store.read("best_sellers", self._rng.choice(SUBJECTS))

    async def product_detail(self) -> None:
        item = self._item()
        await self._store.read("get_book", item)
        await self._store.read("get_stock", item)

    async def search(self) -> None:
        match self._rng.randrange(3):
            case 0:
                await self._store.read("search_subject", self._rng.choice(SUBJECTS))
            case 1:
                await self._store.read("search_title", f"%{self._letters()}%")
            case _:
                await self._store.read("search_author", f"{self._letters()}%")

    def _letters(self) -> str:
        return "".join(self._rng.choices("abcdefghijklmnopqrstuvwxyz", k=2))

    async def shopping_cart(self) -> None:
        if not self._cart:
            self._cart = self._counter.new("cart")
            await self._store.write(("create_cart", (self._cart, TODAY)))
        item = self._item()
        lines = await self._store.read("cart_line", self._cart, item)
        if lines:
            quantity = lines[0][0] + 1
            await self._store.write(("cart_line_update", (quantity, self._cart, item)))
        else:
            await self._store.write(("cart_line_insert", (self._cart, item, 1)))
        await self._store.write(("reset_cart_time", (TODAY, self._cart)))
        await self._store.read("get_cart", self._cart)
        await self._store.read("cart_size", self._cart)

    async def registration(self) -> None:
        name = self._rng.choice(COUNTRIES)
        ((country,),) = await self._store.read("country_by_name", name)
        fields = address_fields(self._rng)[:-1]
        found = await self._store.read("find_address", *fields, country)
        address = found[0][0] if found else self._counter.new("address")
        writes: list[tuple[str, Parameters]] = []
        if not found:
            writes.append(("enter_address", (address, *fields, country)))
        customer = self._counter.new("customer")
        row = customer_row(customer, address, self._rng)
        await self._store.write(*writes, ("create_customer", row))
        self._customer = customer

    async def buy_request(self) -> None:
        later = TODAY + dt.timedelta(hours=2)
        await self._store.read("get_user_name", self._customer)
        await self._store.read("get_customer", user_name(self._customer))
        await self._store.write(("refresh_session", (TODAY, later, self._customer)))
        if self._cart:
            await self._store.read("get_cart", self._cart)

    async def buy_confirm(self) -> None:
        """Read the discount and the stock; write the order, its lines and the payment, and clear
        the cart."""
        if not self._cart:
            await self.shopping_cart()
        await self._store.read("get_discount", self._customer)
        ((address,),) = await self._store.read("get_customer_address", self._customer)
        lines = await self._store.read("get_cart", self._cart)
        order = self._counter.new("order")
        total = Decimal(self._rng.randint(1_000, 99_999)) / 100
        header = (order, self._customer, TODAY, total, total, total, "AIR", TODAY, address, address)
        writes: list[tuple[str, Parameters]] = [("enter_order", (*header, "PENDING"))]
        for number, line in enumerate(lines, start=1):
            item, quantity = line[1], line[2]
            ((stock,),) = await self._store.read("get_stock", item)
            stock = stock - quantity if stock >= quantity + 10 else stock - quantity + 21
            writes.append(("set_stock", (stock, item)))
            writes.append(("enter_order_line", (number, order, item, quantity, 0.0, "demo")))
        writes.append(("enter_cc_xact", card_row(order, self._rng)))
        writes.append(("clear_cart", (self._cart,)))
        await self._store.write(*writes)

    async def order_inquiry(self) -> None:
        await self._store.read("get_user_name", self._customer)

    async def order_display(self) -> None:
        name = user_name(self._customer)
        await self._store.read("get_password", name)
        latest = await self._store.read("most_recent_order_id", name)
        if latest:
            await self._store.read("most_recent_order", latest[0][0])
            await self._store.read("most_recent_order_lines", latest[0][0])

    async def admin(self) -> None:
        item = self._item()
        await self._store.read("get_book", item)
        cost = Decimal(self._rng.randint(100, 9_999)) / 100
        image = (f"img/{item}.gif", f"thumb/{item}.gif")
        await self._store.write(("admin_update", (cost, *image, TODAY.date(), item)))
        related = [row[0] for row in await self._store.read("admin_related", item, item)]
        related += [self._item() for _ in range(5 - len(related))]
        await self._store.write(("admin_update_related", (*related, item)))


@dataclass(frozen=True, slots=True)
class BrowserRun:
    """A run of `sessions` concurrent emulated browsers for `seconds`. Each browser begins at the
    next node. `skip`: the number of new keys that earlier runs have taken."""

    customers: int
    items: int
    sessions: int
    seconds: float
    mix: str = "shopping"
    skip: int = 0
    seed: int = 1

    @property
    def size(self) -> Size:
        return Size(self.customers, self.items)


async def run_browsers(url: str, statements: dict[str, str], run: BrowserRun) -> Measured:
    """Run emulated browsers against the nodes of a client's URL. Each browser has its own
    connections."""
    target, measured, counter = parse_url(url), Measured(), Counter(run.size, run.skip)
    async with AsyncExitStack() as stack:
        browsers = []
        for number in range(run.sessions):
            requests = await open_async_transport(_beginning_at(target, number), TIMEOUT_S)
            stack.push_async_callback(requests.close)
            store = HttpStore(requests, statements, measured)
            browsers.append(EmulatedBrowser(store, run.size, counter, f"{run.seed}/{number}"))
        until = time.monotonic() + run.seconds
        await asyncio.gather(*(browser.run(until, run.mix, measured) for browser in browsers))
    return measured


def _beginning_at(target: Target, number: int) -> Target:
    """The same nodes, in an order that begins with another node for each browser."""
    first = number % len(target.addresses)
    return target._replace(addresses=target.addresses[first:] + target.addresses[:first])


async def run_in_process(url: str, run: BrowserRun) -> Measured:
    """Call `run_browsers` in another process. Its command line has the URL, so an API key belongs
    into HORNBEAM_API_KEY. Raises StatementFailed when the process fails."""
    options = (f"--{name}={value}" for name, value in asdict(run).items())
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "hornbeam_server.demo.tpcw.sessions", url, *options),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:  # the caller is cancelled
            process.kill()
            await process.wait()
    if process.returncode:
        raise StatementFailed(f"The emulated browsers ended with status {process.returncode}.")
    return msgspec.json.decode(output, type=Measured)


async def _main(url: str, run: BrowserRun) -> None:
    statements = {s.name: s.sql for s in load_workload(WORKLOAD.read_text(), str(WORKLOAD))}
    sys.stdout.buffer.write(msgspec.json.encode(await run_browsers(url, statements, run)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    for option in ("customers", "items", "sessions", "skip", "seed"):
        parser.add_argument(f"--{option}", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--mix", choices=MIXES, required=True)
    given = vars(parser.parse_args())
    asyncio.run(_main(given.pop("url"), BrowserRun(**given)))
