"""Expressions of regular expressions, patterns, `format`, quotes and bytes."""

# ruff: noqa: E501 (a case is one line)

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

TEXTS = ("'abc'", "'foobarbequebaz'", "'aXbXc'", "'a1b22c333'", "''", "'foo bar  baz'", "'XY1234Z'")
REGEXES = (
    "b", "^a", "a*", "(b)(c)?", "([a-z])([0-9]+)", "Y*?([0-9]{1,3})", "Y*([0-9]{1,3})", "a|ab|abc", "(.*?)([0-9]+)",
    "\\s+", "\\m[a-z]", "[[:digit:]]+", "x*?", "(?=b)", "(.)\\1", "[^a-c]", "(?i)A", "***=a", "(", "a**", "",
)  # fmt: skip
SIMILARS = ("'a%'", "'%(b|X)%'", "'_b#_'", "'[a-c]+'", "'%#\"[a-z]+#\"%'", "'a#%'", "NULL")
BYTES = ("'\\x6162636163'::BYTEA", "''::BYTEA", "'\\x00ff5c'::BYTEA")
OTHERS = """
regexp_matches('abcabc', '(b)(c)')
regexp_matches('abcabc', 'b', 'g')
regexp_match('ABC', 'b', 'i')
regexp_match('abc', 'b', 'g')
regexp_match('a b', 'a  b', 'x')
regexp_match('llmmmfff', '^(l*){1,1}?(.*)(f*)$')
regexp_match('llmmmfff', '^(l*){1,1}?(.*){1,1}?(f*)$')
regexp_match('llmmmfff', '^(l*?){1,1}(.*)(f*)$')
regexp_match('llmmmfff', '^(l*?){1,1}?(.*){1,1}?(f*)$')
regexp_match('llmmmfff', '^((?:l*)){1,1}?(.*)(f*)$')
regexp_match('abc01234xyz', '(?:(.*?)([0-9]+)(.*)){1,1}')
regexp_match('abc01234xyz', '(?:(.*?)([0-9]+)(.*)){1,1}?')
regexp_match('xaaay', 'x(a*?)?y')
regexp_match(E'a\\nb', '^b', 'n')
regexp_match(E'a\\nb', 'a.b', 'p')
regexp_match('abc', 'b', 'z')
regexp_replace('foobarbaz', 'B', 'X', 'i')
regexp_replace('foobarbaz', 'b(..)', '<\\1\\&\\\\>', 'g')
regexp_replace('foobarbaz', 'b', 'X', 5)
regexp_replace('foobarbaz', 'b', 'X', 1, 0)
regexp_replace('foobarbaz', 'B', 'X', 1, 2, 'i')
regexp_replace('foobarbaz', 'b', 'X', 0)
regexp_replace('abc', '', '-', 'g')
regexp_count('abcabc', 'B', 1, 'i')
regexp_count('abc', 'b', 0)
regexp_instr('abcabc', 'b', 3)
regexp_instr('abcabc', 'b', 1, 2, 1)
regexp_instr('abcabc', '(b)(c)', 1, 1, 0, '', 2)
regexp_instr('abc', 'b', 1, 1, 2)
regexp_substr('abcabc', '(b)(c)', 1, 2, '', 2)
regexp_substr('abcabc', 'B', 1, 1, 'i')
regexp_like(E'a\\nb', '^b')
regexp_like(E'a\\nb', '^b', 'm')
regexp_split_to_array('aXbxc', 'x', 'i')
SELECT * FROM regexp_matches('abcabc', '(b)(c)', 'g') AS m
SELECT m[2] FROM regexp_matches('abcabc', '(b)(c)', 'g') AS m
SELECT * FROM regexp_split_to_table('a b c', ' ') AS part
SELECT * FROM string_to_table('a,b,,c', ',') AS part
SELECT * FROM string_to_table('a,b,,c', ',', '') AS part
SELECT string_to_table('abc', NULL)
SELECT id, regexp_matches(x, '[aeiou]', 'g') FROM t ORDER BY id
SELECT id, regexp_replace(x, '(.)$', '[\\1]') FROM t ORDER BY id
SELECT id, x ~ ('^' || left(x, 1)) FROM t ORDER BY id
SELECT id, x SIMILAR TO (left(x, 1) || '%') FROM t ORDER BY id
SELECT id, substring(x FROM left(x, 1)) FROM t ORDER BY id
format('%s %s', 1, 2.50)
format('%s|%s|%s', TRUE, NULL, DATE '2024-02-29')
format('%3$s %1$s %s', 'a', 'b', 'c')
format('%*s|', 5, 'a')
format('%-*s|', 5, 'a')
format('%*2$s|', 'a', 5)
format('%1$*2$s|', 'a', -5)
format('%I.%I', 'select', 'Ab')
format('%L, %L', 'a\\b', NULL)
format('%I', NULL)
format('%s')
format('%d', 1)
format('%')
format(NULL, 1)
format('none')
format('%s', ARRAY['a', 'b'])
format('%s', '\\x6162'::BYTEA)
format('%s', 1.5::DOUBLE PRECISION)
SELECT id, format('%s: %L', id, x) FROM t ORDER BY id
SELECT id, format(CASE WHEN id = 1 THEN '%s' ELSE '<%s>' END, x) FROM t ORDER BY id
SELECT format('%s rows', count(*)) FROM t
quote_ident('a"b')
quote_ident('select')
quote_ident('Ab')
quote_ident('_a1')
quote_ident('')
quote_ident(NULL)
quote_literal('a\\b')
quote_literal(1.50)
quote_literal(NULL)
quote_literal(TRUE)
quote_nullable('a')
quote_nullable(5)
unistr('\\+01F600')
unistr('d\\u0061t\\U00000061')
unistr('a\\\\b')
unistr('a\\x')
normalize('ﬁ', NFKC)
normalize('ä', NFD) = 'ä'
chr(65)
chr(128512)
chr(-1)
split_part('a,b,c', ',', -3)
split_part('a,b,c', ',', -4)
split_part('abc', '', -1)
split_part('abc', '', 2)
lpad('hi', 1, '')
rpad('hi', -1, '')
lpad(NULL, 5, 'x')
convert('\\xc3a4'::BYTEA, 'UTF8', 'LATIN1')
convert_to('ä', 'LATIN1')
convert_from('\\xff'::BYTEA, 'UTF8')
convert_from('\\xff'::BYTEA, 'nonsense')
decode('a\\000b\\\\c', 'escape')
decode('\\x', 'escape')
decode('6 1', 'hex')
decode('6', 'hex')
decode('YQ', 'base64')
encode(repeat('a', 60)::BYTEA, 'base64')
encode('\\x61', 'nonsense')
encode('\\x61', 'HEX')
sha224('abc')
sha384('abc')
sha512(''::BYTEA)
sha256('\\x616263')
md5('\\x616263'::BYTEA)
set_byte('\\x616263'::BYTEA, 1, 120)
set_byte('\\x61'::BYTEA, 1, 120)
get_bit('\\x61'::BYTEA, 5)
set_bit('\\x61'::BYTEA, 1, 1)
set_bit('\\x61'::BYTEA, 1, 2)
get_byte('\\x61'::BYTEA, -1)
length('\\xc3a4'::BYTEA, 'UTF8')
overlay('\\x616263'::BYTEA PLACING '\\x00'::BYTEA FROM 2)
overlay('\\x616263'::BYTEA PLACING '\\x0000'::BYTEA FROM 2 FOR 1)
overlay('\\x616263'::BYTEA PLACING '\\x00'::BYTEA FROM 0)
position('\\x63'::BYTEA IN '\\x616263'::BYTEA)
position(''::BYTEA IN '\\x616263'::BYTEA)
substring('\\x616263'::BYTEA FROM 2)
substring('\\x616263'::BYTEA FROM -1 FOR 3)
substring('\\x616263'::BYTEA, 2, -1)
substr('\\x616263'::BYTEA, 2)
trim(LEADING '\\x61'::BYTEA FROM '\\x616261'::BYTEA)
trim(BOTH '\\x61'::BYTEA FROM '\\x616261'::BYTEA)
btrim('\\x616261'::BYTEA, '\\x61'::BYTEA)
rtrim('\\x616261'::BYTEA, '\\x6162'::BYTEA)
SELECT id, length(raw), substring(raw FROM 1 FOR 1), encode(raw, 'base64') FROM t ORDER BY id
SELECT id FROM t WHERE length(raw) > 1 ORDER BY id
similar_to_escape('(a|b)%')
similar_to_escape('a!%_', '!')
similar_to_escape(NULL)
'bx' ~ similar_to_escape('(a|b)%')
'xb' ~ similar_to_escape('(a|b)%'::text)
'a1' ~ '^a\\d$'::text
'a1' ~ '^a[\\d_]$'
'a1' ~ '^a\\D$'
'a{' ~ '^a[\\{,]$'
'a]' ~ '^a[\\]x]$'
'a1' ~ '^a[[:digit:]]$'
'aF' ~ '^a[^[:xdigit:]]$'
'٣' ~ '^\\d$'
'a.b' ~ 'a\\.b'::text
'a' ~ ANY (ARRAY['b', 'a'])
'a' ~ ANY (ARRAY[NULL, 'b'])
'a' ~ ALL (ARRAY['a', NULL, 'b'])
'a' !~ ALL ('{b,c}')
'a' !~ ANY (ARRAY['a', 'b'])
NOT 'a' ~ ANY (ARRAY['a', 'b'])
'A' ~* SOME ('{b,a}'::TEXT[])
'ab' !~* ANY (ARRAY['A'])
'a' ~ ANY ('{}')
'a' !~* ALL (ARRAY[]::TEXT[])
'a' LIKE ALL ('{}')
SELECT id FROM t WHERE x ~ ANY (ARRAY['^a', left(x, 1) || '$']) ORDER BY id
parse_ident('Foo."Bo""o" . x_$1')
parse_ident('foo.boo[]')
parse_ident('foo.boo[]', FALSE)
parse_ident('foo.boo[', strict => FALSE)
parse_ident(strict => TRUE, str => ' a ')
parse_ident('Äb.Éc')
parse_ident(NULL)
parse_ident('a', NULL)
parse_ident('')
parse_ident('a.""')
parse_ident('"a')
parse_ident('"a"b')
parse_ident('"a"b', FALSE)
parse_ident('.a')
parse_ident('a..b', FALSE)
parse_ident('a.', FALSE)
parse_ident('1020')
parse_ident('a%b')
parse_ident(E'X\rXX')
parse_ident()
parse_ident('a', TRUE, 1)
parse_ident('a', nosuch => TRUE)
(parse_ident('a.' || '"B c"'))[2]
SELECT p[2] FROM parse_ident('x.y') AS p
SELECT id, parse_ident(x, FALSE) FROM t WHERE x ~ '^[a-z]' ORDER BY id
""".strip().splitlines()


def patterns() -> Iterator[str]:
    for text, pattern in product(TEXTS, REGEXES):
        yield f"regexp_match({text}, '{pattern}')"
        yield f"regexp_replace({text}, '{pattern}', '<\\&>', 'g')"
        yield f"regexp_split_to_array({text}, '{pattern}')"
        yield f"substring({text} FROM '{pattern}')"
    for text, pattern in product(TEXTS[:3], SIMILARS):
        yield f"{text} SIMILAR TO {pattern} ESCAPE '#'"
        yield f"substring({text} FROM {pattern} FOR '#')"
    for value in BYTES:
        yield from (
            f"{name}({value})" for name in ("length", "bit_length", "octet_length", "bit_count")
        )
        yield from (f"encode({value}, '{form}')" for form in ("hex", "base64", "escape"))
    yield from OTHERS
