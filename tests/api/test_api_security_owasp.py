"""OWASP's API Security Top 10 (2023), where it applies, as named tests.

Does not apply: API10, unsafe consumption of other APIs (the server calls its own services only).
"""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from hornbeam_server.api.security import api_keys
from hornbeam_server.api.security.tls import require_safe
from hornbeam_server.node.settings import Settings
from hornbeam_server.schema.errors import InvalidRequest
from tests.api.api_world import PLAN, world
from tests.api.security_world import VIEW, SecureWorld, secure_world


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("owasp")
    options = {"max_concurrent_requests_per_key": 2, "max_body_bytes": 100_000}
    with secure_world(folder, audit_log=folder / "audit.log", **options) as served:
        yield served


NUMBERS = itertools.count(5_000)


def new_id() -> int:
    return next(NUMBERS)


# ---------------------------------------------------------------- API1 object level authorisation


def test_api1_anothers_idempotency_key_reveals_no_result(secured):
    """B repeats A's request with A's idempotency key; it runs as B's own insert and fails."""
    a, b = secured.made("writer"), secured.made("writer")
    number, header = new_id(), {"Idempotency-Key": "order-1"}
    sql = f"INSERT INTO orders (o_id, o_total) VALUES ({number}, 7) RETURNING o_total"
    first = secured.transact(a, sql, headers=header)
    assert first.json()["statements"][0]["rows"] == [["7.00"]]
    again = secured.transact(a, sql, headers=header)
    assert again.json()["transaction_id"] == first.json()["transaction_id"]
    other = secured.transact(b, sql, headers=header)
    assert (other.status_code, other.json()["code"]) == (409, "unique-violation")
    assert "rows" not in other.text


def test_api1_using_an_idempotency_key_does_not_block_its_use_by_others(secured):
    """B uses the idempotency key first; A's transaction still runs."""
    a, b = secured.made("writer"), secured.made("writer")
    header = {"Idempotency-Key": "order-2"}
    done = [
        secured.transact(key, f"INSERT INTO orders (o_id) VALUES ({new_id()})", headers=header)
        for key in (b, a)
    ]
    assert [answer.status_code for answer in done] == [200, 200]
    assert len({answer.json()["transaction_id"] for answer in done}) == 2


def test_api1_idempotency_keys_of_loads_are_separate_per_principal(secured):
    a, b = secured.made("writer"), secured.made("writer")
    headers = {"Idempotency-Key": "load-1", "Content-Type": "text/csv"}
    for key in (a, b):
        content = f"o_id\n{new_id()}\n"
        answer = secured.request(key, "POST", "/v1/load/orders", content=content, headers=headers)
        assert answer.status_code == 200


def test_api1_the_outcome_of_anothers_transaction_is_unknown(secured):
    a, b = secured.made("writer"), secured.made("writer")
    done = secured.transact(a, f"INSERT INTO orders (o_id) VALUES ({new_id()}) RETURNING *").json()
    path = f"/v1/transactions/{done['transaction_id']}"
    assert secured.request(a, "GET", path).json()["outcome"] == "committed"
    assert secured.request(secured.root, "GET", path).json()["outcome"] == "committed"
    hidden, none = secured.request(b, "GET", path), f"/v1/transactions/{'0' * 32}"
    assert hidden.status_code == 404
    missing = secured.request(b, "GET", none).text.replace("0" * 32, done["transaction_id"])
    assert hidden.text == missing, "another's transaction looks as one that never was"


def test_api1_an_unfinished_transaction_is_hidden_from_others(secured):
    a, b = secured.made("writer"), secured.made("writer")
    unfinished, number = secured.world.database.manager.unfinished, "f" * 32
    unfinished[number] = api_keys.id_in(a)
    try:
        found = [
            secured.request(key, "GET", f"/v1/transactions/{number}").status_code
            for key in (a, b, secured.root)
        ]
    finally:
        del unfinished[number]
    assert found == [200, 404, 200]


