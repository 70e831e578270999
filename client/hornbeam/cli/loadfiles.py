"""The files of a load as batches of rows, which can be sent whole or in parts.

A batch depends on nothing but the file, the rows per batch, and which columns have defaults; so a
load that is resumed makes the same ones. CSV goes to the server byte by byte, JSON lines as CSV,
Parquet as Arrow. Text may be packed by gzip; a batch's name counts what is unpacked.

A line of JSON may leave out columns: each has its default there, or NULL. One request has the same
columns in all rows, so lines that leave out the same columns with defaults make a batch.
"""

from __future__ import annotations

import gzip
import io
import json
import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn, Protocol, cast

from hornbeam.cli.common import fail, json_form
from hornbeam.cli.csvtext import csv_line, records
from hornbeam.transport import ARROW

_CSV = "text/csv"


class Rows(Protocol):
    """Rows of a file that lie together; indexes count from 0."""

    @property
    def content_type(self) -> str: ...

    def __len__(self) -> int: ...

    def body(self, first: int, end: int) -> bytes:
        """The rows from `first` to before `end`; their columns, if that is none."""

    def place(self, index: int) -> int:
        """Where in the file a row is: its line, or its number in Parquet, from 1."""

    def record(self, index: int) -> str:
        """A row as it stands in the file; in Parquet as a JSON object."""


@dataclass(frozen=True)
class Columns:
    """Of a relation."""

    names: frozenset[str]
    defaults: frozenset[str]


class Unreadable(NamedTuple):
    """A row that is not even one; `code` is an error's."""

    place: int
    code: str
    reason: str
    record: str


@dataclass(frozen=True)
class Batch:
    """`name` is the batch's own in its file, `seen` how far the file is read with it, in the unit
    of the file's length."""

    rows: Rows
    name: int
    seen: int
    unreadable: Sequence[Unreadable] = ()


def batches_of(path: Path, rows: int, columns: Columns) -> tuple[int, Iterator[Batch]]:
    """The file's length in some unit, and its batches of at most `rows` rows."""
    match (Path(path.stem) if is_packed(path) else path).suffix.lower():
        case ".parquet" | ".pq":
            return _parquet(path, rows)
        case ".jsonl" | ".ndjson":
            return path.stat().st_size, _json_lines(path, rows, columns)
        case _:
            return path.stat().st_size, _csv(path, rows)


def is_packed(path: Path) -> bool:
    """By gzip?"""
    return path.suffix.lower() == ".gz"


@contextmanager
def _opened(path: Path) -> Iterator[tuple[IO[bytes], Callable[[], int]]]:
    """The file's text, unpacked, and how far the file is read. Raises InterfaceError when it cannot
    be read, or unpacked, to its end."""
    try:
        with path.open("rb") as file:
            text = gzip.GzipFile(fileobj=file) if is_packed(path) else file
            yield cast("IO[bytes]", text), file.tell
    except (OSError, EOFError, zlib.error) as error:
        fail(f"{path} cannot be read: {error}")


@dataclass(frozen=True)
class _Text:
    """Lines of CSV below a header. `texts` are the rows as the file has them, with their lines."""

    header: bytes
    lines: Sequence[bytes]
    texts: Sequence[tuple[int, bytes]]
    content_type: str = _CSV

    def __len__(self) -> int:
        return len(self.lines)

    def body(self, first: int, end: int) -> bytes:
        return self.header + b"".join(self.lines[first:end])

    def place(self, index: int) -> int:
        return self.texts[index][0]

    def record(self, index: int) -> str:
        return _shown(self.texts[index][1])


def _shown(text: bytes) -> str:
    return text.rstrip(b"\r\n").decode(errors="backslashreplace")


def _csv(path: Path, rows: int) -> Iterator[Batch]:
    with _opened(path) as (file, seen):
        lines = records(file)
        header = next(lines, (1, b""))[1].removeprefix(b"\xef\xbb\xbf")
        name = len(header)
        chunk = list(islice(lines, rows))
        while True:  # a header without rows is sent too: its columns want checking
            text = _Text(header, [line for _, line in chunk], chunk)
            yield Batch(text, name, seen())
            name += sum(map(len, text.lines))
            if not (chunk := list(islice(lines, rows))):
                return


