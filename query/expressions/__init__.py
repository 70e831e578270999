"""Scalar expressions compiled to Python closures over rows, with exactly DuckDB's semantics.

Point and prefix reads, and the evaluation of WHERE and SET, do not need DuckDB if their expressions
compile here. `compile_expression` returns None for an expression whose result may differ from
DuckDB's; DuckDB (`query.duckdb.scalar`, `query.engine`) then evaluates it. Where SQL leaves the
order of evaluation open (AND, OR, IN), the closures stop early, so they may miss an overflow that
DuckDB reports.
"""

from hornbeam_server.query.expressions.compiler import (
    MAY_BE_NAN,
    CompiledExpression,
    compile_expression,
)
from hornbeam_server.query.expressions.operands import Scope
from hornbeam_server.query.expressions.ordering import SortTerm, sort_rows

__all__ = [
    "MAY_BE_NAN",
    "CompiledExpression",
    "Scope",
    "SortTerm",
    "compile_expression",
    "sort_rows",
]
