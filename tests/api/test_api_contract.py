"""The contract of the routes, over HTTP against a real server."""

from __future__ import annotations

import base64
import gzip
import json
import uuid

import httpx
import pyarrow as pa
import pytest

from hornbeam_server.api.rest import response_models
from hornbeam_server.api.rest.problems import STATUS
from hornbeam_server.api.rest.request_models import LAST_MS
from hornbeam_server.schema import errors
from hornbeam_server.storage.codec.implementation import implementation
from tests.api.api_world import world

ARROW = {"Accept": "application/vnd.apache.arrow.stream"}


def insert_customer(shop, number, name="ann"):
    answer = shop.transact("INSERT INTO customer (c_id, c_name) VALUES (?, ?)", number, name)
    assert answer.status_code == 200, answer.text
    return answer.json()


def problem(response, status, code):
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    document = response.json()
    response_models.Problem.model_validate(document)
    assert (document["status"], document["code"]) == (status, code), document
    assert "Traceback" not in response.text
    return document


def test_every_error_has_a_status():
    def tree(kind):
        yield kind
        for child in kind.__subclasses__():
            yield from tree(child)

    assert {kind.code for kind in tree(errors.HornbeamError)} == set(STATUS)


def test_the_health_of_the_server_is_readable(shop):
    assert shop.client.get("/livez").json() == {"status": "live"}
    assert shop.client.get("/readyz").json() == {"status": "ready"}
    status = shop.client.get("/v1/status").json()
    assert status["speedups"] == implementation().shown
    response_models.Status.model_validate(status)
    assert "bytes" not in status
    assert shop.client.get("/v1/status?sizes=true").json()["bytes"]["customer"] >= 0
    text = shop.client.get("/metrics").text
    assert 'hornbeam_request_seconds_count{method="GET",route="/livez",status="200"}' in text


def test_a_metric_that_only_grows_is_a_counter(shop):
    def committed():
        text = shop.client.get("/metrics").text
        assert "# TYPE hornbeam_transactions_committed_total counter" in text
        return float(text.split("\nhornbeam_transactions_committed_total ")[1].split()[0])

    before = committed()
    insert_customer(shop, 4711)
    assert committed() == before + 1


def test_the_snapshot_of_an_idle_server_does_not_lag(tmp_path, monkeypatch):
    def lag(server):
        text = server.client.get("/metrics").text
        return float(text.split("\nhornbeam_watermark_lag_seconds ")[1].split()[0])

    with world(tmp_path) as server:
        database = server.database
        later = database.clock.wall_ms() + 3_600_000
        with monkeypatch.context() as patch:
            patch.setattr(type(database.clock), "wall_ms", lambda _: later)
            assert lag(server) == 0
            patch.setattr(type(database.committer), "idle", False)
            assert lag(server) > 3_000


def test_health_shows_that_the_log_is_closed(tmp_path):
    """Monitoring must show the failure while it lasts."""
    with world(tmp_path) as broken:
        broken.run(broken.database.log.close())
        assert "hornbeam_log_bytes NaN" in broken.client.get("/metrics").text
        broken.apply(ddl="CREATE TABLE t (a INTEGER PRIMARY KEY);", workload="")
        problem(broken.transact("INSERT INTO t VALUES (1)"), 504, "outcome-unknown")
        detail = problem(broken.client.get("/readyz"), 503, "unavailable")["detail"]
        assert "The log is closed" in detail
        assert "hornbeam_ready 0" in broken.client.get("/metrics").text


def test_the_outcome_of_a_transaction_is_found(shop):
    done = shop.transact(
        "INSERT INTO customer VALUES (?, ?, ?, ?) RETURNING c_id, c_balance", 1, "ann", "12.34", "a"
    )
    document = done.json()
    response_models.Transaction.model_validate(document)
    assert document["statements"][0]["rows"] == [[1, "12.34"]]
    assert document["bookmark"] == document["commit_ts"] > 0
    found = shop.client.get(f"/v1/transactions/{document['transaction_id']}")
    response_models.Outcome.model_validate(found.json())
    assert found.json()["outcome"] == "committed"
    problem(shop.client.get("/v1/transactions/" + "0" * 32), 404, "not-found")
    problem(shop.client.get("/v1/transactions/nonsense"), 422, "invalid-request")


