"""Traces and metrics by OTLP, as a receiver gets them."""

from __future__ import annotations

import asyncio
import math
import signal
import time
from contextlib import asynccontextmanager, contextmanager

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from hornbeam_server.api.rest.app import create_app
from hornbeam_server.api.serve import EXIT_CONFIGURATION
from hornbeam_server.api.telemetry.export import CLOSE_S, Telemetry
from hornbeam_server.node.database import Database
from hornbeam_server.node.settings import Settings
from hornbeam_server.schema.errors import InvalidRequest, Unavailable
from hornbeam_server.storage import tracing
from hornbeam_server.storage.hbase.store import HBaseStore
from tests.api.api_world import PLAN, serving
from tests.api.otlp_receiver import Receiver, receiving
from tests.api.test_api_serve import start
from tests.pgwire.wire_world import wire_world
from tests.storage.hbase_gateways import TWO, Listener
from tests.txlayer.test_txlayer_member import bank_of
from tests.virtual_time import in_virtual_time

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
HEADERS = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
TIMEOUT_S = 0.2
SECRETS = ("4711", "secret")
UPDATE = "UPDATE account SET a_balance = ? WHERE a_balance < 4711 AND a_id < ?"
INSERT = "INSERT INTO entry (e_id, e_a_id, e_amount) VALUES (?, ?, ?)"


@pytest.fixture
def receiver(monkeypatch):
    """A receiver to which the telemetry of this process is sent."""
    with receiving() as (receiver, url):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "20")
        yield receiver


@contextmanager
def telemetry():
    """The telemetry of a server, which has sent everything at the end of the context."""
    made = Telemetry("http://node-1")
    try:
        yield made
    finally:
        asyncio.run(made.close())


def parents(receiver: Receiver) -> set[tuple[str, str]]:
    """The names of all spans, each behind that of its parent; the client's span is `client`."""
    names = {span.id: span.name for span in receiver.spans} | {PARENT: "client", "": "none"}
    return {(names[span.parent], span.name) for span in receiver.spans}


def quoted(receiver: Receiver) -> list[str]:
    """What the spans say that only a client may know."""
    said = [f"{span.name} {span.message} {span.attributes}" for span in receiver.spans]
    return [text for text in said if any(secret in text for secret in SECRETS)]


async def transact(world, node, app, *statements):
    """Send a transaction to the application of a node, as a client with a trace of its own does."""

    async def send():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            body = [{"sql": sql, "parameters": parameters} for sql, *parameters in statements]
            return await client.post("/v1/transactions", json={"statements": body}, headers=HEADERS)

    answer = await node.do(send())
    await world.applied()
    return answer


def run_on_two_nodes(made: Telemetry, *transactions):
    """The status and the body of each transaction, which are sent to one of two nodes."""
    answers = []

    @in_virtual_time
    async def run():
        world = await bank_of(0, 0, tracer=made.tracer)
        first = world.all[0]
        app = create_app(world.settings, first.database, made.tracer)
        answers.extend([await transact(world, first, app, *each) for each in transactions])
        await world.end()
        answers.append([node.name for node in world.all])

    run()
    return answers


def test_one_trace_of_a_writing_transaction_spans_two_nodes(receiver):
    with telemetry() as made:
        statements = (UPDATE, 4711, 12), (INSERT, 4711, 3, 4711)
        answer, (first, second) = run_on_two_nodes(made, statements)
    assert answer.status_code == 200, answer.text
    assert {span.trace for span in receiver.spans} == {TRACE}
    assert parents(receiver) == {
        ("client", "POST /v1/transactions"),
        ("POST /v1/transactions", "transaction"),
        ("transaction", "UPDATE"),
        ("transaction", "INSERT"),
        ("UPDATE", "lock"),
        ("INSERT", "lock"),
        ("lock", "grant"),
        ("transaction", "log"),
        ("transaction", "apply"),
    }
    (request,) = receiver.named("POST /v1/transactions")
    assert request.attributes["http.route"] == "/v1/transactions"
    assert request.attributes["http.response.status_code"] == 200
    assert request.resource["service.name"] == "hornbeam"
    assert request.resource["service.instance.id"] == "http://node-1"
    (update,) = receiver.named("UPDATE")
    assert update.attributes["db.query.text"] == UPDATE.replace("4711", "?")
    assert {span.attributes["hornbeam.member"] for span in receiver.named("grant")} == {second}
    assert {span.attributes["hornbeam.caller"] for span in receiver.named("grant")} == {first}
    (transaction,) = receiver.named("transaction")
    assert transaction.attributes["hornbeam.transaction.id"] == answer.json()["transaction_id"]
    (log,), (apply,) = receiver.named("log"), receiver.named("apply")
    assert update.end <= log.begin <= log.end <= apply.begin <= apply.end
    assert not any(span.failed for span in receiver.spans)
    assert not quoted(receiver)


