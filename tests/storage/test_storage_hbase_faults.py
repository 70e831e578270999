"""The HBase adapter on a real cluster: gateways die, answers are lost, regions split and reopen,
and others change tables."""

import asyncio
import time
from collections import Counter
from contextlib import asynccontextmanager
from random import Random
from uuid import uuid4

import pytest

from hornbeam_server.cluster import Role
from hornbeam_server.schema.errors import Corruption, Unavailable
from hornbeam_server.storage.hbase import gateways as gateways_module
from hornbeam_server.storage.hbase import messages, purging, tables
from hornbeam_server.storage.hbase.answers import FUNCTION
from hornbeam_server.storage.hbase.cells import FAMILY, FLUSHED, QUALIFIER, stored_key, stored_value
from hornbeam_server.storage.hbase.interface import THRIFT
from hornbeam_server.storage.hbase.messages import Client
from hornbeam_server.storage.hbase.store import HBaseStore
from hornbeam_server.storage.ports import NEWEST, TOMBSTONE, Cell, Put
from tests.storage.hbase_gateways import Proxy
from tests.storage.storage_world import collect


def k(number):
    return b"%06d" % number


@asynccontextmanager
async def opened(*gateways, timeout_s=15.0, splits=()):
    """A store with a table `t` in a namespace of its own; both are removed at the end."""
    store = HBaseStore(gateways, namespace=f"faults_{uuid4().hex}", timeout_s=timeout_s)
    try:
        await store.create_table("t", splits)
        yield store
    finally:
        for table in await store.tables():
            await store.drop_table(table)
        await define(store, lambda client: client.deleteNamespace(store._calls.namespace))
        await store.close()


async def define(store, work):
    """Do administrative work, which only operators do."""
    return await store._definitions._define("", work)


def put_at_once(store, put, ts):
    """Put from a thread, without the adapter's shared calls."""
    row, value = stored_key(put.key), stored_value(put.value)
    column = THRIFT.TColumnValue(family=FAMILY, qualifier=QUALIFIER, value=value)
    wanted = THRIFT.TPut(row=row, columnValues=[column], timestamp=ts)
    store._calls.call("t", lambda client, name: client.put(name, wanted))


def name_of(store, table="t"):
    return THRIFT.TTableName(ns=store._calls.namespace.encode(), qualifier=table.encode())


async def load(store, until, written):
    """Write and read until `until` is set; no call may fail."""
    number = len(written)
    while not until.is_set():
        puts = [Put(k(i), b"v%d" % i) for i in range(number, number + 10)]
        await store.put({"t": puts}, 5)
        written += [put.key for put in puts]
        assert (await store.get("t", [puts[3].key], 9))[0].value == puts[3].value
        number += 10


async def under_load(store, disturb):
    until, written = asyncio.Event(), []
    loading = asyncio.create_task(load(store, until, written))
    try:
        await disturb()
    finally:
        until.set()
        await loading
    assert [cell.key for cell in await collect(store.scan("t", b"", None, 9))] == written
    return written


# ---------------------------------------------------------------- gateways


async def test_under_load_one_of_two_gateways_may_die_and_come_back(real_cluster):
    with Proxy(real_cluster.thrift) as first, Proxy(real_cluster.thrift) as second:
        async with opened(first.address, second.address) as store:

            async def disturb():
                for _ in range(4):
                    for gateway in (first, second):
                        await asyncio.sleep(0.3)
                        gateway.cut()
                        await asyncio.sleep(0.3)
                        gateway.mend()

            assert len(await under_load(store, disturb)) > 200


async def test_a_dead_gateway_is_unavailable_and_serves_again_after_a_restart(real_cluster):
    async with opened(real_cluster.thrift) as store:
        await store.put({"t": [Put(b"k", b"v")]}, 1)
        real_cluster.kill("thrift")
        with pytest.raises(Unavailable, match="gateway"):
            await store.get("t", [b"k"], 1)
        await asyncio.to_thread(real_cluster.restart, "thrift")
        assert await store.get("t", [b"k"], 1) == [Cell(b"k", 1, b"v")]
        assert await store.check_and_put("t", b"k", b"v", b"w", 2)


