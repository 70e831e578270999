"""Read files of rows: the records of CSV, JSON lines and Parquet become rows or rejects.

A file gives the same rows as in a load by transactions (`api.rest.load_bodies`, `hornbeam load`):

- CSV has a header and is quoted as in RFC 4180; a quoted field may contain line ends. All fields
  are text that `ColumnType.coerce` reads, exactly. An empty field is NULL, a quoted empty field is
  the empty text.
- JSON lines: each line is an object; numbers and truth values are read as their text, objects and
  arrays are JSON text.
- Parquet's values are Arrow's.
- A column that a file (or an object) lacks takes its default, or is NULL.

A file is cut into splits, which are read in parallel: Parquet by row groups, JSON lines by bytes,
at line ends; CSV only if the user promises that no record spans lines. The cuts depend only on the
file. So each record has a fixed *place*, which orders the file's records (`Split.before`);
`lines_of` converts places to line numbers.

A record that cannot be read, or has a value that its column does not take, is a reject. A file that
cannot be read, a column that is unknown or duplicated, and a file that has changed are errors.
"""

from __future__ import annotations

import datetime as dt
import enum
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from hornbeam_server.query.dialect.duckdb_types import column_type, from_record_batch
from hornbeam_server.query.expressions.declared import (
    generated_columns,
    row_checks,
    with_generated,
)
from hornbeam_server.schema.assignment import assign, assign_all_of_file, assign_of_file
from hornbeam_server.schema.errors import (
    CheckViolation,
    InvalidRequest,
    NotNullViolation,
    SqlError,
    TypeMismatch,
    UnknownName,
    Unsupported,
)
from hornbeam_server.schema.model import Column, DefaultKind, Relation
from hornbeam_server.schema.named_columns import (
    generated_given,
    require_columns,
    require_no_generated,
    spelled,
)
from hornbeam_server.schema.types import Row, Value

LEAST_SPLIT_BYTES, SPLIT_BYTES = 2 << 20, 8 << 20
SPLITS = 16
"""Number of splits of a file that is not large, for reading in parallel; fewer of a small file."""
CHUNK_ROWS = 4_096
BLOCK_BYTES = 16 << 20
"""Bytes of CSV that are parsed at a time. No record may be longer. Every row that can be stored is
shorter, even in base64."""
RECORD_CHARS = 1_000
"""Characters of a rejected record that are shown."""


class Format(enum.StrEnum):
    CSV = "csv"
    JSON_LINES = "json lines"
    PARQUET = "parquet"


_FORMATS = {
    ".parquet": Format.PARQUET,
    ".pq": Format.PARQUET,
    ".jsonl": Format.JSON_LINES,
    ".ndjson": Format.JSON_LINES,
}


@dataclass(frozen=True, slots=True)
class File:
    """A file, as it was when the load began. `columns` are the columns that the file names (empty:
    each record names its own), and `written` the same names in the case of the file."""

    path: str
    format: Format
    size: int
    modified_ns: int
    columns: tuple[str, ...] = ()
    written: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Split:
    """A part of a file: from byte (or row group) `start` to before `end` (None: to the end). The
    n-th record of the split has the place `before` + n."""

    file: File
    start: int = 0
    end: int | None = None
    before: int = 0


class Fault(NamedTuple):
    """The reason why a record is no row; `code` is the code of an error (`schema.errors`)."""

    code: str
    reason: str


class Bad(NamedTuple):
    """A record that is no row."""

    place: int
    fault: Fault
    record: str


class Chunk(NamedTuple):
    """Rows with their places, and the bad records next to them."""

    places: list[int]
    rows: list[Row]
    bad: list[Bad]


# ---------------------------------------------------------------- before anything is read


