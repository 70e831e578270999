"""The runner of sqllogictest files finds each kind of difference, our own files pass, and so do
files of RisingLight except where a difference is declared."""

from __future__ import annotations

from collections import Counter
from datetime import date, datetime, timedelta
from pathlib import Path

import pytest

from hornbeam.intervals import Interval
from tests.sqllogic import corpora, reference
from tests.sqllogic import declared as declarations
from tests.sqllogic.corpora import CORPORA, OURS, Unreachable, files, folder_of, sample
from tests.sqllogic.databases import Answer, Hornbeam
from tests.sqllogic.declared import cases, declared, leave_out, stale
from tests.sqllogic.outcomes import BAD, FileOutcomes, Judged, judged, of_file
from tests.sqllogic.records import (
    Condition,
    Directive,
    Expected,
    Loop,
    Malformed,
    Query,
    Statement,
    parse,
)
from tests.sqllogic.reference import BEGIN, END, kind_of_refusal, write_section
from tests.sqllogic.runner import RESTS_ON_UNKNOWN, Outcome, Style, Verdict, run_file
from tests.sqllogic.values import agree

RISINGLIGHT = next(corpus for corpus in CORPORA if corpus.name == "RisingLight")
SAMPLE = ("aggregation", "_join", "having", "order_by", "join_semi_anti", "nullable_operator")


