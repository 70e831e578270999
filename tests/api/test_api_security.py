"""Every principal × route × relation × verb against an independent table of expectations.

The expectations do not use the code under test: `ROUTES` states the role that each route needs,
`asks` the relations that each request reads and writes, and `expected` combines both.
"""

from __future__ import annotations

import base64
import itertools
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import pytest
from fastapi.routing import APIRoute

from hornbeam_server.api.rest.dependencies import tagged
from tests.api.api_world import PLAN
from tests.api.security_world import VIEW, secure_world

RANK = {"none": 0, "reader": 1, "writer": 2, "admin": 3}
ROUTES = {
    ("GET", "/livez"): "none",
    ("GET", "/readyz"): "none",
    ("GET", "/metrics"): "reader",
    ("GET", "/v1/status"): "reader",
    ("POST", "/v1/query"): "reader",
    ("POST", "/v1/explain"): "reader",
    ("POST", "/v1/transactions"): "writer",
    ("GET", "/v1/transactions"): "admin",
    ("GET", "/v1/statements"): "admin",
    ("DELETE", "/v1/statements"): "admin",
    ("GET", "/v1/transactions/{transaction_id}"): "writer",
    ("POST", "/v1/schema/plan"): "admin",
    ("POST", "/v1/schema/apply"): "admin",
    ("POST", "/v1/schema/alter"): "admin",
    ("POST", "/v1/schema/restart"): "admin",
    ("POST", "/v1/schema/comment"): "admin",
    ("GET", "/v1/schema"): "reader",
    ("GET", "/v1/schema/graph"): "reader",
    ("GET", "/v1/views"): "reader",
    ("GET", "/v1/views/{name}"): "reader",
    ("POST", "/v1/verify"): "reader",
    ("GET", "/v1/subscribe"): "reader",
    ("POST", "/v1/repair/{name}"): "admin",
    ("POST", "/v1/rebuild"): "admin",
    ("POST", "/v1/load"): "writer",
    ("POST", "/v1/load/{relation}"): "writer",
    ("POST", "/v1/exports"): "admin",
    ("DELETE", "/v1/exports/{name}"): "admin",
    ("POST", "/v1/changes"): "admin",
    ("POST", "/v1/puts"): "admin",
    ("GET", "/v1/groups"): "reader",
    ("POST", "/v1/groups/rebuild"): "admin",
    ("POST", "/v1/groups/{group}/batches"): "admin",
    ("POST", "/v1/groups/{group}/refresh"): "admin",
    ("POST", "/v1/groups/{group}/batches/{upto}"): "admin",
    ("POST", "/v1/groups/{group}/batches/{upto}/results"): "admin",
    ("GET", "/v1/builds"): "admin",
    ("POST", "/v1/builds"): "admin",
    ("POST", "/v1/built"): "admin",
    ("POST", "/v1/build_failures"): "admin",
    ("DELETE", "/v1/builds/{name}"): "admin",
    ("GET", "/v1/loads"): "admin",
    ("POST", "/v1/loads"): "admin",
    ("POST", "/v1/loads/finished"): "admin",
    ("POST", "/v1/loads/publish"): "admin",
    ("DELETE", "/v1/loads"): "admin",
    ("POST", "/v1/keys"): "admin",
    ("GET", "/v1/keys"): "admin",
    ("DELETE", "/v1/keys/{key_id}"): "admin",
}
"""Every route with the minimum role that may call it. A route without a row here is an error."""
PAGES = {
    "/",
    "/console/{name}",
    "/docs",
    "/docs/start.js",
    "/docs/swagger-ui-bundle.js",
    "/docs/swagger-ui.css",
}
"""Pages without authentication that the OpenAPI document leaves out."""
OTHERS = {"/openapi.json"}
"""The remaining routes, which FastAPI serves without authentication."""


class Asker(NamedTuple):
    """A principal; `grants` None means access to every relation."""

    name: str
    role: str
    grants: dict[str, str] | None = None


