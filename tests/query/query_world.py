"""A small shop in memory: relations, with indexes and a view derived in Python, and a reader.

The reader sorts by the rules of the key encoding (NULL first, parts may descend) and nothing
else, so the tests of access paths do not depend on a store.
"""

from __future__ import annotations

import asyncio
import bisect
import datetime as dt
import functools
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from decimal import Decimal
from typing import Any

import duckdb

from hornbeam_server.query.dialect.duckdb_types import from_record_batch
from hornbeam_server.query.duckdb.scalar import evaluate
from hornbeam_server.query.duckdb.session import DuckSession
from hornbeam_server.query.workers.control import Options
from hornbeam_server.query.workers.pool import Workers
from hornbeam_server.schema.catalog import Catalog, Forest, Index, Layout, Purpose, State
from hornbeam_server.schema.model import Column, ForeignKey, KeyPart, Relation, Schema
from hornbeam_server.schema.types import ColumnType, Kind, Row, Value
from hornbeam_server.schema.views import JoinView, ViewColumn
from hornbeam_server.storage.codec.arrow import to_record_batch
from hornbeam_server.storage.codec.keyrange import KeyRange
from hornbeam_server.storage.snapshot import RowReader, RowVersion
from tests.duckdb_oracle import connect

UNINTERRUPTIBLE = "levenshtein(repeat('ab', 250000), repeat('ba', 250000))"
"""DuckDB looks for an interrupt only after this value, which takes minutes on any machine: it
has as many steps as the product of the lengths, 250 000 million."""
INTEGER = ColumnType(Kind.INTEGER)
TEXT = ColumnType(Kind.TEXT, length=40)
PRICE = ColumnType(Kind.DECIMAL, 10, 2)


def _column(name: str, type_: ColumnType, nullable: bool = True) -> Column:
    return Column(name, type_, nullable)


AUTHOR = Relation(
    "author",
    (
        _column("a_id", INTEGER, False),
        _column("a_name", TEXT),
        _column("a_born", ColumnType(Kind.DATE)),
    ),
    ("a_id",),
)
ITEM_AUTHOR = ForeignKey("item_author", ("i_a_id",), "author", ("a_id",))
ITEM = Relation(
    "item",
    (
        _column("i_id", INTEGER, False),
        _column("i_a_id", INTEGER),
        _column("i_title", TEXT),
        _column("i_subject", TEXT),
        _column("i_price", PRICE),
        _column("i_pub", ColumnType(Kind.DATE)),
    ),
    ("i_id",),
    (ITEM_AUTHOR,),
)
LINE_ITEM = ForeignKey("line_item", ("l_i_id",), "item", ("i_id",))
LINE = Relation(
    "line",
    (
        _column("l_o_id", INTEGER, False),
        _column("l_no", INTEGER, False),
        _column("l_i_id", INTEGER),
        _column("l_qty", INTEGER),
        _column("l_weight", ColumnType(Kind.DOUBLE)),
    ),
    ("l_o_id", "l_no"),
    (LINE_ITEM,),
)
SCHEMA = Schema((AUTHOR, ITEM, LINE))

VIEW = JoinView(
    "author_item",
    ("author", "item"),
    (ITEM_AUTHOR,),
    tuple(ViewColumn(c.name, r.name, c.name) for r in (AUTHOR, ITEM) for c in r.columns),
)
INDEXES = (
    Index(
        "item_subject",
        "item",
        (KeyPart("i_subject"), KeyPart("i_pub", True), KeyPart("i_title")),
        purpose=Purpose.FILTER,
    ),
    Index("item_i_a_id", "item", (KeyPart("i_a_id"),), purpose=Purpose.FOREIGN_KEY),
    Index("line_l_i_id", "line", (KeyPart("l_i_id"),), purpose=Purpose.FOREIGN_KEY),
    Index(
        "author_item_by_subject",
        "author_item",
        (KeyPart("i_subject"), KeyPart("i_title")),
        tuple(c.name for c in VIEW.columns),
        purpose=Purpose.VIEW,
    ),
    Index("author_item_by_name", "author_item", (KeyPart("a_name"),), purpose=Purpose.VIEW),
)