class Scripted:
    """A database with an answer for each statement."""

    def __init__(self, answers: dict[str, Answer]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def ask(self, sql: str, connection: str = "") -> Answer:
        self.asked.append(f"{connection}:{sql}" if connection else sql)
        return self.answers.get(sql, Answer())

    def restart(self) -> None:
        self.asked.append("restart")

    def close(self) -> None: ...


def run(text: str, answers: dict[str, Answer], values: str = "duckdb", *, messages: bool = False):
    database = Scripted(answers)
    style = Style(values, messages=messages)
    engines = frozenset({"hornbeam"})
    return run_file(text, database, engines, style, included, 99), database.asked


def included(name: str) -> str:
    if name == "gone":
        raise FileNotFoundError(name)
    return f"statement ok\n{name}"


PARSED = [
    ("statement ok\nA\nB\n\n", Statement(1, "A\nB", Expected.OK)),
    ("statement ok con2\nA", Statement(1, "A", Expected.OK, connection="con2")),
    ("connection one\nstatement ok\nA", Statement(2, "A", Expected.OK, connection="one")),
    ("statement count 3\nA", Statement(1, "A", Expected.COUNT, count=3)),
    ("statement error a.* b\nA", Statement(1, "A", Expected.ERROR, "a.* b")),
    ("statement error\nA\n----\nx\ny\n", Statement(1, "A", Expected.ERROR, "x\ny")),
    ("query error x\nA", Statement(1, "A", Expected.ERROR, "x")),
    ("query IT\nA\n----\n1\tb\n", Query(1, "A", "IT", "nosort", "", ("1\tb",))),
    ("query I rowsort l-1\nA\n----\n1", Query(1, "A", "I", "rowsort", "l-1", ("1",))),
    ("query IT colnames,rowsort\nA\n----\na b\n1 x", Query(1, "A", "IT", "rowsort", "", ("1 x",))),
    ("query I partialsort(1,2) l\nA\n----\n1", Query(1, "A", "I", "rowsort", "l", ("1",))),
    ("statement OK\nA", Statement(1, "A", Expected.OK)),
    ("query I nosort con1\nA\n----\n1", Query(1, "A", "I", "nosort", "", ("1",), "con1")),
    ("# no\nonlyif x # why\nhalt\n", Directive(3, "halt", (), (Condition("onlyif", "x"),))),
    ("loop i 0 2\nhalt\nendloop", Loop(1, ("i",), (("0",), ("1",)), (Directive(2, "halt", ()),))),
    ("foreach a,b x,1 y,2\nendloop", Loop(1, ("a", "b"), (("x", "1"), ("y", "2")), ())),
    ("foreach a <signed> !hugeint\nendloop",
     Loop(1, ("a",), (("tinyint",), ("smallint",), ("integer",), ("bigint",)), ())),
]  # fmt: skip


@pytest.mark.parametrize(("text", "record"), PARSED)
def test_a_record_is_read(text, record):
    assert [*parse(text)] == [record]


def test_the_text_of_an_error_ends_at_two_blank_lines_if_the_dialect_says_so():
    text = "statement error\nA\n----\nx\n\ny\n\n\nhalt"
    first, last = parse(text, errors_end_at_two_blanks=True)
    assert isinstance(first, Statement)
    assert first.pattern == "x\n\ny"
    assert last == Directive(9, "halt", ())


def test_a_comment_ends_the_sql_if_the_dialect_says_so():
    text = "statement ok\nA;\n# B\nhalt"
    first, last = parse(text, comments_end=True)
    assert isinstance(first, Statement)
    assert first.sql == "A;"
    assert last == Directive(4, "halt", ())


@pytest.mark.parametrize("text", ["statement perhaps\nA", "loop i 0 2\nhalt", "endloop"])
def test_a_malformed_file_is_refused(text):
    with pytest.raises(Malformed):
        list(parse(text))


DAY = datetime(2020, 1, 2)
AGREEING = [
    ([(["a", " b ", "c"],)], "T", "nosort", ['{a," b ",c}'], "psql", True),
    ([(["a", "b ", "c"],)], "T", "nosort", ['{a," b ",c}'], "psql", False),
    ([(1, None)], "IT", "nosort", ["1\tNULL"], "duckdb", True),
    ([(1, "")], "IT", "nosort", ["1", "(empty)"], "duckdb", True),
    ([(1, 2)], "II", "nosort", ["2\t1"], "duckdb", False),
    ([(1, 2)], "II", "valuesort", ["2\t1"], "duckdb", True),
    ([(2, 1), (1, 5)], "II", "rowsort", ["1 5", "2 1"], "words", True),
    ([(2, 1), (1, 5)], "II", "nosort", ["1 5", "2 1"], "words", False),
    ([(2.0001,)], "R", "nosort", ["2"], "words", False),
    ([(0.3333333333,)], "R", "nosort", ["0.3333"], "words", False),
    ([(0.33333333333333,)], "R", "nosort", ["0.333333333"], "words", True),
    ([(2,)], "R", "nosort", ["2.000"], "words", True),
    ([(2.7,)], "I", "nosort", ["3"], "duckdb", False),
    ([(2.7,)], "I", "nosort", ["2"], "sqlite", True),
    ([(2,)], "R", "nosort", ["2.000"], "sqlite", True),
    ([(True,)], "B", "nosort", ["t"], "words", True),
    ([(True,)], "B", "nosort", ["f"], "words", False),
    ([(Interval(months=-50),)], "T", "nosort", ["-4 years -2 mons"], "words", True),
    ([(Interval(months=2), 3)], "TI", "nosort", ["2 mons 3"], "words", True),
    ([(b"a\xff",)], "T", "nosort", ["a\\xFF"], "duckdb", True),
    ([(b"a\xff",)], "T", "nosort", ["\\x61ff"], "words", True),
    ([("a b", 1)], "TI", "nosort", ["a  b 1"], "words", True),
    ([("a b", 1)], "TI", "nosort", ["a c 1"], "words", False),
    ([([1.0, None],)], "T", "nosort", ["[1.0, NULL]"], "duckdb", True),
    ([([1.00000001],)], "T", "nosort", ["[1.0]"], "duckdb", True),
    ([([1.5, 2.0],)], "T", "nosort", ["[1.5, 3.0]"], "duckdb", False),
    ([(["a b"],)], "T", "nosort", ["['a b']"], "duckdb", True),
    ([("a", 1)], "TI", "nosort", ["a\t\t1"], "duckdb", True),
    ([(1,), (2,)], "I", "nosort", ["1"], "duckdb", False),
    ([], "I", "nosort", [], "duckdb", True),
    ([], "I", "nosort", ["1"], "duckdb", False),
    ([(1,), (2,)], "I", "nosort", ["2 values hashing to 6ddb4095eb719e2a9f0a3f95677d24e0"],
     "duckdb", True),
    ([("", None)], "TT", "nosort", ["· NULL"], "cockroach", True),
    ([(DAY, DAY.date())], "TT", "nosort", ["2020-01-02 00:00:00 +0000 UTC  2020-01-02"],
     "cockroach", True),
    ([(DAY,)], "T", "nosort", ["2020-01-03 00:00:00 +0000 +0000"], "cockroach", False),
    ([(DAY.replace(hour=3),)], "T", "nosort", ["2020-01-02 03:00:00 +0000 +0000"], "cockroach",
     True),
    ([(1, None)], "", "nosort", ["1\t"], "psql", True),
    ([(1, None)], "", "nosort", ["1\t2"], "psql", False),
    ([(1, "x y"), (2, "")], "", "rowsort", ["2\t", "1\tx y"], "psql", True),
    ([(DAY.date(), DAY.replace(hour=3))], "", "nosort",
     ["01-02-2020\tThu Jan 02 03:00:00 2020 PST"], "psql", True),
    ([(DAY.date(),)], "", "nosort", ["02-01-2020"], "psql", False),
    ([([1, 2],)], "", "nosort", ["{1,2}"], "psql", True),
    ([(1,)], "", "nosort", [], "psql", False),
    ([(["bar", "", 'a "b'],)], "", "nosort", ['{bar,"","a \\"b"}'], "psql", True),
    ([(["bar", "b"],)], "", "nosort", ['{bar,""}'], "psql", False),
    ([(timedelta(seconds=-14),)], "", "nosort", ["@ 14 secs ago"], "psql", True),
    ([(timedelta(seconds=-14),)], "", "nosort", ["9223372036854 secs"], "psql", False),
    ([(Interval(5, 2, -3_000_000),)], "", "nosort", ["@ 5 mons 2 days -3 secs"], "psql", True),
    ([(1,), (3,)], "I", "nosort", ["2 values hashing to 6ddb4095eb719e2a9f0a3f95677d24e0"],
     "duckdb", False),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "types", "sort", "result", "style", "same"), AGREEING)
