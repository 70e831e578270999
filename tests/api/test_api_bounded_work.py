"""No body, header or target blocks the event loop: `/livez` answers while the server reads it."""

from __future__ import annotations

import http.client
import io
import json
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx
import msgspec
import pyarrow as pa
import pytest

from hornbeam_server.api.rest import request_models
from hornbeam_server.api.rest.body_limits import MAX_VALUES, SHORT_BYTES, read_json
from hornbeam_server.schema.errors import LimitExceeded
from tests.api.api_world import PLAN
from tests.api.test_api_serve import start

STALL_S = 0.5
"""The longest time for which a request may block the loop."""
TRIES = 5
"""Other work on the machine may stall some tries, but not all of them."""
ANSWER_BYTES = 16_000
MB = 1_000_000
JSON, CSV, BYTES = "application/json", "text/csv", "application/octet-stream"
ARROW = "application/vnd.apache.arrow.stream"


class Ask(NamedTuple):
    path: str
    body: Callable[[], bytes]
    media_type: str = JSON
    statuses: tuple[int, ...] = (400, 413, 422)


def many(before: str, item: str, count: int, after: str) -> Callable[[], bytes]:
    return partial(_many, before, item, count, after)


def _many(before: str, item: str, count: int, after: str) -> bytes:
    return f"{before}{','.join([item] * count)}{after}".encode()


def members(count: int, value: str = "1") -> str:
    return ",".join(f'"k{number}":{value}' for number in range(count))


def repeated(before: bytes, piece: bytes, count: int, after: bytes) -> Callable[[], bytes]:
    return lambda: before + piece * count + after


def of(document: object) -> Callable[[], bytes]:
    return lambda: json.dumps(document).encode()


def arrow(column: pa.Array) -> Callable[[], bytes]:
    def written() -> bytes:
        table, sink = pa.table({"c_id": column}), io.BytesIO()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return sink.getvalue()

    return written


def puts(tables: int, rows: int) -> Callable[[], bytes]:
    return lambda: msgspec.msgpack.encode(
        {"ts": 1, "writes": {f"v.x.{n}": [[b"k", b"v"]] * rows for n in range(tables)}}
    )