def test_api1_versions_of_unreadable_rows_stay_hidden(secured):
    """Otherwise preconditions and validated reads would reveal keys and times of changes."""
    writer = secured.made("writer", {"orders": "write"})
    update = "UPDATE orders SET o_total = 1 WHERE o_id = -1"
    for more in (
        {"preconditions": [{"relation": "customer", "key": [1], "if_absent": True}]},
        {"preconditions": [{"relation": "customer", "key": [1], "if_version": 5}]},
        {"reads": [["customer", "1501", 5]]},
        {"reads": [["customer_c_email_key", "1501", 5]]},
    ):
        refused = secured.transact(writer, update, **more)
        assert refused.status_code in (403, 409), refused.text
        assert "version" not in json.dumps(refused.json()["detail"])
    hidden = secured.transact(writer, update, reads=[["customer", "1501", 5]])
    assert hidden.json()["code"] == "forbidden"


def test_api1_ranges_of_unreadable_relations_stay_hidden(secured):
    """Otherwise validated ranges would reveal how many rows there are, and when they change."""
    reader = secured.made("writer", {"orders": "write", "customer": "read"})
    sql = "SELECT c_id FROM customer"
    read = secured.query(reader, sql, trace=True, isolation="serializable").json()
    assert read["reads"] is None
    update = "UPDATE orders SET o_total = 1 WHERE o_id = -1"
    allowed = secured.transact(reader, update, ranges=read["ranges"], isolation="serializable")
    assert allowed.status_code == 200, allowed.text
    writer = secured.made("writer", {"orders": "write"})
    for table, *rest in read["ranges"]:
        refused = secured.transact(writer, update, ranges=[[table, *rest]])
        assert refused.json()["code"] == "forbidden"


def test_api1_reads_of_a_view_that_served_a_query_may_be_validated(secured):
    """The client sends back the reads of its query, which name the view."""
    writer = secured.made("writer", {"orders": "write", "customer": "read"})
    sql = "SELECT o_total FROM customer, orders WHERE c_id = o_c_id AND o_id = 2"
    read = secured.query(writer, sql, trace=True).json()
    assert VIEW in {layout for layout, *_ in read["reads"]}
    done = secured.transact(
        writer, "UPDATE orders SET o_total = 9 WHERE o_id = 2", reads=read["reads"]
    )
    assert done.status_code == 200, done.text
    named = secured.query(writer, f"SELECT o_total FROM {VIEW} WHERE o_id = 2")
    assert named.status_code == 403


def test_api1_an_older_snapshot_gives_no_more_rights(secured):
    key = secured.made("reader", {"orders": "read"})
    snapshot = secured.query(secured.root, "SELECT c_name FROM customer").json()["snapshot"]
    for options in ({"snapshot": snapshot}, {"bookmark": snapshot}):
        assert secured.query(key, "SELECT c_name FROM customer", **options).status_code == 403


def test_api1_a_cached_plan_of_another_gives_no_rights(secured):
    read, write = (
        "SELECT c_name AS n FROM customer",
        "UPDATE customer SET c_name = 'x' WHERE c_id=9",
    )
    key = secured.made("writer", {"orders": "write"})
    for _ in range(2):
        assert secured.query(secured.root, read).status_code == 200
        assert secured.query(key, read).status_code == 403
        assert secured.transact(secured.root, write).status_code == 200
        assert secured.transact(key, write).status_code == 403


# ---------------------------------------------------------------- API2 authentication


def test_api2_without_a_key_no_body_is_parsed(secured):
    """The server authenticates a request before it parses the body."""
    broken = {"content": b"{", "headers": {"Content-Type": "application/json"}}
    assert secured.request(None, "POST", "/v1/query", **broken).status_code == 401
    assert secured.request(secured.made("reader"), "POST", "/v1/query", **broken).status_code == 400


