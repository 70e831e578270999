"""Views with an ENUM in keys, groups, minima, joins and expressions equal their SELECTs computed
again, also after labels have been added between others."""

from random import Random

import pytest

from hornbeam_server.schema.types import Kind
from tests.maintain.deltas.deltas_world import World, catalog_of

DDL = """
CREATE TYPE size AS ENUM ('S', 'XL', 'L', 'A');
CREATE TABLE p (k size, i INTEGER, s size, n INTEGER, PRIMARY KEY (k, i));
CREATE TABLE q (s size PRIMARY KEY, w INTEGER);
CREATE INDEX p_s ON p (s DESC);
"""
VIEWS = {
    "rows": "SELECT k, i, s, s::text AS t FROM p WHERE s >= 'XL'",
    "groups": "SELECT s, COUNT(*) AS c, MIN(k) AS lo, MAX(k) AS hi, COUNT(DISTINCT k) AS d FROM p"
    " GROUP BY s",
    "joined": "SELECT p.k, p.i, q.w, COALESCE(p.s, 'L') AS c FROM p JOIN q ON p.s = q.s",
    "computed": "SELECT i, MAX(COALESCE(s, 'A')) AS m, MIN(CASE WHEN n > 1 THEN s ELSE k END) AS c"
    " FROM p GROUP BY i",
    "followed": "WITH RECURSIVE r (a, b) AS (SELECT k, s FROM p UNION SELECT r.a, p.s FROM r JOIN p"
    " ON p.k = r.b) SELECT a, b, MIN(b) AS m, COUNT(*) AS c FROM r GROUP BY a, b",
    "outer": "SELECT q.s, q.w, p.i FROM q LEFT JOIN p ON p.s = q.s AND p.k < q.s",
    "bag": "SELECT k FROM p UNION ALL SELECT s FROM q UNION ALL SELECT 'XL' FROM q",
    "ranked": "SELECT s, k, MAX(n) AS n FROM p WHERE k IN ('S', 'A') GROUP BY s, k"
    " HAVING MAX(k) > 'S'",
}


@pytest.mark.parametrize("seed", [1, 2])
def test_views_over_an_enum_equal_their_selects(seed: int) -> None:
    world, random = World(catalog_of(DDL), VIEWS), Random(seed)
    labels = [*world.relations["p"].column("k").type.labels.by_position.values()]
    assert world.programs["groups"].columns[0].type.kind is Kind.ENUM
    for _ in range(12):
        writes = []
        for _ in range(random.randint(1, 4)):
            k, i = random.choice(labels), random.randint(0, 2)
            s = random.choice([None, *labels])
            if random.random() < 0.3:
                writes.append(("p", (k, i), None))
            else:
                writes.append(("p", (k, i, s, random.randint(0, 3))))
        if random.random() < 0.5:
            writes.append(("q", (random.choice(labels), random.randint(0, 9))))
        world.commit(*writes)
        world.check()
    world.check_anew()