async def test_connections_that_died_while_idle_are_not_used(real_cluster):
    """Otherwise a check-and-put over one would have an unknown outcome."""
    with Proxy(real_cluster.thrift) as gateway:
        async with opened(gateway.address) as store:
            value = None
            for number in range(5):
                await asyncio.gather(*[store.get("t", [b"k"], 1) for _ in range(8)])
                gateway.close_connections()
                await asyncio.sleep(0.05)
                assert await store.check_and_put("t", b"k", value, b"%d" % number, 1)
                value = b"%d" % number


async def test_a_lost_answer_leaves_the_outcome_unknown(real_cluster):
    with Proxy(real_cluster.thrift) as gateway:
        async with opened(gateway.address, timeout_s=1.0) as store:
            await store.get("t", [b"k"], 1)

            def mute():
                gateway.mute = True

            interfering(store, [mute])
            for call in (
                store.check_and_put("t", b"k", None, b"a", 1),
                store.put({"t": [Put(b"l", b"b")]}, 1),
            ):
                with pytest.raises(Unavailable, match="in time"):
                    await call
            gateway.mute = False
            found = await store.get("t", [b"k", b"l"], 1)
            assert found == [Cell(b"k", 1, b"a"), None]
            await store.put({"t": [Put(b"l", b"b")]}, 1)
            assert await store.get("t", [b"l"], 1) == [Cell(b"l", 1, b"b")]


async def test_closing_waits_no_longer_than_the_deadline(real_cluster):
    with Proxy(real_cluster.thrift) as gateway:
        async with opened(gateway.address) as store:
            pass
        store = HBaseStore([gateway.address], timeout_s=0.5)
        await store.tables()
        gateway.mute = True
        reading = asyncio.ensure_future(store.get("t", [b"k"], 1))
        await asyncio.sleep(0.1)
        began = time.monotonic()
        await store.close()
        assert time.monotonic() - began < 1.5
        with pytest.raises(Unavailable):
            await reading


# ---------------------------------------------------------------- regions


async def test_regions_reopen_and_split_during_scans_and_puts(real_cluster):
    """Changing a table's definition closes and opens its regions; a region larger than the
    definition allows is split."""
    async with opened(real_cluster.thrift, timeout_s=60, splits=[k(1_000)]) as store:
        keys = [k(i) for i in range(6_000)]
        rows = dict(zip(keys, distinct(6_000), strict=True))
        await store.put({"t": [Put(*row) for row in rows.items()]}, 1)

        async def disturb():
            for limit in (1 << 30, 1 << 20, 1 << 21):
                await reopen(store, limit)

        async def write():
            for ts in range(2, 8):
                await store.put({"t": list(map(Put, keys, distinct(6_000)))}, ts)

        async def read(reverse):
            for _ in range(4):
                cells = await collect(store.scan("t", b"", None, 1, reverse=reverse))
                try:
                    assert_rows(cells, rows, reverse=reverse)
                except AssertionError as error:
                    starts = [region.regionInfo.startKey for region in await locations(store)]
                    error.add_note(f"{reverse=}, regions begin at {starts}")
                    raise

        async def flush():
            for _ in range(10):
                await store.flush()
                await asyncio.sleep(0.2)

        await asyncio.gather(disturb(), write(), flush(), read(False), read(True))
        await until_split(store, 3)
        assert len(await collect(store.scan("t", b"", None, 1))) == len(keys)
        newest = await collect(store.scan("t", b"", None, NEWEST, reverse=True))
        assert [(c.key, c.ts) for c in newest] == [(key, 7) for key in keys[::-1]]
        groups = await store.scan_prefixes("t", [k(i)[:5] for i in range(0, 6_000, 10)], 1)
        assert [len(group) for group in groups] == [10] * 600


def assert_rows(cells, rows, *, reverse):
    """The message of a failure is short: it names the first and last rows that differ."""
    seen = [cell.key for cell in cells]
    missing, often = sorted(rows.keys() - seen), [k for k, n in Counter(seen).items() if n > 1]
    assert (missing[:3], missing[-3:], len(missing)) == ([], [], 0)
    assert (often[:3], often[-3:], len(often)) == ([], [], 0)
    assert seen == sorted(rows, reverse=reverse)
    assert [cell.key for cell in cells if cell.value != rows[cell.key]] == []


