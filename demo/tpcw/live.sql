-- A live view of TPC-W's orders: the nodes keep it while writers go on.
CREATE MATERIALIZED VIEW subject_sales WITH (refresh = 'live', interval = '100 ms') AS
SELECT i_subject, count(*) AS lines, sum(ol_qty) AS sold
FROM order_line JOIN item ON ol_i_id = i_id
GROUP BY i_subject;
