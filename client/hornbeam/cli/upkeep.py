"""`hornbeam view …`, `verify` and `status`: the state of the database."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich.table import Table

from hornbeam.cli.common import (
    DEFAULT_URL,
    OUT,
    AsJson,
    Url,
    documents,
    opened,
    print_json,
    progress,
    table,
)
from hornbeam.connection import Connection
from hornbeam.errors import OperationalError, from_problem

_FAULTS = ("missing", "extra", "different", "misplaced")


def register(app: typer.Typer) -> None:
    view = typer.Typer(help="Show materialised views.", no_args_is_help=True)
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
    columns = ("view", "over", "state", "rows, about", "bytes, about", "indexes", "lag")
    rows = [
        (v["name"], _over(v), _state(v), v["rows"], v["bytes"], len(v["indexes"]), _lag(v))
        for v in views
    ]
    OUT.print(table(columns, rows) if rows else "There are no views.")


def show_view(
    name: Annotated[str, typer.Argument(help="The view.")],
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Show a view: path, key, columns, indexes and state. For a declared view also show its SELECT
    and its program, and for a deferred view its lag."""
    with opened(url) as db:
        view = db.transport.json("GET", f"/v1/views/{quote(name, safe='')}")
    if as_json:
        print_json(view)
        return
    OUT.print(view["name"], style="bold", end="  ")
    OUT.print(_over(view))
    OUT.print(f"state {_state(view)}, key ({', '.join(view['key'])})")
    deferred, immediate = view["deferred"], view.get("immediate")
    declared = deferred or immediate
    columns = ("name", "type") if declared else ("name", "type", "relation", "column")
    OUT.print(table(columns, ([c[key] for key in columns] for c in view["columns"]), "Columns"))
    if deferred:
        _show_deferred(deferred)
    if immediate:
        origin = "immediate, chosen for the workload" if immediate["chosen"] else "immediate"
        for line in (origin, "", immediate["sql"], "", *immediate["program"]):
            OUT.print(line, soft_wrap=True)
    if view["indexes"]:
        rows = [
            (i["name"], ", ".join(i["columns"]), i["purpose"], i["reason"], i["state"])
            for i in view["indexes"]
        ]
        OUT.print(table(("index", "columns", "purpose", "reason", "state"), rows, "Indexes"))


def _over(view: dict[str, Any]) -> str:
    declared = view["deferred"] or view.get("immediate")
    return (", " if declared else " → ").join(view["path"])


def _lag(view: dict[str, Any]) -> str:
    """The age of a deferred view's contents. Other views are always up to date."""
    return _age(view["deferred"]) if view["deferred"] else ""


def _show_deferred(deferred: dict[str, Any]) -> None:
    last, problem = deferred["last"], deferred["problem"]
    lines = [
        f"{deferred['refresh']}, group {deferred['group']}, a batch every"
        f" {deferred['interval_s']:g} s",
        "never built"
        if deferred["as_of"] is None
        else f"as of {deferred['as_of']}, {deferred['lag_s']:.1f} s ago",
    ]
    if last is not None:
        by = f"by node {last['by']}" if last["by"] else "by hornbeam refresh"
        lines.append(
            f"last batch: {last['changes']} changes, {last['rows']} rows, {last['seconds']:.2f} s,"
            f" {by}"
        )
    if deferred["left"]:
        lines.append(f"left to Spark, by hornbeam refresh: {deferred['left']}")
    elif problem is not None:
        lines += [f"the group stands still: {problem['message']}", f"  {problem['cure']}"]
    else:
        lines.append(f"the nodes do the next batch: {deferred['node'] or 'no node now'}")
    if within := _within(deferred):
        batches = deferred["commit_lag"]["batches"]
        lines.append(f"commits were shown within {within}, in {batches} batches of the asked node")
    if deferred["under_way"] is not None:
        lines.append(f"a batch up to {deferred['under_way']} is under way")
    for line in (*lines, "", deferred["sql"], "", *deferred["program"]):
        OUT.print(line, soft_wrap=True)


def _state(view: dict[str, Any]) -> str:
    done = view["progress"]
    if done is None or done["finished"]:
        return str(view["state"])
    if done["error"]:
        return f"{view['state']}: {done['error']}"
    if done["elsewhere"]:
        return f"{view['state']}, by Spark ({done['scanned']} {_of(done)})"
    return f"{view['state']} ({done['scanned'] or done['rows']} {_of(done)})"


