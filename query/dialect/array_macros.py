"""DuckDB's macros for the functions of arrays (`query/dialect/arrays.py`), over its lists."""

from __future__ import annotations

from collections.abc import Mapping

NO_PLACE = "An element is assigned to at a place from 1 on, since arrays begin with 1."
_NO_NULL = "list_position({}, NULL) IS NULL"
_IF_ANY = "CASE WHEN len(a) > 0 AND n = 1 THEN {} END"
_PARTS = (
    "CASE WHEN s IS NULL THEN NULL WHEN s = '' THEN CAST([] AS VARCHAR[])"
    " WHEN d IS NULL THEN string_split(s, '') WHEN d = '' THEN [s] ELSE string_split(s, d) END"
)
ARRAY_MACROS: Mapping[str, str] = {
    "array_at": "(a, i) AS CASE WHEN i >= 1 THEN a[CAST(i AS BIGINT)] END",
    "array_part": "(a, i, j) AS CASE WHEN i IS NULL OR j IS NULL THEN NULL"
    " WHEN j < 1 THEN a[1:0] WHEN i < 1 THEN a[1:j] ELSE a[i:j] END",
    "array_contains": f"(a, b) AS CASE WHEN a IS NULL OR b IS NULL THEN NULL"
    f" ELSE {_NO_NULL.format('b')} AND list_has_all(a, b) END",
    "array_contained": "(a, b) AS hornbeam_array_contains(b, a)",
    "array_overlaps": "(a, b) AS CASE WHEN a IS NULL OR b IS NULL THEN NULL"
    " ELSE list_has_any(a, b) END",
    "array_concatenated": "(a, b) AS CASE WHEN a IS NULL THEN b WHEN b IS NULL THEN a"
    " ELSE list_concat(a, b) END",
    "array_appended": "(a, e) AS list_append(a, e)",
    "array_assigned": f"(a, i, e) AS CASE WHEN i IS NULL OR i < 1 THEN error('{NO_PLACE}')"
    " ELSE list_concat(list_append(list_resize(coalesce(a, []), i - 1), e),"
    " coalesce(a[i + 1:], [])) END",
    "array_prepended": "(e, a) AS list_prepend(e, a)",
    "array_removed": "(a, e) AS list_filter(a, lambda x: x IS DISTINCT FROM e)",
    "array_replaced": "(a, e, f) AS list_transform(a, lambda x:"
    " CASE WHEN x IS NOT DISTINCT FROM e THEN f ELSE x END)",
    "array_position": "(a, e) AS CAST(list_position(a, e) AS INTEGER)",
    "array_position_from": "(a, e, n) AS CAST(list_position(a[greatest(n, 1):], e)"
    " + greatest(n, 1) - 1 AS INTEGER)",
    "array_positions": "(a, e) AS CAST(list_filter(range(1, len(a) + 1), lambda i:"
    " a[i] IS NOT DISTINCT FROM e) AS INTEGER[])",
    "array_length": f"(a, n) AS {_IF_ANY.format('CAST(len(a) AS INTEGER)')}",
    "array_lower": f"(a, n) AS {_IF_ANY.format('1')}",
    "array_number": "(a) AS CAST(len(a) AS INTEGER)",
    "array_dimensions": "(a) AS CASE WHEN len(a) > 0 THEN 1 END",
    "array_bounds": "(a) AS CASE WHEN len(a) > 0 THEN '[1:' || len(a) || ']' END",
    "array_split": f"(s, d, n) AS list_transform({_PARTS}, lambda e: nullif(e, n))",
    "array_any": "(x, a) AS CASE WHEN a IS NULL THEN NULL WHEN len(a) = 0 THEN false"
    f" WHEN x IS NULL THEN NULL WHEN list_contains(a, x) THEN true WHEN {_NO_NULL.format('a')}"
    " THEN false END",
}
"""By name: parameters and body."""
