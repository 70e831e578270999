"""Sends requests for a database to one of its nodes that serves."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Protocol, TypeVar

from hornbeam.exchange import Answer, AsyncAnswer, AsyncCarrier, Carrier, Lost, NotSent, Request
from hornbeam.waiting import finished

BEHIND = "hornbeam-behind-s"
_UNAVAILABLE = 503


class _Answered(Protocol):
    status: int
    headers: Mapping[str, str]


N = TypeVar("N")
A = TypeVar("A", bound=_Answered)


async def by_serving_node(
    nodes: deque[N],
    send: Callable[[N], Awaitable[A]],
    read: Callable[[A], Awaitable[bytes]],
) -> A:
    """The answer of a node that serves. `send` sends the request to a node.

    A node that cannot be reached, or that answers as a standby, has not executed the request. So
    the request goes to the next node, to each node once. If no node serves, the result is the
    answer of a standby, if there is one: a standby will soon take over. If an answer is lost, the
    outcome of the request is unknown, and later requests start at the next node. Later requests
    also start at the next node after an answer of a node that is disconnected from the rest
    (`BEHIND`).
    """
    refusal: A | None = None
    unreached: NotSent | None = None
    for _ in range(len(nodes)):
        try:
            answer = await send(nodes[0])
        except NotSent as error:
            unreached = unreached or error
        except Lost:
            nodes.rotate(-1)
            raise
        else:
            if answer.status != _UNAVAILABLE or not _stands_by(await read(answer)):
                if BEHIND in answer.headers:
                    nodes.rotate(-1)
                return answer
            refusal = answer
        nodes.rotate(-1)
    if refusal is not None:
        return refusal
    assert unreached is not None
    raise unreached


def _stands_by(body: bytes) -> bool:
    try:
        return bool(json.loads(body).get("standby"))
    except (ValueError, AttributeError):  # a proxy has answered
        return False


class Nodes:
    """A carrier over the carriers of several nodes (`by_serving_node`)."""

    def __init__(self, nodes: Iterable[Carrier]) -> None:
        self._nodes = deque(nodes)

    def send(self, request: Request) -> Answer:
        async def send(node: Carrier) -> Answer:
            return node.send(request)

        async def read(answer: Answer) -> bytes:
            return answer.read()

        return finished(by_serving_node(self._nodes, send, read))

    def close(self) -> None:
        for node in self._nodes:
            node.close()


class AsyncNodes:
    """The twin of `Nodes` in an event loop."""

    def __init__(self, nodes: Iterable[AsyncCarrier]) -> None:
        self._nodes = deque(nodes)

    async def send(self, request: Request) -> AsyncAnswer:
        return await by_serving_node(
            self._nodes, lambda node: node.send(request), lambda answer: answer.read()
        )

    async def close(self) -> None:
        for node in self._nodes:
            await node.close()
