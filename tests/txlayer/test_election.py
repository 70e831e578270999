"""One node leads; when its session ends, another does."""

import asyncio

import pytest

from hornbeam_server.schema.errors import Unavailable
from hornbeam_server.storage.simulated.clock import SimulatedClock
from hornbeam_server.storage.simulated.coordination import (
    SESSION_S,
    SimulatedCoordination,
    SimulatedRegistry,
)
from hornbeam_server.txlayer.cluster.election import POLL_S, Candidate, Election
from tests.virtual_time import in_virtual_time


async def won(election):
    """The leaders observed until the election was won."""
    return [leader async for leader in election.standing_by()]


class Service:
    def __init__(self):
        self.registry = SimulatedRegistry(asyncio.get_running_loop().time)
        self.clock = SimulatedClock()

    async def candidate(self, name):
        session = await SimulatedCoordination.open(self.registry)
        return session, Election(session, self.clock, Candidate(name, f"http://{name}"))


@in_virtual_time
async def test_the_first_candidate_leads_and_the_others_know_it():
    service = Service()
    _, first = await service.candidate("a")
    _, second = await service.candidate("b")
    await won(first)
    async for leader in second.standing_by():
        assert leader == Candidate("a", "http://a")
        if asyncio.get_running_loop().time() > 100:
            return
    raise AssertionError("both lead")


@in_virtual_time
async def test_one_of_many_candidates_follows_a_leader_that_leaves():
    service = Service()
    leading, first = await service.candidate("a")
    await won(first)
    others = [(await service.candidate(name))[1] for name in "bcde"]
    waiting = [asyncio.ensure_future(won(other)) for other in others]
    await asyncio.sleep(10)
    assert not any(task.done() for task in waiting)
    await leading.close()
    await asyncio.sleep(10 * POLL_S)
    assert sum(task.done() for task in waiting) == 1
    for task in waiting:
        task.cancel()


@in_virtual_time
async def test_a_silent_leader_is_followed_once_its_session_has_ended():
    service = Service()
    silent, first = await service.candidate("a")
    await won(first)
    _, second = await service.candidate("b")
    assert service.registry.cut_off("a")
    before = asyncio.get_running_loop().time()
    await won(second)
    assert SESSION_S / 2 < asyncio.get_running_loop().time() - before < SESSION_S + 2 * POLL_S
    assert not silent.alive()


@in_virtual_time
async def test_a_candidate_that_lost_its_session_does_not_lead():
    service = Service()
    _, first = await service.candidate("a")
    await won(first)
    _, second = await service.candidate("b")
    waiting = asyncio.ensure_future(won(second))
    await asyncio.sleep(1)
    assert service.registry.cut_off("b")
    with pytest.raises(Unavailable, match="session"):
        await waiting


@in_virtual_time
async def test_a_candidate_that_is_a_member_already_keeps_its_data():
    service = Service()
    session, election = await service.candidate("a")
    await session.join("a", b"data")
    await won(election)
    assert await session.members() == {"a": b"data"}
