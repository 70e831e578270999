"""What the system catalog of each PostgreSQL has: columns of `pg_catalog`, built-in types and the
like. `python -m tests.postgres.system_catalog` records it in `postgresql.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from hornbeam_server.query.system.shapes import BIGINT, INTEGER, TEXT
from hornbeam_server.schema.types import REAL, ColumnType, Kind, array_of

Given = Mapping[str, Any]
"""A row as the values of its columns by name."""
_TYPES: dict[str, ColumnType] = {
    **dict.fromkeys(("oid", "xid", "int8", "regtype"), BIGINT),
    **dict.fromkeys(("int2", "int4"), INTEGER),
    "bool": ColumnType(Kind.BOOLEAN),
    "float4": REAL,
    "float8": ColumnType(Kind.DOUBLE),
    "numeric": ColumnType(Kind.DECIMAL, 38, 9),
    "bytea": ColumnType(Kind.BYTES),
    "timestamptz": ColumnType(Kind.TIMESTAMPTZ),
    "interval": ColumnType(Kind.INTERVAL),
    "oidvector": array_of(BIGINT),
    "int2vector": array_of(INTEGER),
}
"""The types of columns; every other type, such as `name` and `regproc`, is TEXT."""
VECTORS = frozenset({"int2vector", "oidvector"})
"""The types of arrays that are counted from 0."""


@dataclass(frozen=True, slots=True)
class Described:
    """A relation of `pg_catalog`: its columns as (name, name of the type, NOT NULL)."""

    name: str
    oid: int
    kind: str
    columns: tuple[tuple[str, str, bool], ...]

    def type_of(self, column: str) -> str:
        """The name of the type of a column; "" if there is no such column."""
        return next((type_ for name, type_, _ in self.columns if name == column), "")


@cache
def relations() -> Mapping[str, Described]:
    """All relations of `pg_catalog` by name."""
    return {
        name: Described(name, found["oid"], found["kind"], tuple(map(tuple, found["columns"])))
        for name, found in _recorded()["relations"].items()
    }


@cache
def rows(name: str) -> Sequence[Given]:
    """The rows of a relation that do not depend on the schema."""
    columns = [column for column, _, _ in relations()[name].columns]
    return [dict(zip(columns, row, strict=True)) for row in _recorded()["rows"].get(name, ())]


@cache
def types() -> Mapping[str, Given]:
    """The rows of `pg_type` by the names of the types."""
    return {str(row["typname"]): row for row in rows("pg_type")}


def column_type(name: str) -> ColumnType:
    """The type here of a column of PostgreSQL's type `name`."""
    if name.startswith("_"):
        return array_of(_TYPES.get(name[1:], TEXT))
    return _TYPES.get(name, TEXT)


def zero(name: str) -> Any:
    """The value of a NOT NULL column of PostgreSQL's type `name` that has no meaning here."""
    type_ = column_type(name)
    if type_.element is not None:
        return ()
    return {Kind.TEXT: "", Kind.BOOLEAN: False}.get(type_.kind, 0)


@cache
def _recorded() -> Any:
    return json.loads(files("hornbeam_server.query.system").joinpath("postgresql.json").read_text())
