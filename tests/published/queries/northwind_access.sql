CREATE MATERIALIZED VIEW lines_of_product AS
  SELECT p.id, p.product_name, count(*) AS lines, sum(d.quantity) AS quantity
  FROM order_details d JOIN products p ON p.id = d.product_id GROUP BY p.id, p.product_name;

SELECT product_code, product_name, list_price - standard_cost FROM products ORDER BY id;
SELECT category, count(*), avg(list_price), sum(target_level) FROM products GROUP BY category
  ORDER BY category;
SELECT c.company, count(o.id), max(o.order_date) FROM customers c LEFT JOIN orders o
  ON o.customer_id = c.id GROUP BY c.id, c.company ORDER BY c.id;
SELECT o.id, sum(d.quantity * d.unit_price) FROM orders o JOIN order_details d ON d.order_id = o.id
  GROUP BY o.id ORDER BY o.id;
SELECT o.id, s.status_name, e.last_name, h.company FROM orders o
  JOIN orders_status s ON s.id = o.status_id JOIN employees e ON e.id = o.employee_id
  LEFT JOIN shippers h ON h.id = o.shipper_id ORDER BY o.id;
SELECT t.type_name, p.product_name, sum(i.quantity) FROM inventory_transactions i
  JOIN inventory_transaction_types t ON t.id = i.transaction_type
  JOIN products p ON p.id = i.product_id GROUP BY t.type_name, p.id, p.product_name
  ORDER BY t.type_name, p.id;
SELECT po.id, s.company, po.creation_date, sum(d.quantity * d.unit_cost) FROM purchase_orders po
  JOIN suppliers s ON s.id = po.supplier_id
  LEFT JOIN purchase_order_details d ON d.purchase_order_id = po.id
  GROUP BY po.id, s.company, po.creation_date ORDER BY po.id;
SELECT id, order_date, sum(shipping_fee) OVER (ORDER BY order_date, id) FROM orders
  ORDER BY order_date, id;
SELECT product_name FROM products WHERE discontinued ORDER BY id;
SELECT employee_id, count(*) FROM employee_privileges GROUP BY employee_id ORDER BY 1;
SELECT ship_city, count(*) FROM orders WHERE shipped_date IS NOT NULL AND paid_date > shipped_date
  GROUP BY ship_city ORDER BY 1;
SELECT string_id, string_data FROM strings ORDER BY string_id;
SELECT id, date_trunc('month', order_date), extract(dow FROM order_date) FROM orders ORDER BY id;
SELECT i.id, o.customer_id, i.amount_due FROM invoices i JOIN orders o ON o.id = i.order_id
  ORDER BY i.id;
