"""Aggregates that immediate views answer, over REST: rights, and what the answer names."""

import pytest

from hornbeam_server.api.security import api_keys
from tests.api.api_world import world
from tests.api.security_world import SecureWorld

DDL = """
CREATE TABLE customer (c_id INTEGER PRIMARY KEY, c_name TEXT);
CREATE TABLE orders (o_id INTEGER PRIMARY KEY, o_c INTEGER NOT NULL REFERENCES customer (c_id),
  o_total INTEGER);
CREATE MATERIALIZED VIEW totals WITH (refresh = 'immediate') AS
  SELECT o_c, c_name, count(*) AS n, sum(o_total) AS total
  FROM orders JOIN customer ON o_c = c_id GROUP BY o_c, c_name;
"""
SUM = "SELECT o_c, sum(o_total) FROM orders GROUP BY o_c"


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    root = api_keys.fresh()
    options = {"authentication": "keys", "bootstrap_key": api_keys.bootstrap_line(root)}
    with world(tmp_path_factory.mktemp("keys"), **options) as served:
        secured, key = SecureWorld(served, root.text), root.text
        assert served.apply(ddl=DDL, workload="", roots=None).status_code == 200
        assert secured.transact(key, "INSERT INTO customer VALUES (1, 'ann secret')").is_success
        assert secured.transact(key, "INSERT INTO orders VALUES (1, 1, 5), (2, 1, 6)").is_success
        yield secured


def test_a_query_needs_rights_to_what_it_names_and_not_to_the_view_that_answers(secured):
    key = secured.made("reader", {"orders": "read"})
    answer = secured.query(key, SUM).json()
    assert (answer["rows"], answer["served_by"]) == ([[1, 11]], ["totals"])
    assert secured.query(key, "SELECT total FROM totals").status_code == 403
    explained = secured.request(key, "POST", "/v1/explain", json={"sql": SUM}).json()
    assert explained["views"] == ["totals"]


def test_a_view_gives_no_rights_to_what_it_joins(secured):
    key = secured.made("reader", {"customer": "read"})
    assert secured.query(key, SUM).status_code == 403
    named = "SELECT c_name, sum(o_total) FROM orders JOIN customer ON o_c = c_id GROUP BY c_name"
    key = secured.made("reader", {"orders": "read"})
    assert secured.query(key, named).status_code == 403
    assert secured.query(secured.root, named).json()["served_by"] == ["totals"]


def test_use_views_and_trace_turn_views_off(secured):
    for options in ({"use_views": False}, {"trace": True}):
        answer = secured.query(secured.root, SUM, **options).json()
        assert (answer["rows"], answer["served_by"]) == ([[1, 11]], ["orders"])


def test_pending_statements_are_added_up(secured):
    pending = [{"sql": "INSERT INTO orders VALUES (3, 1, 100)"}]
    answer = secured.query(secured.root, SUM, pending=pending).json()
    assert (answer["rows"], answer["served_by"]) == ([[1, 111]], ["totals"])


def test_explain_in_a_transaction_shows_the_plan_that_runs_there(secured):
    def explained(**options):
        body = {"sql": SUM, **options}
        return secured.request(secured.root, "POST", "/v1/explain", json=body).json()

    traced, plain = explained(trace=True), explained()
    assert (traced["views"], plain["views"]) == ([], ["totals"])
    assert traced["steps"][0]["source"] == "orders"
    (note,) = traced["notes"]
    assert note.startswith("view totals: it answers the aggregates in autocommit only")
    assert plain["notes"] == []
    assert explained(trace=True, use_views=False)["notes"] == []
