"""The HBase adapter over Thrift 1 gateways: calls as bytes, and faults on a real cluster."""

import asyncio
from contextlib import asynccontextmanager
from uuid import uuid4

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hornbeam_server.schema.errors import Corruption, InvalidRequest, Unavailable
from hornbeam_server.storage.hbase import messages as shared_messages
from hornbeam_server.storage.hbase.store import HBaseStore
from hornbeam_server.storage.hbase.thrift1 import purging
from hornbeam_server.storage.hbase.thrift1.interface import THRIFT
from hornbeam_server.storage.hbase.thrift1.kind import THRIFT_1
from hornbeam_server.storage.hbase.thrift1.messages import (
    COLUMN,
    PUTS,
    Client,
    call_of,
    call_of_puts,
)
from hornbeam_server.storage.hbase.thrift1.promises import VOUCHED
from hornbeam_server.storage.hbase.thrift1.store import HBaseThrift1Store
from hornbeam_server.storage.hbase.thrift1.tables import difference, families
from hornbeam_server.storage.ports import NEWEST, TOMBSTONE, Cell, Put
from hornbeam_server.storage.source import Source, open_source
from tests.storage.hbase_gateways import Proxy, make_namespace, page_port
from tests.storage.storage_world import collect

ROWS = st.lists(st.tuples(st.binary(min_size=1), st.binary(), st.integers(0, NEWEST)))


def k(number):
    return b"%06d" % number


# ---------------------------------------------------------------- without HBase


@given(ROWS, st.integers(0, NEWEST))
def test_a_call_to_put_rows_equals_that_of_thriftpy2(rows, ts):
    batches = [
        THRIFT.BatchMutation(row=row, mutations=[THRIFT.Mutation(column=COLUMN, value=value)])
        for row, value, _ in rows
    ]
    expected = call_of(PUTS, tableName=b"n:t", rowBatches=batches, timestamp=ts, attributes={})
    assert call_of_puts(b"n:t", [(row, value) for row, value, _ in rows], ts) == expected


def test_puts_at_one_timestamp_are_one_call():
    versions = [(b"a", b"1", 5), (b"b", b"2", 6), (b"c", b"3", 5)]
    assert THRIFT_1.calls_of_puts(b"n:t", versions, forced=False) == [
        call_of_puts(b"n:t", [(b"a", b"1"), (b"c", b"3")], 5),
        call_of_puts(b"n:t", [(b"b", b"2")], 6),
    ]


def test_differences_of_a_tables_families_are_reported():
    (family,) = families()
    assert difference({b"d:": family}) == ""
    family.maxVersions, family.timeToLive = 3, 3_600
    found = difference({b"d:": family})
    assert "maxVersions is 3, not 2147483647" in found
    assert "timeToLive is 3600" in found
    assert difference({b"cf:": family, b"x:": family}) == "its families are cf:, x:, not d:"
    assert difference({}) == "its families are none, not d:"


@pytest.mark.parametrize(
    ("more", "store"),
    [({}, HBaseStore), ({"thrift": 1, "region_server_page_port": 16_030}, HBaseThrift1Store)],
)
async def test_a_reader_of_an_export_opens_the_store_of_its_gateways(more, store):
    """An export of an older version names no Thrift."""
    document = {"type": "hbase", "gateways": ["gate1:9090"], "namespace": "shop"} | more
    source = msgspec.convert(document, Source)
    assert msgspec.convert(msgspec.to_builtins(source), Source) == source
    opened = open_source(source)
    assert type(opened) is store
    assert opened._calls.full_name("t") == b"shop:t"
    await opened.close()


# ---------------------------------------------------------------- on a real cluster


@asynccontextmanager
async def opened(cluster, *gateways, timeout_s=15.0, page=None, namespace=None):
    """A store with a table `t`, by default in a namespace of its own."""
    namespace = namespace or f"thrift1_{uuid4().hex}"
    make_namespace(cluster, namespace)
    store = HBaseThrift1Store(
        gateways or [cluster.thrift1],
        namespace=namespace,
        page_port=page_port(cluster) if page is None else page,
        timeout_s=timeout_s,
    )
    try:
        await store.create_table("t")
        yield store
    finally:
        await store.close()


