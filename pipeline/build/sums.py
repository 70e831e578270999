"""The amounts in the cells of an immediate view, added up by Spark: those that should be stored, by
the rows of the relations, and those that are stored.

Executors read a part of the fact or of the cells each, with the program that transactions use
(`maintain/immediate/program.py`). So every value is computed by the same code, in the same types.
Spark only moves partial sums, by the place of a cell. Sums of counts and decimals are exact, and
`plus` commutes, so neither the parts nor the order matters. Groups and values never have to fit
into the memory of a process: a part sends off its sums before they are many, and Spark adds up on
disk where memory is short.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, NamedTuple
from zlib import crc32

from pyspark import RDD, Accumulator, SparkContext

from hornbeam_server.maintain.immediate.build import add_rows
from hornbeam_server.maintain.immediate.program import (
    Cells,
    ImmediateProgram,
    Sums,
    compile_immediate,
)
from hornbeam_server.pipeline.build.executor import REMEMBERED, pause
from hornbeam_server.pipeline.spark.export import Export
from hornbeam_server.schema.codec import decode_catalog
from hornbeam_server.schema.collector import settle_collector
from hornbeam_server.schema.errors import Corruption
from hornbeam_server.schema.types import Row
from hornbeam_server.storage.codec.folds import BASE_LANE, plus
from hornbeam_server.storage.codec.rows import Codecs, LayoutCodec
from hornbeam_server.storage.ports import Cell, TableStore
from hornbeam_server.storage.snapshot import RememberingSnapshot

MANY = 50_000
"""Sums that a task holds before it sends them off."""
CATALOGS = 4
"""Maximum number of views whose programs a process keeps."""
Place = tuple[str, bytes]
"""A layout of cells, and the encoded columns before the lane."""
NONE: tuple[Any, ...] = ()
"""No amounts: the same as amounts of 0."""


class Amounts(NamedTuple):
    """The amounts of one place: what the relations give, and what is stored. `group` are the
    columns before the lane."""

    group: Row
    expected: Sequence[Any]
    stored: Sequence[Any]

    def plus(self, other: Amounts) -> Amounts:
        return Amounts(
            self.group,
            _added(self.expected, other.expected),
            _added(self.stored, other.stored),
        )


def _added(a: Sequence[Any], b: Sequence[Any]) -> Sequence[Any]:
    return tuple(map(plus, a, b)) if a and b else a or b


@dataclass(frozen=True, slots=True)
class Part:
    """Keys of a layout from `start` to before `end` (None: to the last): the work of one task."""

    layout: str
    start: bytes
    end: bytes | None


@dataclass(frozen=True)
class Job:
    """Sums of the immediate view `view` as of `export`.

    `for_build`: cells of the base lane are left out, since the build writes them; damaged cells are
    errors. Otherwise they are skipped. `rows_per_s`: maximum of rows of the fact that each task
    reads a second. `scanned` counts rows of the fact.
    """

    export: Export
    view: str
    for_build: bool
    scanned: Accumulator[int]
    rows_per_s: float | None = None


def sums(context: SparkContext, job: Job, parts: Sequence[Part]) -> RDD[tuple[Place, Amounts]]:
    """The amounts of all places. Spark computes them when they are used."""
    found = context.parallelize(parts, len(parts)).flatMap(partial(part_sums, job))
    return found.reduceByKey(Amounts.plus, len(parts), spread)


def spread(place: Place) -> int:
    return crc32(place[1])


def program_of(export: Export, view: str) -> ImmediateProgram:
    """The program of an immediate view, without its indexes. Raises Unsupported."""
    return _program(export.catalog, view)


@lru_cache(maxsize=CATALOGS)
def _program(catalog: str, view: str) -> ImmediateProgram:
    model = decode_catalog(catalog.encode())
    whole = compile_immediate(model.immediate_view[view], model)
    return replace(whole, contribution=replace(whole.contribution, indexes=()))


def part_sums(job: Job, part: Part) -> Iterator[tuple[Place, Amounts]]:
    """The sums over one part. A place may occur several times. Runs in an executor. Raises the
    errors of the store, Corruption for an unreadable row, and SqlError."""
    settle_collector()
    with asyncio.Runner() as runner:
        batches = _part_sums(job, part)
        try:
            while (batch := runner.run(anext(batches, None))) is not None:
                yield from batch
        finally:
            runner.run(batches.aclose())


async def _part_sums(job: Job, part: Part) -> AsyncGenerator[list[tuple[Place, Amounts]], None]:
    program = program_of(job.export, job.view)
    store, codecs = job.export.open(), job.export.codecs()
    try:
        if part.layout == program.fact:
            async for sums in _expected(job, program, codecs, store, part):
                yield [(p, Amounts(group, made, NONE)) for p, (group, made) in sums.items()]
        else:
            cells = next(c for c in program.contribution.all_cells() if c.name == part.layout)
            async for sums in _stored(job, cells, codecs(part.layout), store, part):
                yield [(p, Amounts(group, NONE, found)) for p, (group, found) in sums.items()]
        job.export.require_kept()
    finally:
        await store.close()


async def _expected(
    job: Job, program: ImmediateProgram, codecs: Codecs, store: TableStore, part: Part
) -> AsyncGenerator[Sums, None]:
    """What the rows of the fact in a part contribute, in several portions."""
    at, codec = job.export.snapshot, codecs(program.fact)
    reader = RememberingSnapshot(store, codecs, at)
    sums: Sums = {}
    scanned = remembered = 0
    began = time.monotonic()
    async for cells in store.scan(codec.layout.table, part.start, part.end, at):
        job.export.require_kept()
        await add_rows(program, codecs, reader, codec.decode_all([c.value for c in cells]), sums)
        scanned += len(cells)
        job.scanned.add(len(cells))
        if scanned - remembered > REMEMBERED:
            reader.forget()
            remembered = scanned
        if len(sums) > MANY:
            yield sums
            sums = {}
        if job.rows_per_s is not None:
            await pause(scanned / job.rows_per_s - (time.monotonic() - began))
    yield sums


async def _stored(
    job: Job, cells: Cells, codec: LayoutCodec, store: TableStore, part: Part
) -> AsyncGenerator[Sums, None]:
    """What the cells in a part add up to, in several portions."""
    at = codec.layout.key_positions[-1]
    sums: Sums = {}
    async for found in store.scan(codec.layout.table, part.start, part.end, job.export.snapshot):
        job.export.require_kept()
        rows = (
            codec.decode_all([cell.value for cell in found])
            if job.for_build
            else sound_rows(codec, found)
        )
        for row in rows:
            group = row[:at]
            place = (cells.name, cells.key(group))
            known = sums.setdefault(place, (group, list(cells.zero)))[1]
            if not (job.for_build and row[at] == BASE_LANE):
                known[:] = map(plus, known, row[at + 1 :])
        if len(sums) > MANY:
            yield sums
            sums = {}
    yield sums


def sound_rows(codec: LayoutCodec, cells: Sequence[Cell]) -> Iterable[Row]:
    """The rows of cells that can be decoded and lie under their keys."""
    rows = codec.decode_keyed([(cell.key, cell.value) for cell in cells])
    if rows is not None:
        return rows
    return [row for cell in cells if (row := _sound_row(codec, cell)) is not None]


def _sound_row(codec: LayoutCodec, cell: Cell) -> Row | None:
    try:
        row = codec.decode(cell.value)
    except Corruption:
        return None
    return row if codec.key(row) == cell.key else None