ASKERS = [
    Asker("no key", "none"),
    Asker("reader", "reader"),
    Asker("writer", "writer"),
    Asker("admin", "admin"),
    Asker("reader of nothing", "reader", {}),
    Asker("reader of customers", "reader", {"customer": "read"}),
    Asker("reader of customers and orders", "reader", {"customer": "read", "orders": "read"}),
    Asker("reader of the view", "reader", {VIEW: "read"}),
    Asker("writer of nothing", "writer", {}),
    Asker("writer who reads orders", "writer", {"orders": "read"}),
    Asker("writer of orders", "writer", {"orders": "write"}),
    Asker(
        "writer of orders who reads customers", "writer", {"orders": "write", "customer": "read"}
    ),
    Asker("writer of all", "writer", {"orders": "write", "customer": "write", "kinds": "write"}),
]


class Ask(NamedTuple):
    """A request, the minimum role that may send it, and the relations it reads and writes."""

    what: str
    method: str
    path: str
    content: dict[str, object]
    role: str
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    done: int = 200
    """The status when the request is allowed."""
    everything: bool = False
    """Whether only principals whose `grants` are None may send it."""


def expected(asker: Asker, ask: Ask) -> int:
    if RANK[ask.role] > 0 and asker.role == "none":
        return 401
    if RANK[asker.role] < RANK[ask.role]:
        return 403
    if asker.grants is not None:
        writable = {name for name, right in asker.grants.items() if right == "write"}
        if not ask.reads <= set(asker.grants) or not ask.writes <= writable or ask.everything:
            return 403
    return ask.done


KEYS = {"customer": "c_id", "orders": "o_id", "kinds": "k_id", VIEW: "o_id"}
BASES = ("customer", "orders", "kinds")
UPDATED = {"customer": "c_balance", "orders": "o_total", "kinds": "k_flag"}
NEW = {
    "customer": "(c_id, c_name) VALUES ({n}, 'new')",
    "orders": "(o_id) VALUES ({n})",
    "kinds": "(k_id) VALUES ({n})",
}
number = itertools.count(1_000)


def asks() -> Iterator[Ask]:
    yield from routes()
    for name in KEYS:
        yield from reads_of(name)
    for name in BASES:
        yield from writes_of(name)
    for one, other in itertools.product(BASES, KEYS):
        if one != other:
            yield from mixtures_of(one, other)


