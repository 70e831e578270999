"""Cursors of SQL: DECLARE, FETCH, MOVE and CLOSE. A cursor is a portal whose query is paused.

Rows are read once, forwards. A cursor WITH HOLD outlives its transaction: when that commits, its
other rows are read and kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hornbeam.statements import Kind, kind, name_of
from hornbeam_server.pgwire.copy.words import Words, with_blanks
from hornbeam_server.pgwire.session.failures import Failure
from hornbeam_server.pgwire.session.placeholders import Statement
from hornbeam_server.pgwire.session.rows import Listed, Row, RowSource

MAX_HELD = 200_000
"""Maximum rows that the cursors WITH HOLD of one session keep."""
_UNSUPPORTED, _NOT_FORWARD = "0A000", "55000"


@dataclass(frozen=True, slots=True)
class Declare:
    """DECLARE: `query` is at its place in the text of the statement."""

    name: str
    query: Statement
    hold: bool
    binary: bool


@dataclass(frozen=True, slots=True)
class Fetch:
    """FETCH or MOVE: pass over `skipped` rows, and take `count`; None: all. `absolute`: the row
    with this number, from 1, instead of `skipped` and `count`."""

    name: str
    moves: bool
    count: int | None
    skipped: int = 0
    absolute: int | None = None


@dataclass(frozen=True, slots=True)
class Close:
    """CLOSE: `name` is empty for all cursors."""

    name: str


def cursor_statement(statement: Statement) -> Declare | Fetch | Close:
    """The meaning of a statement about cursors. Raises Failure."""
    words = Words(statement.sql, Failure)
    verb = words.take().lower()
    if verb == "declare":
        return _declare(statement, words)
    found: Close | Fetch
    if verb == "close":
        found = Close("" if words.took("all") else name_of(words.take()))
    else:
        found = _fetch(words, moves=verb == "move")
    words.require_end()
    return found


def _declare(statement: Statement, words: Words) -> Declare:
    name = name_of(words.take())
    binary = hold = False
    while (word := words.peek()) != "cursor":
        words.take()
        if word == "no":
            words.required("scroll")
        elif word == "scroll":
            raise Failure(
                _UNSUPPORTED,
                "SCROLL cursors are not supported: a cursor reads its rows once, forwards.",
                "Leave SCROLL out, or read the rows again by another query.",
            )
        elif word not in {"binary", "insensitive", "asensitive"}:
            raise words.unexpected(1)
        binary = binary or word == "binary"
    words.take()
    if words.peek() in {"with", "without"}:
        hold = words.take().lower() == "with"
        words.required("hold")
    words.required("for")
    text = with_blanks(statement.sql, words.offset, len(statement.sql))
    if kind(text) is not Kind.READ:
        raise words.unexpected()
    return Declare(name, statement._replace(sql=text, kind=Kind.READ), hold, binary)


def _fetch(words: Words, *, moves: bool) -> Fetch:
    """[direction] [FROM | IN] name. The name of a cursor alone may be a word of a direction."""
    word = words.peek() if words.left > 1 else ""
    count: int | None = 1
    skipped, absolute = 0, None
    if word in {"prior", "backward"}:
        raise backwards()
    if word in {"first", "last", "absolute", "relative"}:
        words.take()
        number = {"first": 1, "last": -1}.get(word)
        number = words.number() if number is None else number
        if word == "relative":
            skipped, count = max(number - 1, 0), min(number, 1)
        else:
            absolute = number
    elif word:
        if word in {"next", "forward"}:
            words.take()
        count = 1 if word == "next" else _count(words)
    if words.peek() in {"from", "in"} and words.left > 1:
        words.take()
    if count is not None and count < 0:
        raise backwards()
    return Fetch(name_of(words.take()), moves, count, skipped, absolute)


def backwards() -> Failure:
    return Failure(
        _NOT_FORWARD,
        "Cursor can only scan forward.",
        "Declare another cursor with the query in the opposite order.",
    )


def _count(words: Words) -> int | None:
    """A number, or ALL (None); 1 if another token is next."""
    if words.took("all"):
        return None
    return words.number() if words.peek() in {"-", "+"} or words.peek().isdecimal() else 1


class Paused:
    """The rows of a cursor, and how far it has come."""

    def __init__(self, rows: RowSource, *, hold: bool, binary: bool) -> None:
        self._rows = rows
        self.hold = hold
        self.binary = binary
        """Are rows binary in the simple protocol?"""
        self.taken = 0
        """Number of rows that were taken."""
        self.kept = 0
        """Number of rows that it keeps."""
        self.held = False
        """Are its rows kept, since its transaction has committed?"""

    async def take(self, limit: int) -> Sequence[Row]:
        rows = await self._rows.take(limit)
        self.taken += len(rows)
        return rows

    async def close(self) -> None:
        await self._rows.close()

    async def keep(self, room: int) -> None:
        """Read the other rows, at most `room`. Raises Failure."""
        kept = list[Row]()
        while rows := await self._rows.take(0):
            kept += rows
            if len(kept) > room:
                raise Failure(
                    "54000",
                    f"The cursors WITH HOLD of a session keep at most {MAX_HELD} rows.",
                    "Fetch the rows in the transaction, or close some cursors.",
                )
        await self._rows.close()
        self._rows, self.kept = Listed(kept), len(kept)


class Part:
    """The rows that one FETCH takes from a cursor."""

    def __init__(self, cursor: Paused, count: int | None) -> None:
        """`count`: maximum number of rows; None: all."""
        self._cursor = cursor
        self._left = count

    async def take(self, limit: int) -> Sequence[Row]:
        if self._left is None:
            return await self._cursor.take(limit)
        if self._left == 0:
            return ()
        rows = await self._cursor.take(min(limit, self._left) if limit else self._left)
        self._left -= len(rows)
        return rows

    async def close(self) -> None:
        """The cursor stays where it is."""


async def part_of(cursor: Paused, fetch: Fetch) -> Part:
    """The rows of a FETCH, after those that it passes over. Raises Failure for rows that have
    passed."""
    skipped, count = fetch.skipped, fetch.count
    if fetch.absolute is not None:
        if fetch.absolute <= cursor.taken and (fetch.absolute, cursor.taken) != (0, 0):
            raise backwards()
        skipped, count = max(fetch.absolute - cursor.taken - 1, 0), min(fetch.absolute, 1)
    elif count == 0 and cursor.taken:
        raise backwards()  # the current row again
    await passed(Part(cursor, skipped))
    return Part(cursor, count)


async def passed(part: Part) -> int:
    """Take the rows of a part. Returns their number."""
    count = 0
    while rows := await part.take(0):
        count += len(rows)
    return count
