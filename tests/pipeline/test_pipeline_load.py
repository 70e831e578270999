"""Initial loads: Spark loads files into empty relations, beside a node."""

import json
import os
import random
import threading
import time
from collections import Counter
from contextlib import contextmanager
from itertools import pairwise
from types import SimpleNamespace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from hornbeam.cli import app
from hornbeam.errors import DatabaseError
from hornbeam.transport import open_transport, parse_url
from hornbeam_server.maintain.spans import Span, united
from hornbeam_server.pipeline.build.executor import Failed
from hornbeam_server.pipeline.load import driver as job
from hornbeam_server.pipeline.load import sort_and_check
from hornbeam_server.pipeline.load.executor import attempt, pack, unpack
from hornbeam_server.pipeline.load.rejects import Reject, Rejects, TooMany
from hornbeam_server.schema.errors import InvalidRequest, NotFound, Unavailable
from tests.api.api_world import world

DDL = """
CREATE TABLE region (r_id INTEGER PRIMARY KEY, r_name TEXT);
CREATE TABLE customer (
  c_id INTEGER PRIMARY KEY, c_name TEXT NOT NULL, c_r_id INTEGER REFERENCES region (r_id),
  c_email TEXT UNIQUE, c_boss INTEGER REFERENCES customer (c_id),
  c_since TIMESTAMP DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE orders (
  o_id INTEGER PRIMARY KEY, o_c_id INTEGER REFERENCES customer (c_id), o_total DECIMAL(15,2));
CREATE INDEX orders_total ON orders (o_total);
"""
WORKLOAD = """
-- name: orders_of_a_customer
SELECT c_name, o_id, o_total FROM customer, orders WHERE c_id = o_c_id AND c_name = ?;
-- name: orders_of_a_region
SELECT r_name, o_id FROM region, customer, orders
WHERE r_id = c_r_id AND c_id = o_c_id AND r_name = ?;
"""
REGIONS = 5


@pytest.fixture
def shop(tmp_path):
    with world(tmp_path) as opened:
        assert opened.apply(ddl=DDL, workload=WORKLOAD, roots=None).status_code == 200
        regions = ", ".join(f"({n}, 'region {n}')" for n in range(REGIONS))
        assert opened.transact(f"INSERT INTO region VALUES {regions}").is_success
        yield opened


def url_of(shop):
    return f"hornbeam://{shop.client.base_url.host}:{shop.client.base_url.port}"


@contextmanager
def node_of(shop):
    node = open_transport(parse_url(url_of(shop)), 30)
    try:
        yield node
    finally:
        node.close()


