"""The types that a query names, and that neither Hornbeam nor DuckDB has."""

from __future__ import annotations

from sqlglot import exp

from hornbeam_server.schema.errors import Unsupported
from hornbeam_server.schema.namespaces import SYSTEM_CATALOG
from hornbeam_server.schema.sqltext import cure_of_type

_T = exp.DType
_OF_DUCKDB = frozenset(
    {"guid", "integral", "oid", "uint8", "uint16", "uint32", "uint64", "varint", "type", "tuple"}
)
"""Names of types of DuckDB that the library's parser does not know."""
_UNKNOWN = frozenset({_T.INET, _T.MONEY, _T.XML, _T.HSTORE, _T.NAME, _T.TIMETZ})
"""Types that the library's parser knows. DuckDB has TIMETZ, but no result can have it."""


def check_type(type_: exp.DataType) -> None:
    """Raise Unsupported, with the name, for a type that cannot be had."""
    name = type_.sql("postgres").lower().removeprefix(f"{SYSTEM_CATALOG}.")
    if type_.this in _UNKNOWN or (type_.this is _T.USERDEFINED and name not in _OF_DUCKDB):
        raise Unsupported(f"Type {name.upper()} is not supported.", cure=cure_of_type(name))
