"""Reads the files of a load as batches of rows. A batch can be sent whole or in parts.

Batches depend only on the file, the rows per batch, and the set of columns with defaults. So a
resumed load has the same batches. The rows of CSV are sent unchanged, JSON lines as CSV, Parquet as
Arrow. Text may be compressed by gzip, bzip2 or xz.

A line of JSON may omit columns, which get their defaults, or NULL. All rows of a request have the
same columns, so lines that omit the same columns with defaults form a batch.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn, Protocol
from urllib.parse import quote

from hornbeam.cli.common import fail, json_form
from hornbeam.cli.csvtext import csv_line, records
from hornbeam.cli.texts import DAMAGE, is_compressed, uncompressed
from hornbeam.transport import ARROW

_CSV = "text/csv"


class Rows(Protocol):
    """Consecutive rows of a file. Indexes count from 0."""

    @property
    def content_type(self) -> str: ...

    def __len__(self) -> int: ...

    def body(self, first: int, end: int) -> bytes:
        """The request body of the rows from `first` to before `end`. Without rows it holds only the
        columns."""

    def place(self, index: int) -> int:
        """The place of a row in the file, from 1: its line, in Parquet its number."""

    def record(self, index: int) -> str:
        """A row as text: its text in the file, in Parquet a JSON object."""


@dataclass(frozen=True)
class Columns:
    """The names of a relation's columns, and of its columns with defaults."""

    names: frozenset[str]
    defaults: frozenset[str]

    def spelled(self, row: dict[str, Any]) -> dict[str, Any]:
        """The row with the names of columns as the relation spells them. Raises ValueError if two
        names mean the same column."""
        if row.keys() <= self.names:
            return row
        alike = {name.lower(): name for name in self.names}
        found = {n if n in self.names else alike.get(n.lower(), n): v for n, v in row.items()}
        if len(found) < len(row):
            raise ValueError("Two names mean the same column.")
        return found


class Unreadable(NamedTuple):
    """A record that cannot be parsed as a row. `code` is an error code."""

    place: int
    code: str
    reason: str
    record: str


@dataclass(frozen=True)
class Batch:
    """A batch of rows. `name` is unique among the file's batches that have rows: in CSV a position
    in the uncompressed text, in JSON a line, in Parquet a row, in a dump a part and a row. `end` is
    the position in the file after the batch, in the unit of the file's length."""

    rows: Rows
    name: int | str
    end: int
    unreadable: Sequence[Unreadable] = ()


def batches_of(
    path: Path, rows: int, columns: Columns, delimiter: str | None = None
) -> tuple[int, Iterator[Batch]]:
    """The file's length in bytes (in Parquet: in rows), and its batches of at most `rows` rows.
    `delimiter` separates the fields of CSV; None: a tab in files with the ending .tsv, else a
    comma."""
    match (Path(path.stem) if is_compressed(path) else path).suffix.lower():
        case ".parquet" | ".pq":
            return _parquet(path, rows)
        case ".jsonl" | ".ndjson":
            return path.stat().st_size, _json_lines(path, rows, columns)
        case ".tsv":
            return path.stat().st_size, _csv(path, rows, columns, delimiter or "\t")
        case _:
            return path.stat().st_size, _csv(path, rows, columns, delimiter or ",")


@contextmanager
def _opened(path: Path) -> Iterator[tuple[IO[bytes], Callable[[], int]]]:
    """Yields the file's uncompressed text, and a function that returns the position in the file.
    Raises InterfaceError when the file cannot be read or decompressed."""
    try:
        with path.open("rb") as file:
            yield uncompressed(path, file), file.tell
    except DAMAGE as error:
        fail(f"{path} cannot be read: {error}")


@dataclass(frozen=True)
class _Text:
    """Lines of CSV with a header. `texts` are the rows as in the file, with their line numbers."""

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
        return _text_of(self.texts[index][1])


def _text_of(text: bytes) -> str:
    return text.rstrip(b"\r\n").decode(errors="backslashreplace")