def write_lines(path, header, rows):
    def field(value):
        return "" if value is None else f'"{value}"' if isinstance(value, str) else str(value)

    lines = [header, *(",".join(map(field, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def drawn(seed, customers, orders):
    """Draw rows in random order, with repeated keys and addresses, missing parents and NULLs."""
    chance = random.Random(seed)

    def sometimes(value, of=8):
        return value if chance.randrange(of) else None

    people = [
        (
            chance.randrange(-20, customers),
            f"name {chance.randrange(customers)}",
            sometimes(chance.randrange(REGIONS + (n % 20 == 0))),
            sometimes(f"{chance.randrange(6 * customers)}@here", 3),
            sometimes(chance.randrange(customers), 2) if n % 3 == 0 else None,
        )
        for n in range(customers)
    ]
    bought = [
        (chance.randrange(4 * orders), sometimes(chance.randrange(customers)), f"{n}.50")
        for n in range(orders)
    ]
    return people, bought


def expected(people, bought):
    """Compute the rows that stay, in the simplest way."""
    emails, customers = set(), {}
    for row in people:
        if row[0] in customers:
            continue
        customers[row[0]] = row
    kept = {}
    for key, row in customers.items():
        if row[3] is None or row[3] not in emails:
            emails.add(row[3])
            kept[key] = row
    kept = {key: row for key, row in kept.items() if row[2] is None or row[2] < REGIONS}
    while lost := [k for k, row in kept.items() if row[4] is not None and row[4] not in kept]:
        for key in lost:
            del kept[key]
    orders = {}
    for row in bought:
        orders.setdefault(row[0], row)
    orders = {k: row for k, row in orders.items() if row[1] is None or row[1] in kept}
    return sorted(map(list, kept.values())), sorted(map(list, orders.values()))


def stored(shop):
    people = shop.rows("SELECT c_id, c_name, c_r_id, c_email, c_boss FROM customer ORDER BY c_id")
    return people, shop.rows("SELECT o_id, o_c_id, o_total FROM orders ORDER BY o_id")


class Shop:
    """Files of customers and orders, with methods that load and check them."""

    def __init__(self, shop, folder, customers=400, orders=3_000):
        self.people, self.bought = drawn(7, customers, orders)
        half = customers // 2
        self.sources = {
            "orders": [write_lines(folder / "o.csv", "o_id,o_c_id,o_total", self.bought)],
            "customer": [
                write_lines(folder / name, "c_id,c_name,c_r_id,c_email,c_boss", rows)
                for name, rows in (
                    ("b.csv", self.people[:half]),
                    ("a.csv", self.people[half:]),
                )
            ],
        }
        self.rejects = folder / "rejects.jsonl"
        self.shop = shop
        self.reported = []

    def driver(self, node, **options):
        plan = job.planned(node, self.sources, **options)
        return job.Driver(node, url_of(self.shop), plan, lambda *now: self.reported.append(now))

    def load(self, spark, *, resume=False, most=10_000, rejects=True):
        with node_of(self.shop) as node:
            path = str(self.rejects) if rejects else None
            return self.driver(node).load(spark, path, most, resume=resume)

    def rejected(self):
        return [json.loads(line) for line in self.rejects.read_text().splitlines()]

    def under_way(self):
        return self.shop.client.get("/v1/loads").json()["load"]

    def exports(self):
        return set(os.listdir(self.shop.database.settings.data / "exports"))

    def require_loaded(self, exports=frozenset()):
        assert stored(self.shop) == expected(self.people, self.bought)
        assert self.shop.verify() == 0
        assert self.under_way() is None
        assert self.exports() <= exports


def test_spark_loads_related_relations_and_resumes_an_interrupted_load(
    spark, shop, tmp_path, monkeypatch
):
    """The first driver dies in the middle of the second relation. Its finished ranges are kept."""
    monkeypatch.setattr(sort_and_check, "RANGE_ROWS", 400)
    files, run, runs = Shop(shop, tmp_path), sort_and_check.Sorted.run, []

    def dies(self, task, number):
        runs.append(task)
        if len(runs) == 8:
            raise KeyboardInterrupt
        return run(self, task, number)

    monkeypatch.setattr(sort_and_check.Sorted, "run", dies)
    with pytest.raises(KeyboardInterrupt):
        files.load(spark)
    monkeypatch.setattr(sort_and_check.Sorted, "run", run)
    assert files.under_way()["missing"]["customer"] == []
    there = files.under_way()["rows"]
    assert 0 < there["orders"] < len(files.bought) / 2
    assert stored(shop) == ([], [])
    with pytest.raises(InvalidRequest, match="--resume"):
        files.load(spark)
    left = files.exports()  # tasks of the first driver may still read
    report = files.load(spark, resume=True)
    files.require_loaded(left)
    people, bought = expected(files.people, files.bought)
    assert report.there == there
    assert report.rows == {"customer": 0, "orders": len(bought) - there["orders"]}
    assert 0 < len(people) < len(files.people)
    assert files.reported[-1][0] == len(people) + len(bought)
    rejected = files.rejected()
    assert len(rejected) == len(files.people) + len(files.bought) - len(people) - len(bought)
    assert report.rejected["customer"] == len(files.people) - len(people)
    assert {each["code"] for each in rejected} == {"unique-violation", "foreign-key-violation"}
    lines = {
        name: (tmp_path / name).read_text().splitlines() for name in ("a.csv", "b.csv", "o.csv")
    }
    for each in rejected:
        line = lines[os.path.basename(each["file"])][each["place"] - 1]
        assert str(next(iter(json.loads(each["record"]).values()))) == line.split(",")[0]
    rows = shop.rows(
        "SELECT r_name, o_id FROM region, customer, orders"
        " WHERE r_id = c_r_id AND c_id = o_c_id ORDER BY o_id"
    )
    regions = {row[0]: row[2] for row in people}
    assert rows == [
        [f"region {regions[c]}", o]
        for o, c, _ in bought
        if c is not None and regions[c] is not None
    ]
    assert shop.transact("INSERT INTO orders VALUES (-1, NULL, 1)").is_success
    assert shop.verify() == 0
    assert len(shop.rows("SELECT DISTINCT c_since FROM customer")) == 1, "as of the first run"


@pytest.mark.parametrize(
    ("keys", "doubled"),
    [(b"abcd", False), (b"aabc", True), (b"abbc", True), (b"abcc", True)],
)
def test_duplicate_keys_are_found_in_and_between_chunks(monkeypatch, keys, doubled):
    """The whole input is read: Spark does not reuse a worker that leaves some of it."""
    monkeypatch.setattr("hornbeam_server.pipeline.load.executor.CHUNK_ROWS", 2)
    packed = iter([(rows,) for rows in pack((i, bytes([key]), b"v") for i, key in enumerate(keys))])
    assert list(sort_and_check._see(3, packed)) == [(3, (b"a", doubled))]
    assert list(packed) == []
    assert list(sort_and_check._see(4, iter(()))) == []


def test_packed_rows_are_padded_with_nulls_to_the_batch_size(monkeypatch):
    monkeypatch.setattr("hornbeam_server.pipeline.load.executor.CHUNK_ROWS", 2)
    origins, binary = pa.array([1, 2, 3]), pa.array([b"a", b"b", b"c"])
    batches = [(origins, binary, binary), (origins[:1], binary[:1], binary[:1])]
    three, one = (found.to_pylist() for found in sort_and_check._packed(iter(batches)))
    assert [data and unpack(data).keys for data in three] == [[b"a", b"b"], [b"c"], None]
    assert [data and unpack(data).origins for data in one] == [[1]]


class Ranges:
    """Rows of a relation in ranges of `per` rows, which `run` writes in this process."""

    def __init__(self, driver, each, run=attempt, per=100):
        staging = driver._staging(each)
        batches = [b for n in range(len(each.splits)) for b in staging.stage(n)]
        records = [r for batch in batches for r in zip(*batch.to_pydict().values(), strict=True)]
        rows = sorted(((r[0], r[1], r[2]) for r in records if r[1] is not None), key=lambda r: r[1])
        self.parts = [rows[i : i + per] for i in range(0, len(rows), per)]
        self.count, self.size = len(rows), 0
        starts = [b"", *(part[0][1] for part in self.parts[1:])]
        self.ranges = list(enumerate(map(Span, starts, [*starts[1:], None])))
        self._run = run

    def run(self, task, number):
        return self._run(task, pack(self.parts[number] if self.parts else []))


def drive(files, node, run=attempt, *, resume=False, rejects=None, most=100, workers=1, per=100):
    """Load like `Driver.load`, but without Spark. The rows must have distinct keys."""
    driver = files.driver(node)
    there = driver.identify(resume=resume)
    inputs = driver._plan.inputs
    rows = {each.relation.name: Ranges(driver, each, run, per) for each in inputs}
    with Rejects(rejects, most, resume=there is not None) as rejected:
        driver.begin(rows, {} if there is None else there.rows)
        for each in inputs:
            driver.write(each, rows[each.relation.name], rejected, workers)
    return driver.publish()


class Plain(Shop):
    """Rows with distinct keys. The orders in `orphans` refer to a missing customer."""

    def __init__(self, shop, folder, orphans=()):
        super().__init__(shop, folder, 0, 0)
        self.people = [(n, f"name {n}", n % REGIONS, None, None) for n in range(250)]
        self.bought = [(n, 999 if n in orphans else n % 250, f"{n}.50") for n in range(350)]
        header = "c_id,c_name,c_r_id,c_email,c_boss"
        self.sources = {
            "orders": [write_lines(folder / "o.csv", "o_id,o_c_id,o_total", self.bought)],
            "customer": [write_lines(folder / "c.csv", header, self.people)],
        }


def test_a_resumed_load_writes_only_missing_ranges(shop, tmp_path):
    files, begun, again = Plain(shop, tmp_path), [], []

    def dies(task, packed):
        begun.append(task)
        if len(begun) == 5:
            raise KeyboardInterrupt
        return attempt(task, packed)

    def notes(task, packed):
        again.append(task)
        return attempt(task, packed)

    with node_of(shop) as node:
        with pytest.raises(KeyboardInterrupt):
            drive(files, node, dies)
        assert [task.relation for task in begun] == ["customer"] * 3 + ["orders"] * 2
        drive(files, node, notes, resume=True, per=70)
    assert [task.relation for task in again] == ["orders"] * 4, "of the second range the rest"
    assert again[0].span.start == begun[-1].span.start
    files.require_loaded()
    assert files.reported[-5:] == [(350, 600), (390, 600), (460, 600), (530, 600), (600, 600)]


def test_the_next_range_begins_before_the_last_is_recorded(shop, tmp_path, monkeypatch):
    files, begun, noted = Plain(shop, tmp_path), Counter(), Counter()
    finished = job.Driver._finished
    ranges = {"customer": 3, "orders": 4}

    def notes(task, packed):
        begun[task.relation] += 1
        return attempt(task, packed)

    def waits(self, relation, span, rows):
        noted[relation] += 1
        give_up = time.monotonic() + 10
        while begun[relation] < min(noted[relation] + 1, ranges[relation]):
            assert time.monotonic() < give_up
            time.sleep(0.01)
        finished(self, relation, span, rows)

    monkeypatch.setattr(job.Driver, "_finished", waits)
    with node_of(shop) as node:
        drive(files, node, notes)
    assert noted == ranges
    files.require_loaded()


def test_relations_are_read_in_parallel(shop, tmp_path, monkeypatch):
    """Without Spark: the sort of each relation waits for the sort of the other."""
    files, both = Plain(shop, tmp_path), threading.Barrier(2, timeout=10)
    with node_of(shop) as node:
        driver = files.driver(node)
        inputs = {each.relation.name: each for each in driver._plan.inputs}

        class Sorting:
            references = ()

            def __init__(self, _spark, staging):
                self.rejected = set()
                self.relation = inputs[staging.relation].relation

            def sorted(self, _parallelism):
                both.wait()
                return Ranges(driver, inputs[self.relation.name])

            def unreadable(self, _limit):
                return []

            def doubled(self, *_):
                return []

            def dangling(self, _limit):
                return []

            def close(self):
                pass

        monkeypatch.setattr(job, "Sifted", Sorting)
        spark = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=2))
        driver.load(spark, None, 0, resume=False)
    files.require_loaded()


def test_a_load_does_not_resume_with_other_files(shop, tmp_path):
    files = Plain(shop, tmp_path)
    with node_of(shop) as node:
        driver = files.driver(node)
        driver.identify(resume=False)
        driver.begin({}, {})
        write_lines(tmp_path / "o.csv", "o_id,o_c_id,o_total", files.bought[1:])
        with pytest.raises(InvalidRequest, match="--cancel"):
            drive(files, node, resume=True)
        assert shop.transact("INSERT INTO region VALUES (77, 'x')").status_code == 409
        assert shop.client.delete("/v1/loads").json()["cancelled"] == ["customer", "orders"]
        drive(files, node)
    files.bought = files.bought[1:]
    files.require_loaded()


def test_a_failed_range_is_retried_a_limited_number_of_times(shop, tmp_path):
    files, failures = Plain(shop, tmp_path), []

    def fails(task, packed):
        failures.append(task.span)
        return Failed("a disk is full") if len(failures) < job.ATTEMPTS else attempt(task, packed)

    with node_of(shop) as node:
        with pytest.raises(Unavailable, match="a disk is full"):
            drive(files, node, lambda task, packed: Failed("a disk is full"))
        drive(files, node, fails, resume=True)
    assert len(set(failures[: job.ATTEMPTS])) == 1
    files.require_loaded()


def test_the_driver_of_a_cancelled_load_ends(shop, tmp_path):
    files, begun = Plain(shop, tmp_path), []

    def cancels(task, packed):
        begun.append(task)
        if len(begun) == 2:
            assert shop.client.delete("/v1/loads").is_success
        return attempt(task, packed)

    with node_of(shop) as node:
        with pytest.raises((NotFound, DatabaseError), match="not under way"):
            drive(files, node, cancels)
        assert stored(shop) == ([], [])
        left = files.exports()  # of the range in progress
        drive(files, node, workers=2)
    files.require_loaded(left)


def test_each_orphan_is_rejected_once(shop, tmp_path, monkeypatch):
    """The driver dies when it has written the orphan of the last range of orders, and has not
    recorded that range yet. The file of rejects ends in a partial line. The resumed load finds that
    orphan again."""
    files, ended, again = Plain(shop, tmp_path, orphans=(5, 120, 320)), [], []
    path = tmp_path / "rejects.jsonl"
    finished = job.Driver._finished

    def dies(self, relation, span, rows):
        ended.append(span)
        if len(ended) == 7:
            raise KeyboardInterrupt
        finished(self, relation, span, rows)

    def notes(task, packed):
        done = attempt(task, packed)
        again.extend(done.rejected)
        return done

    with node_of(shop) as node:
        with monkeypatch.context() as patches:
            patches.setattr(job.Driver, "_finished", dies)
            with pytest.raises(KeyboardInterrupt):
                drive(files, node, rejects=path, most=3)
        assert path.read_bytes().count(b"\n") == 3
        with path.open("a") as file:
            file.write('{"relation": "ord')
        drive(files, node, notes, resume=True, rejects=path, most=3)
    assert len(again) == 1, "an orphan of the first run"
    reported = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(one["place"], one["code"]) for one in reported] == [
        (line, "foreign-key-violation") for line in (7, 122, 322)
    ]
    assert reported[0]["file"] == str(tmp_path / "o.csv")
    assert "customer (o_c_id = 999), which does not exist" in reported[0]["reason"]
    assert json.loads(reported[0]["record"])["o_id"] == 5
    files.bought = [row for row in files.bought if row[1] != 999]
    files.require_loaded()


LARGE = """
CREATE TABLE region (r_id INTEGER PRIMARY KEY, r_text TEXT);
CREATE TABLE customer (
  c_id INTEGER PRIMARY KEY, c_text TEXT, c_r_id INTEGER REFERENCES region (r_id),
  c_boss INTEGER REFERENCES customer (c_id));
CREATE TABLE orders (o_id INTEGER PRIMARY KEY, o_c_id INTEGER REFERENCES customer (c_id));
"""
LARGE_WORKLOAD = """
SELECT r_text, c_text FROM region, customer WHERE r_id = c_r_id AND c_id = ?;
SELECT r_text, c_text, o_id FROM region, customer, orders
WHERE r_id = c_r_id AND c_id = o_c_id AND o_id = ?;
"""


def test_rows_whose_view_row_is_too_large_are_rejected(spark, tmp_path):
    """Each row fits alone, but not joined to its parent. Its children then have no parent."""
    large = "x" * 5_200_000
    people = [(3, large, 0, None), (4, large, 1, None)]
    people += [(n, "", 0, boss) for n, boss in ((5, 3), (6, 5), (7, 4), (8, None))]
    with world(tmp_path) as shop:
        assert shop.apply(ddl=LARGE, workload=LARGE_WORKLOAD, roots=None).status_code == 200
        for region, text in ((0, large), (1, "")):
            assert shop.transact("INSERT INTO region VALUES (?, ?)", region, text).is_success
        files = Shop(shop, tmp_path, 0, 0)
        files.sources = {
            "customer": [write_lines(tmp_path / "c.csv", "c_id,c_text,c_r_id,c_boss", people)],
            "orders": [write_lines(tmp_path / "o.csv", "o_id,o_c_id", [(1, 3), (2, 4), (3, 8)])],
        }
        assert files.load(spark).rows == {"customer": 3, "orders": 2}
        rejected = files.rejected()
        assert [(each["relation"], each["place"], each["code"]) for each in rejected] == [
            ("customer", 2, "limit-exceeded"),
            ("customer", 4, "foreign-key-violation"),
            ("customer", 5, "foreign-key-violation"),
            ("orders", 2, "foreign-key-violation"),
        ]
        assert "10000000 are the most that can be stored" in rejected[0]["reason"]
        assert shop.rows("SELECT c_id FROM customer ORDER BY c_id") == [[4], [7], [8]]
        assert shop.verify() == 0


def test_repeated_rejects_are_written_once(tmp_path):
    path = tmp_path / "rejects.jsonl"
    made = [Reject("orders", "o.csv", n, "code", f"reason {n}", "…") for n in range(4)]
    with Rejects(path, 3) as rejects:
        rejects.add(made[:2])
    with path.open("a") as file:
        file.write('{"relation": "ord')
    with Rejects(path, 3, resume=True) as rejects:
        rejects.add(made[1:3])
        with pytest.raises(TooMany, match="More than 3 rows"):
            rejects.add(made)
    assert [json.loads(line)["place"] for line in path.read_text().splitlines()] == [0, 1, 2, 3]
    with Rejects(path, 3) as rejects:
        assert rejects.counts == {}
    assert path.read_text() == ""
    with Rejects(None, 100) as rejects, pytest.raises(TooMany, match="csv:0: reason 0"):
        rejects.add(made)
    path.write_text("something else\n")
    with (
        pytest.raises(InvalidRequest, match="cannot be a file of rejects"),
        Rejects(path, 3, resume=True),
    ):
        pass


def test_an_impossible_load_is_refused_before_the_read(shop, tmp_path):
    files = Plain(shop, tmp_path)
    with pytest.raises(InvalidRequest, match="beside a node"):
        job.load(f"hornbeam:///{tmp_path}", files.sources)
    with node_of(shop) as node:
        with pytest.raises(NotFound, match="nowhere"):
            job.planned(node, {"nowhere": []})
        with pytest.raises(InvalidRequest, match="region has rows"):
            job.planned(node, {"region": []})
    assert os.listdir(shop.database.settings.data / "exports") == []


@given(keys=st.lists(st.binary(max_size=2), unique=True), data=st.data())
def test_common_parts_of_ranges_cover_the_missing_keys_once(keys, data):
    """The parts together cover all missing keys, each key once."""
    cuts = sorted(key for key in keys if key)
    ranges = list(map(Span, [b"", *cuts], [*cuts, None]))
    edges = sorted(data.draw(st.lists(st.binary(min_size=1, max_size=2), unique=True)))
    missing = list(map(Span, [b"", *edges], [*edges, None]))[:: data.draw(st.integers(1, 2))]
    found = [piece for span in ranges for piece in job.common(span, missing)]
    assert united(found) == united(missing)
    assert all(a.end is not None and a.end <= b.start for a, b in pairwise(found))


def test_tables_are_split_at_the_starts_of_ranges():
    spans = [Span(bytes([n]), bytes([n + 1])) for n in range(10)]
    assert job.evenly(spans, 0) == []
    assert [s.start for s in job.evenly(spans, 3 * job.REGION_BYTES)] == [b"\2", b"\5", b"\7"]
    assert len(job.evenly(spans, 10**15)) == 9


def test_the_command_line_loads_and_cancels(shop, tmp_path, monkeypatch):
    files, asked = Plain(shop, tmp_path), []

    def loads(url, sources, *, progress, **options):
        asked.append((url, sources, options))
        progress(50, 600)
        return job.Report({"customer": 200}, {"customer": 50}, {"customer": 3}, 7, 2.0)

    def run(*arguments):
        return CliRunner().invoke(app, ["load", "--url", url_of(shop), *arguments])

    monkeypatch.setattr(job, "load", loads)
    given = [f"{name}={path}" for name, paths in files.sources.items() for path in paths]
    options = ["--rejects", str(files.rejects), "--max-rejects", "7", "--single-lines", "--resume"]
    done = run(*given, "--spark", "--master", "local[1]", *options)
    assert done.exit_code == 0, done.output
    assert "200 rows into customer, 50 existed already, 3 rejected" in done.output
    assert "100 rows/s" in done.output
    assert asked == [
        (
            url_of(shop),
            files.sources,
            {
                "master": "local[1]",
                "rejects": str(files.rejects),
                "max_rejects": 7,
                "resume": True,
                "single_lines": True,
            },
        )
    ]
    assert json.loads(run(*given, "--spark", "--json").output)["version"] == 7
    assert run().exit_code != 0
    assert "not both" in str(run(*given, "--spark", "--again").exception)
    assert isinstance(run("--cancel").exception, DatabaseError)
    with node_of(shop) as node:
        driver = files.driver(node)
        driver.identify(resume=False)
        driver.begin({}, {})
    assert "customer, orders" in run("--cancel").output
    assert files.under_way() is None


def test_rows_read_for_an_older_schema_are_not_written(shop, tmp_path):
    files = Plain(shop, tmp_path)
    with node_of(shop) as node:
        driver = files.driver(node)
        driver.identify(resume=False)
        inputs = driver._plan.inputs
        changed = DDL.replace("o_total DECIMAL(15,2)", "o_total DECIMAL(15,2), o_note TEXT")
        assert shop.apply(ddl=changed, workload=WORKLOAD, roots=None).status_code == 200
        rows = {each.relation.name: Ranges(driver, each) for each in inputs}
        driver.begin(rows, {})
        with (
            Rejects(None, 0) as rejected,
            pytest.raises(InvalidRequest, match="orders was changed while its files were read"),
        ):
            driver.write(inputs[0], rows["customer"], rejected, 1)
    assert stored(shop) == ([], [])


def test_spark_orders_keys_as_stores_do(spark):
    """Keys are compared as unsigned bytes, and a prefix comes before longer keys."""
    chance = random.Random(1)
    keys = [chance.randbytes(chance.randrange(4)) for _ in range(500)]
    frame = spark.createDataFrame([(bytearray(key),) for key in keys], "k BINARY")
    assert [bytes(row.k) for row in frame.orderBy("k").collect()] == sorted(keys)
