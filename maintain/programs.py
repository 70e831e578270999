"""Maintenance programs: from the changes of a transaction to every stored row that changes.

Programs are compiled once per catalog version. A program is closures over positions, slices and
codecs; the code that runs per row never reads the catalog.

**Law.** For the state B before and B′ after a transaction, both satisfying the foreign keys:
`view(B)` with the view's mutations applied is `view(B′)`; the same for every index; and no
mutation has `old == new`. In short: incremental = recomputed.

**Algorithm**, for one view with path R1 … Rk (a view row is a *chain* of rows c1 … ck in which
each references the one before; it is keyed by ck):

1. *Affected keys* of Rk: a superset of the keys whose view row differs.

   - every changed row of Rk itself;
   - below an *in-place* update of Ri, i < k (its foreign key on the path is unchanged): the view
     rows that hold it, through the view's own key or an index over the view if one fits and may
     be read; otherwise as for a move;
   - below a *moved* row of Ri, i < k (its foreign key on the path changed, NULL included): all
     rows below it in B, level by level through base foreign keys.

   Inserts and deletes of Ri, i < k, need nothing: the rows below them were changed as well.

2. *Old view rows*: read from the view by key; or, when the view is still being built and may lack
   rows, by walking up in B. A row inserted into Rk has none.

3. *New view rows*: if the chain of the old one has only in-place updates, the old one with those
   slices replaced. Otherwise walk up from Rk's row in B′ (B and this transaction's own changes).

4. Emit the rows that differ, and the index rows that follow from (old, new).

Steps 2 and 3 are exact for any key, so the law needs only that step 1 misses none. Take ck whose
view row differs, ck itself unchanged, and let cj be the nearest changed row above it. The rows
between are unchanged, so they are below cj in B as in B′, and cj is in both states. If cj moved,
ck is found by descending from it. If not, and B has the view row, ck is found in the view. If B
has no view row, some ci above cj got a parent where it had none, which is a move, and ck is below
it in B, the rows between being updated in place at most. ∎

Reads are batched: one read per level on the way down; then, for each part of the affected keys
(`schema/turns.py`), one read of the view and one per level on the way up. A base row read for one
view serves the others. An update of an ancestor holds all view rows below it in memory.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from hornbeam_server.maintain.changes import Change, Mutation, make_mutation
from hornbeam_server.maintain.copies import CopyProgram, Draw, compile_copy
from hornbeam_server.maintain.immediate.program import (
    ImmediateProgram,
    Joined,
    StarProgram,
    compile_immediate,
)
from hornbeam_server.maintain.immediate.projected import ProjectedProgram, compile_projected
from hornbeam_server.maintain.indexes import IndexProgram, compile_index
from hornbeam_server.maintain.paths import BaseRows, JoinPath, Key, Level, compile_path
from hornbeam_server.maintain.ways import Way, way_into_view, way_to_children
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.intervals import identical
from hornbeam_server.schema.rows import projection
from hornbeam_server.schema.turns import chunks, made, turn
from hornbeam_server.schema.types import Row
from hornbeam_server.schema.views import JoinView
from hornbeam_server.storage.codec.rows import Codecs
from hornbeam_server.storage.snapshot import RowReader
from hornbeam_server.storage.together import all_settled

Pair = tuple[Row | None, Row | None]
"""A row before and after."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A relation or view as it is stored: its own rows and those of its indexes."""

    name: str
    key: Callable[[Row], bytes]
    indexes: tuple[IndexProgram, ...]

    def mutations(self, pairs: Iterable[Pair]) -> Iterator[Mutation]:
        for old, new in pairs:
            row = old if new is None else new
            if row is None or identical(old, new):
                continue
            yield make_mutation((self.name, self.key(row), old, new))
            for index in self.indexes:
                yield from index.mutations(old, new)


@dataclass(frozen=True, slots=True)
class Descent:
    """The access paths down from one level: to children, and directly to view rows if possible."""

    level: Level
    to_view: Way | None
    child: str
    to_children: Way

    def updated(self, changes: Mapping[Key, Change]) -> Iterator[tuple[Key, bool]]:
        """Keys of updated rows, each with True if its view rows are to be found directly, and
        with False if its children are to be found."""
        for key, change in changes.items():
            if change.old is not None and change.new is not None:
                yield key, self.to_view is not None and self.level.in_place(change)


