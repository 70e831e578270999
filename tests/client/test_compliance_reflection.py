"""SQLAlchemy's compliance suite: reflection and DDL."""

from __future__ import annotations

from pathlib import Path

from tests.client.client_world import embedded
from tests.client.compliance.reference import PAGE, section_of, written
from tests.client.compliance.requirements import FAILING, REFLECTION
from tests.client.compliance.running import run_suite, unexpected
from tests.depth import depth


def test_reflection_complies_with_sqlalchemy(tmp_path: Path) -> None:
    outcome = run_suite(
        tmp_path, embedded(tmp_path / "db"), "tests.client.compliance.suite_reflection"
    )
    assert not unexpected(outcome, frozenset(REFLECTION))
    assert outcome.passed > depth(280, long=400)


def test_few_tests_fail_and_the_page_lists_them() -> None:
    assert len(FAILING) <= 10
    assert section_of(PAGE.read_text()) == written(), (
        "Run python -m tests.client.compliance.reference."
    )
