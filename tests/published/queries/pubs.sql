CREATE MATERIALIZED VIEW sold_of_title AS
  SELECT t.title_id, t.title, count(*) AS orders, sum(s.qty) AS copies FROM sales s
  JOIN titles t ON t.title_id = s.title_id GROUP BY t.title_id, t.title;

SELECT au_lname, au_fname FROM authors WHERE state = 'CA' ORDER BY 1, 2;
SELECT t.title, p.pub_name FROM titles t JOIN publishers p ON p.pub_id = t.pub_id ORDER BY 1;
SELECT t.title_id, t.title, count(*), sum(s.qty) FROM sales s JOIN titles t
  ON t.title_id = s.title_id GROUP BY t.title_id, t.title ORDER BY 1;
SELECT type, count(*), avg(price), max(ytd_sales) FROM titles GROUP BY type ORDER BY type;
SELECT a.au_lname, t.title, ta.royaltyper FROM titleauthor ta JOIN authors a ON a.au_id = ta.au_id
  JOIN titles t ON t.title_id = ta.title_id ORDER BY 1, 2, a.au_id;
SELECT e.lname, j.job_desc, e.hire_date FROM employee e JOIN jobs j ON j.job_id = e.job_id
  WHERE e.hire_date >= DATE '1992-01-01' ORDER BY e.emp_id;
SELECT st.stor_name, s.ord_num, s.qty FROM sales s JOIN stores st ON st.stor_id = s.stor_id
  ORDER BY 1, 2, s.title_id;
SELECT pub_name FROM publishers p WHERE NOT EXISTS
  (SELECT 1 FROM titles t WHERE t.pub_id = p.pub_id) ORDER BY 1;
SELECT title, price, rank() OVER (ORDER BY price DESC) FROM titles WHERE price IS NOT NULL
  ORDER BY price DESC, title;
SELECT discounttype, discount, coalesce(lowqty, 0) FROM discounts ORDER BY discount;
SELECT pub_id, octet_length(logo) FROM pub_info ORDER BY pub_id;
