"""The corpus of expressions and queries, and PostgreSQL's recorded answers to them.

Other modules of this folder generate the corpus. `python -m tests.postgres.ask` asks PostgreSQL and
writes the answers; tests only read them. Each answer is a SQLSTATE, or types and rows as text, as
PostgreSQL prints them in the time zone UTC with the locale C.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.postgres.arithmetic import arithmetic, over_columns
from tests.postgres.arrays import arrays
from tests.postgres.conditions import conditions
from tests.postgres.documents import documents
from tests.postgres.functions import functions
from tests.postgres.moments import moments
from tests.postgres.numbers import numbers
from tests.postgres.patterns import patterns
from tests.postgres.ranges import ranges
from tests.postgres.selects import selects
from tests.postgres.statements import ROWS, TABLES, statements
from tests.postgres.templates import templates
from tests.postgres.texts import texts
from tests.postgres.zones import zones

FIXTURE = Path(__file__).parent / "fixtures" / "answers.json"
Texts = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """`types` and `rows` of a result, or the code of an error (a SQLSTATE, or ours)."""

    types: tuple[str, ...] = ()
    rows: tuple[Texts, ...] = ()
    error: str | None = None


def is_statement(case: str) -> bool:
    """Is the case a whole query? An expression may begin with a subquery in parentheses."""
    return case.partition(" ")[0] in ("SELECT", "WITH", "VALUES", "TABLE")


def corpus() -> list[str]:
    """All cases, without duplicates. A case is an expression or a whole query."""
    found = (
        *numbers(), *texts(), *moments(), *conditions(), *documents(), *arrays(), *statements(),
        *templates(), *patterns(), *functions(), *arithmetic(), *over_columns(),
        *zones(), *ranges(), *selects(),
    )  # fmt: skip
    return list(dict.fromkeys(found))


def statement(case: str) -> str:
    """The query that a case asks."""
    return case if is_statement(case) else f"SELECT {case}"


def is_ordered(case: str) -> bool:
    return is_statement(case) and " ORDER BY " in case.rpartition(" OVER ")[2]


def preparation() -> tuple[str, ...]:
    return (*TABLES, *ROWS)


def recorded() -> tuple[str, dict[str, Answer]]:
    """PostgreSQL's version, and its answer to each case."""
    found = json.loads(FIXTURE.read_text())
    return found["postgresql"], {sql: _answer(given) for sql, given in found["answers"].items()}


def _answer(given: Any) -> Answer:
    if isinstance(given, str):
        return Answer(error=given)
    types, *rows = given
    return Answer(tuple(types), tuple(map(tuple, rows)))


def record(version: str, answers: dict[str, Answer]) -> None:
    """Write the answers, one case on a line."""
    lines = (f"{_json(sql)}: {_json(_reported(answer))}" for sql, answer in answers.items())
    text = ",\n".join(lines)
    FIXTURE.parent.mkdir(exist_ok=True)
    FIXTURE.write_text(f'{{"postgresql": {_json(version)}, "answers": {{\n{text}\n}}}}\n')


def _reported(answer: Answer) -> str | Sequence[Texts]:
    return answer.error if answer.error is not None else [answer.types, *answer.rows]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def missing(answers: dict[str, Answer]) -> Iterator[str]:
    """Cases without a recorded answer, and answers without a case."""
    yield from set(corpus()) ^ set(answers)
