"""Joins over rows, by dictionaries of the right side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hornbeam_server.maintain.deltas.algebra import Join, JoinKind
from hornbeam_server.maintain.deltas.relations import Field, Fields, evaluate, from_rows
from hornbeam_server.maintain.deltas.rows.maps import compile_condition
from hornbeam_server.maintain.deltas.rows.parsing import NotCompiledError
from hornbeam_server.schema.rows import Projection, projection
from hornbeam_server.schema.types import ColumnType, Kind, Row

ByKey = Mapping[Row, Sequence[Row]]
"""Join key → the right rows that have it."""
Matches = Callable[[Sequence[Row]], Sequence[bool]]
"""Whether each pair (a left row and a right row, as one row) meets a condition."""
_NUMBER = Field("_number", "BIGINT", ColumnType(Kind.BIGINT))


@dataclass(frozen=True, slots=True)
class RowJoin:
    """A join over rows. Rows with a NULL in the key have no partner. `matches` is the rest of the
    condition, `nulls` the right side of a left row without a partner."""

    kind: JoinKind
    left_key: Projection
    right_key: Projection
    matches: Matches | None
    nulls: Row

    def by_key(self, right: Iterable[Row]) -> ByKey:
        found: dict[Row, list[Row]] = {}
        for row in right:
            found.setdefault(self.right_key(row), []).append(row)
        return {key: rows for key, rows in found.items() if None not in key}

    def results(
        self, left: Sequence[Row], right: ByKey, kind: JoinKind | None = None
    ) -> Iterator[list[Row]]:
        """For each left row the rows of the join (of `kind`, if given) that it has a part in."""
        kind = kind or self.kind
        for row, partners in zip(left, self._partners(left, right), strict=True):
            yield self._result(kind, row, partners)

    def _result(self, kind: JoinKind, row: Row, partners: Sequence[Row]) -> list[Row]:
        match kind:
            case JoinKind.SEMI:
                return [row] if partners else []
            case JoinKind.ANTI:
                return [] if partners else [row]
            case JoinKind.LEFT if not partners:
                return [row + self.nulls]
        return [row + partner for partner in partners]

    def _partners(self, left: Sequence[Row], right: ByKey) -> Iterable[Sequence[Row]]:
        found = [right.get(self.left_key(row), ()) for row in left]
        if self.matches is None:
            return found
        pairs = [a + b for a, partners in zip(left, found, strict=True) for b in partners]
        passes = iter(self.matches(pairs))
        return [[row for row in partners if next(passes)] for partners in found]


def row_join(join: Join) -> RowJoin:
    fields = (*join.left.fields, *join.right.fields)
    return RowJoin(
        join.kind,
        _key(join.left.fields, [a for a, _ in join.keys]),
        _key(join.right.fields, [b for _, b in join.keys]),
        _matches(join.condition, fields) if join.condition else None,
        (None,) * len(join.right.fields),
    )


def _key(fields: Fields, names: Sequence[str]) -> Projection:
    place = {field.name: i for i, field in enumerate(fields)}
    return projection([place[name] for name in names])


def _matches(condition: str, fields: Fields) -> Matches:
    try:
        test = compile_condition(condition, fields)
    except NotCompiledError:
        return lambda pairs: _answered(condition, fields, pairs)
    return lambda pairs: [test(pair) for pair in pairs]


def _answered(condition: str, fields: Fields, pairs: Sequence[Row]) -> Sequence[bool]:
    """The same by DuckDB."""
    if not pairs:
        return ()
    numbered = from_rows((*fields, _NUMBER), [(*pair, i) for i, pair in enumerate(pairs)])
    sql = f"SELECT _number FROM pairs WHERE {condition}"
    found = {row[0] for row in evaluate(sql, {"pairs": numbered}, (_NUMBER,)).rows()}
    return [i in found for i in range(len(pairs))]