def _json_lines(path: Path, rows: int, columns: Columns) -> Iterator[Batch]:
    with _opened(path) as (file, seen):
        filled = ((number, line) for number, line in enumerate(file, 1) if line.strip())
        while chunk := list(islice(filled, rows)):
            yield from _json_batches(chunk, seen(), columns)


def _json_batches(
    chunk: Sequence[tuple[int, bytes]], seen: int, columns: Columns
) -> Iterator[Batch]:
    unreadable: list[Unreadable] = []
    groups: dict[frozenset[str], list[tuple[int, bytes, dict[str, Any]]]] = {}
    for number, line in chunk:
        try:
            row = _json_row(line)
        except (ValueError, ArithmeticError, RecursionError) as error:
            unreadable.append(Unreadable(number, "invalid-request", f"{error}", _shown(line)))
            continue
        unknown = row.keys() - columns.names
        if unknown:
            reason = f"There is no column {', '.join(map(repr, sorted(unknown)))}."
            unreadable.append(Unreadable(number, "sql-unknown-name", reason, _shown(line)))
            continue
        groups.setdefault(columns.defaults.difference(row), []).append((number, line, row))
    if unreadable:
        yield Batch(_Text(b"", (), ()), chunk[0][0], seen, unreadable)
    for group in groups.values():
        yield Batch(_json_text(group), group[0][0], seen)


def _json_text(group: Sequence[tuple[int, bytes, dict[str, Any]]]) -> _Text:
    names = list(dict.fromkeys(name for _, _, row in group for name in row))
    return _Text(
        csv_line(names).encode(),
        [csv_line(map(row.get, names)).encode() for _, _, row in group],
        [(number, line) for number, line, _ in group],
    )


def _json_row(line: bytes) -> dict[str, Any]:
    """The cells of a line. Raises ValueError, ArithmeticError, RecursionError."""
    row = json.loads(line, parse_float=_Number, parse_constant=_Number)
    if not isinstance(row, dict):
        raise ValueError("A line must hold one JSON object.")
    if all(value is None for value in row.values()):
        raise ValueError("No column has a value.")  # CSV of one column could not say so
    cells = {name: _cell(value) for name, value in row.items()}
    if b"\\u" in line:  # half a pair of surrogates is no text
        csv_line(cells.values()).encode()
    return cells


class _Number(str):
    """A number as the file spells it, which neither float nor Decimal would always do."""

    __slots__ = ()


def _cell(value: Any) -> Any:
    """A number for a column of its own; objects and arrays go into JSON columns as text."""
    if isinstance(value, _Number):
        return Decimal(value)
    return _as_json(value) if isinstance(value, dict | list) else value


def _as_json(value: Any) -> str:
    """`value` as JSON. Decimals are numbers there, and numbers that JSON has not are text."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_as_json(k)}: {_as_json(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_as_json, value)) + "]"
    if isinstance(value, _Number | Decimal):
        return str(value)
    if isinstance(value, bytes):
        value = json_form(value)
    elif isinstance(value, float) and not math.isfinite(value):
        value = str(value)
    return json.dumps(value, default=str, ensure_ascii=False)


@dataclass(frozen=True)
class _Arrow:
    """A record batch; `before` it are so many rows in its file."""

    batch: Any
    before: int
    content_type: str = ARROW

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def body(self, first: int, end: int) -> bytes:
        import pyarrow as pa

        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, self.batch.schema) as writer:
            writer.write_batch(self.batch.slice(first, end - first))
        return sink.getvalue()

    def place(self, index: int) -> int:
        return self.before + index + 1

    def record(self, index: int) -> str:
        (row,) = self.batch.slice(index, 1).to_pylist()
        return _as_json(row)


def _parquet(path: Path, rows: int) -> tuple[int, Iterator[Batch]]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError:
        fail("Parquet needs pyarrow.", "pip install 'hornbeam[arrow]'")

    def unreadable(error: Exception) -> NoReturn:
        fail(f"{path} cannot be read as Parquet: {error}")

    def batches() -> Iterator[Batch]:
        before = 0
        with file:
            try:
                for batch in file.iter_batches(batch_size=rows):
                    yield Batch(_Arrow(batch, before), before, before + batch.num_rows)
                    before += batch.num_rows
            except (pa.ArrowException, OSError) as error:
                unreadable(error)

    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        unreadable(error)
    return file.metadata.num_rows, batches()
