"""Subscriptions: the changes of a relation or view as they happen, each one once.

    with db.subscribe("orders", wanted={"o_c_id": 5}) as orders:
        for changes in orders:
            for change in changes:
                ...
            remember(changes.moment)

A subscription survives the loss of its connection, and of its node: it goes on after the last
moment that the caller has taken. A program that remembers that moment goes on in its next run.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from types import TracebackType
from typing import Any, NamedTuple

from hornbeam.errors import Error, OperationalError, from_problem
from hornbeam.transport import PATIENCE_S, Transport
from hornbeam.types import row_reader, to_wire

PATH = "/v1/subscribe"
HEARTBEAT_S = 15.0
"""Without changes the node sends a message after this time, or half of the time limit."""
_PASSING = {"unavailable", "overloaded", "unreachable", "outcome-unknown"}
"""Codes of errors after which a subscription goes on by itself."""

Row = tuple[Any, ...]


class Change(NamedTuple):
    """A row before and after a change; None: there is no such row. `operation` is "insert",
    "update" or "delete". For a relation, `commit` is the timestamp of the transaction that changed
    it, `transaction_id` its id, and `idempotency_key` that of its request, if there was one. They
    are 0 and "" for a view."""

    operation: str
    before: Row | None
    after: Row | None
    commit: int = 0
    transaction_id: str = ""
    idempotency_key: str = ""


class Changes(list[Change]):
    """The changes up to `moment`. The rows with which a subscription begins are inserts; only the
    last part of these has a moment, and `begins` is true for all of them."""

    def __init__(self, moment: int | None, changes: list[Change], *, begins: bool = False) -> None:
        super().__init__(changes)
        self.moment = moment
        self.begins = begins


class Follower:
    """The state of one subscription, without its connection.

    `columns` are pairs of name and SQL type. `moment` is the last moment whose changes were all
    taken; None before the first one.
    """

    def __init__(
        self,
        name: str,
        wanted: Mapping[str, Any],
        moment: int | None,
        timeout_s: float,
        *,
        rows: bool,
    ) -> None:
        self.name = name
        self.moment = moment
        self.columns: list[tuple[str, str]] = []
        self.key: list[str] = []
        self._asked = {
            "name": name,
            "wanted": json.dumps({column: to_wire(v) for column, v in wanted.items()}),
            "heartbeat_s": str(max(min(HEARTBEAT_S, timeout_s / 2), 0.1)),
        }
        self._rows = rows
        self._read: Callable[[list[Any]], Row] = tuple
        self._parts: list[Change] = []
        self._failing_since = math.inf
        self._pause_s = 0.0

    def parameters(self) -> dict[str, str]:
        """The parameters of the request that begins the subscription, or goes on with it."""
        self._parts = []
        if self.moment is not None:
            return {**self._asked, "moment": str(self.moment)}
        return {**self._asked, "rows": "true" if self._rows else "false"}

    def take(self, line: str) -> Changes | None:
        """The changes that are complete with this message. Raises the error that it reports."""
        self._failing_since, self._pause_s = math.inf, 0.05
        message = json.loads(line)
        kind = message["type"]
        if kind == "error":
            raise from_problem(message["error"])
        if kind == "begin":
            self.columns = [(column["name"], column["type"]) for column in message["columns"]]
            self.key = message["key"]
            self._read = row_reader([type_ for _, type_ in self.columns])
            if not message["rows"]:
                self.moment = message["moment"]
        elif kind == "rows":
            rows = [Change("insert", None, self._read(row)) for row in message["rows"]]
            return Changes(None, rows, begins=True)
        elif kind == "changes":
            self._parts += map(self._change, message["changes"])
            if message["moment"] is not None:
                parts, self._parts = self._parts, []
                return Changes(message["moment"], parts)
        elif self.moment is None:  # the end of the rows
            return Changes(message["moment"], [], begins=True)
        else:
            self.moment = message["moment"]
        return None

    def _change(self, document: dict[str, Any]) -> Change:
        before, after = document["before"], document["after"]
        return Change(
            document["operation"],
            None if before is None else self._read(before),
            None if after is None else self._read(after),
            document.get("commit", 0),
            document.get("transaction_id", ""),
            document.get("idempotency_key", ""),
        )

    def taken(self, changes: Changes) -> None:
        """The caller has taken `changes`."""
        if changes.moment is not None:
            self.moment = changes.moment

    def pause_s(self, error: Error, *, begun: bool) -> float:
        """The seconds to wait until the subscription goes on after an error. Raises the error if it
        would not help, or has not for some time. `begun`: the caller has taken rows of the
        beginning, which cannot go on in the middle."""
        now = time.monotonic()
        self._failing_since = min(self._failing_since, now)
        lasts = now - self._failing_since > PATIENCE_S
        if error.code not in _PASSING or lasts or (begun and self.moment is None):
            raise error
        self._pause_s = min(max(2 * self._pause_s, 0.01), 1.0)
        return self._pause_s


def cut_off() -> OperationalError:
    """The error for a stream that ends without one."""
    problem = {"code": "unreachable", "retryable": True}
    return OperationalError("The node has ended the subscription.", problem)


class BaseSubscription:
    """The state of a subscription, for both kinds."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower

    @property
    def columns(self) -> list[tuple[str, str]]:
        """Names and SQL types of the columns of the rows."""
        return self._follower.columns

    @property
    def key(self) -> list[str]:
        """The columns that identify a row; empty if none do."""
        return self._follower.key

    @property
    def moment(self) -> int | None:
        """The last moment whose changes were all taken: `subscribe` goes on there. None while the
        rows of the beginning are read."""
        return self._follower.moment


class Subscription(BaseSubscription):
    """An iterator over the `Changes` of a relation or view. It waits for the next ones without an
    end. One thread uses it at a time. The same thread may use its connection at the same time."""

    def __init__(self, transport: Transport, follower: Follower) -> None:
        """Raises DatabaseError if the subscription cannot begin."""
        super().__init__(follower)
        self._transport = transport
        self._changes = self._followed()
        next(self._changes)

    def run(self, act: Callable[[Changes], object]) -> None:
        """Call `act` for all changes, without an end. Raises DatabaseError, and the errors of
        `act`."""
        for changes in self:
            act(changes)

    def close(self) -> None:
        """End the subscription. Idempotent."""
        self._changes.close()

    def _followed(self) -> Generator[Changes | None, None, None]:
        """None when the subscription has begun, then the changes."""
        follower, begun, taken = self._follower, False, False
        while True:
            parameters = follower.parameters()
            try:
                with self._transport.stream(PATH, method="GET", params=parameters) as answer:
                    for line in answer.lines():
                        changes = follower.take(line)
                        if not begun:
                            begun = True
                            yield None
                        if changes is not None:
                            taken = True
                            yield changes
                            follower.taken(changes)
                raise cut_off()
            except Error as error:
                time.sleep(follower.pause_s(error, begun=taken))

    def __iter__(self) -> Iterator[Changes]:
        return self

    def __next__(self) -> Changes:
        found = next(self._changes)
        assert found is not None  # only the first result is
        return found

    def __enter__(self) -> Subscription:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
