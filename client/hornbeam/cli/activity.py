"""`hornbeam statements` and `hornbeam transactions`: what a node runs, and what that costs."""

from __future__ import annotations

import datetime as dt
from enum import StrEnum
from typing import Annotated, Any

import typer

from hornbeam.cli.common import DEFAULT_URL, ERR, OUT, AsJson, Url, opened, print_json, table


class Order(StrEnum):
    time = "time"
    mean = "mean"
    calls = "calls"
    rows_read = "rows_read"
    failed = "failed"


def register(app: typer.Typer) -> None:
    app.command("statements")(statements)
    app.command("transactions")(transactions)


def statements(
    order: Annotated[Order, typer.Option(help="The largest come first.")] = Order.time,
    limit: Annotated[int, typer.Option(min=1, help="Number of statements.")] = 20,
    reset: Annotated[bool, typer.Option("--reset", help="Forget the counts instead.")] = False,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Show what the node's statements cost, by their text: calls, times and rows since the node
    serves. Needs an administrator's key."""
    with opened(url) as db:
        if reset:
            found = db.transport.json("DELETE", "/v1/statements")
        else:
            params = {"order": order.value, "limit": str(limit)}
            found = db.transport.json("GET", "/v1/statements", params=params)
    if as_json:
        print_json(found)
        return
    if reset:
        ERR.print("The counts begin again.")
        return
    names = ("statement", "calls", "errors", "all ms", "mean ms", "max ms", "rows", "rows read")
    rows = [_statement(each) for each in found["statements"]]
    OUT.print(table((*names, "served by"), rows) if rows else "No statement has ended yet.")
    begin = dt.datetime.fromtimestamp(found["since_ms"] / 1000).astimezone()
    ERR.print(f"{len(rows)} of {found['texts']} texts, since {begin:%Y-%m-%d %H:%M:%S}.")


def _statement(each: dict[str, Any]) -> tuple[Any, ...]:
    names = ("sql", "calls", "failed", "total_ms", "mean_ms", "max_ms", "rows")
    read = "" if each["rows_read"] is None else each["rows_read"]
    return (*(each[name] for name in names), read, ", ".join(each["served_by"]))


def transactions(url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """Show the node's transactions that are under way, the oldest first, each with the lock for
    which it waits. Needs an administrator's key."""
    with opened(url) as db:
        found = db.transport.json("GET", "/v1/transactions")
    if as_json:
        print_json(found)
        return
    names = ("id", "age s", "state", "waits for", "attempt", "locks", "key", "statements")
    rows = [_transaction(each) for each in found]
    OUT.print(table(names, rows) if rows else "No transaction is under way.")


def _transaction(each: dict[str, Any]) -> tuple[Any, ...]:
    more = [f"and {each['more']} more"] if each["more"] else []
    return (
        each["transaction_id"],
        each["age_ms"] / 1000,
        each["state"],
        _lock(each["waits_for"], each["at"]),
        each["attempt"],
        each["locks"],
        each["owner"],
        "\n".join([*each["statements"], *more]),
    )


def _lock(lock: dict[str, Any] | None, at: str | None) -> str:
    if lock is None:
        return ""
    key = "" if lock["key"] is None else f" ({', '.join(map(str, lock['key']))})"
    return f"{lock['kind']} {lock['name']}{key}{f' at {at}' if at else ''}"
