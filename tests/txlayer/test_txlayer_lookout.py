"""When a node asks the coordination service (txlayer/cluster/change_poller.py)."""

import asyncio
from types import SimpleNamespace

import pytest

from hornbeam_server.schema.errors import Unavailable
from hornbeam_server.txlayer.cluster.change_poller import LOOK_S, Lookout


class Service:
    """A coordination service that has `news` and gives `answer` to each query."""

    def __init__(self):
        self.news, self.now, self.asked = 0, 0.0, 0
        self.answer = True
        self.lookout = Lookout(self, SimpleNamespace(monotonic=lambda: self.now))

    async def ask(self):
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def looks(self):
        """Whether a look asks the service."""
        before = self.asked
        asyncio.run(self.lookout.look(self.ask))
        return self.asked > before


def test_a_look_asks_at_first_on_news_and_at_intervals():
    service = Service()
    assert service.looks()
    assert not service.looks()
    service.news = 7
    assert service.looks()
    assert not service.looks()
    service.now += LOOK_S
    assert service.looks()
    service.now += LOOK_S / 2
    assert not service.looks()


def test_a_failed_or_false_answer_is_asked_for_again():
    service = Service()
    service.answer = Unavailable("No answer.")
    for _ in range(2):
        with pytest.raises(Unavailable):
            service.looks()
    service.answer = False
    assert service.looks()
    assert service.looks()
    service.answer = True
    assert service.looks()
    assert not service.looks()
    service.news, service.answer = 1, Unavailable("No answer.")
    with pytest.raises(Unavailable):
        service.looks()
    service.news, service.answer = 0, True
    assert service.looks(), "the answer of before is that of before"


def test_news_that_arrive_during_a_query_are_asked_for():
    service = Service()

    async def ask():
        service.news += 1
        return True

    asyncio.run(service.lookout.look(ask))
    assert service.looks()
