"""Sends requests for a database to one of its nodes that serves."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from hornbeam.exchange import Answer, Carrier, Lost, NotSent, Request

BEHIND = "hornbeam-behind-s"
_UNAVAILABLE = 503


class Nodes:
    """A carrier over the carriers of several nodes.

    A node that cannot be reached, or that answers as a standby, has not executed the request. So
    the request goes to the next node, to each node once. If no node serves, the result is the
    answer of a standby, if there is one: a standby will soon take over. If an answer is lost, the
    outcome of the request is unknown, and later requests start at the next node. Later requests
    also start at the next node after an answer of a node that is disconnected from the rest
    (`BEHIND`).
    """

    def __init__(self, nodes: Iterable[Carrier]) -> None:
        self._nodes = deque(nodes)

    def send(self, request: Request) -> Answer:
        refusal: Answer | NotSent | None = None
        for _ in range(len(self._nodes)):
            try:
                answer = self._nodes[0].send(request)
            except NotSent as error:
                refusal = refusal or error
            except Lost:
                self._nodes.rotate(-1)
                raise
            else:
                if not _stands_by(answer):
                    if BEHIND in answer.headers:
                        self._nodes.rotate(-1)
                    return answer
                refusal = answer
            self._nodes.rotate(-1)
        if isinstance(refusal, Answer):
            return refusal
        assert refusal is not None
        raise refusal

    def close(self) -> None:
        for node in self._nodes:
            node.close()


def _stands_by(answer: Answer) -> bool:
    if answer.status != _UNAVAILABLE:
        return False
    try:
        return bool(answer.json().get("standby"))
    except (ValueError, AttributeError):  # a proxy has answered
        return False
