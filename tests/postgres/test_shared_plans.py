"""Law: a query of the corpus has the same answer by a plan that it shares as by its own plan."""

from __future__ import annotations

import asyncio

from hornbeam_server.query.sharing import split
from tests.postgres.corpus import corpus, is_statement
from tests.postgres.hornbeam import answers, database

OTHERS = {
    "text": "'other'",
    "decimal": "0.25",
    "integer": "12",
    "date": "DATE '2001-02-03'",
    "timestamp": "TIMESTAMP '2001-02-03 04:05:06'",
}
"""A literal of each kind, for another text of the same shape."""
MORE = (
    "SELECT id, day FROM t WHERE day = DATE '2024-02-29' ORDER BY id",
    "SELECT count(*), max(day) FROM t WHERE day >= date '2024-01-31'"
    " AND ts < TIMESTAMP '2024-02-29 23:59:59.5'",
    "SELECT id FROM t WHERE ts = DATE '1999-12-31'",
    "SELECT id FROM t WHERE day = TIMESTAMP '1999-12-31 00:00:00'",
    "SELECT p_group, count(*), sum(q_amount) FROM p JOIN q ON p_id = q_p_id WHERE q_kind <> 'b'"
    " AND q_amount > 1.5 GROUP BY p_group HAVING p_group > 9 ORDER BY 1 LIMIT 5",
    "SELECT p_name FROM p WHERE p_id IN (SELECT q_p_id FROM q WHERE q_amount >= 2) ORDER BY p_id",
    "SELECT p_name FROM p WHERE EXISTS (SELECT 1 FROM q WHERE q_p_id = p_id AND q_id IN (1, 2, 3))",
    "SELECT id, sum(a) OVER (ORDER BY id) FROM t WHERE id BETWEEN 2 AND 5 ORDER BY id OFFSET 1",
    "SELECT count(*) FROM t WHERE n = 2.505 OR a = 2.5 OR b = 99999999999999999999",
    "SELECT count(*) FROM t WHERE s = 70000 OR x = 'it''s' OR k = 't' OR u = 'no uuid'",
)


def pairs() -> list[tuple[str, str]]:
    """Queries with literals that may be shared, each with another text of its shape."""
    found = []
    for sql in (*MORE, *filter(is_statement, corpus())):
        text = split(sql)
        if text is not None and text.compared():
            others = {place: OTHERS[kind] for place, kind in enumerate(text.kinds)}
            found.append((sql, text.with_literals(others)))
    return found


async def compared(folder) -> int:
    """Compare the answers. Returns the number of plans that were shared."""
    cases = pairs()
    texts = [sql for sql, _ in cases]
    async with database(folder / "own") as own:
        own.engine.shared = lambda *_, **__: None
        wanted = await answers(own, texts, alone=texts)
    count = 0
    async with database(folder / "shared") as other:
        for sql, alike in cases:
            await answers(other, [alike], alone=[alike])
            found = await answers(other, [sql], alone=[sql])
            assert found[sql] == wanted[sql], sql
            count += other.engine.known(sql, other.manager.state.catalog) is None
    return count


def test_shared_plans_give_the_answers_of_own_plans(tmp_path):
    assert asyncio.run(compared(tmp_path)) > 90
