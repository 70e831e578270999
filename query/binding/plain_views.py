"""Plain views in statements: the name of a view in FROM stands for its SELECT."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from hornbeam_server.query.parsing.output_names import keep_names
from hornbeam_server.query.parsing.parse import parse
from hornbeam_server.query.parsing.schema_names import OWN_ALIAS, SCHEMA, names_cte
from hornbeam_server.query.parsing.system_signals import refuse_signals
from hornbeam_server.schema.model import DeclaredView
from hornbeam_server.schema.views import PlainView

VIEW = "view"
"""Key in the meta of the subquery that stands for a plain view: the name of the view."""
WRITTEN = "written"
"""Key in the meta of the same subquery, which stands in the place of a name: where the name begins
and ends in the text (None: in the SELECT of a plain view), and whether it has an alias."""
STORED = "stored"
"""Key in the meta of a table inside of such a subquery: its name is that of a relation or view, not
of a WITH query around the subquery."""


def parse_view(declared: DeclaredView) -> exp.Expr:
    """The tree of the SELECT of a view, whose columns have the names that are stored. Raises the
    parser's errors."""
    tree = parse(declared.sql)
    refuse_signals(tree)
    keep_names(tree, declared.columns)
    return tree


def stand_in(table: exp.Table, view: PlainView) -> exp.Subquery:
    """The SELECT of `view` as a subquery with the alias of `table`."""
    tree = parse_view(view.declared)
    for node in tree.walk():
        node.meta.pop("start", None)  # a position in another text
        if isinstance(node, exp.Table) and not names_cte(node):
            node.meta[STORED] = True
    alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(table.name))
    subquery = exp.Subquery(this=tree, alias=alias.copy(), joins=table.args.get("joins"))
    place = (table.this.meta.get("start"), table.this.meta.get("end"))
    subquery.meta[VIEW] = view.name
    subquery.meta.update({key: table.meta[key] for key in (OWN_ALIAS, SCHEMA) if key in table.meta})
    subquery.meta[WRITTEN] = (*place, bool(table.args.get("alias")))
    return subquery


def names_in(tree: exp.Expr) -> Iterator[str]:
    """The relations and views that a bound statement names itself: a plain view counts, and not
    what its SELECT names."""
    for node in tree.walk(prune=lambda each: VIEW in each.meta):
        if VIEW in node.meta:
            yield node.meta[VIEW]
        elif isinstance(node, exp.Table) and "source" in node.meta:
            yield node.name
