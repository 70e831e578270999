"""`hornbeam import`: the schema and the rows of a dump, in one command.

The file is read completely before anything changes: a file with problems changes nothing. Then its
schema is added to the schema in force, and its rows are inserted as `hornbeam load` does it, in
batches with idempotency keys, referenced relations first. An interrupted import continues with
`--resume`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby, islice
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any

import typer

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
from hornbeam.cli.load import BATCH_ROWS, MAX_REJECTS, BatchRows, MaxRejects, Resume
from hornbeam.cli.load import RejectsFile as Rejected
from hornbeam.cli.loadfiles import Batch, Rows, Together, Unit, text_batch
from hornbeam.cli.loadreport import print_report, shower
from hornbeam.cli.rejects import rejects_file
from hornbeam.cli.schema import Dialect, DialectOption
from hornbeam.cli.texts import EncodingOption, text_and_encoding
from hornbeam.connection import Connection
from hornbeam.ddl import put_into_force
from hornbeam.errors import from_problem
from hornbeam.server_package import server_module
from hornbeam.transport import Blocking
from hornbeam.waiting import finished

_PROPOSE = (
    "To edit a proposed schema and import into it: hornbeam schema plan {file} --suggest >"
    " schema.sql; hornbeam import {files} --schema schema.sql"
)


_SCHEMA = "the dump"
"""The name of the schema in force together with that of a dump."""


def register(app: typer.Typer) -> None:
    app.command("import")(import_)


Dumps = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE…",
        help="A dump with CREATE TABLE, INSERT or COPY: of PostgreSQL, MySQL, SQLite or SQL Server."
        " It may be in several files, for example the schema and the rows, and compressed"
        " (.gz, .bz2, .xz).",
    ),
]
SchemaFile = Annotated[
    Path | None,
    typer.Option("--schema", help="Take the schema from this file, and only the rows from FILE…"),
]


def import_(
    files: Dumps,
    schema: SchemaFile = None,
    dialect: DialectOption = None,
    encoding: EncodingOption = None,
    rejects: Rejected = None,
    max_rejects: MaxRejects = MAX_REJECTS,
    resume: Resume = False,
    batch_rows: BatchRows = BATCH_ROWS,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Import a dump: put its schema into force, and insert its rows.

    All problems of the files are reported at once, and then nothing is changed. Relations that are
    not in the file stay. Rows are inserted as by `hornbeam load`: each batch is a transaction, and
    an interrupted import continues with --resume.
    """
    readings = readings_of(files, dialect, encoding)
    declared = [_reading(schema, None)] if schema is not None else readings
    for reading in declared:
        names = " ".join(map(str, files))
        with _errors_of_file("\n" + _PROPOSE.format(file=files[0], files=names)):
            reading.problems.require_none()
    with _errors_of_file(), opened(url) as db, rejects_file(rejects, max_rejects) as rejected:
        parts, passed = _prepared(db, readings, declared)
        loader = Loader(db, batch_rows, resume, again=False, rejects=rejected)
        _insert(loader, files[0], parts)
    notes = [*(note for reading in readings for note in reading.schema.notes), *passed]
    print_report(loader, rejects, as_json, notes)


@contextmanager
def _errors_of_file(more: str = "") -> Iterator[None]:
    """Raise errors of the server's package, which reads the file, as errors of the client. `more`
    is added to the last cure."""
    errors = server_module("schema.errors")
    try:
        yield
    except errors.HornbeamError as error:
        details = {"detail": error.message, "cure": error.cure, "code": error.code}
        listed = [*error.details.get("problems", ())] or [details]
        listed[-1]["cure"] += more
        problem = error.details | details | {"cure": listed[-1]["cure"], "problems": listed}
        raise from_problem(problem) from None


def readings_of(
    files: Sequence[Path], dialect: Dialect | None = None, encoding: str | None = None
) -> list[Any]:
    """The files, and the files that they include, as they were read. Files without a schema are of
    the dialect of the first one."""
    found: list[Any] = []
    for file in files:
        first = _reading(file, dialect, encoding)
        if found and dialect is None and not first.schema.relations:
            first = _reading(file, Dialect(found[0].source.value), encoding)
        source = Dialect(first.source.value)
        included = [_included(piece, file) for piece in first.includes]
        found += [first, *(_reading(each, source, encoding) for each in included)]
    return found


