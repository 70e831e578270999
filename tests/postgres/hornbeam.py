"""Hornbeam's answers to the corpus, from an embedded database."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from hornbeam_server.node.database import Database
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import HornbeamError, Unsupported
from hornbeam_server.schema.types import REAL, ColumnType, Declared, Kind, Row
from tests.postgres.corpus import is_statement, statement
from tests.postgres.statements import ROWS, TABLES
from tests.txlayer.database_world import catalog_of, opened, run_all

BATCH = 64
"""Number of expressions that one statement asks."""
_UNKNOWN = re.compile(
    r"(Scalar|Table|Aggregate) Function with name|No function matches|no function"
)


@dataclass(frozen=True, slots=True)
class Found:
    """Kinds of a result (of a REAL its declared type) and its rows, or the error's message.
    `refused`: the error names what is not supported."""

    kinds: tuple[Kind | Declared | None, ...] = ()
    rows: tuple[Row, ...] = ()
    error: str | None = None
    refused: bool = False


@asynccontextmanager
async def database(folder: Path) -> AsyncIterator[Database]:
    """An embedded database with the tables of the corpus."""
    async with opened(folder, catalog_of(load_ddl(";".join(TABLES)))) as found:
        await run_all(found, *ROWS)
        yield found


async def answers(
    database: Database, cases: Sequence[str], alone: Collection[str] = ()
) -> dict[str, Found]:
    """The answer to each case. Expressions that are not `alone` are asked many at a time; where
    that fails, in halves."""
    found: dict[str, Found] = {}
    apart = {case for case in cases if is_statement(case) or case in alone}
    together = list(dict.fromkeys(case for case in cases if case not in apart))
    for case in filter(apart.__contains__, cases):
        found[case] = await _answer(database, statement(case))
    for start in range(0, len(together), BATCH):
        found |= await _together(database, together[start : start + BATCH])
    return found


async def _together(database: Database, cases: Sequence[str]) -> dict[str, Found]:
    if len(cases) == 1:
        return {cases[0]: await _answer(database, statement(cases[0]))}
    items = ", ".join(f"{case} AS c{i}" for i, case in enumerate(cases))
    found = await _answer(database, f"SELECT {items}")
    if found.error is None and len(found.rows) == 1:
        (row,) = found.rows
        return {
            case: Found((kind,), ((value,),))
            for case, kind, value in zip(cases, found.kinds, row, strict=True)
        }
    middle = len(cases) // 2
    first, second = cases[:middle], cases[middle:]
    return await _together(database, first) | await _together(database, second)


def _kind(type_: ColumnType | None) -> Kind | Declared | None:
    return type_ and (Declared.REAL if type_ == REAL else type_.kind)


async def _answer(database: Database, sql: str) -> Found:
    try:
        async with database.reads.query(sql) as result:
            rows = await result.stream.all()
            kinds = tuple(_kind(column.type) for column in result.stream.columns)
    except HornbeamError as error:
        refused = isinstance(error, Unsupported) or _UNKNOWN.search(error.message) is not None
        return Found(error=f"{error.code}: {error.message}", refused=refused)
    return Found(kinds, tuple(rows))
