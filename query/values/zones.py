"""Time zones as PostgreSQL names them in AT TIME ZONE, timezone() and date_trunc().

A name is one of three things, which are tried in this order: an abbreviation, which is one offset
for all times; a zone of the database of time zones; and a POSIX specification like `UTC-3`, whose
sign is positive west of Greenwich. DuckDB has other abbreviations, and reads `UTC-3` with the other
sign. So an offset is given to it as `GMT+03:00`, which is positive in the east.
"""

from __future__ import annotations

import datetime as dt
import re
import zoneinfo
from collections.abc import Mapping
from functools import lru_cache

from hornbeam_server.schema.errors import TypeMismatch, Unsupported
from hornbeam_server.schema.intervals import Interval

_ABBREVIATIONS = """
-10:00 HST TAHT
-09:30 MART
-09:00 AKST GAMT
-08:00 AKDT PST
-07:00 MST PDT
-06:00 CST GALT MDT
-05:00 ACT CDT COT EST PET
-04:00 AMT AST BOT EDT
-03:30 NFT NST
-03:00 ADT BRA BRT CLST GFT PMST PYST UYT WGT
-02:30 NDT
-02:00 BRST FNT PMDT UYST WGST
-01:00 AZOT EGT FNST
+00:00 AZOST EGST GMT UCT UT UTC WET Z ZULU
+01:00 BST CET MET MEZ WAT WETDST
+02:00 BDST CEST CETDST EET IST MEST MESZ METDST SAST
+03:00 EAT EEST EETDST FET IDT
+03:30 IRT
+04:00 MSD MUT RET SCT
+04:30 AFT
+05:00 MUST MVT PKT TFT TJT UZT
+05:45 NPT
+06:00 ALMT BDT BTT KGST PKST UZST XJT YEKST
+06:30 MMT
+07:00 ALMST CXT ICT WAST
+08:00 AWST BNT BORT CCT HKT MYT PHT WADT
+08:45 ACWST
+09:00 AWSST JAYT JST KST PWT ULAST WDT
+09:30 ACST CAST
+10:00 AEST CHUT DDUT KDT LIGT MPT PGT TRUT YAPT
+10:30 ACDT ACSST CADT LHST SADT
+11:00 AEDT AESST PONT VUT
+12:00 FJT GILT MHT NZST NZT TVT WAKT WFT
+12:45 CHAST
+13:00 FJST NZDT TOT
+13:45 CHADT
"""
"""The offsets of PostgreSQL's abbreviations (`timezonesets/Default`), positive in the east."""
_CHANGING = """
America/Argentina/Buenos_Aires ARST ART
America/Asuncion PYT
America/Caracas VET
America/Guyana GYT
America/Santiago CLT
Antarctica/Davis DAVT
Antarctica/Mawson MAWT
Asia/Anadyr ANAST ANAT
Asia/Ashgabat TMT
Asia/Baku AZST AZT
Asia/Bishkek KGT
Asia/Colombo LKT
Asia/Irkutsk IRKST IRKT
Asia/Kamchatka PETST PETT
Asia/Krasnoyarsk KRAST KRAT
Asia/Magadan MAGST MAGT
Asia/Novosibirsk NOVST NOVT
Asia/Omsk OMSST OMST
Asia/Singapore SGT
Asia/Tbilisi GEST GET
Asia/Ulaanbaatar ULAT
Asia/Vladivostok VLAST VLAT
Asia/Yakutsk YAKST YAKT
Asia/Yekaterinburg YEKT
Asia/Yerevan AMST
Atlantic/Stanley FKST FKT
Australia/Lord_Howe LHDT
Europe/Moscow MSK
Europe/Volgograd VOLT
Indian/Chagos IOT
Pacific/Easter EASST EAST
Pacific/Fakaofo TKT
Pacific/Kiritimati LINT
Pacific/Kosrae KOST
Pacific/Niue NUT
Pacific/Rarotonga CKT
"""
"""Zones with abbreviations that have had several offsets, so that the time decides."""