def test_answers_are_compared(rows, types, sort, result, style, same):
    assert agree(rows, types, sort, result, style) is same


ONE = Answer(((1,),), 1)
REFUSED = Answer(error="sql-unsupported: no", refused=True)
FAILED = Answer(error="sql-invalid: no")
JUDGED = [
    ("statement ok\nA", {}, Verdict.PASSED),
    ("statement ok\nA", {"A": REFUSED}, Verdict.REFUSED),
    ("statement ok\nA", {"A": FAILED}, Verdict.ERROR),
    ("statement maybe\nA", {"A": FAILED}, Verdict.PASSED),
    ("statement maybe\nA", {"A": Answer(error="x", internal=True)}, Verdict.INTERNAL),
    ("statement error\nA", {"A": Answer(error="x", internal=True)}, Verdict.INTERNAL),
    ("statement error\nA", {}, Verdict.WRONG),
    ("statement error no\nA", {"A": FAILED}, Verdict.PASSED),
    ("statement error yes\nA", {"A": FAILED}, Verdict.WRONG),
    ("statement count 1\nA", {"A": ONE}, Verdict.PASSED),
    ("statement count 2\nA", {"A": ONE}, Verdict.WRONG),
    ("query I\nA\n----\n1", {"A": ONE}, Verdict.PASSED),
    ("query I\nA\n----\n2", {"A": ONE}, Verdict.WRONG),
    ("query II\nA\n----\n1", {"A": ONE}, Verdict.WRONG),
    ("query I\nA\n----\n1", {"A": REFUSED}, Verdict.REFUSED),
    ("require parquet\n\nstatement ok\nA", {}, Verdict.SKIPPED),
    ("include gone\n\nstatement ok\nA", {}, Verdict.SKIPPED),
    ("query I\nDELETE FROM t\n----\n3", {"DELETE FROM t": Answer(count=3)}, Verdict.PASSED),
    ("query I\nDELETE FROM t\n----\n4", {"DELETE FROM t": Answer(count=3)}, Verdict.WRONG),
    (
        "user other\n\nstatement ok\nB\n\nuser root\n\nstatement ok\nA",
        {"B": FAILED},
        Verdict.PASSED,
    ),
    ("let $x\nSELECT 1\n\nstatement ok\nA", {}, Verdict.SKIPPED),
    ("set seed 0.1\n\nquery I\nSELECT random()\n----\n0", {}, Verdict.SKIPPED),
    ("foreach x a\n\nquery I\nSELECT {x}\n----\n1\n\nendloop", {"SELECT a": ONE}, Verdict.PASSED),
]


