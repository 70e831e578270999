"""Any SQL is answered or refused, without other errors, hangs or excessive memory.

Where Hornbeam and DuckDB both answer a query over the same rows, their answers are equal.
"""

from __future__ import annotations

import asyncio
import math
import re
import resource
import signal
import uuid
from collections import Counter
from contextlib import asynccontextmanager, contextmanager
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hornbeam_server.node.database import Database
from hornbeam_server.node.schema_plans import PlanRequest
from hornbeam_server.node.settings import Settings
from hornbeam_server.query.dialect.duckdb_types import from_record_batch
from hornbeam_server.schema.errors import HornbeamError
from hornbeam_server.storage.codec.arrow import to_record_batch
from hornbeam_server.txlayer.statements.requests import Statement
from tests.depth import depth
from tests.duckdb_oracle import connect
from tests.fuzz.fuzz_shop import PLAN, READS, ROWS, WRITES, times
from tests.fuzz.sql_grammar import garbled, mutated, queries, writes

ROOT = Path(__file__).parents[2]
CPU_S = 10.0
"""A statement that takes more processor time counts as a hang."""
HEAP_KB = 400_000
"""The maximum growth of the process (KB) by one statement."""


def corpus() -> list[str]:
    files = [ROOT / "demo/tpcw/workload.sql", *(ROOT / "tests/query/fixtures").glob("*.sql")]
    texts = [re.split(r"^--.*$", file.read_text(), flags=re.MULTILINE) for file in files]
    return [sql.strip() for text in texts for sql in text if sql.strip()]


CORPUS = st.sampled_from(sorted({*corpus(), *READS, *WRITES}))
ANY_SQL = st.one_of(
    mutated(queries()),
    mutated(writes()),
    mutated(CORPUS),
    garbled(CORPUS),
    garbled(queries() | writes()),
    CORPUS,
    st.text(max_size=30),
)
VALUE = st.sampled_from([7, 1, None, "a", 2**70, 1.5, True, "2024-02-29", b"\0", "\x00"])


class Shop:
    """A database and DuckDB with the same rows, and methods that run statements on both."""

    def __init__(self, runner, database):
        self.runner = runner
        self.database = database
        self.answered = Counter()
        self.duck = connect()
        self.duck.execute(re.sub(r" REFERENCES \w+ \(\w+\)( ON DELETE CASCADE)?", "", PLAN["ddl"]))
        for relation in database.catalog.schema.relations:
            rows = runner.run(database.fetch(f"SELECT * FROM {relation.name}"))
            self.duck.register("incoming", to_record_batch(relation.columns, rows))
            self.duck.execute(f"INSERT INTO {relation.name} SELECT * FROM incoming")
            self.duck.unregister("incoming")

    def read(self, sql, parameters=()):
        """Explain and run a query; return its rows, or the error that refuses it."""
        return self._reported(self._read(sql, parameters))

    async def _read(self, sql, parameters):
        self.database.explain(sql, parameters)
        return await self.database.fetch(sql, parameters, timeout_s=5, max_rows=10_000)

    def write(self, sql, parameters=()):
        return self._reported(self.database.execute(sql, parameters, dry_run=True, timeout_s=5))

    def read_after(self, write, target):
        """Return the rows of `target` as they would be after `write`."""
        after = [Statement(write, ())]
        return self._reported(self.database.fetch(f"SELECT * FROM {target}", pending=after))

    def _reported(self, work):
        with limited():
            try:
                answer = self.runner.run(work)
            except HornbeamError as error:
                answer = error
        self.answered[type(answer).__name__] += 1
        return answer

    def duck_rows(self, sql, *, after=None):
        """Return DuckDB's answer, if given after the write `after`; None if DuckDB fails."""
        self.duck.execute("BEGIN")
        try:
            if after is not None:
                self.duck.execute(after)
            batches = self.duck.sql(sql).to_arrow_table().to_batches()
            return [row for batch in batches for row in from_record_batch(batch)]
        except (duckdb.Error, UnicodeError, HornbeamError):
            return None
        finally:
            self.duck.execute("ROLLBACK")

    def agree(self, found, wanted, sql):
        """Assert that both answers are equal, if both exist."""
        if isinstance(found, HornbeamError) or wanted is None:
            return
        numbers = re.search(r"\b(sum|sign)\(", sql) is not None
        assert alike(found, wanted, numbers=numbers), (sql, found, wanted)
        self.answered["compared"] += 1


@contextmanager
def limited(cpu_s=CPU_S):
    """Fail the block when it takes too much processor time or memory."""

    def hangs(*_):
        raise AssertionError(f"more than {cpu_s} s of processor time")

    Path("/proc/self/clear_refs").write_text("5")  # reset the peak to the current size
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    former = signal.signal(signal.SIGVTALRM, hangs)
    signal.setitimer(signal.ITIMER_VIRTUAL, cpu_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, former)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < HEAP_KB, f"{grown} KB more of memory"


