"""TPC-H's queries, on small relations under random changes."""

import datetime as dt
from dataclasses import replace
from decimal import Decimal
from functools import cache
from random import Random

import pytest

from hornbeam_server.maintain.deltas.program import planned_program
from hornbeam_server.schema.model import DeclaredView
from tests.maintain.deltas.deltas_world import World, catalog_of

DDL = """
CREATE TABLE region (r_regionkey INTEGER PRIMARY KEY, r_name TEXT);
CREATE TABLE nation (n_nationkey INTEGER PRIMARY KEY, n_name TEXT, n_regionkey INTEGER);
CREATE INDEX nation_region ON nation (n_regionkey);
CREATE TABLE supplier (s_suppkey INTEGER PRIMARY KEY, s_name TEXT, s_address TEXT,
    s_nationkey INTEGER, s_phone TEXT, s_acctbal DECIMAL(15,2), s_comment TEXT);
CREATE INDEX supplier_nation ON supplier (s_nationkey);
CREATE TABLE partsupp (ps_partkey INTEGER NOT NULL, ps_suppkey INTEGER NOT NULL,
    ps_availqty INTEGER, ps_supplycost DECIMAL(15,2), PRIMARY KEY (ps_partkey, ps_suppkey));
CREATE INDEX partsupp_supplier ON partsupp (ps_suppkey);
CREATE TABLE customer (c_custkey INTEGER PRIMARY KEY, c_name TEXT, c_address TEXT,
    c_nationkey INTEGER, c_phone TEXT, c_acctbal DECIMAL(15,2), c_mktsegment TEXT, c_comment TEXT);
CREATE INDEX customer_nation ON customer (c_nationkey);
CREATE INDEX customer_acctbal ON customer (c_acctbal);
CREATE TABLE orders (o_orderkey INTEGER PRIMARY KEY, o_custkey INTEGER, o_orderdate DATE,
    o_orderstatus TEXT, o_totalprice DECIMAL(15,2), o_orderpriority TEXT,
    o_shippriority INTEGER, o_comment TEXT);
CREATE INDEX orders_customer ON orders (o_custkey);
CREATE TABLE part (p_partkey INTEGER PRIMARY KEY, p_name TEXT, p_mfgr TEXT, p_brand TEXT,
    p_type TEXT, p_size INTEGER, p_container TEXT);
CREATE TABLE lineitem (l_orderkey INTEGER NOT NULL, l_linenumber INTEGER NOT NULL,
    l_partkey INTEGER, l_suppkey INTEGER, l_quantity DECIMAL(15,2), l_extendedprice DECIMAL(15,2),
    l_discount DECIMAL(15,2), l_tax DECIMAL(15,2), l_returnflag TEXT, l_linestatus TEXT,
    l_shipdate DATE, l_commitdate DATE, l_receiptdate DATE, l_shipmode TEXT,
    l_shipinstruct TEXT,
    PRIMARY KEY (l_orderkey, l_linenumber));
CREATE INDEX lineitem_part ON lineitem (l_partkey);
CREATE INDEX lineitem_supplier ON lineitem (l_suppkey);
"""

SCALE_1 = {
    "region": 5, "nation": 25, "supplier": 10_000, "partsupp": 800_000, "customer": 150_000,
    "orders": 1_500_000, "part": 200_000, "lineitem": 6_000_000,
}  # fmt: skip
"""The rows of TPC-H at scale factor 1."""