def test_api2_a_key_never_reaches_a_log(secured, tmp_path, capfd):
    """This holds for valid and unknown keys and unexpected errors, but not for keys in a path."""
    sent = [secured.made("reader", {}), api_keys.fresh().text, secured.root]
    for key in sent:
        secured.query(key, f"SELECT '{key}' FROM nowhere")
        secured.request(key, "GET", f"/v1/views/{key}")
        secured.request(key, "DELETE", "/v1/keys/000000000000")
    broken = secured.world.database.status
    secured.world.database.status = None
    try:
        assert secured.request(sent[0], "GET", "/v1/status").status_code == 500
    finally:
        secured.world.database.status = broken
    out, err = capfd.readouterr()
    audited = secured.world.app.state.settings.audit_log.read_text()
    assert "unexpected error" in err
    for key in sent:
        assert key[16:] not in out + err
        assert key[16:] not in audited.replace(f"/v1/views/{key}", "")
        assert api_keys.id_in(key) in audited


# ---------------------------------------------------------------- API3 property level authorisation


def test_api3_answers_contain_no_unreadable_columns(secured):
    """A dry run's mutations contain rows of views, which contain columns of other relations."""
    key, number = secured.made("writer", {"orders": "write"}), new_id()
    sql = f"INSERT INTO orders VALUES ({number}, 1, 3)"
    whole = secured.transact(secured.root, sql, dry_run=True)
    assert "ann secret" in whole.text
    for answer in (secured.transact(key, sql, dry_run=True), secured.transact(key, sql)):
        assert answer.status_code == 200
        assert "secret" not in answer.text
        assert VIEW not in answer.json()["affected"]
        assert answer.json()["affected"]["orders"] == 1
    path = f"/v1/transactions/{answer.json()['transaction_id']}"
    assert VIEW not in secured.request(key, "GET", path).text


def test_api3_errors_do_not_name_an_unreadable_child(secured):
    key = secured.made("writer", {"customer": "write"})
    refused = secured.transact(key, "DELETE FROM customer WHERE c_id = 1")
    assert (refused.status_code, refused.json()["code"]) == (409, "foreign-key-violation")
    assert "orders" not in refused.text
    assert "orders" in secured.transact(secured.root, "DELETE FROM customer WHERE c_id = 1").text


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM custome",
        "SELECT * FROM kind",
        "SELECT c_nam FROM customer",
        "SELECT o_totl FROM orders, customer",
        "SELECT kinds.k_dat FROM orders, kinds",
        "SELECT * FROM orders, customer c WHERE c.c_emai = 1",
        "UPDATE customer SET c_balanc = 1",
        "INSERT INTO customer (c_id, c_nme) VALUES (1, 'x')",
        "INSERT INTO orders (o_id) SELECT c_idd FROM customer",
        f"INSERT INTO {VIEW} VALUES (1)",
        f"SELECT nothing FROM {VIEW}",
    ],
)
def test_api3_errors_suggest_no_unreadable_names(secured, sql):
    """An error contains no hidden name that the statement itself does not contain."""
    key = secured.made("writer", {"orders": "write"})
    hidden = {"customer", "kinds", VIEW, "c_id", "c_name", "c_balance", "c_email", "k_id", "k_date"}
    for refused in (secured.transact(key, sql), secured.query(key, sql)):
        assert refused.status_code in (403, 422)
        found = refused.json()
        reported = f"{found['detail']} {found['cure']} {found.get('near')}"
        assert [name for name in hidden if name in reported and name not in sql] == []


