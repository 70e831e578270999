"""Command lines of benchmarks and demos, from dataclasses."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Self, TypeVar, get_args, get_type_hints

T = TypeVar("T")
ROUNDS = "number of rounds; figures are medians over rounds"
EMPTIED = "folder of the cluster; it is emptied"
REPORT = "the JSON report"


class Numbers(tuple[int, ...]):
    """Whole numbers of a command line, with commas between them."""

    __slots__ = ()

    def __new__(cls, given: str | Iterable[int]) -> Self:
        parts = filter(None, given.split(",")) if isinstance(given, str) else given
        return super().__new__(cls, map(int, parts))


def parse(
    kind: type[T], program: str, about: str | None, arguments: Sequence[str] | None = None
) -> T:
    """The options of a command line (None: of this process).

    Each field of the dataclass `kind` is an option with the field's default. Its annotation,
    `Annotated[type, help]`, has its type and help text; a bool is a switch that is off by default.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=about)
    hints = get_type_hints(kind, include_extras=True)
    for each in fields(kind):  # type: ignore[arg-type]
        flag = f"--{each.name.replace('_', '-')}"
        type_, help_ = get_args(hints[each.name])
        if type_ is bool:
            parser.add_argument(flag, action="store_true", help=help_)
        else:
            parser.add_argument(flag, type=type_, default=each.default, help=help_)
    return kind(**vars(parser.parse_args(arguments)))
