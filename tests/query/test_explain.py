"""Golden explanations: SQL and the text of `explain` for it."""

from __future__ import annotations

import json

import pytest

from hornbeam_server.query.engine import QueryEngine
from hornbeam_server.schema.errors import SqlError
from tests.query.query_world import make_catalog

GOLDEN = {
    "SELECT * FROM item WHERE i_id = ?": """
views: none
indexes: none
strategy: one access path
  1. item: row by key of item, where i_id = ? (about 1 row)""",
    "SELECT i_id FROM item WHERE i_subject = 'art' AND i_pub >= :d ORDER BY i_pub DESC LIMIT 5": """
views: none
indexes: item_subject
strategy: one access path
  1. item: key range of item_subject, where i_subject = 'art' AND i_pub >= :d,\
 in the order wanted, stops at LIMIT (about 8 rows)""",
    "SELECT a_name, i_title FROM author, item WHERE i_a_id = a_id AND i_subject = ?"
    " ORDER BY i_title LIMIT 50": """
rewritten: SELECT author_item.a_name AS a_name, author_item.i_title AS i_title FROM author_item\
 WHERE author_item.i_subject = $1 ORDER BY author_item.i_title LIMIT 50
views: author_item
indexes: author_item_by_subject
strategy: one access path
  1. author_item: key prefix of author_item_by_subject, where i_subject = ?,\
 in the order wanted, stops at LIMIT (about 32 rows, assumed: those of author_item are not\
 counted)""",
    "SELECT l_no, i_title FROM line AS l, item WHERE l_i_id = i_id AND l_o_id IN (1, 2)": """
views: none
indexes: none
strategy: nested loops over access paths
  1. line AS l: key prefix of line, where l_o_id IN (1, 2) (about 141 rows)
  2. item: row by key of item, where i_id = l.l_i_id, looked up in batches (about 141 rows)
note: join l to item (line.line_item): the foreign key is no edge of a tree""",
    "SELECT i_title, SUM(l_qty) FROM line, item WHERE l_i_id = i_id AND l_o_id = 1 AND l_no IN"
    " (SELECT l_no FROM line WHERE l_o_id = 2) GROUP BY i_title ORDER BY SUM(l_qty) DESC": """
views: none
indexes: none
strategy: 1 subquery first, then nested loops over access paths, grouped, sorted
  1. line: key prefix of line, where l_o_id = 2 (about 71 rows)
  2. line: row by key of line, where l_o_id = 1 AND l_no IN (the subquery's answers) (about 71 rows)
  3. item: row by key of item, where i_id = line.l_i_id, looked up in batches (about 71 rows)
note: join line to item (line.line_item): the foreign key is no edge of a tree""",
    "SELECT COUNT(DISTINCT l_no) FROM line, item WHERE l_i_id = i_id AND l_o_id >"
    " (SELECT MAX(l_o_id) - 5 FROM line) GROUP BY i_subject": """
views: none
indexes: item_subject
strategy: 1 subquery first, then sources by access paths, joined in DuckDB
  1. line: scan of line, first row only, backwards (about 1 row)
  2. item: scan of item_subject (about 1000 rows)
  3. line: key range of line, where l_o_id > (the subquery's answer) (about 1250 rows)
in DuckDB, because of aggregate COUNT(DISTINCT l_no): SELECT COUNT(DISTINCT l_no)\
 AS count FROM "source 1" AS "line", "source 0" AS "item"\
 WHERE l_i_id = i_id AND l_o_id > $p0 GROUP BY i_subject
note: join line to item (line.line_item): the foreign key is no edge of a tree""",
}


@pytest.mark.parametrize("sql", GOLDEN)
def test_explain_describes_how_a_query_is_answered(sql):
    engine = QueryEngine()
    explanation = engine.prepare(sql, make_catalog()).explain()
    engine.close()
    assert explanation.text == f"query: {sql}{GOLDEN[sql]}"


def test_explain_as_json_has_the_same_facts():
    engine = QueryEngine()
    query = engine.prepare("SELECT STDDEV(i_id) FROM item WHERE i_subject = ?", make_catalog())
    facts = json.loads(json.dumps(query.explain(["art"]).json()))
    engine.close()
    assert facts["indexes"] == ["item_subject"]
    assert facts["steps"][0]["condition"] == "i_subject = ?"
    assert facts["reason"] == "aggregate STDDEV(i_id)"
    assert facts["text"] == query.explain().text


def test_explain_checks_given_parameters():
    engine = QueryEngine()
    query = engine.prepare("SELECT i_title FROM item WHERE i_id = ?", make_catalog())
    with pytest.raises(SqlError):
        query.explain([1, 2])
    engine.close()


def test_without_views_the_plan_reads_relations_only():
    engine = QueryEngine()
    sql = "SELECT a_name FROM author, item WHERE i_a_id = a_id AND i_id = 1"
    catalog = make_catalog()
    assert engine.prepare(sql, catalog).explain().views == ("author_item",)
    assert engine.prepare(sql, catalog, use_views=False).explain().views == ()
    engine.close()
