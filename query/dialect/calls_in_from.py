"""Functions in FROM that DuckDB knows only as values, and records without an alias.

In PostgreSQL any function may stand in FROM: one that gives a value gives one row. It becomes a
LATERAL query of the call, whose column has the name of the alias, or else of the function.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from hornbeam_server.query.dialect.functions import function_name, is_aggregate
from hornbeam_server.query.dialect.grammar import text_at, token_like
from hornbeam_server.query.dialect.jsonb_rows import POPULATING, RECORDS, gives_rows
from hornbeam_server.query.dialect.listed_rows import ORDINALITY, lateral, named
from hornbeam_server.schema.errors import SqlError

TABLE_FUNCTIONS = frozenset({"range", "generate_series", "unnest"})
"""The functions that DuckDB has in FROM: they compute rows from their arguments alone."""
_SUBSCRIPTS = "generate_subscripts"


def is_call_in_from(node: exp.Expr) -> bool:
    """Is the node an item of FROM that calls a function which DuckDB knows as a value?"""
    call = node.this if isinstance(node, exp.Table | exp.Lateral) else None
    if not isinstance(call, exp.Func) or isinstance(call, exp.UDTF) or is_aggregate(call):
        return False
    if isinstance(node, exp.Table) and node.db:
        return False  # a function of a schema, which binding refuses by its whole name
    known = {*TABLE_FUNCTIONS, *RECORDS, *POPULATING}
    return function_name(call) not in known and not gives_rows(call)


def call_in_from(node: exp.Expr) -> exp.Expr:
    """The item of FROM, for which `is_call_in_from` holds, as a query. Raises SqlError."""
    call, alias = node.this, node.args.get("alias")
    name = node.alias or function_name(call)
    names, cells = [name], [call.copy()]
    if node.args.get("ordinality"):
        names.append(ORDINALITY)
        place = call.copy() if function_name(call) == _SUBSCRIPTS else exp.Literal.number(1)
        cells.append(exp.cast(place, exp.DType.BIGINT, copy=False))
    given = alias.columns if alias else []
    if any(isinstance(each, exp.ColumnDef) for each in given):
        raise SqlError(
            f"{function_name(call)} in FROM has columns without a declared type.",
            cure="Give each column a name alone.",
        )
    select = named(cells, [each.name for each in given], names)
    return lateral(select, name, scalar=len(names) == 1)


def with_names_of_records(tokens: Sequence[Token]) -> Sequence[Token]:
    """The tokens with the function's name as the alias of `jsonb_to_record(…) AS (a INTEGER)`."""
    if TokenType.ALIAS not in {token.token_type for token in tokens}:
        return tokens
    found: list[Token] = []
    opened: list[int] = []
    closed: dict[int, int] = {}
    for i, token in enumerate(tokens):
        found.append(token)
        if token.token_type is TokenType.L_PAREN:
            opened.append(i)
        elif token.token_type is TokenType.R_PAREN and opened:
            closed[i] = opened.pop()
        elif token.token_type is TokenType.ALIAS and i - 1 in closed:
            named = tokens[max(closed[i - 1] - 1, 0)]
            if named.text.lower() in RECORDS and text_at(tokens, i + 1) == "(":
                found.append(token_like(TokenType.VAR, named.text, token))
    return found
