"""Batch builds: every row once, in order, from any key on."""

import asyncio

import pytest

from hornbeam_server.maintain.recompute import build_batches, recompute, scanned_relation
from hornbeam_server.schema.catalog import State
from hornbeam_server.schema.model import Schema
from tests.maintain.maintain_world import SCHEMA, World, catalog, index, relation, view

WHOLE = view(SCHEMA, "country", "customer", "orders", "line")
BY_VALUE = index(WHOLE.name, "orders_v", ["line_v"])
ON_BASE = index("line", "-v")
NAMES = [WHOLE.name, BY_VALUE.name, ON_BASE.name, "line"]


@pytest.fixture
def world():
    building = dict.fromkeys(NAMES[:3], State.BUILDING)
    world = World(catalog(SCHEMA, [WHOLE], [BY_VALUE, ON_BASE], building))
    world.put("country", (1, 7))
    world.put("customer", (10, 1, 7), (12, None, 7))
    world.put("orders", *((o, 10 if o % 3 else 12, o % 2) for o in range(6)))
    world.put("line", *((o, n, o + n) for o in range(6) for n in range(3)))
    return world


def build(world, *names, after=b""):
    """Return all batches built from rows with a greater key than `after`."""
    relation = scanned_relation(world.catalog, names[0])
    key = world.codecs(relation).key

    async def scanned():
        async for rows in world.scan(relation):
            if later := [row for row in rows if key(row) > after]:
                yield later

    async def collect():
        batches = build_batches(world.catalog, world.codecs, names, world, scanned())
        return [batch async for batch in batches]

    return asyncio.run(collect())


def base(world):
    return {name: list(world.rows[name].values()) for name in SCHEMA.names}


@pytest.mark.parametrize("name", NAMES)
def test_a_build_produces_every_row_once(world, name):
    rows = [row for batch in build(world, name) for _, row in batch.rows[name]]
    assert sorted(rows) == sorted(recompute(world.catalog, base(world), name))
    assert sorted(rows) == sorted(world.rows[name].values())


@pytest.mark.parametrize("name", NAMES)
def test_a_build_continues_after_any_batch(world, name):
    batches = build(world, name)
    assert [batch.scanned for batch in batches] == [2] * 9
    for i, batch in enumerate(batches):
        rest = [pair for later in batches[i + 1 :] for pair in later.rows[name]]
        again = [
            pair for later in build(world, name, after=batch.last) for pair in later.rows[name]
        ]
        assert again == rest


def test_layouts_over_one_source_are_built_together(world):
    """Each batch holds, for every layout, the same rows as a separate build of that layout."""
    alone = {name: build(world, name) for name in NAMES[:2]}
    for i, batch in enumerate(build(world, *NAMES[:2])):
        assert batch.rows == {name: alone[name][i].rows[name] for name in NAMES[:2]}


def test_built_keys_equal_encoded_keys(world):
    for batch in build(world, BY_VALUE.name):
        for key, row in batch.rows[BY_VALUE.name]:
            assert key == world.codecs(BY_VALUE.name).key(row)


def test_an_empty_relation_builds_no_rows():
    schema = Schema((relation("a", "a", "a"), relation("b", "b a", "b", ("a", "a", "a"))))
    assert build(World(catalog(schema, [view(schema, "a", "b")])), "a-b") == []