@dataclass(frozen=True, slots=True, eq=False)
class ViewProgram:
    """Maintains one join view; see the module's algorithm."""

    stored: Stored
    path: JoinPath
    descents: tuple[Descent, ...]
    readable: bool

    async def pairs(self, base: BaseRows) -> list[Pair]:
        """The old and the new view row of every affected key."""
        keys, held = await self._affected(base)
        found: list[Pair] = []
        for some in chunks(list(keys)):
            of_some = {k: held[k] for k in some if k in held} if held else {}
            old = await self._old_rows(base, some, of_some)
            new = await self._new_rows(base, some, old)
            found += [(old.get(key), new.get(key)) for key in some]
            await turn(some)
        return found

    async def _affected(self, base: BaseRows) -> tuple[dict[Key, None], dict[Key, Row]]:
        """Affected keys of the last relation, and the view rows read on the way to them."""
        keys = dict.fromkeys(base.changes(self.path.last.relation))
        held: dict[Key, Row] = {}
        below: dict[Key, None] = {}
        for descent in self.descents:
            if not below and not base.changes(descent.level.relation):
                continue
            updated = await made(descent.updated(base.changes(descent.level.relation)))
            direct = [key for key, directly in updated if directly]
            if direct and descent.to_view is not None:
                way = descent.to_view
                for some in chunks(await way.rows(base.reader, direct)):
                    for row in some:
                        keys[key := way.key(row)] = None
                        if way.layout == self.stored.name:
                            held[key] = row
                    await turn(some)
            below.update((key, None) for key, directly in updated if not directly)
            below = await self._children(base, descent, below)
        return keys | below, held

    async def _children(
        self, base: BaseRows, descent: Descent, above: Mapping[Key, None]
    ) -> dict[Key, None]:
        if not above:
            return {}
        way, child = descent.to_children, descent.child
        rows = await way.rows(base.reader, list(above))
        found: dict[Key, None] = {}
        for some in chunks(rows):
            for row in some:
                found[key := way.key(row)] = None
                if way.layout == child:
                    base.remember(child, key, row)
            await turn(some)
        return found

    async def _old_rows(
        self, base: BaseRows, keys: Iterable[Key], held: dict[Key, Row]
    ) -> dict[Key, Row]:
        last = self.path.last.relation
        changes = base.changes(last)
        asked = [
            key
            for key in keys
            if key not in held and ((change := changes.get(key)) is None or change.old is not None)
        ]
        if not asked:
            return held
        if self.readable:
            versions = await base.reader.get(self.stored.name, asked)
            found = {k: v.row for k, v in zip(asked, versions, strict=True) if v is not None}
            return held | found
        await base.fetch(last, asked)
        return held | await self.path.join(
            base, _present(asked, base.before(last)), BaseRows.before
        )

    async def _new_rows(
        self, base: BaseRows, keys: Iterable[Key], old: Mapping[Key, Row]
    ) -> dict[Key, Row]:
        touched = [level for level in self.path.levels if base.changes(level.relation)]
        patches = [(level, base.changes(level.relation)) for level in touched]
        last = self.path.last
        new: dict[Key, Row] = {}
        walk: list[Key] = []
        for key in keys:
            row = old.get(key)
            patched = None if row is None else _patched(row, patches)
            if patched is not None:
                new[key] = patched
                continue
            walk.append(key)
            if row is not None:
                base.remember(last.relation, key, row[last.start :])
        await base.fetch(last.relation, walk)
        rows = _present(walk, base.after(last.relation))
        return new | await self.path.join(base, rows, BaseRows.after)


def _patched(row: Row, patches: Sequence[tuple[Level, Mapping[Key, Change]]]) -> Row | None:
    """View row `row` after in-place updates of its chain; None if the chain itself changed."""
    for level, changes in patches:
        change = changes.get(level.key_in_view(row))
        if change is None:
            continue
        if change.new is None or not level.in_place(change):
            return None
        row = row[: level.start] + change.new + row[level.end :]
    return row


def _present(keys: Iterable[Key], look_up: Callable[[Key], Row | None]) -> dict[Key, Row]:
    return {key: row for key in keys if (row := look_up(key)) is not None}


