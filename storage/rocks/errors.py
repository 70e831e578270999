"""Errors of RocksDB as errors of the port."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

import structlog
from rocksdict import DbClosedError, Rdict

from hornbeam_server.schema.errors import Corruption, DiskFull, HornbeamError, Unavailable

_LOG = structlog.get_logger(__name__)
CLOSE_S = 10.0
"""Maximum wait for threads inside of a database that is to be opened again, in seconds."""


class Mapped:
    """Maps errors of rocksdict (plain Exceptions with RocksDB's status as text) to Hornbeam's."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None: ...

    def __exit__(
        self,
        _type: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        # Exactly Exception: a TypeError is a bug of Hornbeam and must show as one.
        if error is not None and (
            type(error) is Exception or isinstance(error, DbClosedError) or _is_being_closed(error)
        ):
            raise mapped_error(str(error), self._what) from error


class BetweenTwo:
    """Replaces a database while it is opened again: every use raises."""

    def __getattr__(self, name: str) -> Any:
        raise Exception("it is being opened again")

    def close(self) -> None: ...


def closed_db(db: Rdict) -> None:
    """Close a database that has failed, once no thread is inside of it any more."""
    until = time.monotonic() + CLOSE_S
    while True:
        try:
            db.close()
        except RuntimeError:  # a thread is inside: "Already borrowed"
            if time.monotonic() > until:
                raise Exception("it is in use and cannot be opened again yet") from None
            time.sleep(CLOSE_S / 1_000)
            continue
        except Exception as error:
            _LOG.info("closed after a failure", error=str(error))
        return


def _is_being_closed(error: BaseException) -> bool:
    return isinstance(error, RuntimeError) and str(error) == "Already mutably borrowed"


def is_full(status: str) -> bool:
    return "No space" in status or "quota" in status


def is_stuck(status: str) -> bool:
    """True if RocksDB refuses a write because an earlier one has failed."""
    return "previous error" in status or "Seen error" in status


def mapped_error(status: str, what: str) -> HornbeamError:
    if is_full(status):
        return DiskFull(f"{what}: the disk is full.", cure="Free space; writes then go on.")
    if status.startswith("Corruption"):
        return Corruption(f"{what}: {status}", cure="Restore the folder from a backup.")
    if "lock" in status.lower() and status.startswith("IO error"):
        return Unavailable(
            f"{what}: it is open already, here or in another process.",
            cure="Stop that process, or use its server.",
        )
    return Unavailable(f"{what}: {status}")