def distinct(count):
    """Values that HBase's encoding does not make smaller."""
    random = Random(count)
    return [random.randbytes(1_000) for _ in range(count)]


async def reopen(store, region_bytes):
    changed = tables.definition(name_of(store))
    changed.attributes = {
        b"MAX_FILESIZE": b"%d" % region_bytes,
        b"MEMSTORE_FLUSHSIZE": b"%d" % (1 << 20),
        b"hbase.table.sanity.checks": b"false",  # otherwise so small a size is refused
    }
    await define(store, lambda client: client.modifyTable(changed))


async def until_split(store, regions):
    """HBase checks whether to split a region when it has flushed or compacted one. The puts, below
    all timestamps that are read, make it flush."""
    rows = list(map(Put, map(k, range(6_000)), distinct(6_000)))
    for _ in range(40):
        found = await locations(store)
        if len(found) >= regions:
            return
        await store.put({"t": rows}, 0)
        await asyncio.sleep(0.5)
    raise AssertionError(f"{len(found)} regions")


async def locations(store):
    name = store._calls.full_name("t")
    return await define(store, lambda client: client.getAllRegionLocations(name))


async def test_versions_outlive_flushes_and_purged_ones_stay_hidden(real_cluster):
    """HBase drops no version because of its age. A late copy of a put below the horizon stays
    hidden, although compactions have removed the original."""
    async with opened(real_cluster.thrift) as store:
        await reopen(store, 1 << 30)
        now = int(time.time() * 1_000)
        old, gone, new = now - 90 * 24 * 3_600_000, now - 60_000, now
        for ts, value in ((old, b"old"), (gone, TOMBSTONE), (new, b"new")):
            await store.put({"t": [Put(b"k", value), Put(b"l", value)]}, ts)
        await flushed(store, now)
        seen = [(await store.get("t", [b"k"], at))[0] for at in (old, gone, new)]
        assert seen == [Cell(b"k", old, b"old"), None, Cell(b"k", new, b"new")]
        assert await store.purge("t", gone) == 4
        await flushed(store, now)
        await store.put({"t": [Put(b"k", b"old")]}, old)
        await store.put({"t": [Put(b"k", b"gone")]}, gone)
        assert await store.get("t", [b"k"], gone) == [None]
        assert await store.get("t", [b"k"], new) == [Cell(b"k", new, b"new")]
        assert await store.purge("t", gone) == 0


async def flushed(store, ts):
    """Put more than fits the memory that the definition allows, far behind the other keys."""
    await store.put({"t": [Put(b"z%04d" % i, v) for i, v in enumerate(distinct(3_000))]}, ts)
    await asyncio.sleep(1)


async def test_a_purge_waits_for_hbase_and_ends_with_the_store(real_cluster):
    with Proxy(real_cluster.thrift) as gateway:
        async with opened(real_cluster.thrift) as other:
            store = HBaseStore([gateway.address], namespace=other._calls.namespace, timeout_s=1.0)
            await other.put({"t": [Put(b"k", b"v")]}, 1)
            assert await store.purge("t", 1) == 0
            gateway.late_s = 1.2
            assert await store.purge("t", 5) == 0
            with pytest.raises(Unavailable, match="in time"):
                await store.get("t", [b"k"], 9)
            gateway.late_s = 0.0
            assert await store.get("t", [b"k"], 9)
            gateway.mute = True
            store._purging._rests_until.clear()
            looking = asyncio.ensure_future(store.purge("t", 9))
            await asyncio.sleep(0.3)
            assert not looking.done()
            began = time.monotonic()
            await store.close()
            assert time.monotonic() - began < 1
            with pytest.raises(Unavailable, match="closed"):
                await looking


