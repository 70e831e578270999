-- Totals that an operator of the shop asks for. Each order and each change of a cart maintains them.
CREATE MATERIALIZED VIEW sold_by_subject WITH (refresh = 'immediate') AS
SELECT i_subject, count(*) AS order_lines, sum(ol_qty) AS sold
FROM order_line JOIN item ON ol_i_id = i_id GROUP BY i_subject;

CREATE MATERIALIZED VIEW orders_by_country WITH (refresh = 'immediate') AS
SELECT co_name, count(*) AS orders, sum(o_total) AS total, max(o_date) AS latest
FROM orders JOIN address ON o_bill_addr_id = addr_id JOIN country ON addr_co_id = co_id GROUP BY co_name;

CREATE MATERIALIZED VIEW cart_items WITH (refresh = 'immediate') AS
SELECT scl_sc_id, count(*) AS cart_lines, sum(scl_qty) AS items FROM shopping_cart_line GROUP BY scl_sc_id;
