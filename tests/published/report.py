"""The table of the trials in docs/sql.md."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.published.files import PUBLISHED
from tests.published.trial import Result

PAGE, COMMAND = Path("docs/sql.md"), "make published"
BEGIN, END = f"<!-- `{COMMAND}` writes this table -->\n", "<!-- end of the table -->\n"
HEAD = (
    "| file | relations | rows | queries | plain views | views kept | writes, of them refused |"
    " differences |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n"
)


def table(results: Sequence[Result]) -> str:
    return HEAD + "".join(map(_line, results))


def _line(result: Result) -> str:
    published = result.published
    name = f"[{published.name}](https://github.com/{published.repository})"
    cells = (
        name,
        *(result.relations, f"{result.rows:,}".replace(",", " "), result.queries, result.views),
        *(result.kept, f"{result.writes}, {result.failed}", len(result.differences)),
    )
    return f"| {' | '.join(map(str, cells))} |\n"


def write(results: Sequence[Result]) -> None:
    """Write the table into the page. Lines of files that were not tried stay."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    written, _, after = rest.partition(END)
    lines = {_name(line): line for line in written.splitlines(keepends=True)[2:]}
    lines |= {result.published.name: _line(result) for result in results}
    listed = "".join(lines[each.name] for each in PUBLISHED if each.name in lines)
    PAGE.write_text(before + BEGIN + HEAD + listed + END + after)


def _name(line: str) -> str:
    return line.removeprefix("| [").partition("]")[0]