QUERY = '{"sql":"SELECT 1","parameters":['
WRITE = '{"statements":[{"sql":"SELECT 1"}],'
HOSTILE = {
    "pending": Ask("/v1/query", many('{"sql":"SELECT 1","pending":[', "{}", 300_000, "]}")),
    "more pending": Ask("/v1/query", many('{"pending":[', "{}", 15 * MB, "]}")),
    "list": Ask("/v1/query", many("[", "1", 30 * MB, "]")),
    "parameters": Ask("/v1/query", many(QUERY, "1", 400_000, "]}")),
    "slow floats": Ask("/v1/query", many(QUERY, "1.2345678901234567e-305", 100_000, "]}")),
    "long floats": Ask("/v1/query", many(QUERY, "1." + "9" * 700 + "e-300", 20_000, "]}")),
    "long integers": Ask("/v1/query", many(QUERY, "9" * 4_200, 5_000, "]}")),
    "one long integer": Ask("/v1/query", many(QUERY, "9" * 30 * MB, 1, "]}")),
    "one long fraction": Ask("/v1/query", many(QUERY, "0." + "9" * 30 * MB, 1, "]}")),
    "long decimal": Ask(
        "/v1/query", many(QUERY, '{"type":"DECIMAL","value":"' + "9" * 20 * MB + '"}', 1, "]}")
    ),
    "decimal exponent": Ask(
        "/v1/query", many(QUERY, '{"type":"DECIMAL","value":"1e999999999"}', 20_000, "]}")
    ),
    "types": Ask("/v1/query", many(QUERY, '{"type":"MONEY","value":1}', 100_000, "]}")),
    "long type": Ask(
        "/v1/query", many(QUERY, '{"type":"' + "M" * 30 * MB + '","value":1}', 1, "]}")
    ),
    "unknown members": Ask("/v1/query", partial(str.encode, "{" + members(100_000) + "}")),
    "named": Ask(
        "/v1/query",
        partial(str.encode, '{"sql":"SELECT 1","parameters":{' + members(150_000) + "}}"),
    ),
    "duplicates": Ask("/v1/query", many("{", '"sql":"SELECT 1"', 400_000, "}"), JSON, (200,)),
    "depth": Ask("/v1/query", repeated(b"", b"[", 30 * MB, b"")),
    "balanced depth": Ask("/v1/query", lambda: b"[" * 300_000 + b"]" * 300_000),
    "nests": Ask("/v1/query", many("[", "[" * 500 + "]" * 500, 30_000, "]")),
    "long nests": Ask("/v1/query", lambda: b"[" * 400 + b'"' + b"x" * 30 * MB + b'"' + b"]" * 400),
    "long text": Ask("/v1/query", repeated(b'{"sql":"', b"x", 60 * MB, b'"}')),
    "escapes": Ask("/v1/query", repeated(b'{"sql":"', b"\\u0041", 10 * MB, b'"}')),
    "white space": Ask("/v1/query", repeated(b"", b" ", 60 * MB, b"x")),
    "cut": Ask("/v1/query", repeated(b'{"sql":"', b"x", 60 * MB, b"")),
    "no text": Ask("/v1/query", repeated(b'{"sql":"', b"\xff", 60 * MB, b'"}')),
    "explain": Ask("/v1/explain", many('{"sql":1,"parameters":[', "[]", 200_000, "]}")),
    "statements": Ask("/v1/transactions", many('{"statements":[', "{}", 400_000, "]}")),
    "other statements": Ask(
        "/v1/transactions",
        lambda: msgspec.json.encode(
            {"statements": [{"sql": f"SELECT {number}"} for number in range(100_000)]}
        ),
    ),
    "reads": Ask("/v1/transactions", many(WRITE + '"reads":[', '["a","0",1]', 120_000, "]}")),
    "conditions": Ask("/v1/transactions", many(WRITE + '"preconditions":[', "{}", 400_000, "]}")),
    "numbers": Ask(
        "/v1/transactions",
        many(WRITE + '"replay":{"now":1,"numbers":[', '["a",1,1]', 120_000, "]}}"),
    ),
    "row counts": Ask(
        "/v1/schema/plan",
        partial(str.encode, '{"ddl":"","row_counts":{' + members(150_000, '"x"') + "}}"),
    ),
    "loaded numbers": Ask(
        "/v1/loads/finished",
        partial(
            str.encode,
            '{"number":1,"relation":"r","start":"","end":null,"rows":1,"numbers":{'
            + members(150_000)
            + "}}",
        ),
    ),
    "list of loaded numbers": Ask(
        "/v1/loads/finished",
        many(
            '{"number":1,"relation":"r","start":"","end":null,"rows":1,"numbers":{"n":[',
            '"x"',
            400_000,
            "]}}",
        ),
    ),
    "roots": Ask("/v1/schema/plan", many('{"ddl":"","roots":[', '"x"', 400_000, "]}")),
    "verify": Ask("/v1/verify", many('{"names":[', '"x"', 400_000, "]}")),
    "repair": Ask("/v1/repair/v", many('{"keys":[', '"?"', 400_000, "]}")),
    "builds": Ask("/v1/builds", many('{"names":[', '"x"', 400_000, "]}")),
    "splits": Ask(
        "/v1/loads",
        many('{"relations":["x"],"identity":"x","splits":{"x":[', '"0"', 400_000, "]}}"),
    ),
    "grants": Ask(
        "/v1/keys",
        partial(
            str.encode, '{"name":"x","role":"writer","grants":{' + members(150_000, "1") + "}}"
        ),
    ),
    "puts": Ask("/v1/puts", puts(1, 2 * MB), BYTES),
    "puts of many tables": Ask("/v1/puts", puts(20_000, 1), BYTES),
    "puts that fit": Ask("/v1/puts", puts(1, 300_000), BYTES, (404,)),
    "wide CSV": Ask("/v1/load/customer", repeated(b"", b",", 30 * MB, b"\n"), CSV),
    "long CSV": Ask(
        "/v1/load/customer",
        lambda: b"c_id\n" + b"\n".join(b"%d" % number for number in range(900_000)),
        CSV,
        (409, 413, 422),
    ),
    "CSV that fits": Ask(
        "/v1/load/kinds",
        lambda: b"k_id\n" + b"\n".join(b"%d" % number for number in range(100_000)),
        CSV,
        (200, 409),
    ),
    "quoted CSV": Ask(
        "/v1/load/customer", repeated(b"c_id,c_name\n", b'1,"x"\n', 900_000, b'x,"y"\n'), CSV
    ),
    "too many lines": Ask("/v1/load/customer", repeated(b"c_id\n", b"1\n", 20 * MB, b""), CSV),
    "open quote": Ask("/v1/load/customer", repeated(b'c_id\n"', b'""', 20 * MB, b""), CSV),
    "texts as numbers": Ask("/v1/load/customer", arrow(pa.array(["x"] * 500_000)), ARROW),
    "empty rows": Ask("/v1/load/customer", arrow(pa.nulls(900_000)), ARROW, (409, 413, 422)),
    "dictionary": Ask(
        "/v1/load/customer",
        arrow(
            pa.DictionaryArray.from_arrays(pa.nulls(99_999, pa.int32()).fill_null(0), ["x" * MB])
        ),
        ARROW,
    ),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    process = start(tmp_path_factory.mktemp("bounded") / "data")
    try:
        url = process.stdout.readline().split()[4]
        with httpx.Client(base_url=url, timeout=120) as client:
            planned = client.post("/v1/schema/plan", json=PLAN).json()
            applied = client.post("/v1/schema/apply", json=PLAN | {"plan_id": planned["plan_id"]})
            assert applied.status_code == 200
            yield client
    finally:
        process.kill()
        process.communicate()


class Watch:
    """Requests `/livez` repeatedly; `longest_s` is the longest response time."""

    def __init__(self, url: str) -> None:
        self.longest_s = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(urlsplit(url),))

    def _run(self, url) -> None:
        connection = http.client.HTTPConnection(url.hostname, url.port, timeout=60)
        while not self._ended.is_set():
            began = time.monotonic()
            connection.request("GET", "/livez")
            assert connection.getresponse().read()
            self.longest_s = max(self.longest_s, time.monotonic() - began)
            time.sleep(0.005)
        connection.close()

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


