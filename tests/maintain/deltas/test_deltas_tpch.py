"""TPC-H's queries, on small relations under random changes."""

import datetime as dt
from decimal import Decimal
from random import Random

import pytest
from deltas_world import World, catalog_of

DDL = """
CREATE TABLE nation (n_nationkey INTEGER PRIMARY KEY, n_name TEXT);
CREATE TABLE customer (c_custkey INTEGER PRIMARY KEY, c_name TEXT, c_address TEXT,
    c_nationkey INTEGER, c_phone TEXT, c_acctbal DECIMAL(15,2), c_mktsegment TEXT, c_comment TEXT);
CREATE INDEX customer_nation ON customer (c_nationkey);
CREATE INDEX customer_acctbal ON customer (c_acctbal);
CREATE TABLE orders (o_orderkey INTEGER PRIMARY KEY, o_custkey INTEGER, o_orderdate DATE,
    o_orderpriority TEXT, o_shippriority INTEGER, o_comment TEXT);
CREATE INDEX orders_customer ON orders (o_custkey);
CREATE TABLE part (p_partkey INTEGER PRIMARY KEY, p_type TEXT);
CREATE TABLE lineitem (l_orderkey INTEGER NOT NULL, l_linenumber INTEGER NOT NULL,
    l_partkey INTEGER, l_quantity DECIMAL(15,2), l_extendedprice DECIMAL(15,2),
    l_discount DECIMAL(15,2), l_tax DECIMAL(15,2), l_returnflag TEXT, l_linestatus TEXT,
    l_shipdate DATE, l_commitdate DATE, l_receiptdate DATE, l_shipmode TEXT,
    PRIMARY KEY (l_orderkey, l_linenumber));
CREATE INDEX lineitem_part ON lineitem (l_partkey);
"""

QUERIES = {
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
            return random.randint(0, 9 if column.name == "c_custkey" else 4)
        case "date":
            return random.choice(LATER.get(column.name, DAYS))
        case "decimal":
            return Decimal(random.choice(["-1.50", "0.10", "7.77", "23.00", "901.00"]))
    return random.choice(TEXTS.get(column.name, ["x", "y"]))


def writes(random, world, count):
    relations = world.catalog.schema.relations
    relations = [*relations, *[r for r in relations if r.name == "lineitem"] * 3]
    for _ in range(count):
        relation = random.choice(relations)
        rows = list(world.store.rows[relation.name].values())
        if rows and random.random() < 0.3:
            key = world.store.codecs[relation.name].key_values(random.choice(rows))
            yield relation.name, key, None
        else:
            yield relation.name, tuple(draw(random, column) for column in relation.columns)


@pytest.mark.parametrize(
    "names", [("q1", "q3", "q4", "q6"), ("q10", "q12", "q13"), ("q14", "q18", "q22")]
)
def test_tpch_queries_are_kept(names):
    world = World(catalog_of(DDL), {name: QUERIES[name] for name in names})
    random = Random(6)
    seen = set()
    for count in (60, 12, 8):
        world.commit(*writes(random, world, count))
        world.check()
        seen |= {name for name in names if world.store.rows[name]}
    world.check_anew()
    assert seen == set(names), "a query without rows shows little"
