"""`hornbeam serve` and `hornbeam config show`. Both load the server's package by name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hornbeam.cli.common import OUT, AsJson, fail, print_json, table
from hornbeam.server_package import server_module


def register(app: typer.Typer) -> None:
    config = typer.Typer(help="The server's settings.", no_args_is_help=True)
    config.command("show")(show_config)
    app.command()(serve)
    app.add_typer(config, name="config")


def serve(
    data: Annotated[
        Path | None, typer.Option(help="Folder of the database. Created if missing.")
    ] = None,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on; see docs/security.md.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="Port to listen on. 0 picks a free port.")
    ] = None,
    postgresql_port: Annotated[
        int | None,
        typer.Option(min=0, max=65_535, help="Port for clients of PostgreSQL. Default: none."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, max=256, help="Nodes to run behind the address, over HBase."),
    ] = None,
) -> None:
    """Serve a database over HTTP, and to clients of PostgreSQL, until interrupted.

    Settings come from these options, HORNBEAM_… variables, hornbeam.toml, and defaults. Exit
    codes: 75 the folder or port is in use · 65 the data are damaged · 78 the settings are wrong.
    """
    server_module("api.serve").serve(
        data=data, host=host, port=port, postgresql_port=postgresql_port, workers=workers
    )


def show_config(as_json: AsJson = False) -> None:
    """Show every setting, with the source of its value."""
    try:
        settings = server_module("node.settings").describe()
    except (ValueError, server_module("schema.errors").HornbeamError) as error:
        fail(f"The settings are wrong: {error}")
    if as_json:
        print_json({s["name"]: {"value": s["value"], "source": s["source"]} for s in settings})
    else:
        columns = ("name", "value", "source", "description")
        rows = [[setting[column] for column in columns] for setting in settings]
        OUT.print(table(("setting", "value", "from", "meaning"), rows))
