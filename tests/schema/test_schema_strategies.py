"""The shared strategies draw valid schemas, and rows that satisfy the constraints."""

from hypothesis import given
from hypothesis import strategies as st

from hornbeam_server.schema.model import Relation, Schema
from hornbeam_server.schema.types import ColumnType, Row
from tests.strategies import column_types, few_values, rows_for, schemas, values


@given(st.data(), column_types())
def test_values_are_already_coerced(data: st.DataObject, type_: ColumnType) -> None:
    for strategy in (values(type_), few_values(type_)):
        value = data.draw(strategy)
        coerced = type_.coerce(value)
        assert (type(coerced), repr(coerced)) == (type(value), repr(value))


@given(st.data())
def test_rows_satisfy_their_constraints(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    rows = data.draw(rows_for(schema))
    for relation in schema.relations:
        keys = [key(relation, row, relation.primary_key) for row in rows[relation.name]]
        assert len(set(keys)) == len(keys)
        for row in rows[relation.name]:
            check_row(schema, relation, row, rows)


def key(relation: Relation, row: Row, names: tuple[str, ...]) -> Row:
    return tuple(row[relation.positions[name]] for name in names)


def check_row(schema: Schema, relation: Relation, row: Row, rows: dict[str, list[Row]]) -> None:
    for column, value in zip(relation.columns, row, strict=True):
        assert column.nullable or value is not None
    for foreign_key in relation.foreign_keys:
        parent = schema.relation(foreign_key.parent)
        wanted = key(relation, row, foreign_key.columns)
        parents = {key(parent, other, parent.primary_key) for other in rows[parent.name]}
        assert None in wanted or wanted in parents
