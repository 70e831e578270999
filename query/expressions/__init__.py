"""Scalar expressions as Python closures over rows, with exactly DuckDB's meaning.

Point and prefix reads, CHECKs of WHERE and SET never leave Python when their expressions compile
here. `compile_expression` says None to whatever is not surely equal to DuckDB's answer; DuckDB
itself (`query.duckeval`, `query.engine`) then does it. Where SQL leaves the order of evaluation
open (AND, OR, IN), the closures stop early, so they may miss an overflow that DuckDB reports.
"""

from query.expressions.compiler import CompiledExpression, compile_expression
from query.expressions.operands import Scope
from query.expressions.ordering import SortTerm, sort_rows

__all__ = [
    "CompiledExpression",
    "Scope",
    "SortTerm",
    "compile_expression",
    "sort_rows",
]
