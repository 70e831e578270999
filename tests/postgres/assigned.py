"""Texts that are assigned to columns of each type, and the values that PostgreSQL stores.

`python -m tests.postgres.ask` asks PostgreSQL, and writes `fixtures/assigned.json`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FIXTURE = Path(__file__).parent / "fixtures" / "assigned.json"
TEXTS: dict[str, tuple[str, ...]] = {
    "INTEGER": (
        "1", " 7 ", "+3", "-0", "007", "2147483647", "2147483648", "20.0", "20.00", "2.5", "1e3",
        "0x10", "1_000", "", " ", "abc", "٣", "1 2", "--1", "TRUE",
    ),
    "SMALLINT": ("32767", "32768", "-32768", "20.0"),
    "BIGINT": ("9223372036854775807", "9223372036854775808", "1.0", "1e2"),
    "NUMERIC(6,2)": (
        "1.005", "1.5e1", ".5", "5.", "9999.994", "9999.995", "NaN", "1,5", "-0.001", "", "1e-30",
        " 12.30 ", "$1",
    ),
    "DOUBLE PRECISION": (
        "1e400", "1e-400", "Infinity", "-inf", "1.5", "0.1", ".5e1", "1e15", "1,5", "-0", " 2 ",
        "0x1p3", "",
    ),
    "BOOLEAN": (
        "t", "TRUE", "tr", "yes", "Y", "on", "1", "0", "off", "of", "o", "No", "n", "F", " true ",
        "2", "wahr", "10", "",
    ),
    "TEXT": ("", " a ", "tab\there", "it's", 'say "hi"', r"back\slash\n", "é😀", "NULL", r"\N"),
    "VARCHAR(3)": ("abc", "abc  ", "abcd", "äöü", ""),
    "DATE": (
        "2026-01-31", "2026/1/31", "20260131", "2026-1-5", "2026-02-29", "31.01.2026",
        "2026-01-31 00:00", "2026-01-31 10:00", "infinity", "0001-01-01", "10000-01-01",
        " 2026-01-31 ", "",
    ),
    "TIME": (
        "08:30", "8:30:00.5", "23:59:59.999999", "24:00", "25:00", "08:30:60", "08:30+02", "083000",
        "08:30 PM", "12:00:00.1234567",
    ),
    "TIMESTAMP": (
        "2026-01-31", "2026-01-31T10:00:00Z", "2026-01-31 10:00:00.123456",
        "2026-01-31 10:00:00.1234567", "2026-01-31 24:00:00", "2026-01-31 10:00+02",
        "2026-01-31 10:00:00 ",
    ),
    "TIMESTAMPTZ": (
        "2026-01-31 10:00:00+02", "2026-01-31T10:00Z", "2026-01-31 10:00:00 Europe/Berlin",
        "2026-01-31 10:00", "2026-01-31 10:00:00-05:30", "2026-01-31 10:00 UTC",
        "2026-01-31 10:00+2", "2026-01-31 10:00 -7", "2026-01-31 10:00+230", "2026-01-31 10:00+2:5",
        "2026-01-31 10:00-02:30:15", "2026-01-31 10:00+002", "2026-01-31 10:00-15:59:59",
        "2026-01-31 10:00+023015", "2026-01-31 10:00+16", "2026-01-31 10:00+2:60",
        "2026-01-31 10:00z", "2026-01-31 10:00 gmt", "2026-01-31 10:00 Zulu",
        "2026-01-31 24:00+2",
    ),
    "TIMESTAMP(0)": ("2026-01-31 10:00:00.5", "1999-01-31 10:00:00.5"),
    "INTERVAL": (
        "1 mon 2 days", "PT36H", "@ 1 year 2 mons", "-1 day ago", "1 fortnight", "04:05:06.789",
        "1-2", "5", "", "1.5 hours", "P1Y2M3DT4H",
    ),
    "UUID": (
        "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "{A0EEBC999C0B4EF8BB6D6BB9BD380A11}", "abc",
        " a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    ),
    "JSONB": (
        '{"b":1,"a":[1, 2]}', '{"a":1,"a":2}', "{", "null", '"\\u00e9"', "1e2", " [true] ", "",
        "{'a': 1}", "NaN",
    ),
}  # fmt: skip
"""Texts, by the type of their column."""
_LOST = "What would be lost is refused: a time of day, a zone, more than six decimals."
_FORMS = "Times have colons and 24 hours, zones are offsets or UTC."
DIFFERENCES: dict[tuple[str, str], str] = {
    ("DATE", "10000-01-01"): "Years are 1 to 9999.",
    ("DATE", "infinity"): "A date is a day.",
    ("DATE", "2026-01-31 10:00"): _LOST,
    ("DOUBLE PRECISION", "-0"): "A DOUBLE has one zero.",
    ("DOUBLE PRECISION", "0x1p3"): "Numbers are written in digits.",
    ("NUMERIC(6,2)", "NaN"): "A DECIMAL holds finite numbers.",
    ("TIME", "083000"): _FORMS,
    ("TIME", "08:30 PM"): _FORMS,
    ("TIME", "08:30:60"): _FORMS,
    ("TIME", "24:00"): "The last time of a day is 23:59:59.999999.",
    ("TIME", "08:30+02"): _LOST,
    ("TIME", "12:00:00.1234567"): _LOST,
    ("TIMESTAMP", "2026-01-31 10:00+02"): _LOST,
    ("TIMESTAMP", "2026-01-31 10:00:00.1234567"): _LOST,
    ("TIMESTAMP", "2026-01-31T10:00:00Z"): _LOST,
    ("TIMESTAMPTZ", "2026-01-31 10:00:00 Europe/Berlin"): _FORMS,
}
"""The texts whose value is not PostgreSQL's, each with the reason."""


def cases() -> Iterator[tuple[str, str]]:
    """Each type with each of its texts."""
    for type_, texts in TEXTS.items():
        yield from ((type_, text) for text in texts)


def record(db: Any) -> None:
    """Ask PostgreSQL, and write its values."""
    lines = (json.dumps([*case, _stored(db, *case)], ensure_ascii=False) for case in cases())
    FIXTURE.write_text("[\n" + ",\n".join(lines) + "\n]\n")


def _stored(db: Any, type_: str, text: str) -> str | None:
    """The text of the value that PostgreSQL stores; None for an error."""
    import psycopg

    db.execute(f"CREATE TEMPORARY TABLE assigned (c {type_})")
    try:
        quoted = text.replace("'", "''")
        db.execute(f"INSERT INTO assigned VALUES ('{quoted}')")
        (found,) = db.execute("SELECT c::TEXT FROM assigned").fetchone()
    except psycopg.Error:
        return None
    finally:
        db.execute("DROP TABLE assigned")
    return str(found)


def recorded() -> dict[tuple[str, str], str | None]:
    """PostgreSQL's value for each case."""
    return {(type_, text): value for type_, text, value in json.loads(FIXTURE.read_text())}
