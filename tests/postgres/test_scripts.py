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
    "INSERT INTO s VALUES (9, 'longer than five')": _LENGTH,
    "SELECT * FROM s ORDER BY 1": _LENGTH,
}
"""Statements that end otherwise, and why."""


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_ends_as_in_postgresql(name: str, tmp_path: Path) -> None:
    answers = recorded()[name]
    assert answers["statements"] == list(lines(name)), "Run python -m tests.postgres.ask."
    with hornbeam.connect(client_world.embedded(tmp_path / "db"), autocommit=True) as db:
        differ = [
            (sql, found, wanted)
            for sql, wanted in zip(answers["statements"], answers["outcomes"], strict=True)
            if not _alike(found := _outcome(db, sql), wanted) and sql not in DECLARED
        ]
    assert not differ


def _outcome(db: Any, sql: str) -> Any:
    try:
        cursor = db.cursor().execute(sql)
        return shown(cursor.fetchall() if cursor.description else [])
    except hornbeam.Error as error:
        return STATES.get(error.code, str(error))


def _alike(found: Any, wanted: Any) -> bool:
    """Equal rows, or errors of the same constraint, or other errors."""
    if not isinstance(wanted, str):
        return bool(found == wanted)
    known = set(STATES.values())
    return isinstance(found, str) and (found == wanted or not known & {found, wanted})
