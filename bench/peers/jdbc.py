"""Phoenix's own JDBC driver in this process, with conversions between Python's and Java's values.

A process has one Java machine. It starts with the first cluster on which Phoenix is used, and
serves no other cluster. Without JPype (`pip install jpype1`) or Java, all functions raise
Unavailable.

Converting a value to Python takes some 4 µs. That is negligible in a statement of TPC-W, but three
quarters of the time of a read of thousands of wide rows. Such measurements only count rows.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from decimal import Decimal
from typing import Any, TypeVar

from bench.peers.phoenix_cluster import PhoenixCluster
from bench.peers.phoenix_sql import PhoenixStatement
from bench.peers.port import Cannot, Row
from hornbeam_server.cluster import Address, artefacts
from hornbeam_server.cluster.configuration import java_flags
from hornbeam_server.schema.errors import Unavailable

_EPOCH = dt.datetime(1970, 1, 1)
_FIRST_DAY = _EPOCH.date()
_MILLISECOND = dt.timedelta(milliseconds=1)
_SETTINGS = {
    "phoenix.transactions.enabled": "true",
    "phoenix.default.update.cache.frequency": "900000",
    "phoenix.query.maxServerCacheBytes": str(1 << 30),
    "phoenix.query.timeoutMs": "3600000",
}
"""Settings after the manual's Tuning Guide. A client caches a table's metadata for the given
milliseconds, instead of reading them for each statement. The rows that a join sends to the servers
of the other table may exceed 100 MB; otherwise joins of the largest tables are refused. A statement
may take an hour instead of ten minutes, since one statement fills a view."""

T = TypeVar("T")

_class_path: tuple[str, ...] = ()


def start_java(cluster: PhoenixCluster) -> None:
    """Start this process's Java machine, unless it runs. Raises Unavailable."""
    global _class_path  # noqa: PLW0603 (a process has only one Java machine)
    try:
        import jpype
        import jpype.config
    except ImportError:
        raise Unavailable("Phoenix needs JPype.", cure="pip install jpype1") from None
    if jpype.isJVMStarted():
        if _class_path != cluster.class_path:
            raise Unavailable("This process's Java machine serves another cluster.")
        return
    # Threads of Phoenix and Omid never end, and Python would wait for them.
    jpype.config.destroy_jvm = False
    home = artefacts.java().resolve().parents[1]
    jpype.startJVM(
        str(home / "lib" / "server" / "libjvm.so"),
        "-Xmx2g",
        "-Xrs",  # else Java takes SIGTERM, and its handler crashes this process
        "-Duser.timezone=UTC",  # so that dates without a zone do not change
        *java_flags(),
        classpath=list(cluster.class_path),
        convertStrings=True,
    )
    _class_path = cluster.class_path


