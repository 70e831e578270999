"""SQL text to one syntax tree, or a refusal: the only door through which SQL comes in.

Names are folded to lower case unless quoted. Parameters get a place in the tree that does not
depend on the order in which it is written out again: `?` number *i* (from 0) becomes DuckDB's
`$i+1`, `:name` becomes `$name`, so that `ast.sql("duckdb")` runs with the caller's own list or
mapping. Each placeholder carries its `Parameter` in `meta["parameter"]`.

`(a, b) = (c, d)` becomes `(a = c AND b = d)`, so that everybody sees the join or the filter in it.
To DuckDB rows with a NULL in the same place are equal; in SQL, and here, that is unknown.

Refused here, whatever they name: several statements in one text, statements that are neither
queries nor row changes, and functions that reach outside the database.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from query.algebra import Parameter
from schema.errors import LimitExceeded, SqlError, Unsupported

DIALECT = "duckdb"
MAX_SQL_CHARACTERS = 1_000_000
MAX_TOKENS = 100_000
"""Words, values and signs of a statement: a list of some ten thousand values is within it."""
STATEMENTS = (
    exp.Select,
    exp.SetOperation,
    exp.Subquery,
    exp.Values,
    exp.Insert,
    exp.Update,
    exp.Delete,
)
_FIRST_WORDS = frozenset(
    {"select", "with", "from", "values", "table", "insert", "update", "delete", "("}
)
TABLE_FUNCTIONS = frozenset({"range", "generate_series", "unnest"})
"""The only functions that may stand in FROM: they make rows out of their arguments alone."""

_OUTSIDE = re.compile(
    r"(read|sniff|write|from_substrait|get_substrait|http|query|pragma|duckdb|copy|load|shell"
    r"|sqlite|postgres|mysql|iceberg|delta|parquet|arrow|json_execute)_.*"
    r"|.*_(scan|attach|metadata)|glob|query|getenv|current_setting|set_config|nextval|currval"
    r"|getvariable|file_.*|checkpoint|force_checkpoint"
)
"""Functions that read files, the network, settings or the process. DuckDB also runs with
external access switched off; this list makes the refusal early and clear."""

_WAITING = frozenset({"pg_sleep", "sleep_ms"})
"""Functions that hold up a thread and compute nothing."""

_BEFORE_SLICE_OR_KEY = frozenset(
    {
        TokenType.VAR,
        TokenType.IDENTIFIER,
        TokenType.STRING,
        TokenType.NUMBER,
        TokenType.R_PAREN,
        TokenType.R_BRACKET,
        TokenType.L_BRACKET,
    }
)


def parse(sql: str) -> exp.Expr:
    """The tree of the one statement in `sql`, the caller's own. Raises SqlError, Unsupported."""
    if len(sql) > MAX_SQL_CHARACTERS:
        raise SqlError(f"the statement is longer than {MAX_SQL_CHARACTERS} characters")
    tree = _only_statement(sql)
    if not isinstance(tree, STATEMENTS):
        raise _not_a_statement(type(tree).__name__.upper())
    for node in tree.walk():
        _prepare(node, sql)
    for equality in list(tree.find_all(exp.EQ)):
        if not isinstance(equality.parent, exp.Update | exp.OnConflict):  # an assignment
            _take_apart(equality)
    return tree


def place(node: exp.Expr, sql: str) -> str:
    """Where `node` stands in `sql`, as "line L, column C" counted from 1; "" when unknown."""
    starts = [found.meta["start"] for found in node.walk() if "start" in found.meta]
    if not starts:
        return ""
    before = sql[: min(starts)]
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    return f"line {line}, column {column}"


def at(node: exp.Expr, sql: str) -> str:
    """`place` as the tail of a message."""
    where = place(node, sql)
    return f" ({where})" if where else ""


def _only_statement(sql: str) -> exp.Expr:
    dialect = sqlglot.Dialect.get_or_raise(DIALECT)
    try:
        tokens = dialect.tokenize(sql)
        _check_length(tokens)
        _check_first_word(tokens)
        trees = dialect.parser().parse(list(_number_parameters(tokens)), sql)
    except SqlglotError as error:
        raise SqlError(_readable(error)) from None
    except RecursionError:
        raise SqlError("the statement is nested too deeply") from None
    statements = [tree for tree in trees if tree is not None]
    if len(statements) > 1:
        raise Unsupported(
            f"{len(statements)} statements in one text", cure="send one statement at a time"
        )
    return statements[0]


def _readable(error: SqlglotError) -> str:
    details = getattr(error, "errors", None)
    if not details:
        return "the statement cannot be read: " + str(error).splitlines()[0]
    first = details[0]
    missing = re.search(r"missing for <class '.*\.(\w+)'>", first["description"])
    what = f"{missing[1].upper()} is incomplete" if missing else first["description"].rstrip(".")
    return (
        f"the statement cannot be read: {what}, near "
        f"{first['highlight']!r} (line {first['line']}, column {first['col']})"
    )