def test_the_limits_hold():
    for _ in range(2):  # the second time, the process has been that large before
        with pytest.raises(AssertionError, match="KB more of memory"), limited():
            bytearray(HEAP_KB * 1_100).count(1)
    with pytest.raises(AssertionError, match="processor time"), limited(cpu_s=0.1):
        spin()


def spin():
    while True:
        pass


@asynccontextmanager
async def opened(folder):
    async with await Database.open(Settings(data=folder / "data")) as database:
        plan = PlanRequest(ddl=PLAN["ddl"], workload=PLAN["workload"], roots=None)
        await database.apply_schema(plan, database.plan_schema(plan).plan_id)
        await database.keeper.wait_built()
        for sql in (*ROWS, *KINDS):
            await database.execute(sql)
        yield database


KINDS = [
    "INSERT INTO kinds (k_id) VALUES (1)",
    "INSERT INTO kinds VALUES (2, 0.1, 1e300, true, 'AP8=', '2024-02-29', '1999-12-31 23:59:59',"
    " '2024-05-05 10:00:00+02', '6f1c1d0e-7f0b-4c55-8f0e-0b3a1c9d2e44', '{\"a\": [1]}', 'a_b%')",
    "INSERT INTO kinds VALUES (-3, -9999999999.5, -0.0, false, '', '0001-01-01',"
    " '9999-12-31 00:00:00', '1970-01-01 00:00:00+00', NULL, 'null', '')",
    "INSERT INTO kinds (k_id, k_double, k_text) VALUES (4, '-Infinity', 'é🙂'),"
    " (5, 'Infinity', '2024')",
    "INSERT INTO customer (c_id, c_fname, c_lname, c_email) VALUES (-1, '', 'É', 'e'),"
    " (0, '%', 'a', '')",
]


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    with asyncio.Runner() as runner:
        context = opened(tmp_path_factory.mktemp("sql"))
        database = runner.run(context.__aenter__())
        try:
            yield Shop(runner, database)
        finally:
            runner.run(context.__aexit__(None, None, None))


@times(depth(150, long=400))
@given(sql=ANY_SQL, parameters=st.lists(VALUE, max_size=3))
def test_any_text_is_answered_or_refused(shop, sql, parameters):
    shop.read(sql, parameters)
    shop.write(sql, parameters)


@times(depth(70, long=200))
@given(sql=writes(), values=st.lists(VALUE, min_size=20, max_size=20))
def test_writes_are_planned_or_refused(shop, sql, values):
    shop.write(sql, values[: sql.count("?")])


@times(depth(150, long=400))
@given(sql=queries())
def test_queries_answer_as_duckdb_does(shop, sql):
    sql = sql.replace("?", "3")
    shop.agree(shop.read(sql), shop.duck_rows(sql), sql)


@times(depth(100, long=300))
@given(sql=writes())
def test_writes_change_the_same_rows_as_in_duckdb(shop, sql):
    sql = sql.replace("?", "3")
    target = re.match(r"(?:INSERT (?:OR \w+ )?INTO|UPDATE|DELETE FROM|TRUNCATE) (\w+)", sql)[1]
    wanted = shop.duck_rows(f"SELECT * FROM {target}", after=sql)
    shop.agree(shop.read_after(sql, target), wanted, sql)


def test_enough_was_compared(shop):
    """Runs last: a grammar whose statements are all refused would show nothing."""
    assert shop.answered["compared"] > depth(100, long=300), shop.answered


def alike(found, wanted, *, numbers=False):
    """Compare rows as multisets. With `numbers`, a whole number may equal a DECIMAL: a sum of
    INTEGER is BIGINT, and DECIMAL in DuckDB (decision 42); the sign of a NUMERIC is NUMERIC, and
    TINYINT in DuckDB. A column with a float on one side is one of floats: what DuckDB computes as
    DOUBLE is NUMERIC here if it is a quotient or a number with an exponent (decision 65)."""
    floats = {i for row in (*found, *wanted) for i, v in enumerate(row) if isinstance(v, float)}
    return Counter(_plain(row, numbers, floats) for row in found) == Counter(
        _plain(row, numbers, floats) for row in wanted
    )


def _plain(row, numbers, floats):
    return tuple(
        _plain_value(float(value) if i in floats and isinstance(value, Decimal) else value, numbers)
        for i, value in enumerate(row)
    )


def _plain_value(value, numbers):
    """Round floats, because floating point sums depend on the order of their terms."""
    if isinstance(value, float):
        return f"{value:.9g}" if math.isfinite(value) else str(value)
    if numbers and isinstance(value, Decimal) and value == value.to_integral_value():
        return repr(int(value))
    return repr(str(value) if isinstance(value, uuid.UUID) else value)
