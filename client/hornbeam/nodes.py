"""Requests to the nodes of one database: they go to the one that serves."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence

import httpx

BEHIND = "Hornbeam-Behind-S"


class Nodes(httpx.BaseTransport):
    """An httpx transport over several addresses.

    A node that cannot be reached, or says that it stands by, has done nothing: the next is asked,
    each once. If none serves, that one stands by is the answer: soon one of them will. What became
    of a request whose answer is lost nobody knows; who repeats it, asks the next node first. So
    does who was answered by a node that has lost the others.
    """

    def __init__(self, addresses: Sequence[str], inner: httpx.BaseTransport) -> None:
        self._addresses = deque(map(httpx.URL, addresses))
        self._inner = inner

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        refusal: httpx.Response | httpx.TransportError | None = None
        for _ in self._addresses.copy():
            node = self._addresses[0]
            request.url = request.url.copy_with(host=node.host, port=node.port)
            request.headers["Host"] = node.netloc.decode()
            try:
                response = self._inner.handle_request(request)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                refusal = refusal or error
            except httpx.TransportError:
                self._addresses.rotate(-1)
                raise
            else:
                if not _stands_by(response):
                    if BEHIND in response.headers:
                        self._addresses.rotate(-1)
                    return response
                refusal = response
            self._addresses.rotate(-1)
        if isinstance(refusal, httpx.Response):
            return refusal
        assert refusal is not None
        raise refusal

    def close(self) -> None:
        self._inner.close()


def _stands_by(response: httpx.Response) -> bool:
    if response.status_code != httpx.codes.SERVICE_UNAVAILABLE:
        return False
    try:
        return bool(json.loads(response.read()).get("standby"))
    except (ValueError, AttributeError):  # a proxy's own words
        return False
