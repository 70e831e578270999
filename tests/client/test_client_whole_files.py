"""Whole files in the shape of published ones are imported by one command. Their queries answer as
in PostgreSQL, with views and without; random writes to every relation leave no difference."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import hornbeam
from hornbeam.errors import IntegrityError
from tests.client import client_world
from tests.client.client_world import Run

POSTGRES = r"""
--
-- PostgreSQL database dump
--
SET client_encoding = 'UTF8';
CREATE TYPE mpaa AS ENUM ('G', 'PG', 'R');
CREATE DOMAIN year AS integer CONSTRAINT year_check CHECK (VALUE >= 1901 AND VALUE <= 2155);
CREATE FUNCTION last_day(date) RETURNS date LANGUAGE sql AS $_$ SELECT $1; $_$;
CREATE SEQUENCE film_film_id_seq START WITH 1 INCREMENT BY 1 NO MAXVALUE NO MINVALUE CACHE 1;
CREATE TABLE film (
    film_id integer DEFAULT nextval('film_film_id_seq'::regclass) NOT NULL,
    title character varying(255) NOT NULL, release_year year, language_id smallint NOT NULL,
    rate numeric(4,2) DEFAULT 4.99 NOT NULL, rating mpaa DEFAULT 'G'::mpaa,
    last_update timestamp without time zone DEFAULT now() NOT NULL, fulltext tsvector
);
ALTER TABLE public.film OWNER TO postgres;
CREATE TABLE language (language_id integer NOT NULL, name character(20) NOT NULL);
CREATE TABLE staff (staff_id integer NOT NULL, name text NOT NULL, store_id integer NOT NULL,
    active boolean DEFAULT true NOT NULL, picture bytea);
CREATE TABLE store (store_id integer NOT NULL, manager_staff_id integer NOT NULL, city text);
CREATE TABLE payment (payment_id integer NOT NULL, staff_id integer NOT NULL, film_id integer,
    amount numeric(5,2) NOT NULL, payment_date timestamp without time zone NOT NULL);
CREATE TABLE payment_01 (CONSTRAINT payment_01_check CHECK (((payment_date >= '2007-01-01'::date)
    AND (payment_date < '2007-02-01'::date)))) INHERITS (payment);
CREATE TABLE payment_02 (CONSTRAINT payment_02_check CHECK ((payment_date >= '2007-02-01'::date)))
    INHERITS (payment);
CREATE VIEW sales_by_store AS
 SELECT s.city, m.name AS manager, sum(p.amount) AS total FROM (((payment p
     JOIN staff f ON ((p.staff_id = f.staff_id))) JOIN store s ON ((f.store_id = s.store_id)))
     JOIN staff m ON ((s.manager_staff_id = m.staff_id))) GROUP BY s.city, m.name ORDER BY s.city;
CREATE VIEW endings AS SELECT last_day(payment_date::date) FROM payment;
COPY film (film_id, title, release_year, language_id, rate, rating, last_update, fulltext)
  FROM stdin;
