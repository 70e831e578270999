"""A plugin of pytest: of each test, at most as many cases as the option `--cases` says, evenly
spaced."""

from __future__ import annotations

from itertools import groupby

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cases", type=int, help="maximum number of cases of each test")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    most = config.getoption("--cases")
    kept: list[pytest.Item] = []
    for _, group in groupby(items, lambda item: item.nodeid.partition("[")[0]):
        kept += spaced(list(group), most)
    taken = set(kept)
    config.hook.pytest_deselected(items=[item for item in items if item not in taken])
    items[:] = kept


def spaced(cases: list[pytest.Item], most: int) -> list[pytest.Item]:
    """At most `most` of the cases, with the first and the last."""
    if len(cases) <= most:
        return cases
    last = len(cases) - 1
    return [cases[number * last // (most - 1)] for number in range(most)]
