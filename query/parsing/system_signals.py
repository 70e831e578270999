"""pg_cancel_backend and pg_terminate_backend: a column of the outermost SELECT, whose value says
which session to end. The server of PostgreSQL's protocol ends it when it takes the row
(`pgwire/session/signals.py`), so that the evaluation of a query has no effect."""

from __future__ import annotations

import re

from sqlglot import exp

from hornbeam_server.query.parsing.system_lookups import written
from hornbeam_server.schema.errors import SqlError, Unsupported
from hornbeam_server.schema.trees import supersede

SIGNALS = frozenset({"pg_cancel_backend", "pg_terminate_backend"})
SIGNAL = "signal"
"""Key in the meta of the value of a column that says which session to end: the function."""
_MENTIONS = re.compile(r"\bpg_(?:cancel|terminate)_backend\b", re.IGNORECASE)


def mentions_signals(sql: str) -> bool:
    """May the statement end sessions? False only if it does not."""
    return _MENTIONS.search(sql) is not None


def replace_signal(node: exp.Anonymous) -> None:
    """Let a call be the text of its arguments, with a blank between them, and mark it. Raises
    Unsupported for a call that is no column of the outermost SELECT."""
    name, given = node.name.lower(), node.expressions
    if len(given) not in ({1} if name == "pg_cancel_backend" else {1, 2}):
        raise SqlError(f"Function {name} takes the number of a session.")
    if not _is_shown(node):
        raise Unsupported(
            f"Function {name} is a column of the outermost SELECT, without DISTINCT.",
            cure=f"Write SELECT {name}(pid) FROM pg_stat_activity WHERE …",
        )
    sql = "CAST(CAST(a AS INTEGER) AS TEXT)"
    if len(given) > 1:
        sql += " || ' ' || CAST(CAST(b AS BIGINT) AS TEXT)"
    value = exp.cast(written(sql, *given), exp.DType.TEXT)
    value.meta[SIGNAL] = name
    supersede(node, value)


def refuse_signals(tree: exp.Expr) -> None:
    """Raises Unsupported for the SELECT of a view that would end sessions."""
    if any(SIGNAL in node.meta for node in tree.walk()):
        raise Unsupported("A view cannot end sessions.", cure="Call the function in a query.")


def _is_shown(node: exp.Expr) -> bool:
    shown = node.parent if isinstance(node.parent, exp.Alias) else node
    select = shown.parent
    return (
        isinstance(select, exp.Select)
        and shown.arg_key == "expressions"
        and select.parent is None
        and not select.args.get("distinct")
    )
