"""Deferred views that each batch recomputes, beside one that follows its changes."""

import pytest

from hornbeam.errors import DatabaseError
from hornbeam.transport import open_transport, parse_url
from hornbeam_server.pipeline.refresh import recompute
from hornbeam_server.pipeline.refresh.driver import refresh
from tests.api.api_world import DDL, WORKLOAD, world

VIEWS = """
CREATE MATERIALIZED VIEW ranked WITH (refresh = 'recompute') AS
  SELECT o_c_id, o_total, rank() OVER (PARTITION BY o_c_id ORDER BY o_total DESC) AS place
  FROM orders;
CREATE MATERIALIZED VIEW dear WITH (refresh = 'recompute') AS
  SELECT o_id, o_total FROM orders ORDER BY o_total DESC, o_id LIMIT 3;
CREATE MATERIALIZED VIEW totals WITH (refresh = 'deferred') AS
  SELECT o_c_id, sum(o_total) AS total FROM orders GROUP BY o_c_id;
"""
RANKED = (
    "SELECT o_c_id, o_total, rank() OVER (PARTITION BY o_c_id ORDER BY o_total DESC) FROM orders"
)
DEAR = "SELECT o_id, o_total FROM orders ORDER BY o_total DESC, o_id LIMIT 3"


@pytest.fixture
def shop(tmp_path):
    with world(tmp_path) as opened:
        assert opened.apply(ddl=DDL + VIEWS, workload=WORKLOAD, roots=None).status_code == 200
        opened.transact("INSERT INTO customer (c_id, c_name) VALUES (1, 'ann'), (2, 'bob')")
        yield opened


@pytest.fixture
def node(shop):
    transport = open_transport(parse_url(url_of(shop)), 60.0)
    yield transport
    transport.close()


def url_of(shop):
    return f"hornbeam://{shop.client.base_url.host}:{shop.client.base_url.port}"


def insert(shop, *orders):
    rows = ", ".join(f"({o}, {customer}, {total})" for o, customer, total in orders)
    assert shop.transact(f"INSERT INTO orders VALUES {rows}").is_success


def check(shop, upto):
    for view, select in (("ranked", RANKED), ("dear", DEAR)):
        answer = shop.post("/v1/query", {"sql": f"SELECT * FROM {view}", "parameters": []}).json()
        assert answer["snapshot"] == upto
        expected = shop.rows(select, snapshot=upto)
        assert sorted(map(repr, answer["rows"])) == sorted(map(repr, expected)), view


def done(spark, shop, node):
    return refresh(spark.sparkContext, node, url_of(shop), "default")


def test_each_batch_recomputes_views_and_puts_the_differences(spark, shop, node):
    insert(shop, (1, 1, 5), (2, 1, 5), (3, 2, 7), (4, 2, 1))
    first = done(spark, shop, node)
    assert set(first.views) == {"ranked", "dear", "totals"}
    check(shop, first.upto)
    assert shop.rows("SELECT count(*) FROM ranked WHERE o_total = 5 AND place = 1") == [[2]]
    insert(shop, (5, 2, 6))
    shop.transact("DELETE FROM orders WHERE o_id = 1")
    second = done(spark, shop, node)
    check(shop, second.upto)
    # `ranked`: one copy is removed, one row is added, and one row changes. `dear`: one row is
    # removed, one is added. `totals`: two groups and their state.
    assert second.counts.rows == 4 + 2 + 4
    idle = done(spark, shop, node)
    assert idle.counts.rows == 0
    check(shop, idle.upto)
    shown = shop.client.get("/v1/views/dear").json()["deferred"]
    assert shown["refresh"] == "recompute"
    assert shown["program"] == ["kept by the whole SELECT, in each batch"]
    assert shop.verify() == 0


