"""Expressions and queries over JSONB."""

# ruff: noqa: E501 (a case is one line)

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

VALUES = (
    '\'{"b": [1, 2, {"c": null}], "a": "x", "aa": 1.5, "t": true}\'::JSONB',
    '\'[1, "a", [2, 3], {"a": 1}, null, true]\'::JSONB',
    "'{}'::JSONB",
    "'[]'::JSONB",
    "'5'::JSONB",
    "'\"a\"'::JSONB",
    "'null'::JSONB",
    "NULL::JSONB",
)
OTHERS = (
    "'{\"a\": \"x\"}'", "'{\"b\": [{}]}'", "'[1]'", "'[[3]]'", "'[]'", "'{}'", "'1'", "'\"a\"'",
    "'null'", "NULL",
)  # fmt: skip
STEPS = ("'a'", "'b'", "'zz'", "0", "-1", "7", "'0'", "NULL")
PATHS = ("'{b,0}'", "'{b,2,c}'", "'{b,-1}'", "'{}'", "'{a,x}'", "'{3,a}'", "'{zz}'", "'{b,x}'")
KEYS = ("'{a,zz}'", "'{a,b}'", "'{}'", "ARRAY['a', '1']")
FUNCTIONS = (
    "jsonb_typeof", "jsonb_array_length", "jsonb_strip_nulls", "jsonb_pretty", "to_jsonb",
)  # fmt: skip
SETS = ("jsonb_array_elements", "jsonb_array_elements_text", "jsonb_object_keys")
WRITTEN = (
    "1.50", "1e3", "-0", "-0.0", "0.10e1", "1e-7", "12345678901234567890123.125", "1E400",
    "\"\\u00e4\\n\\t\\u001f/\"", "\"\\ud83d\\ude00\"", "\"\\ud83d\"", "\"\\u0000\"", "\"\\\\u0000\"",
    "{\"a\": 1, \"a\": 2}", "{\"aa\": 1, \"b\": 2, \"a\": 3, \"\": 4, \"ä\": 5}", " [ 1 , 2 ] ", "", "{",
    "[1,]", "{'a': 1}", "01", "NaN", "tru", "\"a", "nul", "[1] 2", "1.", ".5", "+1",
)  # fmt: skip
SINGLE = r"""
'{"a": 1}'::JSONB = '{"a": 1.0}'::JSONB
'{"b": 1, "a": 2}'::JSONB = '{"a": 2, "b": 1}'
'{"a": 1}'::JSONB <> '{"a": 2}'
'[1, 2]'::JSONB = '[2, 1]'
'{"a": 1}'::JSONB IS DISTINCT FROM NULL
'{"a": 1}'::JSONB IN ('{"a": 1}', '{}')
'{"a": 1}'::JSONB::TEXT
'{"b": 1, "a": {"d": 1, "c": [ ]}}'::JSONB::TEXT || '!'
CAST('{"a": 1}' AS JSONB) ->> 'a'
('[1, 2]'::TEXT || '')::JSONB
('{"b":1,"a":2}'::JSON)::JSONB
('{"b":1,"a":2}'::JSONB)::JSON::TEXT
('5'::JSONB)::INTEGER + 1
('5.5'::JSONB)::INTEGER
('2.50'::JSONB)::NUMERIC
('2.5'::JSONB)::DOUBLE PRECISION
('true'::JSONB)::BOOLEAN
('"a"'::JSONB)::INTEGER
('"5"'::JSONB)::INTEGER
('1'::JSONB)::BOOLEAN
('[1]'::JSONB)::NUMERIC
('{"a": {"b": 7}}'::JSONB -> 'a' ->> 'b')::INTEGER
('{"a": 5}'::JSONB -> 'a')::INTEGER + 1
'{"a": 1}'::JSONB -> 'a' = '1'
'{"a": 1, "b": 2}'::JSONB - 'a'
'{"a": 1, "b": 2, "c": 3}'::JSONB - ARRAY['a', 'c']
'{"a": 1, "b": 2, "c": 3}'::JSONB - '{a,c}'::TEXT[]
'["a", "b", "a"]'::JSONB - 'a'
'["a", "b", "c"]'::JSONB - 1
'["a", "b", "c"]'::JSONB - -1
'["a", "b", "c"]'::JSONB - 9
'{"a": 1}'::JSONB - 1
'5'::JSONB - 'a'
'{"a": [1, {"b": 2}]}'::JSONB #- '{a,1,b}'
'{"a": [1, {"b": 2}]}'::JSONB #- '{a,-1}'
'{"a": [1, {"b": 2}]}'::JSONB #- '{a,7}'
'{"a": [1, {"b": 2}]}'::JSONB #- '{}'
'{"a": [1, 2]}'::JSONB #- '{a,x}'
'5'::JSONB #- '{a}'
'{"a": 1}'::JSONB || '{"b": 2, "a": 3}'
'[1]'::JSONB || '[2, 3]'::JSONB
'[1]'::JSONB || '{"a": 1}'::JSONB
'{"a": 1}'::JSONB || '[1]'::JSONB
'1'::JSONB || '2'::JSONB
'{"a": 1}'::JSONB || '2'::JSONB
'{}'::JSONB || NULL
'{"a": 1}'::JSONB || 'x'::TEXT
jsonb_set('{"a": {"b": 1}}', '{a,b}', '2')
jsonb_set('{"a": {"b": 1}}'::JSONB, '{a,c}', '{"d": 2}'::JSONB)
jsonb_set('{"a": {"b": 1}}'::JSONB, '{a,c}', '2', false)
jsonb_set('{"a": {"b": 1}}'::JSONB, '{x,c}', '2')
jsonb_set('[1, 2, 3]'::JSONB, '{1}', '"x"')
jsonb_set('[1, 2, 3]'::JSONB, '{-1}', '"x"')
jsonb_set('[1, 2, 3]'::JSONB, '{9}', '"x"')
jsonb_set('[1, 2, 3]'::JSONB, '{-9}', '"x"')
jsonb_set('[1, 2, 3]'::JSONB, '{-9}', '"x"', false)
jsonb_set('[1, 2, 3]'::JSONB, '{a}', '"x"')
jsonb_set('[[1]]'::JSONB, '{0,0}', 'null')
jsonb_set('{"a": 1}'::JSONB, '{}', '2')
jsonb_set('{"a": 1}'::JSONB, '{a,b}', '2')
jsonb_set('5'::JSONB, '{a}', '2')
jsonb_set('{"a": 1}'::JSONB, ARRAY['a'], to_jsonb('x'::TEXT))
jsonb_set('{"a": 1}'::JSONB, '{a}', NULL)
jsonb_set(NULL, '{a}', '1')
jsonb_set_lax('{"a": 1}', '{a}', '2')
jsonb_set_lax('{"a": 1}'::JSONB, '{a}', NULL)
jsonb_set_lax('{"a": 1}', '{b}', NULL)
jsonb_set_lax('{"a": 1}', '{b}', NULL, FALSE)
jsonb_set_lax('{"a": 1}', '{b}', '2'::JSONB, FALSE)
jsonb_set_lax('{"a": 1}', '{a}', NULL, NULL)
jsonb_set_lax(NULL, '{a}', '1')
jsonb_set_lax('{"a": 1}', '{a}', NULL, TRUE, 'use_json_null')
jsonb_set_lax('{"a": 1, "b": 2}', '{a}', NULL, TRUE, 'delete_key')
jsonb_set_lax('{"a": 1, "b": 2}', '{a}', NULL, TRUE, 'return_target')
jsonb_set_lax('{"a": 1, "b": 2}', '{a}', NULL, TRUE, 'raise_exception')
jsonb_set_lax('{"a": 1, "b": 2}', '{a}', '3', TRUE, 'raise_exception')
jsonb_set_lax('{"a": 1, "b": 2}', '{a}', NULL, TRUE, 'no_such_treatment')
jsonb_set_lax('{"a": 1, "b": 2}', '{a}', '3', TRUE, NULL)
jsonb_set_lax('{"a": 1, "b": 2}', '{a}', NULL, NULL, 'raise_exception')
jsonb_set_lax('5', '{a}', NULL, TRUE, 'return_target')
SELECT jsonb_set_lax(j, '{new}', CASE WHEN i > 1 THEN '1'::JSONB END, TRUE, 'delete_key') FROM (VALUES (1, '{"new": 0}'::JSONB), (2, '{}'::JSONB)) AS s (i, j) ORDER BY i
SELECT jsonb_set_lax(j, '{new}', CASE WHEN i > 1 THEN '1'::JSONB END) -> 'new' FROM (VALUES (1, '{"new": 0}'::JSONB), (2, '{}'::JSONB)) AS s (i, j) ORDER BY i
jsonb_insert('{"a": [0, 1]}'::JSONB, '{a,1}', '"n"')
jsonb_insert('{"a": [0, 1]}'::JSONB, '{a,1}', '"n"', true)
jsonb_insert('{"a": [0, 1]}'::JSONB, '{a,-1}', '"n"')
jsonb_insert('{"a": [0, 1]}'::JSONB, '{b}', '"n"')
jsonb_insert('{"a": [0, 1]}'::JSONB, '{a}', '"n"')
jsonb_insert('{"a": [0, 1]}'::JSONB, '{a,9}', '"n"')
jsonb_build_object('a', 1, 'b', NULL, 'c', TRUE, 'd', 1.50, 'e', 'x'::TEXT, 'f', '[1]'::JSONB)
jsonb_build_object(1, 2, TRUE, 'x')
jsonb_build_object()
jsonb_build_object('a')
jsonb_build_object(NULL, 1)
jsonb_build_array(1, 'a', NULL, TRUE, 2.50, '{"a": 1}'::JSONB, DATE '2024-02-29')
jsonb_build_array()
jsonb_build_array(TIMESTAMP '2024-02-29 12:30:00.5', TIMESTAMPTZ '2024-02-29 12:30:00+02')
jsonb_build_array('00000000-0000-0000-0000-000000000001'::UUID, 1.5::DOUBLE PRECISION, 'Infinity'::DOUBLE PRECISION)
to_jsonb(1.50)
to_jsonb('a'::TEXT)
to_jsonb(TRUE)
to_jsonb(NULL::INTEGER)
to_jsonb(DATE '2024-02-29')
to_jsonb(TIMESTAMP '2024-02-29 12:30:00')
to_jsonb('{"b":1,"a":2}'::JSON)
to_jsonb(1e20::DOUBLE PRECISION)
to_jsonb('\x01ff'::BYTEA)
to_jsonb(12345678901234567890.12345)
jsonb_extract_path('{"a": {"b": [1, 2]}}'::JSONB, 'a', 'b', '1')
jsonb_extract_path_text('{"a": {"b": "x"}}'::JSONB, 'a', 'b')
jsonb_extract_path('{"a": 1}'::JSONB, 'x', 'b')
jsonb_object('{a,1,b,2}')
jsonb_object('{a,b}', '{1,2}')
jsonb_object('{a}')
jsonb_array_length('{"a": 1}')
jsonb_array_length('5')
jsonb_exists('{"a": 1}'::JSONB, 'a')
jsonb_contains('{"a": 1}'::JSONB, '{}'::JSONB)
'{"a": "x"}'::JSONB ->> 'a' = 'x'
('{"a": "x"}'::JSONB ->> 'a') || 'y'
upper('{"a": "x"}'::JSONB ->> 'a')
coalesce('{"a": null}'::JSONB ->> 'a', 'none')
'{"a": {"b": 1}}'::JSONB -> 'a' @> '{"b": 1}'
'{"a": {"b": 1}}'::JSONB -> 'a' ? 'b'
'not json'::JSONB
SELECT jsonb_agg(id ORDER BY id DESC) FROM t
SELECT jsonb_agg(x ORDER BY id) FROM t
SELECT jsonb_agg(n ORDER BY id) FILTER (WHERE id < 3) FROM t
SELECT jsonb_agg(id) FROM t WHERE id > 99
SELECT k, jsonb_agg(id ORDER BY id) FROM t GROUP BY k ORDER BY k
SELECT jsonb_object_agg(id, x) FROM t WHERE id < 3
SELECT jsonb_object_agg(x, id) FROM t
SELECT jsonb_object_agg(id, a ORDER BY id) FILTER (WHERE id < 3) FROM t
SELECT jsonb_build_object('id', id, 'x', x, 'n', n) FROM t WHERE id < 3 ORDER BY id
SELECT to_jsonb(ts), to_jsonb(z), to_jsonb(day), to_jsonb(u) FROM t WHERE id = 2
SELECT jsonb_build_array(s, r, d, k) FROM t ORDER BY id
SELECT json_agg(id ORDER BY id) FROM t
SELECT json_agg(x ORDER BY id)::TEXT FROM t WHERE id < 3
SELECT DISTINCT j FROM (VALUES ('{"a":1,"b":2}'::JSONB), ('{"b":2,"a":1}'::JSONB)) v(j)
SELECT j, count(*) FROM (VALUES ('[1]'::JSONB), ('[1.0]'::JSONB)) v(j) GROUP BY j
SELECT value FROM jsonb_array_elements('[1, "a", null]'::JSONB)
SELECT value ->> 'a' FROM jsonb_array_elements('[{"a": 1}, {"a": "x"}]'::JSONB) AS e
SELECT e.value FROM jsonb_array_elements_text('["a", 1, null, [2]]') AS e
SELECT e FROM jsonb_array_elements_text('["a", 1]') AS e(e)
SELECT x.v, x.n FROM jsonb_array_elements('[5, 6]'::JSONB) WITH ORDINALITY AS x(v, n)
SELECT key, value FROM jsonb_each('{"b": 1, "a": [2]}'::JSONB)
SELECT key, value FROM jsonb_each_text('{"b": 1, "a": [2], "c": null}'::JSONB)
SELECT k FROM jsonb_object_keys('{"b": 1, "a": 2}'::JSONB) AS k
SELECT key FROM t, jsonb_each(jsonb_build_object('x', t.x, 'id', t.id)) WHERE id = 1
SELECT id, e.value FROM t CROSS JOIN LATERAL jsonb_array_elements(jsonb_build_array(a, x)) AS e WHERE id < 3
SELECT id, e.value FROM t LEFT JOIN LATERAL jsonb_array_elements_text('[]'::JSONB) AS e ON TRUE WHERE id < 3
SELECT jsonb_array_elements('[1, 2]'::JSONB)
SELECT jsonb_object_keys('{"b": 1, "aa": 2}'::JSONB)
SELECT jsonb_array_elements('5'::JSONB)
SELECT jsonb_array_elements('{}'::JSONB)
SELECT jsonb_object_keys('[]'::JSONB)
SELECT '{"a": 1}'::JSONB < '{"a": 2}'::JSONB
SELECT j FROM (VALUES ('1'::JSONB), ('"a"'), ('[]'), ('{}'), ('null'), ('true')) v(j) ORDER BY j
""".strip().splitlines()


