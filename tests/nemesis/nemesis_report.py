"""The table of the nemesis's results, and where they were measured."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from pathlib import Path

from hornbeam_server.cluster import artefacts
from hornbeam_server.demo.measures import machine, percentile, versions
from tests.nemesis.nemesis_faults import FAULTS
from tests.nemesis.nemesis_run import Verdict

BEGIN, END = "<!-- table -->", "<!-- end of table -->"
HEAD = (
    "| fault | runs | acknowledged | lost | torn | view differences | stuck | failed requests |"
    " no write for, p50 | p99 | recovery, p50 | p99 | live lag, p50 | p99 |"
)


def table(verdicts: Sequence[Verdict]) -> str:
    faults = [fault for fault in FAULTS if any(v.fault == fault for v in verdicts)]
    lines = [HEAD, "|" + " --- |" * HEAD.count(" |")]
    lines += [_line(fault, [v for v in verdicts if v.fault == fault]) for fault in faults]
    return "\n".join([*lines, _line("**all**", verdicts)])


def _line(fault: str, verdicts: Sequence[Verdict]) -> str:
    outages = [verdict.outage_s for verdict in verdicts]
    recoveries = [v.recovery_s for v in verdicts if v.recovery_s is not None]
    lags = [v.live_lag_s for v in verdicts if v.live_lag_s is not None]
    cells = [
        fault,
        len(verdicts),
        sum(v.acknowledged for v in verdicts),
        sum(len(v.lost) for v in verdicts),
        sum(len(v.torn) for v in verdicts),
        sum(v.differences for v in verdicts),
        sum(len(v.stuck) for v in verdicts),
        sum(v.failed for v in verdicts),
        *(_seconds(of, p) for of in (outages, recoveries, lags) for p in (0.5, 0.99)),
    ]
    return "| " + " | ".join(map(str, cells)) + " |"


def _seconds(times: Sequence[float], p: float) -> str:
    return f"{percentile(times, p):.1f} s" if times else ""


def where() -> str:
    """The date, the class of machine, and versions."""
    about, pom = machine(Path()), artefacts.pom().read_text(encoding="utf-8")
    gigabytes = round(int(about["memory"].split()[0]) / (1 << 20))
    load = ", ".join(f"{average:.0f}" for average in about["load_average"])
    return (
        f"{dt.datetime.now(dt.UTC):%Y-%m-%d}; {about['cores']} cores, {gigabytes} GiB, load average"
        f" {load}; Python {versions()['python']}, HBase {_version(pom, 'hbase')},"
        f" Hadoop {_version(pom, 'hadoop')}, Java {artefacts.java_version(str(artefacts.java()))}."
    )


def _version(pom: str, name: str) -> str:
    found = re.search(rf"<{name}\.version>([^<]+)<", pom)
    assert found is not None, name
    return found[1]


def write(page: Path, verdicts: Sequence[Verdict]) -> None:
    """Put the table between the marks of `page`."""
    text = page.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    page.write_text(
        f"{before}{BEGIN}\n\n{where()}\n\n{table(verdicts)}\n\n{END}{after}", encoding="utf-8"
    )
