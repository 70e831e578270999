"""Search paths and schemas over REST: requests with a path, hostile paths, and the schemas that
keys with grants see."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.api_world import World, world
from tests.api.security_world import SecureWorld, secure_world

DDL = """
CREATE SCHEMA shop;
CREATE SCHEMA "Odd ""one";
CREATE SCHEMA hidden;
CREATE TABLE item (i_id INTEGER PRIMARY KEY, i_name TEXT);
CREATE TABLE shop.item (i_id INTEGER PRIMARY KEY, i_price INTEGER);
CREATE TABLE "Odd ""one".item (i_id INTEGER PRIMARY KEY, "Odd" INTEGER);
CREATE TABLE hidden.item (i_id INTEGER PRIMARY KEY);
CREATE SEQUENCE hidden.numbers;
CREATE VIEW shop.prices AS SELECT i_price FROM shop.item;
"""
ROWS = (
    "INSERT INTO item VALUES (1, 'pen')",
    "INSERT INTO shop.item VALUES (2, 20)",
    'INSERT INTO "Odd ""one".item VALUES (3, 30)',
)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as served:
        assert served.apply(ddl=DDL).status_code == 200
        for sql in ROWS:
            assert served.transact(sql).status_code == 200
        yield served


def _write(db: World, sql: str, path: object) -> None:
    body = {"statements": [{"sql": sql, "search_path": path}]}
    response = db.post("/v1/transactions", body)
    assert response.status_code == 200, response.text


def test_a_query_a_transaction_and_an_explanation_use_their_search_path(db: World):
    query = "SELECT * FROM item"
    assert db.rows(query) == [[1, "pen"]]
    assert db.rows(query, search_path=["shop", "public"]) == [[2, 20]]
    assert db.rows(query, search_path=["public", "shop"]) == [[1, "pen"]]
    assert db.rows(query, search_path=['Odd "one']) == [[3, 30]]
    _write(db, "UPDATE item SET i_price = 21 WHERE item.i_id = 2", ["shop"])
    assert db.rows("SELECT i_price FROM prices", search_path=["shop"]) == [[21]]
    for path, name in ((["shop"], "shop.item"), (["public"], "item")):
        body = {"sql": "SELECT i_id FROM item", "search_path": path}
        explained = db.post("/v1/explain", body)
        assert explained.status_code == 200, explained.text
        assert re.search(rf"(?<![.\w]){name}\b", explained.json()["text"])


def test_each_statement_of_a_transaction_has_its_own_search_path(db: World):
    statements = [
        {"sql": "INSERT INTO item VALUES (5, 'cap')"},
        {"sql": "INSERT INTO item VALUES (5, 50)", "search_path": ["shop"]},
        {"sql": "INSERT INTO item VALUES (5, 500)", "search_path": ['Odd "one', "shop"]},
    ]
    pending = [*statements]
    body = {"sql": "SELECT count(*) FROM item", "search_path": ["shop"], "pending": pending}
    assert db.post("/v1/query", body).json()["rows"] == [[2]]
    assert db.post("/v1/transactions", {"statements": statements}).status_code == 200
    counts = "SELECT (SELECT count(*) FROM item), (SELECT count(*) FROM shop.item)"
    assert db.rows(counts) == [[2, 2]]


def test_schemas_of_the_path_that_do_not_exist_are_passed_over(db: World):
    assert db.rows("SELECT * FROM item", search_path=["none", "shop"]) == [[2, 20]]
    shown = "SELECT current_schema(), current_schemas(false)"
    assert db.rows(shown, search_path=["none", "shop"]) == [["shop", ["shop"]]]
    body = {"sql": "SELECT * FROM item", "search_path": ["none"]}
    answer = db.post("/v1/query", body)
    assert answer.status_code == 422
    assert "no schema of the search path exists" in answer.json()["detail"]
    body["search_path"] = []
    assert db.post("/v1/query", body).status_code == 422


HOSTILE = (
    'shop"; DROP TABLE item; --',
    "shop; DROP TABLE item",
    "shop'; DELETE FROM item; --",
    'shop".item, "public',
    "shop.item",
    "$user",
    "pg_catalog",
    "🌲" * 500,
    "a\x00b",
    "\\",
)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_path_is_a_name_and_no_sql(db: World, name: str):
    for path in ([name], [name, "shop"], ["public", name]):
        found = {"sql": "SELECT i_id FROM item", "search_path": path}
        answer = db.post("/v1/query", found)
        assert answer.status_code in {200, 422}, answer.text
        if answer.status_code == 200:
            assert answer.json()["rows"] == [[2 if "shop" in path else 1]]
        shown = db.post("/v1/query", {"sql": "SELECT current_schemas(false)", "search_path": path})
        assert shown.status_code in {200, 422}
        body = {"statements": [{"sql": "DELETE FROM item WHERE i_id = 9", "search_path": path}]}
        assert db.post("/v1/transactions", body).status_code in {200, 422}
    assert db.rows("SELECT * FROM item") == [[1, "pen"]]
    assert db.rows("SHOW search_path", search_path=[name]) != []


@pytest.mark.parametrize(
    "path", [["a" * 1_001], [""], ["a"] * 101, "shop", [1], [None], [["shop"]], {"a": "shop"}]
)
def test_a_path_out_of_bounds_is_refused(db: World, path: object):
    query = {"sql": "SELECT 1", "search_path": path}
    refused = {"statements": [query]}
    for route, body in (
        ("/v1/query", query),
        ("/v1/explain", query),
        ("/v1/transactions", refused),
        ("/v1/schema/alter", {"statement": "DROP TABLE item", "search_path": path}),
    ):
        assert db.post(route, body).status_code == 422
    assert len(db.rows("SELECT * FROM item")) == 1


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[SecureWorld]:
    with secure_world(tmp_path) as served:
        known = served.request(served.root, "GET", "/v1/schema").json()["ddl"]
        assert served.world.apply(ddl=known + DDL).status_code == 200
        yield served


def test_a_key_with_grants_sees_only_schemas_of_granted_names(secured: SecureWorld):
    def schemas(grants: dict[str, str] | None) -> tuple[list[str], str]:
        key = secured.made("reader", grants)
        document = secured.request(key, "GET", "/v1/schema").json()
        return document["schemas"], document["ddl"]

    assert schemas(None)[0] == ["public", "shop", 'Odd "one', "hidden"]
    for granted, seen in (
        ({"customer": "read"}, ["public"]),
        ({"shop.item": "read", "item": "read"}, ["public", "shop"]),
        ({"shop.prices": "read"}, ["public", "shop"]),
    ):
        found, ddl = schemas(granted)
        assert found == seen
        assert not {"hidden", "Odd"} & set(re.findall(r"\w+", ddl))


def test_a_search_path_gives_a_key_no_other_rights(secured: SecureWorld):
    key = secured.made("writer", {"item": "write"})
    query = "SELECT i_id FROM item"
    assert secured.query(key, query).status_code == 200
    assert secured.query(key, query, search_path=["none", "public"]).status_code == 200
    for path in (["shop"], ["hidden", "public"], ['Odd "one']):
        assert secured.query(key, query, search_path=path).status_code == 403
        statement = {"sql": "DELETE FROM item", "search_path": path}
        body = {"statements": [statement]}
        assert secured.request(key, "POST", "/v1/transactions", json=body).status_code == 403
        body = {"sql": query, "search_path": path}
        assert secured.request(key, "POST", "/v1/explain", json=body).status_code == 403
    sql = "SELECT schema_name FROM schemata ORDER BY 1"
    asked = secured.query(key, sql, search_path=["information_schema"])
    assert asked.json()["rows"] == [["information_schema"], ["public"]]