def routes() -> Iterator[Ask]:
    """Yield requests for every route that need no grant on a single relation."""
    nothing: dict[str, object] = {}
    for path in ("/livez", "/readyz"):
        yield Ask(path, "GET", path, nothing, "none")
    for path in ("/metrics", "/v1/status", "/v1/schema", "/v1/schema/graph", "/v1/views"):
        yield Ask(path, "GET", path, nothing, "reader")
    for form in ("json", "mermaid"):
        yield Ask(form, "GET", f"/v1/schema/graph?format={form}", nothing, "reader")
    yield Ask("constant", "POST", "/v1/query", body(sql="SELECT 1"), "reader")
    yield Ask("plan", "POST", "/v1/schema/plan", body(**PLAN), "admin")
    stale = body(**PLAN, plan_id="0" * 16)
    yield Ask("apply", "POST", "/v1/schema/apply", stale, "admin", done=409)
    alter = body(sql="DROP TABLE IF EXISTS nothing")
    yield Ask("alter", "POST", "/v1/schema/alter", alter, "admin")
    restart = body(sql="ALTER SEQUENCE nothing RESTART")
    yield Ask("restart", "POST", "/v1/schema/restart", restart, "admin", done=422)
    comment = body(sql="COMMENT ON TABLE nothing IS 'x'")
    yield Ask("comment", "POST", "/v1/schema/comment", comment, "admin", done=422)
    yield Ask("export", "POST", "/v1/exports", body(), "admin")
    yield Ask("end export", "DELETE", "/v1/exports/1-0", nothing, "admin", done=404)
    yield Ask("changes", "POST", "/v1/changes", body(), "admin")
    puts = {
        "content": msgspec.msgpack.encode({"ts": 0, "writes": {"v.x.0": []}}),
        "headers": {"Content-Type": "application/octet-stream"},
    }
    yield Ask("put", "POST", "/v1/puts", puts, "admin", done=404)
    yield Ask("groups", "GET", "/v1/groups", nothing, "reader")
    yield Ask("rebuild", "POST", "/v1/groups/rebuild", body(views=["no"]), "admin", done=404)
    yield Ask("rebuild views", "POST", "/v1/rebuild", body(views=["no"]), "admin", done=404)
    yield Ask("batch", "POST", "/v1/groups/no/batches", nothing, "admin", done=404)
    yield Ask("refresh", "POST", "/v1/groups/no/refresh", nothing, "admin", done=404)
    yield Ask("batch done", "POST", "/v1/groups/no/batches/1", body(), "admin", done=404)
    result = body(view="v", digest="0" * 64)
    yield Ask("agree", "POST", "/v1/groups/no/batches/1/results", result, "admin", done=404)
    yield Ask("builds", "GET", "/v1/builds", nothing, "admin")
    yield Ask("build", "POST", "/v1/builds", body(names=["nowhere"]), "admin", done=404)
    part = body(rows={"v.x.0": 1}, start="", end=None, scanned=1)
    yield Ask("finished", "POST", "/v1/built", part, "admin", done=404)
    failed = body(table="nowhere", error="none")
    yield Ask("fail", "POST", "/v1/build_failures", failed, "admin", done=404)
    yield Ask("cancel", "DELETE", "/v1/builds/nowhere", nothing, "admin", done=404)
    yield Ask("loads", "GET", "/v1/loads", nothing, "admin")
    load = body(relations=["nowhere"], identity="files")
    yield Ask("load by Spark", "POST", "/v1/loads", load, "admin", done=404)
    loaded = body(number=1, relation="orders", start="", end=None, rows=1)
    yield Ask("loaded", "POST", "/v1/loads/finished", loaded, "admin", done=404)
    yield Ask("publish", "POST", "/v1/loads/publish", body(number=1), "admin", done=404)
    yield Ask("cancel load", "DELETE", "/v1/loads", nothing, "admin", done=404)
    new_key = body(name="another", role="reader")
    yield Ask("new key", "POST", "/v1/keys", new_key, "admin")
    yield Ask("keys", "GET", "/v1/keys", nothing, "admin")
    yield Ask("statements", "GET", "/v1/statements", nothing, "admin")
    yield Ask("reset", "DELETE", "/v1/statements", nothing, "admin")
    yield Ask("transactions", "GET", "/v1/transactions", nothing, "admin")
    yield Ask("revoke", "DELETE", f"/v1/keys/{'0' * 12}", nothing, "admin", done=404)
    yield Ask("verify all", "POST", "/v1/verify", body(), "reader", everything=True)
    yield Ask("repair all", "POST", "/v1/verify", body(repair=True), "admin")
    repair = body(names=[VIEW], repair=True)
    yield Ask("repair", "POST", "/v1/verify", repair, "admin")
    yield Ask("repair rows", "POST", f"/v1/repair/{VIEW}", body(keys=["FQE="]), "admin")
    unknown = f"/v1/transactions/{'0' * 32}"
    yield Ask("outcome", "GET", unknown, nothing, "writer", done=404)
    yield Ask("unknown view", "GET", "/v1/views/nowhere", nothing, "reader", done=404)
    yield Ask("unknown relation", "POST", "/v1/load/nowhere", csv("a\n1\n"), "writer", done=404)


