"""Every body gets an answer or a problem document, also while the services fail.

The bodies resemble those of clients more closely than the bodies of schemathesis do.
"""

from __future__ import annotations

import datetime as dt
import io
import json
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hornbeam_server.api.rest.streams import ARROW
from tests.api.api_world import world
from tests.depth import depth
from tests.fuzz.faulty_world import faulty_world
from tests.fuzz.fuzz_shop import DDL, READS, SEED, WRITES, times
from tests.fuzz.rest_fuzz import FAILING, LIMITS, SOUND, set_up, until_all_has_failed
from tests.fuzz.sql_grammar import garbled_bytes, mutated
from tests.txlayer.database_world import settled

TOKENS = """
SELECT FROM WHERE customer orders kinds c_id c_name o_c_id k_double k_json k_at ( ) , * = < + -
/ AND OR NOT NULL 1 'a' 1.5 ? :a GROUP BY count(*) ORDER LIMIT UNION ALL JOIN ON USING INSERT INTO
VALUES UPDATE SET DELETE RETURNING CASE WHEN THEN END CAST AS DATE INTERVAL 'nan' :: DOUBLE WITH x
IN EXISTS ; [ ] { } customer__orders sum over max lateral DISTINCT pivot
"""
WORDS = st.sampled_from(TOKENS.split())
SQL = st.one_of(
    st.lists(WORDS, max_size=14).map(" ".join),
    st.sampled_from(READS + WRITES),
    mutated(st.sampled_from(READS + WRITES)),
    st.text(max_size=20),
)
DDLS = st.one_of(st.lists(WORDS, max_size=10).map(" ".join), mutated(st.just(DDL)))
SCALAR = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([2**31, 2**63, -(2**63) - 1, 10**30, 1e308, -0.0]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.sampled_from(["2024-02-30", "0.1", "Infinity", "AP8=", "1e400", "2024-01-01T00:00:00Z"]),
)
ANY = st.recursive(SCALAR, lambda inner: st.lists(inner, max_size=3), max_leaves=4)
VALUES = st.one_of(
    st.lists(SCALAR, max_size=4), st.dictionaries(st.sampled_from("ab"), SCALAR), ANY
)
KEY = st.integers(0, 300)
RIGHT = st.sampled_from([sql for sql in WRITES if ":" not in sql]).flatmap(
    lambda sql: st.fixed_dictionaries(
        {
            "sql": st.just(sql),
            "parameters": st.lists(KEY, min_size=(n := sql.count("?")), max_size=n),
        }
    )
)
STATEMENT = RIGHT | st.fixed_dictionaries({"sql": SQL}, optional={"parameters": VALUES})
READ = st.tuples(
    st.sampled_from(["customer", "customer__orders", "nowhere", ""]),
    st.one_of(st.binary(max_size=4).map(bytes.hex), st.text(max_size=4)),
    st.one_of(st.none(), st.integers()),
)
PRECONDITION = st.fixed_dictionaries(
    {"relation": st.sampled_from(["customer", "kinds", "x"]), "key": st.lists(ANY, max_size=2)},
    optional={"if_absent": st.booleans(), "if_version": st.integers()},
)
TRANSACTION = st.fixed_dictionaries(
    {"statements": st.lists(STATEMENT, max_size=2)},
    optional={
        "reads": st.lists(READ, max_size=1),
        "preconditions": st.lists(PRECONDITION, max_size=1),
        "bookmark": st.integers(),
        "dry_run": ANY,
        "more": ANY,
    },
)
QUERY = st.fixed_dictionaries(
    {"sql": SQL, "timeout_ms": st.just(2_000)},
    optional={
        "parameters": VALUES,
        "snapshot": st.one_of(st.none(), st.integers()),
        "bookmark": st.integers(min_value=0),
        "max_rows": st.integers(min_value=0),
        "pending": st.lists(STATEMENT, max_size=1),
        "trace": st.booleans(),
        "use_views": ANY,
    },
)


@pytest.fixture(scope="module", params=["sound", "failing"])
def shop(request, tmp_path_factory):
    """Serve a database; verify all its views and indexes afterwards."""
    folder = tmp_path_factory.mktemp("bodies")
    if request.param == "sound":
        with world(folder, **LIMITS) as served:
            set_up(served)
            served.allowed = SOUND
            yield served
            sound(served)
            assert set(served.leaks().values()) == {0}
    else:
        with faulty_world(folder, SEED, **LIMITS) as (served, services):
            set_up(served, patient=True)
            served.allowed = FAILING
            served.run(services.unleash())
            yield served
            until_all_has_failed(served, services)
            served.run(services.heal())
            sound(served)


def sound(shop):
    assert shop.verify() == 0
    shop.run(settled(shop.database))


def check(shop, path, body, headers=None):
    given = {"Content-Type": "application/json", **(headers or {})}
    content = body if isinstance(body, bytes) else json.dumps(body)
    response = shop.client.post(path, content=content, headers=given)
    assert response.status_code < 500 or response.status_code in shop.allowed, (body, response.text)
    if response.is_error:
        assert response.headers["content-type"] == "application/problem+json", body
        assert response.json()["status"] == response.status_code
        return None
    return json.loads(response.text, parse_constant=pytest.fail)


@times(depth(40, long=80))
@given(body=st.one_of(TRANSACTION, ANY))
def test_any_transaction_body_gets_an_answer_or_a_problem(shop, body):
    check(shop, "/v1/transactions", body)


@times(depth(100, long=300))
@given(statements=st.lists(RIGHT, min_size=1, max_size=3), key=st.none() | KEY.map(str))
def test_valid_transactions_get_an_answer_or_a_problem(shop, statements, key):
    headers = {} if key is None else {"Idempotency-Key": key}
    done = check(shop, "/v1/transactions", {"statements": statements}, headers)
    if done is not None:
        read = {"sql": READS[1], "bookmark": done["bookmark"]}
        check(shop, "/v1/query", read)


@times(depth(40, long=80))
@given(body=st.one_of(QUERY, ANY))
def test_any_query_body_gets_an_answer_or_a_problem(shop, body):
    check(shop, "/v1/query", body)


@times(depth(20, long=40))
@given(sql=SQL, ddl=DDLS)
def test_any_explain_and_plan_body_gets_an_answer_or_a_problem(shop, sql, ddl):
    check(shop, "/v1/explain", {"sql": sql})
    check(shop, "/v1/schema/plan", {"ddl": ddl, "workload": sql, "query_log": sql})
    check(shop, "/v1/schema/plan", {"ddl": DDL, "workload": sql})


def arrow(**columns):
    table, sink = pa.table(columns), io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


LOADS = st.sampled_from(
    [
        ("text/csv", b"k_id,k_text,k_date,k_decimal\n1,abc,2020-01-01,1.5\n2,,,\n"),
        ("text/csv", b'k_id,k_double,k_bytes\n3,"1e3",AP8=\n'),
        (ARROW, arrow(k_id=[4, 5], k_double=[1.0, None], k_text=["a", "b"])),
        (ARROW, arrow(k_id=[6], k_date=[dt.date(2020, 1, 1)], k_decimal=[Decimal("1.5")])),
        (ARROW, arrow(k_id=[7], k_text=pa.array(["x"]).dictionary_encode(), k_flag=[None])),
    ]
)


@times(depth(100, long=300))
@given(load=LOADS.flatmap(lambda it: st.tuples(st.just(it[0]), garbled_bytes(st.just(it[1])))))
def test_garbled_loads_get_an_answer_or_a_problem(shop, load):
    media_type, content = load
    check(shop, "/v1/load/kinds", content, {"Content-Type": media_type})
