"""Attack a server with hostile requests: `make hostile MINUTES=60 SEED=1 FAMILY="memory time"`.

The command starts a server in `var/hostile` (or attacks the one at `--url` on this machine, which
is empty or was attacked before), with five relations and 10 000 rows. Hostile clients send requests
drawn by the seed. Beside them, a polite client sends small requests at a fixed pace and times them.
At the end the command prints a table; the exit status is 1 when a bound was missed.
"""

from __future__ import annotations

import argparse
import ipaddress
import json
import shutil
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

from hornbeam_server.demo.ending import ended_by_sigterm
from hornbeam_server.demo.measures import machine, versions
from tests.hostile.hostile_families import FAMILIES, attack
from tests.hostile.hostile_report import Bounds, document, reported, table
from tests.hostile.hostile_run import GB, Plan, besieged, besieged_there


def main() -> None:
    options = _options()
    plan = Plan(
        seed=options.seed,
        seconds=options.minutes * 60,
        clients=options.clients,
        families=tuple(options.family or FAMILIES),
        longest_s=options.longest_limit,
        patience_s=options.patience,
        most=round(options.kill_at_gb * GB),
        address_space=(
            None
            if options.server_address_space is None
            else round(options.server_address_space * GB)
        ),
    )
    if options.show:
        for number in range(options.show):
            print(reported(attack(plan.seed, number, plan.families, plan.longest_s)))
        return
    bounds = Bounds(options.read_p99_ms, options.rss_mb)
    if options.url is None:
        folder = options.folder.resolve()
        shutil.rmtree(folder, ignore_errors=True)
        outcome = besieged(plan, folder)
    else:
        outcome = besieged_there(plan, options.url, options.pid)
    print(table(outcome, bounds))
    report = document(outcome, bounds)
    if options.json is not None:
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        where = {"at": when, "machine": machine(options.folder), "versions": versions()}
        options.json.write_text(json.dumps(where | report, indent=1, ensure_ascii=False))
    sys.exit(1 if report["missed"] else 0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make hostile", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="of the attack")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clients", type=int, default=4, help="hostile ones at the same time")
    parser.add_argument("--family", choices=FAMILIES, action="append", help="default: all")
    parser.add_argument(
        "--longest-limit", type=float, default=30.0, help="s; limits are drawn from 1 s to this"
    )
    parser.add_argument(
        "--patience", type=float, default=60.0, help="s past its limit to wait for an answer"
    )
    parser.add_argument("--url", type=_loopback, help="http://127.0.0.1:PORT of a server")
    parser.add_argument("--pid", type=int, help="of the server at --url, to watch its memory")
    parser.add_argument("--folder", type=Path, default=Path("var/hostile"))
    parser.add_argument(
        "--server-address-space", type=float, metavar="GB", help="that the server may map"
    )
    parser.add_argument(
        "--kill-at-gb", type=float, default=8.0, help="of memory: end it for the machine's sake"
    )
    parser.add_argument("--read-p99-ms", type=float, default=Bounds.read_p99_ms)
    parser.add_argument("--rss-mb", type=float, default=Bounds.rss_mb)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report there")
    parser.add_argument("--show", type=int, metavar="N", help="only print the first N requests")
    return parser.parse_args()


def _loopback(url: str) -> str:
    """Return the URL; raises ValueError if its host is no loopback address."""
    if not ipaddress.ip_address(urlsplit(url).hostname or "").is_loopback:
        raise ValueError("only a server on this machine's loopback address is attacked")
    return url


if __name__ == "__main__":
    with ended_by_sigterm():
        main()
