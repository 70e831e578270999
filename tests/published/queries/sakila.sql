CREATE MATERIALIZED VIEW paid_of_customer AS
  SELECT c.customer_id, c.last_name, count(*) AS payments, sum(p.amount) AS paid FROM payment p
  JOIN customer c ON c.customer_id = p.customer_id GROUP BY c.customer_id, c.last_name;
CREATE MATERIALIZED VIEW copies_of_film AS
  SELECT store_id, film_id, count(*) AS copies FROM inventory GROUP BY store_id, film_id;

SELECT actor_id, first_name, last_name FROM actor WHERE last_name LIKE '%LI%'
  ORDER BY last_name, first_name, actor_id;
SELECT last_name, count(*) FROM actor GROUP BY last_name HAVING count(*) >= 2 ORDER BY 1;
SELECT s.first_name, s.last_name, a.address FROM staff s JOIN address a
  ON a.address_id = s.address_id ORDER BY s.staff_id;
SELECT f.title, count(fa.actor_id) FROM film f JOIN film_actor fa ON fa.film_id = f.film_id
  GROUP BY f.film_id, f.title ORDER BY f.film_id;
SELECT count(*) FROM inventory i JOIN film f ON f.film_id = i.film_id
  WHERE f.title = 'HUNCHBACK IMPOSSIBLE';
SELECT c.last_name, sum(p.amount) FROM customer c JOIN payment p ON p.customer_id = c.customer_id
  GROUP BY c.customer_id, c.last_name ORDER BY c.last_name, c.customer_id;
SELECT title FROM film WHERE (title LIKE 'K%' OR title LIKE 'Q%') AND language_id IN
  (SELECT language_id FROM language WHERE name = 'English') ORDER BY title;
SELECT cu.first_name, cu.last_name, cu.email FROM customer cu
  JOIN address a ON a.address_id = cu.address_id JOIN city ci ON ci.city_id = a.city_id
  JOIN country co ON co.country_id = ci.country_id WHERE co.country = 'Canada' ORDER BY 1, 2;
SELECT f.title FROM film f JOIN film_category fc ON fc.film_id = f.film_id
  JOIN category c ON c.category_id = fc.category_id WHERE c.name = 'Family' ORDER BY f.title;
SELECT f.title, count(*) AS rentals FROM rental r JOIN inventory i
  ON i.inventory_id = r.inventory_id JOIN film f ON f.film_id = i.film_id
  GROUP BY f.film_id, f.title ORDER BY rentals DESC, f.title LIMIT 50;
SELECT s.store_id, ci.city, co.country FROM store s JOIN address a ON a.address_id = s.address_id
  JOIN city ci ON ci.city_id = a.city_id JOIN country co ON co.country_id = ci.country_id
  ORDER BY s.store_id;
SELECT st.store_id, sum(p.amount) FROM payment p JOIN staff st ON st.staff_id = p.staff_id
  GROUP BY st.store_id ORDER BY st.store_id;
SELECT c.name, sum(p.amount) AS gross FROM payment p JOIN rental r ON r.rental_id = p.rental_id
  JOIN inventory i ON i.inventory_id = r.inventory_id
  JOIN film_category fc ON fc.film_id = i.film_id JOIN category c
  ON c.category_id = fc.category_id GROUP BY c.name ORDER BY gross DESC LIMIT 5;
SELECT rating, count(*), avg(length), min(rental_rate), max(replacement_cost) FROM film
  GROUP BY rating ORDER BY CAST(rating AS TEXT);
SELECT title, length, rank() OVER (PARTITION BY rating ORDER BY length DESC) FROM film
  ORDER BY film_id LIMIT 300;
SELECT customer_id, payment_id, amount, sum(amount) OVER (PARTITION BY customer_id
  ORDER BY payment_date, payment_id) FROM payment WHERE customer_id < 20
  ORDER BY customer_id, payment_date, payment_id;
SELECT date_trunc('month', payment_date) AS month, count(*), sum(amount) FROM payment
  GROUP BY 1 ORDER BY 1;
SELECT f.film_id, f.title FROM film f LEFT JOIN inventory i ON i.film_id = f.film_id
  WHERE i.inventory_id IS NULL ORDER BY f.film_id;
SELECT co.country, count(*) FROM country co JOIN city ci ON ci.country_id = co.country_id
  GROUP BY co.country_id, co.country ORDER BY 2 DESC, 1 LIMIT 20;
SELECT a.actor_id, a.last_name FROM actor a WHERE EXISTS (SELECT 1 FROM film_actor fa
  JOIN film f ON f.film_id = fa.film_id WHERE fa.actor_id = a.actor_id AND f.length > 180)
  ORDER BY a.actor_id;
SELECT DISTINCT ON (customer_id) customer_id, amount, payment_date FROM payment
  ORDER BY customer_id, amount DESC, payment_date LIMIT 100;
SELECT st.first_name, m.first_name FROM staff st JOIN store s ON s.store_id = st.store_id
  JOIN staff m ON m.staff_id = s.manager_staff_id ORDER BY st.staff_id;
SELECT release_year, count(*), count(original_language_id) FROM film GROUP BY release_year
  ORDER BY 1;
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY amount), avg(amount) FROM payment;
SELECT extract(hour FROM payment_date), count(*) FROM payment GROUP BY 1 ORDER BY 1;
