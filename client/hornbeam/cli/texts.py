"""Files of text: their compression, and their encoding.

A dump says its encoding in a byte order mark, or in a statement: SET NAMES of MySQL, SET
client_encoding of PostgreSQL. Anything else is UTF-8.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import lzma
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Annotated, Any, cast

import typer

from hornbeam.errors import InterfaceError

UTF8 = "utf-8"
DAMAGE = (OSError, EOFError, zlib.error, lzma.LZMAError)
"""What is raised when a file cannot be read or decompressed."""
_OPENERS: dict[str, Callable[[IO[bytes]], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
}
_HEAD = 60_000
"""The number of bytes that are searched for the name of an encoding."""
_NAMED = re.compile(
    rb"^\s*(?:/\*!\d+\s+)?SET\s+(?:NAMES|client_encoding\s*(?:=|TO))\s*['\"]?([\w-]+)",
    re.IGNORECASE | re.MULTILINE,
)
_NAMES = {
    **dict.fromkeys(("utf8mb3", "utf8mb4", "binary", "sql_ascii", "default"), UTF8),
    **{"koi8r": "koi8-r", "koi8u": "koi8-u", "ujis": "euc_jp", "eucjpms": "euc_jp"},
    **{"macroman": "mac_roman", "macce": "mac_latin2", "sjis": "cp932", "dec8": "latin1"},
}
"""Names of MySQL and PostgreSQL that Python has another name for."""
_LATIN1_OF_MYSQL = "cp1252"
EncodingOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The encoding of the file, such as latin1, cp1252 or shift_jis. Default: that of its"
        " byte order mark, or of SET NAMES or SET client_encoding in it; else UTF-8.",
    ),
]


def is_compressed(path: Path) -> bool:
    """Whether the file is compressed by gzip, bzip2 or xz."""
    return path.suffix.lower() in _OPENERS


def uncompressed(path: Path, file: IO[bytes]) -> IO[bytes]:
    """The uncompressed bytes of `file`, which is the opened file at `path`."""
    opener = _OPENERS.get(path.suffix.lower())
    return file if opener is None else cast("IO[bytes]", opener(file))


def text_and_encoding(
    path: Path, encoding: str | None = None, errors: str = "strict"
) -> tuple[str, str]:
    """The text of a file, which may be compressed, and its encoding: `encoding`, or the one that
    the file says. Raises InterfaceError."""
    try:
        with path.open("rb") as file:
            data = uncompressed(path, file).read()
        found = encoding_of(data, encoding)
        return data.decode(found, errors).removeprefix("\ufeff"), found
    except (*DAMAGE, LookupError, UnicodeDecodeError) as error:
        raise InterfaceError(f"{path} cannot be read: {error}") from None


def encoding_of(data: bytes, name: str | None = None) -> str:
    """The encoding of a file for Python: `name`, or the one that the file says. Raises LookupError
    for a name that is unknown."""
    if name is not None:
        return codecs.lookup(name).name
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    found = None if data.startswith(codecs.BOM_UTF8) else _NAMED.search(data, 0, _HEAD)
    said = found[1].decode().lower() if found else UTF8
    postgres = found is not None and b"client_encoding" in found[0].lower()
    if said == "latin1" and not postgres:
        return _LATIN1_OF_MYSQL
    return codecs.lookup(_NAMES.get(said, re.sub(r"^win(?=\d)", "cp", said))).name
