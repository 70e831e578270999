"""Command tags of writes (`query/command_tags.py`)."""

from __future__ import annotations

import pytest

from hornbeam_server.query.command_tags import command_tag


@pytest.mark.parametrize(
    ("sql", "tag"),
    [
        ("INSERT INTO t VALUES (1)", "INSERT 0 3"),
        ("replace into t values (1)", "INSERT 0 3"),
        ("  -- which ones\n /* all\n */ update t SET a = 1", "UPDATE 3"),
        ("DELETE FROM t RETURNING *", "DELETE 3"),
        ("MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN DELETE", "MERGE 3"),
        ("TRUNCATE t", "TRUNCATE TABLE"),
        ("WITH a AS (DELETE FROM t RETURNING *) SELECT * FROM a", "SELECT 2"),
        ("WITH a AS (SELECT ')' AS x) INSERT INTO t SELECT x FROM a", "INSERT 0 3"),
        ("WITH RECURSIVE insert (x) AS (SELECT 1), update AS (SELECT 2) DELETE FROM t", "DELETE 3"),
    ],
)
def test_a_tag_is_that_of_postgresql(sql: str, tag: str) -> None:
    assert command_tag(sql, 3, 2) == tag
