"""Planning and applying schemas over existing rows."""

from __future__ import annotations

import pytest

from tests.api.api_world import DDL, PLAN, world


@pytest.fixture
def shop(tmp_path):
    with world(tmp_path) as w:
        assert w.apply(**PLAN).status_code == 200
        for number, name in ((1, "ann"), (2, "bob"), (3, "ann")):
            sql = "INSERT INTO customer (c_id, c_name) VALUES (?, ?)"
            assert w.transact(sql, number, name).is_success
            assert w.transact("INSERT INTO orders VALUES (?, ?, 1)", number + 10, number).is_success
        yield w


def test_a_stale_plan_is_refused(shop):
    body = PLAN | {"plan_id": "0" * 16}
    response = shop.post("/v1/schema/apply", body)
    assert (response.status_code, response.json()["code"]) == (409, "stale-plan")


def test_errors_state_their_line(shop):
    response = shop.post(
        "/v1/schema/plan", PLAN | {"ddl": "CREATE TABLE t (\n  a WRONG PRIMARY KEY\n)"}
    )
    document = response.json()
    assert (response.status_code, document["code"], document["line"]) == (422, "schema-invalid", 2)
    unknown = shop.post("/v1/schema/plan", PLAN | {"workload": "SELECT nothing FROM customer;"})
    assert unknown.json()["code"] == "sql-unknown-name"
    assert shop.post("/v1/schema/plan", PLAN | {"budget": -1}).status_code == 422
    assert shop.post("/v1/schema/plan", PLAN | {"roots": ["nowhere"]}).status_code == 422


def listed(shop, **body):
    document = shop.post("/v1/schema/plan", PLAN | body).json()
    return [(each.get("line"), each["code"], each["detail"]) for each in document["problems"]]


def test_all_problems_of_a_file_are_listed(shop):
    ddl = "CREATE TABLE t (\n  a WRONG PRIMARY KEY, b NAME\n);\nCREATE INDEX i ON u (x);"
    assert listed(shop, ddl=ddl) == [
        (2, "schema-invalid", "Type WRONG is not supported."),
        (2, "schema-invalid", "Type NAME is not supported."),
        (4, *("schema-invalid", "An index is declared on u, which is not a relation or view of this"
              " schema.")),
    ]  # fmt: skip


def test_all_problems_of_views_and_of_a_workload_are_listed(shop):
    view = "\nCREATE MATERIALIZED VIEW {} WITH (refresh = 'deferred') AS SELECT {};".format
    ddl = DDL + view("v", "nothing FROM customer") + view("w", "no FROM v") + view("x", "1 FROM y")
    first = DDL.count("\n") + 2
    found = [(line, code) for line, code, _ in listed(shop, ddl=ddl)]
    assert found == [(first, "sql-unknown-name"), (first + 2, "sql-unknown-name")]
    workload = "SELECT nothing FROM customer;\nSELECT c_id FROM customer;\nSELECT x FROM orders;"
    found = [(line, code) for line, code, _ in listed(shop, workload=workload)]
    assert found == [(1, "sql-unknown-name"), (3, "sql-unknown-name")]


def test_the_dialect_of_a_file_can_be_named(shop):
    ddl = "CREATE TABLE t (a INT PRIMARY KEY, b DATETIME)"
    assert shop.post("/v1/schema/plan", PLAN | {"ddl": ddl, "workload": ""}).status_code == 422
    body = PLAN | {"ddl": ddl, "workload": "", "dialect": "mysql"}
    assert shop.post("/v1/schema/plan", body).status_code == 200
    assert shop.post("/v1/schema/plan", body | {"dialect": "oracle"}).status_code == 422


def test_errors_state_where_a_workload_statement_begins(shop):
    workload = "SELECT c_id FROM customer;\n\n-- name: wrong\n  SELECT nothing\nFROM customer;"
    body = PLAN | {"workload": workload, "workload_file": "w.sql"}
    document = shop.post("/v1/schema/plan", body).json()
    assert (document["file"], document["line"], document["column"]) == ("w.sql", 4, 3)
    assert document["detail"].startswith("In statement wrong: Column nothing is unknown")


def test_a_budget_of_zero_leaves_no_view(shop):
    planned = shop.post("/v1/schema/plan", PLAN | {"budget": 0}).json()
    assert planned["plan"]["views"] == []


def test_the_row_count_of_a_view_is_current(shop):
    assert shop.client.get("/v1/views/customer__orders").json()["rows"] == 3
    assert shop.transact("DELETE FROM orders WHERE o_id = 11").is_success
    assert shop.client.get("/v1/views/customer__orders").json()["rows"] == 2


def test_errors_show_values_as_sql_literals(shop):
    ddl = DDL + "CREATE TABLE days (d DATE, n DECIMAL(9,2), PRIMARY KEY (d, n));"
    assert shop.apply(**PLAN | {"ddl": ddl}).status_code == 200
    insert = "INSERT INTO days VALUES ('2024-02-29', 1.5)"
    assert shop.transact(insert).is_success
    detail = shop.transact(insert).json()["detail"]
    assert detail == "days has a row with this primary key already: (d = '2024-02-29', n = 1.50)."
    detail = shop.transact("INSERT INTO customer (c_id, c_name) VALUES (99999999999.5, 'x')").json()
    assert "100000000000 is not a value of type INTEGER" in detail["detail"]