def _words(text: str) -> Mapping[str, str]:
    """The first word of its line, for each other word in lower case."""
    lines = (line.split() for line in text.strip().splitlines())
    return {word.lower(): first for first, *words in lines for word in words}


_OFFSETS, _ZONES = _words(_ABBREVIATIONS), _words(_CHANGING)
_POSIX = re.compile(
    r"(?:[A-Za-z]*|<[A-Za-z0-9+-]*>)(?P<sign>[+-]?)(?P<hours>[0-9]{1,3})"
    r"(?::(?P<minutes>[0-5]?[0-9])(?::(?P<seconds>[0-5]?[0-9]))?)?"
)
_OFFSET = re.compile(r"GMT([+-])(\d\d):(\d\d)(?::(\d\d))?")
_ZONES_KEPT = 100
_NOTHING = dt.timedelta()
_MOST_HOURS = 24
"""An offset of DuckDB has fewer hours."""


def zone_of(given: object) -> str:
    """DuckDB's name of a time zone, which is a name or the offset from UTC. Raises TypeMismatch and
    Unsupported."""
    if isinstance(given, Interval):
        return _of_interval(given)
    if not isinstance(given, str):
        raise TypeMismatch(f"{given} is no time zone.", cure="Write its name, or an interval.")
    name = given.lower()
    if name in _OFFSETS:
        return f"GMT{_OFFSETS[name]}"
    if name in _ZONES:
        raise Unsupported(
            f"The abbreviation {given} has had several offsets.",
            cure=f"Name the zone: {_ZONES[name]}.",
        )
    found = _POSIX.fullmatch(given)
    if found is None:
        return given
    hours, minutes, seconds = (int(found[part] or 0) for part in ("hours", "minutes", "seconds"))
    west = (hours * 60 + minutes) * 60 + seconds
    return _at(west if found["sign"] == "-" else -west, given)


def in_zone(name: str, value: dt.datetime) -> dt.datetime:
    """`value` AT TIME ZONE `name`, a name of DuckDB: the instant of a local time, or the local time
    of an instant. A local time that the clock skips has the offset before the change, one that it
    repeats has that after the change, as in PostgreSQL. Raises TypeMismatch."""
    zone = _zone(name)
    try:
        if value.tzinfo is not None:
            return value.astimezone(zone).replace(tzinfo=None, fold=0)
        first, second = (value.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
        repeated = (first.utcoffset() or _NOTHING) > (second.utcoffset() or _NOTHING)
        return (second if repeated else first).astimezone(dt.UTC)
    except OverflowError:
        raise TypeMismatch(f"{value} in {name} is outside of the years 1 to 9999.") from None


@lru_cache(_ZONES_KEPT)
def _zone(name: str) -> dt.tzinfo:
    found = _OFFSET.fullmatch(name)
    if found is not None:
        east = dt.timedelta(hours=int(found[2]), minutes=int(found[3]), seconds=int(found[4] or 0))
        return dt.timezone(-east if found[1] == "-" else east)
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise TypeMismatch(
            f"The time zone {name} is not known.",
            cure="Write a name of this machine's database of time zones, such as Europe/Berlin.",
        ) from None


def _of_interval(given: Interval) -> str:
    if given.months or given.days:
        raise TypeMismatch(
            f"The time zone {given} has months or days.", cure="Write hours and minutes."
        )
    return _at(given.microseconds // 1_000_000, str(given))


def _at(east: int, given: str) -> str:
    """The zone of an offset in seconds. Raises TypeMismatch."""
    minutes, seconds = divmod(abs(east), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= _MOST_HOURS:
        raise TypeMismatch(
            f"The time zone {given} is a day or more from UTC.", cure="Write fewer hours."
        )
    return f"GMT{'-' if east < 0 else '+'}{hours:02}:{minutes:02}:{seconds:02}"
