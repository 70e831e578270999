"""The copied catalogue of functions equals that of the installed DuckDB."""

from __future__ import annotations

import re

import duckdb

from hornbeam_server.query.dialect import catalogue

_CALLED = re.compile(r"(\w+)\"?\(")


def test_the_catalogue_equals_duckdbs():
    sql = "SELECT function_name, function_type, stability, macro_definition FROM duckdb_functions()"
    with duckdb.connect() as database:
        rows = database.sql(sql).fetchall()
    scalars = {name for name, kind, *_ in rows if kind == "scalar"}
    macros = {name: set(_CALLED.findall(text)) for name, kind, _, text in rows if kind == "macro"}

    def with_macros(names: set[str]) -> list[str]:
        while more := {name for name, called in macros.items() if called & names} - names:
            names |= more
        return sorted(names)

    aggregates = {name for name, kind, *_ in rows if kind == "aggregate"} - scalars
    # Functions of TIMESTAMPTZ are consistent within a query alone, since it has one time zone: UTC.
    consistent = {name for name, _, stable, _ in rows if stable == "CONSISTENT"}
    volatile = {name for name, _, stable, _ in rows if stable is not None} - consistent
    assert sorted(catalogue.AGGREGATES) == with_macros(aggregates)
    # It calls error(), which is volatile, but only for a key that is NULL.
    assert sorted({*catalogue.VOLATILE, "json_group_object"}) == with_macros(volatile)
    assert sorted(catalogue.ROWS) == with_macros({"unnest", "unlist"})
