-- The totals of CloudTPS's evaluation (Nikolov 2011, 6.4): of each cart, and of what was ordered.
CREATE MATERIALIZED VIEW cart_total WITH (refresh = 'immediate') AS
SELECT scl_sc_id, count(*) AS cart_lines, sum(scl_qty) AS items, sum(scl_qty * i_cost) AS cost
FROM shopping_cart_line JOIN item ON scl_i_id = i_id GROUP BY scl_sc_id;

CREATE MATERIALIZED VIEW order_total WITH (refresh = 'immediate') AS
SELECT ol_o_id, count(*) AS order_lines, sum(ol_qty) AS items FROM order_line GROUP BY ol_o_id;

CREATE MATERIALIZED VIEW customer_total WITH (refresh = 'immediate') AS
SELECT o_c_id, count(*) AS orders, sum(o_total) AS total FROM orders GROUP BY o_c_id;
