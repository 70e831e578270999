"""The console's pure functions: tokens, completion, answers in pieces, CSV, metrics, concerns."""

from __future__ import annotations

import json

import pytest

CATALOG = [
    {
        "name": "customer",
        "kind": "relation",
        "columns": [{"name": "c_id", "type": "INTEGER"}, {"name": "c_name", "type": "TEXT"}],
    },
    {
        "name": "shop.orders",
        "kind": "relation",
        "columns": [{"name": "o_id", "type": "INTEGER"}, {"name": "Odd Name", "type": "TEXT"}],
    },
]


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("SELECT 1", "read"),
        ("  -- insert\n /* delete */ (select 1)", "read"),
        ("VALUES (1)", "read"),
        ("table customer", "read"),
        ("WITH a AS (SELECT 1) SELECT * FROM a FOR UPDATE", "read"),
        ("WITH a AS (SELECT 'insert into') SELECT * FROM a", "read"),
        ("with a as (select 1) insert into t select * from a", "write"),
        ("WITH a AS (DELETE FROM t RETURNING x) SELECT * FROM a", "write"),
        ("Insert into t values (1)", "write"),
        ("MERGE INTO t USING u ON true WHEN MATCHED THEN DELETE", "write"),
        ("TRUNCATE t", "write"),
        ("EXPLAIN DELETE FROM t", "explain"),
        ("CREATE TABLE t (a INT)", "create"),
        ("", ""),
    ],
)
def test_a_statement_is_sent_by_its_kind(modules, sql, kind):
    assert modules.call("tokens", "kindOf", sql) == kind


@pytest.mark.parametrize(
    "text",
    [
        "select 'it''s; no', \"a\"\"b\", $$x;y$$, $t$ $$ $t$ -- e; \n/* a /* b; */ c */ 1.5e-3 ;",
        "'open",
        '"open',
        "/* open /* */",
        "$q$ open",
        "ünïcode_名 ::int ~~ \U0001f600",
    ],
)
def test_tokens_together_are_the_text(modules, text):
    found = modules.call("tokens", "tokens", text)
    assert "".join(token["text"] for token in found) == text
    assert [token["text"] for token in found if token["text"] == ";"] == [";"] * text.endswith(";")


@pytest.mark.parametrize(
    ("before", "after", "sql"),
    [
        ("SELECT 1", "; SELECT 2", "SELECT 1"),
        ("SELECT 1;", " SELECT 2", "SELECT 1"),
        ("SELECT 1; S", "ELECT 2", "SELECT 2"),
        ("SELECT ';'; SELECT 2;\n\n-- end", "", "SELECT 2"),
        ("", " ; ;SELECT 3", "SELECT 3"),
        ("-- nothing", "", ""),
    ],
)
def test_the_statement_at_the_cursor_is_run(modules, before, after, sql):
    found = modules.call("tokens", "statementAt", before + after, len(before))
    assert found["sql"] == sql


def test_parameters_are_counted_outside_of_texts(modules):
    found = modules.call("tokens", "parametersOf", "SELECT ?, '?', a::int FROM t -- ?\nWHERE b = ?")
    assert found == {"names": [], "count": 2}
    found = modules.call("tokens", "parametersOf", "SELECT :a, ':b', :a, x::int, :c")
    assert found["names"] == ["a", "c"]
    assert modules.call("tokens", "parametersOf", "SELECT $2")["count"] == 2


@pytest.mark.parametrize(
    ("before", "after", "first", "never"),
    [
        ("select * from cu", "", "customer", "c_id"),
        ("select * from sh", "", "shop.orders", "select"),
        ("select c.", " from customer c", "c_id", "customer"),
        ("select c_n", " from customer", "c_name", "o_id"),
        ("select customer.c_n", " from customer", "c_name", "o_id"),
        ("select o.", " from shop.orders as o", "o_id", "c_id"),
        ("select shop.o", "", "orders", "o_id"),
        ("SEL", "", "SELECT", "select"),
    ],
)
def test_completion_offers_what_may_stand_there(modules, before, after, first, never):
    found = modules.call("completion", "completions", before + after, len(before), CATALOG)
    texts = [item["text"] for item in found["items"]]
    assert texts[0] == first
    assert never not in texts


def test_completion_quotes_odd_names_and_is_silent_in_texts(modules):
    found = modules.call("completion", "completions", "select o.od from shop.orders o", 11, CATALOG)
    assert [item["text"] for item in found["items"]] == []
    found = modules.call("completion", "completions", "select o. from shop.orders o", 9, CATALOG)
    assert '"Odd Name"' in [item["text"] for item in found["items"]]
    assert modules.call("completion", "completions", "select 'cu", 10, CATALOG)["items"] == []
    assert modules.call("completion", "completions", "-- cu", 5, CATALOG)["items"] == []


