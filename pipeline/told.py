"""What commands of the client are told when a job of Spark's fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from hornbeam.errors import OperationalError, from_problem
from schema.errors import HornbeamError


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


def _reason(text: str) -> str:
    """Of all that Spark says of a failed task, the line with the exception that failed it."""
    lines = [line.strip() for line in text.splitlines()]
    ours = [line for line in lines if line.startswith("schema.errors.")]
    return ours[0].partition(": ")[2] if ours else next(filter(None, lines), "no reason given")
