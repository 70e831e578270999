"""PostgreSQL on this machine, as Debian packages it: the reference for all answers, and for the
performance of a single machine.

It has plain tables with the indexes that the workload needs, and optionally materialised views,
which each write refreshes in its transaction. PostgreSQL has no other means to keep them right, and
does not answer a query from a view that the query does not name. So our rewriter rewrites the
reads. A refresh is not CONCURRENTLY: no client reads during it when statements are timed one after
the other, and recomputing a view takes a fifth of the time of also comparing it with its old rows.

The server has its default settings, including durable commits, except for the locale C, since we
also order text by code points, and a higher limit of connections. As its manual advises (Indexes,
11.9), indexes hold only the columns that are searched, not further wide columns. Clients connect by
TCP and prepare their statements.

A server has its own data folder, which must not exist before and is removed afterwards, and its own
port on the loopback interface. It is started and stopped by its process number. PostgreSQL refuses
to run as root, so root starts it as the user `postgres`, who must be able to reach the folder.
Needs the package `postgresql`, and psycopg.
"""

from __future__ import annotations

import os
import pwd
import re
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

from bench.peers import postgres_sql
from bench.peers.port import Cannot, Design, Row, Task, Write
from bench.peers.results import POSTGRES, POSTGRES_VIEWS
from hornbeam_server.cluster.layout import HOST
from hornbeam_server.cluster.ports import free_ports
from hornbeam_server.schema.errors import Unavailable
from hornbeam_server.schema.identifiers import identifier

BINARIES = Path("/usr/lib/postgresql")
USER = "postgres"
DATABASE = "postgres"
CONNECTIONS = 300
"""The limit of connections. There are more emulated browsers than the default, a hundred."""
START_S = 60.0
STOP_S = 60.0

_SIZES = """
SELECT relname, pg_table_size(oid) FROM pg_class
 WHERE relkind IN ('r', 'm', 'i') AND relnamespace = 'public'::regnamespace ORDER BY relname
"""

T = TypeVar("T")