QUERIES = {
    "q2": """SELECT s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment
        FROM part, supplier, partsupp, nation, region
        WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey AND p_size < 3
        AND p_type LIKE '%TIN' AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey
        AND r_name = 'x' AND ps_supplycost = (SELECT min(ps_supplycost)
            FROM partsupp, supplier, nation, region
            WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey
            AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'x')""",
    "q5": """SELECT n_name, sum(l_extendedprice * (1 - l_discount)) AS revenue
        FROM customer, orders, lineitem, supplier, nation, region
        WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey
        AND c_nationkey = s_nationkey AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey
        AND r_name = 'x' GROUP BY n_name""",
    "q7": """SELECT supp_nation, cust_nation, l_year, sum(volume) AS revenue FROM (
            SELECT n1.n_name AS supp_nation, n2.n_name AS cust_nation,
                extract(year FROM l_shipdate) AS l_year,
                l_extendedprice * (1 - l_discount) AS volume
            FROM supplier, lineitem, orders, customer, nation n1, nation n2
            WHERE s_suppkey = l_suppkey AND o_orderkey = l_orderkey AND c_custkey = o_custkey
            AND s_nationkey = n1.n_nationkey AND c_nationkey = n2.n_nationkey
            AND ((n1.n_name = 'x' AND n2.n_name = 'y') OR (n1.n_name = 'y' AND n2.n_name = 'x'))
            ) AS shipping
        GROUP BY supp_nation, cust_nation, l_year""",
    "q8": """SELECT o_year, sum(CASE WHEN nation = 'x' THEN volume ELSE 0 END) / sum(volume) AS mkt
        FROM (SELECT extract(year FROM o_orderdate) AS o_year,
                l_extendedprice * (1 - l_discount) AS volume, n2.n_name AS nation
            FROM part, supplier, lineitem, orders, customer, nation n1, nation n2, region
            WHERE p_partkey = l_partkey AND s_suppkey = l_suppkey AND l_orderkey = o_orderkey
            AND o_custkey = c_custkey AND c_nationkey = n1.n_nationkey
            AND n1.n_regionkey = r_regionkey AND s_nationkey = n2.n_nationkey
            AND p_type = 'SMALL TIN') AS all_nations
        GROUP BY o_year""",
    "q9": """SELECT nation, o_year, sum(amount) AS sum_profit FROM (
            SELECT n_name AS nation, extract(year FROM o_orderdate) AS o_year,
                l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity AS amount
            FROM part, supplier, lineitem, partsupp, orders, nation
            WHERE s_suppkey = l_suppkey AND ps_suppkey = l_suppkey AND ps_partkey = l_partkey
            AND p_partkey = l_partkey AND o_orderkey = l_orderkey AND s_nationkey = n_nationkey
            AND p_name LIKE '%x%') AS profit
        GROUP BY nation, o_year""",
    "q11": """SELECT ps_partkey, sum(ps_supplycost * ps_availqty) AS value
        FROM partsupp, supplier, nation
        WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey AND n_name = 'x'
        GROUP BY ps_partkey
        HAVING sum(ps_supplycost * ps_availqty) > (
            SELECT sum(ps_supplycost * ps_availqty) * 0.3 FROM partsupp, supplier, nation
            WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey AND n_name = 'x')""",
    "q15": """WITH revenue AS (SELECT l_suppkey AS supplier_no,
                sum(l_extendedprice * (1 - l_discount)) AS total_revenue
            FROM lineitem WHERE l_shipdate < CAST('1995-01-01' AS DATE) GROUP BY l_suppkey)
        SELECT s_suppkey, s_name, total_revenue FROM supplier, revenue
        WHERE s_suppkey = supplier_no
        AND total_revenue = (SELECT max(total_revenue) FROM revenue)""",
    "q16": """SELECT p_brand, p_type, p_size, count(DISTINCT ps_suppkey) AS supplier_cnt
        FROM partsupp, part WHERE p_partkey = ps_partkey AND p_brand <> 'x'
        AND p_type NOT LIKE 'PROMO%' AND p_size IN (1, 2, 3)
        AND ps_suppkey NOT IN (SELECT s_suppkey FROM supplier WHERE s_comment LIKE '%x%')
        GROUP BY p_brand, p_type, p_size""",
    "q17": """SELECT sum(l_extendedprice) / 7.0 AS avg_yearly FROM lineitem, part
        WHERE p_partkey = l_partkey AND p_brand = 'x' AND p_container = 'y'
        AND l_quantity < (SELECT 0.9 * avg(l_quantity) FROM lineitem
            WHERE l_partkey = p_partkey)""",
    "q19": """SELECT sum(l_extendedprice * (1 - l_discount)) AS revenue FROM lineitem, part
        WHERE (p_partkey = l_partkey AND p_brand = 'x' AND p_container IN ('x', 'y')
            AND l_quantity >= 1 AND p_size BETWEEN 1 AND 5 AND l_shipmode IN ('AIR', 'MAIL')
            AND l_shipinstruct = 'x')
        OR (p_partkey = l_partkey AND p_brand = 'y' AND p_container IN ('y')
            AND l_quantity <= 20 AND p_size BETWEEN 1 AND 10 AND l_shipmode IN ('AIR', 'MAIL')
            AND l_shipinstruct = 'x')""",
    "q20": """SELECT s_name, s_address FROM supplier, nation
        WHERE s_suppkey IN (SELECT ps_suppkey FROM partsupp
            WHERE ps_partkey IN (SELECT p_partkey FROM part WHERE p_name LIKE 'x%')
            AND ps_availqty > (SELECT 0.5 * sum(l_quantity) FROM lineitem
                WHERE l_partkey = ps_partkey AND l_suppkey = ps_suppkey
                AND l_shipdate < CAST('1995-01-01' AS DATE)))
        AND s_nationkey = n_nationkey AND n_name = 'y'""",
    "q21": """SELECT s_name, count(*) AS numwait FROM supplier, lineitem l1, orders, nation
        WHERE s_suppkey = l1.l_suppkey AND o_orderkey = l1.l_orderkey
        AND o_orderstatus IN ('x', 'y')
        AND l1.l_receiptdate > l1.l_commitdate
        AND EXISTS (SELECT * FROM lineitem l2
            WHERE l2.l_orderkey = l1.l_orderkey AND l2.l_suppkey <> l1.l_suppkey)
        AND NOT EXISTS (SELECT * FROM lineitem l3 WHERE l3.l_orderkey = l1.l_orderkey
            AND l3.l_suppkey <> l1.l_suppkey AND l3.l_receiptdate > l3.l_commitdate)
        AND s_nationkey = n_nationkey
        GROUP BY s_name""",
    "q1": """SELECT l_returnflag, l_linestatus, sum(l_quantity) AS sum_qty,
        sum(l_extendedprice) AS sum_base_price,
        sum(l_extendedprice * (1 - l_discount)) AS sum_disc_price,
        sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge,
        avg(l_quantity) AS avg_qty, avg(l_extendedprice) AS avg_price, avg(l_discount) AS avg_disc,
        count(*) AS count_order
        FROM lineitem WHERE l_shipdate <= CAST('1998-09-02' AS DATE)
        GROUP BY l_returnflag, l_linestatus""",
    "q3": """SELECT l_orderkey, sum(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate,
        o_shippriority
        FROM customer, orders, lineitem
        WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey
        AND o_orderdate < CAST('1995-03-15' AS DATE) AND l_shipdate > CAST('1995-03-15' AS DATE)
        GROUP BY l_orderkey, o_orderdate, o_shippriority""",
    "q4": """SELECT o_orderpriority, count(*) AS order_count FROM orders
        WHERE o_orderdate >= CAST('1993-07-01' AS DATE) AND o_orderdate < CAST('1995-10-01' AS DATE)
        AND EXISTS (SELECT * FROM lineitem
            WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate)
        GROUP BY o_orderpriority""",
    "q6": """SELECT sum(l_extendedprice * l_discount) AS revenue FROM lineitem
        WHERE l_shipdate >= CAST('1994-01-01' AS DATE) AND l_shipdate < CAST('1996-01-01' AS DATE)
        AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24""",
    "q10": """SELECT c_custkey, c_name, sum(l_extendedprice * (1 - l_discount)) AS revenue,
        c_acctbal, n_name, c_address, c_phone, c_comment FROM customer, orders, lineitem, nation
        WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey
        AND o_orderdate >= CAST('1993-10-01' AS DATE) AND o_orderdate < CAST('1995-06-01' AS DATE)
        AND l_returnflag = 'R' AND c_nationkey = n_nationkey
        GROUP BY c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment""",
    "q12": """SELECT l_shipmode,
        sum(CASE WHEN o_orderpriority = '1-URGENT' OR o_orderpriority = '2-HIGH'
            THEN 1 ELSE 0 END) AS high_line_count,
        sum(CASE WHEN o_orderpriority <> '1-URGENT' AND o_orderpriority <> '2-HIGH'
            THEN 1 ELSE 0 END) AS low_line_count
        FROM orders, lineitem
        WHERE o_orderkey = l_orderkey AND l_shipmode IN ('MAIL', 'SHIP')
        AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate
        AND l_receiptdate >= CAST('1994-01-01' AS DATE)
        GROUP BY l_shipmode""",
    "q13": """SELECT c_count, count(*) AS custdist FROM (
            SELECT c_custkey, count(o_orderkey) FROM customer
            LEFT OUTER JOIN orders ON c_custkey = o_custkey
                AND o_comment NOT LIKE '%special%requests%'
            GROUP BY c_custkey) AS c_orders (c_custkey, c_count)
        GROUP BY c_count""",
    "q14": """SELECT 100.00 * sum(CASE WHEN p_type LIKE 'PROMO%'
            THEN l_extendedprice * (1 - l_discount) ELSE 0 END)
            / sum(l_extendedprice * (1 - l_discount)) AS promo_revenue
        FROM lineitem, part
        WHERE l_partkey = p_partkey AND l_shipdate >= CAST('1994-01-01' AS DATE)
        AND l_shipdate < CAST('1996-01-01' AS DATE)""",
    "q18": """SELECT c_name, c_custkey, o_orderkey, o_orderdate, sum(l_quantity)
        FROM customer, orders, lineitem
        WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem GROUP BY l_orderkey
            HAVING sum(l_quantity) > 30)
        AND c_custkey = o_custkey AND o_orderkey = l_orderkey
        GROUP BY c_name, c_custkey, o_orderkey, o_orderdate""",
    "q22": """SELECT cntrycode, count(*) AS numcust, sum(c_acctbal) AS totacctbal FROM (
            SELECT substring(c_phone FROM 1 FOR 2) AS cntrycode, c_acctbal FROM customer
            WHERE substring(c_phone FROM 1 FOR 2) IN ('13', '31', '23')
            AND c_acctbal > (SELECT avg(c_acctbal) FROM customer WHERE c_acctbal > 0.00
                AND substring(c_phone FROM 1 FOR 2) IN ('13', '31', '23'))
            AND NOT EXISTS (SELECT * FROM orders WHERE o_custkey = c_custkey)) AS custsale
        GROUP BY cntrycode""",
}

