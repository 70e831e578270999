"""CREATE INDEX."""

from __future__ import annotations

from sqlglot import exp

from hornbeam_server.schema.ddl.statement import Statement
from hornbeam_server.schema.drafts import Expression, IndexDraft, Name

_KINDS = {"btree", "hash"}
"""An index of ranges also finds equal values, which are all that a hash index finds."""
_CURE = (
    "Write CREATE [UNIQUE] INDEX name ON relation (columns or expressions) INCLUDE (columns)"
    " [WHERE condition]."
)


def read_index(statement: Statement, tree: exp.Create) -> IndexDraft:
    index = tree.this
    statement.only(tree, {"this", "kind", "unique", "exists", "concurrently"}, _CURE)
    statement.only(index, {"this", "table", "params"}, _CURE)
    parameters = index.args["params"]
    using = parameters.args.get("using")
    if using is not None and using.name.lower() not in _KINDS:
        statement.refuse(f"USING {using.name}", statement.keyword("USING", statement.start), _CURE)
    relation = statement.table(index.args["table"])
    start = statement.offset(index.args["table"])
    if parameters.args.get("tablespace"):
        statement.refuse("TABLESPACE", statement.keyword("TABLESPACE", start), _CURE)
    statement.only(parameters, {"using", "columns", "include", "where"}, _CURE)
    where = statement.condition(start) if parameters.args.get("where") else None
    columns = tuple(
        _part(statement, part, number, start)
        for number, part in enumerate(parameters.args.get("columns") or ())
    )
    include = statement.names(parameters.args.get("include") or ())
    name = statement.beside(relation, statement.name(index.this)) if index.this else None
    unique, distinct = bool(tree.args.get("unique")), statement.nulls_distinct
    return IndexDraft(name, relation, columns, include, unique, where, distinct)


def _part(
    statement: Statement, part: exp.Expr, number: int, start: int
) -> tuple[Name | Expression, bool]:
    """The part `number` of an index, and whether it descends."""
    node = part.this if isinstance(part, exp.Ordered) else part
    descending = bool(isinstance(part, exp.Ordered) and part.args.get("desc"))
    if isinstance(node, exp.Collate):
        statement.require_collation(node)
        node = node.this
    if isinstance(node, exp.Opclass):
        # Every class of operators for a B-tree has the only order that values have here.
        if not node.expression.name.lower().endswith("_ops"):
            statement.refuse(node.sql("postgres"), statement.offset(part), _CURE)
        node = node.this
    if isinstance(column := node.unnest(), exp.Column):
        return statement.name(column.this), descending
    return statement.element(start, number), descending
