CREATE MATERIALIZED VIEW orders_of_customer AS
  SELECT c.customer_id, c.company_name, count(*) AS orders FROM orders o
  JOIN customers c ON c.customer_id = o.customer_id GROUP BY c.customer_id, c.company_name;

SELECT product_name, quantity_per_unit FROM products ORDER BY product_id;
SELECT product_id, product_name FROM products WHERE discontinued::INTEGER = 1 ORDER BY product_name;
SELECT product_name, unit_price FROM products ORDER BY unit_price DESC, product_name LIMIT 10;
SELECT product_name, unit_price FROM products
  WHERE unit_price > (SELECT avg(unit_price) FROM products) ORDER BY product_name;
SELECT count(*) FROM products GROUP BY discontinued ORDER BY 1;
SELECT product_name, units_on_order, units_in_stock FROM products
  WHERE units_in_stock < units_on_order ORDER BY product_name;
SELECT c.category_name, count(*), sum(p.units_in_stock), min(p.reorder_level) FROM categories c
  JOIN products p ON p.category_id = c.category_id GROUP BY c.category_id, c.category_name
  ORDER BY c.category_id;
SELECT c.company_name, count(*) FROM customers c JOIN orders o ON o.customer_id = c.customer_id
  GROUP BY c.customer_id, c.company_name ORDER BY count(*) DESC, c.company_name;
SELECT c.customer_id FROM customers c LEFT JOIN orders o ON o.customer_id = c.customer_id
  WHERE o.order_id IS NULL ORDER BY 1;
SELECT e.last_name, count(*) FROM employees e JOIN orders o ON o.employee_id = e.employee_id
  WHERE o.shipped_date > o.required_date GROUP BY e.employee_id, e.last_name ORDER BY 1;
SELECT o.order_id, sum(d.quantity), count(DISTINCT d.product_id) FROM orders o
  JOIN order_details d ON d.order_id = o.order_id GROUP BY o.order_id ORDER BY o.order_id;
SELECT ship_country, avg(freight) FROM orders GROUP BY ship_country ORDER BY ship_country;
SELECT order_id, freight, rank() OVER (PARTITION BY ship_country ORDER BY freight DESC)
  FROM orders ORDER BY order_id;
SELECT s.company_name, p.product_name FROM suppliers s JOIN products p
  ON p.supplier_id = s.supplier_id WHERE s.country = 'Germany' ORDER BY p.product_id;
SELECT e.first_name, b.first_name FROM employees e LEFT JOIN employees b
  ON b.employee_id = e.reports_to ORDER BY e.employee_id;
SELECT e.employee_id, count(*) FROM employee_territories e JOIN territories t
  ON t.territory_id = e.territory_id GROUP BY e.employee_id ORDER BY 1;
SELECT DISTINCT city FROM customers UNION SELECT city FROM suppliers ORDER BY city;
SELECT region, count(*) FROM customers GROUP BY region ORDER BY region DESC;
SELECT extract(year FROM order_date), extract(month FROM order_date), count(*) FROM orders
  GROUP BY 1, 2 ORDER BY 1, 2;
SELECT s.company_name, count(*) FROM shippers s JOIN orders o ON o.ship_via = s.shipper_id
  GROUP BY s.shipper_id, s.company_name ORDER BY s.shipper_id;
SELECT company_name FROM customers WHERE company_name LIKE 'B%' OR contact_title ~ 'Owner$'
  ORDER BY customer_id;
SELECT product_id, sum(quantity), ntile(4) OVER (ORDER BY sum(quantity), product_id)
  FROM order_details GROUP BY product_id ORDER BY product_id;
SELECT order_id, count(*) FILTER (WHERE discount > 0), max(unit_price) FROM order_details
  GROUP BY order_id HAVING count(*) > 4 ORDER BY order_id;
SELECT DISTINCT ON (customer_id) customer_id, order_id, order_date FROM orders
  ORDER BY customer_id, order_date DESC, order_id;
SELECT title_of_courtesy || ' ' || last_name, length(notes), hire_date FROM employees
  ORDER BY employee_id;
