"""Law: for random schemas, views, rows and queries, rewriting keeps the result."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from hornbeam_server.query.binding.binder import bind
from hornbeam_server.query.optimizer.rewrite import rewrite
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.model import Schema
from hornbeam_server.schema.types import Row
from tests.depth import depth
from tests.query.bindertables import catalog, oracle, quoted, view
from tests.strategies import SIMPLE_KINDS, rows_for, schemas


@st.composite
def catalogs(draw: st.DrawFn) -> Catalog:
    """Draw a schema with the views of up to four random downward paths in it."""
    schema = draw(schemas(min_relations=2, max_relations=5, kinds=SIMPLE_KINDS, with_indexes=False))
    views = {}
    for _ in range(draw(st.integers(1, 4))):
        path, using = _path(draw, schema)
        if len(path) > 1:
            one = view(schema, *path, using=using)
            views[one.name] = one
    return catalog(schema, views.values())


def _path(draw: st.DrawFn, schema: Schema) -> tuple[list[str], dict[str, str]]:
    path, using = [draw(st.sampled_from(schema.names))], {}
    while len(path) < 4:
        steps = [(c, k) for c, k in schema.children(path[-1]) if c.name not in path]
        if not steps or (len(path) > 1 and draw(st.integers(0, 2)) == 0):
            break
        child, key = draw(st.sampled_from(steps))
        path.append(child.name)
        using[child.name] = key.name
    return path, using


class _Query:
    """Builds a SELECT from a random relation along foreign keys in either direction."""

    def __init__(self, draw: st.DrawFn, schema: Schema, *, outer: bool = False) -> None:
        self.draw, self.schema, self.outer = draw, schema, outer
        self.sources = [("a0", draw(st.sampled_from(schema.names)))]
        self.joins: list[list[str]] = []
        for _ in range(draw(st.integers(1, 4))):
            self.join()

    def join(self) -> None:
        alias, relation = self.draw(st.sampled_from(self.sources))
        new = f"a{len(self.sources)}"
        up = [(new, k.parent, alias, k) for k in self.schema.relation(relation).foreign_keys]
        down = [(new, c.name, new, k) for c, k in self.schema.children(relation)]
        steps = up + down
        if not steps:
            return
        _, other, child, key = self.draw(st.sampled_from(steps))
        parent = alias if child == new else new
        self.sources.append((new, other))
        self.joins.append([])
        for column, referenced in zip(key.columns, key.parent_columns, strict=True):
            sides = [f"{child}.{column}", f"{parent}.{referenced}"]
            self.joins[-1].append(" = ".join(self.draw(st.permutations(sides))))

    def columns(self) -> list[str]:
        return [f"{a}.{c}" for a, r in self.sources for c in self.schema.relation(r).column_names]

    def sql(self) -> str:
        some = self.draw(st.lists(st.sampled_from(self.columns()), min_size=1, max_size=4))
        listed = self.draw(st.sampled_from(["*", ", ".join(some), f"a0.*, {some[0]} AS x"]))
        extra = f"{some[0]} IS NOT NULL"
        if self.draw(st.booleans()):
            listed, tail = f"{some[0]}, count(*) AS n", f" GROUP BY {some[0]}"
        else:
            tail = ""
        if self.outer:
            where = [extra] if self.draw(st.booleans()) else ["TRUE"]
            origin = self.joined(some)
        else:
            where = self.draw(st.permutations([*itertools.chain(*self.joins), extra]))
            tables = self.draw(st.permutations(self.sources))
            origin = ", ".join(f"{quoted(relation)} AS {alias}" for alias, relation in tables)
        return f"SELECT {listed} FROM {origin} WHERE {' AND '.join(where)}{tail}"

    def joined(self, some: list[str]) -> str:
        """FROM with inner and LEFT JOINs, in the order in which the sources were drawn."""
        (first, relation), *others = self.sources
        origin = f"{quoted(relation)} AS {first}"
        for (alias, relation), on in zip(others, self.joins, strict=True):
            kind = self.draw(st.sampled_from(["JOIN", "LEFT JOIN"]))
            known = f" AND {some[0]} IS NOT NULL" if some[0].startswith(f"{alias}.") else ""
            origin += f" {kind} {quoted(relation)} AS {alias} ON {' AND '.join(on)}{known}"
        return origin


@st.composite
def cases(draw: st.DrawFn, *, outer: bool = False):
    found = draw(catalogs())
    data = draw(rows_for(found.schema, max_rows=4))
    return found, data, _Query(draw, found.schema, outer=outer).sql()


@settings(max_examples=depth(20, long=60))
@given(cases())
def test_rewriting_keeps_the_rows(case):
    _check(*case)


@settings(max_examples=depth(20, long=60))
@given(cases(outer=True))
def test_rewriting_keeps_the_rows_of_left_joins(case):
    _check(*case)


def _check(found: Catalog, data: dict[str, list[Row]], sql: str) -> None:
    bound = bind(sql, found)
    rewritten = rewrite(bound, found)
    with oracle(found, data) as connection:
        before = connection.execute(sql).fetchall()
        after = connection.execute(rewritten.bound.ast.sql("duckdb")).fetchall()
    assert sorted(after, key=repr) == sorted(before, key=repr), (sql, rewritten.bound.ast.sql())


@settings(max_examples=depth(20, long=60))
@given(cases())
def test_filters_and_joins_are_necessary_conditions(case):
    """Foreign-key joins found by binding hold for every combination of rows in the result."""
    found, data, sql = case
    (block,) = bind(sql, found).statement.blocks
    tables = ", ".join(f"{quoted(s.relation)} AS {s.alias}" for s in block.sources)
    where = sql.partition(" WHERE ")[2].partition(" GROUP BY ")[0]
    with oracle(found, data) as connection:
        for join in block.fk_joins:
            key = join.foreign_key
            pairs = zip(key.columns, key.parent_columns, strict=True)
            holds = " AND ".join(f"{join.child}.{c} = {join.parent}.{p}" for c, p in pairs)
            query = f"SELECT count(*) FROM {tables} WHERE {where} AND ({holds}) IS NOT TRUE"
            assert connection.execute(query).fetchall() == [(0,)], (sql, join)
