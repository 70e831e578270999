"""The types of the SQLAlchemy dialect: how values are sent, read, and named in DDL."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from sqlalchemy import exc, types, util
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.sqlite import json as sqlite_json
from sqlalchemy.sql import compiler, sqltypes, type_api

from hornbeam.intervals import interval_text
from hornbeam.namespaces import PUBLIC


class Interval(type_api.NativeForEmulated, sqltypes._AbstractInterval):
    """INTERVAL: a `datetime.timedelta`, or a `hornbeam.Interval` if it has months."""

    __visit_name__ = "INTERVAL"
    native = True

    @classmethod
    def adapt_emulated_to_native(cls, *_: Any, **__: Any) -> Interval:
        return cls()

    def literal_processor(self, dialect: Any) -> Callable[[Any], str]:
        return lambda value: f"INTERVAL '{interval_text(value)}'"


_TYPES: dict[str, type[types.TypeEngine[Any]]] = {
    "SMALLINT": types.SMALLINT,
    "INTEGER": types.INTEGER,
    "BIGINT": types.BIGINT,
    "DECIMAL": types.DECIMAL,
    "NUMERIC": types.NUMERIC,
    "REAL": types.REAL,
    "DOUBLE": types.DOUBLE,
    "BOOLEAN": types.BOOLEAN,
    "TEXT": types.TEXT,
    "CHAR": types.CHAR,
    "VARCHAR": types.VARCHAR,
    "BLOB": types.BLOB,
    "DATE": types.DATE,
    "INTERVAL": Interval,
    "UUID": types.UUID,
    "JSON": types.JSON,
    "JSONB": postgresql.JSONB,
}


_TYPE = re.compile(r"(?P<name>\w+)(?:\((?P<sizes>[\d,]+)\))?(?P<zone> WITH TIME ZONE)?")
_MOMENTS: dict[str, type[types.TypeEngine[Any]]] = {
    "TIME": postgresql.TIME,
    "TIMESTAMP": postgresql.TIMESTAMP,
}


def column_type(name: str, labels: Sequence[str] | None = None) -> types.TypeEngine[Any]:
    """The SQLAlchemy type for a type name of the server, such as DECIMAL(15,2); NullType with a
    warning for a type of a newer server. `labels`: it is an enumeration with these labels."""
    if name.endswith("[]"):
        return postgresql.ARRAY(column_type(name.removesuffix("[]"), labels))
    if labels is not None:
        return types.Enum(*labels, name=name)
    found = _TYPE.fullmatch(name)
    sizes = [int(size) for size in found["sizes"].split(",")] if found and found["sizes"] else []
    if found and found["name"] in _MOMENTS:
        precision = sizes[0] if sizes else None
        kind: Any = _MOMENTS[found["name"]]
        moment: types.TypeEngine[Any] = kind(bool(found["zone"]), precision)
        return moment
    if found and found["name"] in _TYPES:
        return _TYPES[found["name"]](*sizes)
    util.warn(f"The type {name} is unknown to this version of the client.")
    return types.NullType()


def domain_type(type_: types.TypeEngine[Any], schema: str, name: str) -> types.TypeEngine[Any]:
    """The SQLAlchemy type for a domain over `type_`. A table with it does not create the domain."""
    space = None if schema == PUBLIC else schema
    return postgresql.DOMAIN(name, type_, schema=space, create_type=False)


class Numeric(sqltypes.Numeric[Any]):
    """A numeric type that converts results, since sums and averages may have another type than
    their operands."""

    def bind_processor(self, dialect: Any) -> None:
        return None

    def result_processor(self, dialect: Any, coltype: Any) -> Callable[[Any], Any]:
        if not self.asdecimal:
            return lambda value: None if value is None else float(value)
        scale = self._effective_decimal_return_scale

        def to_decimal(value: Any) -> Decimal | None:
            if value is None or isinstance(value, Decimal):
                return value
            return Decimal(f"{value:.{scale}f}" if isinstance(value, float) else value)

        return to_decimal


class Float(sqltypes.Float[Any]):
    def bind_processor(self, dialect: Any) -> None:
        return None

    result_processor = Numeric.result_processor


class JsonIndex(sqlite_json.JSONIndexType):
    def _format_value(self, value: Any) -> str:
        return _json_path([value])


class JsonPath(sqlite_json.JSONPathType):
    def _format_value(self, value: Any) -> str:
        return _json_path(value)


def _json_path(steps: Sequence[str | int]) -> str:
    """Keys and array indexes as a path of DuckDB: $."key"[0]. In such a path the key * is a
    wildcard, and an empty key is impossible. Paths with these keys become JSON pointers: /*/0."""
    if not any(step in ("*", "") for step in steps):
        return "$" + "".join(map(_json_step, steps))
    if any(step < 0 if isinstance(step, int) else step.isdecimal() for step in steps):
        raise exc.ArgumentError(f"{steps!r} cannot be a path: index the value step by step.")
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in steps)


def _json_step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    escaped = step.replace("\\", "\\\\").replace('"', '\\"')
    return f'."{escaped}"'


class HornbeamTypeCompiler(compiler.GenericTypeCompiler):
    """Renders the server's type names. Raises CompileError for types that the server lacks."""

    def visit_DATETIME(self, type_: Any, **kw: Any) -> str:
        zone = " WITH TIME ZONE" if type_.timezone else ""
        return f"TIMESTAMP{_decimals(type_)}{zone}"

    visit_TIMESTAMP = visit_DATETIME

    def visit_DOMAIN(self, type_: Any, **kw: Any) -> str:
        preparer = self.dialect.identifier_preparer
        space = "" if type_.schema is None else f"{preparer.quote_schema(type_.schema)}."
        return space + str(preparer.quote(type_.name))

    def visit_FLOAT(self, type_: Any, **kw: Any) -> str:
        return "DOUBLE" if (type_.precision or 53) > 24 else "REAL"  # in bits

    visit_DOUBLE = visit_DOUBLE_PRECISION = visit_FLOAT

    def visit_REAL(self, type_: Any, **kw: Any) -> str:
        return "REAL"

    def visit_VARCHAR(self, type_: Any, **kw: Any) -> str:
        return f"VARCHAR({type_.length})" if type_.length else "TEXT"

    visit_NVARCHAR = visit_VARCHAR

    def visit_CHAR(self, type_: Any, **kw: Any) -> str:
        return f"CHAR({type_.length or 1})"

    visit_NCHAR = visit_CHAR

    def visit_TEXT(self, type_: Any, **kw: Any) -> str:
        return "TEXT"

    visit_CLOB = visit_TEXT

    def visit_BLOB(self, type_: Any, **kw: Any) -> str:
        return "BLOB"

    visit_BINARY = visit_VARBINARY = visit_BLOB

    def visit_uuid(self, type_: Any, **kw: Any) -> str:
        return "UUID" if type_.native_uuid else "VARCHAR(32)"

    def visit_UUID(self, type_: Any, **kw: Any) -> str:
        return "UUID"

    def visit_JSON(self, type_: Any, **kw: Any) -> str:
        return "JSON"

    def visit_JSONB(self, type_: Any, **kw: Any) -> str:
        return "JSONB"

    def visit_ARRAY(self, type_: Any, **kw: Any) -> str:
        return f"{self.process(type_.item_type, **kw)}[]"

    def visit_INTERVAL(self, type_: Any, **kw: Any) -> str:
        return "INTERVAL"

    def visit_TIME(self, type_: Any, **kw: Any) -> str:
        if type_.timezone:
            raise exc.CompileError("There is no TIME WITH TIME ZONE: use TIME, or a TIMESTAMP.")
        return f"TIME{_decimals(type_)}"


def _decimals(type_: Any) -> str:
    """The decimals of a second, which PostgreSQL's types have, in parentheses."""
    precision = getattr(type_, "precision", None)
    return "" if precision is None else f"({precision})"
