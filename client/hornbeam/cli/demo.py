"""`hornbeam demo`, which loads the server's package by name."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from hornbeam.cli.common import ERR, OUT, AsJson, fail
from hornbeam.errors import from_problem
from hornbeam.server_package import server_module


def register(app: typer.Typer) -> None:
    app.command()(demo)


def demo(
    data: Annotated[
        Path, typer.Option(help="Empty folder for the databases and the reports.")
    ] = Path("hornbeam-demo"),
    customers: Annotated[
        int, typer.Option(min=1, help="Customers of TPC-W; they determine addresses and orders.")
    ] = 1_000,
    items: Annotated[int, typer.Option(min=4, help="Items of TPC-W.")] = 1_000,
    seconds: Annotated[
        float, typer.Option(min=0.1, help="How long the emulated browsers run.")
    ] = 8.0,
    sessions: Annotated[int, typer.Option(min=1, help="Number of emulated browsers.")] = 8,
    rounds: Annotated[int, typer.Option(min=1, help="Runs of each statement.")] = 20,
    replace: Annotated[
        bool, typer.Option("--replace", help="Remove the former demo in the folder first.")
    ] = False,
    serve: Annotated[
        bool, typer.Option("--serve", help="Then serve the database, until interrupted.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the main job on an embedded database: TPC-W, from its schema to verified views.

    Chooses views for TPC-W's workload, loads a population, compares every read with and without
    views, runs emulated browsers over HTTP, and recomputes every view. Takes about a minute. Exit
    code 1: a view differs, or a statement failed.
    """
    if serve and as_json:
        fail("--json and --serve exclude each other: the server would print behind the document.")
    module = server_module("demo.run")
    try:
        result = module.demo(
            folder=data,
            customers=customers,
            items=items,
            seconds=seconds,
            sessions=sessions,
            rounds=rounds,
            replace=replace,
            to_stderr=as_json,
        )
    except server_module("schema.errors").HornbeamError as error:
        problem = {"detail": error.message, "code": error.code, "cure": error.cure}
        raise from_problem(problem) from None
    if as_json:
        print(result.document())
    out = ERR if as_json else OUT
    out.print(f"All tables and the whole plan: {data}/report.txt, report.json, trees.svg")
    if result.failed:
        raise typer.Exit(1)
    database = data / module.DATABASE
    if serve:
        server_module("api.serve").serve(data=database, store="embedded")
    else:
        out.print(
            f"To explore it: {_own_name()} serve --data {database}, then open"
            " http://127.0.0.1:8780/"
        )


def _own_name() -> str:
    """The command by which the user has started this program."""
    started = Path(sys.argv[0])
    found = shutil.which(started.name)
    return started.name if found and Path(found) == started else str(started)
