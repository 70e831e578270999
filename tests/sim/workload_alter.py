"""Relations that are altered while clients write them.

Two relations, at home in red and in blue, exchange names with each other, and with green ones that
come and go under the names that are free. Columns are added, dropped and renamed, get another type
or number the rows, and rows move under another key (all rows are then written again). NOT NULL,
CHECK, UNIQUE and a foreign key come and go. One
client administers, through the planner as the statements of the client do. The others write by the
names that they know, which may mean another relation, or nothing any more.

Each relation says by the default of a column where its rows are at home, and by another default
whether a row counts. So a row that is found in another relation shows, and the answers of all
statements, and the changes in the logs, add up to the rows that are there.

Readers check at every snapshot: the rows of a relation are at home there; a column of changing type
is the half of another one; no two rows have the same number; the views are what they say, and so
are the constraints in force.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

from hornbeam_server.node.alterations import altered
from hornbeam_server.node.database import Database
from hornbeam_server.node.schema_plans import PlanRequest, plan_schema
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.ddl import render_ddl
from hornbeam_server.schema.errors import ConstraintViolation, InvalidRequest, StalePlan
from hornbeam_server.schema.model import Relation
from hornbeam_server.schema.types import Kind, Row
from hornbeam_server.storage.log.records import commits
from hornbeam_server.txlayer.ddl.claim import NO_CATALOG
from hornbeam_server.txlayer.statements.requests import Statement
from tests.sim.builds import require_built
from tests.sim.oracle import every_batch
from tests.sim.simulated_cluster import Cluster
from tests.sim.simulation import Client, Journal

NAMES = ("a", "b", "c", "d")
"""The names that relations change."""
KEYS = 24
MARKS = 12
SMALL = 40
"""The CHECK allows values of `twice` below this."""
_TABLE = """
CREATE TABLE {name} (
  k INTEGER PRIMARY KEY, n INTEGER NOT NULL, twice INTEGER NOT NULL, note TEXT, place INTEGER,
  home TEXT NOT NULL DEFAULT '{home}', counts INTEGER NOT NULL DEFAULT {counts});
"""
_DDL = (
    _TABLE.format(name="a", home="red", counts=1)
    + _TABLE.format(name="b", home="blue", counts=1)
    + """
CREATE TABLE mark (m INTEGER PRIMARY KEY, k INTEGER REFERENCES a (k) ON DELETE CASCADE);
CREATE INDEX by_twice ON a (twice);
CREATE MATERIALIZED VIEW totals WITH (refresh = 'immediate') AS
  SELECT a.home, count(*) AS many, sum(a.twice) AS total FROM a GROUP BY a.home;
