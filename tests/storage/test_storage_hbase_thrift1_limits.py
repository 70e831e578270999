"""What HBase's Thrift 1 server lacks for a table store, on a real cluster: the reasons for what the
adapter does instead (decision 131). If a test fails with a newer HBase, Thrift 1 has learnt
something, and the adapter may become simpler."""

import time
from contextlib import asynccontextmanager, closing
from uuid import uuid4

import happybase
import pytest
from Hbase_thrift import BatchMutation, ColumnDescriptor, Hbase, IOError, Mutation, TScan

from hornbeam_server.schema.errors import Corruption
from hornbeam_server.storage.hbase.store import HBaseStore
from hornbeam_server.storage.ports import NEWEST, Cell, Put

LATE = 1 << 43
"""A timestamp in the year 2248."""
COLUMN, LIMITLESS = b"d:r", (1 << 31) - 1


@pytest.fixture
def thrift1(real_cluster):
    with closing(happybase.Connection(*real_cluster.thrift1, timeout=60_000)) as connection:
        yield connection.client


def fields(struct):
    return {name for _, name, *_ in struct.thrift_spec.values()}


def test_a_mutation_can_demand_the_log_but_not_that_it_is_forced_to_disk():
    assert fields(Mutation) == {"isDelete", "column", "value", "writeToWAL"}


def test_a_scan_has_an_end_in_time_but_no_begin_and_no_number_of_versions():
    assert {"timestamp"} == {name for name in fields(TScan) if "ime" in name or "ersion" in name}


def test_nothing_makes_a_namespace(thrift1):
    assert [name for name in Hbase.thrift_services if "amespace" in name] == []
    with pytest.raises(IOError, match="NamespaceNotFoundException"):
        thrift1.createTable(b"absent:t", [ColumnDescriptor(name=b"d:")])


async def test_what_it_puts_and_reads_at_timestamps_is_right(real_cluster, thrift1):
    """This part of the port it has."""
    async with with_table(real_cluster) as (store, table):
        for ts, value in ((1, b"one"), (3, b"three")):
            change = BatchMutation(b"k", [Mutation(column=COLUMN, value=value)])
            thrift1.mutateRowsTs(table, [change], ts, {})
        (row,) = thrift1.getRowsWithColumnsTs(table, [b"absent", b"k"], [COLUMN], 2 + 1, {})
        assert (row.columns[COLUMN].value, row.columns[COLUMN].timestamp) == (b"one", 1)
        assert await store.get("t", [b"k"], NEWEST) == [Cell(b"k", 3, b"three")]


async def test_the_version_of_a_check_and_put_is_chosen_by_the_region_server(real_cluster, thrift1):
    """It is the server's time, or that of the compared version if this one is later."""
    async with with_table(real_cluster) as (store, table):
        await store.put({"t": [Put(b"k", b"old"), Put(b"late", b"old")]}, 5)
        await store.put({"t": [Put(b"late", b"old")]}, LATE)
        for row in (b"k", b"late"):
            written = Mutation(column=COLUMN, value=b"new")
            assert thrift1.checkAndPut(table, row, COLUMN, b"old", written, {})
        now, late = await store.get("t", [b"k", b"late"], NEWEST)
        assert (now.value, late) == (b"new", Cell(b"late", LATE, b"new"))
        assert abs(now.ts - time.time() * 1000) < 60_000


async def test_its_tables_lose_delete_markers_and_it_does_not_show_that(real_cluster, thrift1):
    async with with_table(real_cluster) as (store, table):
        other = table.replace(b":t", b":other")
        limitless = ColumnDescriptor(
            name=b"d:", maxVersions=LIMITLESS, bloomFilterType="ROW", blockCacheEnabled=True
        )
        thrift1.createTable(other, [limitless])
        with pytest.raises(Corruption, match=r"time\.to\.purge\.deletes is not set"):
            await store.create_table("other")
        assert thrift1.getColumnDescriptors(other) == thrift1.getColumnDescriptors(table)


@asynccontextmanager
async def with_table(cluster):
    """Yields a store with a table `t`, and the table's full name."""
    namespace = f"thrift1_{uuid4().hex}"
    store = HBaseStore([cluster.thrift], namespace=namespace)
    try:
        await store.create_table("t")
        yield store, f"{namespace}:t".encode()
    finally:
        await store.close()
