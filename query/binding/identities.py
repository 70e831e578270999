"""Row identities in a SELECT: `*` and NATURAL JOIN do not see them, also where DuckDB reads them.

DuckDB gets every column that a statement uses. If a statement names a row identity, its `*` would
show it, and its NATURAL JOIN would join on it. So both are written out here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp

from hornbeam_server.query.binding.blocks import Gathered
from hornbeam_server.query.binding.names import Item

_OMITTED = "omitted"
"""Marks columns in EXCLUDE that the statement does not have. A tree may be bound twice."""


def excluded_names(star: exp.Expr) -> set[str]:
    """The columns that the statement excludes from a star."""
    return {column.name for column in _written(star)}


def _written(star: exp.Expr) -> list[exp.Expr]:
    """The columns in EXCLUDE that the statement has."""
    return [c for c in star.args.get("except_") or () if not c.meta.get(_OMITTED)]


def forget_omitted(tree: exp.Expr) -> None:
    """Let each star exclude what the statement excludes: the tables that will be read show no row
    identities."""
    for star in tree.find_all(exp.Star):
        star.set("except_", _written(star) or None)


def omit_identities(star: exp.Expr, items: Iterable[tuple[Item, Gathered]]) -> None:
    """Exclude the row identities that the statement uses from a star over `items`."""
    listed = _written(star)
    for item, gathered in items:
        if item.relation is None:
            continue
        for name, column in item.hidden:
            if column.name in gathered.used.get(item.alias, ()):
                omitted = exp.column(name, table=item.alias, quoted=True)
                omitted.meta[_OMITTED] = True
                listed.append(omitted)
    if listed:
        star.set("except_", listed)


def write_out_natural(join: exp.Join, names: Sequence[str], items: Iterable[Item]) -> None:
    """Name the common columns of a NATURAL JOIN if any item has a row identity. Without common
    columns all pairs of rows are joined."""
    if not names:
        join.set("method", None)
        join.set("on", exp.true())
    elif any(item.hidden for item in items if item.relation is not None):
        join.set("method", None)
        join.set("using", [exp.to_identifier(name, quoted=True) for name in names])