_DELIMITERS = {";": "';'", "\t": "tab", "|": "'|'"}
"""Further signs between fields, as --delimiter takes them."""


def _with_names(header: bytes, columns: Columns, delimiter: str, path: Path) -> bytes:
    """The header without blanks around the names of columns. Raises InterfaceError for a header
    whose fields another sign separates."""
    try:
        text = header.decode().rstrip("\r\n")
        (names,) = list(csv.reader([text], delimiter=delimiter)) or [[]]
    except (UnicodeDecodeError, csv.Error):
        return header  # the server reads it otherwise, or refuses it
    known = {name.lower() for name in columns.names}
    found = [name if name.strip().lower() not in known else name.strip() for name in names]
    other = next((sign for sign in _DELIMITERS if sign in text and sign != delimiter), "")
    if len(names) == 1 and found[0].lower() not in known and other:
        fail(
            f"{path}:1: There is no column {text!r}.",
            f"If another sign separates the fields, name it: --delimiter {_DELIMITERS[other]}.",
        )
    if found == names:
        return header
    written = io.StringIO()
    csv.writer(written, delimiter=delimiter, lineterminator="\n").writerow(found)
    return written.getvalue().encode()


def _csv(path: Path, rows: int, columns: Columns, delimiter: str) -> Iterator[Batch]:
    content_type = _CSV if delimiter == "," else f"{_CSV}; delimiter={quote(delimiter, safe='')}"
    with _opened(path) as (file, position):
        lines = records(file)
        header = next(lines, (1, b""))[1].removeprefix(b"\xef\xbb\xbf")
        name = len(header)
        header = _with_names(header, columns, delimiter, path)
        chunk = list(islice(lines, rows))
        while True:  # a header without rows is also sent, so that the server checks its columns
            text = _Text(header, [line for _, line in chunk], chunk, content_type)
            yield Batch(text, name, position())
            name += sum(map(len, text.lines))
            if not (chunk := list(islice(lines, rows))):
                return


def _json_lines(path: Path, rows: int, columns: Columns) -> Iterator[Batch]:
    with _opened(path) as (file, position):
        filled = ((number, line) for number, line in enumerate(file, 1) if line.strip())
        while chunk := list(islice(filled, rows)):
            yield from _json_batches(chunk, position(), columns)


def _json_batches(
    chunk: Sequence[tuple[int, bytes]], position: int, columns: Columns
) -> Iterator[Batch]:
    unreadable: list[Unreadable] = []
    groups: dict[frozenset[str], list[tuple[int, bytes, dict[str, Any]]]] = {}
    for number, line in chunk:
        try:
            row = columns.spelled(_json_row(line))
        except (ValueError, ArithmeticError, RecursionError) as error:
            unreadable.append(Unreadable(number, "invalid-request", f"{error}", _text_of(line)))
            continue
        unknown = row.keys() - columns.names
        if unknown:
            reason = f"There is no column {', '.join(map(repr, sorted(unknown)))}."
            unreadable.append(Unreadable(number, "sql-unknown-name", reason, _text_of(line)))
            continue
        if not row and columns.names == columns.defaults:
            reason = "The object is empty, and every column has a default: name a column."
            unreadable.append(Unreadable(number, "invalid-request", reason, _text_of(line)))
            continue
        groups.setdefault(columns.defaults.difference(row), []).append((number, line, row))
    if unreadable:
        yield Batch(_Text(b"", (), ()), chunk[0][0], position, unreadable)
    for group in groups.values():
        yield Batch(_json_text(group, columns), group[0][0], position)


def text_batch(
    names: Sequence[str], rows: Sequence[tuple[int, str, Sequence[Any]]], name: str, end: int
) -> Batch:
    """A batch of rows from a file of another form: the line, the text and the values of each."""
    lines: list[bytes] = []
    texts: list[tuple[int, bytes]] = []
    unreadable: list[Unreadable] = []
    for line, text, values in rows:
        written = text.encode(errors="surrogateescape")
        try:
            lines.append(csv_line(values).encode())
            texts.append((line, written))
        except UnicodeEncodeError:
            reason = "A text is not UTF-8."
            unreadable.append(Unreadable(line, "invalid-request", reason, _text_of(written)))
    return Batch(_Text(csv_line(names).encode(), lines, texts), name, end, unreadable)


