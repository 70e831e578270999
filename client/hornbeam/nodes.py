"""Requests to the nodes of one database: they go to the one that serves."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from hornbeam.exchange import Answer, Carrier, Lost, NotSent, Request

BEHIND = "hornbeam-behind-s"
_UNAVAILABLE = 503


class Nodes:
    """A carrier over those of several nodes.

    A node that cannot be reached, or says that it stands by, has done nothing: the next is asked,
    each once. If none serves, that one stands by is the answer: soon one of them will. What became
    of a request whose answer is lost nobody knows; who repeats it, asks the next node first. So
    does who was answered by a node that has lost the others.
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
    except (ValueError, AttributeError):  # a proxy's own words
        return False
