"""The types that a query names, and that Hornbeam and DuckDB do not have."""

from __future__ import annotations

from sqlglot import exp

from hornbeam_server.schema.errors import Unsupported
from hornbeam_server.schema.namespaces import SYSTEM_CATALOG
from hornbeam_server.schema.sqltext import DECIMAL_BOUNDS, cure_of_type, decimal_fits

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
    if type_.this is _T.DECIMAL:
        _check_decimal(type_)


def _check_decimal(type_: exp.DataType) -> None:
    texts = [parameter.name for parameter in type_.expressions]
    if not all(text.isdecimal() for text in texts) or not decimal_fits([*map(int, texts)]):
        raise Unsupported(f"Type {type_.sql('postgres')} is out of range.", cure=DECIMAL_BOUNDS)
