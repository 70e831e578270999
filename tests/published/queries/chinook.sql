CREATE MATERIALIZED VIEW sales_of_country AS
  SELECT billing_country, count(*) AS invoices, sum(total) AS total FROM invoice
  GROUP BY billing_country;
CREATE MATERIALIZED VIEW sales_of_genre AS
  SELECT g.genre_id, g.name, sum(l.unit_price * l.quantity) AS total, count(*) AS lines
  FROM invoice_line l JOIN track t ON t.track_id = l.track_id
  JOIN genre g ON g.genre_id = t.genre_id GROUP BY g.genre_id, g.name;

SELECT first_name || ' ' || last_name AS name, customer_id, country FROM customer
  WHERE country <> 'USA' ORDER BY customer_id;
SELECT c.first_name, c.last_name, i.invoice_id, i.invoice_date, i.billing_country
  FROM invoice i JOIN customer c ON c.customer_id = i.customer_id
  WHERE c.country = 'Brazil' ORDER BY i.invoice_id;
SELECT DISTINCT billing_country FROM invoice ORDER BY billing_country;
SELECT e.last_name, i.invoice_id FROM invoice i JOIN customer c ON c.customer_id = i.customer_id
  JOIN employee e ON e.employee_id = c.support_rep_id ORDER BY e.last_name, i.invoice_id;
SELECT extract(year FROM invoice_date), count(*), sum(total) FROM invoice GROUP BY 1 ORDER BY 1;
SELECT count(*) FROM invoice_line WHERE invoice_id = 37;
SELECT invoice_id, count(*) FROM invoice_line GROUP BY invoice_id ORDER BY invoice_id;
SELECT l.invoice_line_id, t.name, ar.name FROM invoice_line l JOIN track t ON t.track_id = l.track_id
  JOIN album al ON al.album_id = t.album_id JOIN artist ar ON ar.artist_id = al.artist_id
  ORDER BY l.invoice_line_id LIMIT 200;
SELECT billing_country, count(*), sum(total) FROM invoice GROUP BY billing_country
  ORDER BY sum(total) DESC, billing_country;
SELECT p.name, count(pt.track_id) FROM playlist p LEFT JOIN playlist_track pt
  ON pt.playlist_id = p.playlist_id GROUP BY p.playlist_id, p.name ORDER BY p.playlist_id;
SELECT t.name, al.title, m.name, g.name FROM track t JOIN album al ON al.album_id = t.album_id
  JOIN media_type m ON m.media_type_id = t.media_type_id JOIN genre g ON g.genre_id = t.genre_id
  ORDER BY t.track_id DESC LIMIT 100;
SELECT e.employee_id, e.last_name, sum(i.total) AS sold FROM employee e
  JOIN customer c ON c.support_rep_id = e.employee_id
  JOIN invoice i ON i.customer_id = c.customer_id
  WHERE i.invoice_date >= '2022-01-01' GROUP BY e.employee_id, e.last_name ORDER BY sold DESC;
SELECT g.name, sum(l.unit_price * l.quantity) AS total FROM invoice_line l
  JOIN track t ON t.track_id = l.track_id JOIN genre g ON g.genre_id = t.genre_id
  GROUP BY g.genre_id, g.name ORDER BY total DESC, g.name;
SELECT name, best FROM (SELECT t.name, sum(l.quantity) AS best,
  rank() OVER (ORDER BY sum(l.quantity) DESC) AS place FROM invoice_line l
  JOIN track t ON t.track_id = l.track_id GROUP BY t.track_id, t.name) ranked WHERE place = 1
  ORDER BY name;
SELECT ar.name, count(*) FROM artist ar JOIN album al ON al.artist_id = ar.artist_id
  GROUP BY ar.artist_id, ar.name HAVING count(*) >= 5 ORDER BY 2 DESC, 1;
SELECT customer_id, invoice_id, total, sum(total) OVER (PARTITION BY customer_id
  ORDER BY invoice_date, invoice_id) FROM invoice ORDER BY customer_id, invoice_id;
SELECT country, last_name, spent FROM (SELECT c.country, c.last_name, sum(i.total) AS spent,
  row_number() OVER (PARTITION BY c.country ORDER BY sum(i.total) DESC, c.last_name) AS place
  FROM customer c JOIN invoice i ON i.customer_id = c.customer_id
  GROUP BY c.customer_id, c.country, c.last_name) ranked WHERE place = 1 ORDER BY country;
SELECT name, composer FROM track WHERE composer ILIKE '%angus%' ORDER BY track_id;
SELECT name, milliseconds / 60000 AS minutes, bytes % 1000 FROM track
  ORDER BY milliseconds DESC, track_id LIMIT 20;
SELECT artist_id, name FROM artist ar WHERE NOT EXISTS
  (SELECT 1 FROM album al WHERE al.artist_id = ar.artist_id) ORDER BY artist_id;
SELECT e.last_name, b.last_name FROM employee e LEFT JOIN employee b ON b.employee_id = e.reports_to
  ORDER BY e.employee_id;
WITH RECURSIVE below (employee_id, depth) AS (
  SELECT employee_id, 0 FROM employee WHERE reports_to IS NULL UNION ALL
  SELECT e.employee_id, b.depth + 1 FROM employee e JOIN below b ON e.reports_to = b.employee_id)
  SELECT depth, count(*) FROM below GROUP BY depth ORDER BY depth;
SELECT company, state, fax FROM customer ORDER BY company DESC, customer_id LIMIT 15;
SELECT coalesce(state, 'none'), count(*) FROM customer GROUP BY state ORDER BY state;
SELECT avg(milliseconds), min(bytes), max(unit_price), count(composer) FROM track;
SELECT g.name, avg(t.milliseconds) FROM genre g JOIN track t ON t.genre_id = g.genre_id
  GROUP BY g.genre_id, g.name ORDER BY g.genre_id;
SELECT track_id FROM track WHERE track_id IN (SELECT track_id FROM playlist_track WHERE playlist_id = 1)
  EXCEPT SELECT track_id FROM invoice_line ORDER BY 1;
SELECT date_trunc('month', invoice_date) AS month, sum(total), lag(sum(total)) OVER
  (ORDER BY date_trunc('month', invoice_date)) FROM invoice GROUP BY 1 ORDER BY 1;
SELECT birth_date, hire_date - birth_date FROM employee ORDER BY employee_id;
SELECT CASE WHEN total > 10 THEN 'large' WHEN total > 5 THEN 'medium' ELSE 'small' END, count(*)
  FROM invoice GROUP BY 1 ORDER BY 1;
SELECT substring(phone FROM 1 FOR 3), upper(left(city, 3)), length(email) FROM customer
  ORDER BY customer_id;