def inspect(path: str, relation: Relation) -> File:
    """Format, size and columns of a file. Raises InvalidRequest for a file that cannot be read, or
    that lacks a column whose default only nodes can give; UnknownName for a column that
    the relation does not have; SqlError for a generated column."""
    form = _FORMATS.get(Path(path).suffix.lower(), Format.CSV)
    with _readable(path):
        about = Path(path).stat()
        written = _columns(path, form)
    columns = tuple(spelled(relation, written))
    require_columns(relation, columns, f"{path}: ")
    require_no_generated(relation, columns, f"{path}: ")
    if columns:
        for column in relation.visible:
            if column.name not in columns and column.default_kind in _BY_NODES:
                raise InvalidRequest(f"{path}: {_no_value(column)}", cure=_NO_VALUE)
    return File(os.path.abspath(path), form, about.st_size, about.st_mtime_ns, columns, written)


def _columns(path: str, form: Format) -> tuple[str, ...]:
    match form:
        case Format.JSON_LINES:
            with open(path, "rb"):
                return ()
        case Format.CSV:
            with open(path, "rb") as file, _open_csv(file, {}, None, lambda _row: "skip") as reader:
                return tuple(reader.schema.names)
    with pq.ParquetFile(path) as parquet:
        schema = parquet.schema_arrow
        for name, type_ in zip(schema.names, schema.types, strict=True):
            try:
                column_type(type_)
            except Unsupported:
                raise InvalidRequest(
                    f"{path}: column {name} has the type {type_}, which no column takes.",
                    cure="Write it as numbers, text, bytes, dates or times.",
                ) from None
        return tuple(schema.names)


