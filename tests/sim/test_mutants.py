"""Every planted bug fits the source, leaves no trace, and some that are easy to find are found."""

from __future__ import annotations

import pytest

from tests.sim.mutants import Edit, Misfit, Mutant, hunt, load_mutants, planted

MUTANTS = {mutant.name: mutant for mutant in load_mutants()}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_fits_the_source(name):
    with planted(MUTANTS[name]):
        pass


def test_planting_changes_the_running_code_and_is_undone():
    from hornbeam_server.txlayer.commit.hlc import HybridClock

    healthy = HybridClock.tick.__code__
    with planted(MUTANTS["clock follows the wall back"]):
        assert HybridClock.tick.__code__ is not healthy
    assert HybridClock.tick.__code__ is healthy


@pytest.mark.parametrize(
    "old", ["no such text", "self.last", "MAX_AHEAD_MS = 500"], ids=["none", "many", "outside"]
)
def test_mutant_that_does_not_fit_is_refused(old):
    mutant = Mutant("misfit", "", (Edit("hornbeam_server.txlayer.commit.hlc", old, "pass"),))
    with pytest.raises(Misfit), planted(mutant):
        pass


@pytest.mark.parametrize("name", ["log not fenced", "watermark ignores what is in flight"])
def test_mutant_is_found(name):
    assert hunt(MUTANTS[name], range(1, 21)).seed


def test_mutant_that_breaks_nothing_survives():
    edit = Edit(
        "hornbeam_server.txlayer.locking.schema_gate",
        "self._inside += 1",
        "self._inside = 1 + self._inside",
    )
    assert not hunt(Mutant("harmless", "", (edit,)), range(1, 2)).seed
