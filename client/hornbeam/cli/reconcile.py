"""`hornbeam reconcile`: compare views, indexes and constraints with base relations on Spark."""

from __future__ import annotations

import re
from pathlib import Path
from time import sleep
from typing import Annotated, Any

import typer

from hornbeam.cli.common import (
    DEFAULT_URL,
    ERR,
    OUT,
    AsJson,
    Url,
    fail,
    print_json,
    progress,
    report,
    table,
)
from hornbeam.errors import DatabaseError
from hornbeam.server_package import spark_module

_FAULTS = ("missing", "extra", "different", "misplaced", "undecodable")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def register(app: typer.Typer) -> None:
    app.command("reconcile")(reconcile)


def reconcile(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Views (with their indexes), also declared views. Default: all."),
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Write the expected rows, and compare again.")
    ] = False,
    html: Annotated[Path | None, typer.Option(help="Write the report to an HTML file.")] = None,
    every: Annotated[
        str | None, typer.Option(help="Repeat without end, with this pause: 30m, 1h, 1d.")
    ] = None,
    master: Annotated[str, typer.Option(help="Spark's master.")] = "local[*]",
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Compare views, indexes and constraints with the base relations at one snapshot, on Spark.

    Exit codes: 0 no differences · 1 differences are left · 2 wrong usage, or no Spark · 3 an error
    · 4 no connection.
    """
    command = spark_module("pipeline.reconcile.command")
    pause_s = None if every is None else seconds(every)

    def once() -> dict[str, Any]:
        document = _run(command, url, names or [], repair, master)
        if html is not None:
            html.write_text(command.page(document), encoding="utf-8")
        if as_json:
            print_json(document)
        else:
            _show(document)
        return document

    if pause_s is None:
        raise typer.Exit(1 if once()["differences"] else 0)
    while True:
        try:
            once()
        except DatabaseError as error:
            report(error)  # the next attempt may succeed
        sleep(pause_s)


def seconds(text: str) -> float:
    """The seconds of a duration such as 90s, 30m, 1h or 1d. Raises InterfaceError."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([smhd])", text)
    if found is None or not float(found[1]):
        fail(f"{text!r} is not a duration.", "Write for example 90s, 30m, 1h or 1d.")
    return float(found[1]) * _UNITS[found[2]]


def _run(command: Any, url: str, names: list[str], repair: bool, master: str) -> dict[str, Any]:
    with progress() as bars:
        task = bars.add_task("reconcile", total=None, note="tasks")

        def show(done: int, total: int) -> None:
            bars.update(task, completed=done, total=total)

        document: dict[str, Any] = command.run(
            url, names, repair=repair, master=master, progress=show
        )
        return document


def _show(document: dict[str, Any]) -> None:
    columns = ("name", "kind", "rows", *_FAULTS, "repaired")
    checked = document["checked"]
    OUT.print(table(columns, ([item[column] for column in columns] for item in checked)))
    for item in checked:
        for sample in item["samples"]:
            OUT.print(_sentence(item, sample), soft_wrap=True)
        if item["left_out"]:
            ERR.print(
                f"{item['name']}: {item['left_out']} rows were not compared, since their base"
                " rows cannot be read."
            )
    colour = "red" if document["differences"] else "green"
    more = f" left, {document['repaired']} repaired" if document["repaired"] else ""
    OUT.print(f"{document['differences']} differences{more}", style=colour)


def _sentence(item: dict[str, Any], sample: dict[str, Any]) -> str:
    """A sentence about the difference at one key."""
    where = f"at ({', '.join(item['key'])}) = {_value_text(sample['key'])}"
    if item["kind"] == "foreign key":
        return f"{item['name']}: no parent of the row {where}: {_value_text(sample['stored'])}"
    if item["kind"] == "CHECK":
        return f"{item['name']}: broken by the row {where}: {_value_text(sample['stored'])}"
    stored = "no row" if sample["fault"] == "undecodable" else _value_text(sample["stored"])
    expected = _value_text(sample["expected"])
    return f"{item['name']}: {sample['fault']} {where}: stored {stored}, expected {expected}"


def _value_text(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bytes):
        return f"\\x{value.hex()}"
    return f"({', '.join('NULL' if v is None else str(v) for v in value)})"