@pytest.mark.parametrize(("text", "answers", "verdict"), JUDGED)
def test_a_record_is_judged(text, answers, verdict):
    (outcome,), _ = run(text, answers, messages=True)
    assert outcome.verdict is verdict


@pytest.mark.parametrize(
    ("ours", "theirs", "same", "unknown"),
    [
        (ONE, ONE, True, False),
        (ONE, Answer(((2,),), 1), False, False),
        (ONE, FAILED, False, False),
        (FAILED, FAILED, True, False),
        (ONE, Answer(error="no such operator", unknown=True), False, True),
        (FAILED, Answer(error="no such operator", unknown=True), True, False),
        (Answer(error="x", internal=True), Answer(error="y", unknown=True), False, False),
        (ONE, None, False, True),
    ],
)
def test_a_difference_is_declared_by_what_postgresql_does(ours, theirs, same, unknown):
    verdict = Verdict.INTERNAL if ours.internal else Verdict.WRONG
    their_verdict = Verdict.SKIPPED if theirs is None else Verdict.WRONG
    their = (Outcome(1, "A", their_verdict, RESTS_ON_UNKNOWN, theirs),)
    found = FileOutcomes("RisingWave", "f", (Outcome(1, "A", verdict, "", ours),)).beside(
        FileOutcomes("RisingWave", "f", their)
    )
    assert found.same == ({1} if same else set())
    assert found.unknown == ({1} if unknown else set())


def test_what_rests_on_an_unknown_statement_says_so():
    text = "statement ok\nCREATE TABLE t (a MAP)\n\nquery I\nSELECT a FROM t\n----\n1\n\n"
    unknown = Answer(error="no type", unknown=True)
    outcomes, _ = run(text, {"CREATE TABLE t (a MAP)": unknown})
    assert outcomes[1].detail == RESTS_ON_UNKNOWN


def test_plans_are_not_compared():
    answers = {"EXPLAIN SELECT 1": ONE}
    (outcome,), _ = run("query T\nEXPLAIN SELECT 1\n----\nScan\n", answers)
    assert outcome.verdict is Verdict.SKIPPED


def test_what_rests_on_a_failed_statement_is_not_asked():
    text = "statement ok\nCREATE TABLE t (a INT)\n\nquery I\nSELECT a FROM t\n----\n1\n\n"
    text += "query I\nSELECT 1\n----\n1\n"
    outcomes, asked = run(text, {"CREATE TABLE t (a INT)": REFUSED, "SELECT 1": ONE})
    verdicts = [outcome.verdict for outcome in outcomes]
    assert verdicts == [Verdict.REFUSED, Verdict.SKIPPED, Verdict.PASSED]
    assert asked == ["CREATE TABLE t (a INT)", "SELECT 1"]


@pytest.mark.parametrize(
    ("expected", "verdicts"),
    [
        ("ok", [Verdict.REFUSED, Verdict.SKIPPED, Verdict.PASSED]),
        ("error", [Verdict.PASSED, Verdict.ERROR, Verdict.PASSED]),
    ],
)
def test_the_rest_of_a_transaction_that_a_refused_statement_aborts_is_not_asked(expected, verdicts):
    text = f"statement {expected}\nA\n\nstatement ok\nB\n\nstatement ok other\nC\n"
    failed = Answer(error="failed-transaction: aborted", aborted=True)
    outcomes, _ = run(text, {"A": Answer(error="no", refused=True), "B": failed})
    assert [each.verdict for each in outcomes] == verdicts


def test_a_savepoint_that_a_failed_transaction_does_not_know_is_not_asked():
    text = "statement ok\nA\n\nstatement ok\nSAVEPOINT s\n\nstatement ok\nROLLBACK TO s\n"
    failed = Answer(error="failed-transaction: aborted", aborted=True)
    answers = {"SAVEPOINT s": failed, "ROLLBACK TO s": Answer(error="There is no savepoint s.")}
    outcomes, _ = run(text, {"A": Answer(error="no", refused=True)} | answers)
    verdicts = [Verdict.REFUSED, Verdict.SKIPPED, Verdict.SKIPPED]
    assert [each.verdict for each in outcomes] == verdicts
    outcomes, _ = run(text, answers | {"SAVEPOINT s": ONE})
    assert outcomes[-1].verdict is Verdict.ERROR


