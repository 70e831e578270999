"""How many random examples, seeds and repetitions a run of the tests tries.

`make test` tries the usual number, which finds the faults that the test is there for within minutes
on two cores. `make test-long` (pytest's option `--long`) tries more of the same, for a night or
before a release. The option is known before any test is imported, so that decorators may ask.
"""

from __future__ import annotations

_long = False


def choose_long() -> None:
    """Let all tests that are imported from now on try their long number."""
    global _long  # noqa: PLW0603 - one choice for the process, made once
    _long = True


def depth(usual: int, *, long: int) -> int:
    """Return the number that this run tries: `usual`, or `long` with `--long`."""
    return long if _long else usual
