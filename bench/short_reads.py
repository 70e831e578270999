"""Reads of few rows, layer by layer, next to floors over the same rows in the same run.

A *way* answers the same three reads as every other way; the ways of a group take turns in each
round. Figures are processor time: it scatters less than the time by the clock on a shared machine,
and it limits the number of reads a second. The floors are a bare ASGI application with stored
answers, sqlite3 and DuckDB in this process, and PostgreSQL through psycopg, which is left out when
one of the two is not installed.
"""

from __future__ import annotations

import datetime as dt
import selectors
import shutil
import socket
import sqlite3
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import sqlglot

import hornbeam
from bench import microdata, serving
from bench.measure import Figure, ratios
from bench.microdata import POINT, PREFIX
from bench.peers import postgres_sql
from bench.peers.postgres import Server
from hornbeam_server.cluster.ports import free_ports
from hornbeam_server.demo.serving import running, server
from hornbeam_server.node.database import Database
from hornbeam_server.schema.errors import Unavailable
from hornbeam_server.schema.model import Schema
from hornbeam_server.schema.render import render_ddl

SECTION = "short reads"
RANGE = "SELECT o_id, o_total, o_status FROM orders WHERE o_id BETWEEN ? AND ?"
CONNECTIONS = 16
FETCH, SQLITE, DUCKDB = "in a process", "sqlite3", "DuckDB"
SERVER, BARE, CLIENT = "REST server", "bare ASGI server", "Python client"
PSYCOPG, BACKEND = "psycopg", "PostgreSQL server"
WIRE = "psycopg to Hornbeam"
INDEX = "CREATE INDEX orders_by_customer ON orders (o_c_id)"
"""The index that `PREFIX` needs. A view-index serves it in Hornbeam."""
READ_RELATIONS = ("customer", "orders")

Row = tuple[Any, ...]
OnMissing = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Read:
    """One of the reads, and its goals: microseconds of processor time, and reads a second over
    `CONNECTIONS` connections."""

    name: str
    sql: str
    parameters: tuple[int, ...]
    in_process_us: float
    server_us: float
    a_second: float
    client_us: float | None = None

    @property
    def body(self) -> dict[str, object]:
        return {"sql": self.sql, "parameters": list(self.parameters)}

    @property
    def request(self) -> bytes:
        return serving.post("/v1/query", self.body)

    @property
    def path(self) -> str:
        return f"/{self.name.replace(' ', '-')}"


@dataclass(frozen=True, slots=True)
class Way:
    """A way to answer reads. `run` makes a read some times, and returns the rows of the last time.
    `clocks` give the nanoseconds of processor time so far, by the part that has taken them."""

    run: Callable[[Read, int], Awaitable[list[Row]]]
    clocks: Mapping[str, Callable[[], int]]


Taken = dict[str, dict[str, list[float]]]
"""Microseconds of processor time of one read, by way, part and round."""


def the_reads(customers: int) -> tuple[Read, ...]:
    middle = customers // 2
    first = middle * microdata.ORDERS_PER_CUSTOMER
    return (
        Read("point", POINT, (first,), 30, 120, 8_000, client_us=90),
        Read("prefix of 10", PREFIX, (middle,), 60, 160, 6_000),
        Read("range of 50", RANGE, (first, first + 49), 140, 240, 4_000),
    )


# ---------------------------------------------------------------- in this process


