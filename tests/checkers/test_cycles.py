"""The cycle checker on hand-made histories: `ax1` appends 1 to x, `rx12` read x as [1, 2]; a
transaction that ends in `!` aborted, in `?` has an unknown outcome."""

import pytest
from cycles import Operation, Transaction, check

CASES = [
    ("ax1 | rx1", []),
    ("ax1? | rx1", []),
    ("ax1! | rx", []),
    ("ax1 ay1 | ax2 ay2 | rx12 ry21", ["G0"]),
    ("ax1! | rx1", ["G1a"]),
    ("ax1 ax2 | rx1", ["G1b"]),
    ("ax1 ry2 | ay2 rx1", ["G1c"]),
    ("ax1 ay1 | rx1 ry | ry1", ["G-single"]),
    ("rx ax1 | rx ax2 | rx12", ["G-single"]),
    ("rx ay1 | ry ax1 | rx1 ry1", ["G2-item"]),
    ("ax1 | ax2 | rx12 | rx21", ["incompatible-order"]),
]


def parse(number: int, text: str) -> Transaction:
    outcome = {"!": "aborted", "?": "unknown"}.get(text[-1], "committed")
    operations = tuple(
        Operation("append" if word[0] == "a" else "read", word[1], tuple(map(int, word[2:])))
        for word in text.rstrip("!?").split()
    )
    return Transaction(f"T{number}", operations, outcome)


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_verdict(text: str, expected: list[str]) -> None:
    history = [parse(i, part.strip()) for i, part in enumerate(text.split("|"))]
    names = [anomaly.name for anomaly in check(history)]
    assert names[: len(expected)] == expected
    assert bool(names) == bool(expected)
