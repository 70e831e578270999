"""Schemas and workloads for the tests of view selection: the paper's examples, and TPC-W."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from hornbeam_server.query.binding.algebra import BoundStatement
from hornbeam_server.query.binding.binder import bind
from hornbeam_server.schema.catalog import Catalog, Forest, WorkloadStatement
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.model import Schema
from hornbeam_server.schema.workload import load_workload
from hornbeam_server.viewselect.cost import Objective
from hornbeam_server.viewselect.cover import ViewPath
from hornbeam_server.viewselect.graph import Graph, schema_graph
from hornbeam_server.viewselect.statistics import Statistics
from hornbeam_server.viewselect.workload import Workload, read_workload

Bound = list[tuple[WorkloadStatement, BoundStatement]]

COMPANY = """
CREATE TABLE address (aid INTEGER PRIMARY KEY, street TEXT, city TEXT);
CREATE TABLE department (dno INTEGER PRIMARY KEY, dname TEXT);
CREATE TABLE employee (eid INTEGER PRIMARY KEY, ename TEXT,
  ehomeaid INTEGER REFERENCES address, eofficeaid INTEGER REFERENCES address,
  edno INTEGER REFERENCES department);
CREATE TABLE department_location (dl_dno INTEGER REFERENCES department, dlocation TEXT,
  PRIMARY KEY (dl_dno, dlocation));
CREATE TABLE project (pno INTEGER PRIMARY KEY, pname TEXT, p_dno INTEGER REFERENCES department);
CREATE TABLE works_on (wo_eid INTEGER REFERENCES employee, wo_pno INTEGER REFERENCES project,
  hours INTEGER, PRIMARY KEY (wo_eid, wo_pno));
CREATE TABLE dependent (dp_eid INTEGER REFERENCES employee, dpname TEXT,
  dphomeaid INTEGER REFERENCES address, PRIMARY KEY (dp_eid, dpname));
"""
"""Figure 2 of Synergy, as far as its text describes it."""

COMPANY_WORKLOAD = """
-- name: w1
SELECT * FROM employee AS e, address AS a WHERE a.aid = e.ehomeaid AND e.eid = ?;
-- name: w2
SELECT * FROM department AS d, employee AS e, works_on AS wo
 WHERE d.dno = e.edno AND e.eid = wo.wo_eid AND d.dno = ?;
-- name: w3
SELECT * FROM employee AS e, works_on AS wo WHERE e.eid = wo.wo_eid AND wo.hours = ?;
"""
"""The workload of section V-B2, verbatim."""

MICRO = """
CREATE TABLE customer (c_id INTEGER PRIMARY KEY, c_name TEXT);
CREATE TABLE orders (o_id INTEGER PRIMARY KEY, o_c_id INTEGER NOT NULL REFERENCES customer);
CREATE TABLE order_line (ol_o_id INTEGER NOT NULL REFERENCES orders, ol_no INTEGER, ol_qty INTEGER,
  PRIMARY KEY (ol_o_id, ol_no));
"""

MICRO_WORKLOAD = """
-- name: q1
SELECT * FROM customer, orders WHERE c_id = o_c_id;
-- name: q2
SELECT * FROM customer, orders, order_line WHERE c_id = o_c_id AND o_id = ol_o_id;
"""
"""The workload of section IX-B1."""

_DEMO = Path(__file__).parents[2] / "demo" / "tpcw"
TPCW = (_DEMO / "schema.sql").read_text()
TPCW_WORKLOAD = (_DEMO / "workload.sql").read_text()
PAPER_ROOTS = ("author", "customer", "country")
SMALL_TPCW = {
    "country": 92, "author": 250, "address": 2000, "customer": 1000, "item": 1000, "orders": 900,
    "order_line": 2700, "cc_xacts": 900, "shopping_cart": 500, "shopping_cart_line": 1000,
}  # fmt: skip


def bound(schema: Schema, workload: str) -> Bound:
    base = Catalog(0, schema, Forest(schema.names))
    return [(s, bind(s.sql, base).statement) for s in load_workload(workload)]


class World:
    """The inputs of selection for one schema and workload."""

    def __init__(self, ddl: str | Schema, workload: str, rows: dict[str, int] | None = None):
        self.schema = load_ddl(ddl) if isinstance(ddl, str) else ddl
        self.bound = bound(self.schema, workload)
        self.workload: Workload = read_workload(self.schema, self.bound)
        self.graph: Graph = schema_graph(self.schema, self.workload.join_weights)
        self.statistics = Statistics(rows or {})
        self.objective = Objective(self.schema, self.workload, self.statistics)

    def read(self, statement: str, number: int = 0):
        return [read for read in self.workload.reads if read.statement == statement][number]


def trees(parents) -> dict[str, str]:
    """Map each relation to its parent."""
    return {child: edge.parent for child, edge in parents.items()}


def paths(views: Sequence[ViewPath] | frozenset[ViewPath]) -> set[tuple[str, ...]]:
    return {view.relations for view in views}


def outputs_by_hash_seed(script: str) -> set[bytes]:
    """The outputs of a Python script in two processes, in which sets have different orders."""
    root = Path(__file__).parents[2]
    return {
        subprocess.run(
            [sys.executable, "-c", script], cwd=root, check=True, capture_output=True,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": f"{root / 'src'}:{root}"},
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
