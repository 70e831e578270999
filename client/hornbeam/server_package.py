"""Loads modules of the server's distribution by name. The client works without them."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from hornbeam.errors import InterfaceError

PACKAGE = "hornbeam_server"
INSTALL = "pip install hornbeam-server"


def server_module(name: str) -> Any:
    """The module `hornbeam_server.<name>`.

    Raises InterfaceError when the module cannot be loaded. The message distinguishes a server that
    is not installed from a server whose dependency is missing or shadowed by a file of the
    application.
    """
    try:
        with _without_collections():
            return importlib.import_module(f"{PACKAGE}.{name}")
    except (ImportError, AttributeError) as error:
        raise InterfaceError(_reason(error)) from error


@contextmanager
def _without_collections() -> Iterator[None]:
    """Pause the garbage collector. It would traverse the objects of the modules, which all stay,
    again and again: a tenth of the start of a server."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def spark_module(name: str) -> Any:
    """Like `server_module`, for a module that needs PySpark."""
    try:
        importlib.import_module("pyspark")
    except ImportError as error:
        cure = "pip install 'hornbeam-server[spark]'"
        raise InterfaceError(f"This command needs PySpark: {error}.\n{cure}") from error
    return server_module(name)


def _reason(error: ImportError | AttributeError) -> str:
    if importlib.util.find_spec(PACKAGE) is None:
        return f"The server package is needed and is not installed.\n{INSTALL}"
    module = _module(error)
    if module is None or module.__name__.split(".")[0] == PACKAGE:
        return f"The server package cannot be loaded: {error}.\nInstall it again: {INSTALL}"
    file = getattr(module, "__file__", "a folder")
    return (
        f"The server package cannot be loaded: {error}.\n"
        f"The module {module.__name__} comes from {file}. If that is your own file, rename it;"
        f" otherwise install the server again: {INSTALL}"
    )


def _module(error: ImportError | AttributeError) -> ModuleType | None:
    """The module in which an import did not find a module or a name."""
    if isinstance(error, AttributeError):
        return error.obj if isinstance(error.obj, ModuleType) else None
    return sys.modules.get((error.name or "").split(".")[0])
