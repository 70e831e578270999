"""Connections for asyncio, with the meaning and the errors of `hornbeam.connect`.

>>> import hornbeam.aio
>>> async def name(key):
...     async with hornbeam.aio.connect("hornbeam://127.0.0.1:8780") as db:
...         cursor = db.cursor()
...         await cursor.execute("SELECT c_fname FROM customer WHERE c_id = ?", [key])
...         async for row in cursor:
...             print(row)

`hornbeam:///folder` opens an embedded database, which runs in a thread of its own.
`hornbeam.pool.AsyncPool` lends connections.
"""

from hornbeam.aio.connection import Connection, connect
from hornbeam.aio.cursor import Cursor

__all__ = ["Connection", "Cursor", "connect"]
