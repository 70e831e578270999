"""Views over views: the name of a view in another view's SELECT stands for the view's SELECT.

So every rule for one SELECT holds for views over views, too. Each view stores its own state and is
refreshed from the relations, to the snapshot of its own group. A view can only name views that are
declared before it, so there are no cycles.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from hornbeam_server.query.binding.plain_views import parse_view
from hornbeam_server.query.dialect.grammar import at
from hornbeam_server.query.parsing.parse import parse
from hornbeam_server.schema.errors import Unsupported
from hornbeam_server.schema.model import DeclaredView, Refresh
from hornbeam_server.schema.trees import nodes_of


def written_out(declared: DeclaredView, views: Sequence[DeclaredView]) -> exp.Expr:
    """The tree of a view's SELECT, with every view that it names replaced by a WITH query,
    recursively. `views` are all views, in the order of their declaration. Positions refer to the
    view's own text.

    Raises the parser's errors, and Unsupported for views that it cannot name.
    """
    tree = parse_view(declared)
    names = [view.name for view in views]
    before = names.index(declared.name) if declared.name in names else len(names)
    used = _named(tree)
    for view in views[before:]:
        if view.name in used:
            raise Unsupported(
                f"View {view.name} is not declared before{at(used[view.name], declared.sql)}.",
                cure=f"Declare {view.name} above {declared.name}.",
            )
    written = [_as_cte(view, declared, views) for view in views[:before] if view.name in used]
    if written:
        with_ = tree.args.get("with_") or exp.With(expressions=[])
        with_.set("expressions", [*written, *with_.expressions])
        tree.set("with_", with_)
    return tree


def named(declared: DeclaredView) -> frozenset[str]:
    """The names of the relations and views that a view's SELECT reads. Raises the parser's
    errors."""
    return frozenset(_named(parse(declared.sql)))


def _named(tree: exp.Expr) -> dict[str, exp.Expr]:
    """The tables that FROM names, without WITH queries."""
    defined = {cte.alias for cte in nodes_of(tree, exp.CTE)}
    tables = {table.name: table for table in nodes_of(tree, exp.Table)}
    return {name: table for name, table in tables.items() if name not in defined}


def _as_cte(view: DeclaredView, reader: DeclaredView, views: Sequence[DeclaredView]) -> exp.CTE:
    if view.refresh is Refresh.RECOMPUTE and reader.refresh is not Refresh.RECOMPUTE:
        raise Unsupported(
            f"View {view.name} is recomputed each time, and {reader.name} is to be kept from"
            " changes.",
            cure=f"Write WITH (refresh = 'recompute') for {reader.name}, too.",
        )
    tree = written_out(view, views)
    for node in tree.walk():
        node.meta.pop("start", None)  # a position in another text
    name = exp.TableAlias(this=exp.to_identifier(view.name, quoted=True))
    return exp.CTE(this=tree, alias=name)
