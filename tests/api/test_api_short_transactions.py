"""Short transactions and short answers of health: as FastAPI answers them."""

from __future__ import annotations

import json

import pytest

from hornbeam_server.api.rest.short_health import ShortLivez
from hornbeam_server.api.rest.short_transactions import ShortTransactions
from hornbeam_server.schema.errors import OutcomeUnknown, Unavailable
from tests.api.api_world import PLAN, world
from tests.api.security_world import secure_world

SHORT, FULL = "application/json", "application/json; charset=utf-8"
"""Media types of a body: with the second one, FastAPI answers."""
MOVING = ("transaction_id", "commit_ts", "bookmark", "timings_ms", "replay")
INSERT = "INSERT INTO customer (c_id, c_name, c_balance) VALUES (?, ?, ?)"


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    with world(tmp_path_factory.mktemp("short"), max_parameters=20) as w:
        assert w.apply(**PLAN).status_code == 200
        yield w


@pytest.fixture
def counted(monkeypatch):
    """The number of transactions that the short route has answered."""
    count = [0]
    short = ShortTransactions.respond

    async def noted(self, scope, body, began):
        answer = await short(self, scope, body, began)
        count[0] += answer is not None
        return answer

    monkeypatch.setattr(ShortTransactions, "respond", noted)
    return count


def sent(shop, body, media_type, **headers):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {"Content-Type": media_type, **headers}
    response = shop.client.post("/v1/transactions", content=content, headers=given)
    document = response.json()
    seen = {name: document.pop(name, None) is not None for name in MOVING}
    kept = {n: v for n, v in response.headers.items() if n not in {"date", "content-length"}}
    return response.status_code, kept, document, seen


def statements(*each):
    return {"statements": [{"sql": sql, "parameters": given} for sql, given in each]}


def cleared(shop):
    assert shop.transact("DELETE FROM customer").status_code == 200
    assert shop.transact("INSERT INTO customer VALUES (1, 'Ann', 1.5, 'a@b')").status_code == 200


@pytest.mark.parametrize(
    ("body", "short"),
    [
        (statements((INSERT, [2, "Bob", "2.50"])), True),
        (statements((INSERT, [2, "Bob", {"type": "DECIMAL", "value": "2.50"}])), True),
        (statements((INSERT + " RETURNING *", [2, "Bob", None])), True),
        (
            statements((INSERT, [2, "B", 1]), ("DELETE FROM customer WHERE c_id = :i", {"i": 2})),
            True,
        ),
        (statements(("UPDATE customer SET c_balance = c_balance + 1 WHERE c_id = 9", [])), True),
        ({**statements((INSERT, [2, "Bob", 1])), "bookmark": 1, "timeout_ms": 5_000}, True),
        # errors of the transaction
        (statements((INSERT, [1, "Ann", 1])), True),
        (statements((INSERT, [2, None, 1])), True),
        (statements((INSERT, [2, "Bob", "many"])), True),
        (statements((INSERT, [2, "Bob"])), True),
        (statements(("INSERT INTO orders VALUES (1, 77, 1)", [])), True),
        (statements(("INSERT INTO nothing VALUES (1)", [])), True),
        (statements(("INSERT INTO", [])), True),
        (statements(("SELECT 1", [])), True),
        # for FastAPI
        ({"statements": []}, False),
        ({"statements": [{"sql": ""}]}, False),
        (statements((INSERT, [2, ["a", ["b"]], 1])), False),
        (statements((INSERT, [2, {"a": 1}, 1])), False),
        (statements((INSERT, list(range(21)))), False),
        ({**statements((INSERT, [2, "Bob", 1])), "bookmark": -1}, False),
        ({**statements((INSERT, [2, "Bob", 1])), "bookmark": 1.5}, False),
        ({**statements((INSERT, [2, "Bob", 1])), "timeout_ms": 0}, False),
        ({**statements((INSERT, [2, "Bob", 1])), "dry_run": True}, False),
        ({**statements((INSERT, [2, "Bob", 1])), "isolation": "serializable"}, False),
        ({**statements((INSERT, [2, "Bob", 1])), "other": 1}, False),
        ({"statements": [{"sql": INSERT, "parameter_sets": [[2, "B", 1], [3, "C", 1]]}]}, False),
        ({"statements": [{"sql": "DELETE FROM customer", "search_path": ["public"]}]}, False),
        (b'{"statements": [{"sql": "DELETE FROM customer', False),
        (b'{"statements": [{"sql": NaN}]}', False),
    ],
)
def test_short_transactions_are_answered_as_fastapi_answers_them(shop, counted, body, short):
    found = []
    for media_type in (FULL, SHORT):
        cleared(shop)
        before = counted[0]
        answer = sent(shop, body, media_type)
        found.append((answer, sorted(shop.rows("SELECT * FROM customer"))))
        assert counted[0] - before == (short and media_type is SHORT)
    assert found[0] == found[1]
    assert not any(shop.leaks().values())


