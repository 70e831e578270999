"""The section of `docs/sqlalchemy.md` about SQLAlchemy's compliance suite, which is written from
the requirements."""

from __future__ import annotations

from tests.client.compliance.requirements import CLOSED, FAILING
from tests.client.compliance.running import ROOT

PAGE = ROOT / "docs" / "sqlalchemy.md"
_BEGIN = "<!-- `python -m tests.client.compliance.reference` writes this section -->\n"
_END = "<!-- end of the section -->\n"


def written() -> str:
    """The section, as the requirements say it."""
    closed = [f"| {reason} | {_listed(names)} |" for reason, names in sorted(CLOSED.items())]
    failing = [f"| `{name}` | {reason} |" for name, reason in sorted(FAILING.items())]
    lines = [
        "The suite's requirements that Hornbeam does not meet:",
        "",
        "| reason | requirements |",
        "| --- | --- |",
        *closed,
        "",
        "Tests that fail although their requirements are met:",
        "",
        "| test | reason |",
        "| --- | --- |",
        *failing,
    ]
    return "\n" + "\n".join(lines) + "\n\n"


def _listed(names: str) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names.split()))


def section_of(page: str) -> str:
    """The section of the text of the page."""
    return page.partition(_BEGIN)[2].partition(_END)[0]


def write() -> None:
    """Write the section into the page again."""
    page = PAGE.read_text()
    before, after = page.partition(_BEGIN)[0], page.partition(_END)[2]
    PAGE.write_text(before + _BEGIN + written() + _END + after)


if __name__ == "__main__":
    write()
