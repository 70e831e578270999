"""SQLAlchemy's compliance suite: types, names and results, and a part of them over REST."""

from __future__ import annotations

from pathlib import Path

from tests.client.client_world import embedded, served
from tests.client.compliance.running import run_suite, unexpected

OVER_REST = "RowFetchTest or NumericTest or BinaryTest or DateTimeTest"


def test_types_comply_with_sqlalchemy(tmp_path: Path) -> None:
    outcome = run_suite(tmp_path, embedded(tmp_path / "db"), "tests.client.compliance.suite_types")
    assert not unexpected(outcome, frozenset())
    assert outcome.passed > 250


def test_types_over_rest_comply_with_sqlalchemy(tmp_path: Path) -> None:
    with served(tmp_path / "db") as url:
        outcome = run_suite(tmp_path, url, "tests.client.compliance.suite_types", only=OVER_REST)
    assert not unexpected(outcome, frozenset())
    assert outcome.passed > 40
