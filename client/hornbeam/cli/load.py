"""`hornbeam load`: files into relations, in batches that can be sent again.

Every batch is one transaction with an idempotency key made of the file's identity (name, size,
modification time) and the batch's place in it. So a load that broke off is resumed by sending the
file again: batches that were committed are answered from the record, the rest are inserted.
"""

from __future__ import annotations

import hashlib
import io
import json
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import IO, Annotated, Any, NamedTuple

import typer
from rich.markup import escape

from hornbeam.cli.common import (
    DEFAULT_URL,
    OUT,
    AsJson,
    Url,
    fail,
    opened,
    print_json,
    progress,
)
from hornbeam.cli.csvtext import csv_line, records
from hornbeam.connection import Connection
from hornbeam.errors import ProgrammingError
from hornbeam.transport import ARROW, persistently

_BATCH_ROWS = 5_000
_CSV = "text/csv"


def register(app: typer.Typer) -> None:
    app.command("load")(load)


class Batch(NamedTuple):
    """Rows as one request's body. `place` is where they begin, `seen` how far the file is read,
    in the unit of the file's length."""

    body: bytes
    content_type: str
    place: int
    seen: int


@dataclass
class _Totals:
    """What a load has done; `skipped` are rows that an earlier load had committed."""

    rows: int = 0
    skipped: int = 0
    batches: int = 0
    began: float = field(default_factory=time.perf_counter)

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.began

    @property
    def rate(self) -> float:
        return self.rows / max(self.seconds, 1e-6)


def load(
    relation: Annotated[str, typer.Argument(help="The relation to insert into.")],
    files: Annotated[
        list[Path],
        typer.Argument(help="CSV with a header row, JSON lines (.jsonl, .ndjson), or Parquet."),
    ],
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue a load that broke off.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Insert even what this file was loaded with before.")
    ] = False,
    batch_rows: Annotated[int, typer.Option(min=1, help="Rows per transaction.")] = _BATCH_ROWS,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Insert the rows of files, 5 000 per transaction; safe to run again after a failure."""
    if resume and again:
        fail("Give --resume or --again, not both.")
    for path in files:
        if not path.is_file():
            fail(f"{path} is no file.")
    with opened(url) as db:
        loader = _Loader(db, relation, batch_rows, resume, again)
        for path in files:
            loader.load(path)
    totals = loader.totals
    if as_json:
        print_json(
            {
                "relation": relation,
                "rows": totals.rows,
                "skipped": totals.skipped,
                "batches": totals.batches,
                "seconds": round(totals.seconds, 3),
            }
        )
        return
    skipped = f", {totals.skipped} were there already" if totals.skipped else ""
    OUT.print(
        f"{totals.rows} rows into {escape(relation)} in {totals.seconds:.1f} s"
        f" ({totals.rate:,.0f} rows/s){skipped}"
    )


class _Loader:
    """Sends batches. `started` is a commit timestamp: whatever committed later is ours."""

    def __init__(
        self, db: Connection, relation: str, batch_rows: int, resume: bool, again: bool
    ) -> None:
        self._db = db
        self._relation = relation
        self._batch_rows = batch_rows
        self._resume = resume
        self._salt = uuid.uuid4().hex if again else ""
        self._started = int(db.transport.json("GET", "/v1/status")["watermark"])
        self.totals = _Totals()

    def load(self, path: Path) -> None:
        identity = self._identity(path)
        length, batches = _batches(path, self._batch_rows)
        with progress() as bars:
            task = bars.add_task(escape(path.name), total=length, note="")
            for batch in batches:
                self._send(path, identity, batch)
                note = f"{self.totals.rate:,.0f} rows/s"
                bars.update(task, completed=batch.seen, note=note)

    def _identity(self, path: Path) -> str:
        about = path.stat()
        facts = (self._relation, path.name, about.st_size, about.st_mtime_ns, self._batch_rows)
        return hashlib.sha256(repr((*facts, self._salt)).encode()).hexdigest()[:32]

    def _send(self, path: Path, identity: str, batch: Batch) -> None:
        headers = {
            "Content-Type": batch.content_type,
            "Idempotency-Key": f"load-{identity}-{batch.place}",
        }
        answer = persistently(
            lambda: self._db.transport.post(f"/v1/load/{self._relation}", batch.body, headers)
        )
        totals = self.totals
        totals.batches += 1
        if answer["commit_ts"] > self._started:
            totals.rows += answer["rows"]
        elif self._resume:
            totals.skipped += answer["rows"]
        else:
            raise ProgrammingError(
                f"{path} was loaded into {self._relation} before, all or a part of it.\n"
                "Continue that load with --resume, or insert its rows once more with --again."
            )


def _batches(path: Path, rows: int) -> tuple[int, Iterator[Batch]]:
    """The file's length in some unit, and its batches."""
    match path.suffix.lower():
        case ".parquet" | ".pq":
            return _parquet(path, rows)
        case ".jsonl" | ".ndjson":
            return path.stat().st_size, _json_lines(path, rows)
        case _:
            return path.stat().st_size, _csv(path, rows)


def _csv(path: Path, rows: int) -> Iterator[Batch]:
    with path.open("rb") as file:
        lines = records(file)
        header = next(lines, b"").removeprefix(b"\xef\xbb\xbf")
        place = len(header)
        chunk = list(islice(lines, rows))
        while True:  # a header without rows is sent too: its columns want checking
            body = header + b"".join(chunk)
            yield Batch(body, _CSV, place, file.tell() if file.seekable() else place)
            place += len(body) - len(header)
            if not (chunk := list(islice(lines, rows))):
                return


def _json_lines(path: Path, rows: int) -> Iterator[Batch]:
    with path.open("rb") as file:
        filled = ((number, line) for number, line in enumerate(file, 1) if line.strip())
        while lines := list(islice(filled, rows)):
            documents = [_json_row(path, number, line) for number, line in lines]
            columns = list(dict.fromkeys(name for row in documents for name in row))
            text = csv_line(columns) + "".join(
                csv_line(_cell(row.get(name)) for name in columns) for row in documents
            )
            yield Batch(text.encode(), _CSV, lines[0][0], file.tell())


def _json_row(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        row = json.loads(line, parse_float=Decimal)
    except ValueError as error:
        fail(f"{path}:{number}: {error}")
    if not isinstance(row, dict):
        fail(f"{path}:{number}: a line must hold one JSON object.")
    return row


def _cell(value: Any) -> Any:
    """Objects and arrays go into JSON columns as text."""
    return json.dumps(value, default=str) if isinstance(value, dict | list) else value


def _parquet(path: Path, rows: int) -> tuple[int, Iterator[Batch]]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError:
        fail("Parquet needs pyarrow.", "pip install 'hornbeam[arrow]'")
    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        fail(f"{path} cannot be read as Parquet: {error}")

    def batches() -> Iterator[Batch]:
        place = 0
        with file:
            for batch in file.iter_batches(batch_size=rows):
                body = _arrow_body(pa, [batch], batch.schema)
                yield Batch(body, ARROW, place, place + batch.num_rows)
                place += batch.num_rows

    return file.metadata.num_rows, batches()


def _arrow_body(pa: Any, batches: Sequence[Any], schema: Any) -> bytes:
    sink: IO[bytes] = io.BytesIO()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    sink.seek(0)
    return sink.read()
