"""Fuzzing of the REST interface by its OpenAPI document, with all phases of schemathesis.

The phases are examples, boundary values of every field (coverage), random valid and invalid bodies
(fuzzing), and sequences of calls along the document's links (stateful).
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from zlib import crc32

import httpx
import schemathesis
from schemathesis import engine
from schemathesis.engine import StopReason, events

from tests.api.api_world import World
from tests.fuzz.faulty_world import PROFILE, Services
from tests.fuzz.fuzz_shop import DDL, EXAMPLES, NAMES, PLAN, READS, ROWS, SEED, WORKLOAD, WRITES
from tests.fuzz.long_lists import without_large_bounds

HANG_S = 20.0
"""A call that takes longer counts as a hang."""
LIMITS = {"statement_timeout_s": HANG_S / 4, "max_timeout_s": HANG_S / 4}
"""Time limits of the server, well below HANG_S."""
SOUND = (504,)
FAILING = (503, 504, 507)
"""Allowed 5xx statuses: SOUND without faults, FAILING while the services fail."""

SUBSCRIBE = "/v1/subscribe"
KEY_OF_THE_DOCUMENT = "6f1c1d0e-7f0b-4c55-8f0e-0b3a1c9d2e44"
CSVS = ["c_id,c_name\n17,gus\n", "c_id,c_lname\n18,\n", 'o_id,o_total\n5,"1.5"\n6,x\n']
WORDS = {
    "sql": READS + WRITES,
    "write": WRITES,
    "name": NAMES,
    "ddl": [DDL, DDL.replace("c_email TEXT UNIQUE", "c_email TEXT")],
    "workload": [WORKLOAD, "SELECT nothing FROM customer;"],
}
PLACES = {
    "body.sql": "sql",
    "body.statements[*].sql": "write",
    "body.pending[*].sql": "write",
    "body.preconditions[*].relation": "name",
    "body.ddl": "ddl",
    "body.workload": "workload",
    "path.relation": "name",
    "path.name": "name",
}


@dataclass
class Found:
    """The results of a run: calls by phase, answers by status, and failed checks."""

    calls: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{dict(self.calls)} {dict(sorted(self.statuses.items()))}"


def set_up(shop: World, *, patient: bool = False) -> None:
    """Create the schema and the rows that the statements use. A `patient` client repeats a request
    that is refused since the node has lost its lease, as it may on a machine that stalls."""
    for request in (partial(shop.apply, **PLAN), *(partial(shop.transact, sql) for sql in ROWS)):
        answer = request()
        while patient and answer.status_code == 503 and answer.json()["retryable"]:
            time.sleep(0.1)
            answer = request()
        assert answer.status_code == 200, answer.text


def until_all_has_failed(shop: World, services: Services) -> None:
    """Continue to write until every fault has occurred."""
    for _ in range(50_000):
        if set(services.chaos.fired) == PROFILE.faults:
            return
        answer = shop.transact("UPDATE item SET i_stock = i_stock - 1")
        assert answer.status_code in {200, *FAILING}, answer.text
    raise AssertionError(f"only these have struck: {services.chaos.fired}")


PHASES = ("examples", "coverage", "fuzzing", "stateful")
RANDOM = ("examples", "fuzzing", "stateful")
BOUNDS = ("coverage",)
"""The boundary values of every field, except the bounds of long lists (`long_lists`)."""


def fuzz(
    url: str, *, allowed: tuple[int, ...], examples: int, key: str = "", phases: Iterable[str]
) -> Found:
    """Call every documented operation of the server at `url`, with an API key if it requires one.
    `make fuzz` runs all phases.

    Failures are: a 5xx status that is not in `allowed`, an answer that violates the document, and,
    with `key`, a successful answer to a call without a valid key.
    """
    config = _config(allowed, examples, key, PHASES if EXAMPLES else phases)
    document = without_large_bounds(httpx.get(f"{url}/openapi.json").raise_for_status().json())
    config.projects.default.update(base_url=url)
    schema = schemathesis.openapi.from_dict(document, config=config)

    found = Found()
    for event in engine.from_schema(schema).execute():
        match event:
            case events.ScenarioFinished():
                _note(found, event)
            case events.NonFatalError():
                found.wrong.append(f"{event.label}: {event.info.format()}")
            case events.FatalError():
                raise event.exception
            case events.EngineFinished():
                assert event.stop_reason is StopReason.COMPLETED
    return found


@schemathesis.hook
def before_call(_context: schemathesis.HookContext, case: schemathesis.Case, _kwargs: Any) -> None:
    """Adapt three of four calls so that they pass the first checks. Calls that violate the document
    still violate it."""
    if case.path == SUBSCRIBE and isinstance(case.query, dict) and "lasts_s" not in case.query:
        case.query["lasts_s"] = 0  # else the answer has no end
    chance = crc32(repr((case.path_parameters, case.body)).encode())
    if chance % 4 == 0:
        return
    if case.headers and case.headers.get("idempotency-key") == KEY_OF_THE_DOCUMENT:
        case.headers["idempotency-key"] = f"{chance % 50}"
    if isinstance(case.body, str) and case.media_type == "text/csv":
        case.body = CSVS[chance % len(CSVS)]
    if isinstance(case.body, dict):
        case.body = _statement({name: _statements(value) for name, value in case.body.items()})
        if repr(case.body.get("snapshot")) == "0":
            del case.body["snapshot"]


def _statements(value: Any) -> Any:
    return [_statement(item) for item in value] if isinstance(value, list) else value


def _statement(item: Any) -> Any:
    """Give a known statement as many parameters as it takes. Set `allow_drop` to false: later calls
    need the relations."""
    if not isinstance(item, dict):
        return item
    if item.get("allow_drop") is True:
        item = {**item, "allow_drop": False}
    if item.get("sql") not in WORDS["sql"] or not isinstance(item.get("parameters", []), list):
        return item
    names = re.findall(r":(\w+)", item["sql"])
    chance = crc32(repr(item).encode())
    places = [(chance >> shift) % 50 for shift in range(item["sql"].count("?"))]
    return {**item, "parameters": dict.fromkeys(names, chance % 50) if names else places}


def _note(found: Found, event: events.ScenarioFinished) -> None:
    recorder = event.recorder
    for interaction in recorder.interactions.values():
        found.calls[event.phase.value] += 1
        if interaction.response is not None:
            found.statuses[interaction.response.status_code] += 1
    for number, checks in recorder.checks.items():
        for check in checks:
            failed = check.failure_info
            if failed is not None:
                answer = recorder.interactions[number].response
                body = "" if answer is None else answer.text[:500]
                found.wrong.append(
                    f"{check.name}: {failed.failure.title}\n{failed.failure.message}\n"
                    f"{failed.code_sample}\n{body}"
                )


def _config(
    allowed: tuple[int, ...], examples: int, key: str, phases: Iterable[str]
) -> schemathesis.Config:
    checks = {
        name: {"enabled": True}
        for name in (
            "status_code_conformance",
            "content_type_conformance",
            "response_schema_conformance",
            "response_headers_conformance",
            "unsupported_method",
            "allow_header_conformance",
            # With a key every call has its header; calls without it are made by `ignored_auth`.
            "ignored_auth" if key else "missing_required_header",
        )
    }
    refused = ["400", "401", "403", "404", "405", "406", "409", "413", "415", "422", "428", "5xx"]
    expected = ["2xx", "3xx", "4xx", *map(str, allowed)]
    return schemathesis.Config.from_dict(
        {
            "seed": SEED,
            "headers": {"Authorization": f"Bearer {key}"} if key else {},
            "request-timeout": HANG_S,
            "workers": 1,
            "continue-on-failure": True,
            "checks": {
                "enabled": False,
                "not_a_server_error": {"enabled": True, "expected-statuses": expected},
                "negative_data_rejection": {"enabled": True, "expected-statuses": refused},
                **checks,
            },
            "generation": {
                "max-examples": EXAMPLES or examples,
                "deterministic": not SEED,
                "database": "none",
                "no-shrink": True,
            },
            "phases": {phase: {"enabled": phase in phases} for phase in PHASES},
            "dictionaries": {name: {"values": words} for name, words in WORDS.items()},
            "parameters": {
                place: {"dictionary": name, "probability": 0.7} for place, name in PLACES.items()
            },
        }
    )
