"""The clauses of MERGE in the form of the statements that they are like."""

from __future__ import annotations

from sqlglot import exp

from hornbeam_server.query.binding.names import Frame
from hornbeam_server.query.parsing.parse import OVERRIDING


def spell_inserts(tree: exp.Merge) -> None:
    """Give each INSERT of a MERGE the form of an INSERT statement: its columns in a `Schema`, its
    row in VALUES, and the OVERRIDING of the statement. A tree that has this form stays."""
    for when in tree.args["whens"].expressions:
        insert = when.args["then"]
        if not isinstance(insert, exp.Insert):
            continue
        insert.set(OVERRIDING, tree.args.get(OVERRIDING))
        columns, row = insert.args.get("this"), insert.args.get("expression")
        if isinstance(columns, exp.Tuple):
            insert.set("this", exp.Schema(expressions=_names(columns)))
        if not isinstance(row, exp.Values):
            insert.set("expression", exp.Values(expressions=[row]) if row else None)


def name_source(when: exp.When, source: Frame) -> None:
    """Write the name of its item before each column of WHEN NOT MATCHED, which sees the source
    alone: its search joins the source with the target."""
    for column in list(when.find_all(exp.Column)):
        if column.table or column.find_ancestor(exp.Query, exp.When) is not when:
            continue
        items = source.local(column.name)
        if len(items) == 1 and items[0].name:
            column.set("table", exp.to_identifier(items[0].name, quoted=True))


def _names(columns: exp.Tuple) -> list[exp.Expr]:
    """The names of columns, which the library reads as expressions."""
    plain = (isinstance(each, exp.Column) and not each.table for each in columns.expressions)
    return [
        each.this if is_name else each
        for each, is_name in zip(columns.expressions, plain, strict=True)
    ]
