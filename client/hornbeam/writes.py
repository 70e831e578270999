"""Writes that a session keeps until its transaction commits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from hornbeam.types import Parameters, wire_parameters

_NONE: Mapping[str, Any] = MappingProxyType({})


class Write:
    """An INSERT, UPDATE or DELETE, with one set of parameters or with several, for each of which it
    runs. `result` is None until the server has run the statement."""

    __slots__ = ("body", "result")

    def __init__(self, body: dict[str, Any]) -> None:
        self.body = body
        self.result: dict[str, Any] | None = None

    @classmethod
    def of(cls, sql: str, parameters: Parameters, more: Mapping[str, Any] = _NONE) -> Write:
        """`more`: further members of the body."""
        return cls({"sql": sql, "parameters": wire_parameters(sql, parameters), **more})

    @classmethod
    def repeated(
        cls, sql: str, sets: Iterable[Parameters], more: Mapping[str, Any] = _NONE
    ) -> Write | None:
        """None without any set of parameters."""
        found = [wire_parameters(sql, parameters) for parameters in sets]
        return cls({"sql": sql, "parameter_sets": found, **more}) if found else None


def give_results(writes: Sequence[Write], answer: Mapping[str, Any]) -> None:
    """Set the results of writes that have none. Existing results do not change, since the caller
    may have read them."""
    for write, result in zip(writes, answer["statements"], strict=True):
        if write.result is None:
            write.result = result
