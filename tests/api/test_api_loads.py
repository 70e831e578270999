"""Initial loads over REST, as `pipeline.load.driver` requests them."""

import asyncio

import pytest

from hornbeam.transport import open_transport, parse_url
from hornbeam_server.pipeline.spark import export, sink
from hornbeam_server.storage.codec.rows import Codecs
from hornbeam_server.storage.ports import Put
from tests.api.api_world import PLAN, world

BEGIN = {"relations": ["orders"], "identity": "files", "splits": {"orders": ["1510", "1520"]}}
JOIN = "SELECT c_name, o_id FROM customer, orders WHERE c_id = o_c_id"


@pytest.fixture
def shop(tmp_path):
    with world(tmp_path) as opened:
        assert opened.apply(**PLAN).status_code == 200
        opened.transact("INSERT INTO customer (c_id, c_name) VALUES (1, 'ann')")
        yield opened


def put(shop, rows):
    """Put rows as a Spark executor does: orders with the entries of their views and indexes."""
    url = f"hornbeam://{shop.client.base_url.host}:{shop.client.base_url.port}"
    transport = open_transport(parse_url(url), 10)
    begun = export.begin(transport)
    codecs = Codecs(begun.codecs().catalog.loaded)

    async def work():
        into = sink.open_sink(begun, url)
        writes = {}
        for name, made in rows.items():
            codec = codecs(name)
            puts = [Put(codec.key(row), codec.encode(row)) for row in made]
            writes[codec.layout.table] = puts
        try:
            await into.put(writes, begun.snapshot)
            await into.flush()
        finally:
            await into.close()

    asyncio.run(work())
    export.end(transport, begun)
    transport.close()


def finished(shop, **changes):
    load = shop.client.get("/v1/loads").json()["load"]
    number = 1 if load is None else load["number"]
    body = {"number": number, "relation": "orders", "start": "", "end": None, "rows": 2}
    return shop.post("/v1/loads/finished", body | changes)


def test_a_load_is_published_when_all_parts_are_finished(shop):
    assert shop.client.get("/v1/loads").json() == {"load": None}
    begun = shop.post("/v1/loads", BEGIN).json()["load"]
    assert (begun["relations"], begun["identity"]) == (["orders"], "files")
    assert begun["missing"] == {"orders": [["", None]]}
    assert shop.post("/v1/loads", BEGIN).json()["load"] == begun
    assert shop.client.get("/v1/status").json()["loading"] == ["orders"]
    refused = shop.transact("INSERT INTO orders VALUES (1, 1, 1)")
    assert (refused.status_code, refused.json()["code"]) == (409, "being-loaded")
    catalog = shop.database.catalog
    rows = {name: [] for name in catalog.loading}
    rows["orders"] = [(1, 1, None), (2, None, None)]
    rows["customer__orders"] = [
        tuple({"c_id": 1, "c_name": "ann", "c_balance": 0, "o_id": 1, "o_c_id": 1}.get(c)
              for c in catalog.layout("customer__orders").column_names)
    ]  # fmt: skip
    for index in catalog.index.values():
        if index.name in catalog.loading:
            source = catalog.layout(index.on)
            columns = [source.positions[c] for c in catalog.layout(index.name).column_names]
            rows[index.name] = [tuple(row[i] for i in columns) for row in rows[index.on]]
    put(shop, rows)
    assert shop.rows("SELECT * FROM orders") == []
    publish = {"number": begun["number"]}
    early = shop.post("/v1/loads/publish", publish)
    assert (early.status_code, early.json()["code"]) == (409, "stale-plan")
    assert finished(shop, end="1510").json()["load"]["missing"] == {"orders": [["1510", None]]}
    assert finished(shop, start="1510").json()["load"]["missing"] == {"orders": []}
    version = shop.post("/v1/loads/publish", publish).json()["version"]
    assert version == shop.database.catalog.version == catalog.version + 1
    assert shop.client.get("/v1/loads").json() == {"load": None}
    assert shop.rows(JOIN) == [["ann", 1]]
    assert shop.transact("INSERT INTO orders VALUES (3, 1, 1)").is_success
    assert shop.rows(f"{JOIN} ORDER BY o_id") == [["ann", 1], ["ann", 3]]
    assert shop.verify() == 0


def test_a_load_is_cancelled(shop):
    assert shop.client.delete("/v1/loads").status_code == 404
    shop.post("/v1/loads", BEGIN)
    other = shop.post("/v1/loads", BEGIN | {"identity": "other files"})
    assert (other.status_code, other.json()["code"]) == (409, "being-loaded")
    assert shop.client.delete("/v1/loads").json() == {"cancelled": ["orders"]}
    assert finished(shop).status_code == 404
    assert shop.post("/v1/loads/publish", {"number": 1}).status_code == 404
    assert shop.transact("INSERT INTO orders VALUES (1, 1, 1)").is_success
    full = shop.post("/v1/loads", BEGIN)
    assert (full.status_code, full.json()["code"]) == (409, "stale-plan")
    assert "has rows" in full.json()["detail"]


def test_a_schema_change_of_a_relation_under_load_is_refused(shop):
    shop.post("/v1/loads", BEGIN)
    changed = shop.apply(**(PLAN | {"workload": ""}))
    assert (changed.status_code, changed.json()["code"]) == (409, "being-loaded")
    assert shop.client.delete("/v1/loads").is_success
    assert shop.apply(**(PLAN | {"workload": ""})).is_success