DAYS = [dt.date(1993, 12, 1), dt.date(1994, 6, 1), dt.date(1995, 3, 20), dt.date(1998, 12, 1)]
LATER = {
    "l_shipdate": DAYS,
    "l_commitdate": [dt.date(1994, 5, 1), dt.date(1995, 4, 1)],
    "l_receiptdate": [dt.date(1994, 3, 1), dt.date(1995, 5, 1), dt.date(1996, 1, 1)],
}
TEXTS = {
    "c_mktsegment": ["BUILDING", "MACHINERY"],
    "c_phone": ["13-1", "31-2", "40-3"],
    "o_orderpriority": ["1-URGENT", "2-HIGH", "5-LOW"],
    "o_comment": ["none", "special packages requests"],
    "p_type": ["PROMO TIN", "SMALL TIN"],
    "l_shipmode": ["MAIL", "SHIP", "AIR"],
    "l_returnflag": ["R", "A"],
    "l_linestatus": ["O", "F"],
}


def draw(random, column):
    kind = column.type.kind.value
    if column.nullable and random.random() < 0.05:
        return None
    if column.name == "l_discount":
        return Decimal(random.choice(["0.00", "0.05", "0.06"]))
    match kind:
        case "integer":
            few = column.name.endswith(("nationkey", "regionkey"))
            many = column.name == "c_custkey" or column.name.endswith("orderkey")
            return random.randint(0, 9 if many else 1 if few else 4)
        case "date":
            return random.choice(LATER.get(column.name, DAYS))
        case "decimal":
            return Decimal(random.choice(["-1.50", "0.10", "7.77", "23.00", "901.00"]))
    return random.choice(TEXTS.get(column.name, ["x", "y"]))


