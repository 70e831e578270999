"""Crashes of the simulated store, and the shared time of simulated clocks."""

from hornbeam_server.storage.ports import NEWEST, TOMBSTONE, Cell, Put
from hornbeam_server.storage.simulated.clock import SimulatedClock
from hornbeam_server.storage.simulated.store import SimulatedStore
from tests.virtual_time import in_virtual_time


async def written():
    """A store with a flushed and an unflushed version of two rows."""
    store = SimulatedStore()
    await store.create_table("t")
    await store.put({"t": [Put(b"a", b"1"), Put(b"b", b"1")]}, 1)
    await store.flush()
    await store.put({"t": [Put(b"a", b"2"), Put(b"b", TOMBSTONE)]}, 2)
    return store


async def rows(store):
    return [cell async for batch in store.scan("t", b"", None, NEWEST) for cell in batch]


async def test_a_crash_of_the_process_keeps_every_put():
    store = await written()
    found = store.crashed()
    await store.put({"t": [Put(b"c", b"3")]}, 3)
    assert await rows(found) == [Cell(b"a", 2, b"2")]
    # A version that was not flushed before the process crashed is not flushed after it.
    assert await rows(found.crashed(lambda: False)) == [
        Cell(b"a", 1, b"1"),
        Cell(b"b", 1, b"1"),
    ]


async def test_a_crash_of_the_machine_keeps_flushed_versions_and_some_of_the_rest():
    store = await written()
    flushed = [Cell(b"a", 1, b"1"), Cell(b"b", 1, b"1")]
    assert await rows(store.crashed(lambda: False)) == flushed
    assert await rows(store.crashed(lambda: True)) == [Cell(b"a", 2, b"2")]
    kept = iter([True, False])
    assert await rows(store.crashed(lambda: next(kept))) == [Cell(b"a", 2, b"2"), flushed[1]]


async def test_a_crash_of_the_machine_keeps_forced_versions():
    store = await written()
    await store.put({"t": [Put(b"c", b"3")]}, 3, forced=True)
    flushed = [Cell(b"a", 1, b"1"), Cell(b"b", 1, b"1")]
    assert await rows(store.crashed(lambda: False)) == [*flushed, Cell(b"c", 3, b"3")]


@in_virtual_time
async def test_clocks_of_one_cluster_share_their_time_and_not_their_errors():
    ahead, behind = SimulatedClock(skew_ms=300), SimulatedClock(skew_ms=-200)
    await ahead.sleep(5)
    assert ahead.wall_ms() - behind.wall_ms() == 500
    assert ahead.monotonic() == behind.monotonic() == 5.0