def test_an_aborted_transaction_is_no_fault_of_the_database(tmp_path):
    database = Hornbeam(tmp_path / "data")
    found = [database.ask(sql) for sql in ("BEGIN", "SELECT gone", "SELECT 1", "ROLLBACK")]
    database.close()
    assert [(each.aborted, each.internal) for each in found] == [
        *((False, False), (False, False), (True, False), (False, False)),
    ]


def test_a_with_that_writes_spoils_what_it_would_have_written():
    text = "query I\nWITH d AS (DELETE FROM t RETURNING a) SELECT a FROM d\n----\n1\n\n"
    text += "query I\nSELECT a FROM t\n----\n1\n"
    refused = {"WITH d AS (DELETE FROM t RETURNING a) SELECT a FROM d": REFUSED}
    assert [each.verdict for each in run(text, refused)[0]] == [Verdict.REFUSED, Verdict.SKIPPED]


@pytest.mark.parametrize(
    ("failing", "behind"),
    [
        ("ATTACH ':memory:' AS other", "CREATE TABLE other.t (a INT)"),
        ("SELECT max(nextval('s.ids'))", "SELECT currval('s.ids')"),
    ],
)
def test_a_refused_statement_spoils_a_database_or_a_sequence(failing, behind):
    outcomes, _ = run(f"statement ok\n{failing}\n\nstatement ok\n{behind}\n", {failing: REFUSED})
    assert [each.verdict for each in outcomes] == [Verdict.REFUSED, Verdict.SKIPPED]


def test_a_query_without_an_order_is_compared_as_a_bag():
    answers = {
        "SELECT 1 FROM (SELECT 2 ORDER BY 1)": Answer(((2,), (1,)), 2),
        "SELECT 1 ORDER BY 1": Answer(((2,), (1,)), 2),
    }
    verdicts = [run(f"query I\n{sql}\n----\n1\n2\n", answers)[0][0].verdict for sql in answers]
    assert verdicts == [Verdict.PASSED, Verdict.WRONG]


def test_loops_connections_restarts_and_includes_are_run_in_order():
    text = (
        "foreach x a b\n\nstatement ok con1\n${x}\n\nendloop\n\nrestart\n\ninclude other\n\nhalt\n"
    )
    outcomes, asked = run(text, {})
    assert asked == ["con1:a", "con1:b", "restart", "other"]
    assert [outcome.sql for outcome in outcomes] == ["a", "b", "other"]


@pytest.mark.parametrize("path", [*files(OURS, folder_of(OURS))])
def test_our_own_files_pass(path, tmp_path):
    found = of_file(OURS, path, Hornbeam(tmp_path / "data"))
    assert not found.malformed
    assert len(found.outcomes) > 10
    assert [each for each in found.outcomes if each.verdict is not Verdict.PASSED] == []


def test_files_of_risinglight_pass(tmp_path, monkeypatch):
    monkeypatch.setattr(corpora, "FETCH_S", 60.0)
    try:
        folder_of(RISINGLIGHT)
    except Unreachable as error:
        pytest.skip(f"The files of RisingLight are needed: {error}")
    known = cases()
    for name in SAMPLE:
        database = Hornbeam(tmp_path / name)
        found = judged(of_file(RISINGLIGHT, f"tests/sql/{name}.slt", database), known)
        assert not [each for each in found.undeclared if each.verdict in BAD], name
        assert not found.stale
        assert found.counts[Verdict.PASSED] > 3


def test_declared_differences_have_reasons_and_name_a_case_once():
    listed = [
        (corpus, path, line)
        for each in declared()
        for corpus, paths in each.cases.items()
        for path, lines in paths.items()
        for line in lines
    ]
    assert len(listed) == len(set(listed))
    assert all(each.title and each.reason for each in declared())


@pytest.fixture
def _page_of_differences(monkeypatch, tmp_path):
    page = tmp_path / "declared.toml"
    page.write_text(
        '[[difference]]\ntitle = "T"\nreason = "R"\n[difference.cases.DuckDB]\n'
        '"a" = [1, 2, 3, 4, 9]\n"gone" = [5]\n[difference.cases.SQLite]\n"a" = [1]\n'
    )
    monkeypatch.setattr(declarations, "DECLARED", page)