def reads_of(name: str) -> Iterator[Ask]:
    key, reads = KEYS[name], frozenset({name})
    queries = {
        "point": f"SELECT {key} FROM {name} WHERE {key} = 1",
        "star": f"SELECT * FROM {name}",
        "quoted": f'SELECT count(*) FROM "{name}" AS x',
        "aggregate": f"SELECT count(*) FROM {name}",
        "subquery in FROM": f"SELECT n FROM (SELECT {key} AS n FROM {name}) AS s",
        "subquery in WHERE": f"SELECT 1 WHERE EXISTS (SELECT 1 FROM {name})",
        "subquery as value": f"SELECT (SELECT max({key}) FROM {name})",
        "IN": f"SELECT n FROM range(3) r(n) WHERE n IN (SELECT {key} FROM {name})",
        "CTE": f"WITH c AS (SELECT {key} FROM {name}) SELECT * FROM c",
        "CTE that is not used": f"WITH c AS (SELECT {key} FROM {name}) SELECT 1",
        "CTE of its name": f"WITH {name} AS (SELECT {key} FROM {name}) SELECT * FROM {name}",
        "union": f"SELECT 1 UNION ALL SELECT {key} FROM {name}",
        "except": f"SELECT 1 EXCEPT SELECT {key} FROM {name}",
        "self join": f"SELECT 1 FROM {name} a JOIN {name} b ON a.{key} = b.{key}",
        "lateral": f"SELECT * FROM range(2) r(n), LATERAL (SELECT {key} FROM {name}) AS l",
        "semi join": f"SELECT n FROM range(3) r(n) SEMI JOIN {name} ON n = {key}",
        "anti join": f"SELECT n FROM range(3) r(n) ANTI JOIN {name} ON n = {key}",
        "order": f"SELECT n FROM range(2) r(n) ORDER BY (SELECT max({key}) FROM {name})",
        "FROM first": f"FROM {name}",
    }
    for what, sql in queries.items():
        yield Ask(what, "POST", "/v1/query", body(sql=sql), "reader", reads)
        yield Ask(f"explain {what}", "POST", "/v1/explain", body(sql=sql), "reader", reads)
    traced = body(sql=queries["point"], trace=True, use_views=False, consistency="strong")
    yield Ask("traced", "POST", "/v1/query", traced, "reader", reads)
    arrow = body(sql=queries["star"], headers={"Accept": "application/vnd.apache.arrow.stream"})
    yield Ask("arrow", "POST", "/v1/query", arrow, "reader", reads)
    shadowed = f"WITH {name} AS (SELECT 1 AS {key}) SELECT * FROM {name}"
    yield Ask("shadowed by a CTE", "POST", "/v1/query", body(sql=shadowed), "reader")
    wrong = f"SELECT nothing FROM {name}"
    yield Ask("unknown column", "POST", "/v1/query", body(sql=wrong), "reader", reads, done=422)
    path = f"/v1/subscribe?name={name}&lasts_s=0"
    yield Ask("subscribe", "GET", path, {}, "reader", reads)
    if name == VIEW:
        yield Ask("view", "GET", f"/v1/views/{name}", {}, "reader", reads)
        yield Ask("verify", "POST", "/v1/verify", body(names=[name]), "reader", reads)


def writes_of(name: str) -> Iterator[Ask]:
    key, column, names = KEYS[name], UPDATED[name], frozenset({name})

    def insert() -> str:
        return f"INSERT INTO {name} {NEW[name].format(n=next(number))}"

    statements = {
        "insert": insert,
        "insert returning": lambda: insert() + " RETURNING *",
        "upsert": lambda: (
            f"{insert()} ON CONFLICT ({key}) DO UPDATE SET {column} = excluded.{column}"
        ),
        "update": lambda: f"UPDATE {name} SET {column} = NULL WHERE {key} = -1",
        "update with a search": lambda: f"UPDATE {name} SET {column} = NULL WHERE {key} < -1",
        "delete": lambda: f"DELETE FROM {name} WHERE {key} = -1",
        "delete returning": lambda: f"DELETE FROM {name} WHERE {key} < -1 RETURNING {key}",
    }
    for what, make in statements.items():
        sent = {"statements": [{"sql": make()}]}
        yield Ask(what, "POST", "/v1/transactions", body(**sent), "writer", names, names)
        dry = {"statements": [{"sql": make()}], "dry_run": True}
        yield Ask(f"dry {what}", "POST", "/v1/transactions", body(**dry), "writer", names, names)
        pending = body(sql="SELECT 1", pending=[{"sql": make()}])
        yield Ask(f"pending {what}", "POST", "/v1/query", pending, "writer", names, names)
    rows = NEW[name].split(" VALUES ")[0].strip("()") + "\n"
    values = "{n},new\n" if name == "customer" else "{n}\n"
    content = csv(rows.replace(" ", "") + values.format(n=next(number)))
    yield Ask("load", "POST", f"/v1/load/{name}", content, "writer", names, names)
    other = csv(rows.replace(" ", "") + values.format(n=next(number)))["content"]
    part = {"relation": name, "content": base64.b64encode(other).decode()}
    yield Ask("load together", "POST", "/v1/load", body(parts=[part]), "writer", names, names)


