"""Name resolution: the FROM items of one SELECT and of the SELECTs around it.

This replaces sqlglot's `qualify`, which rewrites the tree, expands USING into COALESCE, and gives
no positions in its errors.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from hornbeam_server.schema.errors import UnknownName, capitalised
from hornbeam_server.schema.namespaces import SYSTEM_CATALOG
from hornbeam_server.schema.types import ColumnType

ANONYMOUS = "?"
"""Prefix of generated aliases for FROM items without an alias; unquoted SQL cannot contain it."""


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """One column of a result. `type` is None if only execution determines it. `number` is then the
    type of its numbers, if the syntax shows it, with room for all of them. `small`: its integers
    are SMALLINT. `fields`: the columns of the row that it is, which `ROW(…)` has made. `system`:
    PostgreSQL's name of the type of a column of a system relation, such as oid or char."""

    name: str
    type: ColumnType | None
    number: ColumnType | None = None
    small: bool = False
    fields: tuple[OutputColumn, ...] = ()
    system: str = ""

    @property
    def type_name(self) -> str:
        """The name of the type as it is declared: for a column of a system relation PostgreSQL's,
        such as pg_catalog.oid. "" if only execution determines the type."""
        if self.system:
            return f"{SYSTEM_CATALOG}.{self.system}"
        return "" if self.type is None else self.type.ddl()


@dataclass(frozen=True)
class Item:
    """One item of FROM. `columns` pairs the visible name with the name in `relation`.

    `relation` is set for relations and views of the catalog. `open`: the item has columns with
    unknown names (unnamed expressions). `hidden` columns resolve by name, but `*` omits them.
    `again` has the columns of a subquery whose name an earlier column has: the visible name, which
    is DuckDB's, and the name that `*` shows. `scalar`: the alias also means the one column, as it
    does for a function of PostgreSQL that gives values.
    """

    alias: str
    columns: tuple[tuple[str, OutputColumn], ...]
    relation: str | None = None
    open: bool = False
    hidden: tuple[tuple[str, OutputColumn], ...] = ()
    again: tuple[tuple[str, str], ...] = ()
    scalar: bool = False

    @cached_property
    def twice(self) -> frozenset[str]:
        """The names that several columns have."""
        visible = {name for name, _ in self.columns}
        return frozenset(name for _, name in self.again if name in visible)

    @cached_property
    def own_names(self) -> dict[str, str]:
        """The visible names of columns whose own name differs only in its case from another."""
        return {name: visible for visible, name in self.again if name not in self.twice}

    def shown(self, visible: str) -> str:
        """The name that `*` gives to a column."""
        return next((name for other, name in self.again if other == visible), visible)

    def written(self, visible: str) -> str:
        """The name of a column in the JSON of the row, which is that of the relation."""
        column = self.find(visible) if self.relation is not None else None
        return self.shown(visible) if column is None else column.name

    @property
    def name(self) -> str:
        """The alias by which SQL can refer to the item, or ""."""
        return "" if self.alias.startswith(ANONYMOUS) else self.alias

    def find(self, name: str) -> OutputColumn | None:
        wanted = self.own_names.get(name, name)
        for visible, column in (*self.columns, *self.hidden):
            if visible == wanted:
                return column
        return None


def derived_item(alias: str, columns: Sequence[tuple[str, OutputColumn]], *, open_: bool) -> Item:
    """The item of a subquery with `columns` under their names. Names need not differ: DuckDB adds
    a number to a name that an earlier column has."""
    visible = distinct([name for name, _ in columns])
    found = tuple(
        (name, replace(column, name=name))
        for name, (_, column) in zip(visible, columns, strict=True)
    )
    pairs = zip(visible, columns, strict=True)
    again = tuple((new, name) for new, (name, _) in pairs if new != name)
    return Item(alias, found, open=open_, again=again)


