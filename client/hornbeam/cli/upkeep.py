"""`hornbeam view …`, `verify` and `status`: how the database is doing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from rich.markup import escape

from hornbeam.cli.common import (
    DEFAULT_URL,
    OUT,
    AsJson,
    Url,
    opened,
    print_json,
    progress,
    table,
)
from hornbeam.connection import Connection
from hornbeam.errors import OperationalError, from_problem

_FAULTS = ("missing", "extra", "different", "misplaced")


def register(app: typer.Typer) -> None:
    view = typer.Typer(help="Look at materialised views.", no_args_is_help=True)
    view.command("list")(list_views)
    view.command("show")(show_view)
    app.add_typer(view, name="view")
    app.command("verify")(verify)
    app.command("status")(status)


def list_views(url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """List views with their states."""
    with opened(url) as db:
        views = db.transport.json("GET", "/v1/views")
    if as_json:
        print_json(views)
        return
    columns = ("view", "path", "state", "rows", "bytes", "indexes")
    rows = [
        (v["name"], " → ".join(v["path"]), _state(v), v["rows"], v["bytes"], len(v["indexes"]))
        for v in views
    ]
    OUT.print(table(columns, rows) if rows else "There are no views.")


def show_view(
    name: Annotated[str, typer.Argument(help="The view.")],
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Show one view: path, key, columns, indexes, state."""
    with opened(url) as db:
        view = db.transport.json("GET", f"/v1/views/{name}")
    if as_json:
        print_json(view)
        return
    OUT.print(f"[bold]{escape(view['name'])}[/bold]  {escape(' → '.join(view['path']))}")
    OUT.print(f"state {_state(view)}, key ({escape(', '.join(view['key']))})")
    columns = ("name", "type", "relation", "column")
    OUT.print(table(columns, ([c[key] for key in columns] for c in view["columns"]), "Columns"))
    if view["indexes"]:
        rows = [
            (i["name"], ", ".join(i["columns"]), i["purpose"], i["reason"], i["state"])
            for i in view["indexes"]
        ]
        OUT.print(table(("index", "columns", "purpose", "reason", "state"), rows, "Indexes"))


def _state(view: dict[str, Any]) -> str:
    done = view["progress"]
    if done is None or done["finished"]:
        return str(view["state"])
    if done["error"]:
        return f"{view['state']}: {done['error']}"
    return f"{view['state']} ({done['rows']} of {done['total'] or '?'})"


def verify(
    names: Annotated[
        list[str] | None, typer.Argument(help="Views and indexes; all when left out.")
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Write what should be there, in transactions.")
    ] = False,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Recompute views and indexes and compare every row. Exit code 1: differences are left."""
    with opened(url) as db:
        report = _verified(db, {"names": names or None, "repair": repair})
    repaired = sum(item["repaired"] for item in report["checked"])
    if as_json:
        print_json(report)
    else:
        columns = ("name", "kind", "rows", *_FAULTS, "repaired")
        OUT.print(table(columns, ([item[c] for c in columns] for item in report["checked"])))
        colour = "green" if not report["differences"] else "red"
        more = f", {repaired} repaired" if repaired else ""
        OUT.print(f"[{colour}]{report['differences']} differences{more}[/{colour}]")
    raise typer.Exit(1 if report["differences"] > repaired else 0)


def _verified(db: Connection, body: dict[str, Any]) -> dict[str, Any]:
    """The report at the end of the lines of progress."""
    with db.transport.stream("/v1/verify", body) as answer, progress() as bars:
        task = bars.add_task("verify", total=None, note="")
        for line in _documents(answer.iter_lines()):
            if "error" in line:
                raise from_problem(line["error"])
            if "report" in line:
                report: dict[str, Any] = line["report"]
                return report
            now = line["progress"]
            bars.update(task, completed=now["done"], total=now["total"], note=escape(now["name"]))
    raise OperationalError("The answer ended before its report.", {"outcome": "unknown"})


def _documents(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        if line.strip():
            yield json.loads(line)


def status(url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """Show version, watermark, transactions, locks, log, builds and sizes."""
    with opened(url) as db:
        document = db.transport.json("GET", "/v1/status")
    if as_json:
        print_json(document)
        return
    sizes = document.pop("bytes", {})
    OUT.print(table(("what", "value"), list(_flat(document))))
    if sizes:
        OUT.print(table(("stored", "bytes"), sizes.items()))


def _flat(document: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in document.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        elif not isinstance(value, list):
            yield f"{prefix}{name}", round(value, 3) if isinstance(value, float) else value
        elif value:
            yield f"{prefix}{name}", json.dumps(value)
