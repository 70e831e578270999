"""PostgreSQL as a peer: the same entries, and a total that a trigger keeps, that REFRESH computes
again, or that the extension pg_ivm keeps.

`pgbench`, PostgreSQL's own client, inserts the entries with prepared statements, so no client in
Python slows PostgreSQL down. Each insert is a transaction. The server has its default settings
(bench/peers/postgres.py): like Hornbeam it syncs its log before it answers, and writers share a
sync. Each way has a database of its own. There are no indexes but those of keys.

A way whose server or extension is not installed is left out, and the reason is reported.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from bench.groups.ways import AMOUNT, FACT, ROWS, TABLES, TOTAL, compare
from bench.peers.postgres import Server, binaries
from hornbeam_server.schema.errors import Unavailable

ENTRY = "entry"
SCRIPT = f"INSERT INTO {ENTRY} VALUES (nextval('numbers'), 1, 1, {AMOUNT});\n"
VIEW = TOTAL.format(entry=ENTRY)
TRIGGER = """
CREATE TABLE total (e_a_id INTEGER PRIMARY KEY, entries BIGINT, amount DECIMAL(30,2));
CREATE FUNCTION add_entry() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE total SET entries = entries + 1, amount = amount + NEW.e_amount
  WHERE e_a_id = NEW.e_a_id;
  IF NOT FOUND THEN
    INSERT INTO total VALUES (NEW.e_a_id, 1, NEW.e_amount) ON CONFLICT (e_a_id) DO UPDATE
    SET entries = total.entries + 1, amount = total.amount + EXCLUDED.amount;
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER add_entry AFTER INSERT ON entry FOR EACH ROW EXECUTE FUNCTION add_entry();
"""
REFRESH = "REFRESH MATERIALIZED VIEW total"
EXTENSION = "pg_ivm"
IVM = f"CREATE EXTENSION {EXTENSION}; SELECT pgivm.create_immv('total', $${VIEW}$$)"
SETTINGS = ("fsync", "synchronous_commit", "wal_sync_method", "full_page_writes", "shared_buffers")
STORED = "SELECT amount FROM total"
_RATE = re.compile(r"^tps = ([0-9.]+) \(without initial connection time\)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class PostgresWay:
    """A way to keep a total in PostgreSQL: its definitions, the SELECT of the total, and whether
    each round ends with REFRESH."""

    name: str
    definitions: str
    amount: str = STORED
    refreshes: bool = False


PLAIN = PostgresWay("PostgreSQL, no total", "", f"SELECT sum(e_amount) FROM {ENTRY}")
KEPT_BY_TRIGGER = PostgresWay("PostgreSQL, total kept by a trigger", TRIGGER)
REFRESHED = PostgresWay(
    "PostgreSQL, REFRESH after each round",
    f"CREATE MATERIALIZED VIEW total AS {VIEW};",
    refreshes=True,
)
BY_PG_IVM = PostgresWay("PostgreSQL, pg_ivm", IVM)


class PostgresWriters:
    """The writers of one way, in the database `database` of the server. `refreshes`: for each
    REFRESH, the number of entries and its milliseconds."""

    def __init__(self, server: Server, database: str, script: Path, way: PostgresWay) -> None:
        self.name = way.name
        self.refreshes: list[tuple[int, float]] = []
        self._server = server
        self._database = database
        self._script = script
        self._way = way
        self._count = 0

    async def rate(self, writers: int, transactions: int) -> float:
        each = max(transactions // writers, 1)
        rate = await self._inserted(writers, each)
        self._count += writers * each
        if not self._way.refreshes:
            return rate
        taken_s = await asyncio.to_thread(self._refresh)
        self.refreshes.append((self._count, taken_s * 1000))
        return writers * each / (writers * each / rate + taken_s)

    async def _inserted(self, writers: int, each: int) -> float:
        """Run pgbench. Returns its transactions a second. Raises Unavailable."""
        process = await asyncio.create_subprocess_exec(
            str(binaries() / "pgbench"),
            *("--no-vacuum", "--protocol=prepared", f"--file={self._script}"),
            *(f"--client={writers}", f"--jobs={min(writers, 2)}", f"--transactions={each}"),
            env=self._server.environment(self._database),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, errors = await process.communicate()
        found = _RATE.search(output.decode())
        if process.returncode or found is None:
            raise Unavailable(f"pgbench fails: {errors.decode().strip()}")
        return float(found[1])

    def _refresh(self) -> float:
        began = time.perf_counter()
        self._execute(REFRESH)
        return time.perf_counter() - began

    async def check(self) -> None:
        total: Decimal = (await asyncio.to_thread(self._execute, self._way.amount)).fetchone()[0]
        compare(self.name, total, self._count)

    def _execute(self, sql: str) -> Any:
        with closing(self._server.connect(self._database)) as db:
            return db.execute(sql)


@contextmanager
def postgres_writers(
    folder: Path, on_missing: Callable[[str], None]
) -> Iterator[tuple[list[PostgresWriters], dict[str, str]]]:
    """The writers of all ways on a new server, and the server's version and settings. Both are
    empty without PostgreSQL. `on_missing` gets a sentence for each reason to leave ways out."""
    with ExitStack() as stack:
        try:
            server = stack.enter_context(Server(folder))
        except Unavailable as error:
            on_missing(f"PostgreSQL is not measured: {error}")
            yield [], {}
            return
        script = folder / "insert.sql"
        script.write_text(SCRIPT)
        db = stack.enter_context(closing(server.connect()))
        ways = [PLAIN, KEPT_BY_TRIGGER, REFRESHED]
        if _has_extension(db):
            ways.append(BY_PG_IVM)
        else:
            on_missing(f"{EXTENSION} is not measured: it is not installed in PostgreSQL.")
        about = server.versions(db) | {name: _shown(db, name) for name in SETTINGS}
        for number, way in enumerate(ways):
            _create(server, db, f"way{number}", way)
        yield (
            [
                PostgresWriters(server, f"way{number}", script, way)
                for number, way in enumerate(ways)
            ],
            about,
        )


def _has_extension(db: Any) -> bool:
    names = db.execute("SELECT name FROM pg_available_extensions WHERE name = $1", (EXTENSION,))
    return names.fetchone() is not None


def _shown(db: Any, setting: str) -> str:
    value: str = db.execute(f"SHOW {setting}").fetchone()[0]
    return value


def _create(server: Server, db: Any, database: str, way: PostgresWay) -> None:
    """Create the database of a way, with its relations and rows."""
    db.execute(f"CREATE DATABASE {database}")
    if way is BY_PG_IVM:  # as its manual says
        db.execute(f"ALTER DATABASE {database} SET session_preload_libraries = '{EXTENSION}'")
    with closing(server.connect(database)) as of_way:
        for statement in (TABLES + FACT.format(entry=ENTRY)).split(";")[:-1]:
            of_way.execute(statement)
        of_way.execute("CREATE SEQUENCE numbers")
        for relation, rows in ROWS.items():
            values = ", ".join(f"({', '.join(map(_literal, row))})" for row in rows)
            of_way.execute(f"INSERT INTO {relation} VALUES {values}")
        _script(of_way, way.definitions)


def _literal(value: object) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)


def _script(db: Any, text: str) -> None:
    """Execute several statements. A cursor of the simple protocol takes them at once."""
    import psycopg

    if text:
        psycopg.ClientCursor(db).execute(text)
