"""The guarantees of every coordination service (`storage.ports.Coordination`)."""

import asyncio

import pytest

from hornbeam_server.schema.errors import StalePlan
from hornbeam_server.storage.ports import Versioned
from tests.contract.contract_adapters import COORDINATIONS, opened, over

every = over(COORDINATIONS)


@every
async def test_a_write_needs_the_version_it_replaces(adapter, tmp_path):
    async with opened(adapter, tmp_path) as service:
        assert await service.read("/x") is None
        assert await service.write("/x", b"a", 0) == 1
        for wrong in (0, 2):
            with pytest.raises(StalePlan, match="/x is at version 1"):
                await service.write("/x", b"b", wrong)
        assert await service.write("/x", b"\x00\xff", 1) == 2
        assert await service.read("/x") == Versioned(b"\x00\xff", 2)
        with pytest.raises(StalePlan):
            await service.write("/y", b"b", 1)
        assert await service.read("/y") is None


@every
async def test_members_come_and_go(adapter, tmp_path):
    async with opened(adapter, tmp_path) as service:
        assert await service.members() == {}
        for member in ("b", "a", "b"):
            await service.join(member)
        assert list((await service.members()).items()) == [("a", b""), ("b", b"")]
        await service.leave("a")
        await service.leave("a")
        assert await service.members() == {"b": b""}


@every
async def test_a_member_shows_the_data_of_its_last_join(adapter, tmp_path):
    async with opened(adapter, tmp_path) as service:
        await service.join("a", b"first")
        await service.join("b", b"\x00\xff")
        assert await service.members() == {"a": b"first", "b": b"\x00\xff"}
        await service.join("a", b"second")
        assert await service.members() == {"a": b"second", "b": b"\x00\xff"}
        await service.join("b")
        assert await service.members() == {"a": b"second", "b": b""}
        await service.leave("a")
        await service.join("a", b"third")
        assert await service.members() == {"a": b"third", "b": b""}


@every
async def test_the_result_of_members_belongs_to_the_caller(adapter, tmp_path):
    async with opened(adapter, tmp_path) as service:
        await service.join("a")
        (await service.members()).clear()
        assert await service.members() == {"a": b""}


@every
async def test_there_is_news_once_anything_that_was_read_has_changed(adapter, tmp_path):
    async with opened(adapter, tmp_path) as service:
        await service.write("/x", b"a", 0)
        for read, change in (
            (service.read("/x"), service.write("/x", b"b", 1)),
            (service.members(), service.join("a")),
            (service.members(), service.join("a", b"data")),
            (service.members(), service.leave("a")),
        ):
            await read
            before = service.news
            await change
            async with asyncio.timeout(10):
                while service.news == before:  # noqa: ASYNC110 (no event announces it)
                    await asyncio.sleep(0.01)


@over(COORDINATIONS, reopen=True)
async def test_values_outlive_the_process_and_members_do_not(adapter, tmp_path):
    async with opened(adapter, tmp_path) as service:
        await service.write("/x", b"a", 0)
        await service.join("a", b"data")
    async with opened(adapter, tmp_path) as service:
        assert await service.read("/x") == Versioned(b"a", 1)
        assert await service.members() == {}
        assert await service.write("/x", b"b", 1) == 2


@every
async def test_a_closed_session_is_not_alive(adapter, tmp_path):
    async with opened(adapter, tmp_path) as service:
        assert service.alive()
        await service.close()
        assert not service.alive()
