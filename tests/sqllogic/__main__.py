"""`make sqllogic`: fetch the corpora, run all their files in parallel, print what differs, and
write the counts into docs/sql.md.

`--postgres` also asks a PostgreSQL of this machine (Debian: `postgresql`, and psycopg), and
declares the cases in which it answers as Hornbeam does, not as the file expects, or does not know
the statement. A declared case that no longer differs makes the run fail; `--prune` takes such cases
out of declared.toml. `--save FILE` keeps every outcome as JSON.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import multiprocessing
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.peers.postgres import Server
from hornbeam.cli.common import progress
from tests.sqllogic.corpora import CORPORA, OURS, Corpus, Unreachable, files, folder_of
from tests.sqllogic.databases import Hornbeam, PostgreSQL
from tests.sqllogic.declared import DECLARED, cases, declare_beside_postgresql, leave_out, stale
from tests.sqllogic.outcomes import FileOutcomes, Judged, judged, of_file
from tests.sqllogic.reference import write_section
from tests.sqllogic.runner import Verdict

Task = tuple[Corpus, str]
_SHOWN = (Verdict.WRONG, Verdict.ERROR, Verdict.INTERNAL)
_inherited: dict[str, Any] = {}
"""What the processes of the pool inherit: `folder` for their databases, and `server`, which is
PostgreSQL or None."""


def main() -> int:
    arguments = _arguments()
    logging.disable(logging.CRITICAL)
    tasks, missing = _tasks(arguments.corpus, arguments.only)
    if not tasks:
        print("There is no file to run.", file=sys.stderr)
        return 1
    whole = not arguments.only
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(dir=arguments.folder))
        os.chmod(folder, 0o755)
        server = Server(Path(folder) / "postgres") if arguments.postgres else None
        if server is not None:
            stack.enter_context(server)
        _inherited.update(folder=folder, server=server)
        found = _all_run(tasks, arguments.jobs, stack)
    if arguments.save:
        arguments.save.write_text(json.dumps([each.document() for each in found], indent=1))
    if arguments.postgres:
        declare_beside_postgresql(found)
    if arguments.prune:
        leave_out(stale(found, whole=whole))
    if whole:
        every = not arguments.corpus and not missing
        write_section([judged(each, cases()) for each in found], whole=every)
    return max(_report(found, whole=whole), int(missing))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.sqllogic", description=__doc__)
    parser.add_argument("--corpus", action="append", help="only this corpus, such as DuckDB")
    parser.add_argument("--only", default="", help="only files whose path matches this pattern")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="number of processes")
    parser.add_argument("--postgres", action="store_true", help="ask PostgreSQL, too")
    parser.add_argument("--prune", action="store_true", help="take out stale declared cases")
    parser.add_argument("--save", type=Path, help="a file for all outcomes")
    parser.add_argument("--folder", help="where databases are made; default: the system's choice")
    return parser.parse_args()


def _tasks(chosen: Sequence[str] | None, only: str) -> tuple[list[Task], bool]:
    """The files to run, and whether a corpus cannot be fetched."""
    tasks: list[Task] = []
    missing = False
    for corpus in (OURS, *CORPORA):
        if chosen and corpus.name not in chosen:
            continue
        try:
            folder = folder_of(corpus)
        except Unreachable as error:
            print(f"{corpus.name} is left out: {error}", file=sys.stderr)
            missing = True
            continue
        tasks += [(corpus, path) for path in files(corpus, folder) if re.search(only, path)]
    return tasks, missing


def _all_run(tasks: Sequence[Task], jobs: int, stack: ExitStack) -> list[FileOutcomes]:
    """The outcomes of all files. A process ends after some files, so that none grows large. The
    server's packages, which take seconds to import, are imported before processes fork."""
    for name in ("node.database", "api.rest.app"):
        importlib.import_module(f"hornbeam_server.{name}")
    pool = multiprocessing.get_context("fork").Pool(jobs, maxtasksperchild=100)
    stack.enter_context(pool)
    bar = stack.enter_context(progress())
    task = bar.add_task("Files", total=len(tasks))
    found = []
    for each in pool.imap_unordered(_run, tasks):
        found.append(each)
        bar.advance(task)
    return sorted(found, key=lambda each: (each.corpus, each.path))


def _run(task: Task) -> FileOutcomes:
    corpus, path = task
    folder = Path(tempfile.mkdtemp(dir=_inherited["folder"]))
    ours = of_file(corpus, path, Hornbeam(folder / "data"))
    if _inherited["server"] is None:
        return ours
    theirs = PostgreSQL(_inherited["server"], f"corpus_{os.getpid()}", corpus.style.values)
    return ours.beside(of_file(corpus, path, theirs))


def _report(found: Sequence[FileOutcomes], *, whole: bool) -> int:
    known = cases()
    results = [judged(each, known) for each in found]
    console = Console()
    for each in results:
        for outcome in each.undeclared:
            if outcome.verdict in _SHOWN:
                console.print(
                    f"{each.corpus} {each.path}:{outcome.line}: {outcome.verdict.value}\n"
                    f"    {outcome.sql}\n    {outcome.detail}", markup=False, highlight=False,
                )  # fmt: skip
        if each.malformed:
            console.print(f"{each.corpus} {each.path}: {each.malformed}", markup=False)
    console.print(_table(results))
    gone = stale(found, whole=whole)
    if gone:
        print(f"Cases that no longer differ; --prune takes them out of {DECLARED.name}:")
    for (corpus, path), lines in sorted(gone.items()):
        ends = ", ".join(f"{line} ({end})" for line, end in lines.items())
        print(f"{corpus} {path}: {ends}")
    left = Counter(o.verdict for each in results for o in each.undeclared)
    return 1 if gone or any(left[verdict] for verdict in _SHOWN) else 0


def _table(results: Iterable[Judged]) -> Table:
    others = [verdict.value for verdict in Verdict][1:]
    table = Table("corpus", "files", "passed", "declared", *others)
    by_corpus: dict[str, list[Judged]] = {}
    for each in results:
        by_corpus.setdefault(each.corpus, []).append(each)
    for name, some in by_corpus.items():
        counts: Counter[Any] = Counter()
        for each in some:
            counts += each.counts
        verdicts = [counts[verdict] for verdict in Verdict][1:]
        numbers = (len(some), counts[Verdict.PASSED], counts["declared"], *verdicts)
        table.add_row(name, *map(str, numbers))
    return table


if __name__ == "__main__":
    sys.exit(main())
