"""A statement with words that are missing, doubled or misplaced is parsed or refused, without other
errors, and what is parsed keeps all of its words."""

from __future__ import annotations

import random

from hornbeam_server.query.parsing.parse import parse
from hornbeam_server.schema.errors import HornbeamError
from hornbeam_server.schema.trees import unlink
from tests.depth import depth

STATEMENTS = [
    statement.split()
    for statement in (
        "SELECT a FROM t WHERE a = 1 AND b IN ( 1 , 2 )",
        "SELECT DISTINCT a , b FROM t JOIN u USING ( a ) WHERE NOT EXISTS ( SELECT 1 FROM u )",
        "SELECT CASE WHEN a IS NULL THEN 1 ELSE b END FROM t GROUP BY a HAVING a BETWEEN 1 AND 2",
        "SELECT count ( DISTINCT a ORDER BY b ) FILTER ( WHERE b > 1 ) OVER ( ORDER BY c ) FROM t",
        "SELECT a FROM t LEFT JOIN u ON t . a = u . b ORDER BY a DESC NULLS LAST LIMIT 1 OFFSET 2",
        "SELECT a FROM t UNION ALL SELECT b FROM u EXCEPT SELECT 1",
        "WITH x AS ( SELECT a FROM t ) SELECT CAST ( a AS TEXT ) || 'x' FROM x",
        "UPDATE t SET a = 1 , b = b + 1 FROM u WHERE t . a = u . a RETURNING t . a",
        "DELETE FROM t USING u WHERE t . a = u . a AND b IS NOT TRUE",
        "INSERT INTO t ( a , b ) VALUES ( 1 , 'x' ) ON CONFLICT ( a ) DO UPDATE SET b = 2",
        "INSERT INTO t SELECT a , b FROM u WHERE a LIKE 'x%' ESCAPE '!'",
        "MERGE INTO t USING u ON t . a = u . a WHEN MATCHED THEN UPDATE SET b = 1",
    )
]
WORDS = sorted({word for statement in STATEMENTS for word in statement})


def damaged(randomness: random.Random) -> str:
    """A statement with one to three changes."""
    words = list(randomness.choice(STATEMENTS))
    for _ in range(randomness.randint(1, 3)):
        place = randomness.randrange(len(words))
        other = randomness.choice(STATEMENTS)
        start = randomness.randrange(len(other))
        words[place : place + randomness.randint(0, 1)] = randomness.choice(
            [[], [randomness.choice(WORDS)], other[start : start + randomness.randint(1, 4)]]
        )
    return " ".join(words)


def test_damaged_statements_are_parsed_or_refused():
    randomness = random.Random(1)
    parsed = 0
    number = depth(2_000, long=100_000)
    for _ in range(number):
        sql = damaged(randomness)
        try:
            unlink(parse(sql))
        except HornbeamError:
            continue
        except Exception as error:
            raise AssertionError(sql) from error
        parsed += 1
    assert parsed > number / 50


def test_no_clause_is_passed_over():
    """Each clause stands twice, and only the last one would count."""
    for sql, word in {
        "DELETE FROM t WHERE a = 1 WHERE b = 2": "WHERE",
        "UPDATE t SET a = 1 SET b = 2": "SET",
        "UPDATE t SET a = 1 WHERE a = 2 WHERE b = 3": "WHERE",
        "UPDATE t SET a = 1 RETURNING a RETURNING b": "RETURNING",
        "SELECT a FROM t ORDER BY a ORDER BY b": "ORDER",
        "SELECT a FROM t LIMIT 1 LIMIT 2": "LIMIT",
        "SELECT a FROM t GROUP BY a GROUP BY b": "GROUP",
    }.items():
        try:
            unlink(parse(sql))
        except HornbeamError:
            continue
        raise AssertionError(f"{word} is passed over: {sql}")
