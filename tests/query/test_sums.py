"""The types of numbers that follow from the syntax."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from hornbeam_server.query.binding.binder import bind
from hornbeam_server.query.dialect import sums
from hornbeam_server.query.dialect.grammar import read_expression
from hornbeam_server.query.dialect.sums import is_real, number_type
from hornbeam_server.schema.types import REAL, ColumnType, Kind
from tests.query.query_world import make_catalog

TYPES = {
    "r": REAL,
    "q": REAL,
    "i": ColumnType(Kind.INTEGER),
    "f": ColumnType(Kind.DOUBLE),
    "d": ColumnType(Kind.DECIMAL, 5, 2),
    "day": ColumnType(Kind.DATE),
}
LEAVES = st.sampled_from([*TYPES, "r", "q", "unknown", "NULL", "1.5", "2"])
FORMS = st.sampled_from(
    [
        *("({} + {})", "({} - {})", "({} * {})", "({} / {})", "({} % {})", "coalesce({}, {})"),
        *("CASE WHEN true THEN {} ELSE {} END", "nullif({}, {})", "(- abs({}) + {})"),
    ]
)
NUMBERS = st.recursive(LEAVES, lambda inner: st.builds(str.format, FORMS, inner, inner))


def type_of(node: exp.Expr) -> ColumnType | None:
    return TYPES.get(node.name) if isinstance(node, exp.Column) else None


@given(NUMBERS)
def test_is_real_is_the_type_of_the_number(sql):
    node = read_expression(sql)
    assert is_real(node, type_of) == (number_type(node, type_of) == REAL)


def test_a_long_sum_is_not_gone_through_for_each_of_its_parts(monkeypatch):
    found, computed = [], sums._computed
    monkeypatch.setattr(sums, "_computed", lambda *given: found.append(given) or computed(*given))
    bind("SELECT " + " + ".join(["i_id"] * 500) + " FROM item", make_catalog())
    assert len(found) <= 2 * 500
