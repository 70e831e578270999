"""The outcomes of files, beside PostgreSQL's and beside the declared differences."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.sqllogic import psql
from tests.sqllogic.corpora import Corpus, folder_of
from tests.sqllogic.databases import Answer, Database
from tests.sqllogic.records import Malformed, Record
from tests.sqllogic.runner import RESTS_ON_UNKNOWN, Outcome, Verdict, run_file, run_records
from tests.sqllogic.values import canonical, equal

BAD = {Verdict.WRONG, Verdict.ERROR, Verdict.INTERNAL}


@dataclass(frozen=True, slots=True)
class FileOutcomes:
    """The outcomes of a file. `postgres`: those of PostgreSQL, in the same order, if it was asked;
    `same`: the lines of records that do not pass, and in which PostgreSQL does as we do; `unknown`:
    the lines of others, of which PostgreSQL does not know the syntax, a function, an operator or a
    type. `whole`: the run has reached the end of the file. `malformed`: why the file was not
    read."""

    corpus: str
    path: str
    outcomes: tuple[Outcome, ...]
    postgres: tuple[Outcome, ...] = ()
    same: frozenset[int] = frozenset()
    unknown: frozenset[int] = frozenset()
    whole: bool = True
    malformed: str = ""

    def beside(self, theirs: FileOutcomes) -> FileOutcomes:
        """These outcomes, compared with those of PostgreSQL."""
        same = self._lines(theirs, _alike)
        unknown = self._lines(theirs, _unknown) - same
        return replace(self, postgres=theirs.outcomes, same=same, unknown=unknown)

    def _lines(
        self, other: FileOutcomes, holds: Callable[[Outcome, Outcome], bool]
    ) -> frozenset[int]:
        """The lines whose records do not pass, and for all of which the condition holds, between
        our outcome and the other one."""
        theirs = {(each.line, each.sql): each for each in other.outcomes}
        found: dict[int, bool] = {}
        for each in self.outcomes:
            if each.verdict in BAD:
                their = theirs.get((each.line, each.sql))
                agrees = their is not None and holds(each, their)
                found[each.line] = found.get(each.line, True) and agrees
        return frozenset(line for line, agrees in found.items() if agrees)

    def document(self) -> dict[str, Any]:
        theirs = {(each.line, each.sql): each for each in self.postgres}
        same = self.same | self.unknown
        return {
            "corpus": self.corpus,
            "path": self.path,
            "malformed": self.malformed,
            "outcomes": [
                {
                    "line": each.line,
                    "sql": each.sql,
                    "verdict": each.verdict.value,
                    "detail": each.detail,
                    "same": each.line in same,
                    "postgres": _shown(theirs.get((each.line, each.sql))),
                }
                for each in self.outcomes
            ],
        }


def _shown(other: Outcome | None) -> str:
    return "" if other is None else f"{other.verdict.value}: {other.detail}"


def _alike(ours: Outcome, theirs: Outcome) -> bool:
    if ours.answer is None or theirs.answer is None or ours.verdict is Verdict.INTERNAL:
        return False
    if ours.answer.error or theirs.answer.error:
        return bool(ours.answer.error) and bool(theirs.answer.error)
    return _bag(ours.answer) == _bag(theirs.answer) or _close(ours.answer, theirs.answer)


def _unknown(ours: Outcome, theirs: Outcome) -> bool:
    """Is the statement, or one that it rests on, unknown to PostgreSQL? What fails here is still a
    fault."""
    if ours.verdict is Verdict.INTERNAL:
        return False
    if theirs.answer is None:
        return theirs.detail == RESTS_ON_UNKNOWN
    return theirs.answer.unknown


def _bag(answer: Answer) -> list[list[str]]:
    return sorted([canonical(value) for value in row] for row in answer.rows)


def _close(ours: Answer, theirs: Answer) -> bool:
    """Whether the rows are equal one by one, in the order of the answers."""
    pairs = list(zip(ours.rows, theirs.rows, strict=False))
    return len(ours.rows) == len(theirs.rows) and all(
        len(a) == len(b) and all(map(equal, map(canonical, a), map(canonical, b))) for a, b in pairs
    )


def of_file(corpus: Corpus, path: str, database: Database) -> FileOutcomes:
    """Run a file of a corpus against a new database, and close the database."""
    folder = folder_of(corpus)

    def included(name: str) -> str:
        near = folder / Path(path).parent / name
        return (near if near.exists() else folder / name).read_text()

    try:
        text = (folder / path).read_text(errors="replace")
        asked = database, corpus.engines, corpus.style, included, corpus.records
        if corpus.style.values == "psql":
            found = run_records(_of_psql(folder, path, text), *asked)
        else:
            found = run_file(text, *asked)
    except (Malformed, OSError) as error:
        return FileOutcomes(corpus.name, path, (), malformed=str(error))
    finally:
        database.close()
    return FileOutcomes(corpus.name, path, tuple(found), whole=len(found) < corpus.records)


def _of_psql(folder: Path, path: str, script: str) -> Sequence[Record]:
    """The records of a script of PostgreSQL's regression tests, behind those of the relations that
    all scripts share."""
    tests = (folder / path).parents[1]

    def read(name: str) -> str:
        return (tests / name.lstrip("/")).read_text()

    output = read(f"expected/{Path(path).stem}.out")
    shared = psql.shared(read("sql/test_setup.sql"), script, read)
    return (*shared, *psql.read(script, output, read))


@dataclass(frozen=True, slots=True)
class Judged:
    """A file beside the declared differences. `counts`: the number of records of each verdict,
    without the declared ones, which count as "declared". `stale`: the lines of declared cases that
    do not differ, and how their records end instead."""

    corpus: str
    path: str
    counts: Counter[Any]
    undeclared: tuple[Outcome, ...]
    stale: Mapping[int, str]
    malformed: str


def judged(found: FileOutcomes, known: Mapping[tuple[str, str], frozenset[int]]) -> Judged:
    lines = known.get((found.corpus, found.path), frozenset())
    counts: Counter[Any] = Counter()
    undeclared, differing, ends = [], set(), {}
    for each in found.outcomes:
        ends[each.line] = each.verdict.value
        if each.verdict in BAD and each.line in lines:
            counts["declared"] += 1
            differing.add(each.line)
            continue
        counts[each.verdict] += 1
        if each.verdict is not Verdict.PASSED:
            undeclared.append(each)
    reached = math.inf if found.whole else max(ends, default=0)
    stale = {
        line: ends.get(line, "no record")
        for line in sorted(lines - differing)
        if line <= reached and not found.malformed
    }
    return Judged(found.corpus, found.path, counts, tuple(undeclared), stale, found.malformed)