def make_catalog(
    *, version: int = 1, row_counts: dict[str, int] | None = None, readable: bool = True
) -> Catalog:
    state = State.READABLE if readable else State.BUILDING
    counts = row_counts or {"author": 200, "item": 1000, "line": 5000}
    return Catalog(
        version,
        SCHEMA,
        Forest(("author", "line"), (("item", ITEM_AUTHOR),)),
        (VIEW,),
        INDEXES,
        tuple((thing.name, state) for thing in (VIEW, *INDEXES)),
        row_counts=tuple(counts.items()),
    )


Data = dict[str, list[Row]]


def derive(catalog: Catalog, base: Data) -> Data:
    """Return `base` with the rows of all views and indexes, derived by plain loops."""
    authors = {row[0]: row for row in base["author"]}
    data = dict(base)
    data["author_item"] = [authors[row[1]] + row for row in base["item"] if row[1] in authors]
    for index in catalog.indexes:
        layout, source = catalog.layout(index.name), catalog.layout(index.on)
        places = [source.positions[name] for name in layout.column_names]
        data[index.name] = [tuple(row[i] for i in places) for row in data[index.on]]
    return data


def _compare(left: Any, right: Any) -> int:
    if left is None or right is None:
        return (left is not None) - (right is not None)
    return (left > right) - (left < right)