def test_an_unanswered_transaction_is_unknown(shop):
    shop.database.manager.unfinished["f" * 32] = ""
    try:
        answer = shop.client.get("/v1/transactions/" + "f" * 32).json()
    finally:
        del shop.database.manager.unfinished["f" * 32]
    response_models.Outcome.model_validate(answer)
    assert answer["outcome"] == "unknown"


def test_a_repeated_idempotency_key_returns_the_first_result(shop):
    headers = {"Idempotency-Key": "key-1"}
    body = {"statements": [{"sql": "INSERT INTO customer (c_id, c_name) VALUES (10, 'x')"}]}
    first = shop.post("/v1/transactions", body, headers=headers)
    again = shop.post("/v1/transactions", body, headers=headers)
    assert first.json()["commit_ts"] == again.json()["commit_ts"]
    assert first.json()["transaction_id"] == again.json()["transaction_id"]
    body["statements"][0]["sql"] = "INSERT INTO customer (c_id, c_name) VALUES (11, 'x')"
    other = shop.post("/v1/transactions", body, headers=headers)
    problem(other, 422, "idempotency-mismatch")
    empty = shop.post("/v1/transactions", body, headers={"Idempotency-Key": ""})
    problem(empty, 422, "invalid-request")
    long = shop.post("/v1/transactions", body, headers={"Idempotency-Key": "k" * 256})
    problem(long, 422, "invalid-request")


def test_a_dry_run_lists_changes_and_writes_nothing(shop):
    insert_customer(shop, 20, "dry")
    body = {
        "statements": [{"sql": "INSERT INTO orders VALUES (20, 20, 1.5)"}],
        "dry_run": True,
    }
    document = shop.post("/v1/transactions", body).json()
    response_models.Transaction.model_validate(document)
    assert {m["layout"] for m in document["mutations"]} >= {"orders", "customer__orders"}
    assert shop.rows("SELECT * FROM orders WHERE o_id = 20") == []


@pytest.mark.parametrize(
    ("sql", "status", "code"),
    [
        ("INSERT INTO customer (c_id) VALUES (31)", 409, "not-null-violation"),
        ("INSERT INTO customer (c_id, c_name) VALUES (30, 'x')", 409, "unique-violation"),
        ("INSERT INTO orders VALUES (31, 9999, 1)", 409, "foreign-key-violation"),
        ("INSERT INTO nowhere VALUES (1)", 422, "sql-unknown-name"),
        ("INSERT INTO", 422, "sql-invalid"),
        ("UPDATE customer SET c_balance = 'x'", 422, "sql-type-mismatch"),
        ("SELECT 1", 422, "sql-unsupported"),
    ],
)
def test_wrong_statements_are_refused(shop, sql, status, code):
    if not shop.rows("SELECT 1 FROM customer WHERE c_id = 30"):
        insert_customer(shop, 30)
    document = problem(shop.transact(sql), status, code)
    assert document["outcome"] == "none"
    assert document["retryable"] is False


def test_preconditions_and_reads_are_checked(shop):
    ts = insert_customer(shop, 40)["commit_ts"]
    update = {"sql": "UPDATE customer SET c_name = 'b' WHERE c_id = 40"}

    def send(**body):
        return shop.post("/v1/transactions", {"statements": [update], **body})

    absent = {"relation": "customer", "key": [40], "if_absent": True}
    problem(send(preconditions=[absent]), 412, "precondition-failed")
    asked = {"sql": "SELECT * FROM customer WHERE c_id = 40", "trace": True}
    reads = shop.post("/v1/query", asked).json()["reads"]
    assert reads == [["", "", reads[0][2]], ["customer", reads[1][1], ts]]
    held = {"relation": "customer", "key": [40], "if_version": ts}
    assert send(preconditions=[held], reads=reads).status_code == 200
    document = problem(send(reads=reads), 409, "read-conflict")
    assert document["retryable"] is True
    problem(send(reads=[["", "", reads[0][2] + 1]]), 409, "read-conflict")