def _of(done: dict[str, Any]) -> str:
    """A phrase with the estimated number of rows to read."""
    return f"of about {done['total']}" if done["total"] else "of an unknown number"


def verify(
    names: Annotated[
        list[str] | None, typer.Argument(help="Views and indexes. Default: all.")
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Write the expected rows, in transactions.")
    ] = False,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Recompute views and indexes, and compare every row. Exit code 1: differences are left."""
    with opened(url) as db:
        report = _verified(db, {"names": names or None, "repair": repair})
    repaired = sum(item["repaired"] for item in report["checked"])
    are_left = report["differences"] > repaired
    if as_json:
        print_json(report)
    else:
        columns = ("name", "kind", "rows", *_FAULTS, "repaired")
        OUT.print(table(columns, ([item[c] for c in columns] for item in report["checked"])))
        for item in report["checked"]:
            if item["offending"]:
                OUT.print(f"{item['name']} is broken by {', '.join(item['offending'])}")
        more = f" found, {repaired} of them repaired" if repaired else ""
        colour = "red" if are_left else "green"
        OUT.print(f"{report['differences']} differences{more}", style=colour)
    raise typer.Exit(1 if are_left else 0)


def _verified(db: Connection, body: dict[str, Any]) -> dict[str, Any]:
    """The report of the verification, with a progress bar."""
    with db.transport.stream("/v1/verify", body) as answer, progress() as bars:
        task = bars.add_task("verify", total=None, note="")
        for line in documents(answer.lines()):
            if "error" in line:
                raise from_problem(line["error"])
            if "report" in line:
                report: dict[str, Any] = line["report"]
                return report
            now = line["progress"]
            bars.update(task, completed=now["done"], total=now["total"], note=now["name"])
    raise OperationalError("The answer ended before its report.", {"outcome": "unknown"})


def status(
    sizes: Annotated[
        bool, typer.Option("--sizes", help="Count the bytes of all tables, which reads them once.")
    ] = False,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Show version, watermark, transactions, locks, log, builds and the last verification."""
    with opened(url) as db:
        params = {"sizes": "true"} if sizes else None
        document = db.transport.json("GET", "/v1/status", params=params)
    if as_json:
        print_json(document)
        return
    counted, builds = document.pop("bytes", {}), document.pop("builds", [])
    verified = document.pop("verified", [])
    groups = document.pop("groups") or []
    OUT.print(table(("what", "value"), list(_flat(document))))
    if builds:
        OUT.print(_listed(builds, "Builds"))
    if verified:
        OUT.print(_listed(verified, "Last verification"))
    if groups:
        columns = ("group", "views", "batches by", "as of", "lag", "commits shown within", "state")
        OUT.print(table(columns, map(_group_row, groups), "Groups"))
    if counted:
        OUT.print(table(("stored", "bytes"), counted.items()))


def _listed(found: list[dict[str, Any]], title: str) -> Table:
    """Objects of the same members as a table."""
    return table(tuple(found[0]), [tuple(each.values()) for each in found], title)


def _group_row(group: dict[str, Any]) -> tuple[Any, ...]:
    left, problem = group["left"], group["problem"]
    by = "Spark" if left else group["node"]
    state = problem["message"] if problem else (f"left to Spark: {left}" if left else "kept")
    return (
        group["name"],
        len(group["views"]),
        by,
        group["as_of"],
        _age(group),
        _within(group),
        state,
    )


def _age(group: dict[str, Any]) -> str:
    return "never built" if group["lag_s"] is None else f"{group['lag_s']:.1f} s"


def _within(group: dict[str, Any]) -> str:
    """The times within which half and 99 % of the batches of the asked node showed commits."""
    if (lag := group["commit_lag"]) is None:
        return ""
    half, most = (
        "more" if bound is None else f"{bound:g} s" for bound in (lag["p50_s"], lag["p99_s"])
    )
    return f"{half} (half), {most} (99 %)"


def _flat(document: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of a document under names such as `log.bytes`, without nulls and empty
    lists."""
    for name, value in document.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        elif isinstance(value, list):
            if value:
                yield f"{prefix}{name}", json.dumps(value)
        elif value is not None:
            yield f"{prefix}{name}", round(value, 3) if isinstance(value, float) else value
