"""Expressions over dates, timestamps, times and intervals."""

# ruff: noqa: E501 (a case is one line)

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

FIELDS = (
    "year", "month", "day", "hour", "minute", "second", "quarter", "week", "dow", "isodow", "doy",
    "isoyear", "epoch", "decade", "century", "millennium", "milliseconds", "microseconds", "julian",
    "timezone",
)  # fmt: skip
TRUNCATED = (
    "year", "quarter", "month", "week", "day", "hour", "minute", "second", "milliseconds",
    "microseconds", "decade", "century", "millennium",
)  # fmt: skip
VALUES = (
    "DATE '2024-02-29'", "DATE '2000-12-31'", "DATE '1969-07-20'",
    "TIMESTAMP '2024-02-29 23:59:59.123456'", "TIMESTAMP '1969-12-31 12:30:45.5'",
    "TIMESTAMPTZ '2024-02-29 23:30:00+02'", "INTERVAL '1 year 2 months 3 days 04:05:06.789'",
    "TIME '12:34:56.789'",
)  # fmt: skip
INTERVALS = (
    "INTERVAL '1 day'", "INTERVAL '1 month'", "INTERVAL '1 year'", "INTERVAL '-1 month'",
    "INTERVAL '36 hours'", "INTERVAL '90 minutes'", "INTERVAL '1.5 days'", "INTERVAL '1 week'",
    "INTERVAL '1 year 2 months 3 days 4 hours'", "INTERVAL '0.5 seconds'",
)  # fmt: skip
DATES = ("DATE '2024-01-31'", "TIMESTAMP '2024-01-31 12:00:00'", "TIMESTAMPTZ '2024-03-31 12:00Z'")
SPELLINGS = (
    "1 day", "1 day 2 hours", "2 hours 30 minutes", "1 month", "13 months", "1 year", "1.5 hours",
    "1.5 months", "-1 day", "1 day ago", "P1Y2M3DT4H5M6S", "1-2", "3 4:05:06", "04:05:06", "90 sec",
    "1 week", "2 weeks 1 day", "100 days", "24 hours", "0.001 seconds", "1 mon -1 day", "1 decade",
    "5", "1 fortnight", "", "abc", "1 d 2 h 3 m",
)  # fmt: skip
SPELLED_DATES = (
    "2024-02-29", "2023-02-29", "20240229", "2024-2-9", "2024/02/29", "29.02.2024", "02/29/2024",
    "Feb 29 2024", "February 29, 2024", "2024-02-29 12:00", "2024.060", "infinity", "J2451187",
    "0001-01-01", "10000-01-01", "0044-03-15 BC", "24-02-29", "2024-13-01", " 2024-02-29 ", "epoch",
)  # fmt: skip
SPELLED_TIMES = (
    "2024-02-29 12:30", "2024-02-29T12:30:45", "2024-02-29 12:30:45.1234567", "2024-02-29 24:00:00",
    "2024-02-29 12:30:60", "2024-02-29 1:2:3", "2024-02-29 12:30:45+02", "2024-02-29 12:30:45Z",
    "2024-02-29 12:30:45 UTC", "2024-02-29 12:30 PM", "2024-02-29 12:30:45 Europe/Berlin", "20240229",
    "2024-02-29 123045", "2024-02-29", "2024-02-29 25:00", "infinity", "2024-02-29 12:30:45-05:30",
)  # fmt: skip

