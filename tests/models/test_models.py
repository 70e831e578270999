"""The protocol models hold at small bounds, and broken variants violate their properties.

`make models` checks the models at three slaves, three roots and two crashes, and all variants of
locks.pml; the suite runs the variants in `IN_SUITE`.
"""

import re
from pathlib import Path

import pytest

from tests.models.run import (
    BROKEN,
    HERE,
    IN_SUITE,
    Case,
    MissingTool,
    check,
    require_tools,
    small_cases,
)

CASES = small_cases()


@pytest.fixture(scope="module", autouse=True)
def tools():
    """Fail if Spin or a C compiler is missing: a skipped test would show nothing."""
    try:
        require_tools()
    except MissingTool as error:
        pytest.fail(str(error), pytrace=False)


@pytest.mark.parametrize(
    "case",
    CASES,
    ids=lambda case: "-".join((case.model, case.variant or (case.defines or ("all",))[-1])),
)
def test_small_bounds(case):
    result = check(case, small=True)
    assert result.broken == case.expected, "\n".join(result.story)
    assert result.states > 0


@pytest.mark.parametrize("model", BROKEN)
def test_each_switch_in_a_model_is_a_listed_variant(model):
    """Every variant must be run and be listed in the model's header."""
    text = (HERE / f"{model}.pml").read_text()
    header, _, program = text.partition("*/")
    listed = header.partition("Broken variants, each by a -D:")[2]
    bounds = {"SLAVES", "ROOTS", "CRASHES", "LAST_SNAPSHOT", "CONFIGURATION", "HOMES", "RING"}
    bounds.add("COMMITS")
    switches = re.findall(r"^#\s*(?:ifdef|ifndef|elif defined\()\s*\(?(\w+)", program, re.MULTILINE)
    assert set(re.findall(r"[A-Z_]{4,}", listed)) == set(BROKEN[model])
    assert set(switches) - bounds == set(BROKEN[model])


def test_the_suite_breaks_every_property_of_travelling_locks():
    """The variants that the suite runs exist, and together they violate every property."""
    text = (HERE / "locks.pml").read_text()
    variants = BROKEN["locks"]
    assert set(variants) >= IN_SUITE
    reported = set(re.findall(r'printf\("([A-Z]{5,}):', text)) - {"FAULT"}
    assert reported == {expected for _, expected in variants.values()}
    assert {variants[name][1] for name in IN_SUITE} == reported


def test_a_missing_tool_is_named(monkeypatch):
    monkeypatch.setenv("PATH", str(Path("/nowhere")))
    with pytest.raises(MissingTool, match=r"spin and gcc not found.*apt-get install spin gcc"):
        require_tools()


def test_an_incomplete_search_is_no_proof(monkeypatch):
    monkeypatch.setattr("tests.models.run.MAX_DEPTH", 20)
    with pytest.raises(RuntimeError, match="not exhaustive"):
        check(Case("commit", ("SLAVES=2", "ROOTS=2", "CRASHES=1")))
