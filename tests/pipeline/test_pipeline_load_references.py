"""Initial loads by Spark, and reconciling, of references to UNIQUE columns."""

import json

import pytest

from hornbeam_server.pipeline.load import driver as job
from hornbeam_server.schema.errors import InvalidRequest
from hornbeam_server.storage.ports import TOMBSTONE
from tests.api.api_world import world
from tests.pipeline.reconcile_world import cells, plant
from tests.pipeline.test_pipeline_load import node_of, url_of, write_lines
from tests.pipeline.test_pipeline_reconcile import differing, reconcile

DDL = """
CREATE TABLE dept (code TEXT, no INT, up TEXT, UNIQUE (no, code), UNIQUE (code),
  FOREIGN KEY (up) REFERENCES dept (code));
CREATE TABLE person (p_id INT PRIMARY KEY, dept TEXT, no INT,
  FOREIGN KEY (dept, no) REFERENCES dept (code, no));
"""


def test_a_load_rejects_rows_without_the_value_that_they_reference(spark, tmp_path):
    with world(tmp_path) as shop:
        assert shop.apply(ddl=DDL, workload="", roots=None).status_code == 200
        depts = [("a", 1, None), ("b", 2, "a"), ("c", 3, "lost"), ("d", 4, "c")]
        people = [(1, "a", 1), (2, "c", 3), (3, "b", 1), (4, "b", 2), (5, "b", None)]
        sources = {
            "dept": [write_lines(tmp_path / "d.csv", "code,no,up", depts)],
            "person": [write_lines(tmp_path / "p.csv", "p_id,dept,no", people)],
        }
        rejects = tmp_path / "rejects.jsonl"
        with node_of(shop) as node:
            plan = job.planned(node, sources)
            driver = job.Driver(node, url_of(shop), plan, lambda *_: None)
            driver.load(spark, str(rejects), 10, resume=False)
        lines = map(json.loads, rejects.read_text().splitlines())
        assert sorted((each["relation"], each["place"]) for each in lines) == [
            ("dept", 4),
            ("dept", 5),
            ("person", 3),
            ("person", 4),
        ]
        assert shop.rows("SELECT code FROM dept ORDER BY code") == [["a"], ["b"]]
        assert shop.rows("SELECT p_id FROM person ORDER BY p_id") == [[1], [4], [5]]
        assert shop.verify() == 0
        assert shop.transact("INSERT INTO person VALUES (6, 'a', 2)").status_code == 409


def test_relations_of_a_circle_are_not_loaded_together(tmp_path):
    ddl = (
        "CREATE TABLE a (k INT PRIMARY KEY, b INT REFERENCES b);"
        "CREATE TABLE b (k INT PRIMARY KEY, a INT REFERENCES a);"
    )
    with world(tmp_path) as shop:
        assert shop.apply(ddl=ddl, workload="", roots=None).status_code == 200
        sources = {name: [write_lines(tmp_path / name, "k", [(1,)])] for name in "ab"}
        with node_of(shop) as node:
            with pytest.raises(InvalidRequest, match="a, b reference one another") as refused:
                job.planned(node, sources)
            assert "without --spark" in refused.value.cure
            assert job.planned(node, {"b": sources["b"]}).names == ["b"]


def test_reconciling_finds_rows_without_the_value_that_they_reference(tmp_path):
    with world(tmp_path) as shop:
        assert shop.apply(ddl=DDL, workload="", roots=None).status_code == 200
        for sql in (
            "INSERT INTO dept VALUES ('a', 1, NULL), ('b', 2, 'a')",
            "INSERT INTO person VALUES (1, 'a', 1), (2, 'b', 2), (3, 'b', NULL)",
        ):
            assert shop.transact(sql).is_success
        assert differing(reconcile(shop)) == {}
        (index,) = [i for i in shop.database.catalog.indexes_on("dept") if len(i.columns) == 2]
        for name in ("dept", index.name):
            (first, _) = cells(shop, name)
            plant(shop, name, {first.key: TOMBSTONE})
        found = {name: faults["missing"] for name, faults in differing(reconcile(shop)).items()}
        assert found["person.person_dept_no_fkey"] == 1
        assert "dept.dept_up_fkey" not in found
