"""Which thing a name means: the FROM items of one SELECT, and those of the SELECTs around it.

Own resolver, not sqlglot's `qualify`: that one rewrites the tree it resolves, expands USING into
COALESCE, and knows no positions for its errors.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from schema.errors import UnknownName
from schema.types import ColumnType

ANONYMOUS = "?"
"""What the aliases that we give to items without one begin with; SQL cannot write it unquoted."""


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """One column of a result. `type` None: known only to whoever executes the query."""

    name: str
    type: ColumnType | None


@dataclass(frozen=True, slots=True)
class Item:
    """One thing in FROM. `columns` pairs the visible name with the name in `relation`.

    `relation` is set for relations and views of the catalog. `open`: it has columns whose names
    we do not know (a table function without column names, an unnamed expression).
    """

    alias: str
    columns: tuple[tuple[str, OutputColumn], ...]
    relation: str | None = None
    open: bool = False

    @property
    def name(self) -> str:
        """The alias by which SQL can call it, or ""."""
        return "" if self.alias.startswith(ANONYMOUS) else self.alias

    def find(self, name: str) -> OutputColumn | None:
        for visible, column in self.columns:
            if visible == name:
                return column
        return None


@dataclass(frozen=True, slots=True)
class Target:
    """What a column reference means: `column` of `item`, in the SELECT numbered `select`."""

    select: int
    item: Item
    column: OutputColumn


@dataclass
class Frame:
    """Names visible in one SELECT. `merged` maps a USING column to the item it is read from
    (None for FULL JOIN, where it is neither side's), and `dropped` holds the other sides."""

    select: int
    parent: Frame | None = None
    items: list[Item] = field(default_factory=list)
    merged: dict[str, Item | None] = field(default_factory=dict)
    dropped: set[tuple[str, str]] = field(default_factory=set)

    def around(self) -> Iterator[Frame]:
        frame: Frame | None = self
        while frame is not None:
            yield frame
            frame = frame.parent

    def item(self, alias: str) -> tuple[Frame, Item] | None:
        """The item called `alias`, innermost first."""
        for frame in self.around():
            for item in frame.items:
                if item.alias == alias:
                    return frame, item
        return None

    def local(self, name: str) -> list[Item]:
        """Items of this SELECT that an unqualified `name` could mean; more than one: ambiguous."""
        if name in self.merged:
            merged = self.merged[name]
            return [merged] if merged is not None else []
        return [
            item
            for item in self.items
            if item.find(name) is not None and (item.alias, name) not in self.dropped
        ]

    def star(self) -> Iterator[tuple[Item, str, OutputColumn]]:
        """Every visible column in the order of `*`; a USING column once, where it stood first."""
        for item in self.items:
            for visible, column in item.columns:
                if (item.alias, visible) in self.dropped:
                    continue
                source = self.merged.get(visible, item) or item
                yield source, visible, source.find(visible) or column

    def open(self) -> bool:
        return any(item.open for item in self.items)

    def visible(self) -> Iterator[str]:
        for frame in self.around():
            for item in frame.items:
                yield from (name for name, _ in item.columns)


def unknown(what: str, name: str, where: str, known: Iterable[str]) -> UnknownName:
    """The error for `name`, with near misses as the cure."""
    near = difflib.get_close_matches(name, sorted(set(known)), n=3, cutoff=0.6)
    cure = f"did you mean {' or '.join(near)}?" if near else ""
    return UnknownName(f"{what} {name} is unknown{where}", cure=cure, name=name, near=near)


def ambiguous(name: str, where: str, items: Sequence[Item]) -> UnknownName:
    choices = [f"{item.alias}.{name}" for item in items]
    return UnknownName(
        f"column {name} is ambiguous{where}",
        cure=f"write {' or '.join(choices)}",
        name=name,
        near=choices,
    )
