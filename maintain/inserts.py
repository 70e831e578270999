"""What is stored for a new row: its own row, and its rows in views and indexes, without old rows.

An insert is the simplest change. It only adds rows to views in which its relation is the last one:
a row below the new row would have referenced a row that did not exist (`programs.py` proves the
general case). These rows follow from the new row and its ancestors, which foreign keys name. The
*places* of a program number these rows. Place 0 is the new row; each other place is an ancestor.

A program stores exactly what `Programs.mutations` finds for the change from no row to the new row.
A relation whose changes need more than that has no program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from hornbeam_server.maintain.indexes import compile_index
from hornbeam_server.maintain.programs import Programs
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.model import ForeignKey
from hornbeam_server.schema.rows import Projection, projection
from hornbeam_server.schema.types import Row
from hornbeam_server.storage.codec.rows import Codecs
from hornbeam_server.storage.ports import Put, make_put

Found = Sequence[Row | None]
"""The rows at the places of a program; None for a row that does not exist."""


@dataclass(frozen=True, slots=True)
class Ancestor:
    """The row that the row at place `below` references by `foreign_key`. `reference` projects its
    key out of that row, and `key` encodes it."""

    below: int
    foreign_key: ForeignKey
    table: str
    reference: Projection
    key: Callable[[Row], bytes]
    decode: Callable[[bytes], Row]


@dataclass(frozen=True, slots=True)
class Target:
    """A layout that takes rows of its source. `project`, `key` and `holds` are those of an index.
    None: the rows are those of the source, their keys are those of the new rows, and the layout has
    all of them."""

    name: str
    table: str
    encode: Callable[[Row], bytes]
    long_bytes_of: Callable[[Sequence[Row]], int]
    project: Projection | None = None
    key: Callable[[Row], bytes] | None = None
    holds: Callable[[Row], bool] | None = None


class StoredRow(NamedTuple):
    """A row of a layout, and the put that stores it."""

    target: Target
    put: Put
    row: Row


class StoredPuts(NamedTuple):
    """Rows of a layout, and the puts that store them."""

    target: Target
    puts: list[Put]
    rows: list[Row]


Chain = Callable[[Found], Sequence[Any]]
"""The rows at some places, which together are a row of a layout."""


@dataclass(frozen=True, slots=True)
class InsertProgram:
    """What one new row of `relation` stores.

    `ancestors` are at the places from 1 on. `levels` are the places whose rows must be read, in
    steps: those of a step are found from the rows of earlier steps. `tree` are the places on the
    way to the root, whose row itself is not read for it. Each of `sources` has the rows that
    together are a row of a layout, and the layouts that store it: the relation itself with its
    indexes, then each view with its own.
    """

    relation: str
    ancestors: tuple[Ancestor, ...]
    levels: tuple[tuple[int, ...], ...]
    tree: tuple[int, ...]
    sources: tuple[tuple[Chain, tuple[Target, ...]], ...]

    def stored(self, key: bytes, found: Found) -> list[StoredRow]:
        """All rows that are stored, in the order of `Programs.mutations`, given the encoded key of
        the new row and the rows at all places that must be read. A chain with a missing row is in
        no view."""
        stored: list[StoredRow] = []
        for chain, targets in self.sources:
            parts = chain(found)
            if None in parts:
                continue
            row: Row = sum(parts, ())
            for target in targets:
                if target.holds is not None and not target.holds(row):
                    continue
                entry = row if target.project is None else target.project(row)
                own = key if target.key is None else target.key(entry)
                put = make_put((own, target.encode(entry)))
                stored.append(_stored((target, put, entry)))
        return stored

    def stored_all(self, keys: Sequence[bytes], found: Sequence[Found]) -> list[StoredPuts]:
        """`stored` for many new rows, by layout: `keys` are their encoded keys, and `found` has the
        rows at the places of each."""
        stored: list[StoredPuts] = []
        for chain, targets in self.sources:
            chains = [(key, chain(each)) for key, each in zip(keys, found, strict=True)]
            whole = [(key, sum(parts, ())) for key, parts in chains if None not in parts]
            for target in targets:
                holds, project, encode = target.holds, target.project, target.encode
                kept = whole if holds is None else [each for each in whole if holds(each[1])]
                rows: list[Row] = [row if project is None else project(row) for _, row in kept]
                own = [key for key, _ in kept] if target.key is None else map(target.key, rows)
                puts = list(map(make_put, zip(own, map(encode, rows), strict=True)))
                stored.append(StoredPuts(target, puts, rows))
        return stored


_stored: Callable[[tuple[Target, Put, Row]], StoredRow] = partial(tuple.__new__, StoredRow)
"""Makes a `StoredRow` from a tuple, in half the time of `StoredRow(…)`."""


def compile_insert(
    catalog: Catalog, codecs: Codecs, programs: Programs, relation: str
) -> InsertProgram | None:
    """The program of a relation; None if its rows are also added to immediate views, if they are
    being copied, or if they reference rows of their own relation, or rows by columns that are no
    primary key."""
    foreign_keys = catalog.schema.relation(relation).foreign_keys
    if (
        programs.adds_rows_of(relation)
        or any(copy.relation == relation for copy in catalog.copies)
        or any(fk.to_unique or fk.parent == relation for fk in foreign_keys)
    ):
        return None
    places = _Places(catalog, codecs, relation)
    for foreign_key in foreign_keys:
        places.at(0, foreign_key)
    own = _targets(catalog, codecs, relation)
    sources: list[tuple[Chain, tuple[Target, ...]]] = [(_chain((0,)), own)]
    for view in catalog.views:
        if view.last == relation and catalog.maintained(view.name):
            path = places.along(view.edges[::-1])
            chain = _chain((*path[::-1], 0))
            sources.append((chain, _targets(catalog, codecs, view.name)))
    tree = places.along(_to_root(catalog, relation), to_read=False)
    return InsertProgram(relation, tuple(places.ancestors), places.levels(), tree, tuple(sources))


def _chain(places: Sequence[int]) -> Chain:
    pick: Any = projection(places)
    found: Chain = pick
    return found


class _Places:
    """The places of a program while it is compiled."""

    def __init__(self, catalog: Catalog, codecs: Codecs, relation: str) -> None:
        self._catalog = catalog
        self._codecs = codecs
        self._known: dict[tuple[int, ForeignKey], int] = {}
        self._read: set[int] = set()
        self._relations = [relation]
        self.ancestors: list[Ancestor] = []

    def at(self, below: int, foreign_key: ForeignKey, *, to_read: bool = True) -> int:
        """The place of the row that the row at `below` references. `to_read`: it must be read."""
        place = self._known.get((below, foreign_key))
        if place is None:
            child = self._relations[below]
            self.ancestors.append(_ancestor(self._catalog, self._codecs, child, foreign_key, below))
            self._relations.append(foreign_key.parent)
            place = self._known[below, foreign_key] = len(self.ancestors)
        if to_read:
            self._read.add(place)
        return place

    def along(self, edges: Iterable[ForeignKey], *, to_read: bool = True) -> tuple[int, ...]:
        """The places on the way up along `edges`. `to_read`: the last one must be read, too."""
        path = [0]
        for edge in edges:
            if path[-1]:
                self._read.add(path[-1])
            path.append(self.at(path[-1], edge, to_read=to_read))
        return tuple(path[1:])

    def levels(self) -> tuple[tuple[int, ...], ...]:
        """The places to read, by the number of steps from the new row."""
        steps = [0]
        for ancestor in self.ancestors:
            steps.append(steps[ancestor.below] + 1)
        numbers = sorted({steps[place] for place in self._read})
        return tuple(tuple(p for p in sorted(self._read) if steps[p] == n) for n in numbers)


def _ancestor(
    catalog: Catalog, codecs: Codecs, child: str, foreign_key: ForeignKey, below: int
) -> Ancestor:
    relation = catalog.schema.relation(child)
    positions = [relation.positions[column] for column in foreign_key.columns]
    codec = codecs(foreign_key.parent)
    reference, key = projection(positions), codec.key_at(positions)
    return Ancestor(below, foreign_key, codec.layout.table, reference, key, codec.decode)


def way_to_root(catalog: Catalog, codecs: Codecs, relation: str) -> tuple[Ancestor, ...]:
    """The rows on the way from a row of `relation` to its root, each below the next."""
    found: list[Ancestor] = []
    for below, edge in enumerate(_to_root(catalog, relation)):
        found.append(_ancestor(catalog, codecs, relation, edge, below))
        relation = edge.parent
    return tuple(found)


def _to_root(catalog: Catalog, relation: str) -> Iterator[ForeignKey]:
    """The tree edges from a relation upwards."""
    while (edge := catalog.forest.parent.get(relation)) is not None:
        yield edge
        relation = edge.parent


def _targets(catalog: Catalog, codecs: Codecs, name: str) -> tuple[Target, ...]:
    """A relation or view, and its indexes."""
    indexes = (index.name for index in catalog.indexes_on(name))
    kept = (compile_index(catalog, codecs, i) for i in indexes if catalog.maintained(i))
    return (
        _target(codecs, name),
        *(
            replace(_target(codecs, i.name), project=i.project, key=i.key, holds=i.holds)
            for i in kept
        ),
    )


def _target(codecs: Codecs, name: str) -> Target:
    codec = codecs(name)
    return Target(name, codec.layout.table, codec.encode, codec.long_bytes_of)
