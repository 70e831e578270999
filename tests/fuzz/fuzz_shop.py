"""The database under fuzzing: a schema with every type, rows, and statements over them.

`FUZZ_EXAMPLES` sets the number of examples of every fuzz test, `FUZZ_SEED` selects other ones.
"""

from __future__ import annotations

import os

from hypothesis import seed, settings

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "0"))
"""Number of examples per operation and test; 0 means the small number of the test suite."""
SEED = int(os.environ.get("FUZZ_SEED", "0"))

DDL = """
CREATE TABLE customer (
  c_id INTEGER PRIMARY KEY, c_fname TEXT, c_lname TEXT NOT NULL DEFAULT 'Doe', c_name TEXT,
  c_note TEXT, c_email TEXT UNIQUE);
CREATE TABLE item (i_id INTEGER PRIMARY KEY, i_stock INTEGER NOT NULL DEFAULT 0);
CREATE TABLE orders (
  o_id INTEGER PRIMARY KEY, o_c_id INTEGER REFERENCES customer (c_id), o_total DECIMAL(15,2));
CREATE TABLE line (
  l_o_id INTEGER REFERENCES orders (o_id) ON DELETE CASCADE, l_no INTEGER,
  l_i_id INTEGER REFERENCES item (i_id), PRIMARY KEY (l_o_id, l_no));
CREATE TABLE kinds (
  k_id BIGINT PRIMARY KEY, k_decimal DECIMAL(38,10), k_double DOUBLE, k_flag BOOLEAN, k_bytes BYTEA,
  k_date DATE, k_at TIMESTAMP, k_instant TIMESTAMP WITH TIME ZONE, k_uuid UUID, k_json JSON,
  k_text VARCHAR(5));
"""
"""The relations of the examples in the OpenAPI document, and more."""
WORKLOAD = """
SELECT c_fname, o_id, o_total FROM customer, orders WHERE c_id = o_c_id AND c_lname = ?;
SELECT * FROM customer, orders, line WHERE c_id = o_c_id AND o_id = l_o_id AND l_i_id = ?;
"""
PLAN = {"ddl": DDL, "workload": WORKLOAD, "roots": None}
ROWS = [
    "INSERT INTO item (i_id, i_stock) VALUES (42, 1000000), (43, 5)",
    "INSERT INTO customer (c_id, c_fname) VALUES (7, 'Eva'), (8, 'Ann')",
    "INSERT INTO orders VALUES (1, 7, 9.5), (2, NULL, 1)",
    "INSERT INTO line VALUES (1, 1, 42), (1, 2, 43)",
]

READS = [
    "SELECT * FROM customer",
    "SELECT c_fname, o_id, o_total FROM customer, orders WHERE c_id = o_c_id AND c_lname = 'Doe'",
    "SELECT count(*), sum(o_total) FROM orders GROUP BY o_c_id",
    "SELECT * FROM kinds WHERE k_id = ?",
    "SELECT k_decimal, k_double / 0, k_json FROM kinds ORDER BY k_text LIMIT 3",
    "SELECT * FROM customer, orders, line WHERE c_id = o_c_id AND o_id = l_o_id AND l_i_id = :i",
]
WRITES = [
    "INSERT INTO customer (c_id, c_fname) VALUES (?, 'ann')",
    "INSERT INTO customer (c_id, c_name, c_email) VALUES (9, 'bob', 'b@b') RETURNING *",
    "INSERT INTO orders VALUES (?, 7, 9.5), (?, NULL, 1)",
    "INSERT INTO orders SELECT o_id + 100, o_c_id, o_total FROM orders WHERE o_id < 100",
    "INSERT INTO line SELECT o_id, 7, 42 FROM orders",
    "INSERT INTO kinds (k_id, k_double, k_at) VALUES (?, 1e308, '2024-02-29') RETURNING *",
    "INSERT INTO kinds VALUES (?, 1, 2, true, NULL, NULL, NULL, NULL, NULL, '[]', 'abc')",
    "UPDATE customer SET c_lname = c_lname || 'x' WHERE c_id = 7 AND length(c_lname) < 50",
    "UPDATE orders SET o_c_id = 8, o_total = o_total + 2 WHERE o_id = :o RETURNING o_total",
    "UPDATE item SET i_stock = i_stock - 1",
    "UPDATE kinds SET k_json = '{}', k_text = ? WHERE k_id = ?",
    "DELETE FROM orders WHERE o_id > 2",
    "DELETE FROM customer WHERE c_id = ?",
]
NAMES = ["customer", "orders", "item", "line", "kinds", "customer__orders", "nowhere"]


def times(few):
    """Decorate a test with its number of examples (`few` by default) and their seed."""

    def decorate(test):
        test = settings(max_examples=EXAMPLES or few, derandomize=not SEED)(test)
        return seed(SEED)(test) if SEED else test

    return decorate
