"""Hornbeam's client: PEP 249, a SQLAlchemy dialect, and the command line.

>>> import hornbeam
>>> with hornbeam.connect("hornbeam://127.0.0.1:8780") as connection:
...     cursor = connection.cursor()
...     cursor.execute("SELECT c_fname FROM customer WHERE c_id = ?", [7])
...     print(cursor.fetchall())

`hornbeam:///folder` opens an embedded database in this process (needs `hornbeam-server`).
`hornbeam.aio` has connections for asyncio, `hornbeam.pool` has pools of both.
"""

from hornbeam.connection import Connection, connect
from hornbeam.cursor import Cursor
from hornbeam.errors import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,
)
from hornbeam.intervals import Interval
from hornbeam.types import (
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    Binary,
    Date,
    DateFromTicks,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
)

apilevel = "2.0"
threadsafety = 1
paramstyle = "qmark"
__version__ = "0.1.0"

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "Interval",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]
