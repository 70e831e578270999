"""The declared differences: records in which a file expects another answer than Hornbeam gives.

`declared.toml` has a title and a reason for each kind of difference, and the lines of its cases in
each file. Of two kinds PostgreSQL itself was asked, and answers as Hornbeam does, or does not know
the statement; `python -m tests.sqllogic --postgres` writes them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.sqllogic.outcomes import FileOutcomes, judged

DECLARED = Path(__file__).parent / "declared.toml"
SAME = "PostgreSQL answers as Hornbeam does"
UNKNOWN = "PostgreSQL does not know the statement"
_REASONS = {
    SAME: "The file has its own engine's meaning.",
    UNKNOWN: "Its syntax, or a function, operator or type in it, is another engine's; Hornbeam has"
    " DuckDB's meaning of it.",
}
Cases = Mapping[str, Mapping[str, list[int]]]
Place = tuple[str, str]
"""A corpus and a path."""
Lines = Mapping[Place, frozenset[int]]


@dataclass(frozen=True, slots=True)
class Difference:
    """One kind of difference. `cases`: lines by corpus and path."""

    title: str
    reason: str
    cases: Cases


def declared() -> list[Difference]:
    document = tomllib.loads(DECLARED.read_text()) if DECLARED.exists() else {}
    return [Difference(**each) for each in document.get("difference", ())]


def cases() -> Lines:
    """The lines of all declared cases, by corpus and path."""
    return _lines(declared())


def _lines(differences: Iterable[Difference]) -> Lines:
    found: dict[Place, frozenset[int]] = {}
    for each in differences:
        for corpus, paths in each.cases.items():
            for path, lines in paths.items():
                key = corpus, path
                found[key] = found.get(key, frozenset()) | frozenset(lines)
    return found


def declare_beside_postgresql(found: Iterable[FileOutcomes]) -> None:
    """Write the cases in which PostgreSQL was asked, and answers as Hornbeam does, or does not know
    the statement."""
    known, asked = declared(), list(found)
    others = [each for each in known if each.title not in _REASONS]
    by_hand = _lines(others)
    same = {(each.corpus, each.path): each.same for each in asked}
    unknown = {(each.corpus, each.path): each.unknown for each in asked}
    written = (
        Difference(title, _REASONS[title], _replaced(known, title, lines, by_hand))
        for title, lines in ((SAME, same), (UNKNOWN, unknown))
    )
    _write((*written, *others))


def _replaced(known: Iterable[Difference], title: str, asked: Lines, by_hand: Lines) -> Cases:
    """The cases of a kind, in which those of the files that were asked are replaced. Cases that are
    declared by hand stay where they are."""
    kept = next((each.cases for each in known if each.title == title), {})
    new = {corpus: dict(paths) for corpus, paths in kept.items()}
    for (corpus, path), lines in asked.items():
        paths = new.setdefault(corpus, {})
        paths.pop(path, None)
        if found := sorted(lines - by_hand.get((corpus, path), frozenset())):
            paths[path] = found
    return new


def stale(found: Sequence[FileOutcomes], *, whole: bool) -> dict[Place, Mapping[int, str]]:
    """The declared cases that do not differ, with the ends of their records. `whole`: all files of
    the corpora were run, so a declared path without a file is stale."""
    known = cases()
    ends: dict[Place, Mapping[int, str]] = {
        (each.corpus, each.path): judged(each, known).stale for each in found
    }
    corpora = {each.corpus for each in found} if whole else set()
    for place, lines in known.items():
        if place[0] in corpora and place not in ends:
            ends[place] = dict.fromkeys(sorted(lines), "no file")
    return {place: lines for place, lines in ends.items() if lines}


def leave_out(gone: Mapping[Place, Collection[int]]) -> None:
    """Write the declared cases without the stale ones."""
    _write(replace(each, cases=_without(each.cases, gone)) for each in declared())


def _without(known: Cases, gone: Mapping[Place, Collection[int]]) -> Cases:
    kept = {
        corpus: {
            path: [line for line in lines if line not in gone.get((corpus, path), ())]
            for path, lines in paths.items()
        }
        for corpus, paths in known.items()
    }
    return {
        corpus: {path: lines for path, lines in paths.items() if lines}
        for corpus, paths in kept.items()
    }


def _write(differences: Iterable[Difference]) -> None:
    DECLARED.write_text("\n".join(_toml(each) for each in differences if any(each.cases.values())))


def _toml(each: Difference) -> str:
    lines = ["[[difference]]", f'title = "{each.title}"', f'reason = "{each.reason}"']
    for corpus, paths in sorted(each.cases.items()):
        if paths:
            lines.append(f"[difference.cases.{corpus}]")
            lines += [f'"{path}" = {numbers}' for path, numbers in sorted(paths.items())]
    return "\n".join([*lines, ""])
