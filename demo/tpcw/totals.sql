-- Totals that an operator of the shop asks for, besides the statements of TPC-W. The demo adds them to the workload.

-- name: sold_by_subject
SELECT i_subject, sum(ol_qty) FROM order_line, item WHERE ol_i_id = i_id GROUP BY i_subject;
-- name: sold_of_subject
SELECT sum(ol_qty) FROM order_line, item WHERE ol_i_id = i_id AND i_subject = ?;
-- name: orders_of_country
SELECT count(*), sum(o_total) FROM orders, address, country
 WHERE o_bill_addr_id = addr_id AND addr_co_id = co_id AND co_name = ?;
