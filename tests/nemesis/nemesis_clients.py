"""Clients of the nodes through the client library, and the journal of their answers.

Each client is a session that passes its bookmark on, and begins at a node of its own. The client
library repeats a write under its key until its patience ends; the outcome of a write that was given
up is determined at the end of the round.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from hornbeam.errors import Error
from hornbeam.transport import Transport, open_transport, parse_url, persistently

T = TypeVar("T")
Statement = tuple[str, Sequence[Any]]
Rows = list[tuple[Any, ...]]
TIMEOUT_S = 8.0
TRIES = 5
"""The number of attempts of a request that exceeds its time limit and has no effect."""


class Refused(Exception):
    """The database has refused a transaction for a reason; the transaction has no effect."""


class GivenUp(Exception):
    """The library has no answer after all its retries."""


class _TooSlow(Exception):
    """A transaction or query exceeded its time limit, and has no effect."""


_KINDS: dict[str, type[Exception]] = {
    "constraint-violation": Refused,
    "foreign-key-violation": Refused,
    "not-null-violation": Refused,
    "read-conflict": Refused,
    "statement-timeout": _TooSlow,
    "unique-violation": Refused,
}


@dataclass(frozen=True)
class Answer:
    """The answer to a committed transaction. `completed` is the time when all readers must see it;
    None where it was not applied by then, or where the answer came only at the end of the round."""

    commit_ts: int
    rows: tuple[Rows, ...]
    invoked: float
    completed: float | None


@dataclass(frozen=True)
class Found:
    """Rows of queries at one snapshot, and the versions of the rows read."""

    rows: list[Rows]
    snapshot: int
    reads: list[list[Any]]
    invoked: float
    completed: float
    reason: str = ""
    """Why a tentative read was answered as it is stored; "": it was not."""


@dataclass
class Journal:
    """The requests and answers of one round, recorded outside of the database."""

    acknowledged: dict[str, Answer] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    unresolved: dict[str, tuple[dict[str, Any], float]] = field(default_factory=dict)
    """Requests that were given up, and the times when they began."""
    written_at: list[float] = field(default_factory=list)
    """The times when writes were acknowledged."""
    newest: int = 0
    """The latest commit that a client knows to be applied: all later reads must include it."""
    failed: list[str] = field(default_factory=list)
    torn: list[str] = field(default_factory=list)
    """Reads that violate an invariant."""
    counts: Counter[str] = field(default_factory=Counter)


class Client:
    def __init__(
        self,
        name: str,
        url: str,
        journal: Journal,
        rng: random.Random,
        pool: ThreadPoolExecutor,
    ) -> None:
        self.name = name
        self.url = url
        self.journal = journal
        self.random = rng
        self.bookmark = 0
        self._pool = pool
        self._transport: Transport = open_transport(parse_url(url), TIMEOUT_S)
        self._requests = 0

    def next_key(self) -> str:
        """The key of the next transaction of this client."""
        return f"{self.name}/{self._requests + 1}"

    async def transact(
        self, *statements: Statement, reads: Sequence[list[Any]] = ()
    ) -> Answer | None:
        """A write transaction; None when no answer comes. Raises Refused."""
        key, body = self.next_key(), _transaction(statements, reads)
        self._requests += 1
        invoked = time.monotonic()
        try:
            answer = await self.sent(key, body | {"bookmark": self.bookmark}, invoked)
        except GivenUp as error:
            self.journal.unresolved[key] = (body, invoked)
            self.journal.failed.append(str(error))
            return None
        except Refused:
            self.journal.refused.add(key)
            raise
        self.journal.acknowledged[key] = answer
        self.journal.written_at.append(time.monotonic())
        self.bookmark = max(self.bookmark, answer.commit_ts)
        if answer.completed is not None:
            self.journal.newest = max(self.journal.newest, answer.commit_ts)
        return answer

    async def sent(self, key: str, body: dict[str, Any], invoked: float) -> Answer:
        """Send a transaction under its key and return its answer. Raises Refused and GivenUp."""
        headers = {"Idempotency-Key": key}
        document = await self._asked(
            lambda: self._transport.json("POST", "/v1/transactions", body, headers=headers)
        )
        rows = tuple([tuple(row) for row in each["rows"]] for each in document["statements"])
        over = time.monotonic() if document["applied"] else None
        return Answer(document["commit_ts"], rows, invoked, over)

    async def read(
        self, *queries: str | Statement, trace: bool = False, use_views: bool = True
    ) -> Found | None:
        """Run queries at one snapshot that includes every acknowledged commit; None when there is
        no answer."""
        reported = self.journal.newest
        when = {"consistency": "strong", "bookmark": self.bookmark}
        bodies = [_query(query, trace, use_views) for query in queries]
        found = await self._found(bodies, when)
        if found is not None:
            at = found.snapshot
            assert at >= self.bookmark, f"snapshot {at} is before the bookmark {self.bookmark}"
            assert at >= reported, f"snapshot {at} is before commit {reported}, which was answered"
            self.bookmark = at
        return found

    async def read_live(self, *queries: str, **when: Any) -> Found | None:
        """Run queries at the snapshot of the first one, which names a live view and is asked with
        the members `when`; None when there is no answer. That snapshot may be before the bookmark,
        and does not become it."""
        return await self._found([_query(query, False, True) for query in queries], when)

    async def _found(
        self, bodies: Sequence[dict[str, Any]], when: Mapping[str, Any]
    ) -> Found | None:
        """Run the first query with the members `when`, and the others at its snapshot."""
        invoked, documents = time.monotonic(), list[dict[str, Any]]()
        try:
            for body in bodies:
                at = {"snapshot": documents[0]["snapshot"]} if documents else when
                documents.append(await self._asked(partial(self._queried, body | at)))
        except (GivenUp, Refused) as error:
            self.journal.failed.append(f"read: {error}")
            return None
        self.journal.counts["reads"] += 1
        return Found(
            [[tuple(row) for row in document["rows"]] for document in documents],
            documents[0]["snapshot"],
            [read for document in documents for read in document["reads"] or []],
            invoked,
            time.monotonic(),
            documents[0].get("tentative", {}).get("reason", ""),
        )

    def _queried(self, body: dict[str, Any]) -> Any:
        return self._transport.json("POST", "/v1/query", body)

    async def _asked(self, send: Callable[[], T]) -> T:
        """Send a request, again if it is too slow. Raises Refused and GivenUp."""
        loop = asyncio.get_running_loop()
        for _ in range(TRIES):
            try:
                return await loop.run_in_executor(self._pool, _persistently, send)
            except _TooSlow:
                self.journal.counts["too slow"] += 1
        raise GivenUp(f"too slow, {TRIES} times")

    async def resolve(self, deadline: float) -> None:
        """Determine the outcome of every request that was given up: it is sent again under its key,
        and has one effect. Raises GivenUp when `deadline` passes before all outcomes are known."""
        for key, (body, invoked) in list(self.journal.unresolved.items()):
            while True:
                try:
                    answer = await self.sent(key, body, invoked)
                except Refused:
                    self.journal.refused.add(key)
                except GivenUp:
                    if time.monotonic() > deadline:
                        raise
                    continue
                else:
                    self.journal.acknowledged[key] = Answer(
                        answer.commit_ts, answer.rows, invoked, None
                    )
                del self.journal.unresolved[key]
                break

    def close(self) -> None:
        self._transport.close()


def _persistently(send: Callable[[], T]) -> T:
    try:
        return persistently(send)
    except Error as error:
        kind = _KINDS.get(error.code, GivenUp)
        raise kind(f"{error.code}: {error}") from error


def _query(query: str | Statement, trace: bool, use_views: bool) -> dict[str, Any]:
    sql, parameters = (query, ()) if isinstance(query, str) else query
    body = {"sql": sql, "parameters": list(parameters), "trace": trace}
    return body | {"use_views": use_views, "timeout_ms": int(TIMEOUT_S * 1000)}


def _transaction(statements: Sequence[Statement], reads: Sequence[list[Any]]) -> dict[str, Any]:
    return {
        "statements": [{"sql": sql, "parameters": list(values)} for sql, values in statements],
        "reads": list(reads),
        "timeout_ms": int(TIMEOUT_S * 1000),
    }