def distinct(names: Iterable[str]) -> list[str]:
    """The names by which DuckDB knows the columns of a subquery."""
    found: dict[str, str] = {}
    for name in names:
        free = (f"{name}_{number}" if number else name for number in itertools.count())
        new = next(each for each in free if each.lower() not in found)
        found[new.lower()] = new
    return list(found.values())


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a column reference: `column` of `item`, in the SELECT numbered `select`."""

    select: int
    item: Item
    column: OutputColumn


Place = tuple[str, str]
"""The alias of an item, and the visible name of one of its columns."""
_Placed = tuple[Place, tuple[Item, str, OutputColumn]]


@dataclass
class Frame:
    """The names visible in one SELECT. `merged` maps a USING column to the item that provides it
    (None for FULL JOIN, where neither side does). `dropped` holds the other sides."""

    select: int
    parent: Frame | None = None
    items: list[Item] = field(default_factory=list)
    merged: dict[str, Item | None] = field(default_factory=dict)
    dropped: set[tuple[str, str]] = field(default_factory=set)
    moves: list[tuple[frozenset[str], Sequence[Place]]] = field(default_factory=list)
    """For each join with USING or NATURAL, its items, and their columns that `*` shows first."""
    nullable: set[str] = field(default_factory=set)
    """The aliases of the items whose rows an outer join may not find."""
    behind_comma: int = 0
    """The place in `items` behind the last comma of FROM, across which no USING sees."""

    def around(self) -> Iterator[Frame]:
        frame: Frame | None = self
        while frame is not None:
            yield frame
            frame = frame.parent

    def item(self, alias: str) -> tuple[Frame, Item] | None:
        """The innermost item called `alias`, with its frame; None if there is none."""
        for frame in self.around():
            for item in frame.items:
                if item.alias == alias:
                    return frame, item
        return None

    def local(self, name: str) -> list[Item]:
        """Items of this SELECT that an unqualified `name` can mean; the name is ambiguous if there
        are several."""
        if name in self.merged:
            merged = self.merged[name]
            return [merged] if merged is not None else []
        return [
            item
            for item in self.items
            if item.find(name) is not None and (item.alias, name) not in self.dropped
        ]

    def knows(self, name: str) -> bool:
        """Is `name` a column of this SELECT's FROM?"""
        return name in self.merged or bool(self.local(name))

    def may_know(self, name: str) -> bool:
        """May `name` be a column of FROM here or around?"""
        return any(frame.knows(name) or frame.open() for frame in self.around())

    def star(self) -> Iterator[tuple[Item, str, OutputColumn]]:
        """Yield every visible column in the order of `*`: a join shows its USING columns first,
        each once, then the others of its left side, then those of its right side."""
        return (entry for _, entry in self._moved(self._in_order_of_from()))

    def is_reordered(self) -> bool:
        """Whether `*` has another order than the columns of the items have."""
        places = [place for place, _ in self._in_order_of_from()]
        moved = self._moved(self._in_order_of_from()) if self.moves else ()
        return bool(self.moves) and [place for place, _ in moved] != places

    def _in_order_of_from(self) -> Iterator[_Placed]:
        for item in self.items:
            for visible, column in item.columns:
                if (item.alias, visible) in self.dropped:
                    continue
                source = self.merged.get(visible, item) or item
                yield (item.alias, visible), (source, visible, source.find(visible) or column)

    def _moved(self, placed: Iterable[_Placed]) -> list[_Placed]:
        found = list(placed)
        for aliases, first in self.moves:
            joined = [each for each in found if each[0][0] in aliases]
            ahead = [each for place in first for each in joined if each[0] == place]
            behind = [each for each in joined if each[0] not in first]
            start = found.index(joined[0])
            found[start : start + len(joined)] = [*ahead, *behind]
        return found

    def open(self) -> bool:
        return any(item.open for item in self.items)

    def visible(self) -> Iterator[str]:
        for frame in self.around():
            for item in frame.items:
                yield from (name for name, _ in item.columns)


def unknown(what: str, name: str, where: str, known: Iterable[str]) -> UnknownName:
    """The error for an unknown `name`, with similar names as the cure."""
    near = difflib.get_close_matches(name, sorted(set(known)), n=3, cutoff=0.6)
    cure = f"Did you mean {' or '.join(near)}?" if near else ""
    return UnknownName(
        f"{capitalised(what)} {name} is unknown{where}.", cure=cure, name=name, near=near
    )


def ambiguous(name: str, where: str, items: Sequence[Item]) -> UnknownName:
    choices = [f"{item.alias}.{name}" for item in items]
    return UnknownName(
        f"Column {name} is ambiguous{where}.",
        cure=f"Write {' or '.join(choices)}.",
        name=name,
        near=choices,
    )