1	ACADEMY DINOSAUR	2006	1	0.99	PG	2007-09-10 17:46:03.905795	'academi':1 'dinosaur':2
2	ACE GOLDFINGER	2006	1	4.99	G	2007-09-10 17:46:03.905795	'ace':1
3	ZORRO ARK	\N	2	2.99	R	2007-09-10 17:46:03.905795	\N
\.
COPY language (language_id, name) FROM stdin;
1	English
2	Italian
\.
COPY payment_01 (payment_id, staff_id, film_id, amount, payment_date) FROM stdin;
1	1	1	7.99	2007-01-24 21:40:19.996577
2	2	1	1.99	2007-01-25 15:16:50.996577
3	3	\N	0.99	2007-01-28 21:44:14.996577
\.
COPY payment_02 (payment_id, staff_id, film_id, amount, payment_date) FROM stdin;
4	1	2	3.00	2007-02-14 21:23:39.996577
5	3	3	5.50	2007-02-15 19:36:27.996577
\.
COPY staff (staff_id, name, store_id, active, picture) FROM stdin;
1	Mike	1	t	\\x89504e
2	Jon	2	t	\N
3	Ann	1	f	\N
\.
COPY store (store_id, manager_staff_id, city) FROM stdin;
1	1	Lethbridge
2	2	Woodridge
\.
SELECT pg_catalog.setval('film_film_id_seq', 1000, true);
ALTER TABLE ONLY film ADD CONSTRAINT film_pkey PRIMARY KEY (film_id);
ALTER TABLE ONLY language ADD CONSTRAINT language_pkey PRIMARY KEY (language_id);
ALTER TABLE ONLY staff ADD CONSTRAINT staff_pkey PRIMARY KEY (staff_id);
ALTER TABLE ONLY store ADD CONSTRAINT store_pkey PRIMARY KEY (store_id);
ALTER TABLE ONLY payment ADD CONSTRAINT payment_pkey PRIMARY KEY (payment_id);
CREATE INDEX film_fulltext_idx ON film USING gist (fulltext);
CREATE UNIQUE INDEX idx_unq_manager ON store USING btree (manager_staff_id);
CREATE INDEX idx_01_staff ON payment_01 USING btree (staff_id);
CREATE RULE payment_insert AS ON INSERT TO payment DO INSTEAD NOTHING;
ALTER TABLE ONLY film ADD CONSTRAINT film_language FOREIGN KEY (language_id)
    REFERENCES language(language_id) ON UPDATE CASCADE ON DELETE RESTRICT;
ALTER TABLE ONLY payment ADD CONSTRAINT payment_film FOREIGN KEY (film_id)
    REFERENCES film(film_id) ON UPDATE CASCADE ON DELETE SET NULL;
ALTER TABLE ONLY payment_01 ADD CONSTRAINT payment_01_staff FOREIGN KEY (staff_id)
    REFERENCES staff(staff_id);
ALTER TABLE ONLY payment ADD CONSTRAINT payment_staff FOREIGN KEY (staff_id)
    REFERENCES staff(staff_id) ON UPDATE CASCADE ON DELETE RESTRICT;
ALTER TABLE ONLY staff ADD CONSTRAINT staff_store FOREIGN KEY (store_id)
    REFERENCES store(store_id) ON UPDATE CASCADE;
ALTER TABLE ONLY store ADD CONSTRAINT store_manager FOREIGN KEY (manager_staff_id)
    REFERENCES staff(staff_id) ON UPDATE CASCADE ON DELETE RESTRICT;
"""
MYSQL = r"""
-- MySQL dump 10.13
CREATE TABLE language (language_id TINYINT UNSIGNED NOT NULL AUTO_INCREMENT, name CHAR(20) NOT NULL,
  PRIMARY KEY (language_id)) ENGINE=InnoDB;
CREATE TABLE film (
  film_id SMALLINT UNSIGNED NOT NULL AUTO_INCREMENT, title VARCHAR(255) NOT NULL,
  release_year YEAR DEFAULT NULL, language_id TINYINT UNSIGNED NOT NULL,
  rate DECIMAL(4,2) NOT NULL DEFAULT 4.99, rating ENUM('G','PG','R') DEFAULT 'G',
  features SET('Trailers','Deleted Scenes') DEFAULT NULL,
  last_update TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (film_id), KEY idx_title (title),
  CONSTRAINT film_language FOREIGN KEY (language_id) REFERENCES language (language_id)
    ON DELETE RESTRICT ON UPDATE CASCADE) ENGINE=InnoDB DEFAULT CHARSET=utf8;
CREATE TABLE staff (staff_id TINYINT UNSIGNED NOT NULL AUTO_INCREMENT, name VARCHAR(45) NOT NULL,
  store_id TINYINT UNSIGNED NOT NULL, active BOOLEAN NOT NULL DEFAULT TRUE, picture BLOB,
  PRIMARY KEY (staff_id), KEY idx_fk_store_id (store_id),
  CONSTRAINT staff_store FOREIGN KEY (store_id) REFERENCES store (store_id) ON UPDATE CASCADE);
