"""SQLAlchemy's compliance suite: statements and connections."""

from __future__ import annotations

from pathlib import Path

from tests.client.client_world import embedded
from tests.client.compliance.requirements import STATEMENTS
from tests.client.compliance.running import run_suite, unexpected


def test_statements_comply_with_sqlalchemy(tmp_path: Path) -> None:
    outcome = run_suite(
        tmp_path, embedded(tmp_path / "db"), "tests.client.compliance.suite_statements"
    )
    assert not unexpected(outcome, frozenset(STATEMENTS))
    assert outcome.passed > 300
