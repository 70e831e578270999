"""The file that `hornbeam load --rejects` writes: JSON lines, one per row that was not inserted.

    {"relation": "orders", "file": "o.csv", "place": 17, "code": "foreign-key-violation",
     "reason": "orders references customer (o_c_id = 9), which does not exist.",
     "record": "17,9,1.50"}

`place` is the row's line in the file, in Parquet its number, from 1. `record` is the text of the
row in the file, in Parquet a JSON object. `code` is the stable code of the error.
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
    """Writes rejects to an open file. More than `maximum` rejects are an error."""

    def __init__(self, file: IO[str], maximum: int) -> None:
        self._file = file
        self._maximum = maximum
        self._count = 0

    def add(self, reject: Reject) -> None:
        """Write a reject. Raises DataError, after writing it, if there are more than the
        maximum."""
        print(json.dumps(asdict(reject), ensure_ascii=False), file=self._file, flush=True)
        self._count += 1
        if self._count > self._maximum:
            raise DataError(
                f"More than {self._maximum} rows were rejected; {self._file.name} lists the"
                " reasons.\n"
                "The inserted rows stay. To continue: --resume and a greater --max-rejects."
            )


@contextmanager
def rejects_file(path: Path | None, maximum: int) -> Iterator[Rejects | None]:
    """Yields `Rejects` that writes to a new file, which replaces an existing file; None without a
    path."""
    if path is None:
        yield None
        return
    try:
        # Only this user can read a new file.
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
        file = path.open("w", encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        fail(f"{path} cannot be written: {error.strerror}")
    with file:
        yield Rejects(file, maximum)
