"""Runs a part of SQLAlchemy's compliance suite against a database, in a process of its own, because
the suite is a plugin of pytest that changes the whole run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import create_engine
from sqlalchemy.schema import CreateSchema

from tests.depth import depth

ROOT = Path(__file__).parents[3]
_BROKEN = re.compile(
    r"^(?:FAILED|ERROR) \S*?::(\w+?)_hornbeam\+\w+::(.*?)(?: - .*)?$", re.MULTILINE
)
_PASSED = re.compile(r"(\d+) passed")
_SCHEMAS = ("test_schema", "test_schema_2")
"""The suite expects them."""
CASES = depth(16, long=1_000)
"""Maximum number of cases of a test. A few tests have up to 170, which differ little."""
_SETTINGS = """[sqla_testing]
requirement_cls=tests.client.compliance.requirements:Requirements
profile_file=profiles.txt
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The number of tests that passed, and the names of those that did not, as `Class::test`."""

    passed: int
    broken: frozenset[str]
    output: str


def run_suite(folder: Path, url: str, part: str, *, only: str = "") -> Outcome:
    """Run the tests of the module `part` against the database at `url`. `only` is an expression
    for pytest's `-k`. `folder` takes the files of the run."""
    engine = create_engine(url)
    with engine.begin() as connection:
        for schema in _SCHEMAS:
            connection.execute(CreateSchema(schema, if_not_exists=True))
    engine.dispose()
    (folder / "setup.cfg").write_text(_SETTINGS)
    (folder / "conftest.py").write_text("from sqlalchemy.testing.plugin.pytestplugin import *\n")
    (folder / "test_suite.py").write_text(f"from {part} import *\n")
    arguments = [
        *("-q", "-p", "no:cacheprovider", "-n", "0", "--tb=short", "--rootdir", str(folder)),
        *("-p", "tests.client.compliance.sampling", "--cases", str(CASES)),
        *("--dburi", url, "-k", only, "test_suite.py"),
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), *sys.path))},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    passed = _PASSED.search(done.stdout)
    broken = frozenset("::".join(names) for names in _BROKEN.findall(done.stdout))
    return Outcome(int(passed[1]) if passed else 0, broken, done.stdout + done.stderr)


def unexpected(outcome: Outcome, failing: frozenset[str]) -> str:
    """What differs from the declared failures; "" if nothing does."""
    new, gone = outcome.broken - failing, failing - outcome.broken
    lines = [f"fails: {name}" for name in sorted(new)]
    lines += [f"no longer fails: {name}" for name in sorted(gone)]
    return "\n".join([*lines, outcome.output[-6000:]]) if lines or not outcome.passed else ""