ANSWER = (
    '{"columns":[{"name":"a]\\"rows\\":[","type":"BIGINT"}],"rows":[[9007199254740993,"x],[\\"\\\\",'
    '[1,null,["7"]],1.50],[null,true,"",-1e-7]],"snapshot":1795991994829,"served_by":[]}'
)


@pytest.mark.parametrize("size", [1, 2, 7, 1_000])
def test_an_answer_is_read_in_pieces_of_any_size_with_all_digits(modules, size):
    found = modules.run(
        """async ([text, size]) => {
          const { AnswerReader } = await import("/console/answer.js");
          const reader = new AnswerReader(), rows = [];
          for (let i = 0; i < text.length; i += size) {
            rows.push(...reader.feed(text.slice(i, i + size)));
          }
          return { rows, columns: reader.columns, tail: reader.tail() };
        }""",
        [ANSWER, size],
    )
    assert found["rows"] == [
        ["9007199254740993", 'x],["\\', ["1", None, ["7"]], "1.50"],
        [None, True, "", "-1e-7"],
    ]
    assert found["columns"] == [{"name": 'a]"rows":[', "type": "BIGINT"}]
    assert found["tail"] == {"snapshot": 1795991994829, "served_by": []}


def test_an_answer_that_is_cut_has_no_tail(modules):
    for cut in range(0, ANSWER.index("snapshot"), 5):
        tail = modules.run(
            """async (text) => {
              const reader = new (await import("/console/answer.js")).AnswerReader();
              reader.feed(text);
              return reader.tail();
            }""",
            ANSWER[:cut],
        )
        assert tail is None


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ([None, "", "a"], ',"",a'),
        (['a,"b', "two\nlines"], '"a,""b","two\nlines"'),
        ([["1", None, 'x"y'], True], '"{1,NULL,""x\\""y""}",true'),
    ],
)
def test_a_row_of_csv_is_what_a_load_reads(modules, values, line):
    assert modules.call("answer", "csvRow", values) == line + "\r\n"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ('"7"', "7"),
        ("null", None),
        ("ann", "ann"),
        ("19.90", "19.90"),
        ("9007199254740993", "9007199254740993"),
        ("[1,2]", [1, 2]),
        ("2026-01-31", "2026-01-31"),
    ],
)
def test_a_parameter_is_json_or_text(modules, text, value):
    assert modules.call("running", "parameterValue", text) == value


def test_rates_are_differences_of_counters(modules):
    metrics = '# HELP x\nx_total %d\nh_sum %g\nh_count{a="b,c",d="e\\"f"} %d\ng NaN\n'
    found = modules.run(
        """async ([one, two]) => {
          const m = await import("/console/metrics.js");
          const a = { at: 1000, all: m.samples(one) }, b = { at: 3000, all: m.samples(two) };
          const restarted = String(m.rate(b, a, "x_total"));
          return [m.rate(a, b, "x_total"), m.mean(a, b, "h"), restarted, a.all[2].labels];
        }""",
        [metrics % (10, 1.0, 4), metrics % (30, 2.0, 8)],
    )
    assert found == [10, 0.25, "NaN", {"a": "b,c", "d": 'e\\"f'}]


CALM = {
    "log": {"missing": []},
    "nodes": None,
    "views": {"v": "readable"},
    "builds": [],
    "groups": [{"name": "g", "interval_s": 1, "lag_s": 5, "problem": None, "left": None}],
    "verified": [{"name": "v", "kind": "view", "snapshot": 1, "differences": 2, "repaired": 2}],
}
BAD = {
    "quarantined": {"views": {"v": "quarantined"}},
    "has failed": {"builds": [{"name": "v", "error": "division by zero"}]},
    "acknowledged commits": {
        "log": {"missing": [{"log": "l", "ends_at": "1", "known_to_reach": "2"}]}
    },
    "is dead": {"nodes": {"dead": ["b:1"], "gate_closed": False}},
    "accepts writes": {"nodes": {"dead": [], "gate_closed": True}},
    "coordination": {"groups": None},
    "2 min old": {"groups": [{**CALM["groups"][0], "lag_s": 120}]},
    "not refreshed: x": {
        "groups": [{**CALM["groups"][0], "problem": {"message": "x", "cure": "y"}}]
    },
    "to Spark": {"groups": [{**CALM["groups"][0], "left": "too many rows"}]},
    "had 1 difference": {"verified": [{**CALM["verified"][0], "differences": 1, "repaired": 0}]},
}


@pytest.mark.parametrize("text", BAD)
def test_each_trouble_is_a_concern(modules, text):
    assert (
        modules.run("async (s) => [...(await import('/console/concerns.js')).concerns(s)]", CALM)
        == []
    )
    found = modules.run(
        "async (s) => [...(await import('/console/concerns.js')).concerns(s)]", CALM | BAD[text]
    )
    assert len(found) == 1, json.dumps(found)
    assert text in found[0]["text"]
    assert found[0]["cure"]
