"""What is computed when an immediate view is read: HAVING, and expressions over aggregates.

Cells have the sums of all aggregates that the SELECT names. A reader adds up the cells of a group
(`storage.codec.folds`), and then evaluates the expressions over the *terms*: the grouping columns
and the aggregates. So an expression that fails, such as a division by zero, is an error of its
readers. Transactions, builds and verification do not evaluate it.
"""

from __future__ import annotations

from hornbeam_server.maintain.deltas.algebra import Map, Scan
from hornbeam_server.maintain.deltas.relations import Field, Fields, duck_type
from hornbeam_server.maintain.deltas.rows.maps import compile_maps
from hornbeam_server.maintain.deltas.rows.parsing import NotCompiledError
from hornbeam_server.maintain.immediate.stars import LATER
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import Unsupported
from hornbeam_server.schema.model import Column
from hornbeam_server.schema.views import Computed, ImmediateView
from hornbeam_server.storage.codec.folds import Compute
from hornbeam_server.storage.codec.rows import Codecs

Columns = tuple[Column, ...]


def codecs_of(catalog: Catalog) -> Codecs:
    """Codecs that can read all immediate views of a catalog."""
    return Codecs(catalog, compiled)


def compiled(view: ImmediateView) -> Compute:
    """The row of a view from the terms of a group. Raises NotCompiledError."""
    computed = view.computed
    assert computed is not None, "the view computes columns"
    return _compiled(computed, (*view.columns, *view.hidden), computed.expressions, computed.having)


def require_compiled(view: ImmediateView) -> None:
    """Raises Unsupported for an expression that only DuckDB evaluates."""
    computed = view.computed
    assert computed is not None, "the view computes columns"
    _require("HAVING", computed, (), (), computed.having)
    columns = (*view.columns, *view.hidden)
    for column, expression in zip(columns, computed.expressions, strict=True):
        _require(f"Column {column.name}", computed, (column,), (expression,), "")


def _require(
    what: str, computed: Computed, columns: Columns, expressions: tuple[str, ...], having: str
) -> None:
    try:
        _compiled(computed, columns, expressions, having)
    except NotCompiledError:
        raise Unsupported(
            f"{what} is an expression over aggregates that only DuckDB evaluates; immediate views"
            " are read without it.",
            cure=f"Select the aggregates, and compute when you read the view. {LATER}",
        ) from None


def _compiled(
    computed: Computed, columns: Columns, expressions: tuple[str, ...], having: str
) -> Compute:
    terms = _fields(computed.terms)
    source = Scan("", tuple(field.name for field in terms), terms, frozenset())
    map_ = Map(source, _fields(columns), expressions, having, {}, None)
    return compile_maps((map_,), terms, stored=False).row


def _fields(columns: Columns) -> Fields:
    return tuple(Field(column.name, duck_type(column.type), column.type) for column in columns)