@pytest.mark.parametrize("first", [SHORT, FULL])
def test_a_repeated_request_gets_the_first_answer_on_either_route(shop, first):
    cleared(shop)
    body, key = statements((INSERT, [2, "Bob", 1])), f"again {first}"
    answers = []
    for media_type in (first, SHORT, FULL):
        given = {"Content-Type": media_type, "Idempotency-Key": key}
        answers.append(shop.client.post("/v1/transactions", json=body, headers=given).json())
        answers[-1].pop("timings_ms")
    assert answers[0] == answers[1] == answers[2]
    other = statements((INSERT, [3, "Bob", 1]))
    found = [sent(shop, other, t, **{"Idempotency-Key": key}) for t in (SHORT, FULL)]
    assert found[0] == found[1]
    assert found[0][2]["code"] == "idempotency-mismatch"


@pytest.mark.parametrize(
    ("keys", "status"),
    [(("", ""), 422), (("k" * 254 + "1", "k" * 254 + "2"), 200), (("k" * 256,) * 2, 422)],
)
def test_idempotency_keys_have_the_bounds_of_fastapi(shop, keys, status):
    found = []
    for media_type, key in zip((FULL, SHORT), keys, strict=True):
        cleared(shop)
        body = statements((INSERT, [2, "Bob", 1]))
        found.append(sent(shop, body, media_type, **{"Idempotency-Key": key}))
    assert found[0] == found[1]
    assert found[0][0] == status


def test_a_key_that_is_no_ascii_is_one_key_on_both_routes(shop):
    cleared(shop)
    content, ids = json.dumps(statements((INSERT, [2, "Bob", 1]))).encode(), set()
    for media_type in (FULL, SHORT):
        given = {b"content-type": media_type.encode(), b"idempotency-key": "ä".encode("latin-1")}
        response = shop.client.post("/v1/transactions", content=content, headers=given)
        ids.add(response.json()["transaction_id"])
    assert len(ids) == 1


@pytest.mark.parametrize(
    "error", [OutcomeUnknown("It may commit.", cure="Ask."), Unavailable("Not now.")]
)
def test_a_transaction_that_has_begun_is_not_sent_again(shop, counted, monkeypatch, error):
    begun = []

    async def transact(self, request):
        begun.append(request)
        raise error

    monkeypatch.setattr(type(shop.database), "transact", transact)
    status, headers, document, _ = sent(shop, statements((INSERT, [5, "E", 1])), SHORT)
    assert (status, document["code"]) == (
        503 if isinstance(error, Unavailable) else 504,
        error.code,
    )
    assert headers["content-type"] == "application/problem+json"
    assert len(begun) == counted[0] == 1


def test_short_transactions_count_in_the_metrics(shop):
    cleared(shop)

    def counts():
        lines = shop.client.get("/metrics").text.splitlines()
        wanted = (
            'hornbeam_request_seconds_count{method="POST",route="/v1/transactions",status="200"}',
            'hornbeam_transaction_seconds_count{part="log"}',
        )
        return [float(line.split()[-1]) for line in lines if line.startswith(wanted)]

    before = counts()
    assert sent(shop, statements((INSERT, [7, "G", 1])), SHORT)[0] == 200
    assert counts() == [count + 1 for count in before]
    assert len(before) == 2


def test_keys_need_the_role_of_a_writer_and_their_writes_are_audited(tmp_path, counted):
    log = tmp_path / "audit.log"
    with secure_world(tmp_path, audit_log=log) as secured:
        writer, reader = secured.made("writer"), secured.made("reader")
        limited = secured.made("writer", {"customer": "write"})
        log.write_text("")
        counted[0] = 0
        sql = "UPDATE customer SET c_balance = 1 WHERE c_id = 2"
        assert [secured.transact(key, sql).status_code for key in (writer, reader, limited)] == [
            200,
            403,
            200,
        ]
        assert counted[0] == 1
    first, refused, _ = map(json.loads, log.read_text().splitlines())
    assert (first["status"], first["route"], first["changed"]) == (
        200,
        "/v1/transactions",
        ["customer", "customer__orders"],
    )
    assert refused["status"] == 403


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
def test_health_is_answered_as_fastapi_answers_it(shop, path, monkeypatch):
    short = shop.client.get(path)
    with monkeypatch.context() as patched:
        patched.setattr(ShortLivez, "takes", lambda self, scope: False)
        full = shop.client.get(path)
    assert (short.status_code, short.content) == (full.status_code, full.content)
    assert short.status_code == 200
    assert short.headers["content-type"] == full.headers["content-type"]
    assert shop.client.post(path).status_code == 405
    assert shop.client.head(path).status_code == 200