async def in_process(
    database: Database, customers: int, requests: int, rounds: int, scratch: Path
) -> list[Figure]:
    """The figures of `Database.fetch`, sqlite3 and DuckDB. The names of their
    files begin with `scratch`."""
    schema, clocks = database.catalog.schema, {"": time.process_time_ns}
    figures: list[Figure] = []
    with (
        closing(sqlite3.connect(f"{scratch}.sqlite3")) as lite,
        closing(duckdb.connect(f"{scratch}.duckdb")) as duck,
    ):
        _fill_sqlite(lite, schema, customers)
        _fill_duckdb(duck, schema, customers)

        async def fetch(read: Read, count: int) -> list[Row]:
            for _ in range(count):
                rows = await database.fetch(read.sql, read.parameters)
            return rows

        ways = {
            FETCH: Way(fetch, clocks),
            SQLITE: Way(_repeated(lambda r: lite.execute(r.sql, r.parameters).fetchall()), clocks),
            DUCKDB: Way(_repeated(lambda r: duck.execute(r.sql, r.parameters).fetchall()), clocks),
        }
        for read in the_reads(customers):
            await _require_equal(ways, read)
            taken = await _in_turns(ways, read, requests, rounds)
            for name, parts in taken.items():
                goal = read.in_process_us if name == FETCH else None
                figures.append(_figure(read, name, parts[""], goal))
            own, floor = taken[FETCH][""], taken[SQLITE][""]
            figures.append(_ratio(read, f"{FETCH} / {SQLITE}", own, floor))
    return figures


def _fill_sqlite(db: sqlite3.Connection, schema: Schema, customers: int) -> None:
    for definition in _definitions(schema, "sqlite"):
        db.execute(definition)
    for relation in READ_RELATIONS:
        rows = microdata.rows(relation, customers)
        marks = ", ".join("?" * len(schema.relation(relation).columns))
        texts = (tuple(map(_sqlite_value, row)) for row in rows)
        db.executemany(f"INSERT INTO {relation} VALUES ({marks})", texts)
    db.execute(INDEX)
    db.commit()


def _sqlite_value(value: object) -> object:
    return str(value) if isinstance(value, Decimal | dt.date) else value


def _fill_duckdb(db: duckdb.DuckDBPyConnection, schema: Schema, customers: int) -> None:
    for definition in _definitions(schema, "duckdb"):
        db.execute(definition)
    for relation in READ_RELATIONS:
        names = schema.relation(relation).column_names
        columns = zip(*microdata.rows(relation, customers), strict=True)
        given = pa.table(dict(zip(names, map(list, columns), strict=True)))
        db.register("given", given)
        db.execute(f"INSERT INTO {relation} SELECT * FROM given")
        db.unregister("given")
    db.execute(INDEX)


def _definitions(schema: Schema, dialect: str) -> list[str]:
    relations = tuple(map(schema.relation, READ_RELATIONS))
    return sqlglot.transpile(render_ddl(Schema(relations)), write=dialect)


# ---------------------------------------------------------------- served


async def served(
    folder: Path, customers: int, requests: int, rounds: int, scratch: Path, on_missing: OnMissing
) -> list[Figure]:
    """The figures of a server over the database in `folder`, of the Python client, of a bare ASGI
    server with the same answers, and of PostgreSQL. `scratch` is a folder for their files.

    `on_missing` gets a sentence when PostgreSQL is left out.
    """
    figures: list[Figure] = []
    with ExitStack() as stack:
        ways, port, wire_port = _served_ways(stack, folder, customers, scratch)
        try:
            ways[WIRE] = _wire_way(stack, wire_port, ways[SERVER].clocks[SERVER])
            postgres = stack.enter_context(Server(scratch / "postgresql"))
            ways[PSYCOPG] = _postgres_way(stack, postgres, customers)
        except (ImportError, Unavailable) as error:
            on_missing(f"PostgreSQL is not measured: {error}")
        for read in the_reads(customers):
            await _require_equal(
                {name: ways[name] for name in (CLIENT, WIRE, PSYCOPG) if name in ways}, read
            )
            figures += _of_read(read, await _in_turns(ways, read, requests, rounds))
            rates = tuple(_rate(port, read.request, requests * 4) for _ in range(rounds))
            name = f"{read.name}: {CONNECTIONS} connections"
            figures.append(Figure(SECTION, name, "reads/s", rates, at_least=read.a_second))
    shutil.rmtree(scratch, ignore_errors=True)
    return figures


