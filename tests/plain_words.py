"""Fail when code or a document has a word that CONTRIBUTING's list replaces (`make check`).

Only words with a single meaning are looked for. Decision records and the changelog stay as they
were written.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

FOLDERS = (
    *(
        "api",
        "bench",
        "client",
        "cluster",
        "demo",
        "docker",
        "docs",
        "examples",
        "maintain",
        "node",
        "pgwire",
        "pipeline",
    ),
    *("query", "schema", "storage", "tests", "txlayer", "viewselect"),
)
KINDS = {".js", ".py", ".md", ".toml", ".yml"}
KEPT = {"CHANGELOG.md", "CONTRIBUTING.md", "tests/plain_words.py", "tests/test_tidy.py"}
WORDS = re.compile(
    r"\b(nobody|somebody|anew|shoppers?|told|crowd(?:ed)?|someone|whoever)\b"
    r"|(?<![\"'])\belsewhere\b(?![\"'])",  # the name of a field of REST
    re.IGNORECASE,
)


def offences(path: Path) -> Iterator[str]:
    """Yield `file:line word` for every word of the list in `path`."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        yield from (f"{path}:{number} {found[0]}" for found in WORDS.finditer(line))


def _files() -> Iterator[Path]:
    found = (path for folder in FOLDERS for path in sorted(Path(folder).rglob("*")))
    for path in (*found, *Path().glob("*.md")):
        parts = {"decisions", "site", "fixtures", "corpus", "published"} & set(path.parts)
        if path.suffix in KINDS and not parts and str(path) not in KEPT:
            yield path


def main() -> int:
    found = [offence for path in _files() for offence in offences(path)]
    for offence in found:
        print(f"{offence}: CONTRIBUTING.md lists a word to write instead")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
