"""Families of hostile requests, drawn by a seed: the same seed and number give the same request.

A template is SQL with numbers to draw; its text is the label of the request in the report. The
logarithms of sizes are uniform between two bounds, so that all magnitudes are equally frequent.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.hostile.hostile_bodies import BODIES, SCHEMAS, TEXTS, plan_of, tables
from tests.hostile.hostile_requests import (
    APPLY,
    ARROW,
    DEFAULT_LIMIT_S,
    EXPLAIN,
    JSON,
    MOST_AT_ONCE,
    PLAN,
    QUERY,
    TRANSACT,
    Attack,
    Manner,
    as_json,
    size,
)


@dataclass(frozen=True)
class Template:
    """SQL with `<name>` for each number of `ranges`, drawn between its bounds."""

    text: str
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict)

    def sql(self, rng: random.Random) -> str:
        sql = self.text
        for name, (least, most) in self.ranges.items():
            sql = sql.replace(f"<{name}>", str(size(rng, least, most)))
        return sql


def _t(text: str, **ranges: tuple[int, int]) -> Template:
    return Template(text, ranges)


HUGE, LARGE, SOME = (10**7, 10**10), (10**5, 10**8), (10, 10_000)

MEMORY = (
    _t("select sum(length(repeat('x', <n> + x))) from range(<m>) t(x)", n=HUGE, m=(1, 10_000)),
    _t("select length(repeat(repeat(repeat('x', <n>), <n>), <n>))", n=(100, 10_000)),
    _t("select length(lpad('x', <n>, 'yz'))", n=(10**6, 2 * 10**9)),
    _t("select sum(length(rpad(x::text, <n>, 'é'))) from range(100) t(x)", n=(10**5, 10**9)),
    _t("select length(string_agg(repeat('x', <n>), ',')) from range(<m>) t(x)", n=LARGE, m=SOME),
    _t("select list_sort(range(<n>))[1]", n=HUGE),
    _t("select list_sort(range(<n>), 'DESC')[1]", n=HUGE),
    _t("select len(list_distinct(list_transform(range(<n>), lambda x: x::text)))",
       n=(10**6, 10**9)),
    _t("select len(flatten(list_transform(range(<n>), lambda x: range(<n>))))", n=(1000, 100_000)),
    _t("select len(list_concat(range(<n>), range(<n>)))", n=HUGE),
    _t("select len(list_zip(range(<n>), range(<n>), range(<n>)))", n=HUGE),
    _t("select len(array_agg(repeat('x', <m>))) from range(<n>) t(x)", n=LARGE, m=SOME),
    _t("select len(list_resize([1], <n>, 7))", n=HUGE),
    _t("select len(map_entries(map(range(<n>), range(<n>))))", n=HUGE),
    _t("select length(struct_pack(a := repeat('x', <n>), b := range(<n>))::text)", n=HUGE),
    _t("select length(strftime(date '2024-05-06', repeat('%B', <n>)))", n=LARGE),
    _t("select length(printf('%<n>d', 1))", n=(10**6, 2 * 10**9)),
    _t("select length(regexp_replace(repeat('ab', <n>), '(a|b)', '\\1\\1\\1', 'g'))", n=LARGE),
    _t("select len(regexp_extract_all(repeat('ab', <n>), '(a)(b)?'))", n=LARGE),
    _t("select len(regexp_split_to_array(repeat('a,', <n>), ','))", n=LARGE),
    _t("select len(string_split(repeat('a,', <n>), ','))", n=(10**6, 10**9)),
    _t("select bit_count(bitstring('1', <n>))", n=(10**6, 2 * 10**9)),
    _t("select bit_count(~ bitstring('1', <n>) | bitstring('0', <n>))", n=(10**6, 10**9)),
    _t("select length(to_json(range(<n>))::text)", n=HUGE),
    _t("select length(json_group_array(repeat('x', <m>))) from range(<n>) t(x)", n=LARGE, m=SOME),
    _t("select json_array_length('[' || repeat('[1],', <n>) || '1]')", n=LARGE),
    _t("select length(json_pretty(to_json(list_transform(range(<n>), lambda x: [x]))))", n=LARGE),
    _t("select length(replace(repeat('a', <n>), 'a', repeat('b', <m>)))", n=LARGE, m=SOME),
    _t("select length(translate(repeat('a', <n>), 'a', 'é'))", n=HUGE),
    _t("select length(hex(hex(hex(repeat('x', <n>)))))", n=(10**6, 10**9)),
    _t("select length(base64(repeat('x', <n>)::blob))", n=HUGE),
    _t("select length(array_to_string(range(<n>), ','))", n=HUGE),
    _t("select length(bar(1, 0, 10, <n>))", n=(10**4, 10**9)),
    _t("select max(p_name || repeat('x', <n>)) from player", n=LARGE),
    _t("select count(*) from (select repeat(p_name, <n>) from player group by all)", n=LARGE),
    _t("select count(distinct x) from (select md5(x::text) x from range(<n>) t(x))", n=HUGE),
    _t("select count(*) from (select x, repeat('x', <m>) y from range(<n>) t(x) order by y, x desc"
       " limit <n>)", n=LARGE, m=SOME),
    _t("select quantile_cont(x, 0.5), mode(x), median(x) from range(<n>) t(x)", n=HUGE),
    _t("select cardinality(map_keys(histogram(x))) from range(<n>) t(x)", n=HUGE),
)  # fmt: skip

TIME = (
    _t("select levenshtein(repeat('a', <n>), repeat('b', <n>))", n=(10_000, 200_000)),
    _t("select sum(levenshtein(repeat('ab', <n>), repeat('ba', <n>) || x)) from range(<m>) t(x)",
       n=(1_000, 30_000), m=(1, 1_000)),
    _t("select damerau_levenshtein(repeat('a', <n>), repeat('b', <n>))", n=(2_000, 50_000)),
    _t("select jaro_similarity(repeat('ab', <n>), repeat('ba', <n>))", n=(10_000, 10**6)),
    _t("select jaro_winkler_similarity(repeat('a', <n>), repeat('ba', <n>))", n=(10_000, 10**6)),
    _t("select max(levenshtein(a.p_name, b.p_name)) from player a, player b"),
    _t("select max(jaro_similarity(repeat(a.p_name, 100), repeat(b.m_note, 100)))"
       " from player a, game b"),
    _t("select regexp_matches(repeat('a', <n>), '(a?){100}a{100}$')", n=(10**4, 10**8)),
    _t("select count(*) from player where regexp_matches(repeat(p_name, <n>), '(.*)(.*)(.*)9z')",
       n=(100, 100_000)),
    _t("select length(regexp_replace(repeat('x', <n>), '(x+x+)+y', '', 'g'))", n=(10**4, 10**8)),
    _t("select list_reduce(range(1, <n>), lambda a, b: (a + b) % 1000007)", n=(10**5, 10**9)),
    _t("select list_sum(list_transform(range(<n>), lambda x: list_sum(range(x))))",
       n=(1_000, 10**6)),
    _t("select len(list_filter(range(<n>), lambda x: md5(x::text) like '00%'))", n=(10**5, 10**9)),
    _t("select len(list_filter(range(<n>), lambda x:"
       " len(list_filter(range(<n>), lambda y: x = y)) = 1))",
       n=(1_000, 10**5)),
    _t("select count(*) from range(<n>) a, range(<n>) b, range(<n>) c where a.range <> b.range",
       n=(1_000, 10**6)),
    _t("select count(*) from generate_series(1, <n>) a, generate_series(1, <n>) b"
       " where sin(a.generate_series) > cos(b.generate_series)", n=(1_000, 10**6)),
    _t("select count(*) from player a, player b, player c, player d"
       " where a.p_points + b.p_points > c.p_points * d.p_points"),
    _t("with recursive r(n) as (select 1 union all select n + 1 from r where n < <n>)"
       " select count(*) from r", n=(10**4, 10**9)),
    _t("with recursive r(n) as (select 1 union all select n + 1 from r) select max(n) from r"),
    _t("with recursive r(n, s) as (select 1, 'x' union all select n + 1, s || s from r"
       " where n < 60) select max(length(s)) from r"),
    _t("with recursive r(n) as (select 1 union all select n + d from r, range(2) t(d)) select 1"
       " from r limit 1 offset 1000000000"),
    _t("select sum(factorial(33) % (x + 1)) from range(<n>) t(x)", n=HUGE),
    _t("select sum(pow(x, 0.5) + exp(ln(x + 1)) + gamma(x % 20 + 1)) from range(<n>) t(x)", n=HUGE),
    _t("select max(s) from (select sum(x) over (order by md5(x::text) rows between <m> preceding"
       " and <m> following) s from range(<n>) t(x))", n=(10**5, 10**8), m=SOME),
    _t("select max(s) from (select quantile_cont(x, 0.5) over (order by x rows between <m>"
       " preceding and current row) s from range(<n>) t(x))", n=(10**4, 10**7), m=SOME),
    _t("select count(*) from (select row_number() over (partition by x % 7 order by md5(x::text)) r"
       " from range(<n>) t(x)) where r = 1", n=(10**5, 10**8)),
    _t("select count(*) from player where p_name like '%a%a%a%a%a%a%b'"),
    _t("select count(*) from game where repeat(m_note, <n>) like '%x%x%x%x%x%x%x%y'", n=SOME),
    _t("select count(*) from player a where (select count(*) from player b where b.p_points"
       " > a.p_points) < (select count(*) from game where m_score < a.p_points)"),
    _t("select count(*) from range(<n>) t(x), lateral (select unnest(range(x))) u(y)",
       n=(1_000, 10**6)),
    _t("select md5(repeat('a', <n>)), sha256(repeat('b', <n>))", n=(10**7, 10**9)),
    _t("select count(*) from (select g_id from guild, player, game, range(<n>) t(x)"
       " order by x, m_note)", n=SOME),
)  # fmt: skip

RESULTS = (
    _t("select x from range(<n>) t(x)", n=(10**5, 10**9)),
    _t("select x, x, x, x, x::text, repeat('y', <m>) from range(<n>) t(x)", n=LARGE, m=SOME),
    _t("select repeat('x', <n>)", n=(10**6, 2 * 10**9)),
    _t("select repeat('x', <n>) from range(<m>) t(x)", n=(10**5, 10**8), m=SOME),
    _t("select * from player, game"),
    _t("select a.*, b.* from guild a, player b, game c"),
    _t("select repeat('x', <n>)::blob from range(<m>) t(x)", n=(10**5, 10**8), m=SOME),
    _t("select to_json(range(<n>)) from range(<m>) t(x)", n=LARGE, m=SOME),
    _t("select '\"' || chr(1) || repeat(chr(7), <n>) from range(<m>) t(x)", n=LARGE, m=SOME),
    _t("select g_id, p_name, repeat(m_note, <n>) from guild, player, game where g_id = p_g_id and"
       " p_id = m_p_id", n=SOME),
    _t("select string_agg(m_note, ',') over (order by m_id) from game"),
    _t("select unnest(range(<n>)), unnest(range(<n>))", n=HUGE),
)  # fmt: skip

WRITES = (
    _t("insert into scratch (s_id, s_text) select <k> + x, repeat('x', <n>) from range(<m>) t(x)",
       k=(10**3, 10**15), n=(10**3, 10**8), m=SOME),
    _t("insert into scratch (s_id, s_number) select <k> + x, x from range(<n>) t(x)",
       k=(10**3, 10**15), n=(10**4, 10**9)),
    _t("insert into scratch (s_id, s_text) select levenshtein(repeat('a', <n>), repeat('b', <n>)),"
       " 'x'", n=(10_000, 100_000)),
    _t("insert into scratch (s_id, s_text) values (<k>, repeat('x', <n>))",
       k=(10**3, 10**15), n=HUGE),
    _t("insert into scratch (s_id, s_json) select <k>, to_json(range(<n>))",
       k=(10**3, 10**15), n=LARGE),
    _t("insert into scratch (s_id, s_data) select <k>, repeat('x', <n>)::blob",
       k=(10**3, 10**15), n=LARGE),
    _t("insert into scratch (s_id) select a.p_id * 10000 + b.p_id from player a, player b"),
    _t("update scratch set s_text = repeat('x', <n>) where s_id < 100", n=(10**3, 10**10)),
    _t("update scratch set s_text = s_text || s_text"),
    _t("update scratch set s_text = lpad(s_text, <n>, 'yz')", n=(10**3, 10**9)),
    _t("update scratch set s_number = list_sort(range(<n>))[1]", n=HUGE),
    _t("update scratch set s_number = list_sum(list_transform(range(<n>), lambda x: sqrt(x)))",
       n=(10**5, 10**9)),
    _t("update scratch set s_text = regexp_replace(repeat('ab', <n>), '(a|b)', '\\1\\1', 'g')",
       n=LARGE),
    _t("insert into scratch (s_id, s_number) select <k>, count(*) from player a, player b, game c"
       " where a.p_points > b.p_points + c.m_score", k=(10**3, 10**15)),
    _t("delete from scratch where s_number < levenshtein(repeat('a', <n>), repeat('b', <n>))",
       n=(10_000, 100_000)),
    _t("delete from scratch where length(repeat(s_text, <n>)) = 7", n=LARGE),
    _t("delete from scratch where s_id >= 100"),
    _t("delete from scratch where s_id >= 100"),
)  # fmt: skip
"""The second DELETE keeps the relation from growing during a long attack."""


def attack(
    seed: int, number: int, families: Sequence[str], longest_s: float = DEFAULT_LIMIT_S
) -> Attack:
    """Draw request `number` of `seed`. Families take turns; limits are from 1 s to `longest_s`."""
    rng = random.Random(f"{seed}/{number}")
    family = families[number % len(families)]
    return FAMILIES[family](rng, round(rng.uniform(1, longest_s), 1))


def _query(family: str, template: Template, rng: random.Random, limit_s: float) -> Attack:
    body = {"sql": template.sql(rng), "timeout_ms": round(limit_s * 1000)}
    return Attack(family, template.text, QUERY, as_json(body), limit_s)


def _memory(rng: random.Random, limit_s: float) -> Attack:
    return _query("memory", rng.choice(MEMORY), rng, limit_s)


def _time(rng: random.Random, limit_s: float) -> Attack:
    return _query("time", rng.choice(TIME), rng, limit_s)


def _results(rng: random.Random, limit_s: float) -> Attack:
    manner = rng.choice([Manner.WAIT, Manner.WAIT, Manner.UNREAD, Manner.LEAVE])
    if rng.random() < 0.2:
        width = size(rng, 100, 20_000)
        template = Template("select " + ", ".join(f"{n} c{n}" for n in range(width)))
        wide = _query("results", template, rng, limit_s)
        chosen = replace(wide, label="select 1 c1, 2 c2, … (many columns)")
    else:
        chosen = _query("results", rng.choice(RESULTS), rng, limit_s)
    return replace(chosen, accept=rng.choice([JSON, ARROW]), manner=manner)


def _slots(rng: random.Random, limit_s: float) -> Attack:
    """Draw many simultaneous requests of clients that leave, stall or hold their place."""
    template = rng.choice([*TIME, *MEMORY, _t("select count(*) from player, game")])
    chosen = _query("slots", template, rng, limit_s)
    manner = rng.choice(list(Manner))
    return replace(chosen, manner=manner, at_once=size(rng, 4, MOST_AT_ONCE))


def _writes(rng: random.Random, limit_s: float) -> Attack:
    if rng.random() < 0.2:
        count, start = size(rng, 100, 10_000), rng.randrange(10**15)
        sql = "insert into scratch (s_id, s_number) values (?, sqrt(?) + length(repeat('x', 100)))"
        statements = [{"sql": sql, "parameters": [start + n, n]} for n in range(count)]
        label = f"{sql}, thousands of times in one transaction"
    else:
        template = rng.choice(WRITES)
        statements = [{"sql": template.sql(rng)}]
        label = template.text
    body = {"statements": statements, "timeout_ms": round(limit_s * 1000)}
    manner = rng.choice([Manner.WAIT, Manner.WAIT, Manner.WAIT, Manner.LEAVE])
    return Attack("writes", label, TRANSACT, as_json(body), limit_s, manner=manner)


def _texts(rng: random.Random, limit_s: float) -> Attack:
    label, make = rng.choice(TEXTS)
    sql, milliseconds = make(rng), round(limit_s * 1000)
    kind = rng.random()
    if kind < 0.15:
        return Attack("texts", f"explain: {label}", EXPLAIN, as_json({"sql": sql}), DEFAULT_LIMIT_S)
    if kind < 0.3:
        inserted = f"insert into scratch (s_id) {sql}"
        body: dict[str, Any] = {"statements": [{"sql": inserted}], "timeout_ms": milliseconds}
        return Attack("texts", f"insert: {label}", TRANSACT, as_json(body), limit_s)
    body = {"sql": sql, "timeout_ms": milliseconds}
    return Attack("texts", label, QUERY, as_json(body), limit_s)


def _bodies(rng: random.Random, limit_s: float) -> Attack:
    label, path, make, content_type = rng.choice(BODIES)
    manner = rng.choice([Manner.WAIT, Manner.WAIT, Manner.WAIT, Manner.SLOW, Manner.LEAVE])
    return Attack(
        "bodies",
        f"{path}: {label}",
        path,
        make(rng),
        DEFAULT_LIMIT_S,
        content_type=content_type,
        manner=manner,
    )


def _deferred_plan(rng: random.Random) -> dict[str, Any]:
    template = rng.choice([*MEMORY, *TIME])
    view = "create materialized view hostile with (refresh = 'deferred') as "
    return plan_of(tables(3) + "\n" + view + template.sql(rng) + ";")


def _schema(rng: random.Random, limit_s: float) -> Attack:
    label, make = rng.choice(SCHEMAS)
    body, path = make(rng), PLAN
    if rng.random() < 0.2:
        body, path = body | {"plan_id": "of nothing"}, APPLY
    manner = rng.choice([Manner.WAIT, Manner.WAIT, Manner.WAIT, Manner.LEAVE])
    return Attack("schema", f"{path}: {label}", path, as_json(body), DEFAULT_LIMIT_S, manner=manner)


FAMILIES: dict[str, Callable[[random.Random, float], Attack]] = {
    "memory": _memory,
    "time": _time,
    "slots": _slots,
    "results": _results,
    "texts": _texts,
    "bodies": _bodies,
    "writes": _writes,
    "schema": _schema,
}
