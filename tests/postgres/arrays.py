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
