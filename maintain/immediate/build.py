"""Builds of immediate views while transactions write.

From the change of the catalog on, transactions count in the cells of their lanes what they change.
A build adds what was there before, as cells of the base lane: at its snapshot T, the base lane is
the view over the base relations minus the sums over all other lanes. All of it has one T, because
the lanes count everything up to T.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from zlib import crc32

from hornbeam_server.maintain.immediate.program import ImmediateProgram, Sums, compile_immediate
from hornbeam_server.maintain.immediate.projected import ProjectedProgram, compile_projected
from hornbeam_server.maintain.indexes import compile_index
from hornbeam_server.maintain.paths import BaseRows
from hornbeam_server.schema.catalog import Catalog, ImmediateView, cells_of_index
from hornbeam_server.schema.turns import chunks, turn
from hornbeam_server.schema.types import Row, Value
from hornbeam_server.storage.codec.folds import BASE_LANE, minus, require_within_lane
from hornbeam_server.storage.codec.rows import Codecs, LayoutCodec
from hornbeam_server.storage.ports import TOMBSTONE, Put
from hornbeam_server.storage.snapshot import RowReader

MAX_GROUPS = 500_000
"""Groups that a build holds in memory. A view with more groups is built in several passes over its
relations."""


class _TooManyGroups(Exception):
    pass


async def built_puts(
    catalog: Catalog, codecs: Codecs, reader: RowReader, name: str
) -> AsyncGenerator[dict[str, list[Put]], None]:
    """The rows or cells of an immediate view, or of an index on one, as of `reader`, by table, to
    be put at its timestamp. Raises the reader's errors."""
    view = catalog.transactional_view[catalog.layout(name).source]
    if isinstance(view, ImmediateView):
        whole = compile_immediate(view, catalog)
        only = whole.contribution.only(cells_of_index(name))
        puts = base_cells(replace(whole, contribution=only), codecs, reader)
    else:
        puts = _projected_rows(compile_projected(view, catalog), catalog, codecs, reader, name)
    async with aclosing(puts) as batches:
        async for batch in batches:
            yield batch


async def _projected_rows(
    program: ProjectedProgram, catalog: Catalog, codecs: Codecs, reader: RowReader, name: str
) -> AsyncGenerator[dict[str, list[Put]], None]:
    """The rows of a view without aggregates, or of an index on it. A later change of a row wins
    over them by its timestamp."""
    codec = codecs(name)
    project = compile_index(catalog, codecs, name).project if name in catalog.index else None
    async with aclosing(program.all_rows(codecs, reader)) as batches:
        async for batch in batches:
            rows = batch if project is None else list(map(project, batch))
            yield {codec.layout.table: [Put(codec.key(row), codec.encode(row)) for row in rows]}


async def base_cells(
    program: ImmediateProgram, codecs: Codecs, reader: RowReader, most: int = MAX_GROUPS
) -> AsyncGenerator[dict[str, list[Put]], None]:
    """The cells of the base lane as of `reader`, by table, to be put at its timestamp. Raises the
    reader's errors."""
    async with aclosing(_passes(program, codecs, reader, most)) as passes:
        async for sums in passes:
            for some in chunks(list(sums.items())):
                puts: dict[str, list[Put]] = {}
                for (name, _), (group, amounts) in some:
                    codec = codecs(name)
                    put = _put(codec, (*group, BASE_LANE), amounts)
                    puts.setdefault(codec.layout.table, []).append(put)
                yield puts
                await turn(some)


async def _passes(
    program: ImmediateProgram, codecs: Codecs, reader: RowReader, most: int
) -> AsyncGenerator[Sums, None]:
    """The view over the base relations minus the sums over all lanes but the base lane, in passes
    with disjoint groups: as many that each has at most `most` cells, roughly."""
    number, of = 0, 1
    while number < of:
        try:
            limit = most if of == 1 else 8 * most
            sums = await _pass(program, codecs, reader, _Pass(number, of, limit))
        except _TooManyGroups:
            assert number == 0, "the passes are alike"
            of *= 2
            continue
        yield sums
        number += 1


def _put(codec: LayoutCodec, key: Row, amounts: Sequence[Value]) -> Put:
    require_within_lane(codec.layout, key, tuple(amounts))
    row = (*key, *amounts)
    return Put(codec.key(row), codec.encode(row) if any(amounts) else TOMBSTONE)


@dataclass(frozen=True, slots=True)
class _Pass:
    number: int
    of: int
    most: int

    def prune(self, sums: Sums) -> None:
        """Remove the groups of other passes. Raises _TooManyGroups."""
        if self.of > 1:
            for place in [p for p in sums if crc32(p[1]) % self.of != self.number]:
                del sums[place]
        if len(sums) > self.most:
            raise _TooManyGroups


async def _pass(program: ImmediateProgram, codecs: Codecs, reader: RowReader, this: _Pass) -> Sums:
    sums: Sums = {}
    key_values = codecs(program.fact).key_values
    async for batch in reader.scan(program.fact):
        for rows in chunks(batch):
            base = BaseRows(reader)
            keys = [key_values(row) for row in rows]
            for key, row in zip(keys, rows, strict=True):
                base.remember(program.fact, key, row)
            program.add((await program.rows(base, keys, BaseRows.before)).values(), 1, sums)
            await turn(rows)
        this.prune(sums)
    for cells in program.contribution.all_cells():
        at = codecs(cells.name).layout.key_positions[-1]
        async for stored in reader.scan(cells.name):
            for cell in stored:
                group, amounts = cell[:at], cell[at + 1 :]
                nothing = (group, list(cells.zero))
                known = sums.setdefault((cells.name, cells.key(group)), nothing)[1]
                if cell[at] != BASE_LANE:
                    known[:] = map(minus, known, amounts)
            this.prune(sums)
    return sums
