-- TPC-H, specification 3.0.1, clause 1.4. Columns are in the generator's order. That a line's part and
-- supplier exist follows from its reference to partsupp.
CREATE TABLE region (
  r_regionkey INTEGER PRIMARY KEY, r_name VARCHAR(25) NOT NULL, r_comment VARCHAR(152));
CREATE TABLE nation (
  n_nationkey INTEGER PRIMARY KEY, n_name VARCHAR(25) NOT NULL,
  n_regionkey INTEGER NOT NULL REFERENCES region (r_regionkey), n_comment VARCHAR(152));
CREATE TABLE part (
  p_partkey INTEGER PRIMARY KEY, p_name VARCHAR(55) NOT NULL, p_mfgr VARCHAR(25) NOT NULL,
  p_brand VARCHAR(10) NOT NULL, p_type VARCHAR(25) NOT NULL, p_size INTEGER NOT NULL,
  p_container VARCHAR(10) NOT NULL, p_retailprice DECIMAL(15,2) NOT NULL, p_comment VARCHAR(23));
CREATE TABLE supplier (
  s_suppkey INTEGER PRIMARY KEY, s_name VARCHAR(25) NOT NULL, s_address VARCHAR(40) NOT NULL,
  s_nationkey INTEGER NOT NULL REFERENCES nation (n_nationkey), s_phone VARCHAR(15) NOT NULL,
  s_acctbal DECIMAL(15,2) NOT NULL, s_comment VARCHAR(101));
CREATE TABLE partsupp (
  ps_partkey INTEGER REFERENCES part (p_partkey), ps_suppkey INTEGER REFERENCES supplier (s_suppkey),
  ps_availqty INTEGER NOT NULL, ps_supplycost DECIMAL(15,2) NOT NULL, ps_comment VARCHAR(199),
  PRIMARY KEY (ps_partkey, ps_suppkey));
CREATE TABLE customer (
  c_custkey INTEGER PRIMARY KEY, c_name VARCHAR(25) NOT NULL, c_address VARCHAR(40) NOT NULL,
  c_nationkey INTEGER NOT NULL REFERENCES nation (n_nationkey), c_phone VARCHAR(15) NOT NULL,
  c_acctbal DECIMAL(15,2) NOT NULL, c_mktsegment VARCHAR(10) NOT NULL, c_comment VARCHAR(117));
CREATE TABLE orders (
  o_orderkey INTEGER PRIMARY KEY, o_custkey INTEGER NOT NULL REFERENCES customer (c_custkey),
  o_orderstatus VARCHAR(1) NOT NULL, o_totalprice DECIMAL(15,2) NOT NULL, o_orderdate DATE NOT NULL,
  o_orderpriority VARCHAR(15) NOT NULL, o_clerk VARCHAR(15) NOT NULL,
  o_shippriority INTEGER NOT NULL, o_comment VARCHAR(79));
CREATE TABLE lineitem (
  l_orderkey INTEGER REFERENCES orders (o_orderkey), l_partkey INTEGER NOT NULL, l_suppkey INTEGER NOT NULL,
  l_linenumber INTEGER,
  l_quantity DECIMAL(15,2) NOT NULL, l_extendedprice DECIMAL(15,2) NOT NULL,
  l_discount DECIMAL(15,2) NOT NULL, l_tax DECIMAL(15,2) NOT NULL, l_returnflag VARCHAR(1) NOT NULL,
  l_linestatus VARCHAR(1) NOT NULL, l_shipdate DATE NOT NULL, l_commitdate DATE NOT NULL,
  l_receiptdate DATE NOT NULL, l_shipinstruct VARCHAR(25) NOT NULL, l_shipmode VARCHAR(10) NOT NULL,
  l_comment VARCHAR(44), PRIMARY KEY (l_orderkey, l_linenumber),
  FOREIGN KEY (l_partkey, l_suppkey) REFERENCES partsupp (ps_partkey, ps_suppkey));
-- Query 22 compares balances with an average that changes.
CREATE INDEX customer_acctbal ON customer (c_acctbal);
-- Queries 7, 8, 9 and 21 look up the lines of suppliers that change.
CREATE INDEX lineitem_supplier ON lineitem (l_suppkey);
