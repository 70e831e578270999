"""Modules of the server are loaded while the garbage collector pauses."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Iterator
from types import ModuleType

import pytest

from hornbeam.errors import InterfaceError
from hornbeam.server_package import server_module


@pytest.fixture(params=[True, False], ids=["enabled", "disabled"])
def enabled(request: pytest.FixtureRequest) -> Iterator[bool]:
    if not request.param:
        gc.disable()
    yield request.param
    gc.enable()


def test_loading_a_module_leaves_the_collector_as_it_was(monkeypatch, enabled) -> None:
    found = []

    def load(name: str) -> ModuleType:
        found.append(gc.isenabled())
        return gc

    monkeypatch.setattr(importlib, "import_module", load)
    assert server_module("schema.errors") is gc
    assert found == [False]
    assert gc.isenabled() is enabled


def test_a_module_that_cannot_be_loaded_leaves_the_collector_as_it_was(enabled) -> None:
    with pytest.raises(InterfaceError, match="cannot be loaded"):
        server_module("no_such_module")
    assert gc.isenabled() is enabled
