"""Checks whether stored rows meet the constraints that a new catalog adds.

Queries check a UNIQUE index, a foreign key, a CHECK, NOT NULL or a narrower type over existing rows
at the switch, while no writer is inside (`TransactionManager.switch`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from dataclasses import replace

from hornbeam_server.query.dialect.duckdb_types import quoted
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.diff import diff, narrows
from hornbeam_server.schema.errors import (
    CheckViolation,
    ForeignKeyViolation,
    NotNullViolation,
    StalePlan,
    TypeMismatch,
    UniqueViolation,
)
from hornbeam_server.schema.model import (
    Check,
    Column,
    DeclaredIndex,
    ForeignKey,
    KeyPart,
    Schema,
)
from hornbeam_server.schema.types import ColumnType, Declared, Kind

Count = Callable[[str], Awaitable[int]]
"""Runs a query that returns one number, over the stored rows as the new catalog reads them."""


async def check_stored(current: Catalog, new: Catalog, count: Count, count_before: Count) -> None:
    """Check the constraints that `new` adds to `current`. `count_before` counts over the rows as
    `current` reads them. Raises UniqueViolation, ForeignKeyViolation, CheckViolation,
    NotNullViolation or TypeMismatch, with the number of offending values or rows, and StalePlan
    when a relation that an initial load is to fill has rows."""
    changes = diff(current.schema, new.schema)
    arrived = {c.relation: c.changed for c in current.copies if c.target in new.schema.relations}
    await _check_keys(current, new, count_before)
    # First: the new catalog cannot read rows that break these.
    for relation, column in changes.restricted_columns:
        before = current.schema.relation(relation).column(column.name)
        if relation not in arrived:  # the rows of a copy meet them
            await _check_column(relation, before, column, count_before)
    await _check_copied(arrived, new.schema, count)
    await _check_appended(changes.appended_columns, arrived, count_before)
    # Rows meet a constraint that has only got another name.
    known = {replace(index, name="") for index in changes.dropped_indexes}
    for index in changes.added_indexes:
        added = replace(index, name="") not in known
        if index.expressions and index.relation in current.schema and added:
            await _check_expressions(index, count)
        if index.unique and index.relation in current.schema and added:
            await _check_unique(index, count)
    dropped = {(owner, replace(key, name="")) for owner, key in changes.dropped_foreign_keys}
    for relation, foreign_key in changes.added_foreign_keys:
        if (relation, replace(foreign_key, name="")) not in dropped:
            await _check_foreign_key(relation, foreign_key, count)
    conditions = {(owner, check.sql) for owner, check in changes.dropped_checks}
    for relation, check in changes.added_checks:
        if (relation, check.sql) not in conditions:
            await _check_rows(relation, check, count)
    if new.load is not None and current.load is None:
        for name in new.load.relations:
            await _check_empty(name, count)


async def _check_copied(
    arrived: Mapping[str, frozenset[str]], schema: Schema, count: Count
) -> None:
    """Check UNIQUE, expressions of indexes, and foreign keys of columns with other values.
    `arrived` has these columns by relation. NOT NULL and CHECK hold for each row that is copied."""
    for index in schema.indexes:
        columns = {part.column for part in index.columns}
        changed = arrived.get(index.relation, frozenset())
        if changed and index.expressions:
            await _check_expressions(index, count)
        if index.unique and changed and (columns & changed or not index.is_whole):
            await _check_unique(index, count)
    for relation in schema.relations:
        for key in relation.foreign_keys:
            referencing = arrived.get(relation.name, frozenset()).intersection(key.columns)
            if referencing or arrived.get(key.parent, frozenset()).intersection(key.parent_columns):
                await _check_foreign_key(relation.name, key, count)


async def _check_appended(
    columns: Sequence[tuple[str, Column]], arrived: Mapping[str, Set[str]], count: Count
) -> None:
    """A column that is NOT NULL without a default is added to a relation without rows, or has its
    values in a copy."""
    for relation, column in columns:
        lacks_values = not column.nullable and column.default is None
        if not lacks_values or column.name in arrived.get(relation, ()):
            continue
        rows = await count(f"SELECT count(*) FROM {quoted(relation)}")
        if rows:
            raise NotNullViolation(
                f"{relation}.{column.name} cannot be NOT NULL: {rows} stored"
                f" row{'s have' if rows > 1 else ' has'} no value for it.",
                cure="Allow NULL, or give it a default; if it is a column in force with another"
                " name, say so: --rename relation.old=new.",
                relation=relation,
            )


async def _check_keys(current: Catalog, new: Catalog, count: Count) -> None:
    """Check that rows have the keys that they get in new copies: they have values, and differ."""
    for copy in new.copies if not current.copies else ():
        relation, key = current.schema.relation(copy.relation), copy.target.primary_key
        if not copy.may_share_key(relation):
            continue
        parts = tuple(map(KeyPart, key))
        index = DeclaredIndex(copy.key_index, relation.name, parts, unique=True)
        await _check_unique(index, count, "the primary key")
        for before in map(relation.column, key):
            await _check_column(relation.name, before, replace(before, nullable=False), count)


async def _check_empty(relation: str, count: Count) -> None:
    if await count(f"SELECT count(*) FROM (SELECT 1 FROM {quoted(relation)} LIMIT 1) AS any_row"):
        raise StalePlan(
            f"Relation {relation} has rows: an initial load fills empty ones.",
            cure="Append to it, in transactions: hornbeam load without --spark.",
            relation=relation,
        )


async def _check_column(relation: str, before: Column, column: Column, count: Count) -> None:
    stored = f"{quoted(relation)} WHERE "
    name = quoted(column.name)
    if before.nullable and not column.nullable:
        found = await count(f"SELECT count(*) FROM {stored}{name} IS NULL")
        if found:
            raise NotNullViolation(
                f"{relation}.{column.name} cannot be NOT NULL: {found} stored"
                f" row{'s have' if found > 1 else ' has'} NULL there.",
                cure=f"Find them with SELECT * FROM {stored}{name} IS NULL, and give them a value"
                " first.",
                relation=relation,
                column=column.name,
                count=found,
            )
    if narrows(before, column):
        other = _is_no_value(name, column.type)
        found = await count(f"SELECT count(*) FROM {stored}{other}")
        if found:
            raise TypeMismatch(
                f"{relation}.{column.name} cannot be {column.type.ddl()}: {found} stored"
                f" value{'s are' if found > 1 else ' is'} not of this type.",
                cure=f"Find them with SELECT * FROM {stored}{other}, and change them first.",
                relation=relation,
                column=column.name,
                count=found,
            )


def _is_no_value(column: str, type_: ColumnType) -> str:
    """The condition that a stored value, which is encoded as `type_` is, is no value of it."""
    match type_.kind:
        case Kind.INTEGER | Kind.BIGINT:
            numbers = type_.declared_integers
            return f"{column} NOT BETWEEN {numbers[0]} AND {numbers[-1]}"
        case Kind.DECIMAL:
            digits = (type_.precision or 0) - (type_.scale or 0)
            return f"abs({column}) >= {10**digits}"
        case _:
            longer = "FALSE" if type_.length is None else f"length({column}) > {type_.length}"
            padded = f"{column} LIKE '% '" if type_.declared is Declared.CHAR else "FALSE"
            return f"({longer} OR {padded})"


async def _check_unique(index: DeclaredIndex, count: Count, wanted: str = "UNIQUE") -> None:
    columns = _parts_of(index)
    listed = ", ".join(columns)
    present = " AND ".join(f"{c} IS NOT NULL" for c in columns if index.nulls_distinct) or "TRUE"
    if index.where:
        present += f" AND ({index.where})"
    found = await count(
        f"SELECT count(*) FROM (SELECT {listed} FROM {quoted(index.relation)}"
        f" WHERE {present} GROUP BY {listed} HAVING count(*) > 1) AS repeated"
    )
    if found:
        raise UniqueViolation(
            f"{index.relation} ({listed}) cannot be {wanted}: {found}"
            f" value{'s are' if found > 1 else ' is'} stored more than once.",
            cure=f"Find them with SELECT {listed}, count(*) … GROUP BY {listed}, and make them"
            " differ first.",
            relation=index.relation,
            index=index.name,
            count=found,
        )


def _parts_of(index: DeclaredIndex) -> list[str]:
    """The parts of an index as SQL."""
    expressions = {each.column: f"({each.sql})" for each in index.expressions}
    names = (part.column for part in index.columns)
    return [expressions.get(name) or quoted(name) for name in names]


async def _check_expressions(index: DeclaredIndex, count: Count) -> None:
    """Evaluate the expressions of an index over the stored rows. Raises their errors."""
    rows = f"{quoted(index.relation)} WHERE {index.where or 'TRUE'}"
    for each in index.expressions:
        await count(
            f"SELECT count(*) FROM (SELECT max({each.sql}) AS last FROM {rows}) AS evaluated"
            " WHERE last IS NOT NULL"
        )


async def _check_rows(relation: str, check: Check, count: Count) -> None:
    broken = f"{quoted(relation)} WHERE NOT ({check.sql})"
    found = await count(f"SELECT count(*) FROM {broken}")
    if found:
        raise CheckViolation(
            f"{relation} cannot have {check.name}: {found} stored"
            f" row{'s do' if found > 1 else ' does'} not meet CHECK ({check.sql}).",
            cure=f"Find them with SELECT * FROM {broken}, and change them first.",
            relation=relation,
            constraint=check.name,
            count=found,
        )


async def _check_foreign_key(relation: str, foreign_key: ForeignKey, count: Count) -> None:
    pairs = zip(foreign_key.columns, foreign_key.parent_columns, strict=True)
    on = " AND ".join(f"c.{quoted(column)} = p.{quoted(other)}" for column, other in pairs)
    present = " AND ".join(f"c.{quoted(column)} IS NOT NULL" for column in foreign_key.columns)
    found = await count(
        f"SELECT count(*) FROM {quoted(relation)} AS c WHERE {present}"
        f" AND NOT EXISTS (SELECT 1 FROM {quoted(foreign_key.parent)} AS p WHERE {on})"
    )
    if found:
        columns = ", ".join(foreign_key.columns)
        raise ForeignKeyViolation(
            f"{relation} ({columns}) cannot reference {foreign_key.parent}: {found} stored"
            f" row{'s have' if found > 1 else ' has'} no parent there.",
            cure=f"Insert the missing rows of {foreign_key.parent}, or set {columns} to NULL"
            " first.",
            relation=relation,
            foreign_key=foreign_key.name,
            count=found,
        )
