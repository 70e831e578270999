"""The file of rejects of a load: JSON lines, in the format of `hornbeam load --rejects`.

    {"relation": "orders", "file": "/in/o.csv", "place": 17, "code": "foreign-key-violation",
     "reason": "orders references customer (o_c_id = 9), which does not exist.", "record": "…"}

Each record appears once. A resumed load keeps the lines of the earlier run, except an incomplete
last line, and appends only new rejects.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import IO

import msgspec

from hornbeam_server.schema.errors import InvalidRequest
from hornbeam_server.storage.local.private import open_private

MAX_REJECTS = 1_000
SHOWN = 5
"""Bad rows that the error shows when a load fails."""


class Reject(msgspec.Struct, frozen=True):
    """A record that was not loaded. `place` is a line of the file, in Parquet the number of a row.
    `code` is the code of an error."""

    relation: str
    file: str
    place: int
    code: str
    reason: str
    record: str

    def __str__(self) -> str:
        return f"{self.file}:{self.place}: {self.reason}"


class TooMany(InvalidRequest):
    """The load is cancelled, since there are more rejects than allowed."""


class Rejects:
    """At most `most` rejects, in the file `path` (None: no reject is allowed)."""

    def __init__(self, path: Path | None, most: int, *, resume: bool = False) -> None:
        self._path = path
        self.most = 0 if path is None else most
        self._known: dict[tuple[str, str, int], Reject] = {}
        self._resume = resume
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Rejects:
        if self._path is None:
            return self
        try:
            mode = "r+b" if self._kept() else "wb"
            self._file = open(self._path, mode, opener=open_private)
            self._go_on(self._file)
        except (OSError, msgspec.DecodeError) as error:
            if self._file is not None:
                self._file.close()
            raise InvalidRequest(
                f"{self._path} cannot be a file of rejects: {error}",
                cure="Give another one with --rejects.",
            ) from None
        return self

    def _kept(self) -> bool:
        return self._resume and self._path is not None and self._path.exists()

    def _go_on(self, file: IO[bytes]) -> None:
        """Read the rejects of an earlier run, and truncate an incomplete last line."""
        whole = 0
        if self._resume and file.readable():
            for line in file:
                if line.endswith(b"\n"):
                    self._remember(msgspec.json.decode(line, type=Reject))
                    whole += len(line)
        file.seek(whole)
        file.truncate()

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.close()

    @property
    def counts(self) -> dict[str, int]:
        """The number of rejects by relation."""
        return dict(Counter(reject.relation for reject in self._known.values()))

    def add(self, found: Iterable[Reject]) -> None:
        """Add rejects. On return they are on disk. Raises InvalidRequest (TooMany) when there are
        more than allowed."""
        fresh = [reject for reject in found if self._remember(reject)]
        if self._file is not None and fresh:
            self._file.writelines(msgspec.json.encode(reject) + b"\n" for reject in fresh)
            self._file.flush()
            os.fsync(self._file.fileno())
        if len(self._known) > self.most:
            raise self._too_many(fresh)

    def _remember(self, reject: Reject) -> bool:
        """Record a reject. Returns whether it is new."""
        name = (reject.relation, reject.file, reject.place)
        new = name not in self._known
        self._known[name] = reject
        return new

    def _too_many(self, fresh: list[Reject]) -> TooMany:
        first = "\n  ".join(map(str, fresh[:SHOWN]))
        if self._path is None:
            return TooMany(
                f"Rows that cannot be loaded, such as:\n  {first}",
                cure="Nothing was loaded. Leave them out: --rejects FILE.",
            )
        return TooMany(
            f"More than {self.most} rows cannot be loaded; {self._path} lists them. The last are:"
            f"\n  {first}",
            cure="Nothing was loaded. Allow for more: --max-rejects.",
        )