OTHERS = """
DATE '2024-02-29' + 1
DATE '2024-02-29' - 1
1 + DATE '2024-02-29'
DATE '2024-03-01' - DATE '2024-02-01'
DATE '2024-02-29' + TIME '12:30'
TIMESTAMP '2024-03-01 12:00' - TIMESTAMP '2024-02-29 10:30'
(TIMESTAMP '2024-03-01 12:00' - TIMESTAMP '2024-02-29 10:30')::TEXT
(TIMESTAMP '2024-03-01 12:00' - DATE '2024-02-29')::TEXT
(TIMESTAMPTZ '2024-03-01 12:00Z' - TIMESTAMPTZ '2024-02-01 10:30Z')::TEXT
TIMESTAMP '2024-02-29 12:00' + INTERVAL '1 day'
TIMESTAMP '2024-02-29 12:00' + 1
DATE '2024-01-31' + INTERVAL '1 month'
DATE '2024-01-31' + INTERVAL '1 month' + INTERVAL '1 month'
DATE '2024-02-29' + INTERVAL '1 year'
DATE '2024-03-31' - INTERVAL '1 month'
TIMESTAMP '2024-01-31' + INTERVAL '1 month 1 day'
INTERVAL '1 day' + DATE '2024-02-29'
(INTERVAL '1 day' * 2)::TEXT
(2 * INTERVAL '1 day')::TEXT
(INTERVAL '1 day' * 1.5)::TEXT
(INTERVAL '1 month' * 1.5)::TEXT
(INTERVAL '1 day' / 2)::TEXT
(INTERVAL '1 month' / 2)::TEXT
(INTERVAL '1 hour' / 3)::TEXT
(-INTERVAL '1 day')::TEXT
(INTERVAL '1 day' + INTERVAL '2 hours')::TEXT
(INTERVAL '1 month' - INTERVAL '1 day')::TEXT
(INTERVAL '1 year 1 month')::TEXT
(INTERVAL '25 months')::TEXT
(INTERVAL '30 days')::TEXT
(INTERVAL '-1 hours')::TEXT
(INTERVAL '1 day -1 hours')::TEXT
(INTERVAL '1' DAY)::TEXT
(INTERVAL '1' YEAR)::TEXT
(INTERVAL '1-2' YEAR TO MONTH)::TEXT
(INTERVAL '1 12' DAY TO HOUR)::TEXT
(INTERVAL '2:30' MINUTE TO SECOND)::TEXT
INTERVAL '1 day' = INTERVAL '24 hours'
INTERVAL '1 month' = INTERVAL '30 days'
INTERVAL '1 month' > INTERVAL '29 days'
INTERVAL '1 day' < INTERVAL '25 hours'
INTERVAL '1 year 2 months -3 days 04:05:06.789'
TIMESTAMPTZ '2024-03-01 12:00Z' - TIMESTAMPTZ '2024-02-01 10:30Z'
TIME '12:30' - TIME '10:00'
TIME '10:00' - TIME '12:30'
justify_days(INTERVAL '35 days')
justify_days(INTERVAL '-35 days')
justify_days(INTERVAL '1 mon -35 days')
justify_hours(INTERVAL '27 hours')
justify_hours(INTERVAL '1 day -27 hours')
justify_interval(INTERVAL '1 mon -1 hour')
justify_interval(INTERVAL '-1 mon 1 hour')
justify_interval(INTERVAL '400 days 49:00')
sum(INTERVAL '1 day')
avg(INTERVAL '1 day 3 hours')
INTERVAL '1 month' < INTERVAL '31 days'
INTERVAL '1 day' * 1.5
INTERVAL '1 mon' * 1.5
INTERVAL '1 day' / 2
-INTERVAL '1 mon 2 days'
INTERVAL '1 mon' - INTERVAL '1 day'
INTERVAL '-1 mon' + INTERVAL '1 day'
(INTERVAL '-1 mon' + INTERVAL '1 day')::TEXT
extract(day FROM INTERVAL '40 days')
date_trunc('hour', INTERVAL '1 day 2 hours 3 minutes')
age(TIMESTAMP '2024-03-01', TIMESTAMP '2023-01-31')
coalesce(NULL, INTERVAL '1 day')
greatest(INTERVAL '1 month', INTERVAL '29 days')
INTERVAL '1 day' > '23 hours'
'1 day'::INTERVAL
CAST('1 day' AS INTERVAL)
CAST(INTERVAL '1 day' AS TEXT)
INTERVAL '1 day' BETWEEN '1 hour' AND '2 days'
SELECT sum(x) FROM (VALUES (INTERVAL '1 day'), (INTERVAL '2 mons 3 hours'), (NULL)) AS v (x)
SELECT avg(x) FROM (VALUES (INTERVAL '1 day'), (INTERVAL '2 mons 3 hours'), (NULL)) AS v (x)
SELECT min(x), max(x) FROM (VALUES (INTERVAL '31 days'), (INTERVAL '1 mon')) AS v (x)
SELECT x, count(*) FROM (VALUES (INTERVAL '30 days'), (INTERVAL '1 mon'), (INTERVAL '1 day')) AS v (x) GROUP BY x ORDER BY x
SELECT sum(x) OVER (ORDER BY x) FROM (VALUES (INTERVAL '1 day'), (INTERVAL '2 days')) AS v (x) ORDER BY 1
TIMESTAMP '2024-01-31' + INTERVAL '1 mon'
DATE '2024-01-31' - DATE '2024-01-01'
TIME '10:00'::INTERVAL
INTERVAL '1 day' + TIME '10:00'
make_interval(days => 10)
INTERVAL '26 hours'::TIME
INTERVAL '1 day'
TIME '12:30'
(TIME '12:30')::TEXT
TIME '12:30' + INTERVAL '1 hour'
(TIME '23:30' + INTERVAL '1 hour')::TEXT
(TIME '12:30' - TIME '10:00')::TEXT
TIME '12:30' < TIME '13:00'
'12:34:56.789'::TIME(0)
'12:34:56.755'::TIME(2)
'23:59:59.9'::TIME(0)
TIME(1) '12:34:56.75'
TIMESTAMP '2024-02-29 12:30:45.123'::TIME
TIMESTAMPTZ '2024-02-29 12:30:45.123+02'::TIME
TIME '10:00' + INTERVAL '15 hours'
TIME '10:00' - INTERVAL '15 hours'
TIME '10:00' < '11:00'
TIME '10:00' = '10:00:00'
TIME '10:00' BETWEEN '09:00' AND '10:00'
TIME '12:30' IN ('12:30', '13:00')
extract(second FROM TIME '12:34:56.789')
extract(epoch FROM TIME '12:34:56.789')
date_part('minute', TIME '12:34:56.789')
date_trunc('hour', TIME '12:34:56')
max(TIME '10:00')
TIME '12:30' || ''
TIME '24:00'
TIME '12:60'
TIME '12'
TIME '12:30 PM'
TIME '123045'
coalesce(NULL, TIME '12:30')
greatest(TIME '12:30', TIME '13:30')
to_char(TIME '12:30', 'HH24:MI')
SELECT TIME '12:30' UNION SELECT TIME '11:00' ORDER BY 1
SELECT TIME '12:30' AS a WHERE TIME '12:30' = '12:30'
extract(hour FROM TIME '12:30')
'12:30:45.5'::TIME::TEXT
TIMESTAMP '2024-02-29 12:30:45'::TIME::TEXT
TIMESTAMP '2024-02-29 12:30:45'::DATE
TIMESTAMP '2024-02-29 23:30:00'::TIMESTAMPTZ
TIMESTAMPTZ '2024-02-29 23:30:00+02'::TIMESTAMP
TIMESTAMPTZ '2024-02-29 01:30:00+02'::DATE
DATE '2024-02-29'::TIMESTAMP
DATE '2024-02-29'::TIMESTAMPTZ
DATE '2024-02-29'::TEXT
TIMESTAMP '2024-02-29 12:30:45'::TEXT
TIMESTAMP '2024-02-29 12:30:45.100'::TEXT
TIMESTAMP '2024-02-29'::TEXT
TIMESTAMPTZ '2024-02-29 12:30:45+02'::TEXT
TIMESTAMPTZ '2024-02-29 12:30:45.5Z'::TEXT
'2024-02-29 12:30:45.123'::TIMESTAMP(0)
'2024-02-29 12:30:45.678'::TIMESTAMP(1)
'2024-02-29 12:30:45.5'::TIMESTAMP(0)
'1999-02-28 12:30:45.5'::TIMESTAMP(0)
'1999-02-28 12:30:45.6'::TIMESTAMP(0)
TIMESTAMP(2) '2024-02-29 12:30:45.555'
'2024-02-29 12:30:45.123'::TIMESTAMPTZ(1)
'2024-02-29 12:30:45.123'::TIMESTAMP(2) WITH TIME ZONE
CAST(TIMESTAMP '2024-02-29 23:59:59.9' AS TIMESTAMP(0))
CAST(TIMESTAMP '1999-02-28 23:59:59.5' AS TIMESTAMP(0))
CAST(DATE '1999-02-28' AS TIMESTAMP(0))
TIMESTAMP '2024-02-29 12:30:45.123' = '2024-02-29 12:30:45.123'::TIMESTAMP(2)
DATE '2024-02-29' = TIMESTAMP '2024-02-29'
DATE '2024-02-29' < TIMESTAMP '2024-02-29 00:00:01'
DATE '2024-02-29' = '2024-02-29'
TIMESTAMP '2024-02-29' = TIMESTAMPTZ '2024-02-29Z'
DATE '2024-02-29' IN ('2024-02-29', '2024-03-01')
DATE '2024-02-29' BETWEEN '2024-02-01' AND '2024-02-29'
(DATE '2024-02-01', DATE '2024-03-01') OVERLAPS (DATE '2024-02-15', DATE '2024-04-01')
(DATE '2024-02-01', INTERVAL '1 day') OVERLAPS (DATE '2024-02-15', INTERVAL '1 day')
age(TIMESTAMP '2024-03-01', TIMESTAMP '2023-01-31')::TEXT
age(TIMESTAMP '2024-02-29', TIMESTAMP '2024-01-31')::TEXT
age(DATE '2024-03-01', DATE '2024-01-31')::TEXT
make_date(2024, 2, 29)
make_date(2023, 2, 29)
make_timestamp(2024, 2, 29, 12, 30, 45.5)
make_timestamptz(2024, 2, 29, 12, 30, 45.5)
make_time(12, 30, 45.5)::TEXT
make_interval(days => 10)::TEXT
to_timestamp(0)
to_timestamp(1709209845.5)
to_timestamp('2024-02-29', 'YYYY-MM-DD')
to_date('29.02.2024', 'DD.MM.YYYY')
to_date('2024-02-29', 'YYYY-MM-DD')
to_date('29 Feb 2024', 'DD Mon YYYY')
date_bin('15 minutes', TIMESTAMP '2024-02-29 12:37:45', TIMESTAMP '2024-01-01')
justify_days(INTERVAL '35 days')::TEXT
justify_hours(INTERVAL '27 hours')::TEXT
justify_interval(INTERVAL '1 mon -1 hour')::TEXT
isfinite(DATE '2024-02-29')
isfinite('infinity'::DATE)
TIMESTAMP '2024-02-29 12:00' AT TIME ZONE 'UTC'
TIMESTAMP '2024-02-29 12:00' AT TIME ZONE 'Europe/Berlin'
TIMESTAMPTZ '2024-02-29 12:00Z' AT TIME ZONE 'UTC'
TIMESTAMPTZ '2024-07-29 12:00Z' AT TIME ZONE 'Europe/Berlin'
TIMESTAMPTZ '2024-02-29 12:00Z' AT TIME ZONE '+02'
timezone('UTC', TIMESTAMP '2024-02-29 12:00')
date_trunc('day', TIMESTAMPTZ '2024-02-29 23:30Z', 'Europe/Berlin')
date_trunc('hour', INTERVAL '1 day 2 hours 3 minutes')::TEXT
date_trunc('nonsense', DATE '2024-02-29')
date_trunc('MONTH', DATE '2024-02-29')
date_part('year', DATE '2024-02-29')
date_part('YEAR', DATE '2024-02-29')
date_part('epoch', TIMESTAMP '2024-02-29 12:00')
date_part('dow', DATE '2024-02-25')
date_part('second', TIMESTAMP '2024-02-29 12:00:45.5')
extract(epoch FROM INTERVAL '1 month')
extract(epoch FROM INTERVAL '1 year')
extract(epoch FROM TIMESTAMP '2024-03-01 12:00' - TIMESTAMP '2024-02-29 10:30')
extract(day FROM TIMESTAMP '2024-03-01 12:00' - TIMESTAMP '2024-02-25 10:30')
extract(hour FROM INTERVAL '36 hours')
extract(days FROM INTERVAL '40 days')
extract('year' FROM DATE '2024-02-29')
extract(nonsense FROM DATE '2024-02-29')
extract(year FROM DATE '2024-02-29') + 1
extract(year FROM DATE '2024-02-29')::INTEGER
extract(year FROM DATE '2024-02-29') = 2024
extract(month FROM DATE '2024-02-29') / 2
date_part('month', DATE '2024-02-29') / 2
extract(second FROM TIMESTAMP '2024-02-29 12:00:45.5')::TEXT
extract(epoch FROM TIMESTAMP '2024-02-29 12:00:00.25')::TEXT
greatest(DATE '2024-02-29', DATE '2024-03-01')
greatest(DATE '2024-02-29', TIMESTAMP '2024-02-29 12:00')
coalesce(NULL, DATE '2024-02-29')
coalesce(NULL::DATE, '2024-02-29')
DATE '2024-02-29' || ''
DATE 'infinity' > DATE '2024-02-29'
DATE '0001-01-01' - 1
DATE '9999-12-31' + 1
(DATE '9999-12-31' + 1)::TEXT
current_date = current_date
now() = current_timestamp
extract(month FROM DATE '2024-03-01') / 2
date_part('month', DATE '2024-03-01') / 2
(extract(month FROM DATE '2024-03-01') - 1) / 3 + 1
extract(epoch FROM TIMESTAMP '2024-02-29 12:00:00.25') / 2
pg_typeof(now())::TEXT
pg_typeof(current_date)::TEXT
pg_typeof(localtimestamp)::TEXT
pg_typeof(DATE '2024-02-29' + 1)::TEXT
pg_typeof(extract(year FROM DATE '2024-02-29'))::TEXT
INTERVAL '1 2' DAY TO HOUR
INTERVAL '1 2:03' DAY TO HOUR
INTERVAL '1:30' HOUR TO SECOND
INTERVAL '1:30' MINUTE
INTERVAL '90' MINUTE TO SECOND
INTERVAL '1-2' YEAR
INTERVAL '7' HOUR TO MINUTE
INTERVAL '1 day 5 hours' DAY TO SECOND
INTERVAL '1.5' MINUTE
INTERVAL '1.5' MONTH
INTERVAL '3' YEAR TO MONTH
INTERVAL '1 2' YEAR TO MONTH
INTERVAL '1 2' HOUR TO MINUTE
INTERVAL '1:2:3' MINUTE TO SECOND
INTERVAL '-1:30' MINUTE TO SECOND
INTERVAL '1.999' SECOND
INTERVAL '1.999' SECOND(1)
INTERVAL '1 2.5' DAY TO SECOND
INTERVAL '1 year 3 days 04:05:06' DAY
INTERVAL '1 year 3 days 04:05:06' HOUR TO MINUTE
(INTERVAL(2) '1.23456')::TEXT
INTERVAL '1' DAY + INTERVAL '2' HOUR
SELECT a * INTERVAL '1' DAY FROM t WHERE id = 1
INTERVAL '1 day'
DATE '2024-01-31' + INTERVAL '1-2' YEAR TO MONTH
'1 year 2 months'::INTERVAL YEAR
CAST('1 2:03:04' AS INTERVAL DAY TO MINUTE)
'1.2345'::INTERVAL(2)
'1.2345'::INTERVAL SECOND(1)
INTERVAL 'x' MINUTE TO SECOND
INTERVAL '1' SECOND TO MINUTE
INTERVAL '1.5' YEAR TO MONTH
INTERVAL '1 day 04:05' MINUTE TO SECOND
INTERVAL '1 04:05:06.789' DAY TO SECOND(1)
INTERVAL '15 minutes' * 1e10
'1-2'::INTERVAL YEAR TO MONTH
'1 year 2 months'::INTERVAL MONTH
'1 day 2:03:04.567'::INTERVAL HOUR
'1 day 2:03:04.567'::INTERVAL DAY TO SECOND(1)
'1.2345'::INTERVAL(0)
(INTERVAL '1 day 04:05:06.78956')::INTERVAL(3)
(INTERVAL '1 year 2 months 3 days')::INTERVAL MONTH
'5'::INTERVAL YEAR
CAST('5' AS INTERVAL HOUR)
CAST(INTERVAL '1 year 5 days' AS INTERVAL YEAR)
CAST(5 AS INTERVAL YEAR)
NULL::INTERVAL YEAR
SELECT id, (ts - TIMESTAMP '2024-01-01')::INTERVAL DAY, (ts - ts)::INTERVAL SECOND(1) FROM t ORDER BY id
INTERVAL '15 minutes' * 1e9
INTERVAL '1 microsecond' * 10000000000
10000000000 * INTERVAL '1 microsecond'
INTERVAL '1 month' * 1e12
1 * INTERVAL '1 month'
1.5 * INTERVAL '1 month'
INTERVAL '1 month 3 days' * NULL
SELECT a * INTERVAL '1 month', n * INTERVAL '1 month', INTERVAL '1 day' * b FROM t WHERE id IN (2, 4) ORDER BY id
SELECT ts + a * INTERVAL '1 day' FROM t ORDER BY id
date_bin('1 month', TIMESTAMP '2024-02-29 12:37:45', TIMESTAMP '2024-01-01')
date_bin('1 month', NULL::TIMESTAMP, TIMESTAMP '2024-01-01')
date_bin('1 year 15 minutes', TIMESTAMP '2024-02-29 12:37:45', TIMESTAMP '2024-01-01')
SELECT id, date_bin('15 minutes', ts, TIMESTAMP '2024-01-01') FROM t ORDER BY id
SELECT id, isfinite(ts), isfinite(day), isfinite(ts - ts) FROM t ORDER BY id
to_date('2024-09-4', 'IYYY-IW-ID')
to_date('2005-53-6', 'IYYY-IW-ID')
to_date('2005-54-6', 'IYYY-IW-ID')
""".strip().splitlines()


def moments() -> Iterator[str]:
    yield from (f"extract({field} FROM {value})" for field, value in product(FIELDS, VALUES))
    yield from (f"date_part('{field}', {value})" for field, value in product(FIELDS, VALUES[3:4]))
    yield from (f"date_trunc('{part}', {v})" for part, v in product(TRUNCATED, VALUES[:6]))
    for value, sign, interval in product(DATES, "+-", INTERVALS):
        yield f"{value} {sign} {interval}"
    yield from (f"CAST(INTERVAL '{text}' AS TEXT)" for text in SPELLINGS)
    yield from (f"DATE '{text}'" for text in SPELLED_DATES)
    for type_ in ("TIMESTAMP", "TIMESTAMPTZ"):
        yield from (f"{type_} '{text}'" for text in SPELLED_TIMES)
    yield from OTHERS
