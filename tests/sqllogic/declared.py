"""The declared differences: records in which a file expects another answer than Hornbeam gives.

`declared.toml` has a title and a reason for each kind of difference, and the lines of its cases in
each file. Of two kinds PostgreSQL itself was asked, and answers as Hornbeam does, or does not know
the statement; `python -m tests.sqllogic --postgres` writes them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.sqllogic.outcomes import FileOutcomes

DECLARED = Path(__file__).parent / "declared.toml"
SAME = "PostgreSQL answers as Hornbeam does"
UNKNOWN = "PostgreSQL does not know the statement"
_REASONS = {
    SAME: "The file has its own engine's meaning.",
    UNKNOWN: "Its syntax, or a function, operator or type in it, is another engine's; Hornbeam has"
    " DuckDB's meaning of it.",
}
Cases = Mapping[str, Mapping[str, list[int]]]
Lines = Mapping[tuple[str, str], frozenset[int]]


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
    found: dict[tuple[str, str], frozenset[int]] = {}
    for each in differences:
        for corpus, paths in each.cases.items():
            for path, lines in paths.items():
                key = corpus, path
                found[key] = found.get(key, frozenset()) | frozenset(lines)
    return found


def declare_beside_postgresql(found: Iterable[FileOutcomes]) -> None:
    """Write the cases in which PostgreSQL was asked, and answers as Hornbeam does, or does not know
    the statement."""
    known = declared()
    asked = list(found)
    lines = {SAME: FileOutcomes.same_as_postgresql, UNKNOWN: FileOutcomes.unknown_to_postgresql}
    others = [each for each in known if each.title not in _REASONS]
    by_hand = _lines(others)
    written = [
        Difference(title, reason, _replaced(known, title, asked, lines[title], by_hand))
        for title, reason in _REASONS.items()
    ]
    DECLARED.write_text("\n".join(map(_toml, (*written, *others))))


def _replaced(
    known: Iterable[Difference], title: str, asked: Iterable[FileOutcomes],
    lines: Callable[[FileOutcomes], set[int]], by_hand: Lines,
) -> Cases:  # fmt: skip
    """The cases of a kind, in which those of the files that were asked are replaced. Cases that are
    declared by hand stay where they are."""
    kept = next((each.cases for each in known if each.title == title), {})
    new = {corpus: dict(paths) for corpus, paths in kept.items()}
    for each in asked:
        paths = new.setdefault(each.corpus, {})
        paths.pop(each.path, None)
        if found := sorted(lines(each) - by_hand.get((each.corpus, each.path), frozenset())):
            paths[each.path] = found
    return new


def _toml(each: Difference) -> str:
    lines = ["[[difference]]", f'title = "{each.title}"', f'reason = "{each.reason}"']
    for corpus, paths in sorted(each.cases.items()):
        if paths:
            lines.append(f"[difference.cases.{corpus}]")
            lines += [f'"{path}" = {numbers}' for path, numbers in sorted(paths.items())]
    return "\n".join([*lines, ""])
