"""The report of a run: findings, the document, the page, and the tables of docs/performance.md."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from bench.peers.findings import findings, number, ratios, summary
from bench.peers.page import page
from bench.peers.report import Report, decode, encode, main, markdown, write
from bench.peers.results import (
    BASELINE,
    HORNBEAM,
    MVCC_A,
    ONE_ROOT,
    PAPER_LOCKS,
    PHOENIX,
    POSTGRES,
    ROOTS_EACH,
    Contention,
    OtherFormat,
    Results,
    Statement,
    Throughput,
    Timing,
    way,
)

SYSTEMS = (HORNBEAM, PHOENIX, BASELINE, MVCC_A, POSTGRES)
STATEMENTS = (
    Statement("get_book", "SELECT * FROM item, author WHERE i_a_id = a_id", "join", view=True),
    Statement("get_customer", "SELECT * FROM customer, address", "join", view=True),
    Statement("related", "SELECT * FROM item i, item j", "join"),
    Statement("get_name", "SELECT c_fname FROM customer WHERE c_id < ?", "read"),
    Statement("set_stock", "UPDATE item SET i_stock = ? WHERE i_id = ?", "write"),
)
MS = {
    HORNBEAM: (2, 1, 10, 1, 4),
    PHOENIX: (20, 10, 10, 1.5, 3),
    BASELINE: (80, 20, 40, 2, 40),
    MVCC_A: (12, 10, 30, 2, 36),
    POSTGRES: (0.2, 0.1, 0.3, 0.1, 0.2),
}


def timing(milliseconds, *, reads=True):
    """Three times with an outlier, which does not change the median."""
    return Timing((milliseconds, milliseconds, 9 * milliseconds), rows=3, equal=reads or None)


def example():
    named = [
        {
            each.name: timing(ms, reads=each.kind != "write")
            for each, ms in zip(STATEMENTS, MS[system], strict=True)
        }
        for system in SYSTEMS
    ]
    joined = {
        way(HORNBEAM, view=True): timing(10),
        way(HORNBEAM, view=False): timing(30),
        way(PHOENIX, view=False): timing(120),
    }
    return Results(
        began="2026-01-02T03:04:05+00:00",
        command="python -m bench.peers.run --quick",
        options={"customers": 1_000, "seed": 7},
        machine={"cores": 2, "processor": "An <odd> & old one"},
        versions_by_system={system: {"part": "1.0"} for system in SYSTEMS},
        systems=SYSTEMS,
        statements=STATEMENTS,
        timings=dict(zip(SYSTEMS, named, strict=True)),
        storage={HORNBEAM: {"item": 2_000_000, "author__item": 1_000_000}, BASELINE: {"t": 2**20}},
        bare={"get": timing(0.5)},
        joins={500: {"Q1": joined}, 50_000: {"Q1": joined, "Q2": joined}},
        load_rows_s={HORNBEAM: 12_345.6},
    )


def whole_example():
    """The example with measurements of concurrent clients."""

    def point(nodes, clients, interactions, mix="shopping"):
        cores = {"nodes": 0.25 * nodes, "<HBase>": 0.5}
        return Throughput(mix, nodes, clients, 2.0, interactions, 3, 11.0, 99.0, cores)

    return replace(
        example(),
        locks={
            ROOTS_EACH: {1: timing(10), 100: timing(60)},
            ONE_ROOT: {1: timing(10), 100: timing(40)},
            PAPER_LOCKS: {100: timing(300)},
        },
        contention={
            HORNBEAM: (Contention(1.2, 16, 2.0, 400, 0, 31.0, 77.0),),
            BASELINE: (Contention(1.2, 16, 2.0, 50, 150, 33.0, 88.0, "<conflict>"),),
        },
        throughput=(
            point(1, 1, 20),
            point(1, 8, 60),
            point(4, 1, 10),
            point(4, 8, 90),
            point(4, 8, 1_000, mix="browsing"),
        ),
        shopping={
            HORNBEAM: (point(1, 1, 10), point(1, 8, 60)),
            BASELINE: (point(1, 1, 20), replace(point(1, 8, 15), error="<refused>")),
        },
        pieces={
            "set_stock": {"plan": timing(0.25), "log": timing(3.125), "way": timing(1.5)},
            "get_book": {"answer": timing(2.625), "way": timing(1.5)},
        },
    )


def failed(results, system, statement, error):
    timings = {name: dict(of) for name, of in results.timings.items()}
    timings[system][statement] = Timing(error=error)
    return replace(results, timings=timings)


def found(results, key):
    return next(each for each in findings(results) if each.key == key)


def test_ratios_use_medians_and_average_over_statements():
    joins = found(example(), f"joins/{BASELINE}")
    assert joins.value == 30  # 40 and 20; the join without a view does not count
    assert joins.geometric == pytest.approx(28.28, abs=0.01)
    assert joins.met is True
    assert found(example(), f"joins/{MVCC_A}").value == 8
    assert found(example(), f"writes/{BASELINE}").value == 10


def test_findings_include_sums_storage_and_the_slowest_statement():
    assert found(example(), f"sum/{BASELINE}").value == pytest.approx(100 * (1 - 18 / 182))
    storage = found(example(), "storage")
    assert storage.value == pytest.approx(3_000_000 / 2**20)
    assert storage.met is False
    slowest = found(example(), "slower")
    assert slowest.value == pytest.approx(4 / 3)
    assert slowest.met is False
    assert "set_stock 1.33 ×" in slowest.note


def test_whole_joins_have_a_goal_at_the_papers_size_only():
    assert found(example(), f"scan/Q1/{PHOENIX}").met is True
    own = found(example(), f"scan/Q2/{HORNBEAM}")
    assert own.value == 3
    assert own.met is False
    small = replace(example(), joins={500: example().joins[500]})
    assert found(small, f"scan/Q1/{HORNBEAM}").met is None
    assert found(small, f"scan/Q1/{HORNBEAM}").value == 3
    assert found(small, f"scan/Q2/{HORNBEAM}").value is None


def test_failed_statements_are_left_out_of_ratios_and_named():
    results = failed(example(), BASELINE, "get_book", "no such function")
    joins = found(results, f"joins/{BASELINE}")
    assert joins.value == 20
    assert "without get_book" in joins.note
    assert found(results, f"sum/{BASELINE}").value == pytest.approx(100 * (1 - 16 / 102))
    assert ratios(results, BASELINE, HORNBEAM, STATEMENTS).keys() == {
        each.name for each in STATEMENTS[1:]
    }


def test_a_timing_with_an_error_has_no_summary():
    assert summary(Timing((1.0, 2.0), error="lost")) is None
    assert summary(Timing()) is None
    assert summary(Timing((3.0,))).error == 0


def test_goals_of_a_missing_system_are_neither_met_nor_missed():
    results = replace(
        example(), systems=(HORNBEAM,), timings={HORNBEAM: example().timings[HORNBEAM]}
    )
    joins = found(results, f"joins/{BASELINE}")
    assert (joins.value, joins.met) == (None, None)
    assert joins.note == "Baseline not in this run"


@pytest.mark.parametrize(
    "timing_", [Timing((1.0,), equal=False), Timing((1.0,), equal=None), Timing(error="no")]
)
def test_an_answer_that_differs_from_the_reference_misses_the_goal(timing_):
    assert found(example(), "answers").value == 100
    results = example()
    timings = {**results.timings, HORNBEAM: {**results.timings[HORNBEAM], "get_name": timing_}}
    answers = found(replace(results, timings=timings), "answers")
    assert answers.value == 80
    assert answers.note == "4 of 5; not get_name"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.01234, "0.0123"),
        (0.00001234, "0.000012"),
        (12.34, "12.3"),
        (1234567.8, "1 234 568"),
        (99.96, "100"),
    ],
)
def test_numbers_have_three_significant_digits(value, said):
    assert number(value) == said


# ---------------------------------------------------------------- the document


def test_a_report_survives_a_round_trip(tmp_path):
    report = Report(example(), {"slower": "the log's fsync"})
    write(report, tmp_path / "peers.json")
    document = (tmp_path / "peers.json").read_bytes()
    assert decode(document) == report
    by_key = {each["key"]: each for each in json.loads(document)["findings"]}
    assert by_key["slower"]["why"] == "the log's fsync"
    assert by_key["slower"]["met"] is False
    assert (tmp_path / "peers.html").read_text() == page(report.results, report.findings)


def test_another_document_is_refused():
    for document in (b"{}", encode(Report(example())).replace(b'"format": 1', b'"format": 2', 1)):
        with pytest.raises(OtherFormat):
            decode(document)


def test_a_reason_is_added_by_hand(tmp_path, capsys):
    file = tmp_path / "peers.json"
    write(Report(example(), {"storage": "two views"}), file)
    main([str(file), "--reason", "slower=a = b"])
    assert decode(file.read_bytes()).reasons == {"storage": "two views", "slower": "a = b"}
    assert markdown(Report(example())) in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main([str(file), "--reason", "slow=x"])
    assert "slower" in capsys.readouterr().err


def test_whole_joins_of_another_run_are_added_with_its_command(tmp_path, capsys):
    file, other = tmp_path / "peers.json", tmp_path / "joins.json"
    results = example()
    write(Report(results, {"slower": "a"}), file)
    more = {50_000: next(iter(results.joins.values()))}
    write(Report(replace(results, joins=more, command="another one")), other)
    main([str(file), "--joins", str(other)])
    read = decode(file.read_bytes())
    assert read.results.joins == {**results.joins, **more}
    assert read.results.command.endswith("whole joins of 50 000 customers: another one")
    assert read.results.command.startswith(results.command)
    assert (read.results.locks, read.reasons) == (results.locks, {"slower": "a"})
    assert "Whole joins" in file.with_suffix(".html").read_text()


def test_the_markdown_tables_show_goals_and_failures():
    results = failed(example(), BASELINE, "get_book", "no such function")
    lines = markdown(Report(results)).splitlines()
    assert "| storage: Hornbeam / Baseline | 2.86 × | – | 2.1 × | **≤ 2.1 ×, missed** |" in lines
    assert "| Hornbeam | 3 | 4 | 18 | 3 MB |" in lines
    assert "| Baseline | 20 (1 of 2) | 40 | 102 (4 of 5) | 1.05 MB |" in lines


# ---------------------------------------------------------------- the page


class Reader(HTMLParser):
    """Collects the content of a page; asserts that elements are nested properly."""

    EMPTY = frozenset({"meta", "br", "path", "use", "rect", "circle", "line", "stop", "link"})

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.attributes, self.text, self.ids = [], [], [], "", []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        if tag not in self.EMPTY:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def read():
    results = failed(example(), MVCC_A, "related", "no <self> joins & such")
    text = page(results, findings(results, {"storage": "two <views>"}))
    reader = Reader()
    reader.feed(text)
    reader.close()
    return reader, text


def test_the_page_is_well_formed_and_complete(read):
    reader, _ = read
    assert not reader.open
    wanted = (*SYSTEMS, *(s.name for s in STATEMENTS), *(s.sql for s in STATEMENTS))
    for each in (*wanted, "no <self> joins & such", "two <views>", "An <odd> & old one"):
        assert each in reader.text
    assert reader.tags.count("svg") == 5
    assert "python -m bench.peers.run --quick" in reader.text


def test_the_page_loads_no_resources_and_no_scripts(read):
    reader, text = read
    assert not {"script", "link", "img", "iframe"} & set(reader.tags)
    assert "://" not in text
    assert all(value.startswith("#") for name, value in reader.attributes if name == "href")
    assert not re.search(r"url\((?!#)|@import", text)


def test_the_page_is_the_same_each_time():
    results = example()
    assert page(results, findings(results)) == page(results, findings(results))


def test_a_page_of_an_almost_empty_run_is_well_formed():
    results = replace(
        example(), systems=(HORNBEAM,), timings={}, storage={}, bare={}, joins={}, load_rows_s={}
    )
    reader = Reader()
    reader.feed(page(results, findings(results)))
    assert not reader.open


def test_a_page_of_a_run_without_contention_and_browsers():
    results = replace(
        example(), contention=dict.fromkeys(SYSTEMS, ()), shopping=dict.fromkeys(SYSTEMS, ())
    )
    made = page(results, findings(results))
    assert "<h2>Emulated browsers</h2>" not in made
    assert "<h2>Contention</h2>" not in made


def test_locks_are_compared_at_the_maximum_number_of_rows():
    one = found(whole_example(), "locks")
    assert (one.value, one.met) == (1.5, None)
    assert one.note == "100 rows, 60 against 40 ms"


def test_scaling_is_between_the_best_rates_of_a_mix():
    one = found(whole_example(), "scaling")
    assert (one.value, one.met) == (1.5, None)
    assert one.note.startswith("4 nodes 45/s, 1 30/s; busy cores nodes 1, <HBase> 0.5")
    alone = replace(whole_example(), throughput=whole_example().throughput[:2])
    assert found(alone, "scaling").value is None


def test_throughput_is_compared_at_the_best_rates_of_both():
    one = found(whole_example(), f"shopping/{BASELINE}")
    assert (one.value, one.met) == (3.0, None)
    assert one.note == "30/s of 8 clients, 10/s of 1"
    assert found(whole_example(), f"shopping/{MVCC_A}").value is None


@pytest.mark.parametrize("key", ["locks", "scaling", f"shopping/{BASELINE}"])
def test_findings_without_measurements_state_so(key):
    one = found(example(), key)
    assert (one.value, one.note) == (None, "not measured in this run")


def test_the_page_shows_locks_contention_browsers_and_pieces():
    made, without = (page(each, findings(each)) for each in (whole_example(), example()))
    for title in ("Locks", "Contention", "Emulated browsers", "Nodes", "Pieces of a request"):
        assert f"<h2>{title}</h2>" in made
        assert f"<h2>{title}</h2>" not in without
    assert "<code>&lt;conflict&gt;</code>" in made
    assert "<code>&lt;refused&gt;</code>" in made
    assert ">75 %</td>" in made  # the baseline's refused updates
    assert "cores of &lt;HBase&gt;" in made
    assert ">500</td>" in made  # the browsing mix's rate
    for median in ("0.25", "3.12", "2.62"):
        assert f">{median}</td>" in made
    for drawn in (ROOTS_EACH, PAPER_LOCKS, "refused, %", "4 nodes", "log"):
        assert drawn in made


def test_a_document_keeps_measurements_of_concurrent_clients(tmp_path):
    report = Report(whole_example())
    assert decode(encode(report)) == report


def test_a_page_with_only_failures_in_a_plot_shows_their_errors():
    nothing = Timing(error="gone")
    everything = replace(
        whole_example(),
        locks={ROOTS_EACH: {1: nothing}},
        joins={500: {"Q1": {way(HORNBEAM, view=True): nothing}}},
    )
    made = page(everything, findings(everything))
    assert "<h2>Locks</h2>" in made
    assert "gone" in made
