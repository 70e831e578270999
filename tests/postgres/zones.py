"""Time zones: names, abbreviations and offsets, and the times at which they have changed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

_ZONES = (
    "'UTC'", "'utc'", "'Z'", "'GMT+2'", "'UTC-3'", "'UTC+05:30'", "'+05:30'", "'+2'", "'-0530'",
    "'+07:30:15'", "'ABC-3'", "'<+03>-3'", "'Etc/GMT+2'", "'EST'", "'EST5EDT'", "'MST'", "'HST'",
    "'CET'", "'CEST'", "'PST'", "'PDT'", "'IST'", "'ACST'", "'Europe/Berlin'", "'europe/berlin'",
    "'America/New_York'", "'nowhere'", "INTERVAL '2 hours'", "INTERVAL '-05:30'",
    "INTERVAL '1 day'", "NULL", "'MSK'", "'FOO4BAR'", "'+25'",
)  # fmt: skip
_TIMES = (
    "TIMESTAMP '2024-07-28 12:00'", "TIMESTAMPTZ '2024-01-28 12:00Z'",
    "TIMESTAMP '1850-02-28 12:00'",
)  # fmt: skip
_TEXTS = (
    "2024-01-28 12:00+2", "2024-1-8 7:9:5.5 -7", "2024-01-28 12:00:00 -730", "20240128 12:00+2:5",
    "2024-01-28 12:00-02:30:15", "2024-01-28 12:00+002", "2024-01-28 12:00z",
    "2024-01-28 12:00 gmt", "2024-01-28 12:00 Zulu", "2024-01-28 12:00+16", "2024-01-28 12:00+2:60",
    "2024-01-28",
    "2024-01-28 12:00+023015", "2024-01-28 24:00+2",
)  # fmt: skip
_OTHERS = """
timezone('+05:30', TIMESTAMP '2024-02-29 12:00')
timezone('Z', TIMESTAMPTZ '2024-02-29 12:00Z')
timezone(INTERVAL '-05:30', TIMESTAMPTZ '2024-07-28 12:00Z')
'2024-02-29 12:00' AT TIME ZONE 'UTC-3'
TIMESTAMP '2024-02-29 12:00' AT TIME ZONE 'UTC-3' AT TIME ZONE 'EST'
date_trunc('day', TIMESTAMPTZ '2024-02-29 23:30Z', 'GMT+2')
date_trunc('day', TIMESTAMPTZ '2024-02-29 23:30Z', 'EST')
date_trunc('hour', TIMESTAMPTZ '2024-02-29 23:30Z', '+05:30')
date_trunc('century', TIMESTAMPTZ '2024-02-29 23:30Z', 'EST')
SELECT ts AT TIME ZONE CASE WHEN id = 1 THEN 'GMT+2' ELSE 'Europe/Berlin' END FROM t ORDER BY id
SELECT timezone(CASE WHEN id = 1 THEN '+05:30' ELSE 'EST' END, z) FROM t ORDER BY id
SELECT id FROM t WHERE z AT TIME ZONE 'CET' < '2024-01-31 11:30' ORDER BY id
SELECT date_trunc('day', z, CASE WHEN id = 1 THEN '+05:30' ELSE 'EST' END) FROM t ORDER BY id
""".strip().splitlines()


def zones() -> Iterator[str]:
    yield from (f"{time} AT TIME ZONE {zone}" for time, zone in product(_TIMES, _ZONES))
    for text in _TEXTS:
        yield f"SELECT CAST(x AS TIMESTAMPTZ) FROM (VALUES ('{text}')) AS v (x)"
    yield from _OTHERS
