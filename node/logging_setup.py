"""Structured logs: one line per event on standard error, never on standard output."""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog

_SQLGLOT = logging.getLogger("sqlglot")
"""sqlglot warns of SQL that it parses or generates differently. Its warnings are not logged: SQL
that it cannot parse is refused, sessions are in UTC, and the log must not hold SQL of clients."""

_UVICORN = logging.getLogger("uvicorn.error")
_CUT = "ASGI callable returned without completing response."
"""uvicorn's message for an answer that is cut on purpose; `api/rest/middleware.py` logs its path
and the reason."""


def configure(level: str = "warning") -> None:
    """Log events of `level` and above, of Hornbeam and of libraries."""
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
    """Log warnings only, unless the program has configured its logging: for a database inside
    another program."""
    if _SQLGLOT.level == logging.NOTSET:
        _SQLGLOT.setLevel(logging.ERROR)
    if not structlog.is_configured():
        _structure(logging.WARNING)


def _is_news(record: logging.LogRecord) -> bool:
    return record.msg != _CUT


def _structure(level: int) -> None:
    """Configure structlog. Tracebacks have no values of variables, which may be rows of clients."""
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
    """A logger to the current standard error, which may have changed since logging was set up."""
    return structlog.PrintLogger(sys.stderr)
