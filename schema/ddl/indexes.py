"""CREATE INDEX."""

from __future__ import annotations

from sqlglot import exp

from hornbeam_server.schema.build import IndexDraft, Name
from hornbeam_server.schema.ddl.statement import Statement


def read_index(statement: Statement, tree: exp.Create) -> IndexDraft:
    cure = "Write CREATE [UNIQUE] INDEX name ON relation (columns) INCLUDE (columns)"
    cure += " [WHERE condition]."
    index = tree.this
    statement.only(tree, {"this", "kind", "unique", "exists", "concurrently"}, cure)
    statement.only(index, {"this", "table", "params"}, cure)
    parameters = index.args["params"]
    using = parameters.args.get("using")
    if using is not None and using.name.lower() != "btree":
        statement.refuse(f"USING {using.name}", statement.keyword("USING", statement.start), cure)
    relation = statement.table(index.args["table"])
    start = statement.offset(index.args["table"])
    if parameters.args.get("tablespace"):
        statement.refuse("TABLESPACE", statement.keyword("TABLESPACE", start), cure)
    statement.only(parameters, {"using", "columns", "include", "where"}, cure)
    where = statement.condition(start) if parameters.args.get("where") else None
    columns = tuple(_index_part(statement, part) for part in parameters.args.get("columns") or ())
    include = statement.names(parameters.args.get("include") or ())
    name = statement.name(index.this) if index.this else None
    return IndexDraft(name, relation, columns, include, bool(tree.args.get("unique")), where)


def _index_part(statement: Statement, part: exp.Expr) -> tuple[Name, bool]:
    node = part.this if isinstance(part, exp.Ordered) else part
    if not isinstance(node, exp.Column):
        cure = "Index columns only; put what you compute into a column."
        statement.refuse(node.sql("postgres"), statement.offset(part), cure)
    name = statement.name(node.this)
    return name, bool(isinstance(part, exp.Ordered) and part.args.get("desc"))