def _served_ways(
    stack: ExitStack, folder: Path, customers: int, scratch: Path
) -> tuple[dict[str, Way], int, int]:
    """The ways over HTTP, the server's port, and that for clients of PostgreSQL's protocol."""
    (wire_port,) = free_ports(1)
    settings = {"postgresql_port": str(wire_port)}
    port, process = stack.enter_context(server(folder, **settings))
    with serving.Client(port) as raw:
        stored = {read.path: raw.answer(read.request) for read in the_reads(customers)}
    bare_port, bare = stack.enter_context(_bare_server(scratch / "answers", stored))
    db = stack.enter_context(hornbeam.connect(f"hornbeam://127.0.0.1:{port}", autocommit=True))
    cursor = db.cursor()

    def of_server() -> int:
        return processor_ns(process)

    async def asked(read: Read, count: int) -> list[Row]:
        return _asked(port, read.request, count)

    async def asked_bare(read: Read, count: int) -> list[Row]:
        return _asked(bare_port, serving.post(read.path, read.body), count)

    def through_client(read: Read) -> list[Row]:
        cursor.execute(read.sql, read.parameters)
        return cursor.fetchall()

    ways = {
        SERVER: Way(asked, {SERVER: of_server}),
        BARE: Way(asked_bare, {BARE: lambda: processor_ns(bare)}),
        CLIENT: Way(_repeated(through_client), {CLIENT: time.process_time_ns, SERVER: of_server}),
    }
    return ways, port, wire_port


def _wire_way(stack: ExitStack, port: int, of_server: Callable[[], int]) -> Way:
    """Reads through psycopg, from Hornbeam's server. Raises ImportError."""
    import psycopg

    where = f"host=127.0.0.1 port={port} user=bench dbname=hornbeam"
    db = stack.enter_context(closing(psycopg.connect(where, autocommit=True)))

    def ask(read: Read) -> list[Row]:
        return db.execute(read.sql.replace("?", "%s"), read.parameters).fetchall()

    return Way(_repeated(ask), {WIRE: time.process_time_ns, SERVER: of_server})


def _asked(port: int, request: bytes, count: int) -> list[Row]:
    with serving.Client(port) as client:
        for _ in range(count):
            client.ask(request)
    return []


@contextmanager
def _bare_server(folder: Path, answers: Mapping[str, bytes]) -> Iterator[tuple[int, int]]:
    """Serve `answers` by path in a fresh process. Yields (port, process id)."""
    folder.mkdir(parents=True)
    for path, answer in answers.items():
        (folder / path.removeprefix("/")).write_bytes(answer)
    (port,) = free_ports(1)
    with running(port, "bench.bare_asgi", str(port), str(folder)) as process:
        yield port, process


def _postgres_way(stack: ExitStack, server: Server, customers: int) -> Way:
    """Reads through psycopg, from the two relations in PostgreSQL. Raises ImportError."""
    catalog = microdata.micro_catalog(1, (), microdata.row_counts(customers))
    db = stack.enter_context(closing(server.connect()))
    for definition in _definitions(catalog.schema, "postgres"):
        db.execute(definition)
    for relation in READ_RELATIONS:
        with db.cursor().copy(f"COPY {relation} FROM STDIN") as copy:
            for row in microdata.rows(relation, customers):
                copy.write_row(row)
    for statement in (INDEX, "VACUUM ANALYZE"):
        db.execute(statement)
    statements = {
        read.name: postgres_sql.translated(read.sql, catalog) for read in the_reads(customers)
    }
    backend = db.info.backend_pid
    return Way(
        _repeated(lambda read: db.execute(statements[read.name], read.parameters).fetchall()),
        {PSYCOPG: time.process_time_ns, BACKEND: lambda: processor_ns(backend)},
    )


