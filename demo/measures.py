"""Percentiles, and descriptions of the machine and the libraries that a measurement used."""

from __future__ import annotations

import importlib.metadata
import math
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

LIBRARIES = ("duckdb", "fastapi", "msgspec", "pyarrow", "rocksdict", "sqlglot", "uvicorn", "uvloop")


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest of `values` that at least a `share` of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(math.ceil(len(ordered) * share) - 1, 0)]


def machine(folder: Path) -> dict[str, Any]:
    """A description of this machine. `folder` holds the data of the measurement."""
    return {
        "cores": os.cpu_count(),
        "processor": _first_line("/proc/cpuinfo", "model name") or platform.machine(),
        "memory": _first_line("/proc/meminfo", "MemTotal"),
        "file_system": _file_system(folder),
        "system": f"{platform.system()} {platform.release()}",
        "load_average": list(os.getloadavg()),
    }


def versions() -> dict[str, str]:
    """The versions of the interpreter and the libraries."""
    found = {name: importlib.metadata.version(name) for name in LIBRARIES}
    return {"python": platform.python_version(), **found}


def _first_line(file: str, head: str) -> str:
    try:
        lines = Path(file).read_text().splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(head)), "")


def _file_system(folder: Path) -> str:
    """The file system's type of the mount that holds `folder`; "unknown" if the system does not
    report it."""
    here, best = str(folder.resolve()), ("", "unknown")
    try:
        mounts = Path("/proc/mounts").read_text().splitlines()
    except OSError:
        return best[1]
    for _device, at, kind, *_ in map(str.split, mounts):
        if here.startswith(at) and len(at) > len(best[0]):
            best = at, kind
    return best[1]