@pytest.mark.parametrize(
    "body",
    [
        {"reads": [["customer", "xyz", 1]]},
        {"reads": [["customer", "ff", 1]]},
        {"reads": [["customer", "", 1]]},
        {"reads": [["nowhere", "1501", 1]]},
        {"preconditions": [{"relation": "nowhere", "key": [1], "if_absent": True}]},
        {"preconditions": [{"relation": "customer", "key": [1, 2], "if_absent": True}]},
        {"preconditions": [{"relation": "customer", "key": [], "if_absent": True}]},
        {"preconditions": [{"relation": "customer", "key": ["x"], "if_absent": True}]},
        {"preconditions": [{"relation": "customer", "key": [1]}]},
        {"statements": []},
        {"statements": [{"sql": "DELETE FROM orders", "parameters": [[1]]}]},
        {"statements": [{"sql": "DELETE FROM orders", "other": 1}]},
        {"statements": [{"sql": "DELETE FROM orders", "parameter_sets": []}]},
        {"statements": [{"sql": "DELETE FROM orders", "parameter_sets": [1]}]},
        {"statements": [{"sql": "DELETE FROM orders", "parameter_sets": [[[1]]]}]},
        {"statements": [{"sql": "DELETE FROM orders", "parameter_sets": [[1]]}]},
        {"statements": [{"sql": "DELETE FROM orders", "parameters": [1], "parameter_sets": [[]]}]},
        {"bookmark": 2**62, "statements": [{"sql": "DELETE FROM orders WHERE o_id = -1"}]},
        {"timeout_ms": 10**400, "statements": [{"sql": "DELETE FROM orders"}]},
    ],
)
def test_invalid_transaction_bodies_are_refused(shop, body):
    response = shop.post("/v1/transactions", body)
    assert 400 <= response.status_code < 500, response.text
    assert response.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("type_", "value", "answer", "of_type"),
    [
        ("DECIMAL", "1.50", "1.50", "DECIMAL(3,2)"),
        ("DECIMAL", 7, "7", "DECIMAL(1,0)"),
        ("BLOB", "AP8=", "AP8=", "BLOB"),
        ("DATE", "2024-02-29", "2024-02-29", "DATE"),
        ("TIMESTAMP", "2024-02-29T01:02:03", "2024-02-29T01:02:03", "TIMESTAMP"),
        ("TIMESTAMP WITH TIME ZONE", "2024-02-29T01:00:00+01:00", "2024-02-29T00:00:00+00:00",
         "TIMESTAMP WITH TIME ZONE"),
        ("UUID", str(uuid.UUID(int=5)), str(uuid.UUID(int=5)), "UUID"),
        ("DOUBLE", "inf", "Infinity", "DOUBLE"),
        ("TEXT", "1.5", "1.5", "TEXT"),
        ("BIGINT", None, None, None),
    ],
)  # fmt: skip
def test_a_parameter_may_state_its_type(shop, type_, value, answer, of_type):
    given = {"type": type_, "value": value}
    for parameters, sql in (([given], "SELECT ? AS x"), ({"a": given}, "SELECT :a AS x")):
        found = shop.post("/v1/query", {"sql": sql, "parameters": parameters}).json()
        assert found["rows"] == [[answer]]
        assert of_type in (None, found["columns"][0]["type"])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"type": "BLOB", "value": "?"}, "not a value of type BLOB"),
        ({"type": "DECIMAL", "value": "1.x"}, "not a value of type DECIMAL"),
        ({"type": "DECIMAL", "value": "NaN"}, "not finite"),
        ({"type": "DECIMAL", "value": [1]}, "not a value of type DECIMAL"),
        ({"type": "INTEGER", "value": 2**40}, "out of range"),
        ({"type": "MONEY", "value": 1}, "there are BIGINT, BLOB, BOOLEAN"),
        ({"type": ["DATE"], "value": 1}, "is not the type of a parameter"),
        ({"type": "DATE"}, "an object of type and value"),
        ({"type": "DATE", "value": "2024-01-01", "more": 1}, "an object of type and value"),
        ([[1]], "an array has one dimension"),
        ([{"type": "DATE"}], "or an object of type and value"),
    ],
)
def test_invalid_typed_parameters_are_refused(shop, given, words):
    document = problem(
        shop.post("/v1/query", {"sql": "SELECT ?", "parameters": [given]}), 422, "invalid-request"
    )
    assert words in json.dumps(document)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[" * 100_000,
        b'{"sql": NaN}',
        b'{"sql": "SELECT 1", "parameters": [NaN]}',
        b'{"sql": "SELECT 1", "parameters": [1e999]}',
        b'{"sql": "SELECT \xff"}',
        b'{"sql": "SELECT \\ud800"}',
        b'{"sql": "SELECT 1", "max_rows": ' + b"9" * 5_000 + b"}",
        b'"text"',
        b"null",
    ],
)
def test_broken_json_is_refused(shop, content):
    headers = {"Content-Type": "application/json"}
    response = shop.client.post("/v1/query", content=content, headers=headers)
    assert response.status_code in (400, 422), response.text
    problem(response, response.status_code, "invalid-request")


