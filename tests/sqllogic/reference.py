"""Write the section "Tests of others" of docs/sql.md."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from tests.sqllogic.corpora import CORPORA
from tests.sqllogic.declared import declared
from tests.sqllogic.outcomes import BAD, Judged
from tests.sqllogic.runner import Verdict

PAGE = Path("docs/sql.md")
BEGIN, END = "<!-- `make sqllogic` writes this section -->\n", "<!-- end of make sqllogic -->\n"
INTRODUCTION = """
`make sqllogic` runs files of sqllogictest that other projects have written, and PostgreSQL's regression tests, each at a fixed commit. *Declared* counts the
records that end otherwise because the file has the meaning of its own engine: PostgreSQL was asked, and
answers as Hornbeam does, or does not know the statement; or because of a difference with a reason, which the last table
lists (`tests/sqllogic/declared.toml`). *Refused* statements are refused by name. *Open* counts other errors and answers that
differ. *Not asked* is what rests on a refused statement, or on a part of an engine that has nothing to do with SQL.
*Files* counts those that the run has reached. Of SQLite's corpus, which has millions of records, a seed draws two files of each
folder in `index` and `random`; at most 500 records of each file are asked.

"""  # noqa: E501
KINDS = 25
"""Number of kinds of refusals that the page shows."""


def write_section(results: Sequence[Judged], *, whole: bool) -> None:
    """Write the counts of the corpora that were run, and the statements that they had refused.
    Unless the run is `whole`, the rows of other corpora stay as they are."""
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    section, _, after = rest.partition(END)
    kept = [] if whole else section.splitlines(keepends=True)
    PAGE.write_text(before + BEGIN + "".join(_section(results, kept)) + END + after)


def _section(results: Sequence[Judged], kept: Sequence[str]) -> Iterator[str]:
    yield INTRODUCTION
    yield "| corpus | files | passed | declared | refused | open | not asked | measured |\n"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |\n"
    for corpus in CORPORA:
        some = [each for each in results if each.corpus == corpus.name]
        if not some:  # it could not be fetched, or was not run
            yield from (line for line in kept if line.startswith(f"| [{corpus.name}]"))
            continue
        counts: Counter[Any] = Counter()
        for each in some:
            counts += each.counts
        undecided = sum(counts[verdict] for verdict in BAD)
        numbers = (
            *(len(some), counts[Verdict.PASSED], counts["declared"], counts[Verdict.REFUSED]),
            *(undecided, counts[Verdict.SKIPPED]),
        )
        link = f"[{corpus.name}](https://github.com/{corpus.repository}/tree/{corpus.commit})"
        yield f"| {link} | {' | '.join(map(str, numbers))} | {date.today()} |\n"
    asked = sorted({each.corpus for each in results} & {corpus.name for corpus in CORPORA})
    yield f"\n| refused in {', '.join(asked)} | statements |\n| --- | --- |\n"
    yield from _refused(results)
    yield "\n| declared difference | why | cases |\n| --- | --- | --- |\n"
    for known in declared():
        lines = [
            line for paths in known.cases.values() for found in paths.values() for line in found
        ]
        yield f"| {known.title} | {known.reason} | {len(lines)} |\n"
    yield "\n"


def _refused(results: Sequence[Judged]) -> Iterator[str]:
    for kind, number in _refusals(results).most_common(KINDS):
        yield f"| {kind} | {number} |\n"


def _refusals(results: Sequence[Judged]) -> Counter[str]:
    return Counter(
        kind_of_refusal(outcome.detail)
        for each in results
        for outcome in each.undeclared
        if outcome.verdict is Verdict.REFUSED
    )


def kind_of_refusal(detail: str) -> str:
    """The first sentence of a refusal, without the names and the place in it."""
    text = detail.partition(": ")[2].splitlines()[0]
    text = re.sub(r"^(There are \d+ problems\.).*", r"\1", text)
    text = re.sub(r"\d+:\d+: ", "", text)
    text = re.sub(r" ?\((?:near|line)[^)]*\)|, in: .*|, near .*", "", text)
    text = re.sub(r"\d+", "N", text).partition(". ")[0]
    return text.replace("|", "\\|")[:100]