def shortest_stall(server, ask: Callable[[], None]) -> float:
    stalls = []
    for _ in range(TRIES):
        with Watch(str(server.base_url)) as watch:
            time.sleep(0.05)
            ask()
        stalls.append(watch.longest_s)
        if stalls[-1] < STALL_S:
            break
    return min(stalls)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_body_does_not_block_other_requests(server, name):
    path, make, media_type, statuses = HOSTILE[name]
    body = make()

    def ask() -> None:
        response = server.post(path, content=body, headers={"Content-Type": media_type})
        assert response.status_code in statuses, response.text[:500]
        assert len(response.content) <= ANSWER_BYTES

    assert shortest_stall(server, ask) < STALL_S


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/v1/schema/graph?" + "&".join(f"format={n}" for n in range(4_000)), {}),
        ("/v1/schema/graph?format=" + "x" * 50_000, {}),
        ("/v1/status?" + "&" * 60_000, {}),
        ("/v1/views/" + "x" * 50_000, {}),
        ("/v1/transactions/" + "%41" * 20_000, {}),
        ("/v1/status", {f"X-{n}": "x" for n in range(5_000)}),
        ("/v1/status", {"Cookie": "a=b;" * 12_000}),
        ("/v1/status", {"Accept": "," * 60_000}),
        ("/v1/status", {"Authorization": "Bearer " + "x" * 60_000}),
    ],
)
def test_hostile_targets_and_headers_do_not_block_other_requests(server, path, headers):
    def ask() -> None:
        response = server.get(path, headers=headers)
        assert response.status_code in (200, 404, 422, 431)
        if response.is_error:
            assert len(response.content) <= ANSWER_BYTES

    assert shortest_stall(server, ask) < STALL_S


