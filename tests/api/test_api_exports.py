"""Exports for readers beside the nodes: their content and their end."""

import asyncio

import msgspec
import pytest

from hornbeam_server.schema.codec import decode_catalog
from hornbeam_server.storage.codec.rows import Codecs
from hornbeam_server.storage.snapshot import Snapshot
from hornbeam_server.storage.source import Source, open_source


async def rows_of(document, layout):
    """Read all rows of a layout from the export alone."""
    catalog = decode_catalog(document["catalog"].encode())
    store = open_source(msgspec.convert(document["source"], Source))
    try:
        reader = Snapshot(store, Codecs(catalog), document["snapshot"])
        return [row for batch in [b async for b in reader.scan(layout)] for row in batch]
    finally:
        await store.close()


def customers(shop, document):
    return [row[:2] for row in asyncio.run(rows_of(document, "customer"))]


def test_an_export_keeps_its_snapshot(shop):
    shop.transact("INSERT INTO customer (c_id, c_name) VALUES (101, 'ann')")
    first = shop.post("/v1/exports", {}).json()
    before = customers(shop, first)
    shop.transact("INSERT INTO customer (c_id, c_name) VALUES (102, 'bob')")
    second = shop.post("/v1/exports", {}).json()
    assert (101, "ann") in before
    assert customers(shop, first) == before
    assert customers(shop, second) == [*before, (102, "bob")]
    older = shop.post("/v1/exports", {"snapshot": first["snapshot"]}).json()
    assert older["snapshot"] == first["snapshot"]
    assert customers(shop, older) == before


def test_an_export_is_removed_when_it_is_ended(shop):
    export = shop.post("/v1/exports", {}).json()
    path = f"/v1/exports/{export['name']}"
    assert shop.client.delete(path).json() == {"ended": export["name"]}
    assert shop.client.delete(path).status_code == 404
    for strange in ("..", "1-../../store", "%2e%2e"):
        assert shop.client.delete(f"/v1/exports/{strange}").status_code in (404, 405)
    with pytest.raises(Exception, match="cannot be opened"):
        customers(shop, export)


def test_an_export_is_removed_when_its_time_is_over(shop):
    async def later():
        exports = shop.database.exports
        kept = await exports.begin(1, shop.database.catalog, 60_000)
        old = await exports.begin(1, shop.database.catalog, -1)
        await exports.end_old()
        return await exports.end(old.name), await exports.end(kept.name)

    assert shop.run(later()) == (False, True)


def test_a_snapshot_that_is_not_kept_is_refused(shop):
    assert shop.post("/v1/exports", {"snapshot": 1}).status_code == 410