async def test_a_scan_outlives_gateways_that_die_during_it(real_cluster):
    """Each batch is read by a scanner of its own, so no gateway keeps what a scan needs."""
    with Proxy(real_cluster.thrift1) as first, Proxy(real_cluster.thrift1) as second:
        async with opened(real_cluster, first.address, second.address) as store:
            keys = [k(i) for i in range(8_000)]
            await store.put({"t": [Put(key, key) for key in keys]}, 5)
            for reverse in (False, True):
                seen, dying = [], [first, second, first]
                async for batch in store.scan("t", b"", None, 9, reverse=reverse):
                    seen += [cell.key for cell in batch]
                    if dying:
                        gateway = dying.pop()
                        gateway.cut()
                        gateway.mend()
                assert seen == (keys[::-1] if reverse else keys)
                assert not dying


async def test_a_scanner_that_its_gateway_has_forgotten_is_opened_again(real_cluster, monkeypatch):
    """Gateways forget scanners that are idle for long, for example while the machine is frozen."""
    lost = []

    def together(client, function, calls):
        found = every(client, function, calls)
        if function == "scannerOpenWithScan" and len(lost) < 2:
            lost.append(found)
            return [1 << 30 for _ in found]
        return found

    every = Client.together
    async with opened(real_cluster) as store:
        await store.put({"t": [Put(k(i), b"v") for i in range(3)]}, 5)
        monkeypatch.setattr(Client, "together", together)
        cells = await collect(store.scan("t", b"", None, 9))
        assert cells == [Cell(k(i), 5, b"v") for i in range(3)]
        assert len(lost) == 2


async def test_a_gateway_of_thrift_2_is_refused(real_cluster):
    store = HBaseThrift1Store([real_cluster.thrift], page_port=VOUCHED, timeout_s=2.0)
    with pytest.raises(Unavailable, match="serves Thrift 2, not Thrift 1") as refused:
        await store.get("t", [b"k"], 1)
    assert "bin/hbase thrift start" in refused.value.cure
    await store.close()


async def test_a_missing_namespace_is_reported_with_the_command_that_makes_it(real_cluster):
    store = HBaseThrift1Store([real_cluster.thrift1], namespace="absent", page_port=VOUCHED)
    assert await store.tables() == []
    with pytest.raises(InvalidRequest, match="no namespace absent") as reported:
        await store.create_table("t")
    assert "create_namespace 'absent'" in reported.value.cure
    await store.close()


async def test_a_table_with_other_settings_is_refused_with_the_difference(real_cluster):
    async with opened(real_cluster) as store:
        few = THRIFT.ColumnDescriptor(name=b"d:", maxVersions=3)
        await store._definitions._define(
            "", lambda client: client.createTable(store._calls.name("other"), [few])
        )
        for call in (store.create_table("other"), store.get("other", [b"k"], 1)):
            with pytest.raises(Corruption, match="maxVersions is 3, not"):
                await call


async def test_too_long_answers_are_requested_in_parts(real_cluster, monkeypatch):
    """A row has 100 000 bytes: two of them fill an answer."""
    monkeypatch.setattr(shared_messages, "LONGEST_ANSWER", 300_000)
    monkeypatch.setattr("hornbeam_server.storage.hbase.gateways.LONGEST_ANSWER", 300_000)
    cells = [Cell(k(i), 5, b"%d" % (i % 7) * 100_000) for i in range(12)]
    async with opened(real_cluster) as store:
        for cell in cells:
            await store.put({"t": [Put(cell.key, cell.value)]}, 5)
        assert await store.get("t", [cell.key for cell in cells], 9) == cells
        for reverse in (False, True):
            found = await collect(store.scan("t", b"", None, 9, reverse=reverse))
            assert found == (cells[::-1] if reverse else cells)
        assert await store.scan_prefixes("t", [b"00001", b"00000"], 9) == [cells[10:], cells[:10]]