def mixtures_of(written: str, read: str) -> Iterator[Ask]:
    """Yield requests that write one relation and read another."""
    key, column, other = KEYS[written], UPDATED[written], KEYS[read]
    reads, writes = frozenset({read, written}), frozenset({written})
    statements = {
        "insert select": f"INSERT INTO {written} ({key}) SELECT {other} FROM {read} WHERE false",
        "insert select CTE": (
            f"WITH c AS (SELECT {other} FROM {read} WHERE false)"
            f" INSERT INTO {written} ({key}) SELECT * FROM c"
        ),
        "update where": (
            f"UPDATE {written} SET {column} = NULL"
            f" WHERE {key} IN (SELECT {other} FROM {read} WHERE false)"
        ),
        "delete where": (
            f"DELETE FROM {written} WHERE {key} IN (SELECT {other} FROM {read} WHERE false)"
        ),
    }
    for what, sql in statements.items():
        sent = body(statements=[{"sql": sql}])
        yield Ask(what, "POST", "/v1/transactions", sent, "writer", reads, writes)
    update = {"sql": f"UPDATE {written} SET {column} = NULL WHERE {key} = -1"}
    join = f"SELECT 1 FROM {written} a LEFT JOIN {read} b ON a.{key} = b.{other}"
    yield Ask("join", "POST", "/v1/query", body(sql=join), "reader", reads)
    seen = body(sql=f"SELECT count(*) FROM {read}", pending=[update])
    yield Ask("read over pending", "POST", "/v1/query", seen, "writer", reads, writes)
    if read in BASES:
        both = [update, {"sql": f"DELETE FROM {read} WHERE {other} = -1"}]
        sent = body(statements=both)
        yield Ask("two statements", "POST", "/v1/transactions", sent, "writer", reads, reads)
        absent = [{"relation": read, "key": [-5], "if_absent": True}]
        sent = body(statements=[update], preconditions=absent)
        yield Ask("precondition", "POST", "/v1/transactions", sent, "writer", reads, writes)
        unread = [[read, "", None]]
        sent = body(statements=[update], reads=unread)
        yield Ask(
            "validated read", "POST", "/v1/transactions", sent, "writer", reads, writes, done=422
        )


def body(headers: dict[str, str] | None = None, **document: object) -> dict[str, object]:
    return {"json": document, "headers": headers}


def csv(text: str) -> dict[str, object]:
    return {"content": text.encode(), "headers": {"Content-Type": "text/csv"}}


# ---------------------------------------------------------------- the tests


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    with secure_world(tmp_path_factory.mktemp("security")) as served:
        yield served


@pytest.fixture(scope="module")
def askers(secured):
    return {
        asker.name: None if asker.role == "none" else secured.made(asker.role, asker.grants)
        for asker in ASKERS
    }


def test_the_table_has_a_row_for_every_route(secured):
    routes = list(routes_of(secured.world.app))
    ours = [route for route in routes if isinstance(route, APIRoute)]
    assert {(method, route.path_format) for route in ours for method in route.methods} == {
        *ROUTES,
        *(("GET", path) for path in PAGES),
    }
    assert {route.path_format for route in routes if route not in ours} == OTHERS


