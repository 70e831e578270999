"""`hornbeam load`: load files into relations, in idempotent batches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Annotated, Any

import typer

from hornbeam.cli import initial
from hornbeam.cli.append import Loader
from hornbeam.cli.common import (
    DEFAULT_URL,
    AsJson,
    Url,
    fail,
    opened,
    progress,
    visible,
)
from hornbeam.cli.loadfiles import Batch, Columns, Rows, Together, Unit, batches_of
from hornbeam.cli.loadreport import print_report, shower
from hornbeam.cli.rejects import rejects_file
from hornbeam.cli.texts import is_compressed
from hornbeam.connection import Connection

BATCH_ROWS = 5_000
MAX_REJECTS = 1_000
Sources = dict[str, list[Path]]
"""Files by relation, in the given order."""


def register(app: typer.Typer) -> None:
    app.command("load")(load)


What = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="RELATION FILE | RELATION=FILE",
        help="A relation and its files; for several relations, each file as RELATION=FILE."
        " Files are CSV with a header row, JSON lines (.jsonl, .ndjson), or Parquet. CSV and"
        " JSON lines may be compressed (.gz, .bz2, .xz).",
        show_default=False,
    ),
]
RejectsFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Skip rows that the database refuses, and write them to this file as JSON lines"
        " with file, place, reason and record. An existing file is replaced.",
    ),
]
MaxRejects = Annotated[
    int, typer.Option(min=0, metavar="N", help="End the load when more than N rows are bad.")
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Continue an interrupted load: repeat its command.")
]
Again = Annotated[
    bool, typer.Option("--again", help="Insert the files even if they were loaded before.")
]
BatchRows = Annotated[int, typer.Option(min=1, help="Rows per transaction (without --spark).")]
Spark = Annotated[
    bool, typer.Option("--spark", help="Load empty relations with Spark, all rows at once.")
]
Master = Annotated[str, typer.Option(help="Spark's master.")]
SingleLines = Annotated[
    bool,
    typer.Option(
        "--single-lines",
        help="With --spark: each record of CSV is one line, so files may be split.",
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        metavar="SIGN",
        help="The sign between fields of CSV files, or `tab`; by default a comma, and a tab in"
        " files with the ending .tsv (without --spark).",
    ),
]
Cancel = Annotated[bool, typer.Option("--cancel", help="Cancel the running load with Spark.")]


def load(
    what: What = None,
    rejects: RejectsFile = None,
    max_rejects: MaxRejects = MAX_REJECTS,
    resume: Resume = False,
    again: Again = False,
    batch_rows: BatchRows = BATCH_ROWS,
    spark: Spark = False,
    master: Master = "local[*]",
    single_lines: SingleLines = False,
    delimiter: Delimiter = None,
    cancel: Cancel = False,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Insert the rows of files while other clients read and write. Safe to repeat after a failure.

    Each batch is a transaction. It maintains all views and indexes, and is inserted once, however
    often it is sent. Of several relations, referenced relations come first; relations
    that reference one another in a circle are inserted by one transaction.

    The first bad row ends the load. With --rejects the load continues without bad rows, and the
    exit code is 0 unless there are more than --max-rejects.

    With --spark, Spark fills empty relations with their indexes and views. All rows appear at once.
    Until then no client can write these relations, their ancestors, or relations that reference
    them.
    """
    if cancel:
        initial.cancel(url, as_json)
        return
    if delimiter is not None and spark:
        fail("Spark reads CSV with commas.", "Leave --delimiter or --spark out.")
    sign = "\t" if delimiter == "tab" else delimiter
    if sign is not None and (len(sign) != 1 or not sign.isascii() or sign in '"\r\n'):
        fail(f"{sign!r} is no delimiter.", "Give one ASCII sign, such as ';' or '|', or tab.")
    if again and (resume or spark):
        fail(f"Give {'--resume' if resume else '--spark'} or --again, not both.")
    sources = sources_of(what or fail("Give a relation and its files."))
    _require_files(sources, rejects)
    if spark:
        _require_uncompressed(sources)
        initial.load_initially(
            url,
            sources,
            master=master,
            rejects=rejects,
            max_rejects=max_rejects,
            resume=resume,
            single_lines=single_lines,
            as_json=as_json,
        )
        return
    with opened(url) as db, rejects_file(rejects, max_rejects) as rejected:
        loader = Loader(db, batch_rows, resume, again, rejected, sign)
        _load_all(db, loader, sources)
    print_report(loader, rejects, as_json)


