"""Deferred views in the schema: how they are declared, and when a change rebuilds their rows."""

import re
from urllib.parse import quote

import pytest

import hornbeam
from hornbeam_server.schema.ddl import load_ddl
from tests.api.api_world import DDL, WORKLOAD, world

VIEW = """
CREATE MATERIALIZED VIEW by_name WITH (refresh = 'deferred'{more}) AS
SELECT c_name, {what} FROM customer JOIN orders ON c_id = o_c_id GROUP BY c_name;
"""
SUM = VIEW.format(more="", what="sum(o_total) AS total")


@pytest.fixture
def shop(tmp_path):
    with world(tmp_path) as opened:
        yield opened


def apply(shop, ddl, **options):
    applied = shop.apply(ddl=ddl, workload=WORKLOAD, roots=None, **options)
    assert applied.status_code == 200, applied.text


def url_of(shop):
    return f"hornbeam://{shop.client.base_url.host}:{shop.client.base_url.port}"


def refreshed(shop):
    """Run a batch that writes no rows; return its document."""
    batch = shop.post("/v1/groups/default/batches").json()
    assert shop.post(f"/v1/groups/default/batches/{batch['upto']}", {}).is_success
    return batch


def test_a_declared_view_is_planned_shown_and_read(shop):
    planned = shop.post("/v1/schema/plan", {"ddl": DDL + SUM, "workload": WORKLOAD}).json()
    assert {
        "action": "add",
        "kind": "view",
        "name": "by_name",
        "detail": "deferred, every 5 s, group default",
    } in planned["changes"]
    apply(shop, DDL + SUM)
    view = shop.client.get("/v1/views/by_name").json()
    assert (view["state"], view["path"], view["key"]) == (
        "building",
        ["customer", "orders"],
        ["c_name"],
    )
    assert [(c["name"], c["type"]) for c in view["columns"]] == [
        ("c_name", "TEXT"),
        ("total", "DECIMAL(38,2)"),
    ]
    assert (view["deferred"]["as_of"], view["deferred"]["lag_s"]) == (None, None)
    assert view["deferred"]["program"][0] == "kept by delta rules"
    assert view["deferred"]["program"][1].startswith("0. inner join on ")
    assert 'hornbeam_deferred_lag_seconds{group="default"} NaN' in shop.client.get("/metrics").text
    assert "hornbeam_views_not_readable 1.0" in shop.client.get("/metrics").text
    status = shop.client.get("/v1/status?sizes=true").json()
    assert status["views"]["by_name"] == "building"
    assert "by_name" in status["bytes"]
    assert "by_name" in [one["name"] for one in shop.client.get("/v1/views").json()]
    document = shop.client.get("/v1/schema").json()
    assert document["views"][-1]["columns"] == view["columns"]
    assert load_ddl(document["ddl"]) == load_ddl(DDL + SUM)
    assert view["deferred"]["sql"] == SUM.partition(" AS\n")[2].strip().rstrip(";")

    batch = refreshed(shop)
    assert batch["built"] == ["by_name"]
    assert "hornbeam_views_not_readable 0.0" in shop.client.get("/metrics").text
    assert shop.rows("SELECT * FROM by_name", max_staleness_ms=60_000) == []
    stale = shop.post("/v1/query", {"sql": "SELECT * FROM by_name", "max_staleness_ms": 1})
    assert (stale.status_code, stale.headers["Retry-After"]) == (503, "1"), stale.text
    with hornbeam.connect(f"{url_of(shop)}?max_staleness_s=60") as db:
        assert db.max_staleness_s == 60
        with db.cursor() as cursor:
            assert cursor.execute("SELECT * FROM by_name").fetchall() == []
            cursor.execute("INSERT INTO customer (c_id, c_name) VALUES (1, 'ann')")
            cursor.execute("SAVEPOINT before")
            with pytest.raises(hornbeam.NotSupportedError, match="what this transaction writes"):
                cursor.execute("SELECT * FROM by_name")
            cursor.execute("ROLLBACK TO before")
    view = shop.client.get("/v1/views/by_name").json()
    assert (view["state"], view["deferred"]["as_of"]) == ("readable", batch["upto"])
    lag = re.search(
        r'deferred_lag_seconds\{group="default"\} (.*)', shop.client.get("/metrics").text
    )
    assert 0 <= float(lag[1]) < 60
    (group,) = shop.client.get("/v1/groups").json()
    assert (group["views"], group["interval_s"], group["under_way"]) == (["by_name"], 5.0, None)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("sum(o_totals) AS t", "In view by_name: Column o_totals is unknown"),
        ("random() AS r", "In view by_name: rand.* cannot be kept up to date from changes"),
    ],
)
def test_an_invalid_view_definition_is_an_error_with_its_line(shop, what, message):
    text = "-- a comment\n" + VIEW.format(more="", what=what).strip()
    answer = shop.post("/v1/schema/plan", {"ddl": DDL + text, "ddl_file": "shop.sql"})
    assert answer.status_code == 422, answer.text
    problem = answer.json()
    assert re.search(message, problem["detail"])
    assert problem["file"] == "shop.sql"
    assert problem["line"] == DDL.count("\n") + 3


