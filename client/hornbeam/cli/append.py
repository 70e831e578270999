"""The inserts of `hornbeam load`, one transaction per batch, and the handling of bad rows.

Every request has an idempotency key made of the file's identity (relation, name, size, modification
time, rows per batch) and the place of its rows in the file. So an interrupted load is resumed by
repeating it: committed requests get their recorded answer, and the rest is inserted.

**Bad rows.** With `Rejects`, a batch that is refused because of its rows is split in halves, and
the halves again, until each refused row is its own part. These rows are written to the file of
rejects, and the load continues. The split depends only on the number of rows, so a resumed load has
the same parts and the same keys. Before its halves are sent, a part is *closed*: a request without
rows is sent under the part's key. The server refuses any later request with the part's rows, in
flight or of a resumed load, since the key belongs to another request. So the part is never inserted
in addition to its halves, even if the database has changed, and a resumed load knows that the part
was split. If the server also refuses the request without rows, the columns are wrong, not the rows.

Halves are inserted from left to right. Of two rows of a batch with the same key the first is
inserted.
"""

from __future__ import annotations

import hashlib
import re
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn
from urllib.parse import quote

from hornbeam.cli.common import fail
from hornbeam.cli.loadfiles import Batch, Columns, Together, Unreadable, batches_of
from hornbeam.cli.rejects import Reject, Rejects
from hornbeam.connection import Connection
from hornbeam.errors import Error, ProgrammingError
from hornbeam.transport import Transport, persistently

BAD_ROWS = frozenset(
    {
        "check-violation",
        "constraint-violation",
        "division-by-zero",  # in an expression of an immediate view
        "foreign-key-violation",
        "invalid-request",  # a line of CSV that is not UTF-8 or has a field too many
        "limit-exceeded",
        "not-null-violation",
        "sql-type-mismatch",
        "unique-violation",
    }
)
"""Error codes that a few bad rows may cause."""
_CLOSED = "idempotency-mismatch"
_WRONG_FILE = BAD_ROWS | {"sql-unknown-name"}
_ROW = re.compile(r"\bRow #?\d+[,:] ")
"""The server's name of a row. The number counts from the first row of the request."""
OnProgress = Callable[[int, int], None]
"""A callback. It gets the position in a file, and the file's length."""


@dataclass
class Totals:
    """Numbers of rows by result. `skipped` rows were committed by an earlier load."""

    rows: int = 0
    skipped: int = 0
    rejected: int = 0
    batches: int = 0


@dataclass
class Loader:
    """Inserts files one after the other. Without `rejects`, the first bad row ends the load."""

    db: Connection
    batch_rows: int
    resume: bool
    again: bool
    rejects: Rejects | None
    delimiter: str | None = None
    """The sign between fields of CSV; None: the ending of the file's name decides."""

    def __post_init__(self) -> None:
        self._salt = uuid.uuid4().hex if self.again else ""
        self._started = int(self.db.transport.json("GET", "/v1/status")["watermark"])
        self._began = time.perf_counter()
        self.totals: dict[str, Totals] = {}

    def load(self, relation: str, columns: Columns, path: Path, on_progress: OnProgress) -> None:
        """Insert a file. Raises DatabaseError, InterfaceError."""
        length, batches = batches_of(path, self.batch_rows, columns, self.delimiter)
        self.insert(relation, path, batches, lambda position: on_progress(position, length))

    def insert(
        self,
        relation: str,
        path: Path,
        batches: Iterable[Batch],
        on_progress: Callable[[int], None],
        others: Sequence[Path] = (),
    ) -> None:
        """Insert batches that are read from a file, and from `others`. `relation` names the
        relations of a batch of several, too. Raises DatabaseError, InterfaceError."""
        into = _Into(
            transport=self.db.transport,
            relation=relation,
            path=path,
            identity=self._identity(relation, [path, *others]),
            started=self._started,
            resume=self.resume,
            rejects=self.rejects,
            totals=self.totals,
        )
        for batch in batches:
            into.add(batch)
            on_progress(batch.end)

    def _identity(self, relation: str, paths: Sequence[Path]) -> str:
        facts: tuple[str | int, ...] = (relation, self.batch_rows)
        for path in paths:
            about = path.stat()
            facts += (path.name, about.st_size, about.st_mtime_ns)
        return hashlib.sha256(repr((*facts, self._salt)).encode()).hexdigest()[:32]

    def total(self) -> Totals:
        each = self.totals.values()
        return Totals(
            rows=sum(totals.rows for totals in each),
            skipped=sum(totals.skipped for totals in each),
            rejected=sum(totals.rejected for totals in each),
            batches=sum(totals.batches for totals in each),
        )

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._began

    @property
    def rate(self) -> float:
        return self.total().rows / max(self.seconds, 1e-6)


@dataclass(frozen=True)
class _Part:
    """Rows of a batch, from `first` to before `end`."""

    batch: Batch
    first: int
    end: int

    def __len__(self) -> int:
        return self.end - self.first

    @property
    def key(self) -> str:
        if len(self) == len(self.batch.rows):
            return str(self.batch.name)
        return f"{self.batch.name}-{self.first}-{self.end}"

    def halves(self) -> tuple[_Part, _Part]:
        middle = (self.first + self.end) // 2
        return _Part(self.batch, self.first, middle), _Part(self.batch, middle, self.end)

    def places(self, row: int | None) -> str:
        """The place of `row` in the file; None: the places of the part's first and last row."""
        if not len(self):
            return ""
        first, last = (self.first, self.end - 1) if row is None else (row, row)
        places = dict.fromkeys(map(self.batch.rows.place, (first, last)))
        return "-".join(str(place) for place in places if place) + ":"