def documents() -> Iterator[str]:
    yield from (f"{value} -> {step}" for value, step in product(VALUES, STEPS))
    yield from (f"{value} ->> {step}" for value, step in product(VALUES, STEPS))
    yield from (f"{value} #> {path}" for value, path in product(VALUES[:5], PATHS))
    yield from (f"{value} #>> {path}" for value, path in product(VALUES[:5], PATHS))
    yield from (f"{value} @> {other}" for value, other in product(VALUES, OTHERS))
    yield from (f"{other} <@ {value}" for value, other in product(VALUES, OTHERS[:4]))
    yield from (f"{value} ? {key}" for value, key in product(VALUES, ("'a'", "'b'", "'1'")))
    yield from (f"{value} ?| {keys}" for value, keys in product(VALUES[:6], KEYS))
    yield from (f"{value} ?& {keys}" for value, keys in product(VALUES[:6], KEYS))
    yield from (f"{function}({value})" for function, value in product(FUNCTIONS, VALUES))
    yield from (f"{value} || {other}::JSONB" for value, other in product(VALUES, OTHERS[:6]))
    yield from (f"'{text}'::JSONB" for text in WRITTEN)
    yield from (f"('{text}'::TEXT || '')::JSONB::TEXT" for text in WRITTEN)
    yield from SINGLE