"""
)
_WORKLOAD = (
    "-- name: marked\nSELECT a.twice, mark.m FROM a JOIN mark ON mark.k = a.k WHERE a.k = ?;"
)
_TOTALS = "SELECT home, many, total FROM totals"
_MARKS = "SELECT m, k FROM mark"


@dataclass(frozen=True)
class _Form:
    """The present form of a relation: where it is at home, the name of its column of notes, and
    what is declared."""

    name: str
    home: str
    note: str
    is_text: bool
    not_null: bool
    small: bool
    unique: bool
    by_place: bool
    """The key is (place, k), not k."""
    extra: tuple[str, ...]
    numbers: tuple[str, ...]

    @classmethod
    def of(cls, catalog: Catalog, relation: Relation) -> _Form:
        default = relation.column("home").default
        assert default is not None
        names = relation.visible_names
        note = "note" if "note" in names else "remark"
        return cls(
            relation.name,
            str(default.value),
            note,
            relation.column("n").type.kind is Kind.TEXT,
            not relation.column(note).nullable,
            any(check.name == "small" for check in relation.checks),
            any(i.unique and i.relation == relation.name for i in catalog.schema.indexes),
            "place" in relation.declared_key,
            tuple(name for name in names if name.startswith("extra")),
            tuple(name for name in names if name.startswith("number")),
        )

    @property
    def rows(self) -> str:
        columns = ["k", "n", "twice", self.note, "place", "home", *self.numbers, "counts"]
        return f"SELECT {', '.join(columns)} FROM {self.name}"


def _forms(catalog: Catalog) -> list[_Form]:
    return [_Form.of(catalog, r) for r in catalog.schema.relations if r.name in NAMES]


def _red(catalog: Catalog) -> _Form:
    return next(form for form in _forms(catalog) if form.home == "red")


def _references(catalog: Catalog) -> bool:
    return bool(catalog.schema.relation("mark").foreign_keys)


class Altering:
    oracle = False
    """The log does not contain the rows that builds and copies write."""

    def __init__(self, rng: random.Random) -> None:
        self.rows = rng.choice([10, KEYS])
        self.change_rate = rng.choice([0.2, 0.5])
        self.think_s = rng.choice([0.0, 0.05, 0.2])
        self._known = _forms(self.catalog())
        self._cluster: Cluster | None = None

    def catalog(self) -> Catalog:
        return plan_schema(PlanRequest(_DDL, _WORKLOAD, ("a", "b")), NO_CATALOG).catalog

    async def set_up(self, database: Database) -> None:
        for name in ("a", "b"):
            rows = [(k, k, 2 * k, "first", k) for k in range(self.rows)]
            await database.load(name, ["k", "n", "twice", "note", "place"], rows)

    async def step(self, client: Client) -> None:
        self._cluster = client._cluster
        await asyncio.sleep(client.random.uniform(0, self.think_s))
        try:
            if client.name == "c0" and client.random.random() < self.change_rate:
                await self._change(client)
            elif client.random.random() < 0.25:
                await self._read(client)
            else:
                await client.transact(self._write(client.random))
        except ConstraintViolation as error:
            client.journal.counts[type(error).__name__] += 1

    # ------------------------------------------------------------ alterations

    async def _change(self, client: Client) -> None:
        for statement in self._mending(client.random):
            await client.transact(statement)
        await client.change(client._cluster.ask_leader(_altering(client.random.random())))

    def _mending(self, rng: random.Random) -> Iterator[Statement]:
        """Statements that help the stored rows to meet a constraint, sometimes."""
        for form in self._known:
            if rng.random() < 0.3:
                null = f"UPDATE {form.name} SET {form.note} = '' WHERE {form.note} IS NULL"
                yield Statement(f"{null} RETURNING 0")
                yield Statement(f"UPDATE {form.name} SET place = k WHERE place <> k RETURNING 0")
                large = f"UPDATE {form.name} SET n = 1, twice = 2 WHERE twice >= {SMALL}"
                yield Statement(f"{large} RETURNING 0")

    # ------------------------------------------------------------ transactions

    def _write(self, rng: random.Random) -> Statement:
        form, key, n = rng.choice(self._known), rng.randrange(KEYS), rng.randrange(SMALL // 2 + 2)
        note = None if rng.random() < 0.1 else f"note {n}"
        place = key if rng.random() < 0.9 else rng.randrange(KEYS)
        t = form.name
        insert = f"INSERT INTO {t} (k, n, twice, {form.note}, place) VALUES (?, ?, ?, ?, ?)"
        change = f"UPDATE {t} SET n = ?, twice = ? WHERE k = ?"
        value: int | str = str(n) if form.is_text else n
        return rng.choices(
            [
                Statement(f"{insert} RETURNING counts", (key, value, 2 * n, note, place)),
                Statement(f"{change} RETURNING 0", (value, 2 * n, key)),
                Statement(f"UPDATE {t} SET {form.note} = ? WHERE k = ? RETURNING 0", (note, key)),
                Statement(f"UPDATE {t} SET place = ? WHERE k = ? RETURNING 0", (place, key)),
                Statement(f"DELETE FROM {t} WHERE k = ? RETURNING -counts", (key,)),
                Statement(
                    "INSERT INTO mark VALUES (?, ?) RETURNING 0", (rng.randrange(MARKS), key)
                ),
                Statement("DELETE FROM mark WHERE m = ? RETURNING 0", (rng.randrange(MARKS),)),
            ],
            [25, 25, 10, 5, 15, 10, 8],
        )[0]

    # ------------------------------------------------------------ invariants

    async def _read(self, client: Client) -> None:
        bookmark = client.bookmark

        async def work(database: Database) -> tuple[Catalog, int, dict[str, list[Row]]] | None:
            catalog, at, found = database.catalog, None, dict[str, list[Row]]()
            for sql in _queries(catalog):
                async with database.query(sql, (), bookmark=bookmark, snapshot=at) as result:
                    at = result.snapshot
                    found[sql] = list(await result.stream.all())
            assert at is not None
            return (catalog, at, found) if database.catalog.schema == catalog.schema else None

        answer = await client.ask_persistently("read", work)
        if answer is not None:
            catalog, at, found = answer
            client.bookmark = max(client.bookmark, at)
            client.journal.counts["reads"] += 1
            self._known = _forms(catalog)
            _verify(catalog, found)

    async def check(self, database: Database, journal: Journal) -> None:
        await require_built(database)
        catalog = database.catalog
        for use_views in (True, False):
            found = {s: await database.fetch(s, use_views=use_views) for s in _queries(catalog)}
            _verify(catalog, found)
        counted = sum(row[-1] for form in _forms(catalog) for row in found[form.rows])
        assert counted == 2 * self.rows + journal.returned, "effects are not answers"
        homes = {form.home: form for form in _forms(catalog)}
        assert self._cluster is not None
        for home in ("red", "blue"):
            logged = _rows_in_logs(self._cluster, catalog.stored_name(homes[home].name))
            there = len(found[homes[home].rows])
            assert there == logged, f"{home} has {there} rows, and {logged} by its changes"


def _rows_in_logs(cluster: Cluster, stored: str) -> int:
    """The rows that a relation has by the changes in the logs, under its stored name."""
    return sum(
        (new is not None) - (old is not None)
        for batch in every_batch(cluster)
        for commit in commits(batch)
        for name, old, new in commit.changes
        if name == stored
    )


def _queries(catalog: Catalog) -> list[str]:
    return [*(form.rows for form in _forms(catalog)), _TOTALS, _MARKS]


def _verify(catalog: Catalog, found: dict[str, list[Row]]) -> None:
    """Check what was found by `_queries` under a catalog."""
    for form in _forms(catalog):
        rows = found[form.rows]
        homes = {row[5] for row in rows}
        assert homes <= {form.home}, f"{form.name}, at home in {form.home}, has rows of {homes}"
        assert all(2 * int(row[1]) == row[2] for row in rows), f"{form.name}: {rows}"
        assert all(isinstance(row[1], str) is form.is_text for row in rows), f"{form.name}: {rows}"
        for place, name in enumerate(form.numbers, 6):
            numbers = Counter(row[place] for row in rows)
            assert None not in numbers, f"{form.name}.{name} has NULL: {rows}"
            assert set(numbers.values()) <= {1}, f"{form.name}.{name} is given twice: {numbers}"
        keys = Counter((row[4], row[0]) if form.by_place else row[0] for row in rows)
        assert set(keys.values()) <= {1}, f"{form.name} has a key twice: {keys}"
        if form.not_null:
            assert all(row[3] is not None for row in rows), f"{form.name} has NULL: {rows}"
        if form.small:
            assert all(row[2] < SMALL for row in rows), f"{form.name} breaks its CHECK: {rows}"
        if form.unique:
            places = Counter(row[4] for row in rows)
            assert set(places.values()) <= {1}, f"{form.name} has a place twice: {places}"
    red = found[_red(catalog).rows]
    total = [("red", len(red), sum(row[2] for row in red))] if red else []
    assert [tuple(row) for row in found[_TOTALS]] == total, f"{found[_TOTALS]} is not {total}"
    if _references(catalog):
        keys = {row[0] for row in red}
        assert all(key in keys for _, key in found[_MARKS]), "a mark without its row"


def _altering(seed: float) -> Callable[[Database], Awaitable[None]]:
    """Carry out a random alteration of the schema that is in force where it is done."""

    async def work(database: Database) -> None:
        catalog = database.catalog
        request = _request(catalog, random.Random(seed))
        try:
            plan = database.plan_schema(request)
            await database.apply_schema(request, plan.plan_id, allow_drop=True)
        except InvalidRequest as error:
            if database.catalog.schema != catalog.schema:
                raise StalePlan("Another copy of this request was faster.") from error
            raise

    return work


def _request(catalog: Catalog, rng: random.Random) -> PlanRequest:
    sql = rng.choice(list(_statements(catalog, rng)))
    if sql.lstrip().startswith("CREATE"):
        return PlanRequest(render_ddl(catalog.schema) + sql, None)
    change = altered(catalog, sql)
    return PlanRequest(change.ddl, None, renames=change.renames, usings=change.usings)


def _statements(catalog: Catalog, rng: random.Random) -> Iterator[str]:
    """Alterations that are possible, each about as often as it should happen."""
    forms = _forms(catalog)
    free = [name for name in NAMES if name not in {form.name for form in forms}]
    one, other = rng.sample(forms, 2)
    yield f"RENAME TABLE {one.name} TO x, {other.name} TO {one.name}, x TO {other.name}"
    greens = [form for form in forms if form.home.startswith("green")]
    for form in greens:
        yield f"DROP TABLE {form.name}"
    for name in free:
        yield f"ALTER TABLE {one.name} RENAME TO {name}"
        yield _TABLE.format(name=name, home=f"green {catalog.version}", counts=0)
    form = rng.choice([form for form in forms if form not in greens])
    table = f"ALTER TABLE {form.name}"
    yield f"{table} RENAME {form.note} TO {'remark' if form.note == 'note' else 'note'}"
    yield f"{table} ADD extra{catalog.version} INTEGER NOT NULL DEFAULT {rng.randrange(9)}"
    for extra in (*form.extra, *form.numbers):
        yield f"{table} DROP {extra}"
    yield f"{table} ADD number{catalog.version} SERIAL"
    if form.by_place or not (_references(catalog) and form.home == "red"):
        key = "k" if form.by_place else "place, k"
        yield f"{table} DROP CONSTRAINT {form.name}_pkey, ADD PRIMARY KEY ({key})"
    kind = "INTEGER" if form.is_text else "TEXT"
    yield f"{table} ALTER n TYPE {kind} USING CAST(n AS {kind})"
    yield f"{table} ALTER {form.note} {'DROP' if form.not_null else 'SET'} NOT NULL"
    yield f"{table} " + (
        "DROP CONSTRAINT small" if form.small else f"ADD CONSTRAINT small CHECK (twice < {SMALL})"
    )
    unique = f"one_place_{form.home}"
    yield f"{table} " + (
        f"DROP CONSTRAINT {unique}" if form.unique else f"ADD CONSTRAINT {unique} UNIQUE (place)"
    )
    if _references(catalog):
        yield "ALTER TABLE mark DROP CONSTRAINT " + (
            catalog.schema.relation("mark").foreign_keys[0].name
        )
    elif not _red(catalog).by_place:
        red = _red(catalog).name
        yield f"ALTER TABLE mark ADD FOREIGN KEY (k) REFERENCES {red} (k) ON DELETE CASCADE"
