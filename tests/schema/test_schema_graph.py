"""Order and cycles of the schema graph."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hornbeam_server.schema.graph import (
    circles,
    components,
    parents,
    topological_order,
    without_circles,
)
from hornbeam_server.schema.model import Column, ForeignKey, Relation, Schema
from hornbeam_server.schema.types import ColumnType, Kind
from tests.strategies import schemas

INTEGER = ColumnType(Kind.INTEGER)


def graph(**references: str) -> Schema:
    """Return a schema: relation names with the one-letter names of their parents."""
    return Schema(
        tuple(
            Relation(
                name,
                (Column("id", INTEGER, False), *(Column(parent, INTEGER) for parent in above)),
                ("id",),
                tuple(ForeignKey(f"to_{p}", (p,), p, ("id",)) for p in above),
            )
            for name, above in references.items()
        )
    )


def test_parents_come_first_and_ties_keep_declaration_order() -> None:
    schema = graph(c="ab", b="", d="c", a="", e="")
    assert topological_order(schema) == ("b", "a", "c", "d", "e")


def test_self_references_and_double_edges_do_not_matter() -> None:
    schema = graph(a="a", b="aab")
    assert parents(schema) == {"a": (), "b": ("a",)}
    assert topological_order(schema) == ("a", "b")
    assert circles(schema) == []


@pytest.mark.parametrize(
    ("schema", "found", "order"),
    [
        (graph(a="b", b="a"), [("a", "b")], "ba"),
        (graph(x="b", a="b", b="a"), [("a", "b")], "bxa"),
        (graph(c="a", a="b", b="c"), [("c", "a", "b")], "bac"),
        (graph(r="", a="r", b="ac", c="d", d="b"), [("b", "c", "d")], "radcb"),
        (graph(a="b", b="a", c="db", d="c"), [("a", "b"), ("c", "d")], "badc"),
    ],
)
def test_the_last_edge_of_a_circle_is_left_out_of_the_order(
    schema: Schema, found: list[tuple[str, ...]], order: str
) -> None:
    assert circles(schema) == found
    assert topological_order(schema) == tuple(order)


def test_an_edge_that_may_be_null_is_left_out_of_a_circle_first() -> None:
    a, b = graph(a="b", b="a").relations
    b = replace(b, columns=(b.columns[0], replace(b.columns[1], nullable=False)))
    assert topological_order(Schema((a, b))) == ("a", "b")


@given(st.integers(1, 8), st.data())
def test_components_are_the_nodes_that_reach_one_another(count: int, data: st.DataObject) -> None:
    nodes = range(count)
    above = {n: data.draw(st.lists(st.sampled_from(nodes), max_size=3)) for n in nodes}
    reached = {n: {n} for n in nodes}
    for _ in nodes:
        for n in nodes:
            reached[n].update(*(reached[parent] for parent in above[n]))
    found = list(components(above))
    assert sorted(n for group in found for n in group) == list(nodes)
    done: set[int] = set()
    for group in found:
        for n in group:
            assert {m for m in nodes if m in reached[n] and n in reached[m]} == {*group}
            assert {*above[n]} <= done | {*group}
        done |= {*group}


@given(st.integers(1, 8), st.data())
def test_edges_that_are_left_out_close_circles(count: int, data: st.DataObject) -> None:
    nodes = st.integers(0, count - 1)
    edges = data.draw(st.lists(st.tuples(nodes, nodes), max_size=20))
    kept = without_circles(edges, lambda edge: edge)
    above: dict[int, list[int]] = {n: [] for n in range(count)}
    for child, parent in kept:
        above[child].append(parent)
    assert all(len(group) == 1 for group in components(above))
    for child, parent in edges:
        if (child, parent) not in kept:
            above[child].append(parent)
            assert any({child, parent} <= {*group} for group in components(above))
            above[child].pop()


def test_a_long_chain_needs_no_deep_stack() -> None:
    names = [f"r{number}" for number in range(3000)]
    relations = [Relation("r0", (Column("id", INTEGER, False),), ("id",))]
    for parent, name in pairwise(names):
        key = ForeignKey("up", ("id",), parent, ("id",))
        relations.append(Relation(name, relations[0].columns, ("id",), (key,)))
    schema = Schema(tuple(reversed(relations)))
    assert circles(schema) == []
    assert topological_order(schema) == tuple(names)


@given(st.data())
def test_any_schema_is_ordered_parents_first(data: st.DataObject) -> None:
    schema = data.draw(schemas(max_relations=7))
    shuffled = Schema(tuple(data.draw(st.permutations(schema.relations))))
    order = topological_order(shuffled)
    assert sorted(order) == sorted(schema.names)
    for child, above in parents(shuffled).items():
        assert all(order.index(parent) < order.index(child) for parent in above)