def _included(piece: Any, file: Path) -> Path:
    """The file that a line (SOURCE file) names, which is relative to the dump's folder."""
    text: str = piece.text
    _, _, name = text.rstrip("; \t\r").partition(" ")
    return file.parent / name.strip().strip("'\"")


def _reading(path: Path, dialect: Dialect | None, encoding: str | None = None) -> Any:
    """The `Reading` of a file. Needs the server's package. Bytes that are not text become
    surrogates, which stand for bytes in columns of bytes. Raises InterfaceError."""
    ddl, sources = server_module("schema.ddl"), server_module("schema.ddl.sources")
    source = None if dialect is None else sources.Source(dialect.value)
    text, encoding = text_and_encoding(path, encoding, "surrogateescape")
    reading = ddl.read_file(text, str(path), source, encoding)
    return server_module("node.schema_problems").checked(reading)


def _prepared(
    db: Connection, readings: Sequence[Any], declared: Sequence[Any]
) -> tuple[list[Any], Sequence[str]]:
    """Put the declared schema into force, and return the parts of the dump, and notes about views
    that are passed over. Changes nothing if the rows do not fit the schema."""
    dumps, ddl = server_module("schema.ddl.dumps"), server_module("schema.ddl")
    current = db.transport.json("GET", "/v1/schema")
    whole = ddl.load_ddl(current["ddl"])
    for reading in declared:
        whole = dumps.merged(whole, reading.schema)
    parts: list[Any] = dumps.parts(readings, whole, declared)
    passed: Sequence[str] = ()
    if any(reading.schema.relations for reading in declared):
        text = ddl.render_ddl(whole) + dumps.comments_text(declared, whole)
        requests = Blocking(db.transport)
        applied = put_into_force(requests, current, text, allow_drop=False, file=_SCHEMA)
        passed = finished(applied)
    return parts, passed


def _insert(loader: Loader, file: Path, parts: Sequence[Any]) -> None:
    with progress() as bars:
        task = bars.add_task(visible(file.name), total=sum(p.size() for p in parts), note="")
        done = 0
        for number, part in enumerate(parts):
            show = shower(bars, task, loader, done)
            for relation, batch in _batches(part, loader.batch_rows, number):
                loader.insert(relation, Path(part.file), [batch], show)
            done += part.size()


def _batches(part: Any, batch_rows: int, number: int) -> Iterator[tuple[str, Batch]]:
    """The rows of a part in batches, each with its relation. `number` distinguishes the parts of a
    dump. A unit of several rows is in a batch of such units."""
    first, size = 0, 0
    for alike, units in groupby(part.units(), key=_alike):
        while chunk := list(islice(units, batch_rows)):
            size += sum(len(row.text) for unit in chunk for row in unit)
            name = f"{number}-{first}"
            if alike is None:
                yield part.name, Batch(Together([_unit(unit) for unit in chunk]), name, size)
            else:
                relation, columns = alike
                yield relation, text_batch(columns, _listed(row for (row,) in chunk), name, size)
            first += len(chunk)


def _alike(unit: Sequence[Any]) -> tuple[str, tuple[str, ...]] | None:
    """The relation and the columns of a unit of one row; None for a unit of several rows."""
    return (unit[0].relation, unit[0].columns) if len(unit) == 1 else None


def _listed(rows: Iterable[Any]) -> list[tuple[int, str, Sequence[Any]]]:
    return [(row.line, row.text, row.values) for row in rows]


def _unit(unit: Sequence[Any]) -> Unit:
    """Rows that reference one another in a circle. Raises InterfaceError for a text that is not
    UTF-8."""
    parts: list[tuple[str, Rows, int, int]] = []
    alike = attrgetter("relation", "columns")
    for (relation, columns), rows in groupby(sorted(unit, key=alike), key=alike):
        batch = text_batch(columns, _listed(rows), "", 0)
        for row in batch.unreadable:
            fail(f"Line {row.place}: {row.reason}")
        parts.append((relation, batch.rows, 0, len(batch.rows)))
    return Unit(unit[0].line, "\n".join(row.text for row in unit), parts)