def test_a_refused_statement_is_a_failed_span_without_the_message_of_its_error(receiver):
    name = "INSERT INTO account VALUES (4711, 1, 'secret')"
    with telemetry() as made:
        first, again, _ = run_on_two_nodes(made, [(name,)], [(name,)])
    assert first.status_code == 200
    assert again.status_code == 409
    assert "4711" in again.text
    failed = {span.name: span for span in receiver.spans if span.failed}
    assert set(failed) == {"transaction", "INSERT"}
    assert {span.attributes["error.type"] for span in failed.values()} == {"unique-violation"}
    assert not any(span.events for span in receiver.spans)
    assert not quoted(receiver)


def test_a_client_without_a_sampled_trace_has_no_spans(receiver, monkeypatch):
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_always_off")
    with telemetry() as made:
        tracer = made.tracer
        with tracing.Entered(tracer.begin("a", {}, {})):
            assert tracing.current() is None
            assert not int(tracing.traceparent()[-2:], 16) & 1
            with tracing.part("b"), tracing.statement("SELECT 1"):
                pass
        with tracing.Entered(tracer.begin("c", {}, HEADERS)):
            assert tracing.current() is not None
    assert [span.name for span in receiver.spans] == ["c"]


def test_work_that_a_request_leaves_behind_is_not_part_of_its_trace(receiver):
    with telemetry() as made:

        async def behind():
            await asyncio.sleep(0.01)
            with tracing.part("late"):
                pass

        async def request():
            with tracing.Entered(made.tracer.begin("request", {}, HEADERS)):
                return asyncio.ensure_future(behind())

        async def run():
            await (await request())

        asyncio.run(run())
    assert [span.name for span in receiver.spans] == ["request"]


def test_an_answer_that_ends_in_another_task_ends_its_span(receiver):
    with telemetry() as made:

        async def rows():
            with tracing.part("rows"):
                yield 1
                yield 2

        async def run():
            with tracing.Entered(made.tracer.begin("request", {}, HEADERS)):
                answer = rows()
                await asyncio.ensure_future(anext(answer))
                await answer.aclose()
                with tracing.part("after"):
                    pass

        asyncio.run(run())
    assert parents(receiver) == {
        ("client", "request"),
        ("request", "rows"),
        ("request", "after"),
    }


def test_a_gateway_call_belongs_to_the_request_that_makes_it(receiver):
    def handle(connection):
        while connection.recv(1 << 16):
            connection.sendall(TWO)

    async def ask(made):
        with Listener(handle) as gateway:
            store = HBaseStore([gateway.address], timeout_s=0.2)
            request = tracing.Entered(made.tracer.begin("request", {}, HEADERS))
            with request, pytest.raises(Unavailable, match="out of reach"):
                await store.get("accounts", [b"secret"], 4711)
            await store.close()

    with telemetry() as made:
        asyncio.run(ask(made))
    assert parents(receiver) == {("client", "request"), ("request", "gateway call")}
    (call,) = receiver.named("gateway call")
    assert call.failed
    assert call.attributes["db.collection.name"] == "accounts"
    assert not quoted(receiver)


@contextmanager
def served(folder, made: Telemetry):
    """A server with telemetry, as `hornbeam serve` makes one."""

    @asynccontextmanager
    async def application():
        settings = Settings(data=folder / "data")
        async with await Database.open(settings) as database:
            app = create_app(settings, database, made.tracer)
            async with made.measuring(app.state.metrics, app.state.serving):
                yield app

    with serving(application) as world:
        assert world.apply(**PLAN).is_success
        yield world


ROW = "SELECT c_name FROM customer WHERE c_id = 4711"


