"""Order and cycles of the schema graph."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hornbeam_server.schema.errors import CircularReference
from hornbeam_server.schema.graph import find_cycle, parents, topological_order
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
    assert find_cycle(schema) is None


@pytest.mark.parametrize(
    ("schema", "cycle"),
    [
        (graph(a="b", b="a"), ("a", "b", "a")),
        (graph(x="b", a="b", b="a"), ("a", "b", "a")),
        (graph(c="a", a="b", b="c"), ("c", "a", "b", "c")),
        (graph(r="", a="r", b="ac", c="d", d="b"), ("b", "c", "d", "b")),
    ],
)
def test_a_cycle_starts_with_its_first_declared_relation(
    schema: Schema, cycle: tuple[str, ...]
) -> None:
    assert find_cycle(schema) == cycle
    with pytest.raises(CircularReference, match=" -> ".join(cycle)):
        topological_order(schema)


def test_a_long_chain_needs_no_deep_stack() -> None:
    names = [f"r{number}" for number in range(3000)]
    relations = [Relation("r0", (Column("id", INTEGER, False),), ("id",))]
    for parent, name in pairwise(names):
        key = ForeignKey("up", ("id",), parent, ("id",))
        relations.append(Relation(name, relations[0].columns, ("id",), (key,)))
    schema = Schema(tuple(reversed(relations)))
    assert find_cycle(schema) is None
    assert topological_order(schema) == tuple(names)


@given(st.data())
def test_any_schema_is_ordered_parents_first(data: st.DataObject) -> None:
    schema = data.draw(schemas(max_relations=7))
    shuffled = Schema(tuple(data.draw(st.permutations(schema.relations))))
    order = topological_order(shuffled)
    assert sorted(order) == sorted(schema.names)
    for child, above in parents(shuffled).items():
        assert all(order.index(parent) < order.index(child) for parent in above)
