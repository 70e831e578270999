"""The choice between Python and the module for work on many stored rows."""

import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

from hornbeam_server import __version__
from hornbeam_server.schema.errors import InvalidRequest
from hornbeam_server.storage.codec import implementation
from hornbeam_server.storage.codec.implementation import MODULE, choose

ROOT = Path(__file__).parents[2]


@pytest.fixture
def installed(monkeypatch):
    """A function that installs a module of some version, or none."""

    def install(version):
        module = None if version is None else SimpleNamespace(__version__=version)
        monkeypatch.setitem(sys.modules, MODULE, module)
        return module

    return install


def test_the_module_is_chosen_if_it_is_there(installed):
    module = installed(__version__)
    for asked in ("auto", "native"):
        assert (choose(asked).native, choose(asked).shown) == (module, "native")
    assert choose("python").native is None
    assert choose("python").shown == "python: HORNBEAM_SPEEDUPS is python"


def test_without_the_module_only_native_fails(installed):
    installed(None)
    assert choose("auto").shown == "python: hornbeam-speedups is not installed"
    with pytest.raises(InvalidRequest, match="not installed") as caught:
        choose("native")
    assert "pip install hornbeam-speedups==" in caught.value.cure


def test_a_module_of_another_version_is_refused(installed):
    installed("0.0.9")
    assert choose("auto").native is None
    assert "0.0.9" in choose("auto").shown
    with pytest.raises(InvalidRequest, match=r"has version 0\.0\.9"):
        choose("native")


def test_a_module_that_cannot_be_loaded_is_refused(monkeypatch):
    def broken(name):
        raise ImportError("GLIBC_9.9 not found")

    monkeypatch.setattr(implementation, "import_module", broken)
    assert choose("auto").reason == "hornbeam-speedups cannot be loaded: GLIBC_9.9 not found"
    with pytest.raises(InvalidRequest, match="GLIBC_9"):
        choose("native")


def test_another_value_is_refused():
    with pytest.raises(InvalidRequest, match="'rust'"):
        choose("rust")


def test_the_module_has_the_version_of_the_server():
    crate = tomllib.loads((ROOT / "speedups" / "Cargo.toml").read_text())
    assert crate["package"]["version"] == __version__