class Programs:
    """All maintenance of one catalog version."""

    def __init__(
        self,
        keys: Mapping[str, Callable[[Row], Key]],
        relations: Mapping[str, Stored],
        views: Sequence[ViewProgram],
        immediate: Sequence[ImmediateProgram] = (),
        projected: Sequence[tuple[ProjectedProgram, Stored]] = (),
        copies: Sequence[CopyProgram] = (),
    ) -> None:
        self._keys = keys
        self._relations = relations
        self._copies = copies
        self._views = {
            relation: tuple(v for v in views if relation in v.path.relations)
            for relation in relations
        }
        stars: list[StarProgram] = [*immediate, *(program for program, _ in projected)]
        self.adds = bool(stars)
        """Are there immediate views?"""
        self._immediate = {
            relation: tuple(v for v in stars if relation in v.relations) for relation in relations
        }
        self._projected = {
            relation: tuple(v for v in projected if relation in v[0].relations)
            for relation in relations
        }

    async def mutations(
        self,
        changes: Sequence[Change],
        reader: RowReader,
        *,
        remote: bool = False,
        draw: Draw | None = None,
    ) -> list[Mutation]:
        """One mutation for every stored row that `changes` change, in relations, views, indexes,
        and in copies, unless `draw` is None.

        `changes` are the net changes of one transaction, unique per relation and key; `reader` is
        the committed state before it. `remote`: its reads wait for another machine, so those of all
        views are sent side by side. `draw` takes the numbers of rows of copies. Raises the errors
        of the reader, of `draw` and of rows that do not fit a copy.
        """
        base = BaseRows(reader, await self._by_key(changes))
        found: list[Mutation] = []
        for name, changed in base.changed.items():
            pairs = ((change.old, change.new) for change in changed.values())
            found += await made(self._relations[name].mutations(pairs))
        if draw is not None:
            found += await self._copied(base, draw)
        # A view over several changed relations is run once, over all of their changes.
        views = dict.fromkeys(view for name in base.changed for view in self._views[name])
        stars = dict.fromkeys(view for name in base.changed for view in self._projected[name])
        works: list[Callable[[], Awaitable[list[Pair]]]] = [
            *(partial(view.pairs, base) for view in views),
            *(partial(program.pairs, base) for program, _ in stars),
        ]
        kept = (*(view.stored for view in views), *(stored for _, stored in stars))
        if remote:
            read = await all_settled([work() for work in works])
            for stored, of_view in zip(kept, read, strict=True):
                found += await made(stored.mutations(of_view))
        else:
            for stored, work in zip(kept, works, strict=True):
                found += await made(stored.mutations(await work()))
        return found

    async def _copied(self, base: BaseRows, draw: Draw) -> list[Mutation]:
        """The mutations of copies of relations."""
        found: list[Mutation] = []
        for program in self._copies:
            changes = base.changes(program.copy.relation).values()
            found += await program.mutations(changes, draw)
        return found

    async def joined(
        self, changes: Sequence[Change], reader: RowReader, *, remote: bool = False
    ) -> list[Joined]:
        """What `changes` change in immediate views. The arguments are those of `mutations`."""
        programs = self._adding(changes)
        if not programs:
            return []
        base = BaseRows(reader, await self._by_key(changes))
        if remote:
            return await all_settled([program.joined(base) for program in programs])
        return [await program.joined(base) for program in programs]

    def _adding(self, changes: Sequence[Change]) -> list[StarProgram]:
        """The programs of the immediate views over the changed relations."""
        relations = dict.fromkeys(change.relation for change in changes)
        return list(dict.fromkeys(p for name in relations for p in self._immediate[name]))

    def adds_rows_of(self, relation: str) -> bool:
        """Do immediate views add up rows of the relation?"""
        return bool(self._immediate[relation])

    def sources(self, relations: Iterable[str]) -> set[str]:
        """The relations and views whose rows, or whose indexes' rows, may differ after changes of
        `relations`."""
        found: set[str] = set()
        for relation in relations:
            found.add(relation)
            found.update(view.stored.name for view in self._views[relation])
            found.update(program.name for program in self._immediate[relation])
        return found

    async def _by_key(self, changes: Sequence[Change]) -> dict[str, dict[Key, Change]]:
        by_key: dict[str, dict[Key, Change]] = {}
        for some in chunks(changes):
            for change in some:
                row = change.old if change.new is None else change.new
                if row is None or identical(change.old, change.new):
                    continue
                key = self._keys[change.relation](row)
                of_relation = by_key.setdefault(change.relation, {})
                assert key not in of_relation, f"{change.relation}: two changes of one row"
                of_relation[key] = change
            await turn(some)
        return by_key


def compile_programs(catalog: Catalog, codecs: Codecs) -> Programs:
    """Compile all base relations, and all views and indexes that commits must maintain."""
    names = catalog.schema.names
    return Programs(
        {name: projection(catalog.layout(name).key_positions) for name in names},
        {name: stored_of(catalog, codecs, name) for name in names},
        [_view(catalog, codecs, v) for v in catalog.views if catalog.maintained(v.name)],
        [
            compile_immediate(view, catalog)
            for view in catalog.immediate
            if catalog.maintained(view.name)
        ],
        [
            (compile_projected(view, catalog), stored_of(catalog, codecs, view.name))
            for view in catalog.projected
            if catalog.maintained(view.name)
        ],
        [compile_copy(catalog, codecs, copy) for copy in catalog.copies],
    )


def stored_of(catalog: Catalog, codecs: Codecs, name: str) -> Stored:
    """A relation or view with all its indexes that commits must maintain."""
    indexes = (index.name for index in catalog.indexes_on(name))
    kept = tuple(compile_index(catalog, codecs, i) for i in indexes if catalog.maintained(i))
    return Stored(name, codecs(name).key, kept)


def _view(catalog: Catalog, codecs: Codecs, view: JoinView) -> ViewProgram:
    path = compile_path(catalog, view)
    descents = (
        Descent(
            path.levels[i],
            way_into_view(catalog, view, i),
            view.path[i + 1],
            way_to_children(catalog, view.path[i + 1], edge),
        )
        for i, edge in enumerate(view.edges)
    )
    stored = stored_of(catalog, codecs, view.name)
    return ViewProgram(stored, path, tuple(descents), catalog.readable(view.name))