def test_a_repeated_batch_puts_the_same_rows(spark, shop, node, monkeypatch):
    """The first driver dies before it reports the end to the node. Then more rows are written."""
    insert(shop, (1, 1, 5), (2, 2, 7))
    done(spark, shop, node)
    insert(shop, (3, 1, 9))

    with monkeypatch.context() as patched:
        patched.setattr(node, "json", until_finished(node.json))
        with pytest.raises(KeyboardInterrupt):
            done(spark, shop, node)
    begun = shop.client.get("/v1/groups").json()[0]["under_way"]
    insert(shop, (4, 1, 11))
    again = done(spark, shop, node)
    assert again.upto == begun
    check(shop, begun)
    check(shop, done(spark, shop, node).upto)


def until_finished(ask):
    """Interrupt the driver when it reports to the node that a batch is finished."""

    def asked(method, path, body=None):
        if body is not None and "changes" in body:
            raise KeyboardInterrupt
        return ask(method, path, body)

    return asked


def test_a_repeated_batch_with_other_rows_puts_nothing(spark, shop, node, monkeypatch):
    insert(shop, (1, 1, 5), (2, 2, 7))
    with monkeypatch.context() as patched:
        patched.setattr(node, "json", until_finished(node.json))
        with pytest.raises(KeyboardInterrupt):
            done(spark, shop, node)
    answer = recompute._answer

    async def other(program, catalog, reader):
        return (await answer(program, catalog, reader))[:-1]

    with monkeypatch.context() as patched:
        patched.setattr(recompute, "_answer", other)
        with pytest.raises(DatabaseError, match="gave other rows") as refused:
            done(spark, shop, node)
    assert refused.value.code == "stale-plan"
    check(shop, done(spark, shop, node).upto)


def test_recomputed_views_may_read_other_views(spark, shop, node):
    least = (
        "CREATE MATERIALIZED VIEW least WITH (refresh = 'recompute') AS"
        " SELECT min(o_total) AS total FROM dear;"
    )
    applied = shop.apply(ddl=DDL + VIEWS + least, workload=WORKLOAD, roots=None)
    assert applied.status_code == 200, applied.text
    for number, total in enumerate((5, 7, 3, 9), start=1):
        insert(shop, (number, 1, total))
        done(spark, shop, node)
        dear = [row[0] for row in shop.rows("SELECT o_total FROM dear")]
        assert shop.rows("SELECT total FROM least") == [[min(dear)]]
    assert min(dear) != "3.00", "only the three dearest count"


@pytest.mark.parametrize(
    ("select", "reason"),
    [
        ("SELECT o_id, random() AS r FROM orders", "another value each time"),
        ("SELECT o_id, current_timestamp AS now FROM orders", "another value each time"),
        ("SELECT o_c_id FROM customer__orders", "customer__orders is no relation"),
        ("SELECT k_json FROM kinds", "JSON"),
    ],
)
def test_unsuitable_selects_are_refused(shop, select, reason):
    view = f"CREATE MATERIALIZED VIEW no WITH (refresh = 'recompute') AS {select};"
    refused = shop.post("/v1/schema/plan", {"ddl": DDL + VIEWS + view, "workload": WORKLOAD})
    assert refused.status_code == 422, refused.text
    assert reason in refused.json()["detail"]


@pytest.mark.parametrize(
    ("select", "can"), [(DEAR, True), ("SELECT random() AS r FROM orders", False)]
)
def test_the_refusal_of_a_deferred_view_suggests_recompute(shop, select, can):
    view = f"CREATE MATERIALIZED VIEW no WITH (refresh = 'deferred') AS {select};"
    refused = shop.post("/v1/schema/plan", {"ddl": DDL + view, "workload": WORKLOAD})
    assert ("refresh = 'recompute'" in refused.json()["cure"]) is can


def test_a_change_to_recompute_rebuilds_the_view(spark, shop, node):
    insert(shop, (1, 1, 5))
    done(spark, shop, node)
    other = VIEWS.replace(
        "totals WITH (refresh = 'deferred')", "totals WITH (refresh = 'recompute')"
    )
    assert shop.apply(ddl=DDL + other, workload=WORKLOAD, roots=None).is_success
    assert shop.client.get("/v1/views/totals").json()["state"] == "building"
    done(spark, shop, node)
    assert shop.rows("SELECT * FROM totals") == [[1, "5.00"]]
