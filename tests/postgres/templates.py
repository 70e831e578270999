"""Expressions of to_char, to_date, to_timestamp and to_number."""

# ruff: noqa: E501 (a case is one line)

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

NUMBERS = ("0", "-0.5", "1234.567", "-42", "0.05::DOUBLE PRECISION", "NULL::NUMERIC")
OF_NUMBERS = """
999 9,999.99 FM9999.00 FM0.00 00000 .99 FM.99 0.9 FM9.9 S999 999S S9.9 9.9S MI999 999MI PL99 99PL
SG99 99.9SG 99PR FM99PR 99.9PR L99.99 RN FMrn 99th 99TH 9V9 99V99 9.9EEEE 9G999D99 FM9G999D99 "a"99"b"
0,999 FM9,999 FM0,000 S0.0 FM999S FM9.99S FM9.90 FM9.09 B99 9.9.9 9V PL9.9 FM9MI 99999999999999999.99
9PR9 S9S FMTH9 00.00 PL99MI FM999PR
""".split()  # noqa: SIM905
READ = (
    "'1,234.5'", "'-34,338,492.654'", "'<564646.654564>'", "'0.00001-'", "'5.01+'", "'.01'", "'$1,234.56'",
    "'12th'", "'abc'", "'4 5 4 . 7 8'", "''", "' 12'",
)  # fmt: skip
READERS = (
    "9,999.9", "99G999G999D999", "999999.999999PR", "FM9.999999S", "9.999999MI", "9 9 9 . 9 9", "S9999",
    "L9,999.99", "99V9", "999th", "", "RN", "9.9.9",
)  # fmt: skip
MOMENTS = (
    "TIMESTAMP '2024-05-06 17:08:09.123456'", "TIMESTAMP '2000-12-31 00:00:00'", "DATE '2021-01-03'",
    "TIMESTAMPTZ '1999-01-03 12:30:00+02'", "INTERVAL '-1 year -2 months 400 days 30:05:06.7'", "TIME '12:30:45.5'",
)  # fmt: skip
OF_MOMENTS = """
HH HH12 HH24 MI SS SSSS SSSSS MS US FF1 FF3 Y,YYY YYYY YYY YY Y IYYY IYY I MM DDD IDDD DD D ID W WW IW CC J Q
A.D. bc AM p.m. MONTH Month month MON Mon DAY Day dy RM rm TZ tz OF TZH TZM FMHH24 FMMM FMDDD FMDay FMMonth
FMRM FMCC FMYY DDth MMTH HH12th FX TMMonth FMDD"x"FMMI YYYY-MM-DD"T"HH24:MI:SS.US IYYY-"W"IW-ID
""".split()  # noqa: SIM905
NO_INTERVALS = ("IYYY", "IYY", "I ", "IDDD", "IW", "J")
"""Patterns that PostgreSQL gives some number for an interval."""
DATES = """
97/2/16|FMYYYY/FMMM/FMDD
2011$03!18 23_38_15|YYYY-MM-DD HH24:MI:SS
1985 January 12|YYYY FMMonth DD
My birthday-> Year: 1976, Month: May, Day: 16|"My birthday-> Year:" YYYY, "Month:" FMMonth, "Day:" DD
1,582nd VIII 21|Y,YYYth FMRM DD
05121445482000|MMDDHH24MISSYYYY
2000January09Sunday|YYYYFMMonthDDFMDay
97/Feb/16|YYMonDD
97/Feb/16|FXYY:Mon:DD
19971116|YYYYMMDD
1997 AD 11 16|YYYY BC MM DD
9-1116|Y-MMDD
995-1116|YYY-MMDD
2005426|YYYYWWD
2005300|YYYYDDD
2005527|IYYYIWID
5527|IIWID
2005364|IYYYIDDD
  20050302|YYYYMMDD
2011-12-18 11:38 PM|YYYY-MM-DD HH12:MI PM
2011-12-18 11:38 A.M.|YYYY-MM-DD HH12:MI P.M.
2011-12-18 11:38 -05:20|YYYY-MM-DD HH12:MI TZH:TZM
2011-12-18 11:38 PST|YYYY-MM-DD HH12:MI TZ
2018-11-02 12:34:56.025|YYYY-MM-DD HH24:MI:SS.MS
2018-11-02 12:34:56.12|YYYY-MM-DD HH24:MI:SS.FF2
2018-11-02 12:34:56.123456789|YYYY-MM-DD HH24:MI:SS.FF6
1 4 1902|Q MM YYYY
3 4 21 01|W MM CC YY
2458872|J
2000  +JUN|YYYY//MON
2000 + + JUN|YYYY  MON
2000 -10|YYYY TZH
2000 -10|YYYY  TZH
19971|YYYYMMDD
Friday 1-Jan-1999|DY DD MON YYYY
1997-11-Jan-16|YYYY-MM-Mon-DD
199711xy|YYYYMMDD
2005527|YYYYIWID
2016-06-13 25:00:00|YYYY-MM-DD HH24:MI:SS
2016-06-13 15:50:55|YYYY-MM-DD HH:MI:SS
2015-02-29|YYYY-MM-DD
2015-02-11 86000|YYYY-MM-DD SSSS
2015-02-11 86400|YYYY-MM-DD SSSSS
2016 366|YYYY DDD
2015 366|YYYY DDD
29 february 2024|DD Month YYYY
2024-02-29T12:30:45Z|YYYY-MM-DD"T"HH24:MI:SS"Z"
2024-05-06 00:08 pm|YYYY-MM-DD HH12:MI pm
1st May 2024|DDth Month YYYY
21 5|CC MM
69|YY
70|YY
520|YYY
2024 12|IYYY IW
5 V 2024|DD RM YYYY
2024-1-2 3:4:5.67|YYYY-MM-DD HH24:MI:SS.MS
20240102|YYYY-MM-DD
2024-01-32|YYYY-MM-DD
abc|YYYY
2024 may 5|YYYY FMMON DD
""".strip().splitlines()
OTHERS = """
to_char(5, '')
to_char(TIMESTAMP '2024-05-06', '')
to_char(TRUE, '9')
to_char(12345678901::BIGINT, '9,999,999,999,999')
to_char(1e20::DOUBLE PRECISION, '9.99')
to_char('NaN'::DOUBLE PRECISION, '9.99')
to_char('Infinity'::DOUBLE PRECISION, '999.99EEEE')
to_char(485::SMALLINT, 'FMRN')
to_char(NULL::TIMESTAMP, 'YYYY')
to_char(5, NULL)
to_date('x', NULL)
to_timestamp(NULL, 'YYYY')
to_char(to_date('2024-02-29', 'YYYY-MM-DD'), 'DD.MM.YYYY')
to_number(to_char(1234.5, '9,999.9'), '9,999.9') + 1
to_date('2024-02-29', 'YYYY-MM-DD') + 1
pg_typeof(to_date('2024', 'YYYY'))::TEXT
pg_typeof(to_timestamp('2024', 'YYYY'))::TEXT
SELECT id, to_char(n, x) FROM t ORDER BY id
SELECT id, to_char(day, CASE WHEN id < 3 THEN 'DD' ELSE 'FMMonth' END) FROM t ORDER BY id
SELECT id, to_char(ts, 'YYYY-MM') || '!' FROM t ORDER BY id
SELECT to_char(day, 'YYYY') AS y, count(*) FROM t GROUP BY y ORDER BY y
SELECT to_char(sum(a), 'S999'), to_char(avg(a), '99.99') FROM t
SELECT count(*) FROM t WHERE to_char(day, 'MM') = '02'
SELECT to_number(id::TEXT, CASE WHEN id = 1 THEN '9' ELSE '99' END) FROM t ORDER BY id
""".strip().splitlines()


def templates() -> Iterator[str]:
    yield from (f"to_char({value}, '{form}')" for form, value in product(OF_NUMBERS, NUMBERS))
    yield from (f"to_number({text}, '{form}')" for text, form in product(READ, READERS))
    for form, value in product(OF_MOMENTS, MOMENTS):
        of_date = not value.startswith(("INTERVAL", "TIME "))
        if of_date or not f"{form} ".startswith(NO_INTERVALS):
            yield f"to_char({value}, '{form}')"
    for case in DATES:
        text, _, form = case.partition("|")
        yield f"to_date('{text}', '{form}')"
        yield f"to_timestamp('{text}', '{form}')"
    yield from OTHERS
