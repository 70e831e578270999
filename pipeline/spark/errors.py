"""Translate Spark failures into client errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from hornbeam.errors import OperationalError, from_problem
from hornbeam_server.schema import errors
from hornbeam_server.schema.errors import HornbeamError, Unavailable

SERVER_ERRORS = f"{HornbeamError.__module__}."
"""Prefix of a line of Spark's report that names one of Hornbeam's errors."""


@contextmanager
def client_errors() -> Iterator[None]:
    """Raise Hornbeam's and Spark's errors in the block as errors of the client."""
    try:
        yield
    except HornbeamError as error:
        problem = {"detail": error.message, "code": error.code, "cure": error.cure}
        raise from_problem(problem) from None
    except (Py4JError, PySparkException) as error:
        raise OperationalError(f"Spark could not do it: {_reason(str(error))}") from error


def error_of(error: Py4JError | PySparkException) -> HornbeamError:
    """The error of Hornbeam that failed a job in an executor. Unavailable for any other
    reason, such as executors that were lost repeatedly."""
    text = str(error)
    for name, message, cure in _reported(text):
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, HornbeamError):
            return kind(message, cure=cure.strip())
    return Unavailable(f"Spark could not do it: {_reason(text)}")


def _reported(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield Hornbeam's errors in Spark's report: the class, the message, and the indented line
    below, which is the cure, or "" if there is none."""
    for line, below in pairwise([*text.splitlines(), ""]):
        if line.startswith(SERVER_ERRORS):
            name, _, message = line.removeprefix(SERVER_ERRORS).partition(": ")
            yield name, message, below if below.startswith("  ") else ""


def _reason(text: str) -> str:
    """The exception that failed a task, with its cure, out of Spark's whole report."""
    for _, message, cure in _reported(text):
        return f"{message}\n{cure}" if cure else message
    lines = (line.strip() for line in text.splitlines())
    return next((line for line in lines if line), "no reason given")
