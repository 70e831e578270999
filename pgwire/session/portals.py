"""Prepared statements and portals of one session, by their names. "" names the unnamed one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hornbeam.results import Results
from hornbeam_server.pgwire.codec.answers import Field
from hornbeam_server.pgwire.codec.requests import Bind
from hornbeam_server.pgwire.session.cursors import MAX_HELD, Paused
from hornbeam_server.pgwire.session.execution import Outcome
from hornbeam_server.pgwire.session.failures import PROTOCOL_VIOLATION, Failure
from hornbeam_server.pgwire.session.placeholders import Statement
from hornbeam_server.pgwire.types.read import BadValue, value_of

MAX_NAMED = 10_000
"""Maximum number of prepared statements, and of portals, of one session."""
_BAD_TEXT, _BAD_BINARY = "22P02", "22P03"


@dataclass
class Prepared:
    """A prepared statement. `given`: the types of its first parameters, 0 for an open one. `types`:
    those of all, once they were asked for. `fields`: the columns that the client knows. `before`:
    number of characters before the statement in the text of the client."""

    statement: Statement
    given: Sequence[int] = ()
    types: Sequence[int] | None = None
    fields: tuple[Field, ...] | None = None
    before: int = 0

    def require_count(self, count: int) -> None:
        wanted = max(self.statement.highest, len(self.given))
        if count != wanted:
            raise Failure(
                PROTOCOL_VIOLATION, f"The statement has {wanted} parameters, not {count}."
            )

    def needs_types(self, formats: Sequence[int]) -> bool:
        """Are values in the binary format, whose types neither the client nor we know so far?"""
        if self.types is not None or 1 not in formats:
            return False
        return any(
            _format(formats, number) and not _type(self.given, number)
            for number in range(self.statement.highest)
        )

    def bound(self, request: Bind) -> Portal:
        """The portal with the values of a Bind. Raises Failure."""
        known = self.types or ()
        values = []
        for number, data in enumerate(request.values):
            oid, format_ = _type(self.given, number), _format(request.formats, number)
            try:
                values.append(value_of(data, oid or _type(known, number), format_))
            except BadValue as error:
                state = _BAD_BINARY if format_ else _BAD_TEXT
                message = f"The value of parameter ${number + 1} cannot be read: {error}."
                raise Failure(state, message) from None
        return Portal(self, values, request.result_formats)


@dataclass(eq=False)
class Portal:
    """A statement with its values. `outcome`: None before it has run. `results`: a write that is
    kept. `fields`: the columns that the client knows."""

    prepared: Prepared
    values: Sequence[Any]
    result_formats: tuple[int, ...]
    fields: tuple[Field, ...] | None = None
    outcome: Outcome | None = None
    results: Results | None = None
    described: bool = True
    """Does the client ask for the columns if it wants them? Else they come with the rows."""
    depth: int = 0
    """Number of savepoints before it. A rollback to an earlier one closes it."""

    @property
    def cursor(self) -> Paused | None:
        """Its rows, if DECLARE has made it."""
        rows = None if self.outcome is None else self.outcome.rows
        return rows if isinstance(rows, Paused) else None

    @property
    def held(self) -> bool:
        """Does it outlive the transaction?"""
        return self.cursor is not None and self.cursor.held

    def formats(self, count: int) -> tuple[int, ...]:
        """The format of each of `count` columns. Raises Failure."""
        given = self.result_formats
        if len(given) == count:
            return given
        if len(given) > 1:
            raise Failure(PROTOCOL_VIOLATION, f"Bind has {len(given)} formats for {count} columns.")
        return (given or (0,)) * count

    async def close(self) -> None:
        """End its query. Idempotent."""
        if self.outcome is not None:
            await self.outcome.rows.close()


@dataclass
class Portals:
    """The prepared statements and the portals."""

    _statements: dict[str, Prepared] = field(default_factory=dict)
    _portals: dict[str, Portal] = field(default_factory=dict)

    def prepare(self, name: str, statement: Prepared) -> None:
        """Raises Failure if a name is in use, or there are too many."""
        if name and name in self._statements:
            raise Failure("42P05", f"There is a prepared statement {name} already.")
        _require_room(self._statements)
        self._statements[name] = statement

    def statement(self, name: str) -> Prepared:
        """Raises Failure."""
        found = self._statements.get(name)
        if found is None:
            raise Failure("26000", f"There is no prepared statement {name or 'without a name'}.")
        return found

    async def bind(self, name: str, portal: Portal) -> None:
        """Raises Failure if a name is in use, or there are too many."""
        if name and name in self._portals:
            raise Failure("42P03", f"There is a portal {name} already.")
        _require_room(self._portals)
        await self.close(portal=True, name=name)
        self._portals[name] = portal

    def portal(self, name: str) -> Portal:
        """Raises Failure."""
        found = self._portals.get(name)
        if found is None:
            raise Failure("34000", f"There is no portal {name or 'without a name'}.")
        return found

    async def close(self, *, portal: bool, name: str) -> None:
        """Forget a portal or a statement, if there is one."""
        if not portal:
            self._statements.pop(name, None)
        elif (found := self._portals.pop(name, None)) is not None:
            await found.close()

    def forget(self, name: str) -> bool:
        """Forget a statement, or with "" all. Returns whether there was one."""
        if not name:
            self._statements.clear()
        return self._statements.pop(name, None) is not None

    def cursor(self, name: str) -> Portal:
        """The portal of a cursor. Raises Failure."""
        found = self._portals.get(name)
        if found is None or found.cursor is None:
            raise Failure("34000", f'Cursor "{name}" does not exist.')
        return found

    async def close_cursors(self) -> None:
        """CLOSE ALL."""
        await self._close_where(lambda each: each.cursor is not None)

    async def clear(self, depth: int = 0) -> None:
        """Close the portals of the transaction; with `depth` those behind its savepoint of this
        number. Cursors that outlive their transaction stay."""
        await self._close_where(lambda each: not each.held and each.depth >= depth)

    def released(self, depth: int) -> None:
        """RELEASE has left `depth` savepoints."""
        for each in self._portals.values():
            each.depth = min(each.depth, depth)

    async def keep(self) -> None:
        """Read the rows of cursors WITH HOLD, and close the other portals of the transaction,
        before it commits. Raises Failure."""
        for portal in self._portals.values():
            if (each := portal.cursor) is not None and each.hold and not each.held:
                await each.keep(self.room)
        await self._close_where(lambda each: each.cursor is None or not each.cursor.hold)

    @property
    def room(self) -> int:
        """Number of rows that cursors WITH HOLD may still keep."""
        found = [each.cursor for each in self._portals.values()]
        return MAX_HELD - sum(each.kept for each in found if each is not None)

    def committed(self) -> None:
        """The transaction has committed: cursors WITH HOLD outlive it."""
        for each in self._portals.values():
            if each.cursor is not None:
                each.cursor.held = True

    async def _close_where(self, ends: Callable[[Portal], bool]) -> None:
        for name, portal in list(self._portals.items()):
            if ends(portal):
                del self._portals[name]
                await portal.close()


def _require_room(named: dict[str, Any]) -> None:
    if len(named) >= MAX_NAMED:
        raise Failure("54000", f"A session has at most {MAX_NAMED} of them. Close some.")


def _format(formats: Sequence[int], number: int) -> int:
    if len(formats) > 1:
        return formats[number] if number < len(formats) else 0
    return formats[0] if formats else 0


def _type(oids: Sequence[int], number: int) -> int:
    return oids[number] if number < len(oids) else 0
