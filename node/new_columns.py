"""The values that a new column has in the rows that are stored already.

ALTER TABLE … ADD COLUMN writes no row: older rows show a literal. As in PostgreSQL, a default that
has one value in a transaction, such as now(), is computed once, when the column is added. A default
with another value for each row, a random UUID or a number, writes the rows again
(`schema/copies.py`). The copy then has the computed values of the other new columns, too.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

from hornbeam_server.query.engine import QueryEngine
from hornbeam_server.schema.assignment import assign
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import NotNullViolation
from hornbeam_server.schema.model import Column, Default, DefaultKind, Relation, Schema
from hornbeam_server.schema.sequences import differs_by_row
from hornbeam_server.schema.types import Value
from hornbeam_server.txlayer.statements.default_expressions import compile_default


async def with_values_in_older_rows(
    catalog: Catalog, base: Schema, now: dt.datetime, engine: QueryEngine
) -> Catalog:
    """`catalog`, whose relations follow those of `base` with the same names. The columns that they
    add have values in older rows. Raises NotNullViolation, and the errors of the defaults."""
    relations = []
    for relation in catalog.schema.relations:
        known = base.relation(relation.name).stored_names if relation.name in base else None
        new = [] if known is None else [c for c in relation.columns if c.name not in known]
        computed = [column for column in new if _has_one_value(column)]
        valued = {c.name: await _valued(c, relation, now, engine) for c in computed}
        columns = tuple(valued.get(column.name, column) for column in relation.columns)
        relations.append(replace(relation, columns=columns))
    schema = replace(catalog.schema, relations=tuple(relations))
    copies = (replace(copy, target=schema.relation(copy.relation)) for copy in catalog.copies)
    return replace(catalog, schema=schema, copies=tuple(copies))


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
