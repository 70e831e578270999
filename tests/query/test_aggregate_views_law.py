"""Law: for random schemas, aggregate views, rows and aggregate queries, the answer over views is
the answer over the relations, and DuckDB's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hornbeam_server.query.binding.binder import bind
from hornbeam_server.query.engine import QueryEngine
from hornbeam_server.query.optimizer.rewrite import rewrite
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import Unsupported
from hornbeam_server.schema.model import Schema
from hornbeam_server.schema.types import Kind
from tests.depth import depth
from tests.duckdb_oracle import connect
from tests.query.aggregate_world import World, catalog_with, catalog_with_deferred
from tests.query.query_world import Data
from tests.strategies import SIMPLE_KINDS, few_values, rows_for, schemas

ORACLE = connect()
NUMBERS = (Kind.INTEGER, Kind.BIGINT, Kind.DECIMAL)
AVERAGE = "avg({})"
QUOTIENT = "sum({0})::DOUBLE / count({0})::DOUBLE"
Place = tuple[int, str]
"""Number of a source, column."""


@dataclass
class Star:
    """A fact relation (source 0) and parents: `edges[i]` joins source i + 1 to its child, by pairs
    of columns. Expressions are written over places."""

    schema: Schema
    relations: list[str]
    edges: list[tuple[int, list[tuple[str, str]]]] = field(default_factory=list)

    def places(self, *kinds: Kind) -> list[Place]:
        return [
            (number, column.name)
            for number, name in enumerate(self.relations)
            for column in self.schema.relation(name).columns
            if not kinds or column.type.kind in kinds
        ]

    def type(self, place: Place) -> Any:
        return self.schema.relation(self.relations[place[0]]).column(place[1]).type


def _star(draw: st.DrawFn, schema: Schema) -> Star:
    facts = [r.name for r in schema.relations if r.foreign_keys] or list(schema.names)
    star = Star(schema, [draw(st.sampled_from(facts))])
    for _ in range(draw(st.integers(0, 3))):
        child = draw(st.sampled_from(range(len(star.relations))))
        keys = schema.relation(star.relations[child]).foreign_keys
        if keys:
            key = draw(st.sampled_from(keys))
            star.relations.append(key.parent)
            star.edges.append((child, list(zip(key.columns, key.parent_columns, strict=True))))
    return star


Call = tuple[str, Place | None]


@dataclass
class Spec:
    """An aggregate SELECT over some sources of a star. `filters` are (place, rest of the text).
    `unjoined` is a source without its join, `beside` a relation with a column and the place that
    equals it. The first `hidden` groups are not selected."""

    star: Star
    sources: list[int]
    groups: list[Place]
    calls: list[Call]
    filters: list[tuple[Place, str]]
    unjoined: int = 0
    beside: tuple[str, str, Place] | None = None
    hidden: int = 0

    def sql(self, prefix: str, order: list[int], tail: str = "", *, exact: bool = False) -> str:
        """The statement; `exact` has averages as quotients, for DuckDB."""

        def at(place: Place) -> str:
            return f"{prefix}{place[0]}.{place[1]}"

        def call(function: str, place: Place | None) -> str:
            if exact and function == AVERAGE:
                return QUOTIENT.format(at(place))
            return function.format("*" if place is None else at(place))

        tables = ", ".join(f"{self.star.relations[i]} AS {prefix}{i}" for i in order)
        joins = [
            f"{at((child, a))} = {at((number, b))}"
            for number, (child, pairs) in enumerate(self.star.edges, start=1)
            if number in self.sources and number != self.unjoined
            for a, b in pairs
        ]
        where = [*joins, *(f"{at(place)} {rest}" for place, rest in self.filters)]
        groups = [f"{at(place)} AS g{i}" for i, place in enumerate(self.groups)]
        shown = groups[self.hidden :]
        shown += [f"{call(*each)} AS a{i}" for i, each in enumerate(self.calls)]
        if self.beside is not None:
            relation, column, place = self.beside
            tables += f", {relation} AS beside"
            where.append(f"beside.{column} = {at(place)}")
            shown.append(f"max(beside.{column}) AS b")
        group = f" GROUP BY {', '.join(map(at, self.groups))}" if self.groups else ""
        condition = f" WHERE {' AND '.join(where)}" if where else ""
        return f"SELECT {', '.join(shown)} FROM {tables}{condition}{group}{tail}"


def _calls(draw: st.DrawFn, star: Star, most: int) -> list[Call]:
    numbers = star.places(*NUMBERS)
    choices: list[Call] = [("count({})", None), *(("count({})", p) for p in star.places())]
    choices += [("sum({})", place) for place in numbers] * 3
    choices += [(AVERAGE, place) for place in numbers]
    return draw(st.lists(st.sampled_from(choices), min_size=1, max_size=most, unique=True))


def _filter(draw: st.DrawFn, star: Star, places: list[Place]) -> tuple[Place, str]:
    place = draw(st.sampled_from(places))
    kind = star.type(place).kind
    if kind in (Kind.INTEGER, Kind.BIGINT):
        number = draw(few_values(star.type(place)))
        signs = ("= {}", "> {}", "<= {}", "IN ({}, 2)", "BETWEEN {} AND 3")
        return place, draw(st.sampled_from(signs)).format(number)
    if kind is Kind.TEXT:
        return place, draw(st.sampled_from(["= 'a'", "<> 'ab'", "LIKE 'a%'"]))
    return place, draw(st.sampled_from(["IS NULL", "IS NOT NULL", "IS NOT NULL"]))


def _view(draw: st.DrawFn, schema: Schema) -> Spec:
    star = _star(draw, schema)
    groups = draw(st.lists(st.sampled_from(star.places()), max_size=3, unique=True))
    filters = [_filter(draw, star, star.places())] if draw(st.integers(0, 3)) == 0 else []
    sources = list(range(len(star.relations)))
    return Spec(star, sources, groups, _calls(draw, star, 4), filters)


def _query(draw: st.DrawFn, view: Spec) -> tuple[str, str, list[Any]]:
    """A query that resembles a view: with fewer sources and groups, and other conditions; the same
    with averages as quotients; its parameters."""
    star, sources = view.star, list(view.sources)
    children = {number: child for number, (child, _) in enumerate(star.edges, start=1)}
    for number in reversed(view.sources[1:]):
        if number not in [children[i] for i in sources if i] and draw(st.integers(0, 2)) == 0:
            sources.remove(number)

    def kept(places: list[Place]) -> list[Place]:
        return [place for place in places if place[0] in sources]

    own = kept(view.groups)
    groups = draw(st.lists(st.sampled_from(own), unique=True)) if own else []
    filters = [f for f in view.filters if f[0][0] in sources and draw(st.integers(0, 7)) > 0]
    if own and draw(st.booleans()):
        filters.append(_filter(draw, star, own))
    odd = draw(st.integers(0, 7))
    if odd == 0:
        filters.append(_filter(draw, star, kept(star.places())))
    if odd == 1:
        groups = [draw(st.sampled_from(kept(star.places()))), *(groups or own)]
    if own and draw(st.integers(0, 3)) == 0:
        groups, filters = [], _point(draw, star, own, filters)
    known = [call for call in view.calls if call[1] is None or call[1][0] in sources]
    calls = draw(st.lists(st.sampled_from(known), min_size=1, unique=True)) if known else []
    calls += _averages(draw, known)
    if own:
        extra = draw(st.sampled_from([None, "min({})", "max({})", "count(DISTINCT {})"]))
        calls += [(extra, draw(st.sampled_from(own)))] if extra else []
    if odd == 2 and (numbers := kept(star.places(*NUMBERS))):
        calls.append((draw(st.sampled_from([AVERAGE, "max({})"])), numbers[0]))
    filters, parameters = _parameters(draw, filters)
    groups = list(dict.fromkeys(groups))
    spec = Spec(star, sources, groups, calls or [("count({})", None)], filters)
    spec.hidden = draw(st.integers(0, len(groups)))
    if odd == 3:
        spec.unjoined = draw(st.sampled_from(sources))
    if odd in (4, 5) and own:
        spec.beside = _beside(draw, star, draw(st.sampled_from(own)))
    tail = draw(st.sampled_from(["", "", " HAVING count(*) > 1", " ORDER BY a0"]))
    tail = tail if groups or "HAVING" not in tail else ""
    order = draw(st.permutations(sources))
    sql, exact = (spec.sql("t", order, tail, exact=each) for each in (False, True))
    if draw(st.integers(0, 9)) == 0:
        sql, exact = (f"SELECT * FROM ({each}) AS inner_query" for each in (sql, exact))
    return sql, exact, parameters


def _averages(draw: st.DrawFn, known: list[Call]) -> list[Call]:
    """An average of a value that the view sums and counts, and of one that it does not count."""
    summed = [place for function, place in known if function == "sum({})"]
    return [(AVERAGE, draw(st.sampled_from(summed)))] if summed and draw(st.booleans()) else []


def _parameters(
    draw: st.DrawFn, filters: list[tuple[Place, str]]
) -> tuple[list[tuple[Place, str]], list[Any]]:
    """The filters with parameters for some numbers, and the parameters."""
    found, parameters = [], []
    for place, rest in filters:
        given = rest.startswith("= ") and "'" not in rest and draw(st.booleans())
        found.append((place, "= ?" if given else rest))
        parameters += [int(rest[2:])] if given else []
    return found, parameters


def _point(
    draw: st.DrawFn, star: Star, own: list[Place], filters: list[tuple[Place, str]]
) -> list[tuple[Place, str]]:
    """Filters that fix the groups `own` where they can."""
    numbers = [p for p in own if star.type(p).kind in (Kind.INTEGER, Kind.BIGINT)]
    fixed = [(place, f"= {draw(few_values(star.type(place)))}") for place in numbers]
    return [*(each for each in filters if each[0] not in own), *fixed]


def _beside(draw: st.DrawFn, star: Star, place: Place) -> tuple[str, str, Place] | None:
    kind = star.type(place).kind
    choices = [
        (relation.name, column.name, place)
        for relation in star.schema.relations
        for column in relation.columns
        if column.type.kind is kind
    ]
    return draw(st.sampled_from(choices)) if kind is not Kind.DECIMAL else None


@st.composite
def cases(draw: st.DrawFn) -> tuple[Catalog, Data, str, str, list[Any]]:
    schema = draw(schemas(min_relations=2, max_relations=4, kinds=SIMPLE_KINDS, with_indexes=False))
    specs = [_view(draw, schema) for _ in range(draw(st.integers(1, 2)))]
    views = {f"v{i}": spec.sql("s", spec.sources) for i, spec in enumerate(specs)}
    kind = draw(st.sampled_from([catalog_with, catalog_with, catalog_with_deferred]))
    try:
        catalog = kind(schema, views)
    except Unsupported:
        assume(False)
    return catalog, draw(rows_for(schema, max_rows=6)), *_query(draw, draw(st.sampled_from(specs)))


@pytest.fixture(scope="module")
def engine():
    engine = QueryEngine()
    yield engine
    engine.close()


@settings(max_examples=depth(20, long=60))
@given(case=cases())
def test_the_answer_over_views_is_that_over_relations_and_duckdbs(case, engine):
    catalog, data, sql, exact, parameters = case
    world = World(engine, catalog, data, ORACLE)
    found = world.ask(sql, parameters)
    wanted = world.ask(sql, parameters, use_views=False)
    shown = (catalog.immediate, catalog.deferred, sql, world.prepared(sql).explain().text)
    assert Counter(map(repr, found.rows)) == Counter(map(repr, wanted.rows)), shown
    assert found.types == wanted.types, shown
    asked = world.oracle(exact, parameters)
    places = {i for row in asked for i, value in enumerate(row) if isinstance(value, float)}
    assert _rounded(asked, places) == _rounded(found.rows, places), shown


def _rounded(rows: Iterable[Sequence[Any]], places: Set[int]) -> Counter[tuple[Any, ...]]:
    """The rows with twelve digits at these places. An average is a DECIMAL in Hornbeam, and a
    DOUBLE in DuckDB."""
    return Counter(
        tuple(
            f"{float(value):.12g}" if i in places and value is not None else value
            for i, value in enumerate(row)
        )
        for row in rows
    )


def test_most_statements_of_the_law_are_answered_from_views():
    """Else the law says little."""
    answered, from_deferred = [], []

    @settings(max_examples=100, derandomize=True, database=None)
    @given(cases())
    def count(case):
        catalog, _, sql, _, _ = case
        stale = frozenset(catalog.deferred_view)
        uses = rewrite(bind(sql, catalog), catalog, stale=stale).uses
        answered.append(bool(uses))
        from_deferred.append(any(use.view in stale for use in uses))

    count()
    assert sum(answered) > len(answered) / 4
    assert sum(from_deferred) > len(answered) / 25
