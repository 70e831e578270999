"""Collects the problems of a schema's text, so that all of them are reported at once.

A block that reads or checks one element runs inside `Problems.collect`. Its error is kept, and the
next element is read. An error about a *spoilt* subject (a relation or a column that could not be
read) is a consequence of a reported problem, and is dropped.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from hornbeam_server.schema.errors import HornbeamError, SchemaError, SqlError

Subject = tuple[str, str]
"""A relation and one of its columns; without a column the relation itself."""
WHOLE_FILE: Subject = ("", "")


@dataclass(frozen=True, slots=True)
class Problem:
    """An error, and the relation or column that is changed if the error is passed over."""

    error: HornbeamError
    subject: Subject

    @property
    def place(self) -> tuple[int, int]:
        return self.error.details.get("line", 0), self.error.details.get("column", 0)


@dataclass(slots=True)
class Problems:
    _found: list[Problem] = field(default_factory=list)
    _spoilt: set[Subject] = field(default_factory=set)

    @contextmanager
    def collect(
        self,
        subject: Subject = WHOLE_FILE,
        *,
        spoils: bool = False,
        about: Collection[Subject] = (),
    ) -> Iterator[None]:
        """Collect the error that ends the block. `spoils`: the subject is then spoilt. `about`: the
        other subjects that the block reads; if one is spoilt, the error is a consequence."""
        try:
            yield
        except (SchemaError, SqlError) as error:
            if self._spoilt.isdisjoint(about):
                self._found.append(Problem(error, subject))
            if spoils:
                self.spoil(subject)

    def spoil(self, subject: Subject) -> None:
        self._spoilt.add(subject)

    def found(self) -> tuple[Problem, ...]:
        """The problems in the order of their places."""
        return tuple(sorted(self._found, key=lambda problem: problem.place))

    def require_none(self) -> None:
        """Raise the first error, if there is one, with all of them in its details."""
        raise_together([problem.error for problem in self.found()])


def raise_together(errors: Sequence[HornbeamError]) -> None:
    """Raise the first of `errors`. Its detail `problems` describes all of them."""
    if errors:
        first = errors[0]
        first.details["problems"] = documents(errors)
        raise first


def documents(errors: Iterable[HornbeamError]) -> list[dict[str, Any]]:
    """The errors as documents: code, message, cure, and the place as far as it is known."""
    places = ("file", "line", "column")
    return [
        {"code": error.code, "detail": error.message, "cure": error.cure}
        | {part: error.details[part] for part in places if error.details.get(part)}
        for error in errors
    ]