def test_an_appended_column_appears_in_the_views(shop):
    wider = DDL.replace("c_email TEXT UNIQUE", "c_email TEXT UNIQUE, c_level INTEGER DEFAULT 7")
    assert shop.apply(**PLAN | {"ddl": wider}).status_code == 200
    joined = "SELECT c_level, o_id FROM customer, orders WHERE c_id = o_c_id AND c_name = 'bob'"
    assert shop.rows(joined) == [[7, 12]]
    assert shop.transact("UPDATE customer SET c_level = 8 WHERE c_id = 2").is_success
    assert shop.rows(joined) == [[8, 12]]
    assert shop.rows("SELECT c_level FROM customer__orders WHERE o_id = 11") == [[7]]
    assert shop.verify() == 0


def test_a_unique_index_over_duplicates_is_refused(shop):
    unique = DDL + "CREATE UNIQUE INDEX one_name ON customer (c_name);"
    response = shop.apply(**PLAN | {"ddl": unique})
    document = response.json()
    assert (response.status_code, document["code"]) == (409, "unique-violation")
    assert document["count"] == 1
    assert "one_name" not in str(shop.client.get("/v1/schema").json())
    assert shop.transact("UPDATE customer SET c_name = 'cem' WHERE c_id = 3").is_success
    assert shop.apply(**PLAN | {"ddl": unique}).status_code == 200
    again = shop.transact("INSERT INTO customer (c_id, c_name) VALUES (4, 'ann')")
    assert again.json()["code"] == "unique-violation"
    assert shop.verify() == 0


def test_a_foreign_key_over_orphans_is_refused(shop):
    child = "CREATE TABLE note (n_id INTEGER PRIMARY KEY, n_o_id INTEGER{});"
    assert shop.apply(**PLAN | {"ddl": DDL + child.format("")}).status_code == 200
    assert shop.transact("INSERT INTO note VALUES (1, 11), (2, 99), (3, NULL)").is_success
    bound = DDL + child.format(" REFERENCES orders (o_id)")
    document = shop.apply(**PLAN | {"ddl": bound}).json()
    assert (document["code"], document["count"]) == ("foreign-key-violation", 1)
    assert shop.transact("DELETE FROM note WHERE n_id = 2").is_success
    assert shop.apply(**PLAN | {"ddl": bound}).status_code == 200
    orphan = shop.transact("INSERT INTO note VALUES (4, 99)")
    assert orphan.json()["code"] == "foreign-key-violation"
    assert shop.verify() == 0


def test_relations_are_dropped_only_with_allow_drop(shop):
    plan = PLAN | {"ddl": "CREATE TABLE other (id INTEGER PRIMARY KEY);", "workload": ""}
    plan["roots"] = None
    plan["plan_id"] = shop.post("/v1/schema/plan", plan).json()["plan_id"]
    refused = shop.post("/v1/schema/apply", plan)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid-request")
    assert "customer" in refused.json()["detail"]
    assert shop.rows("SELECT count(*) FROM customer") == [[3]]
    assert shop.post("/v1/schema/apply", plan | {"allow_drop": True}).status_code == 200
    assert shop.rows("SELECT count(*) FROM other") == [[0]]


def test_a_check_over_rows_that_break_it_is_refused(shop):
    checked = DDL + "ALTER TABLE customer ADD CONSTRAINT few CHECK (c_id < 3);"
    response = shop.apply(**PLAN | {"ddl": checked})
    document = response.json()
    assert (response.status_code, document["code"]) == (409, "check-violation")
    assert (document["constraint"], document["count"]) == ("few", 1)
    assert "WHERE NOT (c_id < 3)" in document["cure"]
    assert shop.transact("INSERT INTO customer (c_id, c_name) VALUES (4, 'd')").is_success
    held = DDL + "ALTER TABLE customer ADD CHECK (c_id < 9);"
    planned = shop.post("/v1/schema/plan", PLAN | {"ddl": held}).json()
    (change,) = [each for each in planned["changes"] if each["kind"] == "check"]
    assert (change["action"], change["name"]) == ("add", "customer.customer_c_id_check")
    assert shop.apply(**PLAN | {"ddl": held}).status_code == 200
    schema = shop.client.get("/v1/schema").json()
    relations = {relation["name"]: relation for relation in schema["relations"]}
    assert relations["customer"]["checks"] == [{"name": "customer_c_id_check", "sql": "c_id < 9"}]
    assert relations["orders"]["checks"] == []
    assert "CONSTRAINT customer_c_id_check CHECK (c_id < 9)" in schema["ddl"]
    refused = shop.transact("INSERT INTO customer (c_id, c_name) VALUES (9, 'i')")
    assert (refused.status_code, refused.json()["code"]) == (409, "check-violation")
    assert refused.json()["key"] == ["9"]


def test_a_check_that_cannot_be_evaluated_is_refused_at_its_place(shop):
    ddl = "CREATE TABLE t (\n  a INTEGER PRIMARY KEY,\n  b TEXT CHECK (a > 1 AND\n    md5(b) = b));"
    document = shop.post("/v1/schema/plan", PLAN | {"ddl": ddl, "workload": ""}).json()
    assert (document["code"], document["line"], document["column"]) == ("sql-unsupported", 3, 17)
    assert "CHECK t_check of t" in document["detail"]
