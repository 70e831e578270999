"""The aggregates that views can hold, and that queries can take from them."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType

from sqlglot import exp


class Function(enum.StrEnum):
    """An aggregate function. `ROWS` is COUNT(*), `DISTINCT` is COUNT(DISTINCT …)."""

    ROWS = "count(*)"
    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"
    DISTINCT = "count distinct"

    def called(self, argument: str) -> str:
        """The call as SQL. `argument` is SQL, and has no meaning for `ROWS`."""
        match self:
            case Function.ROWS:
                return self.value
            case Function.DISTINCT:
                return f"count(DISTINCT {argument})"
        return f"{self.value}({argument})"


FUNCTIONS: Mapping[type[exp.Expr], Function] = MappingProxyType(
    {
        exp.Sum: Function.SUM,
        exp.Avg: Function.AVG,
        exp.Min: Function.MIN,
        exp.Max: Function.MAX,
        exp.Count: Function.COUNT,
    }
)
"""The function of each kind of call; a COUNT may also be ROWS or DISTINCT."""
