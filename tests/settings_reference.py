"""Print the reference of all settings; with --check, fail when docs/settings.md differs from it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from hornbeam_server.node.settings import PREFIX, Settings

PAGE, COMMAND = Path("docs/settings.md"), "python -m tests.settings_reference"
TYPES = {Path: "path", bool: "boolean", int: "integer", float: "number", str: "text"}
BOUNDS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
INTRODUCTION = f"""# Settings

The settings of a server. `{COMMAND}` generates this page from `node/settings.py`.

A value comes from the first of these sources that has one: an option of `hornbeam serve` (`--data`,
`--host`, `--port`), the environment variable, the file `{Settings.model_config["toml_file"]}` in
the working folder of the server, the default. A line of the file is `name = value`, with text and
paths in quotes. A server reads its settings when it starts. A value that does not fit, and a line
or a variable `{PREFIX}…` that is no setting, keep it from starting (exit code 78). The command
`hornbeam config show` prints all values with their sources. See also [operations](operations.md).
`HORNBEAM_SPEEDUPS` is no setting of a server but of each process that reads rows
([operations](operations.md#faster-reads-of-many-rows)).

| setting | environment variable | type | default | meaning |
| --- | --- | --- | --- | --- |
"""


def row(name: str, field: FieldInfo) -> str:
    meaning = (field.description or "").replace("|", r"\|")
    cells = (f"`{name}`", f"`{PREFIX}{name.upper()}`", kind(field), shown(field.default), meaning)
    return f"| {' | '.join(cells)} |\n"


def kind(field: FieldInfo) -> str:
    """Return the type of a setting with its bounds, or its values if it has a fixed set of them."""
    if get_origin(field.annotation) is Literal:
        return ", ".join(f"`{value}`" for value in get_args(field.annotation))
    type_: Any = next(iter(get_args(field.annotation)), field.annotation)  # Path from Path | None
    limits = [(s, getattr(m, name, None)) for m in field.metadata for name, s in BOUNDS.items()]
    bounds = [f"{sign} {limit}" for sign, limit in limits if limit is not None]
    return ", ".join(["text, secret" if type_ is SecretStr else TYPES[type_], *bounds])


def shown(default: Any) -> str:
    text = str(default).lower() if isinstance(default, bool) else str(default)
    return "none" if default is None else f"`{text}`" if text else "empty"


if __name__ == "__main__":
    page = INTRODUCTION + "".join(row(*item) for item in Settings.model_fields.items())
    if "--check" not in sys.argv:
        print(page, end="")
    elif not PAGE.exists() or PAGE.read_text() != page:
        sys.exit(f"{PAGE} differs from the settings. Write it again: {COMMAND} > {PAGE}")