def writes(random, world, count):
    read = {name for program in world.programs.values() for name in program.relations}
    relations = [r for r in world.catalog.schema.relations if r.name in read]
    relations = [*relations, *[r for r in relations if r.name == "lineitem"] * 3]
    for _ in range(count):
        relation = random.choice(relations)
        rows = list(world.store.rows[relation.name].values())
        if rows and random.random() < 0.3:
            key = world.store.codecs[relation.name].key_values(random.choice(rows))
            yield relation.name, key, None
        else:
            yield relation.name, tuple(draw(random, column) for column in relation.columns)


GROUPS = [
    *[("q1", "q3", "q4", "q6"), ("q10", "q12", "q13"), ("q14", "q18", "q22"), ("q2", "q11")],
    *[("q5", "q9"), ("q7", "q8"), ("q15", "q16", "q17"), ("q19", "q20", "q21")],
]


EAGER = ("q5", "q10", "q11", "q21")
"""The queries that keep the partial aggregates chosen for scale factor 1. The others keep none."""


@cache
def chosen():
    """The partial aggregates of the queries in `EAGER`."""
    counted = replace(catalog_of(DDL), row_counts=tuple(SCALE_1.items()))
    views = (DeclaredView(name, QUERIES[name]) for name in EAGER)
    return {view.name: planned_program(view, counted)[1] for view in views}


def test_all_queries_are_tested():
    assert sorted(name for names in GROUPS for name in names) == sorted(QUERIES)
    assert len(QUERIES) == 22


@pytest.mark.parametrize("names", GROUPS, ids=" ".join)
def test_tpch_queries_are_maintained(names):
    partials = chosen()
    assert all(partials.values())
    world = World(catalog_of(DDL), {name: QUERIES[name] for name in names}, partials)
    random = Random(6)
    seen = set()
    for count in (90, 12, 8, 8):
        world.commit(*writes(random, world, count))
        world.check()
        seen |= {name for name in names if any(map(any, world.store.rows[name].values()))}
    world.check_anew()
    assert seen == set(names), "a query without rows shows little"
