"""SELECT setval(…) with expressions: the statement with their values.

SELECT setval(pg_get_serial_sequence('item', 'i_id'), max(i_id)) FROM item
SELECT setval('item_i_id_seq', 1000, true)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from sqlglot.tokenizer_core import Token, TokenType

from hornbeam_server.query.parsing.parse import parse
from hornbeam_server.query.parsing.sequence_calls import sequence_named
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.counters import Counter
from hornbeam_server.schema.ddl.sources import Source
from hornbeam_server.schema.drafts import Place
from hornbeam_server.schema.errors import SqlError
from hornbeam_server.schema.sequences import argument_of
from hornbeam_server.schema.sqltext import tokenize
from hornbeam_server.schema.trees import unlink
from hornbeam_server.schema.types import Row
from hornbeam_server.txlayer.statements.requests import Parameters

Fetch = Callable[[str, Parameters], Awaitable[list[Row]]]
_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET}
_PLAIN = {TokenType.STRING, TokenType.NUMBER, TokenType.DASH, TokenType.TRUE, TokenType.FALSE}
"""The tokens of arguments that `load_restart` reads."""


async def with_numbers(
    sql: str, parameters: Parameters, catalog: Catalog, fetch: Fetch
) -> str | None:
    """The statement with numbers in the place of the arguments of setval; None if one is NULL.
    Other statements stay as they are. `fetch` runs a query. Raises SqlError and its subclasses."""
    tokens = tokenize(Source.POSTGRES.dialect, sql, Place.at(sql, 0, ""))
    words = [token.text.upper() for token in tokens]
    if words[:1] != ["SELECT"] or "SETVAL" not in words[1:4]:
        return sql
    arguments, end = _arguments(tokens, words.index("SETVAL") + 1)
    if (cast := _cast_of_name(arguments)) is not None:  # a name alone is found along the path
        return await with_numbers(sql[: cast[0]] + sql[cast[1] :], parameters, catalog, fetch)
    if all(len(each) <= 2 and {t.token_type for t in each} <= _PLAIN for each in arguments):
        return sql
    if len(arguments) not in {2, 3}:
        raise SqlError(
            f"setval with {len(arguments)} arguments.",
            cure="Write SELECT setval('sequence', number[, is_called]).",
        )
    texts = [sql[each[0].start : each[-1].end + 1] for each in arguments]
    name, number, called = (*texts, "true")[:3]
    counter = _counter(name, catalog)
    others = _behind(sql, tokens[end:])
    rows = await fetch(f"SELECT ({number})::bigint, ({called})::boolean {others}", parameters)
    if len(rows) != 1:
        raise SqlError(f"setval for {len(rows)} rows.", cure="Select one row.")
    ((at, is_called),) = rows
    if at is None or is_called is None:
        return None
    word = "true" if is_called else "false"
    return f"SELECT setval({argument_of(counter.sequence)}, {at!r}, {word})"


def _cast_of_name(arguments: Sequence[Sequence[Token]]) -> tuple[int, int] | None:
    """The place of `::regclass` behind the literal that is the first argument; None without it."""
    if not arguments or len(arguments[0]) < 3:
        return None
    name, colons, *_, type_ = arguments[0]
    cast = (name.token_type, colons.token_type) == (TokenType.STRING, TokenType.DCOLON)
    return (colons.start, type_.end + 1) if cast and type_.text.lower() == "regclass" else None


def _arguments(tokens: Sequence[Token], opening: int) -> tuple[list[list[Token]], int]:
    """The arguments of the call whose parenthesis is at `opening`, and the position behind it."""
    found: list[list[Token]] = [[]]
    depth = 0
    for i, token in enumerate(tokens[opening:], opening):
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        if not depth:
            return [each for each in found if each], i + 1
        if depth == 1 and token.token_type is TokenType.COMMA:
            found.append([])
        elif depth > 1 or i > opening:
            found[-1].append(token)
    raise SqlError("The parenthesis of setval is not closed.", cure="Close it.")


def _behind(sql: str, tokens: Sequence[Token]) -> str:
    """The text from FROM on, without the name of the column."""
    words = [token.text.upper() for token in tokens]
    at = words.index("FROM") if "FROM" in words[:3] else len(words)
    ends = [token for token in tokens[at:] if token.token_type is not TokenType.SEMICOLON]
    return sql[ends[0].start : ends[-1].end + 1] if ends else ""


def _counter(name: str, catalog: Catalog) -> Counter:
    tree = parse(f"SELECT nextval({name})", sequences=True)
    try:
        return sequence_named(tree.expressions[0].unalias().expressions[0], catalog)
    finally:
        unlink(tree)