async def test_a_table_that_takes_long_to_purge_rests(real_cluster, monkeypatch):
    async with opened(real_cluster.thrift) as store:
        monkeypatch.setattr(purging, "LONG_PURGE_S", 0.0)
        for ts in (1, 2):
            await store.put({"t": [Put(b"k", b"%d" % ts)]}, ts)
        monkeypatch.setattr(purging, "RESTS", 1e9)
        assert await store.purge("t", 1) == 0
        assert await store.purge("t", 2) == 0  # rests
        store._purging._rests_until.clear()
        monkeypatch.setattr(purging, "RESTS", 0)
        assert await store.purge("t", 2) == 1
        await store.put({"t": [Put(b"k", b"3")]}, 3)
        assert await store.purge("t", 3) == 1


# ---------------------------------------------------------------- flush


async def marks(store):
    """Rows with a cell that a flush has written, and that cell's timestamp."""
    wanted = THRIFT.TScan(columns=[THRIFT.TColumn(family=FAMILY, qualifier=FLUSHED)])
    name = store._calls.full_name("t")
    rows = await define(store, lambda client: client.getScannerResults(name, wanted, 100))
    return [(row.row, row.columnValues[0].timestamp) for row in rows]


async def test_a_flush_forces_each_servers_log_once_and_stays_invisible(real_cluster):
    with Proxy(real_cluster.thrift) as gateway:
        async with opened(gateway.address, splits=[k(i) for i in range(100, 900, 100)]) as store:
            await store.flush()
            assert await marks(store) == []
            rows = [Cell(k(i), 1, b"v") for i in range(0, 1_000, 50)]
            await store.put({"t": [Put(cell.key, cell.value) for cell in rows]}, 1)
            await store.flush()
            await store.flush()
            servers = len(real_cluster.names(Role.REGION_SERVER))
            assert [ts for _, ts in await marks(store)] == [0] * servers
            for reverse in (False, True):
                found = await collect(store.scan("t", b"", None, 9, reverse=reverse))
                assert sorted(found) == rows
            assert await store.size("t") == sum(len(c.key) + len(c.value) for c in rows)
            assert await store.purge("t", 9) == 0
            gateway.cut()
            await store.flush()  # no put since the last flush
            gateway.mend()


async def test_nothing_is_left_to_flush_after_a_forced_put(real_cluster):
    async with opened(real_cluster.thrift) as store:
        await store.put({"t": [Put(k(i), b"v") for i in range(3)]}, 1, forced=True)
        await store.flush()
        assert await marks(store) == []
        await store.put({"t": [Put(k(0), b"v")]}, 2)
        await store.flush()
        assert len(await marks(store)) == 1


async def test_a_failed_flush_is_repeated_later(real_cluster):
    with Proxy(real_cluster.thrift) as gateway:
        async with opened(gateway.address) as store:
            await store.check_and_put("t", b"k", None, b"v", 1)
            gateway.cut()
            for _ in range(2):
                with pytest.raises(Unavailable):
                    await store.flush()
            gateway.mend()
            assert await marks(store) == []
            await store.flush()
            assert len(await marks(store)) == 1


# ---------------------------------------------------------------- check and put


def interfering(store, actions):
    """Run the next of `actions` before each comparison that `store` requests."""
    swap = store._swap

    def interfered(*arguments):
        if actions:
            actions.pop(0)()
        return swap(*arguments)

    store._swap = interfered


@pytest.mark.parametrize("moment", [0, 1])
async def test_a_compared_value_that_left_and_came_back_is_hidden(real_cluster, moment):
    async with opened(real_cluster.thrift) as store:
        await store.put({"t": [Put(b"k", b"a")]}, 5)

        def away_and_back():
            put_at_once(store, Put(b"k", b"b"), 6)
            put_at_once(store, Put(b"k", b"a"), 50)

        interfering(store, [lambda: None] * moment + [away_and_back])
        assert await store.check_and_put("t", b"k", b"a", b"ours", 7)
        seen = [(await store.get("t", [b"k"], at))[0] for at in (5, 6, 7, 49, 50, 51)]
        assert [cell.value for cell in seen] == [b"a", b"b", b"b", b"b", b"a", b"ours"]


