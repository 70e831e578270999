"""Law: a comparison is implied exactly if each value that satisfies the other one satisfies it."""

from __future__ import annotations

from itertools import product

import pytest

from hornbeam_server.query.binding.algebra import Comparison, Filter
from hornbeam_server.query.optimizer.implied_comparisons import filter_implies
from hornbeam_server.query.parsing.placeholders import Parameter

HALVES = [number / 2 for number in range(-1, 10)]
"""Values between the constants, at them and around them: as dense as the comparisons notice."""
HOLDS = {
    Comparison.EQ: lambda value, constants: value == constants[0],
    Comparison.IN: lambda value, constants: value in constants,
    Comparison.LT: lambda value, constants: value < constants[0],
    Comparison.LE: lambda value, constants: value <= constants[0],
    Comparison.GT: lambda value, constants: value > constants[0],
    Comparison.GE: lambda value, constants: value >= constants[0],
}
FILTERS = [
    *(Filter("t", "x", each, (n,)) for each in HOLDS if each != Comparison.IN for n in (1, 2, 3)),
    *(Filter("t", "x", Comparison.IN, pair) for pair in ((1, 2), (2, 3), (1, 2, 3), (3, 1))),
]


@pytest.mark.parametrize("given", FILTERS, ids=str)
def test_a_comparison_implies_what_holds_for_all_its_values(given: Filter) -> None:
    for wanted in FILTERS:
        values = [v for v in HALVES if HOLDS[given.comparison](v, given.values)]
        holds = all(HOLDS[wanted.comparison](v, wanted.values) for v in values)
        assert filter_implies(given, wanted) == holds, wanted


def test_parameters_and_values_of_other_kinds_imply_their_like_alone() -> None:
    found = [
        Filter("t", "x", comparison, (value,))
        for comparison, value in product(
            (Comparison.EQ, Comparison.GT), (Parameter(0), Parameter(1), "a", 1, None)
        )
    ]
    implied = {(a, b) for a, b in product(found, found) if a != b and filter_implies(a, b)}
    assert implied == set()
    assert all(filter_implies(each, each) for each in found)
    another = Filter("t", "y", Comparison.EQ, (1,))
    assert not any(filter_implies(each, another) for each in found)