class MemoryReader(RowReader):
    """A reader over rows in memory, sorted by key. `reads` records every read.

    An answer with `room` holds at most `part` rows.
    """

    def __init__(
        self, catalog: Catalog, base: Data, batch: int = 64, part: int | None = None
    ) -> None:
        self.part = part
        self.catalog = catalog
        self.batch = batch
        self.reads: list[tuple[str, str, int]] = []
        self.data = {
            name: sorted(rows, key=functools.partial(self._key, catalog.layout(name)))
            for name, rows in derive(catalog, base).items()
        }

    def _key(self, layout: Layout, row: Row) -> Any:
        return _Key(tuple(row[i] for i in layout.key_positions), layout)

    async def get(
        self, layout: str, keys: Sequence[tuple[Any, ...]], *, room: int | None = None
    ) -> list[RowVersion | None]:
        if room is not None:
            keys = keys[: self.part]
        self.reads.append(("get", layout, len(keys)))
        found = [self._under(layout, key) for key in keys]
        return [RowVersion(b"", 1, rows[0]) if rows else None for rows in found]

    async def prefixes(
        self, layout: str, prefixes: Sequence[tuple[Any, ...]], *, room: int | None = None
    ) -> list[list[RowVersion]]:
        self.reads.append(("prefixes", layout, len(prefixes)))
        groups = [[RowVersion(b"", 1, r) for r in self._under(layout, p)] for p in prefixes]
        if room is None or self.part is None:
            return groups
        sizes = itertools.accumulate(map(len, groups))
        return list(itertools.compress(groups, (size <= self.part for size in sizes)))

    async def scan(
        self,
        layout: str,
        key_range: KeyRange = KeyRange(),
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> AsyncIterator[list[Row]]:
        rows = [
            r for r in self._under(layout, key_range.prefix) if self._inside(layout, key_range, r)
        ]
        rows = rows[::-1] if reverse else rows
        rows = rows[:limit]
        for start in range(0, len(rows), self.batch):
            batch = rows[start : start + self.batch]
            self.reads.append(("scan", layout, len(batch)))
            yield batch

    def _under(self, name: str, prefix: tuple[Any, ...]) -> list[Row]:
        layout = self.catalog.layout(name)
        key = _Key(prefix, layout)
        rows = self.data[name]
        start = bisect.bisect_left(rows, key, key=functools.partial(self._key, layout))
        same = lambda row: self._key(layout, row).values[: len(prefix)] == prefix  # noqa: E731
        return list(itertools.takewhile(same, itertools.islice(rows, start, None)))

    def _inside(self, name: str, key_range: KeyRange, row: Row) -> bool:
        if key_range.low is None and key_range.high is None:
            return True
        layout = self.catalog.layout(name)
        value: Any = row[layout.key_positions[len(key_range.prefix)]]
        if value is None:
            return False
        low: Any = key_range.low
        high: Any = key_range.high
        above = low is None or value > low or (key_range.low_inclusive and value == low)
        return above and (
            high is None or value < high or (key_range.high_inclusive and value == high)
        )


@functools.total_ordering
class _Key:
    def __init__(self, values: tuple[Any, ...], layout: Layout) -> None:
        self.values = values
        self.layout = layout

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self.values == other.values

    def __hash__(self) -> int:
        return hash(self.values)

    def __lt__(self, other: _Key) -> bool:
        for part, left, right in zip(self.layout.key, self.values, other.values, strict=False):
            order = _compare(left, right)
            if order:
                return (order > 0) is part.descending
        return len(self.values) < len(other.values)


def oracle(
    base: Data, connection: duckdb.DuckDBPyConnection | None = None
) -> duckdb.DuckDBPyConnection:
    """Load the base relations into DuckDB."""
    connection = connection or connect()
    for relation in SCHEMA.relations:
        batch = to_record_batch(relation.columns, base[relation.name])
        connection.register("incoming", batch)
        connection.execute(f"CREATE OR REPLACE TABLE {relation.name} AS SELECT * FROM incoming")
        connection.unregister("incoming")
    return connection


def ask(connection: duckdb.DuckDBPyConnection, sql: str, parameters: Any = ()) -> list[Row]:
    relation = connection.sql(sql, params=parameters or None)
    batches = relation.to_arrow_table().to_batches()
    return [row for batch in batches for row in from_record_batch(batch)]


def assert_answered(sql: str, found: list[Row], wanted: list[Row], shown: object) -> None:
    """Assert equal rows, in equal order if `sql` orders them; a failure shows `shown`."""
    if "ORDER BY" in sql and "OVER" not in sql:
        assert found == wanted, shown
    else:
        assert Counter(found) == Counter(wanted), shown


def sample(authors: int = 20, items: int = 120, lines: int = 400) -> Data:
    """Return deterministic data with NULLs, ties and unmatched keys."""
    subjects = ["art", "biography", "cooking", None, "x'y%"]
    day = dt.date(2020, 1, 1)
    return {
        "author": [
            (i, None if i % 7 == 0 else f"name{i % 5}", None if i % 4 == 0 else day)
            for i in range(authors)
        ],
        "item": [
            (
                i,
                None if i % 11 == 0 else i % authors,
                None if i % 6 == 0 else f"title {i * 37 % 50:02}",
                subjects[i % len(subjects)],
                None if i % 9 == 0 else Decimal(i * 7 % 100) / 4,
                None if i % 5 == 3 else day + dt.timedelta(days=i % 3),
            )
            for i in range(items)
        ],
        "line": [
            (i // 4, i % 4, None if i % 13 == 0 else i * 5 % items, i % 8, float(i % 10) / 3)
            for i in range(lines)
        ],
    }  # fmt: skip


def evaluated(*given: Any) -> list[Value]:
    """Return the result of `query.duckdb.scalar.evaluate`."""
    return evaluated_all([given])[0]


def evaluated_all(calls: Sequence[Sequence[Any]]) -> list[list[Value]]:
    """Return the results of several calls of `evaluate`, run by one worker."""

    async def run() -> list[list[Value]]:
        workers = Workers(Options(threads=1))
        try:
            async with DuckSession(workers) as session:
                return [
                    await session.evaluate(lambda given=given: evaluate(*given)) for given in calls
                ]
        finally:
            workers.close()

    return asyncio.run(run())
