"""Those who wait for news of one member share a question, and each of them gets its answer."""

import asyncio

import pytest

from hornbeam_server.schema.errors import Unavailable
from hornbeam_server.txlayer.cluster.shared_questions import SharedQuestions
from tests.virtual_time import in_virtual_time


class Asked:
    """A member that answers when the test lets it. `open` counts the questions under way."""

    def __init__(self):
        self.questions = SharedQuestions(self.ask)
        self.asked = []
        self.open = 0
        self.news = asyncio.Event()
        self.error = None

    async def ask(self, key, after):
        self.asked.append((key, after))
        self.open += 1
        try:
            await self.news.wait()
        finally:
            self.open -= 1
        if self.error is not None:
            raise self.error

    async def waiting(self, *afters, key="b"):
        tasks = [asyncio.ensure_future(self.questions.news(key, after)) for after in afters]
        await asyncio.sleep(0.1)
        return tasks


@in_virtual_time
async def test_one_question_is_open_for_all_who_wait():
    member = Asked()
    tasks = await member.waiting(7, 7, 9, 8)
    assert member.asked == [("b", 7)]
    assert not any(task.done() for task in tasks)
    member.news.set()
    await asyncio.gather(*tasks)
    await asyncio.gather(*await member.waiting(9))
    assert member.asked == [("b", 7), ("b", 9)]


@in_virtual_time
async def test_a_waiter_with_an_earlier_snapshot_has_it_asked_again():
    member = Asked()
    tasks = await member.waiting(9) + await member.waiting(7)
    assert (member.asked, member.open) == ([("b", 9), ("b", 7)], 1)
    member.news.set()
    await asyncio.gather(*tasks)


@in_virtual_time
async def test_members_are_asked_one_by_one():
    member = Asked()
    tasks = await member.waiting(7, key="b") + await member.waiting(7, key="c")
    assert member.open == 2
    member.news.set()
    await asyncio.gather(*tasks)


@in_virtual_time
async def test_a_question_ends_with_its_last_waiter():
    member = Asked()
    first, second = await member.waiting(7, 9)
    first.cancel()
    await asyncio.wait({first})
    assert member.open == 1, "the second one waits"
    second.cancel()
    await asyncio.wait({second})
    await asyncio.sleep(0.1)
    assert member.open == 0
    member.news.set()
    await asyncio.gather(*await member.waiting(9))
    assert member.asked == [("b", 7), ("b", 9)]


@in_virtual_time
async def test_an_error_reaches_each_waiter():
    member = Asked()
    member.error = Unavailable("The member is ending.")
    tasks = await member.waiting(7, 9)
    member.news.set()
    for task in tasks:
        with pytest.raises(Unavailable):
            await task
