"""Rows put beside transactions: which tables accept them, and until when."""

import asyncio
from contextlib import asynccontextmanager

import msgspec
import pytest

from hornbeam.errors import DatabaseError
from hornbeam.transport import open_transport, parse_url
from hornbeam_server.pipeline.spark import export, sink
from hornbeam_server.schema.errors import InvalidRequest, LimitExceeded, SnapshotTooOld
from hornbeam_server.storage.limits import MAX_KEY_BYTES
from hornbeam_server.storage.ports import NEWEST, Put
from hornbeam_server.txlayer.ddl.catalog_keeper import CatalogKeeper
from tests.api.api_world import PLAN, world

BYTES = {"Content-Type": "application/octet-stream"}


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A shop in which no node builds the view."""
    monkeypatch.setattr(CatalogKeeper, "_begin_builds", lambda keeper: None)
    with world(tmp_path) as opened:
        assert opened.apply(**PLAN).status_code == 200
        yield opened


def url_of(shop):
    return f"hornbeam://{shop.client.base_url.host}:{shop.client.base_url.port}"


def exported(shop):
    transport = open_transport(parse_url(url_of(shop)), 10)
    try:
        return export.begin(transport)
    finally:
        transport.close()


def table_of(shop, name="customer__orders"):
    return shop.database.catalog.layout(name).table


@asynccontextmanager
async def opened(shop, begun):
    into = sink.open_sink(begun, url_of(shop))
    try:
        yield into
    finally:
        await into.close()


def put(shop, begun, writes, ts=None):
    async def work():
        async with opened(shop, begun) as into:
            await into.put(writes, begun.snapshot if ts is None else ts)
            await into.flush()

    asyncio.run(work())


def stored(shop, table):
    async def read():
        return [c async for cells in shop.database.store.scan(table, b"", None, NEWEST)
                for c in cells]  # fmt: skip

    return shop.run(read())


def test_rows_are_put_with_their_timestamp(shop, monkeypatch):
    monkeypatch.setattr(sink, "REQUEST_BYTES", 300)
    begun, table = exported(shop), table_of(shop)
    rows = [Put(b"%03d" % n, b"x" * 20) for n in range(100)]
    put(shop, begun, {table: rows})
    assert [(c.key, c.value, c.ts) for c in stored(shop, table)] == [
        (row.key, row.value, begun.snapshot) for row in rows
    ]


def test_only_tables_under_construction_accept_rows(shop):
    begun = exported(shop)
    for table in (table_of(shop, "orders"), "s.catalog", "v.nothing.0"):
        with pytest.raises(DatabaseError, match="is being built") as refused:
            put(shop, begun, {table: [Put(b"a", b"b")]})
        assert refused.value.code == "not-found"


def test_rows_above_the_snapshot_are_refused(shop):
    begun, table = exported(shop), table_of(shop)
    with pytest.raises(InvalidRequest, match="newer"):
        put(shop, begun, {table: [Put(b"a", b"b")]}, begun.snapshot + 1)
    future = msgspec.structs.replace(begun, snapshot=begun.snapshot + 10**9)
    with pytest.raises(DatabaseError, match="newer than the newest snapshot"):
        put(shop, future, {table: [Put(b"a", b"b")]})


def test_rows_are_refused_when_newer_versions_may_be_purged(shop):
    """The client refuses by its clock; the node refuses by its retention."""
    begun, table = exported(shop), table_of(shop)
    late = msgspec.structs.replace(begun, until_ms=begun.until_ms - 3_600_000 + sink.MARGIN_MS)
    with pytest.raises(SnapshotTooOld):
        put(shop, late, {table: [Put(b"a", b"b")]})
    retention_ms = int(shop.database.settings.snapshot_retention_s * 1000)
    old = begun.snapshot - retention_ms - 1
    with pytest.raises(DatabaseError, match="older than what is kept"):
        put(shop, begun, {table: [Put(b"a", b"b")]}, old)
    assert stored(shop, table) == []


def test_a_purge_keeps_tombstones_above_a_put_in_progress(shop, monkeypatch):
    """If a newer tombstone were purged before the put arrives, the deleted row would reappear."""
    begun, table, database = exported(shop), table_of(shop), shop.database
    keep = database.store.put
    shop.run(keep({table: [Put(b"a", b"")]}, begun.snapshot + 1))
    shop.transact("INSERT INTO customer (c_id, c_name) VALUES (1, 'a newer snapshot')")

    async def purged_meanwhile(writes, ts, *, forced=False):
        if table in writes:
            # The retention has passed for every version, except for those the put holds.
            with monkeypatch.context() as patched:
                short = database.settings.model_copy(update={"snapshot_retention_s": 0.000_001})
                patched.setattr(database.ownership, "_settings", short)
                await database.purge()
        await keep(writes, ts, forced=forced)

    monkeypatch.setattr(database.store, "put", purged_meanwhile)
    put(shop, begun, {table: [Put(b"a", b"late")]})
    assert stored(shop, table) == []


def test_rows_that_cannot_be_stored_are_refused(shop):
    begun, table = exported(shop), table_of(shop)
    with pytest.raises(LimitExceeded):
        put(shop, begun, {table: [Put(b"k" * (MAX_KEY_BYTES + 1), b"v")]})
    body = {"ts": begun.snapshot, "writes": {table: [[b"k" * (MAX_KEY_BYTES + 1), b"v"]]}}
    content = msgspec.msgpack.encode(body)
    assert shop.client.post("/v1/puts", content=content, headers=BYTES).status_code == 413


@pytest.mark.parametrize("body", [b"", b"\xc1", msgspec.msgpack.encode({"ts": "1", "writes": {}})])
def test_an_invalid_body_is_refused(shop, body):
    assert shop.client.post("/v1/puts", content=body, headers=BYTES).status_code == 422
