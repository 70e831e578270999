"""Write the section "Differences from PostgreSQL" of docs/sql.md; with --check, fail when the
section is not current (`make check`)."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.postgres.corpus import Answer, is_ordered, recorded
from tests.postgres.differences import KINDS, Difference, declared, shown
from tests.postgres.hornbeam import Found, answers, database

PAGE, COMMAND = Path("docs/sql.md"), "python -m tests.postgres.reference"
BEGIN, END = f"<!-- `{COMMAND}` writes this section -->\n", "<!-- end of the section -->\n"
INTRODUCTION = """
The test `tests/postgres` asks Hornbeam and PostgreSQL {version} the same {all} expressions and queries. {equal} answers
are equal. The tables show each kind of difference by an example. `tests/postgres/differences.toml` lists all cases. A
test fails if a difference is missing there, or no longer occurs. `SMALLINT` counts as `INTEGER`,
since queries show it so. Trailing zeros of decimals do not count.
"""  # noqa: E501
WIDTH = 40
"""Maximum characters of an answer in the table."""


def section(known: list[Difference], found: Mapping[str, Found]) -> str:
    version, wanted = recorded()
    differing = sum(len(each.cases) for each in known)
    counts = {"version": version.split()[0], "all": len(wanted), "equal": len(wanted) - differing}
    parts = [INTRODUCTION.format_map(counts)]
    for kind, title in KINDS.items():
        same = [each for each in known if each.kind == kind]
        if same:
            parts.append(f"\n### {title}\n\n")
            parts += _table(same, wanted, found)
    return "".join(parts) + "\n"


def _table(
    known: list[Difference], wanted: Mapping[str, Answer], found: Mapping[str, Found]
) -> Iterator[str]:
    yield "| difference | example | Hornbeam | PostgreSQL | cases | why |\n"
    yield "| --- | --- | --- | --- | --- | --- |\n"
    for each in known:
        example = each.cases[0]
        ordered = is_ordered(example)
        here, there = _here(found[example], ordered), _there(wanted[example], ordered)
        cells = (each.title, _code(example), here, there, str(len(each.cases)), each.reason)
        yield f"| {' | '.join(cells)} |\n"


def _here(answer: Found, ordered: bool) -> str:
    if answer.error is not None:
        return "refused" if answer.refused else "error"
    kinds = (str(kind or "text") for kind in answer.kinds)
    return _result([[shown(value) for value in row] for row in answer.rows], kinds, ordered)


def _there(answer: Answer, ordered: bool) -> str:
    if answer.error is not None:
        return f"error {answer.error}"
    rows = [["NULL" if value is None else value for value in row] for row in answer.rows]
    return _result(rows, answer.types, ordered)


def _result(rows: list[list[str]], types: object, ordered: bool) -> str:
    """The rows and their types. Rows in no particular order are sorted, so that the page does not
    change from run to run."""
    text = "; ".join(", ".join(row) for row in (rows if ordered else sorted(rows)))
    return f"{_code(text)} {' '.join(dict.fromkeys(types))}"  # type: ignore[call-overload]


def _code(text: str) -> str:
    short = text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"
    return f"`{short}`".replace("|", "\\|") if short else "empty"


async def _examples(folder: Path, known: list[Difference]) -> dict[str, Found]:
    async with database(folder) as db:
        cases = [each.cases[0] for each in known]
        return await answers(db, cases, cases)


def main() -> None:
    known = declared()
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(_examples(Path(folder), known))
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    current = before + BEGIN + section(known, found) + END + after
    if "--check" not in sys.argv:
        PAGE.write_text(current)
    elif page != current:
        sys.exit(f"{PAGE} differs from the declared differences. Write it again: {COMMAND}")


if __name__ == "__main__":
    main()