def test_reads_have_spans_with_their_rows_also_those_that_are_answered_at_once(receiver, tmp_path):
    with telemetry() as made, served(tmp_path, made) as world:
        world.transact("INSERT INTO customer (c_id, c_name) VALUES (?, ?)", 4711, "secret")
        for _ in range(4):
            assert world.rows(ROW) == [["secret"]]
        assert world.rows("SELECT count(*) FROM customer, orders") == [[0]]
        with pytest.raises(AssertionError):
            world.rows("SELECT c_nothing FROM customer WHERE c_name = 'secret'")
        assert world.client.get("/livez", headers=HEADERS).is_success
        assert world.client.get("/metrics").is_success
    reads = receiver.named("POST /v1/query")
    assert len(reads) == 6
    assert not any(span.parent for span in reads)
    text = ROW.replace("4711", "?")
    direct = [span for span in receiver.named("SELECT") if span.attributes["db.query.text"] == text]
    assert [span.attributes["db.response.returned_rows"] for span in direct] == [1] * 4
    assert {span.parent for span in receiver.named("SELECT")} == {span.id for span in reads}
    (failed,) = [span for span in receiver.spans if span.failed]
    assert failed.name == "SELECT"
    assert not any("livez" in span.name or "metrics" in span.name for span in receiver.spans)
    assert not quoted(receiver)


def test_statements_of_postgresqls_protocol_have_spans(receiver, tmp_path):
    with (
        telemetry() as made,
        wire_world(tmp_path, tracer=made.tracer) as world,
        world.connect() as db,
    ):
        db.execute("CREATE TABLE t (a INT PRIMARY KEY, b TEXT)")
        db.execute("INSERT INTO t VALUES (%s, %s)", (4711, "secret"))
        for _ in range(4):
            assert db.execute("SELECT b FROM t WHERE a = 4711").fetchall() == [("secret",)]
    protocol, text = "network.protocol.name", "SELECT b FROM t WHERE a = ?"
    requests = {span.id: span for span in receiver.spans if protocol in span.attributes}
    assert {span.attributes[protocol] for span in requests.values()} == {"postgresql"}
    reads = receiver.named("SELECT")
    assert [span.attributes["db.query.text"] for span in reads] == [text] * 4
    assert {requests[span.parent].name for span in reads} == {"POST /v1/query"}
    (insert,) = receiver.named("INSERT")
    (transaction,) = [span for span in receiver.spans if span.id == insert.parent]
    assert requests[transaction.parent].name == "POST /v1/transactions"
    assert not quoted(receiver)