def _load_all(db: Connection, loader: Loader, sources: Sources) -> None:
    schema = db.transport.json("GET", "/v1/schema")
    relations = {relation["name"]: relation for relation in schema["relations"]}
    for group in in_order(sources, relations):
        columns = {name: _columns(relations[name]) for name in group}
        if len(group) > 1:
            _load_together(loader, {name: sources[name] for name in group}, columns)
            continue
        for path in sources[group[0]]:
            _load_file(loader, group[0], columns[group[0]], path)


def _load_together(loader: Loader, sources: Sources, columns: Mapping[str, Columns]) -> None:
    """Load relations that reference one another in a circle, by one transaction. Raises
    DatabaseError, InterfaceError."""
    names = ", ".join(sources)
    if loader.rejects is not None:
        fail(
            f"{names} reference one another in a circle, so their rows are inserted by one"
            " transaction, and no row can be set aside.",
            "Leave --rejects out.",
        )
    parts: list[tuple[str, Rows, int, int]] = []
    for name, path in ((name, path) for name, paths in sources.items() for path in paths):
        for batch in batches_of(path, loader.batch_rows, columns[name], loader.delimiter)[1]:
            for row in batch.unreadable:
                fail(f"{path}:{row.place}: {row.reason}")
            parts.append((name, batch.rows, 0, len(batch.rows)))
    first, *others = [path for paths in sources.values() for path in paths]
    batch = Batch(Together([Unit(1, "", parts)]), 0, 0)
    loader.insert(names, first, [batch], lambda _: None, others)


def sources_of(what: Sequence[str]) -> Sources:
    """The files of the arguments RELATION FILE… or RELATION=FILE…. The first argument decides
    between the forms. Raises InterfaceError."""
    first, *rest = what
    if "=" not in first:
        if not rest:
            fail(f"Give the files to load into {first}.", "hornbeam load RELATION FILE…")
        return {first: [Path(name) for name in rest]}
    sources: Sources = {}
    for pair in what:
        relation, is_pair, name = pair.partition("=")
        if not (relation and is_pair and name):
            fail(
                f"{pair} is not RELATION=FILE.",
                "Give every file in this form, or one relation and its files.",
            )
        sources.setdefault(relation, []).append(Path(name))
    return sources


def _require_files(sources: Sources, rejects: Path | None) -> None:
    """Check that the files exist, and are distinct. Raises InterfaceError."""
    for relation, paths in sources.items():
        for number, path in enumerate(paths):
            if not path.is_file():
                cure = "For several relations, give each file as RELATION=FILE."
                fail(f"{path} is not a file.", cure if "=" in str(path) else "")
            if path in paths[:number]:
                fail(f"{path} is given twice for {relation}.")
            if rejects is not None and rejects.exists() and path.samefile(rejects):
                fail(f"{path} is a file to load; the rejected rows would replace it.")


def _require_uncompressed(sources: Sources) -> None:
    """Refuse compressed files: Spark tasks begin in the middle of files. Raises InterfaceError."""
    for path in (path for paths in sources.values() for path in paths if is_compressed(path)):
        fail(
            f"{path} is compressed, and Spark cannot split it.",
            "Decompress the file, or omit --spark.",
        )


def in_order(sources: Iterable[str], relations: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    """The relations of `sources`, parents before children. Relations that reference one another in
    a circle are in one group. Raises InterfaceError."""
    names = list(sources)
    unknown = [name for name in names if name not in relations]
    if unknown:
        fail(f"There is no relation {', '.join(unknown)}.", f"There are: {', '.join(relations)}.")
    above = {
        name: {key["parent"] for key in relations[name]["foreign_keys"]} & {*names} - {name}
        for name in names
    }
    reached = {name: _reached(name, above) for name in names}
    circle = {
        name: [o for o in names if o == name or (o in reached[name] and name in reached[o])]
        for name in names
    }
    first = {name: group[0] for name, group in circle.items()}
    order = TopologicalSorter(
        {
            name: {first[p] for n in circle[name] for p in above[n]} - {name}
            for name in {*first.values()}
        }
    )
    return [circle[name] for name in order.static_order()]


def _reached(start: str, above: Mapping[str, Iterable[str]]) -> set[str]:
    """The relations that `start` references, at any distance."""
    found: set[str] = set()
    left = [start]
    while left:
        more = {*above[left.pop()]} - found
        found |= more
        left += more
    return found


def _columns(relation: Mapping[str, Any]) -> Columns:
    columns = relation["columns"]
    return Columns(
        frozenset(column["name"] for column in columns),
        frozenset(column["name"] for column in columns if column["default"] is not None),
    )


def _load_file(loader: Loader, relation: str, columns: Columns, path: Path) -> None:
    with progress() as bars:
        task = bars.add_task(visible(path.name), total=None, note="")
        loader.load(relation, columns, path, shower(bars, task, loader))
