"""What is told when a job of Spark's fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from hornbeam.errors import OperationalError, from_problem
from schema.errors import HornbeamError, LimitExceeded, SqlError


@contextmanager
def client_errors() -> Iterator[None]:
    """Whatever goes wrong inside is raised as one of the client's errors."""
    try:
        yield
    except HornbeamError as error:
        problem = {"detail": error.message, "code": error.code, "cure": error.cure}
        raise from_problem(problem) from None
    except (Py4JError, PySparkException) as error:
        raise OperationalError(f"Spark could not do it: {_reason(str(error))}") from error


@contextmanager
def about(view: str) -> Iterator[None]:
    """What the values of rows make impossible says which view they keep from being refreshed."""
    try:
        yield
    except (SqlError, LimitExceeded) as error:
        raise type(error)(
            f"view {view} cannot be refreshed, nor the others of its group: {error.message}",
            cure=f"Correct the row, then `hornbeam refresh --rebuild {view}`, or take the view out"
            " of the DDL.",
            **error.details,
        ) from None


def _reason(text: str) -> str:
    """Of all that Spark says of a failed task, the exception that failed it, with its cure."""
    lines = [*text.splitlines(), ""]
    for line, below in pairwise(lines):
        if line.startswith("schema.errors."):
            cure = f"\n{below}" if below.startswith("  ") else ""
            return line.partition(": ")[2] + cure
    return next((line.strip() for line in lines if line.strip()), "no reason given")
