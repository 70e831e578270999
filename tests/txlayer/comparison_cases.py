"""Types, values and operators for the law of comparisons, and PostgreSQL's answers to them.

`python -m tests.txlayer.comparison_cases` asks the PostgreSQL that psql finds (PGHOST, PGPORT,
PGUSER) and writes `fixtures/comparisons.json`; the tests only read that file.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import os
import subprocess
import sys
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

FIXTURE = Path(__file__).parent / "fixtures" / "comparisons.json"

STORED: dict[str, list[str]] = {
    "INTEGER": ["-2147483648", "-1", "0", "2", "3", "2147483647"],
    "BIGINT": ["-9223372036854775808", "0", "2", "9007199254740992", "9007199254740993",
               "9223372036854775807"],
    "DECIMAL(10,2)": ["-99999999.99", "0", "1.00", "1.50", "99999999.99"],
    "DECIMAL(38,10)": ["0", "0.1", "12345678901234567890.5", "9999999999999999999999999999"],
    "DOUBLE PRECISION": ["-1.5", "0", "0.1", "1.5", "9007199254740992", "1e300"],
    "BOOLEAN": ["TRUE", "FALSE"],
    "TEXT": ["''", "'5'", "'abc'", "'2024-01-01'", "'é'"],
    "VARCHAR(3)": ["'5'", "'abc'"],
    "BYTEA": ["'\\x'", "'\\x616263'", "'\\xff'"],
    "DATE": ["'0001-01-01'", "'2024-01-01'", "'2024-01-02'", "'9999-12-31'"],
    "TIMESTAMP": ["'0001-01-01'", "'2024-01-01'", "'2024-01-01 05:00:00.000001'", "'9999-12-31'"],
    "TIMESTAMP WITH TIME ZONE": ["'2024-01-01 00:00:00+00'", "'2024-01-01 05:00:00.000001+00'"],
    "UUID": ["'00000000-0000-0000-0000-000000000001'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"],
}  # fmt: skip
"""SQL literals that are inserted, per type; a row of NULL comes last."""

_EAST = dt.timezone(dt.timedelta(hours=2))
VALUES: list[Any] = [
    -1, 0, 1, 2, 5, 1000, 2147483647, 2147483648, -2147483649, 9007199254740993, 2**63 - 1,
    -(2**63), 2**63, 2**64 + 1, 10**30, 10**40, -(10**45),
    0.0, 0.1, 1.5, 2.0, 2.5, -0.5, 9007199254740992.0, 1e16, 1e300, -1e300, 5e-324,
    math.inf, -math.inf, math.nan,
    Decimal("1.5"), Decimal("1.50"), Decimal("1.004"), Decimal("2.5"), Decimal("2.000"),
    Decimal("0.10000000001"), Decimal("1e400"), Decimal("9007199254740992.5"),
    Decimal("99999999.995"), Decimal("12345678901234567890.50"), Decimal("0." + "1" * 45),
    True, False,
    "", "5", " 5 ", "+2", "2.5", "2.0", "1e3", ".5", "1_000", "0b1", "NaN", "Infinity", "1e400",
    "9223372036854775808", "abc", "abcdef", "é", "true", "T", "of", "yes", "1", "0", "maybe",
    "2024-01-01", "20240101", "2024-1-1", "2024/01/01", "2024-01-01 05:00", "2024-02-30",
    "2024-01-01T00:00:00Z", "2024-01-01 02:00:00+02", "2024-01-01 00:00:00.0000001", "infinity",
    "-infinity", "10000-01-01", "2024-01-01 24:00:00", "24-01-01",
    "00000000-0000-0000-0000-000000000001", "{00000000-0000-0000-0000-000000000001}",
    "FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF", "0000", "\\x616263", "\\xzz", "a\\142c",
    b"abc", b"", b"\xff\\",
    dt.date(2024, 1, 1), dt.date(1, 1, 1), dt.date(9999, 12, 31),
    dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, 5, 0, 0, 1), dt.datetime(9999, 12, 31, 12),
    dt.datetime(2024, 1, 1, 2, tzinfo=_EAST), dt.datetime(2024, 1, 1, 5, 0, 0, 1, tzinfo=dt.UTC),
    uuid.UUID(int=1), uuid.UUID(int=2**128 - 1),
    None,
]  # fmt: skip

CONDITIONS = [
    "{v} = {x}", "{x} = {v}", "{v} <> {x}", "{v} < {x}", "{x} < {v}", "{v} <= {x}", "{v} > {x}",
    "{v} >= {x}", "{x} >= {v}", "{v} IS DISTINCT FROM {x}", "{v} IS NOT DISTINCT FROM {x}",
    "{v} IN ({x}, {x})", "{v} NOT IN ({x}, NULL)", "{v} IN ({x}, {v})", "{x} IN ({v}, {v})",
    "{v} BETWEEN {x} AND {x}", "{v} BETWEEN NULL AND {x}", "NOT ({v} BETWEEN {x} AND NULL)",
    "{x} BETWEEN {v} AND {v}", "NOT ({v} < {x} OR {v} > {x})",
    "CASE {v} WHEN {x} THEN TRUE ELSE FALSE END", "NULLIF({v}, {x}) IS NULL",
    "({v}, id) = ({x}, 1)", "({v}, id) <> ({x}, 1)", "({v}, id) > ({x}, 1)",
    "({v}, id) <= ({x}, 2)", "(id, {v}) IN ((1, {x}), (2, {x}))", "{v} = ANY (ARRAY[{x}, {v}])",
    "{v} <> ALL (ARRAY[{v}, {x}])",
]  # fmt: skip


def literal(value: Any) -> str:
    """The literal of a value: text untyped, a float by its digits."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
        case float() if not math.isfinite(value):
            return f"CAST('{value}' AS DOUBLE PRECISION)"
        case int() | float() | Decimal():
            return str(value)
        case str():
            return "'" + value.replace("'", "''") + "'"
        case bytes():
            return f"CAST('\\x{value.hex()}' AS BYTEA)"
        case dt.datetime():
            zone = " WITH TIME ZONE" if value.tzinfo else ""
            return f"CAST('{value.isoformat(' ')}' AS TIMESTAMP{zone})"
        case dt.date():
            return f"CAST('{value}' AS DATE)"
        case _:
            return f"CAST('{value}' AS UUID)"


