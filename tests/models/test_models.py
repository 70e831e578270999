"""The protocol models hold at small bounds, and broken variants are found out.

`make models` checks them at three slaves, three roots and two crashes, and all variants of
locks.pml, of which the suite runs those in `IN_SUITE`.
"""

import re
from pathlib import Path

import pytest
from run import BROKEN, HERE, IN_SUITE, Case, MissingTool, check, require_tools, small_cases

CASES = small_cases()


@pytest.fixture(scope="module", autouse=True)
def tools():
    """Spin and a C compiler. Without them nothing here is shown, so this is a failure."""
    try:
        require_tools()
    except MissingTool as error:
        pytest.fail(str(error), pytrace=False)


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: "-".join((case.model, case.variant or case.defines[-1]))
)
def test_small_bounds(case):
    result = check(case)
    assert result.broken == case.expected, "\n".join(result.story)
    assert result.states > 0


@pytest.mark.parametrize("model", BROKEN)
def test_each_switch_in_a_model_is_a_broken_variant_that_is_run(model):
    """A variant that nobody runs proves nothing, and one that the header hides is not found."""
    text = (HERE / f"{model}.pml").read_text()
    header, _, program = text.partition("*/")
    listed = header.partition("Broken variants, each by a -D:")[2]
    bounds = {"SLAVES", "ROOTS", "CRASHES", "LAST_SNAPSHOT", "CONFIGURATION", "HOMES"}
    switches = re.findall(r"^#\s*(?:ifdef|ifndef|elif defined\()\s*\(?(\w+)", program, re.MULTILINE)
    assert set(re.findall(r"[A-Z_]{4,}", listed)) == set(BROKEN[model])
    assert set(switches) - bounds == set(BROKEN[model])


def test_the_suite_shows_that_each_property_of_travelling_locks_can_fall():
    """Variants that the suite runs exist, and none of the model's properties is idle in it."""
    text = (HERE / "locks.pml").read_text()
    variants = BROKEN["locks"]
    assert set(variants) >= IN_SUITE
    reported = set(re.findall(r'printf\("([A-Z]{5,}):', text)) - {"FAULT"}
    assert reported == {expected for _, expected in variants.values()}
    assert {variants[name][1] for name in IN_SUITE} == reported


def test_a_tool_that_is_missing_is_named(monkeypatch):
    monkeypatch.setenv("PATH", str(Path("/nowhere")))
    with pytest.raises(MissingTool, match=r"spin and gcc not found.*apt-get install spin gcc"):
        require_tools()


def test_a_search_that_is_cut_short_is_not_taken_for_proof(monkeypatch):
    monkeypatch.setattr("run.MAX_DEPTH", 20)
    with pytest.raises(RuntimeError, match="not exhaustive"):
        check(Case("commit", ("SLAVES=2", "ROOTS=2", "CRASHES=1")))
