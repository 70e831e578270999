"""The file that `hornbeam load --rejects` writes: JSON lines, one per row that was not inserted.

    {"relation": "orders", "file": "o.csv", "place": 17, "code": "foreign-key-violation",
     "reason": "orders references customer (o_c_id = 9), which does not exist.",
     "record": "17,9,1.50"}

`place` is a line of the file, in Parquet the row's number, from 1. `record` is the text of the row
in the file, in Parquet a JSON object. `code` is the stable code of the error.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from hornbeam.cli.common import fail
from hornbeam.errors import DataError


@dataclass(frozen=True)
class Reject:
    relation: str
    file: str
    place: int
    code: str
    reason: str
    record: str


class Rejects:
    """Writes at most `most` rows to an open file."""

    def __init__(self, file: IO[str], most: int) -> None:
        self._file = file
        self._most = most
        self._count = 0

    def add(self, reject: Reject) -> None:
        """Write a reject. Raises DataError for the first above the maximum, after writing it."""
        print(json.dumps(asdict(reject), ensure_ascii=False), file=self._file, flush=True)
        self._count += 1
        if self._count > self._most:
            raise DataError(
                f"More than {self._most} rows were rejected; {self._file.name} says why.\n"
                "What was inserted stays. To go on: --resume and a greater --max-rejects."
            )


@contextmanager
def rejects_file(path: Path | None, most: int) -> Iterator[Rejects | None]:
    """The rejects in a new file; replaces an existing file. None: no rejects are allowed."""
    if path is None:
        yield None
        return
    try:
        # A new file is readable by this user only.
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
        file = path.open("w", encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        fail(f"{path} cannot be written: {error.strerror}")
    with file:
        yield Rejects(file, most)
