"""Paths down find exactly the rows below, with an index or by a scan."""

import asyncio

import pytest

from hornbeam_server.maintain.ways import PrefixWay, ScanWay, way_into_view, way_to_children
from tests.maintain.maintain_world import SCHEMA, World, catalog, index, view

CHAIN = view(SCHEMA, "country", "customer", "orders")
EDGE = SCHEMA.relation("customer").foreign_keys[0]


def rows(world, way):
    return sorted(asyncio.run(way.rows(world, [(1,), (2,)])))


@pytest.mark.parametrize(("indexes", "kind"), [((), ScanWay), (("co",), PrefixWay)])
def test_children_and_only_children_are_found(indexes, kind):
    world = World(catalog(SCHEMA, (), [index("customer", columns) for columns in indexes]))
    world.put("country", (1, 0), (2, 0), (3, 0))
    world.put("customer", (10, 1, 0), (11, 2, 0), (12, 3, 0), (13, None, 0))
    way = way_to_children(world.catalog, "customer", EDGE)
    assert isinstance(way, kind)
    assert [way.key(row) for row in rows(world, way)] == [(10,), (11,)]


def test_an_index_that_does_not_begin_with_the_key_is_not_used():
    by_value = index(CHAIN.name, "orders_v country_co")
    assert way_into_view(catalog(SCHEMA, [CHAIN], [by_value]), CHAIN, 0) is None


def test_an_index_on_the_foreign_key_serves_like_one_on_the_key():
    by_edge = index(CHAIN.name, "-customer_co orders_v")
    way = way_into_view(catalog(SCHEMA, [CHAIN], [by_edge]), CHAIN, 0)
    assert way is not None
    assert way.layout == by_edge.name
