"""Comparison of Hornbeam's answers with PostgreSQL's, and the declared differences.

`differences.toml` declares all known differences, each with a reason and its cases.
`python -m tests.postgres.differences` asks Hornbeam and prints the differences that are not
declared, and those that no longer occur; `--prune` removes the latter from the file.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import math
import re
import sys
import tempfile
import tomllib
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from hornbeam_server.schema.arrays import elements_of, text_of_elements
from hornbeam_server.schema.intervals import Interval
from hornbeam_server.schema.reals import text_of_real
from hornbeam_server.schema.types import Declared, Kind, Value
from tests.postgres.corpus import Answer, corpus, is_ordered, recorded
from tests.postgres.hornbeam import Found, answers, database

DECLARED = Path(__file__).parent / "differences.toml"
KINDS = {
    "value": "Other values",
    "type": "The same value of another type",
    "accepted": "Answered here, an error in PostgreSQL",
    "error": "An error here, answered in PostgreSQL",
    "refused": "Refused by name",
}
"""The kinds of differences, most harmful first."""

_KINDS_OF_TYPE: Mapping[str, Kind | Declared] = {
    "smallint": Kind.INTEGER,
    "integer": Kind.INTEGER,
    "bigint": Kind.BIGINT,
    "numeric": Kind.DECIMAL,
    "real": Declared.REAL,
    "double precision": Kind.DOUBLE,
    "boolean": Kind.BOOLEAN,
    "text": Kind.TEXT,
    "character varying": Kind.TEXT,
    "character": Kind.TEXT,
    "name": Kind.TEXT,
    "bytea": Kind.BYTES,
    "date": Kind.DATE,
    "time without time zone": Kind.TIME,
    "interval": Kind.INTERVAL,
    "timestamp without time zone": Kind.TIMESTAMP,
    "timestamp with time zone": Kind.TIMESTAMPTZ,
    "uuid": Kind.UUID,
    "json": Kind.JSON,
    "jsonb": Kind.JSON,
}
"""How Hornbeam shows a type of PostgreSQL: it shows SMALLINT as INTEGER."""
_ERROR = 1e-14
"""The relative error of doubles that count as equal: that of transcendental functions."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A declared difference. `title` says in the table what it is about; the first case is shown
    as its example."""

    kind: str
    title: str
    reason: str
    cases: tuple[str, ...]


def declared() -> list[Difference]:
    found = tomllib.loads(DECLARED.read_text()).get("difference", [])
    return [
        Difference(
            each["kind"], each["title"], each["reason"], tuple(each["cases"].strip().split("\n"))
        )
        for each in found
    ]


# ---------------------------------------------------------------- comparison


def kind_of(case: str, wanted: Answer, found: Found) -> str | None:
    """The kind of the difference between PostgreSQL's answer and Hornbeam's; None if they agree."""
    if wanted.error is not None:
        return None if found.error is not None else "accepted"
    if found.error is not None:
        return "refused" if found.refused else "error"
    if not _same_rows(case, wanted, found):
        return "value"
    kinds = [
        Kind.ARRAY if type_.endswith("[]") else _KINDS_OF_TYPE.get(type_) for type_ in wanted.types
    ]
    shown = [kind or Kind.TEXT for kind in found.kinds]
    return None if kinds == shown else "type"


def _same_rows(case: str, wanted: Answer, found: Found) -> bool:
    if len(wanted.types) != len(found.kinds) or len(wanted.rows) != len(found.rows):
        return False
    left = [*found.rows]
    for row in wanted.rows:
        for i, candidate in enumerate(left[:1] if is_ordered(case) else left):
            if all(map(same_value, wanted.types, row, candidate)):
                del left[i]
                break
        else:
            return False
    return True


def same_value(type_: str, wanted: str | None, found: Value) -> bool:
    """Is `found` the value that PostgreSQL prints as `wanted`? Trailing zeros of numbers, and
    blanks in JSON, do not count."""
    if wanted is None or found is None:
        return wanted is found
    if isinstance(found, tuple):
        return _same_array(type_.removesuffix("[]"), wanted, found)
    if isinstance(found, bool) or type_ == "boolean":
        return shown(found) == wanted
    if type_ in ("json", "jsonb") and isinstance(found, str):
        return _as_json(wanted) == _as_json(found)
    if isinstance(found, int | float | Decimal):
        return _same_number(type_, wanted, found)
    if isinstance(found, dt.date):
        return wanted.removesuffix("+00").removesuffix(" 00:00:00") == shown(found).removesuffix(
            "+00"
        ).removesuffix(" 00:00:00")
    return wanted == shown(found)


def _same_array(type_: str, wanted: str, found: tuple[Value, ...]) -> bool:
    try:
        elements = elements_of(wanted)
    except ValueError:
        return False
    return len(elements) == len(found) and all(
        same_value(type_, element, value) for element, value in zip(elements, found, strict=True)
    )


def _as_json(text: str) -> object:
    return json.loads(text, parse_float=Decimal)


def _same_number(type_: str, wanted: str, found: int | float | Decimal) -> bool:
    try:
        number = Decimal(wanted)
    except ArithmeticError:
        return False
    if not number.is_finite() or not math.isfinite(found):
        return str(number) == str(Decimal(found))
    if type_ == "real":
        same = text_of_real(found) == wanted if isinstance(found, float) else number == found
        return same or number == found == 0  # there is one zero
    if type_ == "double precision" or isinstance(found, float):
        return math.isclose(float(number), found, rel_tol=_ERROR)
    return number == found


def shown(value: Value) -> str:
    """A value as PostgreSQL prints it."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "t" if value else "f"
        case dt.time():
            text = value.isoformat()
            return text.rstrip("0") if "." in text else text
        case dt.datetime():
            text = value.replace(tzinfo=None).isoformat(" ")
            text = text.rstrip("0").rstrip(".") if "." in text else text
            return text if value.tzinfo is None else f"{text}+00"
        case bytes():
            return f"\\x{value.hex()}"
        case Decimal():
            return f"{value:f}"
        case float() if value.is_integer() and abs(value) < 1e15:
            return str(int(value))
        case tuple():
            return text_of_elements(None if each is None else shown(each) for each in value)
        case str() | Interval() | uuid.UUID() | int() | float() | dt.date():
            return str(value)


