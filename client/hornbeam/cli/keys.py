"""`hornbeam keys …`: create, list and revoke API keys.

On a server the commands need an administrator's key. `--data` names the folder of an embedded
database that no server has open; then the commands need no key. The first key of a database on a
cluster comes with the nodes' settings: `bootstrap` creates a key, and prints the setting.
"""

from __future__ import annotations

import datetime as dt
import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from hornbeam.cli.common import (
    DEFAULT_URL,
    ERR,
    OUT,
    AsJson,
    Url,
    fail,
    opened,
    print_json,
    table,
)
from hornbeam.server_package import server_module

_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


class Role(StrEnum):
    reader = "reader"
    writer = "writer"
    admin = "admin"


Data = Annotated[
    Path | None,
    typer.Option("--data", help="Folder of an embedded database that no server has open."),
]


def register(app: typer.Typer) -> None:
    keys = typer.Typer(help="Create, list and revoke API keys.", no_args_is_help=True)
    keys.command("create")(create)
    keys.command("list")(list_keys)
    keys.command("revoke")(revoke)
    keys.command("bootstrap")(bootstrap)
    app.add_typer(keys, name="keys")


def create(
    name: Annotated[str, typer.Argument(help="The key's name, for example of its user.")],
    role: Annotated[Role, typer.Option(help="The key's role.")],
    grant: Annotated[
        list[str],
        typer.Option(
            help="RELATION=read, RELATION=write or VIEW=read. Repeat for several grants. Default:"
            " everything that the role allows."
        ),
    ] = [],  # noqa: B006 (a list default makes the option repeatable)
    valid_for: Annotated[
        str | None, typer.Option(help="Time until the key expires: 90d, 12h, 30m, 60s.")
    ] = None,
    data: Data = None,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Create a key and print it. It cannot be shown again."""
    body = {
        "name": name,
        "role": role.value,
        "grants": dict(map(_grant, grant)) or None,
        "valid_for_s": None if valid_for is None else _seconds(valid_for),
    }
    with opened(_where(data, url)) as db:
        created = db.transport.json("POST", "/v1/keys", body)
    if as_json:
        print_json(created)
        return
    print(created["key"])
    ERR.print("Save the key now: it is not shown again. Clients read it from HORNBEAM_API_KEY.")


def list_keys(data: Data = None, url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """List keys, also expired and revoked keys, without their secrets."""
    with opened(_where(data, url)) as db:
        keys = db.transport.json("GET", "/v1/keys")
    if as_json:
        print_json(keys)
        return
    columns = ("id", "name", "role", "grants", "state", "created", "expires")
    rows = [
        (
            key["id"],
            key["name"],
            key["role"],
            _grants(key["grants"]),
            key["state"],
            _time_text(key["created_ms"]),
            _time_text(key["expires_ms"]),
        )
        for key in keys
    ]
    OUT.print(table(columns, rows) if rows else "There are no keys.")


def revoke(
    key_id: Annotated[
        str, typer.Argument(metavar="ID", help="The key's id, as `keys list` shows it.")
    ],
    data: Data = None,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Revoke a key permanently."""
    if not re.fullmatch("[0-9a-f]{12}", key_id):
        fail("The id of a key has 12 hexadecimal digits.", "See: hornbeam keys list.")
    with opened(_where(data, url)) as db:
        revoked = db.transport.json("DELETE", f"/v1/keys/{key_id}")
    if as_json:
        print_json(revoked)
    else:
        OUT.print(f"{key_id} is revoked.")


def bootstrap(as_json: AsJson = False) -> None:
    """Create an administrator's first key for a cluster, and the setting by which nodes know it.

    The command stores nothing. Create other keys with this key, then remove the setting.
    """
    keys = server_module("api.security.api_keys")
    fresh = keys.fresh()
    line = keys.bootstrap_line(fresh)
    if as_json:
        print_json({"id": fresh.id, "key": fresh.text, "bootstrap_key": line})
        return
    print(fresh.text)
    ERR.print("Save the key now: it is not shown again. The nodes' setting, which is not secret:")
    ERR.print(f'bootstrap_key = "{line}"', soft_wrap=True)


def _where(data: Path | None, url: str) -> str:
    if data is None:
        return url
    if not data.is_dir():
        fail(f"There is no folder {data}.")
    return f"hornbeam:///{quote(str(data.resolve()))}"


def _grant(text: str) -> tuple[str, str]:
    name, _, right = text.rpartition("=")
    if not name or right not in {"read", "write"}:
        fail(f"{text!r} is not a grant: write NAME=read or NAME=write.")
    return name, right


def _seconds(text: str) -> int:
    found = re.fullmatch(r"([0-9]{1,9})([smhd])", text)
    if found is None or int(found[1]) == 0:
        fail(f"{text!r} is not a duration: write 90d, 12h, 30m or 60s.")
    return int(found[1]) * _UNITS[found[2]]


def _grants(grants: dict[str, str] | None) -> str:
    return "everything" if grants is None else ", ".join(f"{n}={r}" for n, r in grants.items())


def _time_text(ms: Any) -> str:
    return "" if not ms else dt.datetime.fromtimestamp(ms / 1000, dt.UTC).isoformat(" ", "seconds")
