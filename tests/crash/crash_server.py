"""The server that crash tests kill: a database of accounts behind REST, on a free port.

`python crash_server.py FOLDER` prints the port when it is ready.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path

import uvicorn

from hornbeam_server.api.rest.app import create_app
from hornbeam_server.node.database import Database
from hornbeam_server.node.settings import Settings
from hornbeam_server.schema.catalog import Catalog, Forest, Index, Purpose, State
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.model import KeyPart
from hornbeam_server.schema.views import JoinView, ViewColumn

ACCOUNTS, OPENING = 20, 1_000

SCHEMA = load_ddl(
    """
    CREATE TABLE account (a_id INTEGER PRIMARY KEY, a_balance INTEGER NOT NULL);
    CREATE TABLE entry (
      e_transfer INTEGER, e_a_id INTEGER NOT NULL REFERENCES account (a_id),
      e_amount INTEGER NOT NULL, PRIMARY KEY (e_transfer, e_a_id));
    """
)


def catalog() -> Catalog:
    """Entries under their accounts, joined in a view with an index over it."""
    edge = SCHEMA.relation("entry").foreign_keys[0]
    path = ("account", "entry")
    columns = tuple(ViewColumn(c, r, c) for r in path for c in SCHEMA.relation(r).column_names)
    view = JoinView("account__entry", path, (edge,), columns)
    indexes = (
        Index("entry.by.e_a_id", "entry", (KeyPart("e_a_id"),), purpose=Purpose.FOREIGN_KEY),
        Index("account__entry.by", view.name, (KeyPart("a_balance"),), purpose=Purpose.VIEW),
    )
    states = tuple((name, State.BUILDING) for name in (view.name, *(i.name for i in indexes)))
    forest = Forest(("account",), (("entry", edge),))
    return Catalog(1, SCHEMA, forest, (view,), indexes, states)


async def main(folder: Path) -> None:
    settings = Settings(data=folder)
    async with await Database.open(settings) as database:
        if database.catalog.version == 0:
            await database.keeper.apply(catalog())
            await database.load(
                "account", ["a_id", "a_balance"], [(n, OPENING) for n in range(ACCOUNTS)]
            )
        await database.keeper.wait_built()
        with socket.create_server(("127.0.0.1", 0)) as listening:
            print(listening.getsockname()[1], flush=True)
            config = uvicorn.Config(
                create_app(settings, database), log_level="warning", access_log=False
            )
            await uvicorn.Server(config).serve(sockets=[listening])


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