# ---------------------------------------------------------------- all cases


async def observed(folder: Path) -> tuple[dict[str, str], dict[str, Answer], dict[str, Found]]:
    """The differing cases with their kinds, and the answers of PostgreSQL and of Hornbeam."""
    _, wanted = recorded()
    async with database(folder) as db:
        found = await answers(db, corpus(), _failing(wanted, declared()))
    kinds = {case: kind_of(case, wanted[case], found[case]) for case in found}
    return {case: kind for case, kind in kinds.items() if kind is not None}, wanted, found


def _failing(wanted: Mapping[str, Answer], known: list[Difference]) -> set[str]:
    """The cases that are expected to fail in Hornbeam."""
    kinds = {case: each.kind for each in known for case in each.cases}
    failing = {case for case, kind in kinds.items() if kind in ("error", "refused")}
    refused = {case for case, answer in wanted.items() if answer.error is not None}
    return failing | {case for case in refused if kinds.get(case) != "accepted"}


def unexpected(
    observed: Mapping[str, str], known: list[Difference]
) -> tuple[dict[str, str], list[str]]:
    """The differences that are not declared, by case, and the declared cases that no longer differ
    in this kind."""
    kinds = {case: each.kind for each in known for case in each.cases}
    new = {case: kind for case, kind in observed.items() if kinds.get(case) != kind}
    return new, [case for case, kind in kinds.items() if observed.get(case) != kind]


_EMPTY = re.compile(r"\[\[difference\]\]\n(?:(?!\[\[).+\n)*cases = '''\n'''\n+")


def pruned(text: str, gone: Iterable[str]) -> str:
    """The declared differences without cases that no longer differ, and without those that have no
    case left."""
    left_out = set(gone)
    kept = "\n".join(line for line in text.split("\n") if line not in left_out)
    return _EMPTY.sub("", kept).rstrip("\n") + "\n"


def _report(
    new: Mapping[str, str], wanted: Mapping[str, Answer], found: Mapping[str, Found]
) -> Iterator[str]:
    for case, kind in sorted(new.items(), key=lambda item: [*KINDS].index(item[1])):
        yield f"{kind}\t{case}\t{brief(wanted[case])}\t{brief_found(found[case])}"


def brief(answer: Answer) -> str:
    if answer.error is not None:
        return f"error {answer.error}"
    rows = "; ".join(", ".join("NULL" if v is None else v for v in row) for row in answer.rows)
    return f"{rows} ({', '.join(answer.types)})"


def brief_found(found: Found) -> str:
    if found.error is not None:
        return found.error
    rows = "; ".join(", ".join(map(shown, row)) for row in found.rows)
    return f"{rows} ({', '.join(str(kind or Kind.TEXT) for kind in found.kinds)})"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        differing, wanted, found = asyncio.run(observed(Path(folder)))
    new, gone = unexpected(differing, declared())
    print(*_report(new, wanted, found), sep="\n")
    print(*(f"no longer\t{case}" for case in gone), sep="\n")
    if "--prune" in sys.argv:
        DECLARED.write_text(pruned(DECLARED.read_text(), gone))


if __name__ == "__main__":
    main()
