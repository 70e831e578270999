"""The declared differences: records in which a file expects another answer than Hornbeam gives.

`declared.toml` has a title and a reason for each kind of difference, and the lines of its cases in
each file. The kind `postgresql` has the cases in which PostgreSQL itself was asked, and answers as
Hornbeam does; `python -m tests.sqllogic --postgres` writes it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.sqllogic.outcomes import FileOutcomes

DECLARED = Path(__file__).parent / "declared.toml"
SAME = "PostgreSQL answers as Hornbeam does"
Cases = Mapping[str, Mapping[str, list[int]]]


@dataclass(frozen=True, slots=True)
class Difference:
    """One kind of difference. `cases`: lines by corpus and path."""

    title: str
    reason: str
    cases: Cases


def declared() -> list[Difference]:
    document = tomllib.loads(DECLARED.read_text()) if DECLARED.exists() else {}
    return [Difference(**each) for each in document.get("difference", ())]


def cases() -> dict[tuple[str, str], frozenset[int]]:
    """The lines of all declared cases, by corpus and path."""
    found: dict[tuple[str, str], frozenset[int]] = {}
    for each in declared():
        for corpus, paths in each.cases.items():
            for path, lines in paths.items():
                key = corpus, path
                found[key] = found.get(key, frozenset()) | frozenset(lines)
    return found


def add_same_as_postgresql(found: Iterable[FileOutcomes]) -> None:
    """Write the cases in which PostgreSQL was asked, and answers as Hornbeam does."""
    known = declared()
    others = [each for each in known if each.title != SAME]
    kept = next((each for each in known if each.title == SAME), None)
    new = {c: dict(paths) for c, paths in (kept.cases if kept else {}).items()}
    for each in found:
        lines = sorted(each.same_as_postgresql())
        new.setdefault(each.corpus, {}).pop(each.path, None)
        if lines:
            new[each.corpus][each.path] = lines
    same = Difference(SAME, "The file has its own engine's meaning.", new)
    DECLARED.write_text("\n".join(map(_toml, (same, *others))))


def _toml(each: Difference) -> str:
    lines = ["[[difference]]", f'title = "{each.title}"', f'reason = "{each.reason}"']
    for corpus, paths in sorted(each.cases.items()):
        if paths:
            lines.append(f"[difference.cases.{corpus}]")
            lines += [f'"{path}" = {numbers}' for path, numbers in sorted(paths.items())]
    return "\n".join([*lines, ""])