@dataclass(frozen=True)
class Together:
    """Units of rows of several relations: the rows of a unit are inserted by one transaction. Each
    unit has its place in the file, its text, and the bodies of its rows by relation."""

    units: Sequence[Unit]
    content_type: str = "application/json"

    def __len__(self) -> int:
        return len(self.units)

    def body(self, first: int, end: int) -> bytes:
        parts = [part for unit in self.units[first:end] for part in unit.parts]
        if first == end:  # the columns alone
            parts = [(relation, rows, 0, 0) for relation, rows, _, _ in self.units[0].parts]
        listed = [
            {
                "relation": relation,
                "content_type": rows.content_type,
                "content": base64.b64encode(rows.body(start, stop)).decode(),
            }
            for relation, rows, start, stop in parts
        ]
        return json.dumps({"parts": listed}).encode()

    def place(self, index: int) -> int:
        return self.units[index].place

    def record(self, index: int) -> str:
        return self.units[index].record

    def counts(self, first: int, end: int) -> Counter[str]:
        """The number of rows of each relation."""
        counted = Counter[str]()
        for unit in self.units[first:end]:
            for relation, _, start, stop in unit.parts:
                counted[relation] += stop - start
        return counted


class Unit(NamedTuple):
    """Rows that are inserted by one transaction. `parts`: for each relation, rows from the first to
    before the second index."""

    place: int
    record: str
    parts: Sequence[tuple[str, Rows, int, int]]


def _json_text(group: Sequence[tuple[int, bytes, dict[str, Any]]], columns: Columns) -> _Text:
    names = list(dict.fromkeys(name for _, _, row in group for name in row))
    if not names:  # rows without a member have NULL in a column without a default
        names = sorted(columns.names - columns.defaults)[:1]
    return _Text(
        csv_line(names).encode(),
        [csv_line(map(row.get, names)).encode() for _, _, row in group],
        [(number, line) for number, line, _ in group],
    )


MAX_JSON_DEPTH = 500
"""Maximum nesting of arrays and objects. The interpreter's own limit differs by version."""
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')


def _require_shallow(line: bytes) -> None:
    """Check the nesting of JSON. Raises ValueError when it is too deep."""
    if line.count(b"[") + line.count(b"{") <= MAX_JSON_DEPTH:
        return
    depth = 0
    for bracket in re.findall(rb"[\[{}\]]", _STRING.sub(b"", line)):
        depth += 1 if bracket in b"[{" else -1
        if depth > MAX_JSON_DEPTH:
            raise ValueError(f"JSON is nested more than {MAX_JSON_DEPTH} levels deep.")


def _json_row(line: bytes) -> dict[str, Any]:
    """The values of a line by column. Raises ValueError, ArithmeticError, RecursionError."""
    _require_shallow(line)
    row = json.loads(line, parse_float=_Number, parse_constant=_Number)
    if not isinstance(row, dict):
        raise ValueError("A line must hold one JSON object.")
    cells = {name: _cell(value) for name, value in row.items()}
    if b"\\u" in line:  # an unpaired surrogate raises UnicodeEncodeError
        csv_line(cells.values()).encode()
    return cells


class _Number(str):
    """A number as spelled in the file. float and Decimal do not always preserve the spelling."""

    __slots__ = ()


def _cell(value: Any) -> Any:
    """The value of a column. Objects and arrays become text of JSON columns."""
    if isinstance(value, _Number):
        return Decimal(value)
    return _as_json(value) if isinstance(value, dict | list) else value


def _as_json(value: Any) -> str:
    """`value` as JSON. Decimals become numbers; infinities and NaN, which JSON lacks, become
    text."""
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
    """A record batch. `before` is the number of rows before it in its file."""

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
