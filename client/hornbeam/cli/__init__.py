"""The command line `hornbeam`.

Exit codes: 0 success · 1 differences found, a check failed, or the user declined · 2 wrong usage ·
3 the database answered with an error · 4 the database cannot be reached · 130 interrupted.

Every command except `serve` takes `--json`: it prints one document on standard output (`sql` and
`refresh` print a sequence), and progress on standard error. Every command that uses a database
takes `--url` (or HORNBEAM_URL); `hornbeam:///folder` opens an embedded database in this process.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from hornbeam import __version__
from hornbeam.cli import (
    activity,
    cluster,
    demo,
    importing,
    keys,
    load,
    materialize,
    reconcile,
    refresh,
    schema,
    server,
    sql,
    upkeep,
    watch,
)
from hornbeam.cli.common import OUT, exit_code, report, until_enough
from hornbeam.errors import Error

__all__ = ["app", "main"]


class _Commands(TyperGroup):
    """Exits normally when the reader of the output closes the pipe. Typer treats that as a
    failure."""

    def invoke(self, ctx: Any) -> Any:
        with until_enough():
            return super().invoke(ctx)


app = typer.Typer(
    cls=_Commands,
    name="hornbeam",
    help="Transactions and consistent materialised views: serve, plan, load, query, verify.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for part in (
    server,
    demo,
    cluster,
    keys,
    schema,
    sql,
    load,
    importing,
    upkeep,
    activity,
    watch,
    materialize,
    reconcile,
    refresh,
):
    part.register(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        OUT.print(f"hornbeam {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None: ...


def main() -> None:
    """Entry point of the console script."""
    try:
        app()
    except Error as error:
        report(error)
        sys.exit(exit_code(error))
    except KeyboardInterrupt:
        sys.exit(130)
