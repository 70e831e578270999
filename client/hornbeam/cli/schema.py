"""`hornbeam schema …`: plan, apply, compare and show schemas."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from inspect import Signature, signature
from pathlib import Path
from typing import Annotated, Any

import typer

from hornbeam.cli.common import (
    DEFAULT_URL,
    OUT,
    AsJson,
    Url,
    documents,
    fail,
    opened,
    print_json,
    progress,
    read_text,
    table,
)
from hornbeam.cli.texts import EncodingOption
from hornbeam.connection import Connection
from hornbeam.ddl import DDL, placed
from hornbeam.errors import DatabaseError, OperationalError, from_problem
from hornbeam.namespaces import PUBLIC, joined, parted
from hornbeam.server_package import server_module
from hornbeam.statements import workload_text
from hornbeam.transport import replanned_blocking

_POLL_S = 0.2
_LONG_FILE = 1_000_000
"""Characters of a file from which on it is taken for a dump with rows."""


class Method(StrEnum):
    """The method that selects views."""

    optimal = "optimal"
    paper = "paper"


class Dialect(StrEnum):
    postgres = "postgres"
    mysql = "mysql"
    sqlite = "sqlite"
    sqlserver = "sqlserver"


class Builder(StrEnum):
    node = "node"
    spark = "spark"


class GraphFormat(StrEnum):
    svg = "svg"
    mermaid = "mermaid"
    json = "json"


Ddl = Annotated[
    str,
    typer.Argument(
        help="A file of CREATE TABLE statements, such as a dump of PostgreSQL, MySQL, SQLite or SQL"
        " Server; - for standard input; or the SQLAlchemy URL of a database to reflect."
    ),
]
DialectOption = Annotated[
    Dialect | None, typer.Option(help="The dialect of the file. Default: it is recognised.")
]
Workload = Annotated[
    Path | None,
    typer.Argument(help="A file of the application's statements. Default: the workload in force."),
]
Roots = Annotated[
    str | None, typer.Option(help="Root relations, separated by commas. Default: learn the roots.")
]
LearnRoots = Annotated[bool, typer.Option("--learn-roots", help="Learn the roots (the default).")]
MethodOption = Annotated[
    Method, typer.Option(help="The optimal selection of views, or the paper's heuristic.")
]
Budget = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        help="Maximum size of all views and their indexes, as a multiple of the base relations'"
        " expected bytes. The least valuable views are dropped first.",
    ),
]
Aggregates = Annotated[
    bool, typer.Option(help="Whether aggregate views may be chosen for the workload.")
]
QueryLog = Annotated[
    Path | None,
    typer.Option(
        help="A file of executed statements, one per line or as JSON lines. They set the weights of"
        " the workload."
    ),
]
Rows = Annotated[
    list[str] | None,
    typer.Option(
        "--rows",
        metavar="RELATION=NUMBER",
        help="Expected number of rows of a relation. Repeat for several relations. Default: the"
        " counted rows, or an assumed number for relations without rows.",
    ),
]

Renames = Annotated[
    list[str] | None,
    typer.Option(
        "--rename",
        metavar="[SCHEMA.]RELATION[.COLUMN]=NEW",
        help="A relation, view or column that the file calls by another name. Repeat for several;"
        " they are renamed one after the other. Without it, it would be dropped with its rows or"
        " values, and another one added. A relation is in another schema with RELATION=SCHEMA.NEW;"
        " a schema itself has another name with SCHEMA.*=NEW.*",
    ),
]
Usings = Annotated[
    list[str] | None,
    typer.Option(
        "--using",
        metavar="RELATION.COLUMN=EXPRESSION",
        help="The values of a column that gets another type, from the rows in force. Repeat for"
        " several columns. Default: the values themselves, as an assignment casts them.",
    ),
]


@dataclass(frozen=True)
class Wanted:
    """What to plan: the options that plan, apply and diff have in common."""

    ddl: Ddl
    workload: Workload = None
    roots: Roots = None
    learn_roots: LearnRoots = False
    method: MethodOption = Method.optimal
    budget: Budget = None
    aggregates: Aggregates = True
    query_log: QueryLog = None
    rows: Rows = None
    dialect: DialectOption = None
    encoding: EncodingOption = None
    rename: Renames = None
    using: Usings = None


def planning(command: Callable[..., None]) -> Callable[..., None]:
    """A command with the options of `Wanted` and its own ones. `command` takes the `Wanted`, then
    its own options."""
    _, *own = signature(command, eval_str=True).parameters.values()
    common = signature(Wanted, eval_str=True).parameters
    parameters = [*common.values(), *own]

    def with_all_options(**given: Any) -> None:
        wanted = Wanted(**{name: given.pop(name) for name in common})
        command(wanted, **given)

    with_all_options.__doc__ = command.__doc__
    with_all_options.__annotations__ = {each.name: each.annotation for each in parameters}
    with_all_options.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return with_all_options


def register(app: typer.Typer) -> None:
    schema = typer.Typer(help="Plan, apply and show schemas.", no_args_is_help=True)
    for name, command in (
        ("plan", plan),
        ("apply", apply),
        ("diff", diff),
        ("show", show),
        ("graph", graph),
    ):
        schema.command(name)(command)
    app.add_typer(schema, name="schema")


@planning
def plan(
    wanted: Wanted,
    suggest: Annotated[
        bool,
        typer.Option(
            "--suggest",
            help="Print a schema that can be applied, with a comment at each changed place.",
        ),
    ] = False,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Show the trees, views and indexes that a schema would get, and why. Changes nothing.

    All problems of the file are reported at once, each with its line and a cure.
    """
    if suggest:
        _print_suggestion(wanted, as_json)
        return
    with opened(url) as db:
        body = _body(db, wanted)
        planned = _plan(db, body)
    if as_json:
        print_json({key: planned[key] for key in planned if key != "svg"})
    else:
        OUT.print(planned["text"], soft_wrap=True)