def at_once(shop, path, body):
    """The answer to a body without a declared length, all of which has come when the application
    begins to read it."""
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {
        "type": "http", "method": "POST", "path": path, "raw_path": path.encode(),
        "query_string": b"", "headers": headers, "client": ("127.0.0.1", 1), "scheme": "http",
        "server": ("localhost", 80), "http_version": "1.1", "root_path": "",
    }  # fmt: skip
    sent = []

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        sent.append(message)

    shop.run(shop.app(scope, receive, send))
    content = b"".join(message.get("body", b"") for message in sent)
    return httpx.Response(sent[0]["status"], headers=sent[0]["headers"], content=content)


def test_bodies_and_parameters_have_limits(shop):
    problem(shop.post("/v1/query", {"sql": "x" * 400_000}), 413, "limit-exceeded")

    def endless():
        for _ in range(100):
            yield b" " * 10_000

    headers = {"Content-Type": "application/json"}
    streamed = shop.client.post("/v1/query", content=endless(), headers=headers)
    problem(streamed, 413, "limit-exceeded")
    problem(at_once(shop, "/v1/query", b" " * 1_000_000), 413, "limit-exceeded")
    many = {"sql": "SELECT 1", "parameters": [1] * 5_001}
    problem(shop.post("/v1/query", many), 413, "limit-exceeded")


def test_the_row_limit_and_the_time_limit_hold(shop):
    few = {"sql": "SELECT * FROM range(10)", "max_rows": 5}
    problem(shop.post("/v1/query", few), 413, "limit-exceeded")
    slow = {"sql": "SELECT count(*) FROM range(1000000) a, range(1000000) b", "timeout_ms": 100}
    problem(shop.post("/v1/query", slow), 504, "statement-timeout")


def test_values_survive_a_round_trip_exactly(shop):
    values = [
        2**62,
        "1234567890123456789012345678.0123456789",
        "Infinity",
        True,
        "AP8=",
        "2024-02-29",
        "2024-02-29T12:34:56.789012",
        "2024-02-29T12:34:56.789012+02:00",
        str(uuid.UUID(int=7)),
        '{"a": [1.50]}',
        "äöü€😀",
    ]
    marks = ", ".join("?" * len(values))
    done = shop.transact(f"INSERT INTO kinds VALUES ({marks}) RETURNING *", *values)
    assert done.status_code == 200, done.text
    wanted = [*values]
    wanted[7] = "2024-02-29T10:34:56.789012+00:00"
    assert done.json()["statements"][0]["rows"] == [wanted]
    assert shop.rows("SELECT * FROM kinds WHERE k_id = ?", 2**62) == [wanted]
    asked = "SELECT -k_double, 'nan'::DOUBLE, max(k_decimal) OVER () FROM kinds"
    assert shop.rows(asked) == [["-Infinity", "NaN", values[1]]]


def test_reads_respect_snapshot_bookmark_and_pending_writes(shop):
    insert_customer(shop, 50, "snap")
    asked = {"sql": "SELECT c_name FROM customer WHERE c_id = 50"}
    before = shop.post("/v1/query", asked).json()
    response_models.Rows.model_validate(before)
    renamed = shop.transact("UPDATE customer SET c_name = 'new' WHERE c_id = 50").json()
    assert shop.rows(**asked, snapshot=before["snapshot"]) == [["snap"]]
    assert shop.rows(**asked, bookmark=renamed["bookmark"]) == [["new"]]
    pending = [{"sql": "UPDATE customer SET c_name = 'mine' WHERE c_id = ?", "parameters": [50]}]
    assert shop.rows(**asked, pending=pending) == [["mine"]]
    assert shop.rows(**asked) == [["new"]]
    problem(shop.post("/v1/query", asked | {"snapshot": 1}), 410, "snapshot-too-old")
    problem(shop.post("/v1/query", asked | {"snapshot": 2**60}), 422, "invalid-request")
    problem(shop.post("/v1/query", asked | {"bookmark": 2**60}), 422, "invalid-request")
    both = asked | {"snapshot": before["snapshot"], "consistency": "strong"}
    problem(shop.post("/v1/query", both), 422, "invalid-request")
    joined = {"sql": "SELECT o_id FROM customer, orders WHERE c_id = o_c_id AND c_name = 'x'"}
    assert "customer__orders" in str(shop.post("/v1/query", joined).json()["served_by"])
    plain = shop.post("/v1/query", joined | {"use_views": False}).json()
    assert "customer__orders" not in str(plain["served_by"])


