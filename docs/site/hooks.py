"""Hooks for mkdocs: pages that are beside the code, and links between them and `docs/`.

The same files are read in the repository, where a link leads from file to file. In the site, a page
from beside the code has an address of its own, and a link to any other file of the repository shows
the file's path.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
BESIDE = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "client/README.md": "client.md",
    "storage/codec/KEYS.md": "formats/keys.md",
    "storage/log/FORMAT.md": "formats/log.md",
    "storage/log/RECORDS.md": "formats/records.md",
    "storage/tcp/PROTOCOL.md": "formats/peers.md",
    "tests/checkers/README.md": "checkers.md",
}
"""Paths in the repository, and where they are in the site."""
_SOURCES = {page: source for source, page in BESIDE.items()}
_LINK = re.compile(r"(?<!!)\[(?P<text>[^][]+)\]\((?P<target>[^):#\s]+)(?P<anchor>#[^)\s]*)?\)")
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for source, page in BESIDE.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    here = page.file.src_uri
    source = _SOURCES.get(here, f"docs/{here}")

    def rewritten(link: re.Match[str]) -> str:
        target = normpath(str(PurePosixPath(source).parent / link["target"]))
        inside = BESIDE.get(target)
        if inside is None and target.startswith("docs/"):
            if target == "docs/decisions":
                target += "/index.md"
            inside = target.removeprefix("docs/")
        if inside is not None:
            address = relpath(inside, str(PurePosixPath(here).parent))
            return f"[{link['text']}]({address}{link['anchor'] or ''})"
        if not (ROOT / target).exists():
            raise ValueError(f"{source}: the link to {link['target']} leads nowhere.")
        return f"{link['text']} (`{target}`)"

    parts, end = [], 0
    for code in _CODE.finditer(markdown):
        parts += [_LINK.sub(rewritten, markdown[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*parts, _LINK.sub(rewritten, markdown[end:])])
