"""Nodes of Hornbeam as their clients and their operator reach them, wherever they run."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import httpx

from hornbeam_server.schema.errors import Unavailable
from hornbeam_server.txlayer.cluster.assignment import SLOTS

START_S = 60.0
POLL_S = 0.05


def client_url(addresses: Sequence[str], first: int = 0, **options: str) -> str:
    """A client's URL of the nodes at `addresses` (`host:port`). The client begins at number
    `first`. `options` are further options of the URL."""
    first %= len(addresses)
    start, *others = [*addresses[first:], *addresses[:first]]
    given = {**({"also": ",".join(others)} if others else {}), **options}
    query = "&".join(f"{name}={value}" for name, value in given.items())
    return f"hornbeam://{start}" + (f"?{query}" if query else "")


class Node(ABC):
    """A node that can be killed and started again."""

    name: str

    @property
    @abstractmethod
    def address(self) -> str:
        """`host:port` for clients."""

    @property
    @abstractmethod
    def url(self) -> str: ...

    @property
    @abstractmethod
    def running(self) -> bool:
        """Whether the node was started and not stopped. Raises Unavailable when it has ended by
        itself."""

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def kill(self) -> None:
        """End the node like a crash (SIGKILL)."""

    def get(self, path: str, timeout_s: float) -> httpx.Response:
        """The node's answer to a GET. Raises httpx.TransportError."""
        return httpx.get(f"{self.url}{path}", timeout=timeout_s, trust_env=False)

    @property
    def ready(self) -> bool:
        """Whether the node serves. Raises Unavailable when it has ended by itself."""
        if not self.running:
            return False
        try:
            return self.get("/readyz", 2).is_success
        except httpx.TransportError:
            return False

    def assignment(self) -> dict[str, Any] | None:
        """The nodes and the slots that they own, as this node knows them (`nodes` of its status);
        None while it does not serve. A node that was ready may stop serving before the next
        request. Raises Unavailable when it has ended by itself."""
        if not self.ready:
            return None
        try:
            status = self.get("/v1/status", 5)
        except httpx.TransportError:
            return None
        if status.status_code == httpx.codes.SERVICE_UNAVAILABLE:
            return None
        assignment: dict[str, Any] = status.raise_for_status().json()["nodes"]
        return assignment


N = TypeVar("N", bound=Node)


class Nodes(ABC, Generic[N]):
    """The nodes of one database."""

    nodes: list[N]

    @property
    @abstractmethod
    def logs(self) -> str:
        """Where the nodes' logs are, for messages."""

    @property
    def client_url(self) -> str:
        return self.client_url_of(self.nodes)

    def client_url_of(self, nodes: Sequence[N]) -> str:
        """A client's URL of nodes; the client begins at the first one."""
        return client_url([node.address for node in nodes])

    def leading(self, timeout_s: float = START_S) -> N:
        """Wait until a node leads, and return it. Raises Unavailable."""
        give_up = time.monotonic() + timeout_s
        while time.monotonic() < give_up:
            for node in self.nodes:
                if (known := node.assignment()) and known["leads"]:
                    return node
            time.sleep(POLL_S)
        raise Unavailable(f"No node leads after {timeout_s:g} s; see {self.logs}.")

    def settled(self, timeout_s: float = START_S) -> None:
        """Wait until all running nodes serve, no node is dead, and every slot has an owner and is
        not moving. Raises Unavailable."""
        running = [node for node in self.nodes if node.running]

        def is_settled(node: N) -> bool:
            if (known := node.assignment()) is None:
                return False
            owned = sum(member["slots"] for member in known["members"])
            is_complete = len(known["members"]) == len(running)
            return is_complete and owned == SLOTS and not (known["dead"] or known["moving_slots"])

        give_up = time.monotonic() + timeout_s
        while not all(map(is_settled, running)):
            if time.monotonic() > give_up:
                raise Unavailable(f"Nodes are not settled after {timeout_s:g} s; see {self.logs}.")
            time.sleep(POLL_S)
