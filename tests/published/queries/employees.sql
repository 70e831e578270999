CREATE MATERIALIZED VIEW titles_held AS
  SELECT title, count(*) AS held, min(from_date) AS first FROM titles GROUP BY title;

SELECT count(*), min(hire_date), max(birth_date) FROM employees;
SELECT d.dept_name, count(*) FROM dept_emp de JOIN departments d ON d.dept_no = de.dept_no
  GROUP BY d.dept_no, d.dept_name ORDER BY d.dept_no;
SELECT d.dept_name, e.first_name, e.last_name, m.from_date FROM dept_manager m
  JOIN departments d ON d.dept_no = m.dept_no JOIN employees e ON e.emp_no = m.emp_no
  WHERE m.to_date = '9999-01-01' ORDER BY d.dept_name, m.emp_no;
SELECT title, count(*) FROM titles GROUP BY title ORDER BY title;
SELECT gender, count(*), avg(salary) FROM employees e JOIN salaries s ON s.emp_no = e.emp_no
  GROUP BY gender ORDER BY CAST(gender AS TEXT);
SELECT emp_no, max(salary), min(salary), count(*) FROM salaries GROUP BY emp_no
  ORDER BY max(salary) DESC, emp_no LIMIT 100;
SELECT emp_no, from_date, salary, salary - lag(salary) OVER (PARTITION BY emp_no
  ORDER BY from_date) FROM salaries WHERE emp_no < 10050 ORDER BY emp_no, from_date;
SELECT l.emp_no, d.dept_no, l.from_date, l.to_date FROM dept_emp d JOIN
  (SELECT emp_no, max(from_date) AS from_date, max(to_date) AS to_date FROM dept_emp
   GROUP BY emp_no) l ON d.emp_no = l.emp_no AND d.from_date = l.from_date
  AND l.to_date = d.to_date WHERE l.emp_no < 10100 ORDER BY l.emp_no;
SELECT extract(year FROM hire_date), count(*) FROM employees GROUP BY 1 ORDER BY 1;
SELECT last_name, count(*) FROM employees GROUP BY last_name ORDER BY count(*) DESC, last_name
  LIMIT 20;
SELECT e.emp_no FROM employees e WHERE NOT EXISTS (SELECT 1 FROM titles t
  WHERE t.emp_no = e.emp_no) ORDER BY 1 LIMIT 50;
SELECT t.title, avg(s.salary) FROM titles t JOIN salaries s ON s.emp_no = t.emp_no
  AND s.from_date BETWEEN t.from_date AND t.to_date GROUP BY t.title ORDER BY t.title;
SELECT dept_no, dept_name FROM departments ORDER BY dept_name;
