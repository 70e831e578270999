"""Folders and files that only this user may read, whatever the umask.

The mode of the folder keeps other users out. Its files are created so that no other user may read
them, wherever they are moved: Hornbeam's own files by their mode, those of RocksDB and DuckDB by
the default access list of the folder, which files inherit instead of the umask (if the file system
has such lists).
"""

from __future__ import annotations

import os
import stat
import struct
from contextlib import suppress
from pathlib import Path

import structlog

_LOG = structlog.get_logger(__name__)
FOLDER, FILE = 0o700, 0o600
_OTHERS = 0o077
_ACL = "system.posix_acl_default"
_OWNER, _GROUP, _OTHER, _NO_ID = 0x01, 0x04, 0x20, 0xFFFFFFFF
"""Tags of the entries of an access list: the users that an entry is for."""


def make_private(folder: Path) -> None:
    """Create `folder` for this user only, and its missing parents. If it exists and is open to
    other users, it is closed to them, with all its content. Raises OSError."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.mkdir(FOLDER)
    except FileExistsError:
        if stat.S_IMODE(folder.stat().st_mode) & _OTHERS:
            _close(folder)
    _let_files_inherit(folder)


def open_private(path: str, flags: int) -> int:
    """An `opener` for `open`: a file that it creates is for this user only."""
    return os.open(path, flags, FILE)


def _close(folder: Path) -> None:
    for place, _, names in os.walk(folder):
        for path in (place, *(os.path.join(place, name) for name in names)):
            if not os.path.islink(path):
                os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) & ~_OTHERS)
    _LOG.warning("a folder that others could read is closed to them", folder=str(folder))


def _let_files_inherit(folder: Path) -> None:
    entries = ((_OWNER, 0o7), (_GROUP, 0), (_OTHER, 0))
    packed = b"".join(struct.pack("<HHI", whom, may, _NO_ID) for whom, may in entries)
    with suppress(OSError, AttributeError):  # not all file systems and systems have them
        os.setxattr(folder, _ACL, struct.pack("<I", 2) + packed)
