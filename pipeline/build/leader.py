"""Builds as the node that leads has them: what is asked for, what is finished, and the exports that
builders read."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import msgspec

from hornbeam.errors import DatabaseError
from hornbeam.transport import Transport, persistently
from hornbeam_server.maintain.spans import Span
from hornbeam_server.pipeline.spark.export import POLL_S, Export, begin, begin_when, end
from hornbeam_server.schema.catalog import State
from hornbeam_server.schema.errors import NotFound


class Build(msgspec.Struct, frozen=True):
    """A build, as `/v1/builds` answers it."""

    name: str
    table: str
    source: str
    relation: str
    whole: bool
    state: State
    missing: list[tuple[str, str | None]]
    scanned: int
    total: int | None

    def spans(self) -> list[Span]:
        """The ranges of keys that are not built yet."""
        return [
            Span(bytes.fromhex(start), None if end is None else bytes.fromhex(end))
            for start, end in self.missing
        ]


@dataclass(frozen=True, slots=True)
class Group:
    """Views and indexes of one source, which are built together. `tables` are those of `names`."""

    relation: str
    names: tuple[str, ...]
    tables: tuple[str, ...]


class Over(Exception):
    """Another process has ended the build of a group, and it is readable."""


def begun(node: Transport, names: Sequence[str], *, rebuild: bool = False) -> list[Build]:
    """Request builds from the node, for this process to run; returns them. Raises DatabaseError."""
    if not names:
        return left(node)
    body = {"names": list(names), "rebuild": rebuild}
    return msgspec.convert(node.json("POST", "/v1/builds", body), list[Build])


def left(node: Transport) -> list[Build]:
    """The pending builds that nodes leave to an external process. Raises DatabaseError."""
    answer = persistently(lambda: node.json("GET", "/v1/builds"))
    return msgspec.convert(answer, list[Build])


class Leader:
    """The node that leads, asked through `node`."""

    def __init__(self, node: Transport) -> None:
        self._node = node

    def export(self, group: Group) -> Export:
        """An export whose catalog has the group's tables as being built, so that its snapshot is
        late enough (`pipeline.build.executor`). Raises Over, NotFound, and Unavailable if no node
        has that catalog for too long."""
        return begin_when(
            self._node,
            lambda export: _all(export, group, State.BUILDING),
            lambda: self.require_wanted(group),
        )

    def end(self, export: Export) -> None:
        """Release an export that nothing reads any more."""
        end(self._node, export)

    def finished(
        self,
        group: Group,
        span: Span,
        rows: Mapping[str, int] = MappingProxyType({}),
        scanned: int = 0,
    ) -> None:
        """Report a finished range to the node, which stores it. Raises Over, NotFound, and
        DatabaseError."""
        body = {
            "rows": dict.fromkeys(group.tables, 0) | dict(rows),
            "start": span.start.hex(),
            "end": None if span.end is None else span.end.hex(),
            "scanned": scanned,
        }
        try:
            persistently(lambda: self._node.json("POST", "/v1/built", body))
        except DatabaseError as error:
            if error.code == "not-found":
                self.require_wanted(group)
            raise

    def failed(self, table: str, error: str) -> None:
        """Report that the build of the immediate view in `table` has failed for good. Raises
        DatabaseError."""
        body = {"table": table, "error": error[:MAX_ERROR]}
        persistently(lambda: self._node.json("POST", "/v1/build_failures", body))

    def require_wanted(self, group: Group) -> None:
        """Raise Over when the group is readable, NotFound when its build was cancelled."""
        if self._tables().issuperset(group.tables):
            return
        export = persistently(lambda: begin(self._node))
        self.end(export)
        if _all(export, group, State.READABLE):
            raise Over
        if not _all(export, group, State.BUILDING):  # else the node's catalog is not up to date
            raise NotFound(
                f"{', '.join(group.names)} is not to be built any more: its build was cancelled, or"
                " the schema has changed.",
                cure="Look at hornbeam view list.",
            )

    def wait_readable(self, tables: set[str]) -> None:
        """Return when no build of these tables is left. Raises DatabaseError."""
        while self._tables() & tables:
            time.sleep(POLL_S)

    def _tables(self) -> set[str]:
        return {build.table for build in left(self._node)}


MAX_ERROR = 4_000
"""Characters of an error that a node accepts."""


def _all(export: Export, group: Group, state: State) -> bool:
    """Whether all members of the group are in this state, in the group's tables."""
    catalog = export.codecs().catalog
    return all(
        catalog.state.get(name) is state and catalog.layout(name).table == table
        for name, table in zip(group.names, group.tables, strict=True)
    )