def splits(
    file: File, *, single_lines: bool = False, split_bytes: int | None = None
) -> list[Split]:
    """The splits of a file. `single_lines`: no record of a CSV file spans lines. Raises
    InvalidRequest."""
    split_bytes = split_bytes or min(max(-(-file.size // SPLITS), LEAST_SPLIT_BYTES), SPLIT_BYTES)
    match file.format:
        case Format.PARQUET:
            return _row_groups(file, split_bytes)
        case Format.CSV if not single_lines:
            return [Split(file)]
    starts = range(0, max(file.size, 1), split_bytes)
    return [Split(file, start, start + split_bytes, start) for start in starts]


def _row_groups(file: File, split_bytes: int) -> list[Split]:
    found: list[Split] = []
    start = before = rows = size = 0
    with _readable(file.path), pq.ParquetFile(file.path) as parquet:
        about = parquet.metadata
        for number in range(about.num_row_groups):
            group = about.row_group(number)
            rows, size = rows + group.num_rows, size + group.total_byte_size
            if size >= split_bytes or number + 1 == about.num_row_groups:
                found.append(Split(file, start, number + 1, before))
                start, before, size = number + 1, rows, 0
    return found


@contextmanager
def _readable(path: str) -> Iterator[None]:
    """Raise errors of the file itself as InvalidRequest."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeError) as error:
        raise InvalidRequest(
            f"{path} cannot be read: {error}",
            cure="Look at the path and the format. Every machine that reads needs the file.",
        ) from None


def _require_same(file: File) -> None:
    about = Path(file.path).stat()
    if (about.st_size, about.st_mtime_ns) != (file.size, file.modified_ns):
        raise InvalidRequest(
            f"{file.path} is not what it was when the load began.",
            cure="Every machine that reads must see the same file, and no process may write to it.",
        )


# ---------------------------------------------------------------- reading


def read(split: Split, relation: Relation, current_timestamp: dt.datetime) -> Iterator[Chunk]:
    """Rows of a split in the order of their places. A bad record may come earlier than rows with
    smaller places. `current_timestamp` is the value of DEFAULT CURRENT_TIMESTAMP. Raises
    InvalidRequest."""
    filling = Filling(relation, current_timestamp)
    match split.file.format:
        case Format.CSV:
            chunks = _csv(split, filling)
        case Format.JSON_LINES:
            chunks = _json_lines(split, filling)
        case Format.PARQUET:
            chunks = _parquet(split, filling)
    with _readable(split.file.path):
        _require_same(split.file)
        yield from chunks


class Filling:
    """Makes rows of a relation from given values and defaults. A row identity stays None."""

    def __init__(self, relation: Relation, current_timestamp: dt.datetime) -> None:
        self.relation = relation
        self.defaults: tuple[Value, ...] = tuple(
            _default(c, current_timestamp) for c in relation.columns
        )
        self.generated = generated_columns(relation)
        self.checks = row_checks(relation)
        self.given_by_nodes = [c for c in relation.visible if c.default_kind in _BY_NODES]

    def chunk(
        self,
        names: Sequence[str],
        places: Sequence[int],
        given: Sequence[Sequence[Any]],
        shown: Callable[[int], str],
        reasons: dict[int, Fault] | None = None,
    ) -> Chunk:
        """Rows and bad records. `given` are the values of each column of `names`, not coerced yet.
        `shown` returns the i-th record as text. `reasons` are the faults that are known already."""
        reasons = {} if reasons is None else reasons
        by_name = dict(zip(names, given, strict=True))
        columns: list[Sequence[Value]] = []
        for column, default in zip(self.relation.columns, self.defaults, strict=True):
            values = by_name.get(column.name)
            if values is None:
                columns.append([default] * len(places))
            else:
                columns.append(_coerced(column, values, reasons))
            computed = column.hidden or column in self.relation.generated
            if not column.nullable and not computed and None in columns[-1]:
                _note_nulls(self.relation, column, columns[-1], reasons)
        rows: list[Row] = list(zip(*columns, strict=True))
        if self.generated or self.checks:
            self._evaluate(rows, reasons)
        if not reasons:
            return Chunk(list(places), rows, [])
        good = [i for i in range(len(rows)) if i not in reasons]
        bad = [Bad(places[i], reasons[i], cut_short(shown(i))) for i in sorted(reasons)]
        return Chunk([places[i] for i in good], [rows[i] for i in good], bad)

    def _evaluate(self, rows: list[Row], reasons: dict[int, Fault]) -> None:
        """Compute generated columns, and evaluate CHECKs, of the rows that have no fault yet."""
        for i in [i for i in range(len(rows)) if i not in reasons]:
            try:
                rows[i] = with_generated(self.generated, rows[i])
                for column in self.generated:
                    if not column.column.nullable and rows[i][column.position] is None:
                        reasons[i] = _null(self.relation, column.column)
                for check in self.checks if i not in reasons else ():
                    check.require(rows[i])
            except (CheckViolation, SqlError) as error:
                reasons[i] = Fault(error.code, error.message)


_BY_NODES = {DefaultKind.IDENTITY, DefaultKind.UUID, DefaultKind.EXPRESSION}
"""The kinds of defaults that only a node can give."""


def _no_value(column: Column) -> str:
    given = "numbers are" if column.default_kind is DefaultKind.IDENTITY else "default is"
    return f"Column {column.name} is missing, and its {given} given by nodes."


_NO_VALUE = "Give it values, or load by transactions (without Spark)."


def _default(column: Column, current_timestamp: dt.datetime) -> Value:
    """A column's default, as in transactions (`NewRows.default`); None if only a node can give
    it."""
    default = column.default
    if default is None or default.kind in {*_BY_NODES, DefaultKind.GENERATED}:
        return None
    if default.kind is DefaultKind.LITERAL:
        return default.value
    return assign(column.type, current_timestamp)


def _coerced(column: Column, values: Sequence[Any], reasons: dict[int, Fault]) -> Sequence[Value]:
    try:
        return assign_all_of_file(column.type, values)
    except (TypeMismatch, RecursionError):
        coerced: list[Value] = [None] * len(values)
    for i, value in enumerate(values):
        try:
            coerced[i] = assign_of_file(column.type, value)
        except TypeMismatch as error:
            reasons.setdefault(i, _mismatch(column.name, error.message))
        except RecursionError:  # raised by the JSON parser
            reasons.setdefault(i, _mismatch(column.name, "it is nested too deeply."))
    return coerced


def _mismatch(column: str, message: str) -> Fault:
    return Fault(TypeMismatch.code, f"Column {column}: {message}")


def _unreadable(reason: str) -> Fault:
    return Fault(InvalidRequest.code, reason)


def _note_nulls(
    relation: Relation, column: Column, values: Sequence[Value], reasons: dict[int, Fault]
) -> None:
    for i, value in enumerate(values):
        if value is None:
            reasons.setdefault(i, _null(relation, column))


def _null(relation: Relation, column: Column) -> Fault:
    reason = f"{relation.name}.{column.name} must not be NULL."
    return Fault(NotNullViolation.code, reason)


def cut_short(text: str) -> str:
    return text if len(text) <= RECORD_CHARS else text[: RECORD_CHARS - 3] + "..."


def as_text(names: Sequence[str], values: Sequence[object]) -> str:
    """A record as a JSON object."""
    return json.dumps(dict(zip(names, values, strict=True)), default=str, ensure_ascii=False)


# ---------------------------------------------------------------- CSV

_END = "\0end of hornbeam's input\0"
"""Value of all fields of a sentinel record that is appended to a file. If the sentinel is not read
back, the last record ended in the middle of a quoted field."""


class _Followed(io.RawIOBase):
    """A file followed by the bytes `behind`."""

    def __init__(self, file: IO[bytes], behind: bytes) -> None:
        self._files = [io.BytesIO(behind), file]

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while self._files:
            read = self._files[-1].readinto(buffer)  # type: ignore[attr-defined]
            if read:
                return int(read)
            self._files.pop()
        return 0


def _open_csv(
    file: io.RawIOBase | IO[bytes],
    types: Mapping[str, pa.DataType],
    names: Sequence[str] | None,
    invalid: Callable[[pyarrow.csv.InvalidRow], str],
) -> pyarrow.csv.CSVStreamingReader:
    """A reader that gives all fields as unvalidated text. `names` None: the file has a header."""
    return pyarrow.csv.open_csv(
        file,
        read_options=pyarrow.csv.ReadOptions(
            use_threads=False,  # Arrow numbers invalid rows only then
            block_size=BLOCK_BYTES,
            column_names=None if names is None else list(names),
        ),
        parse_options=pyarrow.csv.ParseOptions(
            newlines_in_values=True, invalid_row_handler=invalid
        ),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=types,
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[""],
            check_utf8=False,  # one bad record would make the file unreadable
        ),
    )


def _csv(split: Split, filling: Filling) -> Iterator[Chunk]:
    names = split.file.columns
    ends = ("\n" + ",".join([_END] * len(names))).encode()
    with open(split.file.path, "rb") as file:
        if split.end is None:
            yield from _csv_records(_Followed(file, ends), None, split, filling)
        else:
            lines = b"".join(line for _, line in _lines(file, split) if line.strip(b"\r\n"))
            if split.start == 0:
                lines = lines.partition(b"\n")[2]
            if lines:
                yield from _csv_records(io.BytesIO(lines + ends), names, split, filling)


def _csv_records(
    file: io.RawIOBase | IO[bytes], header: Sequence[str] | None, split: Split, filling: Filling
) -> Iterator[Chunk]:
    names = split.file.columns
    invalid: list[pyarrow.csv.InvalidRow] = []
    skipped: set[int] = set()

    def skip(row: pyarrow.csv.InvalidRow) -> str:
        invalid.append(row)
        skipped.add(row.number)
        return "skip"

    before = split.before - (header is None)  # a header counts as a row
    number = 1 if header is None else 0
    types = dict.fromkeys(header or split.file.written, pa.string())
    with _open_csv(file, types, header, skip) as reader:
        for batch in reader:
            for at in range(0, batch.num_rows, CHUNK_ROWS):
                part = batch.slice(at, CHUNK_ROWS)
                numbers: list[int] = []
                while len(numbers) < part.num_rows:
                    number += 1
                    if number not in skipped:
                        numbers.append(number)
                places = [before + n for n in numbers]
                chunk = _csv_chunk(part, names, places, filling)
                bad = [_invalid(row, before) for row in invalid]
                invalid.clear()
                yield chunk._replace(bad=[*chunk.bad, *bad])
            skipped = {n for n in skipped if n > number}
    if invalid:
        yield Chunk([], [], [_invalid(row, before) for row in invalid])


def _invalid(row: pyarrow.csv.InvalidRow, before: int) -> Bad:
    text, *unclosed = row.text.split(_END, maxsplit=1)
    reason = f"{row.actual_columns} fields, not {row.expected_columns}."
    if unclosed:
        text, reason = text.rstrip("\n"), "A quoted field does not end."
    return Bad(before + row.number, _unreadable(reason), cut_short(text))


def _csv_chunk(
    batch: pa.RecordBatch, names: Sequence[str], places: list[int], filling: Filling
) -> Chunk:
    reasons: dict[int, Fault] = {}
    columns = [
        _texts(name, column, reasons) for name, column in zip(names, batch.columns, strict=True)
    ]
    if (columns[-1][-1] or "").endswith(_END):
        last = [column.pop() for column in columns]
        place = places.pop()
        reasons.pop(len(places), None)
        if last != [_END] * len(names):
            record = _csv_line(last).partition(_END)[0]
            bad = Bad(place, _unreadable("A quoted field does not end."), cut_short(record))
            chunk = _csv_rows(names, places, columns, reasons, filling)
            return chunk._replace(bad=[*chunk.bad, bad])
    return _csv_rows(names, places, columns, reasons, filling)


def _csv_rows(
    names: Sequence[str],
    places: list[int],
    columns: list[list[Any]],
    reasons: dict[int, Fault],
    filling: Filling,
) -> Chunk:
    def shown(i: int) -> str:
        return _csv_line([column[i] for column in columns])

    return filling.chunk(names, places, columns, shown, reasons)


def _texts(name: str, column: pa.Array, reasons: dict[int, Fault]) -> list[str | None]:
    try:
        column.validate(full=True)
        return list(column.to_pylist())
    except pa.ArrowInvalid:
        texts: list[str | None] = []
    for i, value in enumerate(column.cast(pa.binary()).to_pylist()):
        try:
            texts.append(None if value is None else value.decode())
        except UnicodeDecodeError as error:
            texts.append(value.decode(errors="backslashreplace"))
            reasons.setdefault(i, _mismatch(name, f"no UTF-8: {error.reason}."))
    return texts


def _csv_line(values: Sequence[str | None]) -> str:
    return ",".join("" if v is None else '"' + v.replace('"', '""') + '"' for v in values)


# ---------------------------------------------------------------- JSON lines


def _lines(file: IO[bytes], split: Split) -> Iterator[tuple[int, bytes]]:
    """The lines that begin in a split, each with its number within the split, from 1."""
    if split.start > 0:
        file.seek(split.start - 1)
        file.readline()
    at = file.tell()
    number = 0
    while split.end is None or at < split.end:
        line = file.readline()
        if not line:
            return
        at += len(line)
        number += 1
        yield number, line


def _json_lines(split: Split, filling: Filling) -> Iterator[Chunk]:
    with open(split.file.path, "rb") as file:
        filled = ((number, line) for number, line in _lines(file, split) if line.strip())
        while chunk := list(islice(filled, CHUNK_ROWS)):
            yield _json_chunk([split.before + n for n, _ in chunk], [x for _, x in chunk], filling)


def _json_chunk(places: list[int], lines: list[bytes], filling: Filling) -> Chunk:
    relation, reasons = filling.relation, dict[int, Fault]()
    known = set(relation.visible_names)
    columns: list[list[Any]] = [[default] * len(lines) for default in filling.defaults]
    for i, line in enumerate(lines):
        record = _object(line)
        if isinstance(record, str):
            reasons[i] = _unreadable(record)
            continue
        if not record.keys() <= known:
            names = spelled(relation, list(record))
            if len({*names}) == len(names):
                record = dict(zip(names, record.values(), strict=True))
        unknown = record.keys() - known
        if unknown:
            shown = ", ".join(map(repr, sorted(unknown)))
            reasons[i] = Fault(UnknownName.code, f"Relation {relation.name} has no column {shown}.")
            continue
        for column in filling.given_by_nodes:
            if column.name not in record:
                reasons[i] = _unreadable(_no_value(column))
        for column in relation.generated:
            if column.name in record:
                reasons[i] = Fault(SqlError.code, generated_given(relation, column).message)
        for name, value in record.items():
            columns[relation.positions[name]][i] = _field(value)
    return filling.chunk(
        relation.column_names,
        places,
        columns,
        lambda i: lines[i].decode(errors="backslashreplace").rstrip("\r\n"),
        reasons,
    )


def _object(line: bytes) -> dict[str, Any] | str:
    """The object of a line, or the reason why the line is none."""
    try:
        record = json.loads(line, parse_float=Decimal)
    except (ValueError, ArithmeticError, RecursionError) as error:  # also bad encoding or digits
        return f"No JSON: {error}."
    return record if isinstance(record, dict) else "A line must hold one JSON object."


def _field(value: Any) -> str | None:
    """A value as its text in CSV, so that both formats are coerced alike."""
    match value:
        case None | str():
            return value
        case bool():
            return "true" if value else "false"
        case dict() | list():
            return _JSON.encode(value).decode()
    return str(value)


_JSON = msgspec.json.Encoder(decimal_format="number")


# ---------------------------------------------------------------- Parquet


def _parquet(split: Split, filling: Filling) -> Iterator[Chunk]:
    names, place = split.file.columns, split.before
    with pq.ParquetFile(split.file.path) as parquet:
        groups = list(range(split.start, split.end or 0))
        for batch in parquet.iter_batches(batch_size=CHUNK_ROWS, row_groups=groups):
            yield _parquet_chunk(batch, names, place, filling)
            place += batch.num_rows


def _parquet_chunk(
    batch: pa.RecordBatch, names: Sequence[str], before: int, filling: Filling
) -> Chunk:
    reasons: dict[int, Fault] = {}
    try:
        rows = from_record_batch(batch)
    except TypeMismatch:
        rows = [_parquet_row(batch.slice(i, 1), i, reasons) for i in range(batch.num_rows)]
    columns: list[Sequence[Any]] = list(zip(*rows, strict=True)) or [()] * len(names)
    places = list(range(before + 1, before + 1 + len(rows)))
    return filling.chunk(names, places, columns, lambda i: as_text(names, rows[i]), reasons)


def _parquet_row(batch: pa.RecordBatch, i: int, reasons: dict[int, Fault]) -> Row:
    try:
        rows: list[Row] = from_record_batch(batch)
    except TypeMismatch as error:
        reasons[i] = Fault(TypeMismatch.code, error.message)
        return (None,) * int(batch.num_columns)
    return tuple(rows[0])


# ---------------------------------------------------------------- places as lines


def lines_of(file: File, splits: Sequence[Split], places: Iterable[int]) -> dict[int, int]:
    """The line (in Parquet: the row), counted from 1, of the record at each place. Reads the file
    again."""
    wanted = set(places)
    if file.format is Format.PARQUET or not wanted:
        return {place: place for place in wanted}
    found: dict[int, int] = {}
    with _readable(file.path), open(file.path, "rb") as lines:
        for place, line in _placed(file, splits, lines):
            if place in wanted:
                found[place] = line
                if len(found) == len(wanted):
                    break
    return found


def _placed(file: File, splits: Sequence[Split], lines: IO[bytes]) -> Iterator[tuple[int, int]]:
    """The place of each record, and its first line."""
    csv, at, quotes = file.format is Format.CSV, 0, 0
    waiting = list(reversed(splits))
    place = -1
    for number, line in enumerate(lines, 1):
        if quotes % 2 == 0 and (not csv or line.strip(b"\r\n")):
            if waiting and at >= waiting[-1].start:
                while waiting and at >= waiting[-1].start:
                    split = waiting.pop()
                # A header comes before the first record.
                place = split.before - (csv and split.start == 0)
            place += 1
            yield place, number
        at += len(line)
        quotes += line.count(b'"') if csv else 0
