"""Initial loads by Spark, and reconciling, of references to UNIQUE columns."""

import json

from hornbeam_server.pipeline.load import driver as job
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


CIRCLE = """
CREATE TABLE city (y_id INT PRIMARY KEY, y_name TEXT);
CREATE TABLE staff (s_id INT PRIMARY KEY, s_store INT NOT NULL REFERENCES store, s_name TEXT,
  s_boss INT REFERENCES staff, s_city INT REFERENCES city);
CREATE TABLE store (t_id INT PRIMARY KEY, t_city TEXT, t_code TEXT UNIQUE,
  t_manager INT NOT NULL REFERENCES staff, t_near TEXT REFERENCES store (t_code));
CREATE TABLE sale (l_id INT PRIMARY KEY, l_staff INT REFERENCES staff, l_store TEXT
  REFERENCES store (t_code));
"""
CIRCLE_WORKLOAD = """
-- name: staff_of_a_store
SELECT s_name, t_city FROM staff, store WHERE s_store = t_id AND t_city = ?;
-- name: sales
SELECT l_id, s_name, t_city FROM sale, staff, store
WHERE l_staff = s_id AND s_store = t_id AND t_city = ?;
"""
CIRCLE_ROWS = {
    "city": ("y_id,y_name", [(1, "Here")]),
    "staff": (
        "s_id,s_store,s_name,s_boss,s_city",
        [
            (1, 1, "Ann", None, 1),
            (2, 2, "Bob", 1, None),
            (3, 3, "Cyd", 1, None),  # store 3 has a manager who does not exist
            (4, 1, "Dan", 3, None),  # so Dan has no boss
            (5, 4, "Eve", None, 9),  # there is no city 9, so store 4 has no manager
            (6, 4, "Fay", None, None),
        ],
    ),
    "store": (
        "t_id,t_code,t_manager,t_near",
        [(1, "a", 1, "b"), (2, "b", 2, "a"), (3, "c", 99, "a"), (4, "d", 5, "d")],
    ),
    "sale": ("l_id,l_staff,l_store", [(1, 1, "a"), (2, 3, "a"), (3, 2, "d"), (4, 2, "b")]),
}


def test_relations_of_a_circle_are_loaded_together(spark, tmp_path):
    with world(tmp_path) as shop:
        assert shop.apply(ddl=CIRCLE, workload=CIRCLE_WORKLOAD, roots=None).status_code == 200
        paths = [view.path for view in shop.database.catalog.views]
        assert paths == [("store", "staff"), ("store", "staff", "sale")]
        sources = {
            name: [write_lines(tmp_path / f"{name}.csv", header, rows)]
            for name, (header, rows) in CIRCLE_ROWS.items()
        }
        rejects = tmp_path / "rejects.jsonl"
        with node_of(shop) as node:
            plan = job.planned(node, sources)
            assert plan.together("staff") == {"staff", "store"}
            job.Driver(node, url_of(shop), plan, lambda *_: None).load(
                spark, str(rejects), 10, resume=False
            )
        lines = map(json.loads, rejects.read_text().splitlines())
        assert sorted((each["relation"], each["place"]) for each in lines) == [
            ("sale", 3),
            ("sale", 4),
            *(("staff", place) for place in (4, 5, 6, 7)),
            ("store", 4),
            ("store", 5),
        ]
        assert shop.rows("SELECT s_id FROM staff ORDER BY 1") == [[1], [2]]
        assert shop.rows("SELECT t_id, t_near FROM store ORDER BY 1") == [[1, "b"], [2, "a"]]
        assert shop.rows(
            "SELECT l_id, s_name, t_code FROM sale, staff, store"
            " WHERE l_staff = s_id AND s_store = t_id ORDER BY 1"
        ) == [[1, "Ann", "a"], [4, "Bob", "b"]]
        assert shop.verify() == 0


def test_one_relation_of_a_circle_needs_the_rows_of_the_others(spark, tmp_path):
    with world(tmp_path) as shop:
        assert shop.apply(ddl=CIRCLE, workload="", roots=None).status_code == 200
        header, rows = CIRCLE_ROWS["store"]
        with node_of(shop) as node:
            plan = job.planned(node, {"store": [write_lines(tmp_path / "s", header, rows)]})
            assert plan.together("store") == {"store"}
            driver = job.Driver(node, url_of(shop), plan, lambda *_: None)
            rejects = tmp_path / "rejects.jsonl"
            driver.load(spark, str(rejects), 10, resume=False)
        assert len(rejects.read_text().splitlines()) == 4
        assert shop.verify() == 0


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