async def test_a_value_that_changed_meanwhile_is_not_overwritten(real_cluster):
    async with opened(real_cluster.thrift) as store:
        for found, change in ((b"a", Put(b"k", b"b")), (None, Put(b"l", b"b"))):
            if found is not None:
                await store.put({"t": [Put(change.key, found)]}, 5)
            interfering(store, [lambda change=change: put_at_once(store, change, 6)])
            assert not await store.check_and_put("t", change.key, found, b"ours", 7)
            assert await store.get("t", [change.key], 9) == [Cell(change.key, 6, b"b")]


async def test_a_put_that_succeeded_but_was_reported_as_refused_counts(real_cluster):
    """HBase's own client repeats a comparison whose answer it missed, and finds that it no longer
    holds."""
    async with opened(real_cluster.thrift) as store:
        swap = store._swap
        store._swap = lambda *arguments: swap(*arguments) and False
        assert await store.check_and_put("t", b"k", None, b"a", 5)
        assert await store.check_and_put("t", b"k", b"a", b"b", 5)
        assert await store.get("t", [b"k"], NEWEST) == [Cell(b"k", 6, b"b")]


# ---------------------------------------------------------------- tables


async def test_the_first_tables_of_a_namespace_can_be_created_at_the_same_time(real_cluster):
    """HBase lists a new namespace shortly before a table can be created in it."""
    for _ in range(5):
        async with opened(real_cluster.thrift) as store:
            before = store._calls.namespace
            store._calls.namespace = f"faults_{uuid4().hex}"
            names = [f"t{number}" for number in range(6)]
            await asyncio.gather(*[store.create_table(name) for name in names])
            assert await store.tables() == names
            for name in names:
                await store.drop_table(name)
            await define(store, lambda client: client.deleteNamespace(store._calls.namespace))
            store._calls.namespace = before


async def test_a_table_with_other_settings_is_refused_with_the_difference(real_cluster):
    async with opened(real_cluster.thrift) as store:
        other = tables.definition(name_of(store, "other"))
        other.columns[0].maxVersions = 3
        other.columns[0].timeToLive = 3_600
        await define(store, lambda client: client.createTable(other, None))
        for call in (store.create_table("other"), store.get("other", [b"k"], 1)):
            with pytest.raises(Corruption, match=r"maxVersions is 3.*timeToLive is 3600"):
                await call


async def test_a_table_that_others_drop_or_disable_is_reported(real_cluster):
    async with opened(real_cluster.thrift) as store, opened(real_cluster.thrift) as other:
        other._calls.namespace, own = store._calls.namespace, other._calls.namespace
        await store.put({"t": [Put(b"k", b"v")]}, 1)
        await define(store, lambda client: client.disableTable(name_of(store)))
        with pytest.raises(Unavailable, match="disabled"):
            await store.create_table("t")
        with pytest.raises(Unavailable, match="Table t is out of reach"):
            await store.put({"t": [Put(b"k", b"v")]}, 1)
        await other.drop_table("t")
        for call in (
            store.get("t", [b"k"], 1),
            store.put({"t": [Put(b"k", b"v"), Put(b"l", b"v")]}, 1),
            store.scan_prefixes("t", [b"k"], 1),
            store.check_and_put("t", b"k", None, b"v", 1),
            store.purge("t", 1),
            store.size("t"),
        ):
            with pytest.raises(Corruption, match="Table t does not exist"):
                await call
        other._calls.namespace = own


async def test_unusual_table_names_row_keys_and_values_are_stored(real_cluster):
    async with opened(real_cluster.thrift) as store:
        await store.create_table("Größe, %", splits=[b"", b"\xff"])
        assert await store.tables() == ["Größe, %", "t"]
        values = [b"\xff", b"\xff" + bytes(30), b"\0", b"v"]
        for ts, value in enumerate(values, 1):
            await store.put({"Größe, %": [Put(b"", value)]}, ts)
            assert await store.get("Größe, %", [b""], ts) == [Cell(b"", ts, value)]
        assert await store.check_and_put("Größe, %", b"", b"v", values[1], 9)
        assert await store.get("Größe, %", [b""], 9) == [Cell(b"", 9, values[1])]


