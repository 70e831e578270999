"""Views over views: a view that another one names stands for its SELECT.

So all that holds for one SELECT holds for views over views, too. Each keeps what it needs by itself
and follows the relations, at its own group's moment. A view names only what is declared before it,
so there are no circles.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from query.parse import at, parse
from schema.errors import Unsupported
from schema.model import DeclaredView, Refresh


def written_out(declared: DeclaredView, views: Sequence[DeclaredView]) -> exp.Expr:
    """The tree of a view's SELECT in which every other view that it names is a WITH query, written
    out itself. `views` are all, in the order in which they are declared. Positions are those of the
    view's own text.

    Raises what parsing raises, and Unsupported for views that it cannot name.
    """
    tree = parse(declared.sql)
    names = [view.name for view in views]
    before = names.index(declared.name) if declared.name in names else len(names)
    used = _named(tree)
    for view in views[before:]:
        if view.name in used:
            raise Unsupported(
                f"view {view.name} is not declared before{at(used[view.name], declared.sql)}",
                cure=f"declare {view.name} above {declared.name}",
            )
    written = [_as_cte(view, declared, views) for view in views[:before] if view.name in used]
    if written:
        with_ = tree.args.get("with_") or exp.With(expressions=[])
        with_.set("expressions", [*written, *with_.expressions])
        tree.set("with_", with_)
    return tree


def _named(tree: exp.Expr) -> dict[str, exp.Expr]:
    """What FROM names, but for WITH queries."""
    defined = {cte.alias for cte in tree.find_all(exp.CTE)}
    tables = {table.name: table for table in tree.find_all(exp.Table)}
    return {name: table for name, table in tables.items() if name not in defined}


def _as_cte(view: DeclaredView, reader: DeclaredView, views: Sequence[DeclaredView]) -> exp.CTE:
    if view.refresh is Refresh.RECOMPUTE and reader.refresh is not Refresh.RECOMPUTE:
        raise Unsupported(
            f"view {view.name} is answered anew each time, and {reader.name} is to be kept from"
            " changes",
            cure=f"write WITH (refresh = 'recompute') for {reader.name}, too",
        )
    tree = written_out(view, views)
    for node in tree.walk():
        node.meta.pop("start", None)  # of another text
    name = exp.TableAlias(this=exp.to_identifier(view.name, quoted=True))
    return exp.CTE(this=tree, alias=name)