def routes_of(app):
    """Yield all routes of the app, with those of included routers."""
    for route in app.routes:
        included = getattr(route, "original_router", None)
        yield from [route] if included is None else routes_of(included)


def test_a_route_without_a_declared_role_cannot_be_created():
    router = tagged("x")
    with pytest.raises(KeyError):
        router.get("/x")(lambda: None)


def test_every_route_is_tested_and_needs_the_role_of_the_table(secured):
    patterns = {
        (method, route.path_format): route.path_regex
        for route in routes_of(secured.world.app)
        if isinstance(route, APIRoute)
        for method in route.methods
    }
    least = dict.fromkeys(ROUTES, "admin")
    asked = set()
    for ask in asks():
        path = ask.path.partition("?")[0]
        (route,) = [r for r, p in patterns.items() if r[0] == ask.method and p.match(path)]
        asked.add(route)
        least[route] = min(least[route], ask.role, key=RANK.__getitem__)
    assert asked == set(ROUTES)
    assert least == ROUTES


def test_every_request_of_every_principal_has_the_expected_status(secured, askers):
    wrong, seen = [], Counter()
    for asker in ASKERS:
        for ask in asks():
            answer = secured.request(askers[asker.name], ask.method, ask.path, **ask.content)
            seen[answer.status_code] += 1
            if answer.status_code != expected(asker, ask):
                wrong.append((asker.name, ask, answer.status_code, answer.text[:300]))
    assert not wrong, f"{len(wrong)} mismatches, such as {wrong[:5]}"
    assert seen[200] > 800, seen
    assert seen[401] > 150, seen
    assert seen[403] > 800, seen


@pytest.mark.parametrize("presented", ["x", "hb_", "hb_000000000000_" + "0" * 64, "é"])
def test_an_invalid_key_is_refused_on_every_route(secured, presented):
    for (method, path), role in ROUTES.items():
        if role != "none":
            answer = secured.request(presented, method, path)
            assert answer.status_code == 401, (method, path)
            assert answer.headers["WWW-Authenticate"] == 'Bearer realm="hornbeam"'
            assert answer.json()["code"] == "unauthenticated"


@pytest.mark.parametrize(
    "path", ["/nowhere", "/v1", "/v1/keys/", "/livez/", "/livez/../v1", "/docs/", "/docs/x.js"]
)
def test_unknown_paths_need_authentication_too(secured, path):
    assert secured.request(None, "GET", path).status_code == 401


def test_only_the_bearer_scheme_is_accepted(secured):
    client, root = secured.world.client, secured.root
    for value in (f"Basic {root}", root, f"Token {root}", f"Bearer{root}"):
        assert client.get("/v1/status", headers={"Authorization": value}).status_code == 401
    answer = client.get("/v1/status", headers={"Authorization": f"bearer  {root}"})
    assert answer.status_code == 200


def test_only_the_header_carries_a_key(secured):
    for place in ({"params": {"key": secured.root}}, {"cookies": {"key": secured.root}}):
        request = secured.world.client.build_request("GET", "/v1/status", **place)
        del request.headers["Authorization"]
        assert secured.world.client.send(request).status_code == 401


def test_openapi_states_which_routes_need_a_key(secured):
    document = secured.request(None, "GET", "/openapi.json").json()
    assert document["components"]["securitySchemes"]["apiKey"]["scheme"] == "bearer"
    for (method, path), role in ROUTES.items():
        operation = document["paths"][path][method.lower()]
        assert ("security" in operation) == (role != "none")
        assert ({"401", "403"} <= set(operation["responses"])) == (role != "none")


def test_without_authentication_openapi_requires_no_key(shop):
    assert "security" not in str(shop.client.get("/openapi.json").json()["paths"])
    assert shop.client.get("/v1/keys").json() == []
