CREATE MATERIALIZED VIEW people_of_country AS
  SELECT countrycode, count(*) AS cities, sum(population) AS people FROM city GROUP BY countrycode;

SELECT name, population FROM city ORDER BY population DESC, id LIMIT 20;
SELECT continent, count(*), sum(population), avg(lifeexpectancy) FROM country
  GROUP BY continent ORDER BY continent;
SELECT c.name, ci.name FROM country c JOIN city ci ON ci.id = c.capital ORDER BY c.code;
SELECT c.name, l.language, l.percentage FROM countrylanguage l JOIN country c
  ON c.code = l.countrycode WHERE l.isofficial ORDER BY c.name, l.language;
SELECT language, count(*) FROM countrylanguage GROUP BY language HAVING count(*) > 5
  ORDER BY 2 DESC, 1;
SELECT name FROM country WHERE NOT EXISTS (SELECT 1 FROM city WHERE countrycode = country.code)
  ORDER BY name;
SELECT countrycode, count(*), sum(population) FROM city GROUP BY countrycode ORDER BY 3 DESC, 1;
SELECT name, population, rank() OVER (PARTITION BY countrycode ORDER BY population DESC) FROM city
  WHERE countrycode IN ('DEU', 'FRA', 'NLD') ORDER BY id;
SELECT name FROM country WHERE gnp > (SELECT avg(gnp) FROM country) ORDER BY gnp DESC, code;
SELECT region, max(surfacearea), min(indepyear) FROM country GROUP BY region ORDER BY region;
SELECT code, localname FROM country WHERE localname LIKE '%é%' OR name ILIKE 'a%' ORDER BY code;
