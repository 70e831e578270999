"""The polite client: a separate process that sends small requests at a fixed pace and times them.

Each kind of request has its own connections. The pace does not wait for answers: the time of a
request counts from when it was due, so it includes the wait behind a late one. A request that is
more than `PATIENCE_S` late is not sent and counts as failed.
"""

from __future__ import annotations

import http.client
import itertools
import json
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from typing import Any

from tests.hostile.hostile_server import GUILDS, PLAYERS

PATIENCE_S = 10.0
TIMEOUT_MS = 5_000
READ, WRITE, LIVE, SMALL = "point read", "small write", "livez", "small query"
PER_SECOND = {READ: 50.0, WRITE: 1.0, LIVE: 10.0, SMALL: 1.0}
LINES = {READ: 4, WRITE: 1, LIVE: 1, SMALL: 1}
"""Number of connections of each kind, which take turns."""
POINT = "SELECT p_name, p_points FROM player WHERE p_id = ?"
INSERT = "INSERT INTO journal (j_id, j_g_id, j_note) VALUES (?, ?, ?)"
AGGREGATE = (
    "SELECT g_region, count(*), max(length(g_name)) FROM guild, range(3) t(x) WHERE g_id = ?"
    " GROUP BY g_region"
)
"""A query that only DuckDB can answer."""


@dataclass(frozen=True)
class Asked:
    """One request: when it was due, the seconds until its answer, and the reason of a failure."""

    due: float
    seconds: float
    failure: str = ""


@dataclass
class Experience:
    """The requests of the polite client and their results."""

    asked: dict[str, list[Asked]] = field(default_factory=dict)
    acknowledged: list[int] = field(default_factory=list)
    """Keys of acknowledged writes of `journal`."""


class _Failed(Exception):
    pass


class _Line:
    """A connection that is opened again after a failure."""

    def __init__(self, host: str, port: int) -> None:
        self._connection = http.client.HTTPConnection(host, port, timeout=PATIENCE_S)

    def ask(self, path: str, body: Any = None) -> Any:
        """Return the JSON answer. Raises _Failed with the kind of failure."""
        try:
            if body is None:
                self._connection.request("GET", path)
            else:
                kind = {"Content-Type": "application/json"}
                self._connection.request("POST", path, json.dumps(body), kind)
            answer = self._connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise _Failed(type(error).__name__) from None
        found = json.loads(content)
        if answer.status != 200:
            raise _Failed(f"{answer.status} {found['code']}")
        return found

    def close(self) -> None:
        self._connection.close()


def be_polite(host: str, port: int, stop: Event, to: Connection) -> None:
    """Send requests until `stop` is set; then send an `Experience` through `to`."""
    experience = Experience()
    rng, first = random.Random(1), int(time.time()) * 1_000_000

    def read(line: _Line, _: int) -> None:
        key = rng.randrange(PLAYERS)
        answer = line.ask("/v1/query", _query(POINT, key))
        if answer["rows"][0][0] != f"player {key}":
            raise _Failed("wrong answer")

    def write(line: _Line, number: int) -> None:
        statement = {"sql": INSERT, "parameters": [first + number, number % GUILDS, "a note"]}
        line.ask("/v1/transactions", {"statements": [statement], "timeout_ms": TIMEOUT_MS})
        experience.acknowledged.append(first + number)

    def small(line: _Line, number: int) -> None:
        if len(line.ask("/v1/query", _query(AGGREGATE, number % GUILDS))["rows"]) != 1:
            raise _Failed("wrong answer")

    def live(line: _Line, _: int) -> None:
        line.ask("/livez")

    asking = {READ: read, WRITE: write, LIVE: live, SMALL: small}
    began = time.monotonic()
    with ThreadPoolExecutor(sum(LINES.values())) as pool:
        running = {
            kind: [
                pool.submit(_paced, _Pace(kind, began, turn), ask, _Line(host, port), stop)
                for turn in range(LINES[kind])
            ]
            for kind, ask in asking.items()
        }
        experience.asked = {
            kind: sorted((a for each in work for a in each.result()), key=lambda asked: asked.due)
            for kind, work in running.items()
        }
    to.send(experience)
    to.close()


def _query(sql: str, *parameters: int) -> dict[str, Any]:
    return {"sql": sql, "parameters": parameters, "timeout_ms": TIMEOUT_MS}


@dataclass(frozen=True)
class _Pace:
    """The times at which the connection `turn` of a kind sends."""

    kind: str
    began: float
    turn: int = 0

    def due(self, number: int) -> float:
        return self.began + (self.turn + number * LINES[self.kind]) / PER_SECOND[self.kind]


def _paced(pace: _Pace, ask: Callable[[_Line, int], None], line: _Line, stop: Event) -> list[Asked]:
    asked: list[Asked] = []
    for number in itertools.count():
        due = pace.due(number)
        if stop.wait(max(due - time.monotonic(), 0)) and due > time.monotonic():
            break
        failure = "not sent"
        if not stop.is_set() and time.monotonic() - due <= PATIENCE_S:
            try:
                ask(line, number)
                failure = ""
            except _Failed as error:
                failure = str(error)
        asked.append(Asked(due, time.monotonic() - due, failure))
    line.close()
    return asked