READS = WORKLOAD + (
    "-- name: dear\nSELECT * FROM by_name WHERE total > ?;\n"
    "-- name: beside\nSELECT c_id, total FROM by_name b JOIN customer c ON b.c_name = c.c_name;\n"
)


def test_a_workload_reads_deferred_views(shop):
    """The plan names the deferred view that serves each statement, and states no price for it."""
    body = {"ddl": DDL + SUM, "query_log": "SELECT * FROM by_name WHERE total > 3\n"}
    planned = shop.post("/v1/schema/plan", body | {"workload": READS})
    assert planned.status_code == 200, planned.text
    plan = planned.json()["plan"]
    served = {query["statement"]: query["deferred"] for query in plan["queries"]}
    assert (served["dear"], served["beside"]) == (["by_name"], ["by_name"])
    assert sum(map(bool, served.values())) == 2
    assert "): served by deferred by_name, which is not priced\n" in planned.json()["text"]
    applied = shop.apply(ddl=DDL + SUM, workload=READS, roots=None)
    assert applied.status_code == 200, applied.text
    refreshed(shop)
    assert shop.rows("SELECT * FROM by_name WHERE total > 3") == []

    wrong = shop.post("/v1/schema/plan", body | {"workload": "SELECT * FROM by_nam"})
    assert "Did you mean by_name?" in wrong.json()["cure"]
    written = shop.post("/v1/schema/plan", body | {"workload": "DELETE FROM by_name"})
    assert "by_name is a view" in written.json()["detail"]


def test_names_may_contain_characters_of_urls(shop):
    named = 'CREATE TABLE "t/a?b %" (id INTEGER PRIMARY KEY);\n' + SUM.replace(
        "by_name WITH (", '"v/batches?" WITH ("group" = \'g/batches/7\', '
    )
    apply(shop, DDL + named)
    with hornbeam.connect(url_of(shop)) as db:
        ask, group = db.transport.json, f"/v1/groups/{quote('g/batches/7', safe='')}/batches"
        batch = ask("POST", group, {})
        assert (batch["group"], batch["built"]) == ("g/batches/7", ["v/batches?"])
        assert ask("POST", f"{group}/{batch['upto']}", {})["as_of"] == batch["upto"]
        view = f"/v1/views/{quote('v/batches?', safe='')}"
        assert ask("GET", view)["name"] == "v/batches?"
        load = f"/v1/load/{quote('t/a?b %', safe='')}"
        assert db.transport.post(load, b"id\n1\n", {"Content-Type": "text/csv"})["rows"] == 1
    assert 'route="/v1/load/{relation}"' in shop.client.get("/metrics").text


def test_the_bytes_of_a_deferred_view_include_its_states(shop, monkeypatch):
    apply(shop, DDL + SUM)
    database = shop.database

    async def size(table):
        return 1

    monkeypatch.setattr(database.store, "size", size)
    stored = database.catalog.deferred_view["by_name"].stored
    assert len(stored) > 1
    assert shop.run(database.sizes())["by_name"] == len(stored)
    assert shop.client.get("/v1/views/by_name").json()["bytes"] == len(stored)


def table_of(shop):
    return shop.database.catalog.layout("by_name").table


def test_rows_are_kept_while_their_definition_is_unchanged(shop):
    apply(shop, DDL + SUM)
    refreshed(shop)
    table = table_of(shop)
    slower = VIEW.format(more=", interval = '1 min'", what="sum(o_total) AS total")
    apply(shop, DDL + slower)
    assert table_of(shop) == table
    assert shop.client.get("/v1/groups").json()[0]["interval_s"] == 60.0
    assert refreshed(shop)["refreshed"] == ["by_name"]

    apply(shop, DDL + VIEW.format(more="", what="count(*) AS n"))
    assert table_of(shop) != table
    assert shop.client.get("/v1/views/by_name").json()["state"] == "building"
    assert refreshed(shop)["built"] == ["by_name"]

    table = table_of(shop)
    apply(shop, DDL + VIEW.format(more=", \"group\" = 'other'", what="count(*) AS n"))
    assert table_of(shop) != table
    assert [group["name"] for group in shop.client.get("/v1/groups").json()] == ["other"]

    apply(shop, DDL)
    assert shop.client.get("/v1/groups").json() == []
    assert shop.client.get("/v1/views/by_name").status_code == 404
    shop.run(shop.database.keeper.wait_built())
    assert not [name for name in shop.run(shop.database.store.tables()) if name[:2] == "d."]