def test_api3_the_schema_shows_readable_relations_only(secured):
    def shown(grants: dict[str, str], path: str) -> str:
        answer = secured.request(secured.made("reader", grants), "GET", path)
        assert answer.status_code == 200, answer.text
        return answer.text

    paths = ["/v1/schema", "/v1/views", "/v1/status?sizes=true", "/v1/schema/graph"]
    paths += [f"/v1/schema/graph?format={form}" for form in ("json", "mermaid")]
    for path in paths:
        everything = secured.request(secured.root, "GET", path).text
        orders, nothing = shown({"orders": "read"}, path), shown({}, path)
        for hidden in ("c_name", "c_email", "kinds", "k_uuid", VIEW, "orders_of_a_customer"):
            assert hidden not in orders, path
        assert "customer" not in orders.replace("/customer", ""), path
        assert "orders" not in nothing, path
        assert len(nothing) < len(orders) < len(everything) or "views" in path
    view = json.loads(shown({VIEW: "read"}, "/v1/views"))
    assert [item["name"] for item in view] == [VIEW]
    document = json.loads(shown({"customer": "read", "orders": "read"}, "/v1/schema"))
    assert document["trees"]["orders"]["parent"] == "customer"
    assert document["views"] == document["workload"] == []
    planned = {"ddl": document["ddl"], "workload": ""}
    assert secured.request(secured.root, "POST", "/v1/schema/plan", json=planned).status_code == 200


def test_api3_only_administrators_read_the_data_folder(secured):
    folder = str(secured.world.app.state.settings.data)
    assert folder in secured.request(secured.root, "GET", "/v1/status").text
    assert folder not in secured.request(secured.made("writer"), "GET", "/v1/status").text


@pytest.mark.parametrize(
    "more",
    [
        {"id": "0" * 12},
        {"key": "hb_0_0"},
        {"digest": "00"},
        {"created_by": "me"},
        {"created_ms": 5},
        {"revoked_ms": 0},
        {"expires_ms": 10**15},
    ],
)
def test_api3_clients_cannot_set_internal_properties_of_a_key(secured, more):
    body = {"name": "x", "role": "reader", **more}
    assert secured.request(secured.root, "POST", "/v1/keys", json=body).status_code == 422


# ---------------------------------------------------------------- API4 resource consumption


def test_api4_one_key_cannot_take_all_the_capacity(secured, monkeypatch):
    greedy, other = secured.made("reader"), secured.made("reader")
    inside, go = threading.Semaphore(0), asyncio.Event()
    answer_of = secured.world.database.deferred.status
    first_two = iter(range(2))

    async def held():
        if next(first_two, None) is not None:  # /v1/status asks, too
            inside.release()
            await go.wait()
        return await answer_of()

    def ask(key: str) -> int:
        return secured.request(key, "GET", "/v1/groups").status_code

    monkeypatch.setattr(secured.world.database.deferred, "status", held)
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(ask, greedy) for _ in range(2)]
        assert all(inside.acquire(timeout=20) for _ in asked)
        refused = secured.query(greedy, "SELECT 1")
        unhindered = secured.query(other, "SELECT 1")
        watched = secured.request(greedy, "GET", "/v1/status")
        secured.world.loop.call_soon_threadsafe(go.set)
        assert [one.result() for one in asked] == [200, 200]
    assert (refused.status_code, refused.json()["code"]) == (429, "overloaded")
    assert refused.headers["Retry-After"] == "1"
    assert unhindered.status_code == watched.status_code == 200
    assert secured.query(greedy, "SELECT 1").status_code == 200


def test_api4_bodies_are_limited_with_keys_too(secured):
    content = b" " * 200_000
    assert secured.request(secured.root, "POST", "/v1/query", content=content).status_code == 413


# ---------------------------------------------------------------- API5 function level authorisation


def test_api5_readers_and_writers_cannot_create_or_revoke_keys(secured):
    """`test_api_security.py` covers every role × route; this test covers escalation."""
    for role in ("reader", "writer"):
        key = secured.made(role)
        for body in ({"name": "x", "role": "admin"}, {"name": "x", "role": "reader"}):
            assert secured.request(key, "POST", "/v1/keys", json=body).status_code == 403
        assert secured.request(key, "DELETE", f"/v1/keys/{api_keys.id_in(key)}").status_code == 403


# ---------------------------------------------------------------- API6 sensitive business flows


