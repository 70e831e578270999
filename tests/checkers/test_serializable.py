"""The cycle checker is itself proven: on hand-made histories, and on planted faults."""

from pathlib import Path

import pytest
from list_append import parse
from serializable import check

HISTORIES = Path(__file__).with_name("histories.txt").read_text()


def cases():
    for block in HISTORIES.split("\n== ")[1:]:
        name, expected, *lines = block.split("\n")
        assert expected.startswith("expect:"), name
        yield pytest.param("\n".join(lines), expected.split()[1:], id=name)


@pytest.mark.parametrize(("text", "expected"), list(cases()))
def test_finds_exactly_the_anomalies(text, expected):
    found = check(*parse(text))
    assert sorted(a.kind for a in found) == sorted(expected), "\n".join(map(str, found))


def test_the_histories_are_many_and_their_names_differ():
    names = [case.id for case in cases()]
    assert len(names) == len(set(names)) >= 50
