"""Law: a statement of a script leaves the rows that it leaves in PostgreSQL, or fails as there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hornbeam
from tests.client import client_world
from tests.postgres.scripts import SCRIPTS, lines, recorded, shown
from tests.published.trial import STATES

_LENGTH = "A result has no length of text, so the table has TEXT."
DECLARED = {
    "ALTER TABLE u ALTER COLUMN b TYPE INTEGER USING b::INTEGER * 2": "A conversion casts text in"
    " its outermost cast alone.",
    "CREATE TYPE twice AS ENUM ('x', 'x')": "PostgreSQL reports its own catalog's unique index.",
    "INSERT INTO s VALUES (9, 'longer than five')": _LENGTH,
    "SELECT * FROM s ORDER BY 1": _LENGTH,
}
"""Statements that end otherwise, and why."""
_PARTS = ("statements", "outcomes", "tags")


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_ends_as_in_postgresql(name: str, tmp_path: Path) -> None:
    answers = recorded()[name]
    assert answers["statements"] == list(lines(name)), "Run python -m tests.postgres.ask."
    with hornbeam.connect(client_world.embedded(tmp_path / "db"), autocommit=True) as db:
        differ = [
            (sql, found, (wanted, tag))
            for sql, wanted, tag in zip(*(answers[each] for each in _PARTS), strict=True)
            if not _alike(found := _outcome(db, sql), (wanted, tag)) and sql not in DECLARED
        ]
    assert not differ


def _outcome(db: Any, sql: str) -> tuple[Any, str]:
    try:
        cursor = db.cursor().execute(sql)
        return shown(cursor.fetchall() if cursor.description else []), cursor.statusmessage
    except hornbeam.Error as error:
        return STATES.get(error.code, str(error)), ""


def _alike(found: tuple[Any, str], wanted: tuple[Any, str]) -> bool:
    """Equal rows and command tags, or errors of the same constraint, or other errors."""
    (rows, _), (error, _) = found, wanted
    if not isinstance(error, str):
        return found == wanted
    known = set(STATES.values())
    return isinstance(rows, str) and (rows == error or not known & {rows, error})
