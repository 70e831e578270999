"""`python -m tests.published [NAME…]`: try the published files whose names contain NAME.

Fetches them into --folder if they are not there. Ends with 1 if something differs, or a file cannot
be fetched. --write writes the table of docs/sql.md.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from bench.peers.postgres import Server
from hornbeam_server.demo.ending import ended_by_sigterm
from tests.published import report
from tests.published.files import PUBLISHED
from tests.published.trial import Result, tried

SHOWN = 20
"""The number of differences of one file that are printed."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--folder", type=Path, default=Path("var/published"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    chosen = [
        each
        for each in PUBLISHED
        if not options.names or any(name.lower() in each.name.lower() for name in options.names)
    ]
    results: list[Result] = []
    left_out: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        with Server(Path(folder) / "postgres") as server:
            for number, each in enumerate(chosen):
                began = time.monotonic()
                where = Path(folder) / f"hornbeam{number}"
                try:
                    files = each.files(options.folder)
                except OSError as error:
                    left_out.append(f"{each.name} is left out: {error}")
                    continue
                results.append(tried(each, files, server, where, options.seed))
                _print(results[-1], time.monotonic() - began)
    print(report.table(results))
    if options.write:
        report.write(results)
    print(*left_out, sep="\n", file=sys.stderr)
    return 1 if left_out or any(result.differences for result in results) else 0


def _print(result: Result, seconds: float) -> None:
    found = len(result.differences)
    print(f"{result.published.name}: {found} differences, {seconds:.0f} s", flush=True)
    for difference in result.differences[:SHOWN]:
        print(f"  {difference}", flush=True)


if __name__ == "__main__":
    with ended_by_sigterm():
        sys.exit(main())