ENDS = {1: Verdict.WRONG, 2: Verdict.PASSED, 3: Verdict.REFUSED}
OF_ENDS = tuple(Outcome(line, "A", verdict) for line, verdict in ENDS.items())


@pytest.mark.parametrize(
    ("whole", "all_files", "expected"),
    [
        (True, True, {"a": {2: "passed", 3: "refused", 4: "no record", 9: "no record"},
                      "gone": {5: "no file"}}),
        (True, False, {"a": {2: "passed", 3: "refused", 4: "no record", 9: "no record"}}),
        (False, False, {"a": {2: "passed", 3: "refused"}}),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("_page_of_differences")
def test_a_declared_case_that_does_not_differ_is_stale(whole, all_files, expected):
    found = FileOutcomes("DuckDB", "a", OF_ENDS, whole=whole)
    gone = stale([found], whole=all_files)
    assert gone == {("DuckDB", path): lines for path, lines in expected.items()}
    leave_out(gone)
    assert stale([found], whole=all_files) == {}
    assert cases()["SQLite", "a"] == {1}
    assert 1 in cases()["DuckDB", "a"]


@pytest.mark.usefixtures("_page_of_differences")
def test_a_case_that_differs_in_one_round_of_a_loop_is_not_stale():
    rounds = (Outcome(1, "A", Verdict.PASSED), Outcome(1, "B", Verdict.WRONG))
    found = FileOutcomes("SQLite", "a", rounds)
    assert stale([found], whole=True) == {}


def test_a_sample_has_files_of_each_folder_that_the_seed_chooses():
    paths = [f"{folder}/{number}" for folder in ("a", "a/b", "c") for number in range(9)]
    chosen = sample([*paths, "d/0"])
    assert Counter(str(Path(path).parent) for path in chosen) == {"a": 2, "a/b": 2, "c": 2, "d": 1}
    assert sample([*reversed(paths), "d/0"]) == chosen
    assert sample(paths, "another seed") != sample(paths)


def test_what_is_behind_the_last_record_is_not_read():
    asked = Scripted({})
    text = "statement ok\nA\n\nstatement ok\nB\n\nstatement perhaps\nC\n"
    outcomes = run_file(text, asked, frozenset(), Style("duckdb"), included, 2)
    assert [each.sql for each in outcomes] == ["A", "B"]


def test_kinds_of_refusals_leave_out_names_and_places():
    detail = "sql-unsupported: POSITIONAL JOIN is not supported (line 1, column 15).\n  Join on x."
    assert kind_of_refusal(detail) == "POSITIONAL JOIN is not supported."


def test_a_corpus_that_cannot_be_reached_says_why(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("SQLLOGIC_REPOSITORIES", str(tmp_path / "nothing"))
    with pytest.raises(Unreachable, match="risinglight cannot be fetched: "):
        folder_of(RISINGLIGHT)
    assert not list(Path(tmp_path, "hornbeam", "sqllogictest").iterdir())


def test_a_run_of_one_corpus_keeps_the_rows_of_the_others(monkeypatch, tmp_path):
    light = f"[{RISINGLIGHT.name}](https://github.com/{RISINGLIGHT.repository})"
    page = tmp_path / "sql.md"
    page.write_text(
        f"before\n{BEGIN}\n| [DuckDB](x) | 1 |\n| {light} | 2 |\n"
        f"\n| refused | statements |\n| --- | --- |\n| no | 3 |\n\n{END}after\n"
    )
    monkeypatch.setattr(reference, "PAGE", page)
    counts = Counter({Verdict.PASSED: 7})
    write_section([Judged("DuckDB", "a.test", counts, (), {}, "")], whole=False)
    text = page.read_text()
    numbers = f" | 1 | 7 | 0 | 0 | 0 | 0 | {date.today()} |\n"
    assert f"tree/044a04a7cd39e6e8235f756597ae42dde084e5e5){numbers}" in text
    assert f"| {light} | 2 |\n" in text
    assert "| no | 3 |\n" not in text
    assert "| refused in DuckDB | statements |\n" in text
    assert "[DuckDB](x)" not in text
    assert text.startswith("before\n")
    assert text.endswith("after\n")
