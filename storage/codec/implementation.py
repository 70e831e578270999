"""The implementation of work on many stored rows: Python, or the module `hornbeam_speedups`.

This module alone chooses. The environment variable `HORNBEAM_SPEEDUPS` says `auto` (the default:
native if the module is there and of this version), `python`, or `native`, which fails without the
module. Python is the reference: the module refuses rows that are not in the form that Hornbeam
writes, and Python decodes them or reports the fault (`many_rows.py`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Protocol

import pyarrow as pa

from hornbeam_server import __version__
from hornbeam_server.schema.errors import InvalidRequest
from hornbeam_server.storage.ports import Cell

VARIABLE = "HORNBEAM_SPEEDUPS"
MODULE = "hornbeam_speedups"
CHOICES = ("auto", "python", "native")


class NativeRows(Protocol):
    """The stored rows of a layout, as the module knows them. A result of None leaves the rows to
    Python."""

    def decode(self, values: Sequence[bytes], at: Sequence[int]) -> pa.RecordBatch | None:
        """The columns at the positions `at`."""

    def keys(self, values: Sequence[bytes]) -> list[bytes] | None:
        """The encoded keys of the rows."""


class Entries(Protocol):
    """The entries of a RocksDB, of one consistent view, up to the end of a range."""

    def items(self, start: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The physical keys and values from `start` on. It may end early."""

    def require_end(self, last: bytes) -> None:
        """Raises an error if `items` has ended early, behind the key `last`."""


class NativeScan(Protocol):
    """A scan of a range of a RocksDB: `storage/rocks/scans.py` describes its methods."""

    def cells(
        self, most: int, cell: Callable[[tuple[bytes, int, bytes]], Cell]
    ) -> tuple[list[Cell], bool]:
        """The next rows, which `cell` makes, and whether they are the last ones."""

    def values(self, most: int) -> tuple[list[bytes], bool]:
        """Their values."""


class Native(Protocol):
    """The module. `schema` has a field for each column; `older` is the stored row of the values
    that older rows have; `key` are pairs of position and direction (true: descending)."""

    def Rows(self, schema: pa.Schema, older: bytes, key: Sequence[tuple[int, bool]]) -> NativeRows:
        """The stored rows of a layout."""

    def Scan(
        self,
        source: Entries,
        start: bytes,
        newest: int,
        steps: int,
        hidden: bytes,
        room: int,
    ) -> NativeScan:
        """The rows of `source` from the physical key `start` on. Of each row it is the first
        version whose stamp is at least `newest`, unless its value is `hidden`. `steps` is
        MOST_STEPS, `room` BATCH_BYTES."""

    def decode_answer(
        self,
        data: bytes,
        at: int,
        most: int,
        form: str,
        cell: Callable[[tuple[bytes, int, bytes]], Cell],
    ) -> tuple[list[Any], int, int, int, bytes, int]:
        """The rows of an answer of HBase to a scan from the offset `at` on, at most `most`, up to
        the first one that is not whole or not in the usual form. `form` is the name of a `Form`.
        Returns the parameters of `Found.add`, and the offset behind the rows."""


@dataclass(frozen=True, slots=True)
class Implementation:
    """The choice. `native` is the module, None for Python; `reason` says why Python was chosen."""

    native: Native | None = None
    reason: str | None = None

    @property
    def shown(self) -> str:
        """The choice for operators, such as `native` or `python: HORNBEAM_SPEEDUPS is python`."""
        return "native" if self.native is not None else f"python: {self.reason}"


@cache
def implementation() -> Implementation:
    """The implementation of this process. Raises InvalidRequest."""
    return choose(os.environ.get(VARIABLE) or "auto")


def choose(asked: str) -> Implementation:
    """The implementation for a value of the variable. Raises InvalidRequest for another value, and
    for `native` without a module that fits."""
    if asked not in CHOICES:
        raise InvalidRequest(
            f"{VARIABLE} is {asked!r}, which is no implementation.",
            cure=f"Write {', '.join(CHOICES[:-1])} or {CHOICES[-1]}.",
        )
    if asked == "python":
        return Implementation(reason=f"{VARIABLE} is python")
    module, reason = _module()
    if module is None and asked == "native":
        raise InvalidRequest(
            f"{VARIABLE} is native, but {reason}.",
            cure=f"Run `pip install hornbeam-speedups=={__version__}` (in a checkout:"
            f" `make speedups`), or set {VARIABLE} to auto.",
        )
    return Implementation(module, reason)


def _module() -> tuple[Any, str | None]:
    """The module, or None and the reason."""
    try:
        module = import_module(MODULE)
    except ModuleNotFoundError:
        return None, "hornbeam-speedups is not installed"
    except ImportError as error:
        return None, f"hornbeam-speedups cannot be loaded: {error}"
    if module.__version__ != __version__:
        return None, (
            f"hornbeam-speedups has version {module.__version__} and the server {__version__}"
        )
    return module, None
