"""Joins in parentheses mean what they mean without them, and the rows are DuckDB's."""

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from hornbeam_server.query.parsing.joins_in_parentheses import open_first_joins

ON = {name: f"ON {name}.k = a.k" for name in "bcd"}
FORMS = [
    ("((a JOIN b {b}) LEFT JOIN c {c})", "a JOIN b {b} LEFT JOIN c {c}"),
    ("(((a JOIN b {b})) RIGHT JOIN c {c}) FULL JOIN d {d}",
     "a JOIN b {b} RIGHT JOIN c {c} FULL JOIN d {d}"),
    ("((SELECT * FROM a) AS a JOIN b {b})", "(SELECT * FROM a) AS a JOIN b {b}"),
    ("a LEFT JOIN ((b JOIN c ON b.k = c.k) LEFT JOIN d ON d.k = c.k) {b}",
     "a LEFT JOIN (b JOIN c ON b.k = c.k LEFT JOIN d ON d.k = c.k) {b}"),
    ("((a CROSS JOIN b) JOIN (c JOIN d  ON c.k = d.k) {c})",
     "a CROSS JOIN b JOIN (c JOIN d ON c.k = d.k) {c}"),
    ("(SELECT * FROM (a JOIN b {b})) AS s", "(SELECT * FROM (a JOIN b {b})) AS s"),
]  # fmt: skip


@pytest.mark.parametrize(("written", "opened"), FORMS)
def test_the_same_join_without_parentheses(written: str, opened: str) -> None:
    sql, same = (f"SELECT * FROM {form.format(**ON)}" for form in (written, opened))
    tree = sqlglot.parse_one(sql, dialect="duckdb")
    assert isinstance(tree, exp.Select)
    open_first_joins(tree)
    assert all(node is tree or node.parent is not None for node in tree.walk())
    assert tree.sql("duckdb") == sqlglot.parse_one(same, dialect="duckdb").sql("duckdb")
    with duckdb.connect() as db:
        for number, name in enumerate("abcd"):
            db.execute(f"CREATE TABLE {name} AS SELECT k FROM range({number}, 4) AS r (k)")
        before, after = (sorted(db.sql(text).fetchall(), key=repr) for text in (sql, same))
        assert before == after
        assert before
