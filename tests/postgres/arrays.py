"""Expressions and queries over arrays."""

# ruff: noqa: E501 (a case is one line)

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

VALUES = (
    "ARRAY[1, 2, 3]", "'{1,NULL,2}'::INTEGER[]", "'{}'::INTEGER[]", "NULL::INTEGER[]", "'{NULL}'::INTEGER[]",
)  # fmt: skip
OTHERS = (
    "ARRAY[2]",
    "'{3,1}'::INTEGER[]",
    "ARRAY[NULL, 1]::INTEGER[]",
    "'{}'::INTEGER[]",
    "NULL::INTEGER[]",
)
PLACES = ("1", "2", "0", "-1", "4", "NULL")
SLICES = ("1:2", "2:", ":2", "0:1", "-3:-1", "3:2", "2:9", "NULL:2")
BINARY = ("=", "<>", "<", "<=", ">", ">=", "@>", "<@", "&&", "||", "IS DISTINCT FROM")
COMPARED = ("= ANY", "<> ANY", "< ANY", ">= ANY", "= ALL", "<> ALL", "> ALL")
UNARY = ("cardinality({})", "array_length({}, 1)", "array_length({}, 2)", "array_upper({}, 1)",
         "array_lower({}, 1)", "array_ndims({})", "array_dims({})", "{}::TEXT", "{}::TEXT[]",
         "array_append({}, 7)", "array_append({}, NULL)", "array_prepend(7, {})", "{} || 7", "7 || {}",
         "{} || NULL", "array_remove({}, 1)", "array_remove({}, NULL)", "array_replace({}, 1, 9)",
         "array_replace({}, NULL, 0)", "array_position({}, 2)", "array_position({}, NULL)",
         "array_positions({}, 1)", "array_to_string({}, ',')", "array_to_string({}, ', ', '*')",
         "array_cat({}, ARRAY[8])", "to_jsonb({})")  # fmt: skip
