"""Stored names after renames, and names of schemas, never meet: each relation, view and index keeps
a table of its own, and each counter a cell of its own."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from hornbeam_server.node.alterations import altered
from hornbeam_server.node.schema_plans import PlanRequest, plan_schema
from hornbeam_server.query.binding.renaming import renamed
from hornbeam_server.schema.catalog import Catalog, Forest, cells_of_index
from hornbeam_server.schema.codec import decode_catalog, encode_catalog
from hornbeam_server.schema.ddl import load_ddl, render_ddl
from hornbeam_server.schema.errors import InvalidRequest, SchemaError, SqlError
from hornbeam_server.schema.identifiers import identifier
from hornbeam_server.schema.model import Schema
from hornbeam_server.schema.render import spelled
from hornbeam_server.txlayer.ddl.numbering import with_numbers

NAMES = ("r", "a", ".2", "a..2", "r..2", "v", "v.cells", "v.values0")
SPACES = ("r", "a")
TABLE = "(k SERIAL PRIMARY KEY, g INTEGER)"
SELECT = "AS SELECT g, count(*) AS n, min(k) AS m FROM"


class Script:
    """Random statements, mostly about what is in force."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def statement(self, catalog: Catalog) -> str:
        choose, schema = self._random.choice, catalog.schema
        table = self._known(schema.names, catalog)
        view = self._known([view.name for view in schema.views], catalog)
        sequence = self._known([each.name for each in schema.sequences], catalog)
        refresh, new = choose(("immediate", "deferred")), identifier(choose(NAMES))
        made = self._new(catalog)
        options = f"WITH (refresh = '{refresh}')"
        return choose(
            (
                f"CREATE SCHEMA {choose(SPACES)}",
                *(f"CREATE TABLE {made} {TABLE}" for _ in range(4)),
                f"CREATE SEQUENCE {made}",
                *(
                    f"CREATE MATERIALIZED VIEW {made} {options} {SELECT} {table} GROUP BY g"
                    for _ in range(4)
                ),
                *(f"CREATE INDEX {new} ON {on} (g)" for on in (table, view)),
                f"DROP TABLE {table}",
                f"DROP MATERIALIZED VIEW {view}",
                *(f"ALTER TABLE {table} RENAME TO {new}" for _ in range(3)),
                *(f"ALTER MATERIALIZED VIEW {view} RENAME TO {new}" for _ in range(3)),
                f"ALTER SEQUENCE {sequence} RENAME TO {new}",
            )
        )

    def _known(self, names: Sequence[str], catalog: Catalog) -> str:
        return spelled(self._random.choice([*names] or ["none"]), catalog.schema.spaces)

    def _new(self, catalog: Catalog) -> str:
        space = self._random.choice(("", *catalog.schema.spaces))
        name = identifier(self._random.choice(NAMES))
        return f"{space}.{name}" if space else name


def after(catalog: Catalog, sql: str, number: int) -> tuple[Catalog, Catalog]:
    """The catalog before the statement, under the names behind it; and the one that follows."""
    change = None
    if sql.startswith("CREATE"):
        ddl = f"{render_ddl(catalog.schema)}\n{sql};"
    else:
        change = altered(catalog, sql)
        ddl = change.ddl
    renames = change.renames if change is not None else ()
    planned = plan_schema(PlanRequest(ddl, None, (), renames=renames), catalog)
    before = renamed(catalog, renames)
    return before, with_numbers(planned.catalog, before, number)


def require_apart(catalog: Catalog) -> None:
    """All layouts have their own names, all tables one owner, and all counters their own cells."""
    parts = [view.cells_name for view in catalog.immediate]
    parts += [cells_of_index(i.name) for i in catalog.indexes if i.on in catalog.immediate_view]
    for what in (
        [*catalog.stored, *parts],
        [catalog.layout(name).table for name in catalog.stored],
        [catalog.stored_name(name) for name in (*catalog.schema.names, *catalog.all_views)],
        [(counter.cell, counter.number) for counter in catalog.counters.values()],
    ):
        assert [thing for thing, times in Counter(what).items() if times > 1] == []


def test_stored_names_and_names_of_schemas_never_meet() -> None:
    assert sum(map(_renames_among_names_that_may_meet, range(6))) > 6


def _renames_among_names_that_may_meet(seed: int) -> int:
    """Carry out random statements, and check each catalog. Returns the number of renames."""
    script, catalog, renames = Script(seed), Catalog(1, Schema(()), Forest(())), 0
    for number in range(1, 50):
        sql = script.statement(catalog)
        try:
            before, made = after(catalog, sql, number)
        except (SchemaError, SqlError, InvalidRequest):
            continue
        require_apart(made)
        renames += "RENAME" in sql
        for name in before.stored:  # what is still there keeps its rows
            kept = name in made and "DROP" not in sql
            assert not kept or made.layout(name).table == before.layout(name).table
        assert decode_catalog(encode_catalog(made)) == made
        catalog = made
    return renames


def test_a_stored_name_behind_a_rename_leaves_that_of_a_schema_free() -> None:
    catalog = Catalog(1, load_ddl("CREATE SCHEMA r;"), Forest(()))
    for number, sql in enumerate(
        (
            f"CREATE TABLE r {TABLE}",
            "ALTER TABLE r RENAME TO q",
            f"CREATE TABLE r {TABLE}",
            f'CREATE TABLE r.".2" {TABLE}',
        ),
        1,
    ):
        _, catalog = after(catalog, sql, number)
        require_apart(catalog)
    assert [catalog.stored_name(name) for name in ("q", "r", "r..2")] == ["r", "r..2", "r..2..2"]
