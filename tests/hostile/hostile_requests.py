"""One hostile request: its route, its content, and the behaviour of its client."""

from __future__ import annotations

import json
import math
import random
from dataclasses import dataclass
from enum import Enum
from typing import Any

QUERY, TRANSACT, EXPLAIN = "/v1/query", "/v1/transactions", "/v1/explain"
PLAN, APPLY, LOAD = "/v1/schema/plan", "/v1/schema/apply", "/v1/load/scratch"
VERIFY = "/v1/verify"
JSON, ARROW, CSV = "application/json", "application/vnd.apache.arrow.stream", "text/csv"
DEFAULT_LIMIT_S = 30.0
"""The time limit of requests without one: the server's default for statements."""
MOST_AT_ONCE = 40
"""Four clients with this number of requests stay below the server's limit of 256 requests. Beyond
this limit it refuses all requests, as documented."""


class Manner(Enum):
    """The behaviour of a client with its request."""

    WAIT = "waits for the answer"
    LEAVE = "leaves before the answer"
    UNREAD = "does not read the answer"
    SLOW = "sends the body slowly"


@dataclass(frozen=True)
class Attack:
    """One hostile request, sent `at_once` times simultaneously; `limit_s` is its time limit."""

    family: str
    label: str
    path: str
    body: bytes
    limit_s: float
    accept: str = JSON
    content_type: str = JSON
    manner: Manner = Manner.WAIT
    at_once: int = 1


def size(rng: random.Random, least: int, most: int) -> int:
    return round(math.exp(rng.uniform(math.log(least), math.log(most))))


def as_json(document: Any) -> bytes:
    return json.dumps(document).encode()
