"""Expressions over text, bytes and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

MATCHED = (
    "'abc'", "''", "'a%c'", "'a_c'", "'a\\c'", "'ABC'", "E'a\\nc'", "'äbc'", "'aXbXc'", "'10%'",
    "NULL",
)  # fmt: skip
LIKES = (
    "'abc'", "'a%'", "'%c'", "'a_c'", "'a\\%c'", "'a\\_c'", "'a\\\\c'", "'%'", "''", "'_'", "'A%'",
    "'%b%'", "'10\\%'", "NULL",
)  # fmt: skip
SIMILARS = (
    "'abc'", "'a%'", "'(a|b)%'", "'[a-c]+'", "'a{1,2}%'", "'%X%X%'", "'a?bc'", "'a.c'", "'_bc'",
    "'a\\%c'", "'^abc$'", "'abc|x'",
)  # fmt: skip
REGEXES = (
    "'b'", "'^a'", "'c$'", "'a.c'", "'[A-C]+'", "'^$'", "'a|X'", "'\\d+'", "'\\w{3}'", "'(?i)ABC'",
    "'a*'", "'\\mabc\\M'", "'[[:alpha:]]+'", "'('", "'(.)X\\1'",
)  # fmt: skip
TRIMMED = ("'  abc  '", "'xxabcxx'", "E'\\tabc\\n'", "''", "'abc'", "NULL")
COUNTS = ("0", "1", "2", "10", "-1", "-2", "NULL")

ESCAPES = ("left('!x', 1)", "left('x', 0)", "'ä'", "right('\\\\', 1)", "NULL")
OTHERS = """
'a' || 'b'
'a' || NULL
'a' 'b'
E'a\\tb'
E'\\u00e4'
$$it's$$
$x$a$$b$x$
U&'d\\0061t'
'it''s'
'a\\b'
'a' = 'a '
'a'::CHAR(3) = 'a'::CHAR(5)
'a '::CHAR(3) = 'a'
'a '::VARCHAR(3) = 'a'
'abc' < 'abd'
'B' < 'a'
'a' < 'ä'
'Z' < 'a'
'' < 'a'
'abc'::VARCHAR(2)
'abc'::CHAR(2)
'a'::CHAR(3)
'a'::CHAR(3) || 'b'
length('a  '::CHAR(5))
length('a  '::VARCHAR(5))
octet_length('a'::CHAR(5))
'abc'::CHAR
'abc'::VARCHAR
'abc'::"char"
length('äöü')
length('')
length('😀')
char_length('abc')
character_length('abc')
octet_length('äöü')
bit_length('abc')
length('\\x616263'::BYTEA)
octet_length('\\x616263'::BYTEA)
upper('äbcß')
lower('ÄBC')
lower('İ')
initcap('hello wORLD')
initcap('o''neil-smith x1y')
initcap('ärger über')
reverse('abc')
reverse('äö')
repeat('ab', 3)
repeat('ab', 0)
repeat('ab', -1)
repeat(NULL, 2)
lpad('hi', 5)
lpad('hi', 5, 'xy')
lpad('hello', 3)
lpad('hi', 5, '')
lpad('hi', 0, 'x')
lpad('hi', -1, 'x')
rpad('hi', 5)
rpad('hi', 5, 'xy')
rpad('hello', 3)
rpad('hi', 5, '')
lpad(5::TEXT, 3, '0')
substring('abcdef', 2)
substring('abcdef', 2, 3)
substring('abcdef', 0)
substring('abcdef', 0, 3)
substring('abcdef', -1)
substring('abcdef', -1, 4)
substring('abcdef', 3, 0)
substring('abcdef', 3, -1)
substring('abcdef', 10)
substring('abcdef', 3, 100)
substring('abcdef' FROM 2)
substring('abcdef' FROM 2 FOR 3)
substring('abcdef' FOR 3)
substring('abcdef' FROM -2 FOR 5)
substring('foobar' FROM 'o.b')
substring('foobar' FROM 'o(.)b')
substring('foobar', 'o.b')
substring('foobar' SIMILAR '%#"o_b#"%' ESCAPE '#')
substr('abcdef', 2, 3)
substr('abcdef', -2)
substr('abcdef', 0, 2)
substr('abcdef', 2, -1)
substring('\\x010203'::BYTEA, 2, 1)
position('c' IN 'abc')
position('' IN 'abc')
position('x' IN 'abc')
strpos('abc', 'c')
strpos('abc', '')
strpos('', 'a')
overlay('abcdef' PLACING 'XX' FROM 2)
overlay('abcdef' PLACING 'XX' FROM 2 FOR 3)
overlay('abcdef' PLACING 'XX' FROM 2 FOR 0)
overlay('abcdef' PLACING 'XX' FROM 0)
overlay('abcdef' PLACING 'XX' FROM 10)
replace('abcabc', 'b', 'x')
replace('abc', '', 'x')
replace('abc', 'b', NULL)
translate('12345', '143', 'ax')
translate('abc', 'abc', 'xyz')
translate('abc', '', 'x')
split_part('a,b,c', ',', 2)
split_part('a,b,c', ',', 4)
split_part('a,b,c', ',', -1)
split_part('a,b,c', ',', 0)
split_part('a,b,c', '', 1)
split_part('', ',', 1)
ascii('a')
ascii('ä')
ascii('')
ascii('😀')
chr(97)
chr(228)
chr(0)
concat('a', NULL, 'b')
concat('a', 1, TRUE, 1.50, DATE '2024-02-29')
concat(NULL)
concat(1.5::DOUBLE PRECISION, 'x')
concat_ws(',', 'a', NULL, 'b')
concat_ws(NULL, 'a', 'b')
concat_ws(',', NULL, NULL)
concat_ws(',', 1, 2.50, TRUE)
md5('abc')
md5('')
sha256('abc')
encode(sha256('abc'), 'hex')
encode('\\x6162'::BYTEA, 'hex')
encode('\\x6162'::BYTEA, 'base64')
encode('\\x00ff5c'::BYTEA, 'escape')
decode('6162', 'hex')
decode('YWI=', 'base64')
decode('zz', 'hex')
convert_from('\\xc3a4'::BYTEA, 'UTF8')
convert_to('ä', 'UTF8')
quote_ident('a b')
quote_ident('ab')
quote_literal('it''s')
quote_literal(5)
quote_nullable(NULL)
format('%s-%s', 'a', 1)
format('%I', 'a b')
format('%L', 'it''s')
format('%2$s %1$s', 'a', 'b')
format('%%')
format('%10s|', 'a')
format('%-10s|', 'a')
starts_with('abc', 'ab')
'abc' ^@ 'ab'
starts_with('abc', '')
to_hex(10)
to_hex(-10::BIGINT)
left('abc', 2)
right('abc', 2)
unistr('\\0441')
normalize('a\u0308')
'a' COLLATE "C" < 'b'
btrim('xyxtrimyyx', 'xyz')
ltrim('zzzytest', 'xyz')
rtrim('testxxzx', 'xyz')
ltrim('  a')
rtrim('a  ')
trim('x' FROM 'xax')
trim(BOTH FROM '  a  ')
trim(LEADING 'x' FROM 'xxa')
trim(TRAILING 'x' FROM 'axx')
trim('  a  ', ' ')
trim(BOTH 'ab' FROM 'abcab')
regexp_replace('foobarbaz', 'b..', 'X')
regexp_replace('foobarbaz', 'b..', 'X', 'g')
regexp_replace('foobarbaz', 'b(..)', 'X\\1Y', 'g')
regexp_replace('foobarbaz', 'B..', 'X', 'i')
regexp_replace('foobarbaz', 'B..', 'X', 'gi')
regexp_replace('abc', 'b', '\\&\\&')
regexp_replace('a.b', '.', 'x')
regexp_replace('a  b', '\\s+', ' ')
regexp_replace('foobarbaz', 'b', 'X', 4)
regexp_replace('foobarbaz', 'b', 'X', 1, 2)
regexp_replace('abc', 'x', 'y')
regexp_replace(NULL, 'x', 'y')
regexp_match('foobarbequebaz', 'bar.*que')::TEXT
regexp_match('foobarbequebaz', '(bar)(beque)')::TEXT
regexp_match('abc', 'x')::TEXT
(regexp_match('abc', '(b)'))[1]
regexp_like('Hello', 'hello', 'i')
regexp_like('Hello', 'ell')
regexp_count('ABCABCAXYaxy', 'A.')
regexp_count('ABCABC', 'A', 2)
regexp_instr('ABCDEFGHI', 'D')
regexp_substr('ABCDEFGHI', 'D.F')
regexp_substr('abc', 'x')
regexp_split_to_array('a b  c', '\\s+')::TEXT
array_to_string(regexp_split_to_array('a,b', ','), '|')
string_to_array('a,b,c', ',')::TEXT
string_to_array('a,b,c', NULL)::TEXT
string_to_array('', ',')::TEXT
(string_to_array('a,b,c', ','))[2]
array_to_string(ARRAY['a', 'b', NULL], ',')
array_to_string(ARRAY[1, NULL, 3], ',', '*')
array_length(string_to_array('a,b,c', ','), 1)
to_char(5, '999')
to_char(1234.5, '9,999.99')
to_char(1234.5, 'FM9999.00')
to_char(-5, 'FM999')
to_char(0.5, 'FM0.00')
to_char(42, '00000')
to_number('1,234.5', '9,999.9')
to_char(TIMESTAMP '2024-05-06 07:08:09', 'YYYY-MM-DD HH24:MI:SS')
to_char(DATE '2024-05-06', 'Day, DD Mon YYYY')
to_char(DATE '2024-05-06', 'FMDay, FMDD FMMonth YYYY')
to_char(TIMESTAMP '2024-05-06 17:08:09', 'HH12:MI AM')
to_char(TIMESTAMP '2024-05-06 17:08:09', 'hh:mi pm')
to_char(DATE '2024-05-06', 'Q')
to_char(DATE '2024-05-06', 'WW IW D ID DDD J')
to_char(DATE '2024-05-06', 'DDth')
to_char(DATE '2024-05-06', 'MONTH')
to_char(INTERVAL '15h 2m', 'HH24:MI')
'abc' LIKE 'a!%' ESCAPE '!'
'a%' LIKE 'a!%' ESCAPE '!'
'a\\' LIKE 'a\\' ESCAPE ''
'abc' LIKE 'abc\\'
'a%c' LIKE 'a\\%c' ESCAPE ''
'a%c' NOT LIKE 'a\\%c'
'ABC' ILIKE 'a\\_c'
'A_C' ILIKE 'a\\_c'
'abc' ~~ 'a%'
'abc' !~~ 'a%'
'ABC' ~~* 'a%'
'abc' SIMILAR TO 'a!%' ESCAPE '!'
'abc' NOT SIMILAR TO 'a%'
'abc' !~ 'b'
'ABC' !~* 'b'
'a' || 5
'a' || 1.50
'a' || TRUE
'a' || DATE '2024-02-29'
'a' || TIMESTAMP '2024-02-29 12:00:00'
'a' || 1.5::DOUBLE PRECISION
5 || ''
'\\x6162'::BYTEA || '\\x63'::BYTEA
'\\x6162'::BYTEA = 'ab'::BYTEA
get_byte('\\x6162'::BYTEA, 0)
'a\\142c'::BYTEA
text 'abc'
varchar 'abc'
char 'abc'
bpchar 'a  '
name 'abc'
CAST('abc' AS CHARACTER VARYING(2))
CAST(123 AS VARCHAR(2))
CAST(123 AS CHAR(5))
CAST(TRUE AS VARCHAR(2))
CAST(1.50 AS TEXT)
CAST(1e3 AS TEXT)
CAST('\\x6162'::BYTEA AS TEXT)
greatest('a', 'B')
least('a', 'B')
max('a')
'a' IN ('a', 'b')
'a' BETWEEN 'A' AND 'b'
'a' IS NULL
'' IS NULL
coalesce('', 'x')
nullif('a', 'a')
nullif('a', 'b')
'{"a": {"b": [1, 2, "x"]}}'::JSON -> 'a'
'{"a": {"b": [1, 2, "x"]}}'::JSON -> 'a' -> 'b' -> 0
'{"a": {"b": [1, 2, "x"]}}'::JSON -> 'a' -> 'b' ->> 2
'{"a": {"b": [1, 2, "x"]}}'::JSON #> '{a,b}'
'{"a": {"b": [1, 2, "x"]}}'::JSON #>> '{a,b,2}'
'{"a": null}'::JSON -> 'a'
'{"a": null}'::JSON ->> 'a'
'{"a": "x"}'::JSON ->> 'a'
'{"a": "x"}'::JSON -> 'a'
'[1, 2, 3]'::JSON -> -1
'[1, 2, 3]'::JSON -> 5
'{"a": 1.50}'::JSON ->> 'a'
'{"a": true}'::JSON ->> 'a'
('{"a": 5}'::JSON ->> 'a')::INTEGER + 1
json_array_length('[1, 2, 3]'::JSON)
json_typeof('[1]'::JSON)
json_typeof('{"a": 1}'::JSON -> 'a')
json_build_object('a', 1, 'b', 'x')
json_build_object(1, 2, TRUE, 2.50, DATE '2024-02-29', NULL)
json_build_object('a', json_build_object('b', '[1,2]'::JSON), 'c', TIMESTAMP '2024-02-29 10:00')
json_build_object('s', 'it is "q" \\ ä')
json_build_object()
json_build_object(NULL, 1)
json_build_object('a')
json_build_array(1, 'a', NULL, TRUE)
json_build_array('\\x0001'::BYTEA, ARRAY['x', NULL], '{"a":1}'::JSON, '{"a":1}'::JSONB)
json_object('{a,1,b,NULL}'::TEXT[])
json_object('{a,b}'::TEXT[], ARRAY['1', 'd e'])
json_object('{a}'::TEXT[])
json_object('{a,b}'::TEXT[], '{1}'::TEXT[])
json_object('{NULL,1}'::TEXT[])
array_to_json(ARRAY[1, 2], FALSE)
to_json('{"x": 3}'::JSON)
to_json('a'::TEXT)
to_json(1.50)
row_to_json(ROW(1, 'a'))
json_object('{a,1,b,2}')
'{"b": 1, "a": 2}'::JSON::TEXT
'{"a":1}'::JSON = '{"a":1}'::JSON
json_extract_path_text('{"a": {"b": 2}}'::JSON, 'a', 'b')
'not json'::JSON
initcap('straße')
initcap('ÄPFEL älter')
'text' || '\\x01'::BYTEA
'\\x01'::BYTEA || 'text'
'\\x01'::BYTEA || 'a\\'
'\\x01'::BYTEA || 'text'::TEXT
SELECT raw || 'ab', 'ab' || raw, raw || '\\x00' FROM t ORDER BY id
""".strip().splitlines()


def texts() -> Iterator[str]:
    yield from (f"{a} LIKE {b}" for a, b in product(MATCHED, LIKES))
    yield from (f"{a} ILIKE {b}" for a, b in product(MATCHED, LIKES[:4] + LIKES[10:]))
    yield from (f"{a} SIMILAR TO {b}" for a, b in product(MATCHED, SIMILARS))
    yield from (f"{a} LIKE {b} ESCAPE {c}" for a, b, c in product(MATCHED[:6], LIKES[:8], ESCAPES))
    yield from (f"{a} ~ {b}" for a, b in product(MATCHED, REGEXES))
    yield from (f"{a} ~* {b}" for a, b in product(MATCHED[:6], REGEXES[:6]))
    for function in ("trim", "ltrim", "rtrim", "btrim", "length", "upper", "initcap", "reverse"):
        yield from (f"{function}({value})" for value in TRIMMED)
    for function in ("left", "right", "repeat", "lpad", "rpad"):
        yield from (f"{function}('abcde', {count})" for count in COUNTS)
    for first, length in product(COUNTS, COUNTS):
        yield f"substring('abcde', {first}, {length})"
    yield from OTHERS
