"""The files of the console: pages, scripts and styles in `api/console`, which the node serves.

They are read once, when this module is loaded. Nothing builds them: the scripts are ES modules.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType

_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}
START = "index.html"
FOLDER = "/console/"
"""The path of the route that serves all files but the start page."""


@dataclass(frozen=True, slots=True)
class ConsoleFile:
    """A file with its media type and its entity tag, which is a digest of its content."""

    content: bytes
    media_type: str
    etag: str


def _read() -> Mapping[str, ConsoleFile]:
    found = {}
    for entry in (files("hornbeam_server.api") / "console").iterdir():
        media_type = _TYPES.get(entry.name.rpartition(".")[2])
        if media_type is not None:
            content = entry.read_bytes()
            digest = hashlib.sha256(content).hexdigest()[:32]
            found[entry.name] = ConsoleFile(content, media_type, f'"{digest}"')
    return MappingProxyType(found)


CONSOLE_FILES = _read()
"""All files by name."""
CONSOLE_PATHS = frozenset(FOLDER + name for name in CONSOLE_FILES if name != START)
"""The paths of all files but the start page. They need no API key: they show nothing that is
stored."""