@dataclass(frozen=True)
class _Refusal:
    """The reason why a part was not inserted. `row`, if the server names a row, is bad
    independently of the other rows: it has a bad value, a NULL, or a reference to a row that is
    neither stored nor in the part. So the row is not sent again."""

    error: Error
    row: int | None = None

    @property
    def reason(self) -> str:
        return _ROW.sub("", self.error.problem.get("detail", str(self.error)))

    def of(self, part: _Part) -> _Refusal | None:
        """The refusal that a smaller part is known to get; None if it is unknown."""
        return self if self.row is not None and part.first <= self.row < part.end else None


@dataclass(frozen=True)
class _Into:
    """The load of one file into a relation. `started` is a commit timestamp: this load inserted the
    batches with later commit timestamps."""

    transport: Transport
    relation: str
    path: Path
    identity: str
    started: int
    resume: bool
    rejects: Rejects | None
    totals: dict[str, Totals]

    def add(self, batch: Batch) -> None:
        for row in batch.unreadable:
            self._note_unreadable(row)
        if len(batch.rows) or not batch.unreadable:
            self._insert(_Part(batch, 0, len(batch.rows)))

    def _insert(self, part: _Part, known: _Refusal | None = None) -> None:
        """Insert the rows except bad rows. `known`: the refusal that the part is known to get."""
        refusal = known or self._try(part)
        if refusal is None:
            return
        if len(part) == 1:
            place, record = part.batch.rows.place(part.first), part.batch.rows.record(part.first)
            self._note(place, refusal.error.code, refusal.reason, record, self._counts(part))
            return
        self._close(part)
        for half in part.halves():
            self._insert(half, refusal.of(half))

    def _try(self, part: _Part) -> _Refusal | None:
        """Insert all the rows, or none. If bad rows may be rejected, returns the refusal. Otherwise
        raises Error."""
        try:
            answer = self._send(part, part.first, part.end)
        except Error as error:
            if error.code == _CLOSED:
                self._require_resumable(part, error)
                return _Refusal(error)
            if error.code not in _WRONG_FILE:
                raise
            number = error.problem.get("row")
            refusal = _Refusal(error, None if number is None else part.first + number - 1)
            if self.rejects is None or error.code not in BAD_ROWS or not len(part):
                raise self._located(part, refusal) from None
            return refusal
        if answer["commit_ts"] <= self.started and not self.resume:
            self._fail_as_loaded()
        for relation, rows in self._counts(part).items():
            totals = self._totals(relation)
            totals.batches += 1
            if answer["commit_ts"] > self.started:
                totals.rows += rows
            else:
                totals.skipped += rows
        return None

    def _totals(self, relation: str) -> Totals:
        return self.totals.setdefault(relation, Totals())

    def _counts(self, part: _Part) -> Mapping[str, int]:
        """The number of rows of each relation in a part."""
        rows = part.batch.rows
        if isinstance(rows, Together):
            return rows.counts(part.first, part.end)
        return {self.relation: len(part)}

    def _close(self, part: _Part) -> None:
        try:
            self._send(part, part.first, part.first)
        except Error as error:
            if error.code not in _WRONG_FILE:
                raise
            raise self._located(part, _Refusal(error)) from None

    def _send(self, part: _Part, first: int, end: int) -> dict[str, int]:
        """Send the rows from `first` to before `end` under the part's key. Raises Error."""
        rows = part.batch.rows
        body = rows.body(first, end)
        headers = {
            "Content-Type": rows.content_type,
            "Idempotency-Key": f"load-{self.identity}-{part.key}",
        }
        into = "" if isinstance(rows, Together) else f"/{quote(self.relation, safe='')}"
        url = f"/v1/load{into}"
        answer: dict[str, int] = persistently(lambda: self.transport.post(url, body, headers))
        return answer

    def _note(
        self, place: int, code: str, reason: str, record: str, counts: Mapping[str, int]
    ) -> None:
        assert self.rejects is not None
        for relation, rows in counts.items():
            self._totals(relation).rejected += rows
        self.rejects.add(Reject(self.relation, str(self.path), place, code, reason, record))

    def _note_unreadable(self, row: Unreadable) -> None:
        if self.rejects is None:
            fail(f"{self.path}:{row.place}: {row.reason}", _SET_ASIDE)
        self._note(row.place, row.code, row.reason, row.record, {self.relation: 1})

    def _require_resumable(self, part: _Part, error: Error) -> None:
        """Check that this load may continue the earlier load that closed the part. Raises Error."""
        if not self.resume:
            self._fail_as_loaded()
        if self.rejects is None:
            raise ProgrammingError(
                f"{self.path} was loaded with --rejects before.\n"
                "Continue that load with --resume and --rejects."
            )
        if len(part) < 2:
            raise error

    def _fail_as_loaded(self) -> NoReturn:
        raise ProgrammingError(
            f"All or a part of {self.path} was loaded into {self.relation} before.\n"
            "Continue that load with --resume, or insert its rows once more with --again."
        )

    def _located(self, part: _Part, refusal: _Refusal) -> Error:
        error = refusal.error
        cure = _SET_ASIDE if error.code in BAD_ROWS and len(part) else error.cure
        message = f"{self.path}:{part.places(refusal.row)} {refusal.reason}"
        return type(error)(f"{message}\n{cure}" if cure else message, error.problem)


_SET_ASIDE = "To set bad rows aside and load all other rows: --resume --rejects FILE."