async def test_a_request_that_hbase_refuses_fails_for_its_own_caller_alone(real_cluster):
    """Concurrent callers share a call; a key of 40 kB, or a row of 11 MB, makes HBase refuse it."""
    async with opened(real_cluster.thrift) as store:
        neighbours = [{"t": [Put(k(i), b"v%d" % i)]} for i in range(4)]
        too_large = {"t": [Put(b"large", bytes(11 << 20))]}
        puts = [store.put(writes, 5) for writes in (*neighbours, too_large)]
        *put, refused = await asyncio.gather(*puts, return_exceptions=True)
        assert put == [None] * 4
        assert isinstance(refused, Unavailable)

        gets = [store.get("t", [key], 5) for key in (*map(k, range(4)), b"k" * 40_000)]
        *found, refused = await asyncio.gather(*gets, return_exceptions=True)
        assert found == [[Cell(k(i), 5, b"v%d" % i)] for i in range(4)]
        assert isinstance(refused, Unavailable)


async def test_answers_of_any_length(real_cluster):
    """The event loop reads a short answer, a thread the rest of a long one."""
    async with opened(real_cluster.thrift) as store:
        values = [bytes([65 + i]) * (3 << (2 * i)) for i in range(11)]
        await store.put({"t": [Put(k(i), value) for i, value in enumerate(values)]}, 5)
        for _ in range(2):
            found = await asyncio.gather(*(store.get("t", [k(i)], 5 + i) for i in range(11)))
            assert [cells[0].value for cells in found] == values
            found = await store.get("t", [k(i) for i in range(11)], 5)
            assert [cell.value for cell in found] == values


async def test_scan_answers_of_hbase_are_decoded_without_thriftpy2(real_cluster, monkeypatch):
    def refuse(client, name):
        assert name != FUNCTION
        return receive(client, name)

    receive = Client._recv
    monkeypatch.setattr(Client, "_recv", refuse)
    async with opened(real_cluster.thrift, splits=[k(300)]) as store:
        assert await collect(store.scan("t", b"", None, 9)) == []
        rows = [Put(k(i), b"x" * i) for i in range(1, 600)]
        await store.put({"t": rows}, 5)
        expected = [Cell(key, 5, value) for key, value in rows]
        assert await collect(store.scan("t", b"", None, 9)) == expected
        assert await collect(store.scan("t", b"", None, 9, reverse=True)) == expected[::-1]
        assert await store.scan_prefixes("t", [k(7), k(700)], 9) == [expected[6:7], []]


@pytest.mark.parametrize("longest", [225_000, 325_000])
async def test_too_long_answers_are_requested_in_parts(real_cluster, monkeypatch, longest):
    """A row has 100 000 bytes: two or three of them fill an answer."""
    monkeypatch.setattr(messages, "LONGEST_ANSWER", longest)
    monkeypatch.setattr(gateways_module, "LONGEST_ANSWER", longest)
    cells = [Cell(k(i), 5, b"%d" % (i % 7) * 100_000) for i in range(30)]
    keys = [cell.key for cell in cells]
    prefixes = [k(i)[:-1] for i in (20, 0, 10)]
    async with opened(real_cluster.thrift) as store:
        for cell in cells:
            await store.put({"t": [Put(cell.key, cell.value)]}, 5)
        for reverse in (False, True):
            found = await collect(store.scan("t", b"", None, 9, reverse=reverse))
            assert found == (cells[::-1] if reverse else cells)
        assert await store.get("t", keys, 9) == cells
        store._reads._row_bytes.clear()
        asked = [store.get("t", keys[i:], 9, room=250_000) for i in range(0, 25, 5)]
        for i, found in zip(range(0, 25, 5), await asyncio.gather(*asked), strict=True):
            assert 0 < len(found) <= 3
            assert found == cells[i : i + len(found)]
        assert await store.scan_prefixes("t", prefixes, 9) == [
            cells[i : i + 10] for i in (20, 0, 10)
        ]
        assert await store.scan_prefixes("t", prefixes, 9, room=1_250_000) == [cells[20:]]
        assert await store.scan_prefixes("t", prefixes, 9, room=750_000) == []
        await store.purge("t", 9)