def exposed(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """The samples of `GET /metrics` by name and labels, without those that are not known."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not math.isnan(sample.value) and not sample.name.endswith("_created")
    }


def samples(receiver: Receiver) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """The received metrics as the samples of `GET /metrics` that they stand for."""
    found = {}
    for name, metric in receiver.metrics.items():
        kind = metric.WhichOneof("data")
        ending = "_total" if kind == "sum" else ""
        for point in getattr(metric, kind).data_points:
            labels = frozenset((each.key, each.value.string_value) for each in point.attributes)
            if kind != "histogram":
                found[name + ending, labels] = point.as_double
                continue
            assert not point.HasField("min")
            upto = 0
            for bound, count in zip(
                (*point.explicit_bounds, math.inf), point.bucket_counts, strict=True
            ):
                upto += count
                le = "+Inf" if math.isinf(bound) else repr(bound)
                found[f"{name}_bucket", labels | {("le", le)}] = upto
            found[f"{name}_count", labels], found[f"{name}_sum", labels] = point.count, point.sum
    return found


def test_metrics_by_otlp_are_those_of_the_route(receiver, tmp_path):
    with telemetry() as made, served(tmp_path, made) as world:
        world.transact("INSERT INTO customer (c_id, c_name) VALUES (1, 'a')")
        for _ in range(4):
            world.rows(ROW)
        text = world.client.get("/metrics").text
    wanted, found = exposed(text), samples(receiver)
    changing = {"hornbeam_watermark_lag_seconds"}
    own = {("route", "/metrics")}  # counted after its answer
    assert {each for each in found if not own <= each[1]} == set(wanted)
    for each, value in wanted.items():
        if each[0] not in changing:
            assert found[each] == value, each
    assert receiver.metrics["hornbeam_query_seconds"].unit == "s"
    assert receiver.metrics["hornbeam_log_bytes"].unit == "By"
    assert receiver.metrics["hornbeam_transactions_committed"].sum.is_monotonic


@pytest.mark.parametrize("fault", ["refuses", "silent", "down"])
def test_a_receiver_in_trouble_delays_no_request_and_is_reported_once(
    fault, receiver, tmp_path, monkeypatch, capfd
):
    if fault == "refuses":
        receiver.status = 400
    elif fault == "silent":
        receiver.let.clear()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", str(TIMEOUT_S))
    else:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", str(TIMEOUT_S))
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "20")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "10")
    reported = ""
    made = Telemetry("http://node-1")
    with served(tmp_path, made) as world:
        began = time.monotonic()
        for number in range(40):
            assert world.transact("INSERT INTO kinds (k_id) VALUES (?)", number).is_success
        assert time.monotonic() - began < 40 * TIMEOUT_S, "no request waits for the receiver"
        deadline = time.monotonic() + 20
        while "not accepted" not in reported and time.monotonic() < deadline:
            reported += capfd.readouterr().err
    began = time.monotonic()
    asyncio.run(made.close())
    assert time.monotonic() - began < CLOSE_S + 2
    reported += capfd.readouterr().err
    assert reported.count("not accepted") == 1, reported
    assert "opentelemetry" not in reported.lower()
    assert not receiver.spans


def test_a_receiver_that_accepts_again_is_reported(receiver, monkeypatch):
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
    with telemetry() as made:
        receiver.status = 400
        made.tracer.begin("a", {}, {}).end()
        deadline = time.monotonic() + 20
        while not receiver.asked and time.monotonic() < deadline:
            time.sleep(0.005)
        receiver.status = 200
        made.tracer.begin("b", {}, {}).end()
    assert [span.name for span in receiver.spans] == ["b"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_TRACES_EXPORTER", "jaeger"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "often"),
    ],
)
def test_variables_that_cannot_be_used_are_refused(name, value, monkeypatch):
    monkeypatch.setenv(name, value)
    with pytest.raises(InvalidRequest, match=name):
        Telemetry("http://node-1")


def test_a_signal_can_be_left_out(receiver, monkeypatch, tmp_path):
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    with telemetry() as made:
        assert made.tracer is None
        with served(tmp_path, made) as world:
            world.rows("SELECT 1")
    assert receiver.metrics
    assert not receiver.spans


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("SELECT * FROM t WHERE a = 4711", "SELECT * FROM t WHERE a = ?"),
        (
            "INSERT INTO t4 VALUES (47.11, 'se''cret', $1, :p1, ?)",
            "INSERT INTO t4 VALUES (?.?, ?, $1, :p1, ?)",
        ),
        ("SELECT 1 -- secret 4711\n/* secret /* 4711 */ */ FROM t", "SELECT ? FROM t"),
        ("SELECT $$secret$$, $a$ secret $b$ 4711 $a$", "SELECT ?, ?"),
        ("SELECT 'secret", "SELECT ?"),
        ("SELECT E'a\\'secret'", "SELECT"),
        ('SELECT "a 4711" FROM "T"', 'SELECT "a 4711" FROM "T"'),
    ],
)
def test_texts_of_statements_have_no_literals(sql, text):
    assert tracing.without_values(sql) == text


def test_a_text_that_is_cut_within_a_literal_shows_nothing_of_it():
    sql = "SELECT '" + "secret" * tracing.CHARACTERS + "'"
    assert tracing.without_values(sql) == "SELECT ?"


def test_a_server_sends_what_it_has_before_it_ends(receiver, tmp_path):
    server = start(tmp_path / "data", telemetry=True)
    try:
        url = server.stdout.readline().split()[4]
        body = {"sql": "SELECT 4711"}
        assert httpx.post(f"{url}/v1/query", json=body, headers=HEADERS).is_success
        server.send_signal(signal.SIGTERM)
        _, log = server.communicate(timeout=30)
    finally:
        server.kill()
        server.wait()
    assert server.returncode == 0
    assert log == ""
    assert parents(receiver) == {("client", "POST /v1/query"), ("POST /v1/query", "SELECT")}
    assert receiver.named("SELECT")[0].resource["service.instance.id"] == url
    assert receiver.metrics["hornbeam_ready"].gauge.data_points[0].as_double == 1


def test_a_server_without_the_packages_says_what_to_install(tmp_path):
    gone = "import sys; sys.modules['opentelemetry.sdk'] = None"
    server = start(tmp_path / "data", before=gone, telemetry=True)
    _, error = server.communicate(timeout=30)
    assert server.returncode == EXIT_CONFIGURATION
    assert "hornbeam-server[otel]" in error
    assert "Traceback" not in error