def test_api6_a_repeated_request_runs_once(secured):
    """A request runs once, whether its client or an attacker repeats it."""
    key, header = secured.made("writer"), {"Idempotency-Key": "buy-1"}
    secured.transact(key, "INSERT INTO customer (c_id, c_name) VALUES (900, 'buyer')")
    buy = "UPDATE customer SET c_balance = c_balance - 1 WHERE c_id = 900"
    for _ in range(5):
        assert secured.transact(key, buy, headers=header).status_code == 200
    rows = secured.query(key, "SELECT c_balance FROM customer WHERE c_id = 900").json()["rows"]
    assert rows == [["-1.00"]]


# ---------------------------------------------------------------- API7 server side request forgery


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('http://127.0.0.1:1/x')",
        "SELECT * FROM 'http://127.0.0.1:1/x.parquet'",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT getenv('HORNBEAM_API_KEY')",
        "ATTACH 'http://127.0.0.1:1/x' AS x",
        "COPY (SELECT 1) TO '/tmp/x'",
        "INSTALL httpfs",
        "SELECT * FROM duckdb_secrets()",
        "SELECT * FROM query('SELECT * FROM customer')",
        "SELECT * FROM query_table('customer')",
    ],
)
def test_api7_sql_reaches_nothing_outside(secured, sql):
    """Not even an administrator's SQL reaches files, the network or the environment."""
    for ask in (secured.query, secured.transact):
        assert ask(secured.root, sql).status_code == 422


# ---------------------------------------------------------------- API8 misconfiguration


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", ""])
def test_api8_beyond_loopback_keys_and_tls_are_required(tmp_path, host):
    tls = {"tls_certificate": tmp_path / "c.pem", "tls_key": tmp_path / "k.pem"}
    for options in ({}, tls, {"tls_by_proxy": True}, {"authentication": "keys"}):
        with pytest.raises(InvalidRequest, match="Refusing to listen"):
            require_safe(Settings(host=host, **options))
    require_safe(Settings(host=host, authentication="keys", **tls))
    require_safe(Settings(host=host, authentication="keys", tls_by_proxy=True))


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.9.9.9"])
def test_api8_on_loopback_no_keys_and_no_tls_are_required(host):
    require_safe(Settings(host=host))


def test_api8_no_cross_origin_request_is_allowed(secured):
    headers = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    for method in ("OPTIONS", "GET", "POST"):
        answer = secured.request(secured.root, method, "/v1/query", headers=headers)
        assert not [name for name in answer.headers if name.startswith("access-control")]


def test_api8_errors_contain_no_stack_trace(secured):
    broken, secured.world.database.status = secured.world.database.status, None
    try:
        answer = secured.request(secured.root, "GET", "/v1/status")
    finally:
        secured.world.database.status = broken
    assert answer.status_code == 500
    assert "TypeError" not in answer.text
    assert ".py" not in answer.text


# ---------------------------------------------------------------- API9 inventory


def test_api9_every_route_is_in_the_document(secured):
    """The routes of the document are those in the table of `test_api_security.py`."""
    from tests.api.test_api_security import ROUTES

    document = secured.request(None, "GET", "/openapi.json").json()
    documented = {
        (method.upper(), path) for path, ways in document["paths"].items() for method in ways
    }
    assert documented == set(ROUTES)


def test_the_first_key_of_a_folder_needs_no_server(tmp_path):
    """A key created without authentication is valid once the folder is served with it."""
    with world(tmp_path) as opened:
        opened.apply(**PLAN)
        made = opened.post("/v1/keys", {"name": "root", "role": "admin"}).json()
    with world(tmp_path, authentication="keys") as served:
        assert served.client.get("/v1/keys").status_code == 401
        secured = SecureWorld(served, made["key"])
        (found,) = secured.request(made["key"], "GET", "/v1/keys").json()
        assert (found["id"], found["created_by"]) == (made["id"], "")
