"""`hornbeam serve` and `hornbeam config show`: the server's package, loaded by name."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

from hornbeam.cli.common import OUT, AsJson, fail, print_json, server_module, table

_TOML = Path("hornbeam.toml")


def register(app: typer.Typer) -> None:
    config = typer.Typer(help="The server's settings.", no_args_is_help=True)
    config.command("show")(show_config)
    app.command()(serve)
    app.add_typer(config, name="config")


def serve(
    data: Annotated[
        Path | None, typer.Option(help="Folder of the database; made if missing.")
    ] = None,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on; see docs/security.md.")
    ] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65_535, help="0 picks one.")] = None,
) -> None:
    """Serve a database over HTTP until interrupted.

    Settings come from these options, HORNBEAM_… variables, hornbeam.toml, and defaults. Exit
    codes: 75 folder or port in use, 65 damaged data, 78 wrong settings.
    """
    server_module("api.serve").serve(data=data, host=host, port=port)


def show_config(as_json: AsJson = False) -> None:
    """Show every setting, and where its value comes from."""
    settings = _settings()
    fields = type(settings).model_fields
    rows = [
        (name, _plain(getattr(settings, name)), _source(name), field.description or "")
        for name, field in fields.items()
    ]
    if as_json:
        print_json({name: {"value": value, "source": source} for name, value, source, _ in rows})
    else:
        OUT.print(table(("setting", "value", "from", "meaning"), rows))


def _settings(**given: Any) -> Any:
    module = server_module("api.settings")
    try:
        return module.load_settings(**given)
    except ValueError as error:  # pydantic's ValidationError is one
        fail(f"The settings are wrong: {error}")


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value


def _source(name: str) -> str:
    variable = f"HORNBEAM_{name.upper()}"
    if variable in {key.upper() for key in os.environ}:
        return variable
    if _TOML.exists() and name in tomllib.loads(_TOML.read_text(encoding="utf-8")):
        return str(_TOML)
    return "default"
