"""Refusal of clauses of INSERT, UPDATE, DELETE and MERGE that no plan carries out."""

from __future__ import annotations

from collections.abc import Mapping, Set

from sqlglot import exp

from hornbeam_server.query.parsing.parse import OVERRIDING
from hornbeam_server.schema.errors import SqlError, Unsupported

_CARRIED_OUT: Mapping[type[exp.Expr], Set[str]] = {
    exp.Insert: {"this", "expression", "default", "conflict", "returning", "with_", OVERRIDING},
    exp.Update: {"this", "expressions", "from_", "where", "returning", "with_"},
    exp.Delete: {"this", "using", "where", "returning", "with_"},
    exp.Merge: {"this", "using", "on", "whens", "with_", OVERRIDING},
    exp.Schema: {"this", "expressions"},
    exp.Table: {"this", "alias", "only"},
    exp.TableAlias: {"this"},
    exp.OnConflict: {
        *("action", "conflict_keys", "index_predicate", "constraint", "expressions", "where")
    },
    exp.Returning: {"expressions"},
}
"""The clauses of a statement that its plan carries out. The parser accepts more clauses."""
_COLUMNS = "Use INSERT … ON CONFLICT (columns)."
_SOME_ROWS = "Name the rows in WHERE, for example by a subquery: WHERE key IN (SELECT …)."
_TWO_STEPS = "Use ON CONFLICT, or DELETE and INSERT in one transaction."
_REFUSED = {
    "ignore": ("INSERT IGNORE is", _COLUMNS),
    "by_name": ("INSERT BY NAME is", "List the columns: INSERT INTO t (columns) …"),
    "overwrite": ("INSERT OVERWRITE is", _TWO_STEPS),
    "exists": ("INSERT with IF EXISTS is", _TWO_STEPS),
    "duplicate": ("ON DUPLICATE KEY is", _COLUMNS),
    "order": ("ORDER BY in a write is", _SOME_ROWS),
    "limit": ("LIMIT in a write is", _SOME_ROWS),
    "columns": ("A list of columns after the alias is", "Give the relation an alias alone."),
    "into": ("RETURNING with INTO is", "The rows come as the statement's result."),
}


def require_carried_out(ast: exp.Expr) -> None:
    """Raises Unsupported for a clause that no plan carries out: without the clause, the statement
    would change other rows."""
    target = ast.this
    relation = target.this if isinstance(target, exp.Schema) else target
    parts = [ast, target, relation, relation.args.get("alias")]
    parts += [ast.args.get("conflict"), ast.args.get("returning")]
    for part in filter(None, parts):
        for clause in filter(part.args.get, part.args.keys() - _CARRIED_OUT[type(part)]):
            words = f"{clause.strip('_').replace('_', ' ').upper()} in a write is"
            words, cure = _REFUSED.get(clause, (words, "Leave it out."))
            raise Unsupported(f"{words} not supported.", cure=cure)


def require_merged(ast: exp.Merge) -> None:
    """Raises Unsupported for clauses of MERGE that no plan carries out, and SqlError for an action
    that cannot follow its WHEN."""
    if ast.args.get("returning") is not None:
        raise Unsupported(
            "RETURNING of MERGE is not supported.",
            cure="Read the rows by a query in the same transaction.",
        )
    require_carried_out(ast)
    for when in ast.args["whens"].expressions:
        then, matched = when.args["then"], when.args["matched"]
        if when.args.get("source"):
            raise Unsupported(
                "WHEN NOT MATCHED BY SOURCE is not supported.",
                cure="Send DELETE or UPDATE … WHERE NOT EXISTS (…) in the same transaction.",
            )
        if isinstance(then, exp.Insert) is matched and not _does_nothing(then):
            raise SqlError(
                "WHEN MATCHED takes UPDATE, DELETE or DO NOTHING, and WHEN NOT MATCHED takes INSERT"
                " or DO NOTHING.",
                cure="Write the action behind the other WHEN.",
            )
        if isinstance(then, exp.Update) and not then.args.get("expressions"):
            raise SqlError("UPDATE of a MERGE has no SET.", cure="Write UPDATE SET column = value.")
        for part in filter(None, [then, then.this] if isinstance(then, exp.Insert) else [then]):
            known = _CARRIED_OUT.get(type(part), {"this"})
            for clause in filter(part.args.get, part.args.keys() - known):
                raise Unsupported(
                    f"{clause.upper()} of an action of MERGE is not supported.",
                    cure="Write its condition behind WHEN … AND.",
                )


def _does_nothing(then: exp.Expr) -> bool:
    return isinstance(then, exp.Var) and then.name.upper() == "DO NOTHING"


def require_truncated(ast: exp.TruncateTable) -> None:
    """Raises Unsupported for clauses of TRUNCATE that no plan carries out."""
    for clause in filter(ast.args.get, ast.args.keys() - {"expressions", "identity", "option"}):
        raise Unsupported(
            f"{clause.upper()} in TRUNCATE is not supported.", cure="Name the relations alone."
        )