def test_a_view_over_a_view_is_rebuilt_when_the_inner_one_changes(shop):
    over = VIEW.format(more="", what="sum(o_total) AS total") + (
        "CREATE MATERIALIZED VIEW rich WITH (refresh = 'deferred') AS\n"
        "SELECT c_name FROM by_name WHERE total > 10;\n"
    )
    apply(shop, DDL + over)
    assert shop.client.get("/v1/views/rich").json()["path"] == ["customer", "orders"]
    assert load_ddl(shop.client.get("/v1/schema").json()["ddl"]) == load_ddl(DDL + over)
    assert refreshed(shop)["built"] == ["by_name", "rich"]
    table = shop.database.catalog.layout("rich").table
    slower = over.replace(
        "(refresh = 'deferred') AS\nSELECT c_name,",
        "(refresh = 'deferred', interval = '9 s') AS\nSELECT c_name,",
    )
    apply(shop, DDL + slower)
    assert shop.database.catalog.layout("rich").table == table

    def rebuilt(ddl):
        planned = shop.post("/v1/schema/plan", {"ddl": DDL + ddl, "workload": WORKLOAD}).json()
        return [row["name"] for row in planned["changes"] if row["action"] == "rebuild"]

    assert rebuilt(slower) == []
    assert rebuilt(over.replace("sum(o_total)", "max(o_total)")) == ["rich"]
    apply(shop, DDL + over.replace("sum(o_total)", "max(o_total)"))
    assert shop.database.catalog.layout("rich").table != table
    assert refreshed(shop)["built"] == ["by_name", "rich"]

    answer = shop.post("/v1/schema/plan", {"ddl": DDL + over.partition(";")[2]})
    assert answer.status_code == 422, answer.text
    assert "In view rich: Relation by_name is unknown" in answer.json()["detail"]


def test_a_view_over_a_recreated_relation_is_rebuilt(shop):
    apply(shop, DDL + SUM)
    refreshed(shop)
    table = table_of(shop)
    without = re.sub(r"CREATE TABLE orders.*?;\n", "", DDL, flags=re.DOTALL)
    assert "orders" not in without
    dropped = {"ddl": without, "workload": "", "roots": None}
    planned = shop.post("/v1/schema/plan", dropped).json()
    body = dropped | {"plan_id": planned["plan_id"], "allow_drop": True}
    assert shop.post("/v1/schema/apply", body).is_success
    apply(shop, DDL + SUM)
    assert table_of(shop) != table
    assert refreshed(shop)["built"] == ["by_name"]


def test_the_text_of_a_plan_lists_declared_views_that_it_builds_changes_or_drops(shop):
    immediate = (
        "CREATE MATERIALIZED VIEW counts WITH (refresh = 'immediate') AS"
        " SELECT o_c_id, count(*) AS n FROM orders GROUP BY o_c_id;"
    )

    def planned(ddl):
        plan = shop.post("/v1/schema/plan", {"ddl": DDL + ddl, "workload": WORKLOAD}).json()
        lines = [
            f"  {row['action']} {row['name']}: {row['detail']}" for row in plan["declared_views"]
        ]
        assert plan["text"].endswith("\n".join(["\ndeclared views:", *lines]) if lines else "")
        return [line.strip() for line in lines]

    kept = "deferred, every 5 s, group default"
    assert planned(SUM + immediate) == [f"build by_name: {kept}", "build counts: immediate"]
    apply(shop, DDL + SUM + immediate)
    assert planned(SUM + immediate) == []
    assert planned(immediate) == [f"drop by_name: {kept}"]
    slower = VIEW.format(more=", interval = '9 s'", what="sum(o_total) AS total")
    assert planned(slower + immediate) == [
        "change by_name: deferred, every 9 s, group default; its rows stay"
    ]
    other = VIEW.format(more="", what="count(*) AS total")
    assert planned(other + immediate) == [
        f"change by_name: {kept}; built again, and unreadable until then"
    ]