CREATE TABLE store (store_id TINYINT UNSIGNED NOT NULL AUTO_INCREMENT, manager_staff_id TINYINT
  UNSIGNED NOT NULL, city TEXT, PRIMARY KEY (store_id), UNIQUE KEY idx_unique (manager_staff_id),
  CONSTRAINT store_manager FOREIGN KEY (manager_staff_id) REFERENCES staff (staff_id)
    ON DELETE RESTRICT ON UPDATE CASCADE);
CREATE TABLE payment (payment_id SMALLINT UNSIGNED NOT NULL AUTO_INCREMENT,
  staff_id TINYINT UNSIGNED NOT NULL, film_id SMALLINT UNSIGNED DEFAULT NULL,
  amount DECIMAL(5,2) NOT NULL, payment_date DATETIME NOT NULL, PRIMARY KEY (payment_id),
  CONSTRAINT payment_film FOREIGN KEY (film_id) REFERENCES film (film_id) ON DELETE SET NULL
    ON UPDATE CASCADE,
  CONSTRAINT payment_staff FOREIGN KEY (staff_id) REFERENCES staff (staff_id) ON UPDATE CASCADE);
CREATE VIEW sales_by_store AS SELECT 1;
DELIMITER ;;
CREATE TRIGGER ins_film AFTER INSERT ON film FOR EACH ROW BEGIN SET @a = 1; END;;
DELIMITER ;
SET AUTOCOMMIT=0;
INSERT INTO film VALUES (1,'ACADEMY DINOSAUR',2006,1,'0.99','PG','Trailers,Deleted Scenes',
  '2007-09-10 17:46:03'),(2,'ACE GOLDFINGER',2006,1,'4.99','G','','2007-09-10 17:46:03'),
  (3,'ZORRO ARK',NULL,2,2.99,'R',NULL,'2007-09-10 17:46:03');
INSERT INTO language VALUES (1,'English'),(2,'Italian');
INSERT INTO payment VALUES (1,1,1,'7.99','2007-01-24 21:40:19'),
  (2,2,1,'1.99','2007-01-25 15:16:50'),
  (3,3,NULL,'0.99','2007-01-28 21:44:14'),(4,1,2,'3.00','2007-02-14 21:23:39'),
  (5,3,3,'5.50','2007-02-15 19:36:27');
INSERT INTO staff VALUES (1,'Mike',1,1,0x89504e),(2,'Jon',2,1,NULL),(3,'Ann',1,0,NULL);
INSERT INTO store VALUES (1,1,'Lethbridge'),(2,2,'Woodridge');
COMMIT;
"""
WORKLOAD = """
-- name: staff_of
SELECT name, city FROM staff, store WHERE staff.store_id = store.store_id AND staff_id = ?;
-- name: sales
SELECT s.city, sum(p.amount), count(*) FROM payment p JOIN staff f ON p.staff_id = f.staff_id
  JOIN store s ON f.store_id = s.store_id GROUP BY s.city;
