"""Builds of immediate views while transactions write.

From the change of the catalog on, transactions count in the cells of their lanes what they change.
A build adds what was there before, as cells of the base lane: at its snapshot T, the base lane is
the view over the base relations minus the sums over all other lanes. All of it has one T, because
the lanes count everything up to T.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from zlib import crc32

from hornbeam_server.maintain.immediate.program import ImmediateProgram, Sums
from hornbeam_server.maintain.paths import BaseRows
from hornbeam_server.schema.turns import chunks, turn
from hornbeam_server.schema.types import Row, Value
from hornbeam_server.storage.codec.folds import BASE_LANE, minus
from hornbeam_server.storage.codec.rows import Codecs, LayoutCodec
from hornbeam_server.storage.ports import TOMBSTONE, Put
from hornbeam_server.storage.snapshot import RowReader

MAX_GROUPS = 500_000
"""Groups that a build holds in memory. A view with more groups is built in several passes over its
relations."""


class _TooManyGroups(Exception):
    pass


async def base_cells(
    program: ImmediateProgram, codecs: Codecs, reader: RowReader, most: int = MAX_GROUPS
) -> AsyncGenerator[list[Put], None]:
    """The cells of the base lane as of `reader`, to be put at its timestamp. Raises the reader's
    errors."""
    passes = 1
    first: Sums | None = None
    while first is None:
        try:
            first = await _base(program, codecs, reader, passes, 0, most)
        except _TooManyGroups:
            passes *= 2
    codec, at = codecs(program.cells), 0
    while True:
        sums = first if not at else await _base(program, codecs, reader, passes, at, 8 * most)
        for some in chunks(list(sums.values())):
            yield [_put(codec, (*group, BASE_LANE), amounts) for group, amounts in some]
            await turn(some)
        at += 1
        if at == passes:
            return


def _put(codec: LayoutCodec, key: Row, amounts: Sequence[Value]) -> Put:
    cell = codec.encode((*key, *amounts)) if any(amounts) else TOMBSTONE
    return Put(codec.key_of(key), cell)


async def _base(
    program: ImmediateProgram, codecs: Codecs, reader: RowReader, passes: int, number: int, most: int
) -> Sums:
    """The amounts of the base lane by group, of the groups of pass `number` of `passes`.

    Raises _TooManyGroups for more than `most` groups.
    """
    sums: Sums = {}

    def check() -> None:
        if passes > 1:
            for key in [key for key in sums if crc32(key) % passes != number]:
                del sums[key]
        if len(sums) > most:
            raise _TooManyGroups

    key_values = codecs(program.fact).key_values
    async for batch in reader.scan(program.fact):
        for rows in chunks(batch):
            base = BaseRows(reader)
            keys = [key_values(row) for row in rows]
            for key, row in zip(keys, rows, strict=True):
                base.remember(program.fact, key, row)
            program.add((await program.joined(base, keys, BaseRows.before)).values(), 1, sums)
            await turn(rows)
        check()
    width = len(codecs(program.cells).layout.key) - 1
    async for cells in reader.scan(program.cells):
        for cell in cells:
            group, amounts = cell[:width], cell[width + 1 :]
            nothing = (group, list(program.zero))
            known = sums.setdefault(program.group_key(group), nothing)[1]
            if cell[width] != BASE_LANE:
                known[:] = map(minus, known, amounts)
        check()
    return sums
