"""Builds of immediate views while transactions write.

From the change of the catalog on, transactions count in the cells of their lanes what they change.
A build adds what was there before, as cells of the base lane: at its snapshot T, the base lane is
the view over the base relations minus the sums over all other lanes. All of it has one T, because
the lanes count everything up to T.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from zlib import crc32

from hornbeam_server.maintain.immediate.program import (
    Cells,
    ImmediateProgram,
    Sums,
    compile_immediate,
)
from hornbeam_server.maintain.immediate.projected import ProjectedProgram, compile_projected
from hornbeam_server.maintain.indexes import compile_index
from hornbeam_server.schema.catalog import Catalog, cells_of_index
from hornbeam_server.schema.turns import chunks, turn
from hornbeam_server.schema.types import Row, Value
from hornbeam_server.schema.views import ImmediateView
from hornbeam_server.storage.codec.folds import BASE_LANE, minus, require_within_lane
from hornbeam_server.storage.codec.rows import Codecs, LayoutCodec
from hornbeam_server.storage.ports import TOMBSTONE, Put
from hornbeam_server.storage.snapshot import RowReader

MAX_GROUPS = 500_000
"""Groups that a build holds in memory. A view with more groups is built in several passes over its
relations."""


Progress = Callable[[int, int], None]
"""Called with the rows of the fact that this pass and those before it have read, and the number
of passes in all."""


class _TooManyGroups(Exception):
    pass


async def built_puts(
    catalog: Catalog, codecs: Codecs, reader: RowReader, name: str, progress: Progress
) -> AsyncGenerator[dict[str, list[Put]], None]:
    """The rows or cells of an immediate view, or of an index on one, as of `reader`, by table, to
    be put at its timestamp. Raises the reader's errors."""
    view = catalog.transactional_view[catalog.layout(name).source]
    if isinstance(view, ImmediateView):
        whole = compile_immediate(view, catalog)
        only = whole.contribution.only(cells_of_index(name))
        program = replace(whole, contribution=only)
        puts = base_cells(program, codecs, reader, progress=progress)
    else:
        plain = compile_projected(view, catalog)
        puts = _projected_rows(plain, catalog, codecs, reader, name, progress)
    async with aclosing(puts) as batches:
        async for batch in batches:
            yield batch


async def _projected_rows(
    program: ProjectedProgram,
    catalog: Catalog,
    codecs: Codecs,
    reader: RowReader,
    name: str,
    progress: Progress,
) -> AsyncGenerator[dict[str, list[Put]], None]:
    """The rows of a view without aggregates, or of an index on it. A later change of a row wins
    over them by its timestamp."""
    codec = codecs(name)
    project = compile_index(catalog, codecs, name).project if name in catalog.index else None
    rows_of_view = program.all_rows(codecs, reader, lambda count: progress(count, 1))
    async with aclosing(rows_of_view) as batches:
        async for batch in batches:
            rows = batch if project is None else list(map(project, batch))
            yield {codec.layout.table: [Put(codec.key(row), codec.encode(row)) for row in rows]}


async def base_cells(
    program: ImmediateProgram,
    codecs: Codecs,
    reader: RowReader,
    most: int = MAX_GROUPS,
    progress: Progress = lambda _rows, _passes: None,
) -> AsyncGenerator[dict[str, list[Put]], None]:
    """The cells of the base lane as of `reader`, by table, to be put at its timestamp. Raises the
    reader's errors, and LimitExceeded for a sum out of its range."""
    async with aclosing(_passes(program, codecs, reader, most, progress)) as passes:
        async for sums in passes:
            for some in chunks(list(sums.items())):
                puts: dict[str, list[Put]] = {}
                for (name, _), (group, amounts) in some:
                    codec = codecs(name)
                    put = base_put(codec, group, amounts)
                    puts.setdefault(codec.layout.table, []).append(put)
                yield puts
                await turn(some)


def base_put(codec: LayoutCodec, group: Row, amounts: Sequence[Value]) -> Put:
    """The put of a cell of the base lane. `group` are the columns before the lane. Raises
    LimitExceeded for a sum out of its range."""
    key = (*group, BASE_LANE)
    require_within_lane(codec.layout, key, tuple(amounts))
    row = (*key, *amounts)
    return Put(codec.key(row), codec.encode(row) if any(amounts) else TOMBSTONE)


async def add_rows(
    program: ImmediateProgram,
    codecs: Codecs,
    reader: RowReader,
    batch: Sequence[Row],
    sums: Sums,
) -> None:
    """Add to `sums` what rows of the fact contribute to the view."""
    key_values = codecs(program.fact).key_values
    for rows in chunks(batch):
        program.add(await program.joined_to(rows, key_values, reader), 1, sums)
        await turn(rows)


def subtract_lanes(cells: Cells, at: int, stored: Iterable[Row], sums: Sums) -> None:
    """Subtract from `sums` the amounts of `stored` cells of one layout, except those of the base
    lane, which the build writes again. `at` is the position of the lane."""
    for cell in stored:
        group, amounts = cell[:at], cell[at + 1 :]
        known = sums.setdefault((cells.name, cells.key(group)), (group, list(cells.zero)))[1]
        if cell[at] != BASE_LANE:
            known[:] = map(minus, known, amounts)


async def _passes(
    program: ImmediateProgram, codecs: Codecs, reader: RowReader, most: int, progress: Progress
) -> AsyncGenerator[Sums, None]:
    """The view over the base relations minus the sums over all lanes but the base lane, in passes
    with disjoint groups: as many that each has at most `most` cells, roughly."""
    number, of, read = 0, 1, 0
    while number < of:
        this = _Pass(number, of, most if of == 1 else 8 * most, read)
        try:
            sums, read = await _pass(program, codecs, reader, this, progress)
        except _TooManyGroups:
            assert number == 0, "the passes are alike"
            of *= 2
            continue
        yield sums
        number += 1


@dataclass(frozen=True, slots=True)
class _Pass:
    number: int
    of: int
    most: int
    read: int
    """Rows that the passes before it have read."""

    def prune(self, sums: Sums) -> None:
        """Remove the groups of other passes. Raises _TooManyGroups."""
        if self.of > 1:
            for place in [p for p in sums if crc32(p[1]) % self.of != self.number]:
                del sums[place]
        if len(sums) > self.most:
            raise _TooManyGroups


async def _pass(
    program: ImmediateProgram, codecs: Codecs, reader: RowReader, this: _Pass, progress: Progress
) -> tuple[Sums, int]:
    """The sums of one pass, and the rows that it and the passes before it have read."""
    sums: Sums = {}
    read = this.read
    async for batch in reader.scan(program.fact):
        await add_rows(program, codecs, reader, batch, sums)
        this.prune(sums)
        read += len(batch)
        progress(read, this.of)
    for cells in program.contribution.all_cells():
        at = codecs(cells.name).layout.key_positions[-1]
        async for stored in reader.scan(cells.name):
            subtract_lanes(cells, at, stored, sums)
            this.prune(sums)
    return sums, read