-- name: paid
SELECT title, amount FROM film, payment WHERE payment.film_id = film.film_id AND payment_id = ?;
"""
ANSWERS: list[tuple[str, list[tuple[Any, ...]]]] = [
    ("SELECT count(*), CAST(sum(amount) AS TEXT) FROM payment", [(5, "19.47")]),
    (
        "SELECT s.city, CAST(sum(p.amount) AS TEXT), count(*) FROM payment p"
        " JOIN staff f ON p.staff_id = f.staff_id JOIN store s ON f.store_id = s.store_id"
        " GROUP BY s.city ORDER BY 1",
        [("Lethbridge", "17.48", 4), ("Woodridge", "1.99", 1)],
    ),
    (
        "SELECT m.name, s.city FROM store s JOIN staff m ON s.manager_staff_id = m.staff_id"
        " ORDER BY s.store_id",
        [("Mike", "Lethbridge"), ("Jon", "Woodridge")],
    ),
    (
        "SELECT name, city FROM staff, store WHERE staff.store_id = store.store_id"
        " AND staff_id = 3",
        [("Ann", "Lethbridge")],
    ),
    (
        "SELECT title, CAST(sum(amount) AS TEXT) FROM film LEFT JOIN payment USING (film_id)"
        " GROUP BY film_id, title ORDER BY 2 DESC, 1",
        [("ACADEMY DINOSAUR", "9.98"), ("ZORRO ARK", "5.50"), ("ACE GOLDFINGER", "3.00")],
    ),
    (
        "SELECT f.release_year, trim(l.name), count(*) FROM film f JOIN language l"
        " ON f.language_id = l.language_id GROUP BY f.release_year, l.name"
        " ORDER BY f.release_year DESC",
        [(None, "Italian", 1), (2006, "English", 2)],
    ),
    (
        "SELECT extract(month FROM payment_date), count(*), 7 / 2 FROM payment GROUP BY 1"
        " ORDER BY 1",
        [(1, 3, 3), (2, 2, 3)],
    ),
    ("SELECT name FROM staff WHERE NOT active", [("Ann",)]),
    ("SELECT title FROM film WHERE rating = 'PG' AND title LIKE 'A%'", [("ACADEMY DINOSAUR",)]),
]
"""Queries, and their answers by PostgreSQL 15 loaded with the file of PostgreSQL."""
RELATIONS = {
    "language": ("language_id", "name"),
    "film": ("film_id", "title", "language_id"),
    "staff": ("staff_id", "name", "store_id"),
    "store": ("store_id", "manager_staff_id", "city"),
    "payment": ("payment_id", "staff_id", "film_id", "amount", "payment_date"),
}


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    where = client_world.embedded(tmp_path / "db")
    with hornbeam.connect(where):
        yield where


def statement_of(choice: random.Random) -> str:
    """A random write to a random relation."""
    relation = choice.choice(list(RELATIONS))
    key, *columns = RELATIONS[relation]
    number = choice.randint(1, 6)

    def value(column: str) -> str:
        if column == "amount":
            return f"{choice.randint(0, 900) / 100}"
        if column.endswith("_id"):
            return str(choice.randint(1, 5))
        return "'2007-03-01'" if column.endswith("date") else f"'{choice.choice('xyz')}'"

    match choice.randint(0, 3):
        case 0:
            values = ", ".join([str(number), *map(value, columns)])
            return f"INSERT INTO {relation} ({key}, {', '.join(columns)}) VALUES ({values})"
        case 1:
            return f"DELETE FROM {relation} WHERE {key} = {number}"
        case _:
            column = choice.choice([key, *columns])
            return f"UPDATE {relation} SET {column} = {value(column)} WHERE {key} = {number}"


@pytest.mark.parametrize("text", [POSTGRES, MYSQL], ids=["postgres", "mysql"])
def test_a_whole_file_is_imported_queried_and_written(
    run: Run, url: str, tmp_path: Path, text: str
) -> None:
    dump = tmp_path / "dump.sql"
    dump.write_text(text)
    code, _, err = run("import", str(dump))
    assert code == 0, err
    with hornbeam.connect(url, autocommit=True) as db:
        cursor = db.cursor()
        for sql, answer in ANSWERS:
            assert [tuple(row) for row in cursor.execute(sql).fetchall()] == answer, sql
        if text is POSTGRES:
            found = cursor.execute("SELECT city, manager FROM sales_by_store").fetchall()
            assert [tuple(row) for row in found] == [("Lethbridge", "Mike"), ("Woodridge", "Jon")]
            cursor.execute("INSERT INTO film (title, language_id) VALUES ('NEW', 1)")
            (row,) = cursor.execute("SELECT film_id FROM film WHERE title = 'NEW'").fetchall()
            assert row[0] > 3
            cursor.execute("DELETE FROM film WHERE title = 'NEW'")
    client_world.apply(url, run("schema", "show", "--ddl")[1], WORKLOAD)
    choice, done = random.Random(7), 0
    with hornbeam.connect(url, autocommit=True) as db:
        cursor = db.cursor()
        for sql, answer in ANSWERS:
            assert [tuple(row) for row in cursor.execute(sql).fetchall()] == answer, sql
        for _ in range(120):
            with suppress(IntegrityError):
                cursor.execute(statement_of(choice))
                done += 1
    assert done > 40
    code, out, _ = run("verify")
    assert (code, "0 differences" in out) == (0, True), out
