"""Structured logs: one line per event on standard error, never on standard output."""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog

_SQLGLOT = logging.getLogger("sqlglot")
"""Warns of SQL that it reads or writes in another way than asked. What it cannot read we refuse,
and the session is in UTC; and clients' SQL is nothing for the log."""

_UVICORN = logging.getLogger("uvicorn.error")
_CUT = "ASGI callable returned without completing response."
"""It says so of each answer that is cut on purpose; `api/rest/middleware.py` says of which, and
why."""


def configure(level: str = "warning") -> None:
    """Log events of `level` and above, ours and those of libraries."""
    number = logging.getLevelNamesMapping()[level.upper()]
    logging.basicConfig(
        stream=sys.stderr,
        level=number,
        format="%(asctime)s [%(levelname)-8s] %(name)s: %(message)s",
        force=True,
    )
    _SQLGLOT.setLevel(max(number, logging.ERROR))
    _UVICORN.addFilter(_is_news)
    _structure(number)


def be_quiet() -> None:
    """For a database inside another program: warnings only, unless the program has chosen."""
    if _SQLGLOT.level == logging.NOTSET:
        _SQLGLOT.setLevel(logging.ERROR)
    if not structlog.is_configured():
        _structure(logging.WARNING)


def _is_news(record: logging.LogRecord) -> bool:
    return record.msg != _CUT


def _structure(level: int) -> None:
    """Exceptions are logged without the values of variables: those may be other people's rows."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=_to_stderr,
        cache_logger_on_first_use=False,
    )


def _to_stderr(*_: Any) -> structlog.PrintLogger:
    """Standard error as it is now, not as it was when logging was set up."""
    return structlog.PrintLogger(sys.stderr)
