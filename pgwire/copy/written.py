"""The rows of COPY TO, from the bytes of their values. None is NULL."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from hornbeam_server.pgwire.copy.binary import HEAD, TRAILER, binary_row
from hornbeam_server.pgwire.copy.options import BINARY, CSV, Options
from hornbeam_server.schema.copy_text import ESCAPES

Values = Sequence[bytes | None]
_WRITTEN = {sign.encode(): b"\\" + letter.encode() for letter, sign in ESCAPES.items()}


class Written:
    """Writes the data of one COPY TO. Each row is a message of its own. In the binary format the
    first one begins with the head."""

    def __init__(self, options: Options, names: Sequence[str]) -> None:
        self._options = options
        self._head = HEAD if options.format == BINARY else b""
        self._names = names
        self._row = _writer(options, names)

    def header(self) -> bytes:
        """The line with the names of the columns; empty if the options want none."""
        if not self._options.header:
            return b""
        return _writer(self._options, self._names, header=True)(
            [name.encode() for name in self._names]
        )

    def row(self, values: Values) -> bytes:
        head, self._head = self._head, b""
        return head + self._row(values)

    def end(self) -> bytes:
        """What stands behind the last row."""
        head, self._head = self._head, b""
        return head + TRAILER if self._options.format == BINARY else b""


def _writer(
    options: Options, names: Sequence[str], *, header: bool = False
) -> Callable[[Values], bytes]:
    if options.format == BINARY:
        return binary_row
    if options.format == CSV:
        return _of_csv(options, names, header=header)
    return _of_text(options)


def _of_text(options: Options) -> Callable[[Values], bytes]:
    sign, null = options.delimiter.encode(), options.null.encode()
    escaped = re.compile(rb"[\\\b\n\r\t\v\f" + re.escape(sign) + b"]")

    def escape(found: re.Match[bytes]) -> bytes:
        return _WRITTEN.get(found[0], b"\\" + found[0])

    def write(values: Values) -> bytes:
        fields = [null if value is None else escaped.sub(escape, value) for value in values]
        return sign.join(fields) + b"\n"

    return write


def _of_csv(options: Options, names: Sequence[str], *, header: bool) -> Callable[[Values], bytes]:
    sign, null = options.delimiter.encode(), options.null.encode()
    quote, escape = options.quote.encode(), options.escape.encode()
    inside = re.compile(b"[" + re.escape(quote) + re.escape(escape) + b"]")
    special = re.compile(b"[\r\n" + re.escape(sign) + re.escape(quote) + b"]")
    forced = options.force_quote
    always = [not header and (forced is None or name in forced) for name in names]
    alone = len(names) == 1

    def field(value: bytes | None, quoted: bool) -> bytes:
        if value is None:
            return null
        ends_data = alone and value == b"\\."
        if not (quoted or ends_data or (not header and value == null) or special.search(value)):
            return value
        return quote + inside.sub(lambda found: escape + found[0], value) + quote

    def write(values: Values) -> bytes:
        return sign.join(map(field, values, always)) + b"\n"

    return write
