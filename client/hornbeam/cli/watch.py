"""`hornbeam watch`: the changes of a relation or view as they happen."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.text import Text

from hornbeam.cli.common import DEFAULT_URL, ERR, OUT, Url, fail, json_form, opened, visible
from hornbeam.subscriptions import Change, Changes, Row

_SIGNS = {"insert": ("+", "green"), "update": ("~", "yellow"), "delete": ("-", "red")}


def register(app: typer.Typer) -> None:
    app.command("watch")(watch)


def watch(
    name: Annotated[str, typer.Argument(help="A relation or view.")],
    where: Annotated[
        list[str],
        typer.Option("--where", help="Only rows with this value: COLUMN=VALUE; repeat for more."),
    ] = [],  # noqa: B006 (a list default makes the option repeatable)
    moment: Annotated[
        int | None, typer.Option("--moment", help="Go on after the moment of an earlier run.")
    ] = None,
    rows: Annotated[
        bool, typer.Option("--rows/--no-rows", help="Begin with all rows, without a moment.")
    ] = True,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="End after so many changes.")
    ] = None,
    url: Url = DEFAULT_URL,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a line of JSON for each change.")
    ] = False,
) -> None:
    """Show the changes of a relation or view as they happen, until Ctrl-C. The moment at the end is
    where another run can go on."""
    left = limit
    show = _show_json if as_json else _show
    with (
        opened(url) as db,
        db.subscribe(name, wanted=_wanted(where), moment=moment, rows=rows) as subscription,
    ):
        try:
            for changes in subscription:
                some = changes if left is None or changes.begins else changes[:left]
                for change in some:
                    show(change, changes, subscription.columns)
                if left is not None and not changes.begins:
                    left -= len(some)
                    if left <= 0:
                        break
        except KeyboardInterrupt:
            ERR.print(f"Go on with: --moment {subscription.moment}")
            raise


def _wanted(pairs: Sequence[str]) -> dict[str, Any]:
    found = {}
    for pair in pairs:
        column, equals, value = pair.partition("=")
        if not (column and equals):
            fail(f"--where {pair} is not COLUMN=VALUE.")
        found[column] = value
    return found


def _show(change: Change, changes: Changes, columns: Sequence[tuple[str, str]]) -> None:
    sign, colour = _SIGNS[change.operation]
    sign = "=" if changes.begins else sign
    line = _named(change.after or change.before or (), columns)
    if change.operation == "update" and change.before is not None and change.after is not None:
        old = [
            f"{name} was {_text(before)}"
            for (name, _), before, after in zip(columns, change.before, change.after, strict=True)
            if before != after
        ]
        line += f"   ({', '.join(old)})"
    style = "" if changes.begins else colour
    OUT.print(Text(visible(f"{sign} {line}"), style=style), soft_wrap=True)


def _named(row: Row, columns: Sequence[tuple[str, str]]) -> str:
    pairs = zip(columns, row, strict=True)
    return ", ".join(f"{name} = {_text(value)}" for (name, _), value in pairs)


def _text(value: Any) -> str:
    return "NULL" if value is None else str(value)


def _show_json(change: Change, changes: Changes, columns: Sequence[tuple[str, str]]) -> None:
    def named(row: Row | None) -> dict[str, Any] | None:
        return None if row is None else dict(zip([name for name, _ in columns], row, strict=True))

    document = {
        "operation": "row" if changes.begins else change.operation,
        "before": named(change.before),
        "after": named(change.after),
        "moment": changes.moment,
    }
    if change.commit:
        document |= {"commit": change.commit, "transaction_id": change.transaction_id}
    if change.idempotency_key:
        document["idempotency_key"] = change.idempotency_key
    print(json.dumps(document, default=json_form, ensure_ascii=False), flush=True)