def test_explain_names_the_view_that_serves(shop):
    asked = {"sql": "SELECT o_id FROM customer, orders WHERE c_id = o_c_id AND c_name = ?"}
    document = shop.post("/v1/explain", asked).json()
    response_models.Explained.model_validate(document)
    assert "customer__orders" in str(document["served_by"])


def test_a_query_answers_in_arrow(shop):
    def asked(sql):
        return shop.post("/v1/query", {"sql": sql}, headers=ARROW)

    response = asked("SELECT * FROM range(5000) r(n)")
    table = pa.ipc.open_stream(response.content).read_all()
    assert table.column("n").to_pylist() == list(range(5000))
    assert int(response.headers["Hornbeam-Snapshot"]) > 0
    assert "Hornbeam-As-Of" not in response.headers
    body = {"sql": "SELECT c_id FROM customer", "consistency": "tentative"}
    headers = shop.post("/v1/query", body, headers=ARROW).headers
    assert headers["Hornbeam-As-Of"] == headers["Hornbeam-Snapshot"]
    assert headers["Hornbeam-Reason"] == ""
    empty = asked("SELECT c_id, c_balance FROM customer WHERE c_id = -1")
    schema = pa.ipc.open_stream(empty.content).read_all().schema
    assert schema == pa.schema([("c_id", pa.int32()), ("c_balance", pa.decimal128(15, 2))])
    problem(asked("SELECT nothing FROM customer"), 422, "sql-unknown-name")
    problem(asked("SELECT error('first')"), 422, "sql-invalid")


def test_schema_routes_return_documents(shop):
    document = shop.client.get("/v1/schema").json()
    response_models.Schema.model_validate(document)
    assert [r["name"] for r in document["relations"]] == ["customer", "orders", "kinds"]
    views = shop.client.get("/v1/views").json()
    assert [v["name"] for v in views] == ["customer__orders"]
    one = shop.client.get("/v1/views/customer__orders").json()
    response_models.View.model_validate(one)
    assert one["bytes"] == views[0]["bytes"]
    problem(shop.client.get("/v1/views/nothing"), 404, "not-found")
    graph = shop.client.get("/v1/schema/graph?format=json").json()
    response_models.Graph.model_validate(graph)
    assert "<svg" in shop.client.get("/v1/schema/graph").text
    assert "customer" in shop.client.get("/v1/schema/graph?format=mermaid").text
    problem(shop.client.get("/v1/schema/graph?format=png"), 422, "invalid-request")


def test_verify_streams_progress_and_a_report(shop):
    response = shop.post("/v1/verify", {})
    lines = [json.loads(line) for line in response.text.splitlines()]
    assert all("progress" in line for line in lines[:-1])
    assert lines[-1]["report"]["differences"] == 0
    one = shop.post("/v1/verify", {"names": ["customer__orders"], "repair": True}).text
    checked = json.loads(one.splitlines()[-1])["report"]["checked"]
    assert [item["name"] for item in checked] == ["customer__orders"]
    problem(shop.post("/v1/verify", {"names": ["nothing"]}), 404, "not-found")


def test_rows_are_repaired_by_their_keys(shop):
    path = "/v1/repair/customer__orders"
    right = base64.b64encode(b"\x15\x01").decode()
    assert shop.post(path, {"keys": [right]}).json() == {"repaired": 0}
    assert shop.post(path, {"keys": []}).json() == {"repaired": 0}
    problem(shop.post(path, {"keys": ["?"]}), 422, "invalid-request")
    problem(shop.post("/v1/repair/customer", {"keys": [right]}), 404, "not-found")


def test_unknown_routes_and_methods_are_refused(shop):
    problem(shop.client.get("/nowhere"), 404, "not-found")
    response = shop.client.get("/v1/query")
    problem(response, 405, "invalid-request")
    assert response.headers["allow"] == "POST"
    response = shop.client.put("/v1/keys")
    problem(response, 405, "invalid-request")
    assert response.headers["allow"] == "GET, HEAD, POST"