def _of_read(read: Read, taken: Taken) -> Iterator[Figure]:
    """The figures of one read over HTTP."""
    own, bare = taken[SERVER][SERVER], taken[BARE][BARE]
    is_point = read.client_us is not None
    yield _figure(read, SERVER, own, read.server_us)
    yield _figure(read, BARE, bare)
    yield _ratio(read, f"{SERVER} / {BARE}", own, bare, 2.5 if is_point else None)
    yield _figure(read, CLIENT, taken[CLIENT][CLIENT], read.client_us)
    if WIRE in taken:
        wire, lean = taken[WIRE][SERVER], taken[CLIENT][SERVER]
        yield _figure(read, f"{SERVER}, {WIRE}", wire)
        name = f"{SERVER}, {WIRE} / {CLIENT}"
        yield _ratio(read, name, wire, lean, 1.5 if is_point else None)
    if PSYCOPG in taken:
        peer = taken[PSYCOPG]
        yield _figure(read, PSYCOPG, peer[PSYCOPG])
        yield _figure(read, BACKEND, peer[BACKEND])
        whole = f"{CLIENT} and {SERVER} / {PSYCOPG} and {BACKEND}"
        yield _ratio(read, whole, _sums(taken[CLIENT]), _sums(peer), 4 if is_point else None)


def _rate(port: int, request: bytes, count: int) -> float:
    """Requests a second of `CONNECTIONS` connections, each with one request under way."""
    with ExitStack() as stack, selectors.DefaultSelector() as selector:
        for _ in range(CONNECTIONS):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            selector.register(connection, selectors.EVENT_READ, bytearray())
            connection.sendall(request)
        answered, began = 0, time.perf_counter()
        while answered < count:
            for key, _ in selector.select():
                ready, seen = key.fileobj, key.data
                assert isinstance(ready, socket.socket)
                seen += ready.recv(serving.RECEIVE_BYTES)
                if serving.is_whole(seen):
                    seen.clear()
                    answered += 1
                    ready.sendall(request)
        return answered / (time.perf_counter() - began)


# ---------------------------------------------------------------- rounds and figures


def _repeated(ask: Callable[[Read], list[Row]]) -> Callable[[Read, int], Awaitable[list[Row]]]:
    async def run(read: Read, count: int) -> list[Row]:
        for _ in range(count):
            rows = ask(read)
        return rows

    return run


async def _in_turns(ways: Mapping[str, Way], read: Read, requests: int, rounds: int) -> Taken:
    """What one read takes. A first round, which warms up, does not count."""
    taken: Taken = {name: {part: [] for part in way.clocks} for name, way in ways.items()}
    for number in range(rounds + 1):
        for name, way in ways.items():
            before = {part: clock() for part, clock in way.clocks.items()}
            await way.run(read, requests)
            if number:
                for part, clock in way.clocks.items():
                    taken[name][part].append((clock() - before[part]) / requests / 1_000)
    return taken


async def _require_equal(ways: Mapping[str, Way], read: Read) -> None:
    """Raises AssertionError when two ways answer differently."""
    answers = {name: _comparable(await way.run(read, 1)) for name, way in ways.items()}
    first = next(iter(answers.values()))
    for name, answer in answers.items():
        assert answer == first, f"{read.name}: {name} answers {answer}, and not {first}"


def _comparable(rows: Sequence[Row]) -> list[list[str]]:
    return sorted([_text(value) for value in row] for row in rows)


def _text(value: object) -> str:
    if isinstance(value, int | float | Decimal):
        return f"{Decimal(str(value)):.2f}"
    return str(value)


def processor_ns(process: int) -> int:
    """Nanoseconds of processor time that the threads of a process have taken."""
    tasks = Path(f"/proc/{process}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)


def _sums(parts: Mapping[str, Sequence[float]]) -> list[float]:
    return [sum(each) for each in zip(*parts.values(), strict=True)]


def _figure(
    read: Read, name: str, microseconds: Sequence[float], at_most: float | None = None
) -> Figure:
    return Figure(SECTION, f"{read.name}: {name}", "µs", tuple(microseconds), at_most=at_most)


def _ratio(
    read: Read,
    name: str,
    of: Sequence[float],
    to: Sequence[float],
    at_most: float | None = None,
) -> Figure:
    return Figure(SECTION, f"{read.name}: {name}", "×", ratios(of, to), at_most=at_most)