class PostgreSQL:
    """A server with the relations and indexes of a design, and with its views if `views` is set.
    The server runs while the context lasts."""

    def __init__(self, folder: Path, design: Design, *, views: bool = False) -> None:
        self.name = POSTGRES_VIEWS if views else POSTGRES
        self.versions: Mapping[str, str] = {}
        self._catalog = design.views if views else design.plain
        self._server = Server(folder)
        self._opened = ExitStack()

    def __enter__(self) -> Self:
        """Start the server, and create the design. Raises Unavailable."""
        with ExitStack() as stack:
            stack.enter_context(self._server)
            self._db = stack.enter_context(closing(self._server.connect()))
            self.versions = self._server.versions(self._db)
            self._execute(postgres_sql.definitions(self._catalog))
            self._opened = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _execute(self, statements: Iterable[str]) -> None:
        for statement in statements:
            _guarded(partial(self._db.execute, statement))

    def load(self, relation: str, rows: Iterable[Row]) -> None:
        _guarded(lambda: self._copy(relation, rows))

    def _copy(self, relation: str, rows: Iterable[Row]) -> None:
        with self._db.cursor().copy(f"COPY {identifier(relation)} FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)

    def loaded(self) -> None:
        """Fill views, vacuum, gather statistics, and write all to disk."""
        views = [postgres_sql.refresh(view.name) for view in self._catalog.views]
        self._execute((*views, "VACUUM ANALYZE", "CHECKPOINT"))

    def session(self) -> _Session:
        return _Session(self._server.connect(), self._translated)

    def _translated(self, task: Task) -> tuple[str, ...]:
        """The translated statement, and the refreshes of the views that it changes."""
        views = postgres_sql.touched(task.sql, self._catalog)
        return postgres_sql.translated(task.sql, self._catalog), *map(postgres_sql.refresh, views)

    def sizes(self) -> Mapping[str, int]:
        return dict(_guarded(lambda: self._db.execute(_SIZES).fetchall()))

    def close(self) -> None:
        self._opened.close()


class _Session:
    """A client's connection. `translate` gives the translated statement of a task, and the
    refreshes of the views that it changes."""

    def __init__(self, db: Any, translate: Callable[[Task], tuple[str, ...]]) -> None:
        self._db = db
        self._translate = translate
        self._translated: dict[str, tuple[str, ...]] = {}

    def run(self, task: Task, values: Sequence[Any]) -> list[Row]:
        statement, *refreshes = self._statements(task)
        if not refreshes:  # a single statement commits itself
            return _guarded(lambda: _rows(self._db.execute(statement, values)))
        self.transact([(task, values)])
        return []

    def transact(self, writes: Sequence[Write]) -> None:
        _guarded(lambda: self._transact(writes))

    def _transact(self, writes: Sequence[Write]) -> None:
        stale: dict[str, None] = {}
        with self._db.transaction():
            for task, values in writes:
                statement, *refreshes = self._statements(task)
                self._db.execute(statement, values)
                stale |= dict.fromkeys(refreshes)
            for refresh in stale:
                self._db.execute(refresh)

    def _statements(self, task: Task) -> tuple[str, ...]:
        if task.name not in self._translated:
            self._translated[task.name] = self._translate(task)
        return self._translated[task.name]

    def close(self) -> None:
        self._db.close()


def _rows(cursor: Any) -> list[Row]:
    return [] if cursor.description is None else cursor.fetchall()


def _guarded(work: Callable[[], T]) -> T:
    import psycopg

    try:
        return work()
    except psycopg.Error as error:
        raise Cannot(str(error).partition("\n")[0]) from error


# ---------------------------------------------------------------- the server


class Server:
    """A server process and its data folder. The context creates and removes both."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._password = secrets.token_hex()
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

    def __enter__(self) -> Self:
        found = binaries()
        _need_psycopg()
        try:
            self._folder.mkdir(parents=True, mode=0o700)
        except FileExistsError:
            raise Unavailable(
                f"{self._folder} exists already.",
                cure="Make sure that no server uses the folder, and remove it.",
            ) from None
        try:
            self._initialise(found)
            self._start(found)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            _stop(self._process)
        shutil.rmtree(self._folder)

    def connect(self, database: str = DATABASE) -> Any:
        """A connection that commits each statement outside transactions."""
        import psycopg

        return psycopg.connect(
            host=HOST,
            port=self._port,
            user=USER,
            dbname=database,
            password=self._password,
            autocommit=True,
            prepare_threshold=0,
            cursor_factory=psycopg.RawCursor,
        )

    def environment(self, database: str = DATABASE) -> dict[str, str]:
        """The variables by which PostgreSQL's own programs find a database of the server."""
        return {
            "PGHOST": HOST,
            "PGPORT": str(self._port),
            "PGUSER": USER,
            "PGPASSWORD": self._password,
            "PGDATABASE": database,
        }

    def versions(self, db: Any) -> dict[str, str]:
        import psycopg

        return {
            "postgresql": db.info.parameter_status("server_version"),
            "psycopg": psycopg.__version__,
        }

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    @property
    def _log(self) -> Path:
        return self._folder / "log"

    def _initialise(self, programs: Path) -> None:
        password = self._folder / "password"
        password.write_text(self._password)
        if os.getuid() == 0:
            for path in (self._folder, password):
                shutil.chown(path, USER, USER)
        command = [
            str(programs / "initdb"),
            f"--pgdata={self._data}",
            f"--username={USER}",
            f"--pwfile={password}",
            "--auth=scram-sha-256",
            "--locale=C",
            "--encoding=UTF8",
        ]
        done = subprocess.run(
            command, **_as_user(), cwd="/", capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise Unavailable(
                f"PostgreSQL cannot create a data folder: {done.stderr.strip()}",
                cure=f"The user {USER} must be able to reach {self._folder}.",
            )

    def _start(self, programs: Path) -> None:
        (self._port,) = free_ports(1)
        command = [
            str(programs / "postgres"),
            *("-D", str(self._data)),
            *("-p", str(self._port)),
            *("-c", f"listen_addresses={HOST}"),
            *("-c", "unix_socket_directories="),
            *("-c", f"max_connections={CONNECTIONS}"),
        ]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                **_as_user(),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # so that Ctrl-C does not reach the server
            )
        self._await_ready(self._process)

    def _await_ready(self, process: subprocess.Popen[bytes]) -> None:
        import psycopg

        deadline = time.monotonic() + START_S
        while True:
            try:
                self.connect().close()
            except psycopg.OperationalError as error:
                if process.poll() is not None or time.monotonic() > deadline:
                    log = self._log.read_text(errors="replace").strip()
                    raise Unavailable(f"PostgreSQL does not start: {log}") from error
                time.sleep(0.05)
            else:
                return


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Stop a server in its fast mode: it rolls open transactions back, and closes connections."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGQUIT)  # immediate mode, which also ends its children
        process.wait()


def binaries() -> Path:
    """The folder of the newest installed version's programs. Raises Unavailable."""
    found = [path for path in BINARIES.glob("*/bin") if (path / "initdb").exists()]
    if not found:
        raise Unavailable(
            f"There is no PostgreSQL under {BINARIES}.", cure="apt-get install postgresql"
        )
    return max(found, key=_version)


def _version(programs: Path) -> int:
    return int(re.sub(r"\D.*", "", programs.parent.name) or 0)


def _need_psycopg() -> None:
    try:
        import psycopg  # noqa: F401 (only tested for)
    except ImportError:
        raise Unavailable(
            "The PostgreSQL systems need psycopg.", cure="pip install 'psycopg[binary]'"
        ) from None


def _as_user() -> dict[str, Any]:
    """Arguments of subprocess: the user that runs the server, if this process runs as root. Raises
    Unavailable."""
    if os.getuid() != 0:
        return {}
    try:
        user = pwd.getpwnam(USER)
    except KeyError:
        raise Unavailable(
            f"PostgreSQL does not run as root, and there is no user {USER}.",
            cure="apt-get install postgresql",
        ) from None
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
