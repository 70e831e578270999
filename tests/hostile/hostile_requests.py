"""One hostile request: where it goes, what it holds, and how its client behaves."""

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
"""Of requests that name none: the server's default for statements."""
MOST_AT_ONCE = 40
"""Four clients with so many requests each stay below the server's limit of 256 requests, beyond
which it refuses everybody's, as it is documented."""


class Manner(Enum):
    """How a client behaves with its request."""

    WAIT = "waits for the answer"
    LEAVE = "leaves before the answer"
    UNREAD = "does not read the answer"
    SLOW = "sends the body slowly"


@dataclass(frozen=True)
class Attack:
    """One hostile request, `at_once` times at the same time. `limit_s`: its own time limit."""

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
