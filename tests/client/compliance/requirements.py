"""What SQLAlchemy's compliance suite may ask of the dialect (`SuiteRequirements`).

The suite runs a test if each of its requirements is open. SQLAlchemy leaves many requirements
closed until a dialect opens them: `OPEN` are those that Hornbeam meets. `CLOSED` are those that it
does not meet, by reason. `docs/sqlalchemy.md` lists them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy.testing import exclusions
from sqlalchemy.testing.provision import (
    set_default_schema_on_connection,
    temp_table_keyword_args,
)
from sqlalchemy.testing.requirements import SuiteRequirements

OPEN = frozenset(
    [
        "aggregate_order_by",
        "autocommit",
        "boolean_col_expressions",
        "cast_precision_numerics_many_significant_digits",
        "check_constraint_reflection",
        "comment_reflection",
        "comment_reflection_full_unicode",
        "computed_columns",
        "computed_columns_default_persisted",
        "computed_columns_reflect_persisted",
        "computed_columns_stored",
        "cross_schema_fk_reflection",
        "ctes",
        "ctes_on_dml",
        "ctes_with_update_delete",
        "ctes_with_values",
        "date_historic",
        "datetime_historic",
        "datetime_interval",
        "datetime_literals",
        "datetime_timezone",
        "datetime_timezone_historic",
        "default_schema_name_switch",
        "deferrable_fks",
        "delete_from",
        "except_",
        "expression_server_defaults",
        "fetch_expression",
        "fetch_first",
        "fetch_no_order_by",
        "fetch_offset_with_options",
        "float_or_double_precision_behaves_generically",
        "foreign_key_constraint_name_reflection",
        "foreign_key_constraint_option_reflection_ondelete",
        "foreign_key_constraint_option_reflection_onupdate",
        "identity_columns",
        "identity_columns_standard",
        "implicit_default_schema",
        "index_ddl_if_exists",
        "index_reflects_included_columns",
        "indexes_check_column_order",
        "indexes_with_expressions",
        "infinity_floats",
        "inline_check_constraint_reflection",
        "intersect",
        "isolation_level",
        "json_type",
        "mod_operator_as_percent_sign",
        "nullsordering",
        "on_update_cascade",
        "order_by_label_with_expression",
        "percent_schema_names",
        "precision_numerics_enotation_small",
        "precision_numerics_many_significant_digits",
        "precision_numerics_retains_significant_digits",
        "reflect_indexes_with_ascdesc",
        "reflect_indexes_with_expressions",
        "reflect_table_options",
        "reflects_pk_names",
        "regexp_match",
        "regexp_replace",
        "savepoints",
        "schema_create_delete",
        "schema_reflection",
        "schemas",
        "server_defaults",
        "skip_autocommit_rollback",
        "supports_bitwise_and",
        "supports_bitwise_not",
        "supports_bitwise_or",
        "supports_bitwise_shift",
        "supports_bitwise_xor",
        "supports_distinct_on",
        "table_ddl_if_exists",
        "table_value_constructor",
        "timestamp_microseconds",
        "tuple_in",
        "tuple_in_w_empty",
        "unicode_ddl",
        "unique_constraints_reflect_as_index",
        "unique_index_reflect_as_unique_constraints",
        "update_from",
        "uuid_data_type",
        "create_or_replace_view",
        "constraint_comment_reflection",
        "create_table_as",
        "view_column_reflection",
        "view_reflection",
        "views",
        "window_functions",
        "window_range",
        "window_range_numeric",
    ]
)

CLOSED: Mapping[str, str] = {
    "Arrays have one dimension.": "array_type",
    "There are no temporary tables and views.": "create_temp_table_as has_temp_table"
    " temp_table_comment_reflection temp_table_names temp_table_reflect_indexes"
    " temp_table_reflection temporary_tables temporary_views",
    "A materialised view names its kind: WITH (refresh = …).": "materialized_views"
    " materialized_views_reflect_pk",
    "There is no type TIME WITH TIME ZONE.": "time_timezone",
    "There is no cursor.lastrowid: RETURNING gives the keys of inserted rows.": "dbapi_lastrowid"
    " emulated_lastrowid emulated_lastrowid_even_with_sequences implements_get_lastrowid"
    " supports_lastrowid",
    "There are no collations: text is ordered by code point.": "column_collation_reflection"
    " order_by_collation",
    "Generated columns are stored.": "computed_columns_virtual",
    "A descending column of an index is a column.": "reflect_indexes_with_ascdesc_as_expression",
    "A foreign key names each column once.": "repeated_column_foreign_keys"
    " repeated_remote_col_foreign_keys",
    "A foreign key has no index of its own.": "foreign_keys_reflect_as_index",
    "RESTRICT and NO ACTION mean the same, and are the default.":
    "fk_constraint_option_reflection_ondelete_noaction"
    " fk_constraint_option_reflection_ondelete_restrict"
    " fk_constraint_option_reflection_onupdate_restrict",
    "A table has at least one column.": "reflect_tables_no_columns",
    "FETCH FIRST has no PERCENT.": "fetch_percent",
    "RANGE with an INTERVAL takes a TIMESTAMP, no DATE.": "window_range_non_numeric",
    "There is no two-phase commit.": "two_phase_transactions",
    "A cursor fetches all rows; Arrow results are streamed.": "server_side_cursors",
    "There are no types NVARCHAR and NCHAR: all text is Unicode.": "nvarchar_types",
    "JSON is text.": "json_deserializer_binary legacy_unconditional_json_extract",
    "Names fold to lower case.": "denormalized_names",
    "The dialect follows ON UPDATE CASCADE.": "non_updating_cascade",
}  # fmt: skip
"""Requirements by the reason why they are closed."""

_CYCLE = "It declares CYCLE, which identity columns do not have."
REFLECTION: Mapping[str, str] = {
    "IdentityReflectionTest::test_reflect_identity": _CYCLE,
    "IdentityReflectionTest::test_reflect_identity_schema": _CYCLE,
    "TableViaSelectTest::test_view_dependencies_with_metadata":
    "It drops views in a transaction that has written.",
}  # fmt: skip
"""Tests of reflection and DDL that fail although their requirements are open, with the reason."""
_UNORDERED = "It expects an order of rows, but has no ORDER BY."
STATEMENTS: Mapping[str, str] = {
    "IsolationLevelTest::test_all_levels": "READ UNCOMMITTED is READ COMMITTED.",
    "WindowFunctionTest::test_window_range": _UNORDERED,
    "WindowFunctionTest::test_window_range_numeric": _UNORDERED,
}  # fmt: skip
"""The same of statements and connections."""
FAILING = {**REFLECTION, **STATEMENTS}


class Requirements(SuiteRequirements):
    """SQLAlchemy's requirements, those of Hornbeam opened and closed."""

    def get_isolation_levels(self, config: Any) -> dict[str, Any]:
        levels = config.db.dialect.get_isolation_level_values(None)
        return {"default": "REPEATABLE READ", "supported": list(levels)}


for _name in OPEN:
    setattr(Requirements, _name, property(lambda self: exclusions.open()))
for _name in " ".join(CLOSED.values()).split():
    setattr(Requirements, _name, property(lambda self: exclusions.closed()))


@temp_table_keyword_args.for_db("hornbeam")
def _no_temporary_tables(*_: Any) -> dict[str, Any]:
    """The suite asks this also where it makes no temporary table."""
    return {}


@set_default_schema_on_connection.for_db("hornbeam")
def _set_default_schema(_: Any, connection: Any, schema: str) -> None:
    """Set the path outside of a transaction, so that no rollback withdraws it."""
    autocommit, connection.autocommit = connection.autocommit, True
    connection.search_path = [schema]
    connection.autocommit = autocommit
