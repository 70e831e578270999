"""`*` over USING and NATURAL, whose columns PostgreSQL shows first, and DuckDB in their places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from hornbeam_server.query.binding.names import Frame


def with_ordered_stars(nodes: Sequence[exp.Expr], frame: Frame) -> Sequence[exp.Expr]:
    """The items of a SELECT, in which `*` is written out where its order differs from DuckDB's.
    `* EXCLUDE` and its like, which PostgreSQL does not have, keep the order of DuckDB."""
    bare = [node for node in nodes if isinstance(node, exp.Star) and not any(node.args.values())]
    if not bare or frame.open() or not frame.is_reordered():
        return nodes
    if any(not item.name for item in frame.items):
        return nodes
    if any(item.is_ambiguous(name) for item, name, _ in frame.star()):
        return nodes
    parent = bare[0].parent
    assert parent is not None
    listed = [each for node in nodes for each in (_columns(frame) if node in bare else (node,))]
    parent.set("expressions", listed)
    for star in bare:
        star.parent = None
    return listed


def _columns(frame: Frame) -> Iterator[exp.Expr]:
    for item, name, _ in frame.star():
        table = None if name in frame.merged else item.alias
        column = exp.column(name, table=table, quoted=True)
        shown = item.shown(name)
        yield (
            column
            if shown == name
            else exp.Alias(this=column, alias=exp.to_identifier(shown, quoted=True))
        )