class Connection:
    """A JDBC connection, for one thread at a time. Statements stay prepared. Raises Cannot."""

    def __init__(self, zookeeper: Address, *, autocommit: bool) -> None:
        import jpype

        _class("org.apache.phoenix.jdbc.PhoenixDriver")
        self._errors: type[Exception] = jpype.JException
        properties = _class("java.util.Properties")()
        for name, value in _SETTINGS.items():
            properties.setProperty(name, value)
        url = f"jdbc:phoenix:{zookeeper}:/hbase"
        try:
            self._db = _class("java.sql.DriverManager").getConnection(url, properties)
        except self._errors as error:
            raise Cannot(_reason(error)) from error
        self._db.setAutoCommit(autocommit)
        self._autocommit = autocommit
        self._prepared: dict[str, Any] = {}
        self._to_java = _to_java()

    def define(self, sql: str) -> None:
        """Run a statement of DDL. Raises Cannot."""
        self._guarded(lambda: self._db.createStatement().execute(sql))

    def transact(self, statements: Sequence[tuple[PhoenixStatement, Sequence[Any]]]) -> list[Row]:
        """Run `statements`, with their values, as one transaction. Returns the rows of the first if
        it is a query. Raises Cannot, without effects unless the connection is in auto-commit."""
        return self._guarded(lambda: self._transact(statements))

    def _transact(self, statements: Sequence[tuple[PhoenixStatement, Sequence[Any]]]) -> list[Row]:
        rows = []
        for number, (each, values) in enumerate(statements):
            statement = self._bound(each.sql, each.chosen(values))
            if statement.execute() and not number:
                rows = list(_rows(statement.getResultSet()))
        self._commit()
        return rows

    def insert(self, upsert: str, rows: Iterable[Row], batch: int) -> None:
        """Insert many rows, `batch` of them per transaction. Raises Cannot."""
        self._guarded(lambda: self._insert(upsert, rows, batch))

    def _insert(self, upsert: str, rows: Iterable[Row], batch: int) -> None:
        self._db.setAutoCommit(False)
        for number, row in enumerate(rows, start=1):
            self._bound(upsert, row).executeUpdate()
            if number % batch == 0:
                self._db.commit()
        self._db.commit()
        self._db.setAutoCommit(self._autocommit)

    def read(self, query: str) -> Iterator[Row]:
        """Yields the rows of a query as they arrive. Raises Cannot."""
        try:
            yield from _rows(self._db.createStatement().executeQuery(query))
        except self._errors as error:
            raise Cannot(_reason(error)) from error

    def count(self, query: str) -> int:
        """Bring all rows of a query into this process, without converting their values. Returns
        their number. Raises Cannot."""
        return self._guarded(lambda: self._count(query))

    def _count(self, query: str) -> int:
        with closing(self._db.createStatement()) as statement:
            found, rows = statement.executeQuery(query), 0
            while found.next():
                rows += 1
            return rows

    def tables_in(self, namespace: str) -> list[str]:
        """The full names of HBase's tables in a namespace. Raises Cannot."""
        with self._admin() as admin:
            found = self._guarded(lambda: admin.listTableNamesByNamespace(namespace))
            return [str(name.getNameAsString()) for name in found]

    def flush(self, tables: Iterable[str]) -> None:
        """Flush the memory of HBase's tables to files. Raises Cannot."""
        named = _class("org.apache.hadoop.hbase.TableName").valueOf
        with self._admin() as admin:
            self._guarded(lambda: [admin.flush(named(table)) for table in tables])

    def _admin(self) -> AbstractContextManager[Any]:
        phoenix = self._db.unwrap(_class("org.apache.phoenix.jdbc.PhoenixConnection"))
        return closing(phoenix.getQueryServices().getAdmin())

    def close(self) -> None:
        self._guarded(self._db.close)

    def _bound(self, sql: str, values: Sequence[Any]) -> Any:
        statement = self._prepared.get(sql)
        if statement is None:
            statement = self._prepared[sql] = self._db.prepareStatement(sql)
        for place, value in enumerate(values, start=1):
            statement.setObject(place, self._to_java(value))
        return statement

    def _commit(self) -> None:
        if not self._autocommit:
            self._db.commit()

    def _guarded(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except self._errors as error:
            if not self._db.isClosed():
                self._db.rollback()
            raise Cannot(_reason(error)) from error


def _reason(error: Any) -> str:
    """The first line of an error's innermost cause."""
    while error.getCause() is not None:
        error = error.getCause()
    return str(error.toString()).splitlines()[0]


def file_sizes(tables: Iterable[str]) -> dict[str, int]:
    """The bytes in HDFS of HBase's tables, by their names without the namespace."""
    path, named = _class("org.apache.hadoop.fs.Path"), _class("org.apache.hadoop.hbase.TableName")
    settings = _class("org.apache.hadoop.hbase.HBaseConfiguration").create()
    root = path(settings.get("hbase.rootdir"))
    files = root.getFileSystem(settings)
    found = {}
    for table in map(named.valueOf, tables):
        space, name = table.getNamespaceAsString(), str(table.getQualifierAsString())
        folder = path(root, f"data/{space}/{name}")
        found[name] = int(files.getContentSummary(folder).getLength())
    return found


def _class(name: str) -> Any:
    import jpype

    return jpype.JClass(name)


# ---------------------------------------------------------------- values


def _to_java() -> Callable[[Any], Any]:
    import jpype

    decimal = _class("java.math.BigDecimal")
    date, timestamp = _class("java.sql.Date"), _class("java.sql.Timestamp")

    def converted(value: Any) -> Any:
        match value:
            case Decimal():
                return decimal(str(value))
            case dt.datetime():
                instant = timestamp(_milliseconds(value))
                instant.setNanos(value.microsecond * 1_000)
                return instant
            case dt.date():
                return date(_milliseconds(dt.datetime.combine(value, dt.time())))
            case bytes():
                return jpype.JArray(jpype.JByte)(value)
            case _:
                return value

    return converted


def _milliseconds(value: dt.datetime) -> int:
    return (value - _EPOCH) // _MILLISECOND


def _timestamp(value: Any) -> dt.datetime:
    seconds = int(value.getTime()) // 1_000
    return _EPOCH + dt.timedelta(seconds=seconds, microseconds=int(value.getNanos()) // 1_000)


def _date(value: Any) -> dt.date:
    return _FIRST_DAY + dt.timedelta(days=int(value.getTime()) // 86_400_000)


_FROM_JAVA: dict[str, Callable[[Any], Any]] = {
    "INTEGER": int,
    "BIGINT": int,
    "DOUBLE": float,
    "BOOLEAN": bool,
    "VARCHAR": str,
    "VARBINARY": bytes,
    "DECIMAL": lambda value: Decimal(str(value.toPlainString())),
    "DATE": _date,
    "TIMESTAMP": _timestamp,
}


def _rows(found: Any) -> Iterator[Row]:
    about = found.getMetaData()
    places = range(1, int(about.getColumnCount()) + 1)
    converters = [_FROM_JAVA[str(about.getColumnTypeName(place))] for place in places]
    columns = list(zip(places, converters, strict=True))
    get = found.getObject
    while found.next():
        yield tuple(
            [None if (value := get(at)) is None else convert(value) for at, convert in columns]
        )
    found.close()