def _number_parameters(tokens: Sequence[Token]) -> Iterator[Token]:
    count, named = 0, False
    for i, token in enumerate(tokens):
        if token.token_type in (TokenType.PLACEHOLDER, TokenType.QDCOLON):
            count += 1
            yield _token(TokenType.PARAMETER, "$", token)
            yield _token(TokenType.NUMBER, str(count), token)
            if token.token_type is TokenType.QDCOLON:  # ?::TYPE, which other dialects read as one
                yield _token(TokenType.DCOLON, "::", token)
        elif token.token_type is TokenType.PARAMETER:
            raise Unsupported(
                f"{token.text}{_text(tokens, i + 1)} is no parameter here",
                cure="write ? or :name",
            )
        elif _starts_named(tokens, i):
            named = True
            yield _token(TokenType.PARAMETER, "$", token)
        else:
            yield token
    if count and named:
        raise Unsupported("? and :name in one statement", cure="use one of the two")


def _starts_named(tokens: Sequence[Token], i: int) -> bool:
    """Is token `i` the colon of `:name`, not that of a slice, a struct or a cast?"""
    token = tokens[i]
    return (
        token.token_type is TokenType.COLON
        and _text(tokens, i + 1).isidentifier()
        and tokens[i + 1].start == token.end + 1
        and not (i and tokens[i - 1].token_type in _BEFORE_SLICE_OR_KEY)
    )


def _text(tokens: Sequence[Token], i: int) -> str:
    return tokens[i].text if i < len(tokens) else ""


def _token(kind: TokenType, text: str, like: Token) -> Token:
    return Token(kind, text, like.line, like.col, like.start, like.end, [])


def _check_length(tokens: Sequence[Token]) -> None:
    """Raises LimitExceeded: reading a token takes some 30 µs, and memory."""
    if len(tokens) > MAX_TOKENS:
        raise LimitExceeded(
            f"the statement has more than {MAX_TOKENS} words, values and signs",
            cure="send less at a time, or values as parameters",
        )


def _check_first_word(tokens: Sequence[Token]) -> None:
    """Refuse by the first word what is no query or write, before the parser guesses at it."""
    words = [token.text for token in tokens if token.token_type is not TokenType.SEMICOLON]
    if not words:
        raise SqlError("there is no statement in the text")
    if words[0].lower() not in _FIRST_WORDS:
        raise _not_a_statement(words[0].upper())


def _not_a_statement(what: str) -> Unsupported:
    return Unsupported(
        f"{what} does not begin a query, INSERT, UPDATE or DELETE",
        cure="change the schema with the schema commands; settings are not SQL here",
    )


def _prepare(node: exp.Expr, sql: str) -> None:
    if isinstance(node, exp.Identifier):
        if not node.args.get("quoted"):
            node.set("this", node.name.lower())
    elif isinstance(node, exp.Placeholder):
        name = node.name
        node.meta["parameter"] = Parameter(int(name) - 1 if name.isdigit() else name)
    elif isinstance(node, exp.Columns):
        raise Unsupported(f"COLUMNS(…) is not supported{at(node, sql)}", cure="name the columns")
    elif isinstance(node, exp.Into):
        raise Unsupported(f"INTO is not supported{at(node, sql)}", cure="write INSERT … SELECT")
    elif isinstance(node, exp.Func):
        _check_function(node, sql)


def _take_apart(equality: exp.Expr) -> None:
    """Equality of rows of as many values becomes that of each value."""
    left, right = equality.this.unnest(), equality.expression.unnest()
    rows = isinstance(left, exp.Tuple) and isinstance(right, exp.Tuple)
    if not rows or len(left.expressions) != len(right.expressions):
        return
    cells = zip(map(_cell, left.expressions), map(_cell, right.expressions), strict=True)
    each: list[exp.Expr] = [exp.EQ(this=a, expression=b) for a, b in cells]
    together = functools.reduce(lambda a, b: exp.And(this=a, expression=b), each)
    equality.replace(exp.Paren(this=together))
    for one in each:
        if isinstance(one.this, exp.Tuple):
            _take_apart(one)


def _cell(value: exp.Expr) -> exp.Expr:
    plain = isinstance(value, exp.Column | exp.Literal | exp.Placeholder | exp.Tuple)
    return value if plain else exp.Paren(this=value)


def function_name(node: exp.Func) -> str:
    """The function's name as SQL has it, lower case."""
    name = node.name if isinstance(node, exp.Anonymous) else node.sql_name()
    return name.lower()


def _check_function(node: exp.Func, sql: str) -> None:
    name = function_name(node)
    if _OUTSIDE.fullmatch(name):
        raise Unsupported(
            f"function {name} reaches outside the database{at(node, sql)}",
            cure="load the data into a relation first",
        )
    if name in _WAITING:
        raise Unsupported(f"function {name} only waits{at(node, sql)}", cure="wait in the client")
