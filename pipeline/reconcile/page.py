"""The report as a self-contained HTML page: no scripts, no other files, no network."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from hornbeam_server.pipeline.reconcile.report import Fault

FAULTS = tuple(str(fault) for fault in Fault)
STYLE = """
:root { color-scheme: light dark; --line: #8884; --bad: #c0392b; --good: #27864a; --bar: #4a7ab5 }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em }
h1 { font-size: 1.5em } h2 { font-size: 1.15em; margin-top: 2em; overflow-wrap: anywhere }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
th, td { border-bottom: 1px solid var(--line); padding: .25em .6em; text-align: right }
th { position: sticky; top: 0; background: Canvas; font-weight: 600 }
.name { text-align: left; overflow-wrap: anywhere } td.bad { color: var(--bad); font-weight: 600 }
code { font-size: .9em; overflow-wrap: anywhere } .sum { font-size: 1.2em; font-weight: 600 }
.sum.bad { color: var(--bad) } .sum.good { color: var(--good) }
.bar { background: var(--bar); display: inline-block; height: .7em }
.bar.bad { background: var(--bad) } .wide { overflow-x: auto }
"""


def page(document: Mapping[str, Any]) -> str:
    """The page of a `document` (`pipeline.reconcile.document`)."""
    left, repaired = document["differences"], document["repaired"]
    mood = "bad" if left else "good"
    more = f" left, {repaired} repaired" if repaired else ""
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width">',
            f"<title>{left} differences</title><style>{STYLE}</style></head><body>",
            "<h1>Views, indexes and constraints against the base relations</h1>",
            f'<p class="sum {mood}">{left} differences{more}</p>',
            f"<p>As of snapshot {document['snapshot']} ({_iso_time(document['snapshot'])}).</p>",
            _overview(document["checked"]),
            *(_detail(item) for item in document["checked"]),
            "</body></html>\n",
        ]
    )


def _iso_time(snapshot: int) -> str:
    time = dt.datetime.fromtimestamp(snapshot / 1000, dt.UTC)
    return time.isoformat(sep=" ", timespec="seconds")


def _overview(checked: Iterable[Mapping[str, Any]]) -> str:
    rows = [
        [
            *(_name(item[what]) for what in ("name", "kind")),
            _number(item["rows"]),
            *_faults(item),
            *(_number(item[what]) for what in ("left_out", "repaired")),
        ]
        for item in checked
    ]
    return _table(("name", "kind", "rows", *FAULTS, "left out", "repaired"), rows)


def _detail(item: Mapping[str, Any]) -> str:
    """The ranges of an item, with their rows, a bar and their differences; and samples."""
    parts = [f"<h2>{escape(item['kind'])} {escape(item['name'])}</h2>"]
    if item["as_of"] is not None:
        parts.append(f"<p>As of snapshot {item['as_of']} ({_iso_time(item['as_of'])}).</p>")
    most = max((part["rows"] for part in item["ranges"]), default=0) or 1
    columns = (f"from ({', '.join(item['key'])})", "rows", "", *FAULTS)
    rows = [
        [_name(_shown(part["from"])), _number(part["rows"]), _bar(part, most), *_faults(part)]
        for part in item["ranges"]
    ]
    parts.append(_table(columns, rows))
    if item["samples"]:
        parts.append("<h3>Some of what differs</h3>")
        some = [
            [_name(s["fault"]), *(_name(_shown(s[what])) for what in ("key", "stored", "expected"))]
            for s in item["samples"]
        ]
        parts.append(f"<p>Columns: <code>{escape(', '.join(item['columns']))}</code></p>")
        parts.append(_table(("fault", "key", "stored", "expected"), some))
    return "\n".join(parts)


def _table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "\n".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f'<div class="wide"><table><tr>{head}</tr>\n{body}</table></div>'


def _bar(part: Mapping[str, Any], most: int) -> str:
    wrong = sum(part[fault] for fault in FAULTS)
    width = max(round(10 * part["rows"] / most, 2), 0.1)
    kind = "bar bad" if wrong else "bar"
    return f'<td class="name"><span class="{kind}" style="width: {width}em"></span></td>'


def _faults(counts: Mapping[str, Any]) -> list[str]:
    return [_number(counts[fault], bad=counts[fault] > 0) for fault in FAULTS]


def _number(value: int, *, bad: bool = False) -> str:
    return f'<td class="bad">{value:,}</td>' if bad else f"<td>{value:,}</td>"


def _name(text: str) -> str:
    return f'<td class="name"><code>{escape(text)}</code></td>'


def _shown(value: object) -> str:
    """A key or row as text. None is the beginning of a table, or no row."""
    if value is None:
        return "—"
    if isinstance(value, bytes):
        return value.hex()
    assert isinstance(value, list)
    return ", ".join("NULL" if v is None else str(v) for v in value)
