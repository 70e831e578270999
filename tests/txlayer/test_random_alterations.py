"""Random alterations among random writes: rows are those of a model, and views follow from them."""

from __future__ import annotations

import random

import pytest

from hornbeam_server.node.alterations import altered
from hornbeam_server.node.database import Database
from hornbeam_server.node.schema_plans import PlanRequest
from hornbeam_server.node.settings import load_settings
from hornbeam_server.schema.errors import NotNullViolation
from tests.txlayer.test_altered_relations import require_right
from tests.txlayer.test_immediate_views import run

TABLES = """
CREATE TABLE p (k INTEGER PRIMARY KEY, g INTEGER, x INTEGER);
CREATE TABLE c (k INTEGER PRIMARY KEY, p INTEGER REFERENCES p (k), n INTEGER DEFAULT 1);
CREATE INDEX by_g ON p (g);
CREATE MATERIALIZED VIEW sums WITH (refresh = 'immediate') AS
  SELECT p.g, count(*) AS many, sum(c.n) AS total FROM c JOIN p ON c.p = p.k GROUP BY p.g;
CREATE MATERIALIZED VIEW some WITH (refresh = 'immediate') AS SELECT k, n FROM c WHERE n > 2;
"""
WORKLOAD = "-- name: joined\nSELECT p.g, c.n FROM p JOIN c ON c.p = p.k WHERE p.k = ?;"
FIXED = {"k", "p"}


class Model:
    """The columns of relation `c`, in their order, with their defaults; and its rows."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.names = ["k", "p", "n"]
        self.defaults: dict[str, int | None] = {"n": 1}
        self.not_null = {"k"}
        self.viewed = "n"
        self.rows: dict[int, dict[str, int | None]] = {}
        self._made = 0

    def fresh(self) -> str:
        self._made += 1
        return f"col{self._made}"

    def statement(self) -> str:
        """A random ALTER TABLE; the model follows it, unless stored rows break it."""
        free = [name for name in self.names if name not in FIXED]
        name = self.random.choice(free)
        match self.random.randrange(7):
            case 0 if name != self.viewed:
                self._dropped(name)
                return f"DROP COLUMN {name}"
            case 1:
                return self._renamed(name)
            case 2:
                default = self.random.choice([None, 7])
                self.defaults[name] = default
                return (
                    f"ALTER {name} SET DEFAULT {default}"
                    if default
                    else f"ALTER {name} DROP DEFAULT"
                )
            case 3:
                if any(row[name] is None for row in self.rows.values()):
                    return f"!ALTER {name} SET NOT NULL"
                self.not_null.add(name)
                return f"ALTER {name} SET NOT NULL"
            case 4:
                self.not_null.discard(name)
                return f"ALTER {name} DROP NOT NULL"
            case 5:
                return f"ALTER {name} TYPE {self.random.choice(['INTEGER', 'BIGINT', 'SMALLINT'])}"
            case _:
                return self._added()

    def _dropped(self, name: str) -> None:
        self.names.remove(name)
        self.defaults.pop(name, None)
        self.not_null.discard(name)
        for row in self.rows.values():
            del row[name]

    def _renamed(self, name: str) -> str:
        new = self.fresh()
        self.names[self.names.index(name)] = new
        self.defaults[new] = self.defaults.pop(name, None)
        if name in self.not_null:
            self.not_null = self.not_null - {name} | {new}
        self.viewed = new if name == self.viewed else self.viewed
        for row in self.rows.values():
            row[new] = row.pop(name)
        return f"RENAME COLUMN {name} TO {new}"

    def _added(self) -> str:
        name, default = self.fresh(), self.random.choice([None, 5])
        self.names.append(name)
        self.defaults[name] = default
        for row in self.rows.values():
            row[name] = default
        return f"ADD COLUMN {name} INTEGER" + (f" DEFAULT {default}" if default else "")

    def write(self) -> str | None:
        """A random write of one row."""
        key = self.random.randrange(8)
        name = self.random.choice([name for name in self.names if name != "k"])
        value = self.random.choice([None, 1, 2, 3] if name not in self.not_null else [1, 2, 3])
        if key not in self.rows:
            row: dict[str, int | None] = {each: self.defaults.get(each) for each in self.names}
            row |= {"k": key, name: value}
            if any(row[each] is None for each in self.not_null):
                return None
            self.rows[key] = row
            return f"INSERT INTO c (k, {name}) VALUES ({key}, {_sql(value)})"
        if self.random.random() < 0.3:
            del self.rows[key]
            return f"DELETE FROM c WHERE k = {key}"
        self.rows[key][name] = value
        return f"UPDATE c SET {name} = {_sql(value)} WHERE k = {key}"

    def expected(self) -> list[tuple[int | None, ...]]:
        return [tuple(self.rows[k][name] for name in self.names) for k in sorted(self.rows)]


def _sql(value: int | None) -> str:
    return "NULL" if value is None else str(value)


async def apply(database: Database, request: PlanRequest) -> None:
    plan = database.plan_schema(request)
    await database.apply_schema(request, plan.plan_id, allow_drop=True)


@pytest.mark.parametrize("seed", range(2))
async def test_rows_and_views_are_right_after_random_alterations(tmp_path, seed):
    model = Model(seed)
    async with await Database.open(load_settings(data=tmp_path)) as database:
        await apply(database, PlanRequest(TABLES, WORKLOAD, ("p",)))
        await run(database, "INSERT INTO p VALUES (1, 1, 1), (2, 1, 2), (3, 2, 3)")
        for step in range(14):
            for _ in range(4):
                if sql := model.write():
                    await run(database, sql)
            statement = model.statement()
            sql = f"ALTER TABLE c {statement.removeprefix('!')}"
            change = altered(database.catalog, sql)
            request = PlanRequest(change.ddl, None, ("p",), renames=change.renames)
            if statement.startswith("!"):
                with pytest.raises(NotNullViolation):
                    await apply(database, request)
            else:
                await apply(database, request)
            found = await database.fetch("SELECT * FROM c ORDER BY k")
            assert found == model.expected(), (step, sql)
            if step % 4 == 3:
                await database.keeper.wait_built()
                await require_right(database)
        await database.keeper.wait_built()
        await require_right(database)
