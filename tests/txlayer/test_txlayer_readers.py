"""The catalog versions and snapshots that the queries of a node read."""

import asyncio

import pytest

from hornbeam_server.txlayer.commit.read_holds import Readers
from tests.txlayer.txlayer_world import settle


async def test_the_oldest_version_is_that_of_the_oldest_query_or_else_the_newest():
    readers = Readers()
    assert readers.oldest_version(9) == 9
    async with readers.reading(7):
        async with readers.reading(5), readers.reading(5):
            assert readers.oldest_version(9) == 5
        assert readers.oldest_version(9) == 7
    assert readers.oldest_version(9) == 9


def test_the_oldest_snapshot_is_held_until_its_last_reader_ends():
    readers = Readers()
    assert readers.oldest_snapshot() == 0
    with readers.holding(50):
        with readers.holding(30):
            with readers.holding(30):
                assert readers.oldest_snapshot() == 30
            assert readers.oldest_snapshot() == 30
        assert readers.oldest_snapshot() == 50
    assert readers.oldest_snapshot() == 0


async def test_a_failed_query_holds_nothing():
    readers = Readers()
    with pytest.raises(ZeroDivisionError), readers.holding(30):
        raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError):
        async with readers.reading(3):
            raise ZeroDivisionError
    assert (readers.oldest_snapshot(), readers.oldest_version(9)) == (0, 9)


async def test_the_wait_ends_with_the_last_query_of_an_older_version():
    readers = Readers()
    ends = {version: asyncio.Event() for version in (4, 5, 6)}

    async def query(version):
        async with readers.reading(version):
            await ends[version].wait()

    queries = [asyncio.ensure_future(query(version)) for version in ends]
    await settle()
    past = asyncio.ensure_future(readers.wait_until_past(6))
    for version in (4, 5):
        await settle()
        assert not past.done()
        ends[version].set()
    await past
    await readers.wait_until_past(6)
    ends[6].set()
    await asyncio.gather(*queries)