def test_many_slow_bodies_at_once_do_not_block_other_requests(server):
    body = HOSTILE["slow floats"].body()

    def send() -> None:
        with httpx.Client(base_url=server.base_url, timeout=120) as client:
            client.post("/v1/query", content=body, headers={"Content-Type": JSON})

    def ask() -> None:
        threads = [threading.Thread(target=send) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert shortest_stall(server, ask) < STALL_S


# ---------------------------------------------------------------- reading in pieces


@pytest.mark.parametrize(
    "document",
    [
        {"sql": "SELECT 1", "parameters": list(range(20_000))},
        {"a": {"b": [{"c": 'é\n"\\' * 9_000}, None, True, 1.5, -3, "", {}, []]}},
        ["x" * SHORT_BYTES, {"y" * SHORT_BYTES: ["z"] * 3}],
        "x" * 2 * SHORT_BYTES,
    ],
)
@pytest.mark.parametrize("indent", [None, 1, 3_000])
def test_a_long_body_is_parsed_like_a_short_one(document, indent):
    body = json.dumps(document, indent=indent).encode()
    assert len(body) > SHORT_BYTES
    assert read_json(body) == msgspec.json.decode(body) == document


@pytest.mark.parametrize(
    "content",
    [
        b'{"a": [%s]}',
        b'{"a": [1, %s], "b": 1}',
        b"[%s",
        b"%s 1",
        b'{"a": "\xff%s"}',
        b'{"\xff": "%s"}',
        b'{"a": "\\ud800%s"}',
        b'{"a": NaN, "b": "%s"}',
        b'{"a": 1e999, "b": "%s"}',
        b'{"a": 01, "b": "%s"}',
        b"{'a': \"%s\"}",
        b'{"a": "%s",}',
        b'["%s" 1]',
        b'\xef\xbb\xbf"%s"',
    ],
)
def test_a_long_invalid_body_is_refused_like_a_short_one(content):
    for length in (1, 2 * SHORT_BYTES):
        with pytest.raises((msgspec.MsgspecError, UnicodeDecodeError)):
            read_json(content % (b"x" * length))


def test_too_many_values_are_refused_before_parsing():
    few, more = (b"[" + b"[]," * (MAX_VALUES // 2 - n) + b"0]" for n in (1, 0))
    assert len(read_json(few)) == MAX_VALUES // 2
    with pytest.raises(LimitExceeded, match="more than 500000 values"):
        read_json(more)


def unbounded(schema: object, path: tuple[str | int, ...] = (), guarded: bool = False):
    """Find places in a model's schema that may report one error per item without a bound."""
    if isinstance(schema, dict):
        kind = schema.get("type")
        if isinstance(kind, dict):  # these are the fields of a model, one of which is called type
            kind = None
        items = schema.get("items_schema") or schema.get("values_schema") or {"type": "any"}
        may_fail = isinstance(items, dict) and items["type"] != "any"
        if (kind == "list" and may_fail and not schema.get("fail_fast")) or (
            kind == "dict" and may_fail and not guarded
        ):
            yield path
        if kind in {"set", "frozenset"} or schema.get("variadic_item_index") is not None:
            yield path
        for key, inner in schema.items():
            yield from unbounded(inner, (*path, key), kind == "function-before")
    elif isinstance(schema, list | tuple):
        for place, inner in enumerate(schema):
            yield from unbounded(inner, (*path, place))


def test_no_model_of_a_body_reports_an_unbounded_number_of_errors():
    """Lists are validated up to their first error, and the members of objects are limited."""
    bodies = [
        model
        for model in vars(request_models).values()
        if isinstance(model, type) and issubclass(model, request_models.Body)
    ]
    assert len(bodies) > 15
    found = {b.__name__: list(unbounded(b.__pydantic_core_schema__)) for b in bodies}
    assert {name: places for name, places in found.items() if places} == {}


def test_the_check_finds_a_list_and_an_object_without_a_bound():
    class Free(request_models.Body):
        numbers: list[int]
        names: dict[str, int]

    assert len(list(unbounded(Free.__pydantic_core_schema__))) == 2