async def test_a_purge_goes_on_from_that_of_another_process(real_cluster, monkeypatch):
    """It asks only for the versions of rows that have changed since."""
    asked = []

    def versions(calls, table, rows, at):
        asked.append(list(rows))
        return every(calls, table, rows, at)

    every = purging.versions
    monkeypatch.setattr(purging, "versions", versions)
    async with opened(real_cluster) as store:
        for ts in (1, 2):
            await store.put({"t": [Put(k(i), b"%d" % ts) for i in range(5)]}, ts)
        assert await store.purge("t", 2) == 5
        await store.put({"t": [Put(k(3), TOMBSTONE)]}, 3)
        assert asked.pop() == [k(i) for i in range(5)]
        async with opened(real_cluster, namespace=store._calls.namespace) as other:
            assert await other.purge("t", 3) == 2
        assert asked.pop() == [k(3)]
        assert await store.size("t") == 4 * len(k(0) + b"2")


async def test_a_purge_settles_the_claims_of_rows_that_it_drops(real_cluster):
    """Otherwise the next check-and-put would bring the last claim's value back."""
    async with opened(real_cluster) as store:
        assert await store.check_and_put("t", b"k", None, b"a", 5)
        assert await store.check_and_put("t", b"k", b"a", b"b", 6)
        await store.put({"t": [Put(b"k", TOMBSTONE)]}, 7)
        assert await store.purge("t", 8) == 3
        assert await store.check_and_put("t", b"k", None, b"c", 9)
        found = [(await store.get("t", [b"k"], at))[0] for at in (8, 9)]
        assert found == [None, Cell(b"k", 9, b"c")]


async def test_purged_versions_stay_hidden_from_late_copies_of_puts(real_cluster):
    async with opened(real_cluster) as store:
        for ts, value in ((5, b"a"), (6, TOMBSTONE)):
            await store.put({"t": [Put(b"k", value)]}, ts)
        assert await store.purge("t", 7) == 2
        await store.put({"t": [Put(b"k", b"a")]}, 5)
        assert await store.get("t", [b"k"], 9) == [None]


async def test_a_claim_is_finished_by_another_process_after_a_crash(real_cluster):
    async with opened(real_cluster) as store:

        def crash(*arguments):
            raise KeyError

        store._claims._put = crash
        with pytest.raises(KeyError):
            await store.check_and_put("t", b"k", None, b"a", 5)
        async with opened(real_cluster, namespace=store._calls.namespace) as other:
            assert not await other.check_and_put("t", b"k", None, b"b", 5)
            assert await other.get("t", [b"k"], 9) == [Cell(b"k", 5, b"a")]


async def test_processes_that_race_for_rows_take_each_row_once(real_cluster):
    async with opened(real_cluster) as store:
        namespace = store._calls.namespace
        async with opened(real_cluster, namespace=namespace) as other:
            tries = [
                one.check_and_put("t", k(i), None, name, 5)
                for i in range(20)
                for one, name in ((store, b"first"), (other, b"second"))
            ]
            taken = await asyncio.gather(*tries)
        pairs = list(zip(taken[::2], taken[1::2], strict=True))
        assert all(first != second for first, second in pairs)
        found = await store.get("t", [k(i) for i in range(20)], 5)
        assert [cell.value == b"first" for cell in found] == [first for first, _ in pairs]


async def test_a_table_of_thrift_2_is_read_and_written_through_thrift_1(real_cluster):
    namespace = f"thrift1_{uuid4().hex}"
    former = HBaseStore([real_cluster.thrift], namespace=namespace)
    await former.create_table("t", [b"m"])
    await former.put({"t": [Put(b"k", b"a"), Put(b"n", b"")]}, 5)
    assert await former.check_and_put("t", b"k", b"a", b"b", 5)
    async with opened(real_cluster, namespace=namespace) as store:
        assert await store.get("t", [b"k", b"n"], 9) == [Cell(b"k", 6, b"b"), None]
        assert await store.splits("t") == [b"m"]
        assert await store.check_and_put("t", b"k", b"b", b"c", 5)
        assert await former.get("t", [b"k"], 9) == [Cell(b"k", 7, b"c")]
    await former.close()
