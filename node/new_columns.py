"""The values that a new column has in the rows that are stored already.

ALTER TABLE … ADD COLUMN writes no row: older rows show a literal. As in PostgreSQL, a default that
has one value in a transaction, such as now(), is computed once, when the column is added. A default
with random UUIDs writes the rows again (`schema/copies.py`). One that takes numbers (nextval) needs
a relation without rows, which is checked when the catalog is put into force
(`txlayer/ddl/constraint_validation.py`).
"""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

from hornbeam_server.query.engine import QueryEngine
from hornbeam_server.schema.assignment import assign
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import NotNullViolation, Unsupported
from hornbeam_server.schema.model import Column, Default, DefaultKind, Relation, Schema
from hornbeam_server.schema.sequences import differs_by_row
from hornbeam_server.schema.types import Value
from hornbeam_server.txlayer.statements.default_expressions import compile_default


async def with_values_in_older_rows(
    catalog: Catalog, base: Schema, now: dt.datetime, engine: QueryEngine
) -> Catalog:
    """`catalog`, whose relations follow those of `base` with the same names. The columns that they
    add have values in older rows. Raises Unsupported, NotNullViolation, and the errors of the
    defaults."""
    copied = {copy.relation for copy in catalog.copies}
    relations = []
    for relation in catalog.schema.relations:
        known = base.relation(relation.name).visible_names if relation.name in base else None
        new = [] if known is None else [c for c in relation.visible if c.name not in known]
        computed = [column for column in new if _has_one_value(column)]
        if computed and relation.name in copied:
            names = ", ".join(column.name for column in computed)
            raise Unsupported(
                f"{relation.name} gets {names}, whose default is an expression, and its rows are"
                " written again at the same time.",
                cure="Add the columns by a statement of their own, before the other change.",
            )
        valued = {c.name: await _valued(c, relation, now, engine) for c in computed}
        columns = tuple(valued.get(column.name, column) for column in relation.columns)
        relations.append(replace(relation, columns=columns))
    return replace(catalog, schema=replace(catalog.schema, relations=tuple(relations)))


def _has_one_value(column: Column) -> bool:
    expression = column.default_kind in {DefaultKind.NOW, DefaultKind.EXPRESSION}
    return expression and not differs_by_row(column)


async def _valued(
    column: Column, relation: Relation, now: dt.datetime, engine: QueryEngine
) -> Column:
    value: Value
    if column.default_kind is DefaultKind.NOW:
        value = assign(column.type, now)
    else:
        value = await compile_default(column, relation).value(now, engine, {})
    if value is None and not column.nullable:
        raise NotNullViolation(
            f"{relation.name}.{column.name} cannot be NOT NULL: its default is NULL.",
            cure="Allow NULL, or give it another default.",
            relation=relation.name,
            column=column.name,
        )
    return replace(column, missing=Default(DefaultKind.LITERAL, value))