def test_openapi_documents_every_route(shop):
    document = shop.client.get("/openapi.json").json()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert operation["description"], (method, path)
            content = operation["responses"]["200"]["content"]
            assert all(media.get("schema") for media in content.values()), (method, path)
    assert "Arrow" in str(document["paths"]["/v1/query"])
    assert "examples" in str(document["components"]["schemas"]["TransactionBody"])


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/query", {"sql": "SELECT 1", "use_views": 0}),
        ("/v1/query", {"sql": "SELECT 1", "bookmark": "5"}),
        ("/v1/query", {"sql": "SELECT 1", "max_rows": True}),
        ("/v1/transactions", {"statements": [{"sql": "DELETE FROM orders"}], "dry_run": "no"}),
        ("/v1/transactions", {"statements": []}),
        ("/v1/verify", {"repair": "off"}),
        ("/v1/schema/plan", {"ddl": "", "row_counts": {"customer": False}}),
    ],
)
def test_values_of_another_json_type_are_not_converted(shop, path, body):
    """Text is no number, and neither 0 nor "no" is false, as OpenAPI states."""
    problem(shop.post(path, body), 422, "invalid-request")


def test_openapi_links_name_existing_operations(shop):
    document = shop.client.get("/openapi.json").json()
    operations = [item for methods in document["paths"].values() for item in methods.values()]
    names = [operation["operationId"] for operation in operations]
    assert len(set(names)) == len(names)
    links = [
        link
        for operation in operations
        for answer in operation["responses"].values()
        for link in answer.get("links", {}).values()
    ]
    assert links
    assert {link["operationId"] for link in links} <= set(names)


def test_a_csv_header_that_is_not_utf8_is_an_invalid_request(shop):
    content = "c_id,größe\n1,2\n".encode("latin-1")
    headers = {"Content-Type": "text/csv"}
    response = shop.client.post("/v1/load/customer", content=content, headers=headers)
    problem(response, 422, "invalid-request")


@pytest.mark.parametrize(("now", "status"), [(LAST_MS, 200), (LAST_MS + 1, 422)])
def test_a_replay_time_must_fit_a_timestamp(shop, now, status):
    sql = "INSERT INTO kinds (k_id, k_at) VALUES (77, now())"
    body = {"statements": [{"sql": sql}], "replay": {"now": now}, "dry_run": True}
    assert shop.post("/v1/transactions", body).status_code == status


def test_json_that_is_nested_too_deeply_is_refused(shop):
    deep = "[" * 100_000 + "]" * 100_000
    refused = shop.transact("INSERT INTO kinds (k_id, k_json) VALUES (78, ?)", deep)
    assert (refused.status_code, refused.json()["code"]) == (422, "sql-type-mismatch")
    assert refused.json()["outcome"] == "none"


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/metrics", "/v1/status", "/v1/views"])
def test_head_requests_are_answered_like_get_without_a_body(shop, path):
    got, head = shop.client.get(path), shop.client.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == got.headers["content-type"]
    assert shop.client.head("/v1/query").status_code == 405


@pytest.mark.parametrize("media_type", ["text/plain", "application/x-www-form-urlencoded", None])
def test_a_body_of_another_media_type_is_refused_with_the_right_one(shop, media_type):
    headers = {} if media_type is None else {"Content-Type": media_type}
    response = shop.client.post("/v1/query", content=b'{"sql": "SELECT 1"}', headers=headers)
    assert "send it as application/json" in problem(response, 415, "invalid-request")["detail"]
    headers = {"Content-Type": "application/problem+json; charset=utf-8"}
    response = shop.client.post("/v1/query", content=b'{"sql": "SELECT 1"}', headers=headers)
    assert response.status_code == 200


@pytest.mark.parametrize("path", ["/v1/query", "/v1/load/customer"])
def test_compressed_bodies_are_refused(shop, path):
    content = gzip.compress(b'{"sql": "SELECT 1"}')
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    response = shop.client.post(path, content=content, headers=headers)
    assert "gzip" in problem(response, 415, "invalid-request")["detail"]


def test_a_trailing_slash_is_not_found_and_not_redirected(shop):
    problem(shop.client.get("/livez/"), 404, "not-found")
