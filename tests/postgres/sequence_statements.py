"""Scripts of statements that take numbers from sequences (`scripts.py`)."""

# ruff: noqa: E501 (a statement is one line)

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

STATEMENTS: Mapping[str, str] = MappingProxyType(
    {
        "numbers over joins": """
CREATE SEQUENCE s
CREATE TABLE a (id INT PRIMARY KEY, x TEXT)
CREATE TABLE b (id INT PRIMARY KEY, a_id INT, y TEXT)
INSERT INTO a VALUES (1, 'p'), (2, 'q'), (3, 'z')
INSERT INTO b VALUES (10, 1, 'r'), (11, 2, 's'), (12, 2, 't'), (13, 9, 'u')
SELECT sum(nextval('s')), count(*) FROM a JOIN b ON a.id = a_id
SELECT sum(nextval('s') * 0 + b.id), max(x) FROM a, b WHERE a.id = a_id
SELECT x, count(nextval('s')), string_agg(y, ',' ORDER BY b.id) FROM a LEFT JOIN b ON a.id = b.a_id GROUP BY a.x ORDER BY x
SELECT lastval()
SELECT a.*, y FROM a JOIN b ON a.id = a_id WHERE nextval('s') > 0 ORDER BY b.id
SELECT * FROM a JOIN b USING (id) WHERE nextval('s') > 0
SELECT count(*) FROM (SELECT * FROM a RIGHT JOIN (SELECT a_id AS id, y FROM b) c USING (id) WHERE nextval('s') > 0) q
SELECT id, y FROM a LEFT JOIN (SELECT a_id AS id, y FROM b) c USING (id) WHERE nextval('s') > 0 AND id > 2 ORDER BY id
SELECT lastval()
SELECT n - min(n) OVER (), x FROM (SELECT nextval('s') AS n, x, y FROM a, b WHERE a.id = a_id ORDER BY n DESC, x) q ORDER BY 1
SELECT x, nextval('s') * 0 AS z FROM a JOIN b ON a.id = a_id ORDER BY z, y DESC
SELECT x, y FROM a NATURAL JOIN (SELECT a_id AS id, y FROM b) b ORDER BY nextval('s') * 0, y
SELECT lastval()
SELECT count(*), nextval('s') * 0 + a.id % 2 AS odd FROM a JOIN b ON a.id = a_id GROUP BY odd ORDER BY odd
SELECT a.id, (SELECT max(y) FROM b WHERE a_id = a.id) FROM a CROSS JOIN (SELECT 1 AS one) o WHERE nextval('s') > 0 ORDER BY a.id
SELECT a.id, (SELECT max(id) FROM b WHERE a_id = x.id) FROM a JOIN a AS x ON x.id = a.id WHERE nextval('s') > 0 ORDER BY 1
SELECT x, sum(nextval('s') * 0 + 1) OVER (PARTITION BY x) FROM a JOIN b ON a.id = a_id ORDER BY 1
SELECT a.x, g FROM a, generate_series(1, 2) AS g WHERE nextval('s') > 0 AND g = a.id ORDER BY g
SELECT count(*) FILTER (WHERE nextval('s') > 0 AND y > 'r') FROM a JOIN b ON a.id = a_id
WITH w AS (SELECT a.id, y FROM a JOIN b ON a.id = a_id) SELECT count(*), max(w.y) FROM w JOIN a USING (id) WHERE nextval('s') > 0 AND a.x = 'q'
SELECT x FROM a JOIN b ON a.id = a_id WHERE nextval('s') > 0 GROUP BY x HAVING count(*) > 1
SELECT lastval()
SELECT count(*) FROM a WHERE id > 1 AND nextval('s') > 0
SELECT lastval()
""",
        "numbers in queries of writes": """
CREATE SEQUENCE s
CREATE TABLE a (id INT PRIMARY KEY, x TEXT)
CREATE TABLE b (id INT PRIMARY KEY, a_id INT, y TEXT)
CREATE TABLE c (id BIGINT PRIMARY KEY, y TEXT)
INSERT INTO a VALUES (1, 'p'), (2, 'q'), (3, 'z')
INSERT INTO b VALUES (10, 1, 'r'), (11, 2, 's'), (12, 2, 't'), (13, 9, 'u')
INSERT INTO c SELECT nextval('s'), a.x || y FROM a JOIN b ON a.id = a_id ORDER BY b.id
INSERT INTO c SELECT nextval('s') AS n, 'l' FROM a LEFT JOIN b ON a.id = a_id ORDER BY n
INSERT INTO c SELECT max(nextval('s')) AS n, 'm' FROM a JOIN b ON a.id = a_id
INSERT INTO c SELECT * FROM (SELECT nextval('s') AS n, 'k' FROM a JOIN b ON a.id = a_id ORDER BY 1) q WHERE n > 0
INSERT INTO c WITH q AS (SELECT nextval('s') AS n, x FROM a ORDER BY id) SELECT n, x FROM q WHERE x > 'p'
WITH q AS (SELECT nextval('s') AS n, x FROM a ORDER BY id) INSERT INTO c SELECT n + 1000, x FROM q RETURNING *
INSERT INTO c SELECT nextval('s') + 2000, x FROM (SELECT nextval('s') AS n, x FROM a ORDER BY id) q ORDER BY n
INSERT INTO c SELECT nextval('s'), x FROM a WHERE id = 1 UNION ALL SELECT nextval('s'), y FROM b WHERE id = 10
INSERT INTO c SELECT id + 100000, x FROM a WHERE nextval('s') > 0
INSERT INTO c SELECT DISTINCT nextval('s') * 0 + 7777, 'd' FROM a
UPDATE b SET a_id = (SELECT nextval('s')) WHERE id < 12
UPDATE b SET y = q.n::text FROM (SELECT id, nextval('s') * 0 + id AS n FROM a) q WHERE b.id = q.n + 10
DELETE FROM c WHERE id IN (SELECT nextval('s') * 0 + id FROM a)
MERGE INTO c USING (SELECT nextval('s') * 0 + id AS n, x FROM a) q ON c.id = q.n + 3 WHEN MATCHED THEN UPDATE SET y = q.x WHEN NOT MATCHED THEN INSERT VALUES (q.n, 'new')
INSERT INTO c VALUES (50000, 'v') RETURNING id, (SELECT nextval('s') * 0 + max(id) FROM a)
INSERT INTO c (id) SELECT 7777 ON CONFLICT (id) DO UPDATE SET y = (SELECT 'n' || nextval('s'))
WITH w AS (INSERT INTO c SELECT n + 60000, x FROM (SELECT nextval('s') * 0 + id AS n, x FROM a) q RETURNING id) SELECT count(*), max(id) FROM w
WITH n AS (SELECT nextval('s') * 0 + 70000 AS n), w AS (INSERT INTO c SELECT n, 'w' FROM n RETURNING id) INSERT INTO c SELECT id + 1, 'after' FROM w
WITH unread AS (SELECT nextval('s') AS n) INSERT INTO c VALUES (80000, 'u')
SELECT * FROM c ORDER BY id
SELECT * FROM b ORDER BY id
SELECT lastval()
""",
    }
)
