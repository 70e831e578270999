"""Defaults that a new schema has: they call functions that exist.

Our own loops know the functions that they compute when a default is compiled. DuckDB knows its own
functions only when it computes them, so the first computation is here, before the schema is in
force. As in PostgreSQL, a default may have another error, such as a division by zero.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

from hornbeam_server.query.engine import QueryEngine
from hornbeam_server.schema.domains import relation_of
from hornbeam_server.schema.errors import SqlError, UnknownName
from hornbeam_server.schema.model import Column, Relation, Schema
from hornbeam_server.txlayer.statements.default_expressions import (
    compile_default,
    default_expressions,
)


async def require_functions(
    schema: Schema, base: Schema, now: dt.datetime, engine: QueryEngine
) -> None:
    """Compute each default of `schema` that `base` does not have. Raises UnknownName for one that
    calls a function that does not exist, or not with such arguments."""
    for relation, column in _new_defaults(schema, base):
        default = compile_default(column, relation)
        numbers = dict.fromkeys((parameter for _, parameter in default.draws), 1)
        try:
            await default.value(now, engine, numbers)
        except UnknownName as error:
            error.message = f"Default of {relation.name}.{column.name}: {error.message}"
            raise
        except SqlError:
            continue


def _new_defaults(schema: Schema, base: Schema) -> Iterator[tuple[Relation, Column]]:
    domains = {domain.name: relation_of(domain) for domain in base.domains}
    of_base = domains | {relation.name: relation for relation in base.relations}
    for relation in (*map(relation_of, schema.domains), *schema.relations):
        before = of_base.get(relation.name)
        known = set() if before is None else {column.default for column in before.columns}
        for column in default_expressions(relation):
            if column.default not in known:
                yield relation, column