def answers() -> dict[str, dict[str, list[str] | None]]:
    """The answers to each condition, by type and literal: one letter per row (true, false, NULL);
    None if PostgreSQL refuses the value."""
    recorded = json.loads(FIXTURE.read_text())
    return {
        type_: {text: None if found == "error" else found.split(" ") for text, found in one.items()}
        for type_, one in recorded.items()
    }


def _ask() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for type_, stored in STORED.items():
        collation = ' COLLATE "C"' if type_ in ("TEXT", "VARCHAR(3)") else ""
        rows = ", ".join(f"({i}, {v})" for i, v in enumerate([*stored, "NULL"], 1))
        script = [f"CREATE TEMP TABLE t (id INTEGER, v {type_}{collation});",
                  f"INSERT INTO t VALUES {rows};"]  # fmt: skip
        for value in VALUES:
            for condition in CONDITIONS:
                written = condition.format(v=_column(type_, value), x=literal(value))
                script.append(
                    "SELECT '|' || string_agg(coalesce(left(c::text, 1), 'n'), '' ORDER BY id)"
                    f" FROM (SELECT id, {written} AS c FROM t) s;\n\\echo ;"
                )
        text = subprocess.run(
            ["psql", "-AtqX"],
            input="\n".join(script), capture_output=True, text=True, check=True,
            env={**os.environ, "PGOPTIONS": "-c timezone=UTC"},
        ).stdout  # fmt: skip
        letters = [part.strip().removeprefix("|") or "error" for part in text.split(";\n")[:-1]]
        size = len(CONDITIONS)
        assert len(letters) == size * len(VALUES), (type_, len(letters))
        found[type_] = {
            literal(value): _joined(letters[i * size : (i + 1) * size])
            for i, value in enumerate(VALUES)
        }
    return found


def _column(type_: str, value: Any) -> str:
    """PostgreSQL refuses numbers beyond a double's range beside a double; they are compared as
    NUMERIC."""
    beyond = isinstance(value, int | Decimal) and abs(value) > sys.float_info.max
    return "v::NUMERIC" if beyond and type_ == "DOUBLE PRECISION" else "v"


def _joined(letters: list[str]) -> str:
    refused = "error" in letters
    assert not refused or set(letters) == {"error"}, letters  # a value, not an operator, is refused
    return "error" if refused else " ".join(letters)


if __name__ == "__main__":
    FIXTURE.parent.mkdir(exist_ok=True)
    FIXTURE.write_text(json.dumps(_ask(), indent=0, ensure_ascii=False) + "\n")
    sys.stdout.write(f"Written: {FIXTURE}\n")
