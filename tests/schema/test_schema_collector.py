"""The times at which a server collects the third generation of objects."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
import weakref

import pytest

from hornbeam_server.schema import collector
from hornbeam_server.schema.collector import CALM, LAST_RESORT, SELDOM, collect_when_calm, is_due


class Node:
    """An object that refers to itself, so that reference counts do not free it."""

    def __init__(self):
        self.itself = self


def test_a_collection_waits_until_few_objects_are_alive():
    assert not is_due(SELDOM - 1, 100, 100)
    assert is_due(SELDOM, round(CALM * 100), 100)
    assert not is_due(SELDOM, round(CALM * 100) + 1, 100)
    assert not is_due(LAST_RESORT - 1, 10_000, 100)
    assert is_due(LAST_RESORT, 10_000, 100)


@pytest.fixture
def thresholds():
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@pytest.mark.usefixtures("thresholds")
async def test_a_server_collects_only_when_few_objects_are_alive(monkeypatch):
    """The number of allocated blocks is simulated; the collections are real."""
    living = sys.getallocatedblocks()
    monkeypatch.setattr(collector, "TICK_S", 0.0)
    monkeypatch.setattr(collector.sys, "getallocatedblocks", lambda: living)
    collecting = asyncio.ensure_future(collect_when_calm())
    await asyncio.sleep(0)
    before = gc.get_stats()[2]["collections"]
    node = Node()
    gone = weakref.ref(node)
    gc.collect(1)  # move the node to the third generation
    gc.collect(1)
    del node
    living *= 2
    for _ in range(SELDOM):
        gc.collect(1)
    for _ in range(20):
        await asyncio.sleep(0)
    assert gone() is not None
    assert gc.get_stats()[2]["collections"] == before
    living //= 2
    for _ in range(20):
        await asyncio.sleep(0)
    assert gone() is None
    assert gc.get_stats()[2]["collections"] == before + 1
    collecting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await collecting