@planning
def apply(
    wanted: Wanted,
    allow_drop: Annotated[
        bool,
        typer.Option(
            "--allow-drop", help="Allow dropping relations and columns that are not in DDL."
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    wait: Annotated[bool, typer.Option(help="Wait until the views are built.")] = True,
    build: Annotated[
        Builder,
        typer.Option(help="Builder of new views: a node, or Spark by hornbeam materialize."),
    ] = Builder.node,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Put a schema into force: show the plan, ask, apply it, and watch the views being built.

    With --yes the command plans again when row counts have changed the plan since it was made.
    """
    with opened(url) as db:
        body = _body(db, wanted)
        options = {"allow_drop": allow_drop, "build": build.value}

        def put_into_force() -> dict[str, Any]:
            planned = _plan(db, body)
            if not as_json:
                OUT.print(planned["text"], soft_wrap=True)
                _print_changes(_changes(db, planned))
            if not yes:
                if as_json:
                    fail("--json needs --yes: it cannot ask for confirmation.")
                typer.confirm("Apply this plan?", abort=True, err=True)
            confirmed = body | options | {"plan_id": planned["plan_id"]}
            applied: dict[str, Any] = db.transport.json("POST", "/v1/schema/apply", confirmed)
            return applied

        # A plan that the user confirms is applied exactly as shown, or not at all.
        answer = replanned_blocking(put_into_force) if yes else put_into_force()
        if wait or "hornbeam:///" in url:  # an embedded database builds only while it is open
            _watch_builds(db)
            # The views become readable in a later catalog version.
            answer["catalog_version"] = db.transport.json("GET", "/v1/schema")["version"]
            answer["building"] = []
    if as_json:
        print_json(answer)
        return
    left = f"; being built: {', '.join(answer['building'])}" if answer["building"] else ""
    OUT.print(f"Applied: catalog version {answer['catalog_version']}{left}.", style="green")


@planning
def diff(
    wanted: Wanted,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Show the changes that applying a schema would make. Exit code 1: there are changes."""
    with opened(url) as db:
        body = _body(db, wanted)
        changes = _changes(db, _plan(db, body))
    if as_json:
        print_json(changes)
    else:
        _print_changes(changes)
    raise typer.Exit(1 if changes else 0)


def show(
    ddl: Annotated[bool, typer.Option("--ddl", help="Print the DDL only.")] = False,
    workload: Annotated[bool, typer.Option("--workload", help="Print the workload only.")] = False,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Show the schema in force: relations with their trees, views and indexes."""
    with opened(url) as db:
        document = db.transport.json("GET", "/v1/schema")
    if as_json:
        print_json(document)
    elif ddl:
        print(document["ddl"] + document.get("comments", ""), end="")
    elif workload:
        print(workload_text(document["workload"]))
    else:
        _print_schema(document)


def graph(
    format_: Annotated[GraphFormat, typer.Option("--format")] = GraphFormat.mermaid,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to a file.")] = None,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Draw the schema's graph with its trees and views."""
    chosen = GraphFormat.json if as_json else format_
    with opened(url) as db:
        text = db.transport.text("/v1/schema/graph", {"format": chosen.value})
    if output is None:
        typer.echo(text)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        fail(f"{output} cannot be written: {error}")


def _roots(wanted: Wanted) -> list[str] | None:
    if wanted.roots is not None and wanted.learn_roots:
        fail("Give --roots or --learn-roots, not both.")
    if wanted.roots is None:
        return None
    return [name.strip() for name in wanted.roots.split(",") if name.strip()]


def _body(db: Connection, wanted: Wanted) -> dict[str, Any]:
    """The request body of plan and apply for `db`."""
    ddl, workload, query_log = wanted.ddl, wanted.workload, wanted.query_log
    roots = _roots(wanted)
    text, dialect = (_reflected(ddl), None) if "://" in ddl else _schema_text(wanted)
    return {
        "ddl": text,
        "workload": read_text(workload) if workload is not None else None,
        "roots": roots,
        "method": wanted.method.value,
        "budget": wanted.budget,
        "aggregates": wanted.aggregates,
        "ddl_file": DDL if "://" in ddl else ddl,
        "workload_file": str(workload or "<hornbeam schema show --workload>"),
        "query_log": read_text(query_log) if query_log is not None else "",
        "row_counts": dict(map(_expected, wanted.rows or ())) or None,
        "dialect": dialect,
        "renames": _renames(db, wanted.rename or ()),
        "usings": list(map(_used, wanted.using or ())),
    }


def _renames(db: Connection, asked: Sequence[str]) -> list[dict[str, Any]]:
    schemas = db.schema_document()["schemas"] if asked else []
    return [_renamed(text, schemas) for text in asked]


def _renamed(text: str, schemas: Collection[str]) -> dict[str, Any]:
    """The rename that RELATION.COLUMN=NEW, RELATION=NEW or SCHEMA.RELATION=NEW asks for. Names are
    as they are stored, without quotes. A relation stays in its schema if NEW has none. SCHEMA.* and
    NEW.* rename a schema."""
    old, equals, new = text.partition("=")
    if not (old and equals and new):
        fail(
            f"--rename {text} gives no new name.", "Write --rename relation.column=new, or old=new."
        )
    schema, name = parted(old, schemas)
    relation, dot, column = name.rpartition(".")
    if old.endswith(".*") and new.endswith(".*"):
        return {"relation": old[:-2], "column": "", "new": new[:-2], "space": True}
    if not dot:
        space, own = parted(new, (PUBLIC, *schemas))
        stays = own == new
        return {"relation": old, "column": "", "new": joined(schema if stays else space, own)}
    return {"relation": joined(schema, relation), "column": column, "new": new}


def _used(text: str) -> dict[str, str]:
    """The conversion that RELATION.COLUMN=EXPRESSION asks for."""
    relation, column, sql = _of_column("--using", text, "relation.column=expression")
    return {"relation": relation, "column": column, "sql": sql}


def _of_column(option: str, text: str, form: str) -> tuple[str, str, str]:
    """The relation, the column and what is given for it. Fails unless `text` has the `form`."""
    name, equals, given = text.partition("=")
    relation, dot, column = name.rpartition(".")
    if not (equals and dot and relation and column and given):
        fail(f"{option} {text} names no column.", f"Write {option} {form}.")
    return relation, column, given


def _print_suggestion(wanted: Wanted, as_json: bool) -> None:
    """Print a schema that can be applied, for a file with problems. Needs the server's package."""
    if "://" in wanted.ddl:
        fail("--suggest takes a file.", "A reflected schema is refused at its first problem.")
    suggest = server_module("schema.ddl.suggest")
    reading = _reading(read_text(Path(wanted.ddl), wanted.encoding), wanted)
    reading = server_module("node.schema_problems").checked(reading)
    text = suggest.suggestion(reading, wanted.ddl)
    if as_json:
        found = [problem.error for problem in reading.problems.found()]
        documents_of = server_module("schema.problems").documents
        print_json({"ddl": text, "problems": documents_of(found), "notes": reading.schema.notes})
    else:
        print(text, end="")


def _reading(text: str, wanted: Wanted) -> Any:
    """The `Reading` of a schema file or dump. Needs the server's package."""
    ddl, sources = server_module("schema.ddl"), server_module("schema.ddl.sources")
    source = None if wanted.dialect is None else sources.Source(wanted.dialect.value)
    return ddl.read_file(text, wanted.ddl, source)


def _schema_text(wanted: Wanted) -> tuple[str, str | None]:
    """The text and the dialect of a schema file. Of a long dump the values of rows are left out,
    which a server would count; that needs the server's package."""
    text = read_text(Path(wanted.ddl), wanted.encoding)
    dialect = wanted.dialect and wanted.dialect.value
    if len(text) <= _LONG_FILE:
        return text, dialect
    reading = _reading(text, wanted)
    without = server_module("schema.ddl.dumps").without_values
    return without(text, reading.rows), reading.source.value


def _expected(text: str) -> tuple[str, int]:
    """The relation and the number of RELATION=NUMBER. Raises InterfaceError."""
    relation, _, number = text.rpartition("=")
    if not relation or not number.isdecimal():
        fail(f"{text!r} is not RELATION=NUMBER.", "For example: orders=1000000.")
    return relation, int(number)


def _reflected(url: str) -> str:
    """The DDL of the database at a SQLAlchemy URL. Needs the server's package."""
    reflect = server_module("schema.reflect").reflect
    render = server_module("schema.ddl").render_ddl
    errors = server_module("schema.errors")
    try:
        text: str = render(reflect(url))
    except errors.HornbeamError as error:
        fail(str(error))
    return text


def _plan(db: Connection, body: dict[str, Any]) -> dict[str, Any]:
    """The plan for `body`. Errors name places in the texts that the user has written."""
    try:
        return _stream_plan(db, body)
    except DatabaseError as error:
        raise (placed(error, body["ddl"]) if body["ddl_file"] == DDL else error) from None


def _stream_plan(db: Connection, body: dict[str, Any]) -> dict[str, Any]:
    """The plan for `body`, with a progress bar. An interrupt (Ctrl-C) ends the search."""
    lines = {"Accept": "application/x-ndjson"}
    with db.transport.stream("/v1/schema/plan", body, lines) as answer, progress() as bars:
        task = bars.add_task("Planning", total=None, note="% of the longest search")
        for line in documents(answer.lines()):
            if "error" in line:
                raise from_problem(line["error"])
            if "plan" in line:
                planned: dict[str, Any] = line["plan"]
                return planned
            now = line["progress"]
            bars.update(task, completed=now["done"], total=now["total"])
    raise OperationalError("The answer ended before its plan.")


def _changes(db: Connection, planned: dict[str, Any]) -> list[dict[str, str]]:
    """The changes to declared objects, trees, views and indexes that the plan would make."""
    old, new = db.transport.json("GET", "/v1/schema"), planned["plan"]
    # Declared views are not selected, so `changes` lists them.
    chosen = [view for view in old["views"] if _is_chosen(view)]
    changes: list[dict[str, str]] = list(planned["changes"])
    known = {(change["kind"], change["name"]) for change in changes}
    parts = (
        ("tree", _paths_in_force(old), {r["relation"]: _path(r["path"]) for r in new["relations"]}),
        ("view", _details(chosen, "path"), _details(new["views"], "path")),
        ("index", _details(old["indexes"], "on"), _details(new["indexes"], "on")),
    )
    for kind, before, after in parts:
        changes += [
            {"action": action, "kind": kind, "name": name, "detail": detail}
            for action, name, detail in _compared(before, after)
            if (kind, name) not in known
        ]
    return changes


def _is_chosen(view: dict[str, Any]) -> bool:
    """Has a plan chosen this view for the workload?"""
    immediate = view.get("immediate")
    return bool(immediate["chosen"]) if immediate else not view["deferred"]


def _compared(before: dict[str, str], after: dict[str, str]) -> Iterator[tuple[str, str, str]]:
    for name in before.keys() - after.keys():
        yield "drop", name, before[name]
    for name, detail in after.items():
        if name not in before:
            yield "add", name, detail
        elif before[name] != detail:
            yield "change", name, f"{before[name]} ⇒ {detail}"


def _paths_in_force(document: dict[str, Any]) -> dict[str, str]:
    """The path of each relation from its root."""
    parents = {name: edge and edge["parent"] for name, edge in document["trees"].items()}

    def path(name: str) -> list[str]:
        parent = parents[name]
        return [*path(parent), name] if parent else [name]

    return {name: _path(path(name)) for name in parents}


def _path(relations: Sequence[str]) -> str:
    return " → ".join(relations)


def _details(things: list[dict[str, Any]], key: str) -> dict[str, str]:
    return {
        thing["name"]: thing[key] if isinstance(thing[key], str) else _path(thing[key])
        for thing in things
    }


def _print_changes(changes: list[dict[str, str]]) -> None:
    if not changes:
        OUT.print("Nothing changes.")
        return
    columns = ("action", "kind", "name", "detail")
    OUT.print(table(columns, ([change[c] for c in columns] for change in changes), "Changes"))


def _print_schema(document: dict[str, Any]) -> None:
    OUT.print(f"Catalog version {document['version']}")
    rows = [
        (
            relation["name"],
            ", ".join(relation["primary_key"]),
            len(relation["columns"]),
            relation["root"],
            (document["trees"].get(relation["name"]) or {}).get("parent"),
        )
        for relation in document["relations"]
    ]
    OUT.print(table(("relation", "primary key", "columns", "root", "tree parent"), rows))
    if document["views"]:
        rows_ = [(v["name"], " → ".join(v["path"]), v["state"]) for v in document["views"]]
        OUT.print(table(("view", "path", "state"), rows_))
    if document["indexes"]:
        OUT.print(
            table(
                ("index", "on", "columns", "purpose", "state"),
                (
                    (i["name"], i["on"], _index_columns(i), i["purpose"], i["state"])
                    for i in document["indexes"]
                ),
            )
        )


def _index_columns(index: dict[str, Any]) -> str:
    return ", ".join(
        part["column"] + (" DESC" if part["descending"] else "") for part in index["columns"]
    )


def _watch_builds(db: Connection) -> None:
    """Show the progress of builds until all have ended. Raises OperationalError if one failed."""
    with progress() as bars:
        tasks: dict[str, Any] = {}
        while True:
            status = db.transport.json("GET", "/v1/status")
            builds = [build for build in status["builds"] if not build["elsewhere"]]
            for build in builds:
                name = build["name"]
                if name not in tasks:
                    tasks[name] = bars.add_task(name, total=None, note="rows")
                done = build["scanned"] or build["rows"]
                bars.update(tasks[name], completed=done, total=build["total"] or None)
            if all(build["finished"] or build["error"] for build in builds):
                break
            time.sleep(_POLL_S)
    failed = [build for build in builds if build["error"]]
    if failed:
        raise OperationalError(f"Building {failed[0]['name']} failed: {failed[0]['error']}")