SPELLED = (
    "{}", "{a,b}", ' { a , "b" } ', "{a b}", '{"a,b","c"}', "{NULL,null}", '{"NULL"}', r'{"a\"b"}',
    r"{a\,b}", "{a,}", "{,a}", "{a", "a}", '{"a"b}', "", "a", "{{a},{b}}", "[0:1]={a,b}", '{""}', "{ }",
)  # fmt: skip
TYPES = (
    ("TEXT", "'a b', NULL, '', 'null', 'x\"y', 'z\\'"), ("BOOLEAN", "true, NULL, false"),
    ("NUMERIC(5,2)", "1.5, -0.25, 7"), ("DOUBLE PRECISION", "1.5, 2, 'Infinity'"),
    ("DATE", "'2024-02-29', NULL"), ("TIMESTAMP", "'2024-02-29 12:30:00.5'"),
    ("TIMESTAMPTZ", "'2024-02-29 12:30:00+02'"), ("TIME", "'12:30:00'"), ("BYTEA", r"'\x6162', ''"),
    ("UUID", "'00112233-4455-6677-8899-aabbccddeeff'"), ("INTERVAL", "'1 mon 2 days', '-00:00:01'"),
    ("BIGINT", "9223372036854775807, 0"), ("SMALLINT", "1, 2"), ("VARCHAR(3)", "'abc', 'abcdef'"),
)  # fmt: skip
SINGLE = r"""
ARRAY['a', 'b'] || 'c'
ARRAY['a', 'b'] || '{c}'
ARRAY['a', 'b'] @> '{a}'
ARRAY['a', NULL] && ARRAY[NULL]
'b' = ANY ('{a,b}')
'b' <> ALL ('{a,b}')
DATE '2024-02-29' = ANY ('{2024-02-29,2024-03-01}')
2 = ANY (ARRAY[1, 2]::BIGINT[])
(ARRAY['a', 'b'])[1]
(ARRAY['a', 'b'])[2:2]
(string_to_array('a,b,c', ','))[2]
string_to_array('a,b,c', ',', 'b')
string_to_array('abc', '')
string_to_array(NULL, ',')
string_to_array('a,b', ',') @> ARRAY['b']
array_position(ARRAY['a', 'b', 'a'], 'a')
array_positions(ARRAY['a', 'b', 'a'], 'a')
array_to_string(ARRAY[true, false, NULL], ',')
array_to_string(ARRAY[1.0, 2.5], ' ')
ARRAY(SELECT 1 UNION ALL SELECT 2)
ARRAY(SELECT id FROM t ORDER BY id DESC)
ARRAY(SELECT id FROM t WHERE false)
cardinality(ARRAY(SELECT id FROM t))
ARRAY[[1, 2], [3, 4]]
'{1,2}'::INTEGER[]::BIGINT[]
'{1.5,2.5}'::NUMERIC(3,1)[]::INTEGER[]
'{1,x}'::INTEGER[]
ARRAY['1', '2']::INTEGER[]
ARRAY[1, 2] = '{1,2}'
ARRAY[1, 2] = ARRAY[1, 2]::BIGINT[]
CASE WHEN true THEN ARRAY[1] END
coalesce(NULL::INTEGER[], '{5}')
nullif(ARRAY[1], ARRAY[1])
ARRAY[1, 2] IS NULL
ARRAY[3] IN (ARRAY[1], ARRAY[3])
SELECT unnest(ARRAY[1, 2, NULL])
SELECT x FROM unnest(ARRAY['a', 'b']) AS x
SELECT x.v, x.n FROM unnest('{5,6}'::INTEGER[]) WITH ORDINALITY AS x (v, n) ORDER BY x.n
SELECT id, e FROM t, unnest(ARRAY[id, 7]) AS e WHERE id < 3 ORDER BY id, e
SELECT array_agg(id ORDER BY id) FROM t
SELECT array_agg(id ORDER BY id) FILTER (WHERE id < 3) FROM t
SELECT array_agg(id ORDER BY id DESC) FROM t WHERE id > 99
SELECT cardinality(array_agg(id)) FROM t
SELECT id FROM t WHERE id = ANY ('{1,3}') ORDER BY id
SELECT id FROM t WHERE id <> ALL (ARRAY[1, 3]) ORDER BY id
SELECT id FROM t WHERE ARRAY[id] <@ '{1,2}' ORDER BY id
SELECT a.v FROM (VALUES ('{2}'::INTEGER[]), ('{1,5}'), ('{1,NULL}'), (NULL), ('{1}')) AS a (v) ORDER BY a.v
SELECT a.v, count(*) FROM (VALUES ('{2}'::INTEGER[]), ('{1}'), ('{2}')) AS a (v) GROUP BY a.v ORDER BY a.v
SELECT DISTINCT a.v FROM (VALUES ('{2}'::INTEGER[]), ('{1}'), ('{2}')) AS a (v) ORDER BY a.v
ARRAY[1.5,2.25] || '{3.125}'
ARRAY[1.5,2.25] || '{3.12345678901234567890}'
'{1.5}'::NUMERIC(5,2)[] || '{3.125}'
'{1.5}'::NUMERIC(5,2)[] || 3.125
array_append('{1.5}'::NUMERIC(5,2)[], 3.125)
array_position('{1.5}'::NUMERIC(5,2)[], 1.500)
array_position('{1.5}'::NUMERIC(5,2)[], 1.501)
array_remove('{1.5}'::NUMERIC(5,2)[], 1.501)
array_replace('{1.5}'::NUMERIC(5,2)[], 1.5, 2.3456)
'{1.5}'::NUMERIC(5,2)[] @> '{1.501}'
'{1.5}'::NUMERIC(5,2)[] && '{1.501}'
'{1.5}'::NUMERIC(5,2)[] = '{1.501}'
1.501 = ANY ('{1.5}'::NUMERIC(5,2)[])
SELECT n = ANY ('{1.501,1.5}') FROM t WHERE id = 1
SELECT ARRAY[n, 2.255] FROM t WHERE id = 1
SELECT ARRAY[n, 2.255] || ARRAY[n] FROM t WHERE id = 1
SELECT ARRAY[n, a, b] FROM t WHERE id = 1
SELECT ARRAY[n, d] FROM t WHERE id = 1
SELECT ARRAY[n/3, n] FROM t WHERE id = 1
SELECT (ARRAY[n, 2.255])[1] + 1 FROM t WHERE id = 1
SELECT (ARRAY[n, 2.255])[1] / 3 FROM t WHERE id = 1
SELECT array_agg(n ORDER BY id) || 7.125 FROM t
SELECT array_agg(n / 3 ORDER BY id) FROM t WHERE id < 3
SELECT unnest(ARRAY[n, 2.255]) / 3 FROM t WHERE id = 1
SELECT e / 3 FROM t, unnest(ARRAY[n, 2.255]) AS e WHERE id = 1
SELECT sum(e) FROM t, unnest(ARRAY[n, 2.255]) AS e
SELECT ARRAY[n, 2.255] = ARRAY[1.5, 2.255], ARRAY[n, 2.255] < ARRAY[1.50001] FROM t WHERE id = 1
SELECT DISTINCT ARRAY[n, 1.125] FROM t WHERE id IN (4, 5) ORDER BY 1
ARRAY[1.5, NULL, 2.25]
ARRAY[1.5, '2.25']
greatest(ARRAY[1.5], ARRAY[1.25])
coalesce(ARRAY[1.5], ARRAY[1.25, 2])
CASE WHEN false THEN ARRAY[1.5] ELSE ARRAY[1.255, 2] END
SELECT ARRAY[1.5] UNION ALL SELECT ARRAY[1.255]
SELECT x FROM (VALUES (ARRAY[1.5]), (ARRAY[1.255])) AS v (x) ORDER BY 1
array_fill(1.25, ARRAY[2])
trim_array(ARRAY[1.5, 2.255], 1)
'{{1,2},{3,4}}'::int[]
ARRAY[[1,2],[3,4]]
ARRAY[ARRAY[1,2],ARRAY[3,4]]
SELECT array_agg(ARRAY[id]) FROM t
SELECT array_agg(ARRAY[id] ORDER BY id) FROM t
ARRAY[1,2]::int[][]
'{1,2}'::int[][]
'{1,2}'::int[][3]
ARRAY(SELECT ARRAY[id] FROM t)
array_ndims(ARRAY[[1,2],[3,4]])
(ARRAY[[1,2],[3,4]])[1][2]
(ARRAY[1,2])[1][1]
ARRAY[1,2] || ARRAY[[3,4]]
cardinality(ARRAY[[1,2],[3,4]])
array_fill(7, ARRAY[2,3])
array_fill(7, NULL)
unnest(ARRAY[[1,2],[3,4]])
SELECT unnest(ARRAY[[1,2],[3,4]])
SELECT x FROM unnest(ARRAY[[1,2],[3,4]]) AS x
generate_subscripts(ARRAY[[1,2],[3,4]], 2)
SELECT ARRAY[q.a] FROM (SELECT ARRAY[1] AS a) AS q
SELECT array_agg(q.a) FROM (SELECT ARRAY[1] AS a) AS q
coalesce(ARRAY[[1]], NULL)
ARRAY[[1,2]] = ARRAY[[1,2]]
1 = ANY (ARRAY[[1,2]])
SELECT id FROM t WHERE a = ANY (ARRAY[[7],[8]])
'{1.5}'::NUMERIC(5,2)[] = '{1.50}'
'{1.501}' > '{1.5}'::NUMERIC(5,2)[]
SELECT e / 2 FROM unnest(ARRAY[1, 3]) AS e
SELECT e + 0.5 FROM unnest(ARRAY[1, 3]) AS e
SELECT round(e) FROM unnest(ARRAY[1, 3]) AS e
SELECT e FROM unnest(ARRAY['a']) AS e
"""


def arrays() -> Iterator[str]:
    yield from (form.format(value) for form, value in product(UNARY, VALUES))
    yield from (f"({value})[{place}]" for value, place in product(VALUES, (*PLACES, *SLICES)))
    yield from (f"{a} {sign} {b}" for a, sign, b in product(VALUES, BINARY, OTHERS))
    for value, sign, array in product(("2", "NULL::INTEGER"), COMPARED, VALUES):
        yield f"{value} {sign} ({array})"
    yield from (f"'{text}'::TEXT[]" for text in SPELLED)
    for type_, elements in TYPES:
        yield f"ARRAY[{elements}]::{type_}[]"
        yield f"ARRAY[{elements}]::{type_}[]::TEXT"
    yield from (line for line in SINGLE.split("\n") if line)
