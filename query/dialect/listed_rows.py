"""Lists in FROM whose elements become rows: functions that return rows, ROWS FROM, and unnest of
several arrays.

The first elements of all lists make the first row, and so on; a shorter list ends in NULLs. DuckDB
does so with several unnest in the list of a SELECT. So such an item of FROM becomes a LATERAL
query: `LATERAL (SELECT unnest(…) AS a, unnest(…) AS b) AS alias`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from hornbeam_server.schema.errors import SqlError

SCALAR = "scalar"
"""Key in the meta of an item of FROM: its alias also means the value of its one column."""
ORDINALITY = "ordinality"


@dataclass(frozen=True, slots=True)
class Listed:
    """A column: its name, the list of its values, and the type to which they are cast, if any."""

    name: str
    values: exp.Expr
    type: exp.DataType | None = None

    def cell(self) -> exp.Expr:
        found: exp.Expr = _call("unnest", self.values.copy())
        return found if self.type is None else exp.Cast(this=found, to=self.type.copy())


def named(columns: Sequence[exp.Expr], given: Sequence[str], default: Sequence[str]) -> exp.Select:
    """The SELECT of these columns under the names `given`, and those of `default` behind them.
    Raises SqlError for too many names."""
    if len(given) > len(columns):
        raise SqlError(
            f"{len(given)} names for {len(columns)} columns of {default[0]} in FROM.",
            cure="Give at most one name for each column.",
        )
    names = [*given, *default[len(given) :]]
    items = [
        exp.Alias(this=column, alias=exp.to_identifier(name, quoted=True))
        for column, name in zip(columns, names, strict=True)
    ]
    return exp.Select(expressions=items)


def lateral(select: exp.Select, alias: str, *, scalar: bool) -> exp.Lateral:
    """The item of FROM of this SELECT. `scalar`: its one column is no field of a record."""
    title = exp.TableAlias(this=exp.to_identifier(alias, quoted=True))
    found = exp.Lateral(this=exp.Subquery(this=select), alias=title)
    if scalar:
        found.meta[SCALAR] = True
    return found


def rows_of(
    columns: Sequence[Listed], alias: str, given: Sequence[str], *, numbered: bool
) -> exp.Lateral:
    """The rows of these lists as an item of FROM, with their number if `numbered`. Raises
    SqlError."""
    cells = [column.cell() for column in columns]
    default = [column.name for column in columns]
    if numbered:
        cells.append(_numbers(columns))
        default.append(ORDINALITY)
    scalar = len(cells) == 1 and columns[0].type is None
    return lateral(named(cells, given, default), alias, scalar=scalar)


def _numbers(columns: Sequence[Listed]) -> exp.Expr:
    """The numbers of the rows: as many as the longest list has elements."""
    lengths = [_call("coalesce", _call("len", each.values.copy()), _number(0)) for each in columns]
    longest = lengths[0] if len(lengths) == 1 else _call("greatest", *lengths)
    places = _call("range", _number(1), exp.Add(this=longest, expression=_number(1)))
    return exp.cast(_call("unnest", places), exp.DType.BIGINT, copy=False)


def _call(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _number(value: int) -> exp.Expr:
    return exp.Literal.number(value)
