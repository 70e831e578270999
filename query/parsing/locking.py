"""FOR UPDATE, FOR SHARE and the like. No row is locked before the commit, which validates the rows
that a transaction has read; so the clause only asks for that (docs/transactions.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from hornbeam_server.query.dialect.functions import is_aggregate, returns_rows
from hornbeam_server.schema.errors import SqlError, Unsupported
from hornbeam_server.schema.trees import nodes_of

LOCKING = "locking"
"""The key in a tree's `meta` that says that the statement had such a clause."""
_STRENGTHS = ("update", "no key update", "share", "key share")


def without_locking(tree: exp.Expr, tokens: Sequence[Token]) -> Sequence[Token]:
    """Take the locking clauses out of `tree`. Returns the tokens without them. Raises Unsupported,
    SqlError."""
    if not any(token.token_type is TokenType.FOR for token in tokens):
        return tokens
    locked = [node for node in nodes_of(tree, exp.Query) if node.args.get("locks")]
    for node in locked:
        _check(node, tree)
        node.set("locks", None)
    if locked:
        tree.meta[LOCKING] = True
        return _without_clauses(tokens)
    return tokens


def _check(node: exp.Query, tree: exp.Expr) -> None:
    """Raises Unsupported, SqlError unless PostgreSQL allows the clauses of `node`, and they can be
    had."""
    for lock in node.args["locks"]:
        if lock.args.get("wait") is not None:
            raise Unsupported(
                f"{'NOWAIT' if lock.args['wait'] else 'SKIP LOCKED'} is not supported: no row is"
                " locked before the commit.",
                cure="Leave it out, and run the transaction again if its commit is refused.",
            )
    if not isinstance(tree, exp.Query) or tree.find(exp.Insert, exp.Update, exp.Delete, exp.Merge):
        raise Unsupported(
            "FOR UPDATE inside a statement that writes is not supported.",
            cure="Send the SELECT by itself before, or use the isolation level SERIALIZABLE.",
        )
    if (clause := _forbidding(node)) is not None:
        raise SqlError(
            f"FOR UPDATE is not allowed with {clause}, as in PostgreSQL.",
            cure="Select the rows in a subquery that has the clause.",
        )
    for derived in _derived(node):
        if (clause := _forbidding(derived)) is not None:
            raise SqlError(
                f"FOR UPDATE is not allowed with {clause} in a subquery of FROM, as in PostgreSQL.",
                cure="Name the relations whose rows are meant behind FOR UPDATE OF.",
            )
    sources = [source.alias_or_name for source in _sources(node)]
    for lock in node.args["locks"]:
        for named in lock.args.get("expressions") or ():
            if named.name not in sources:
                raise SqlError(
                    f"{named.name} in FOR UPDATE OF is not in FROM.",
                    cure="Name relations of FROM by their aliases.",
                )


def _derived(node: exp.Query) -> Iterator[exp.Query]:
    """Yield the subqueries of FROM, and those in them, to which the locking clauses extend."""
    named = [each.name for lock in node.args["locks"] for each in lock.args["expressions"] or ()]
    for source in _sources(node):
        if isinstance(source, exp.Subquery) and (not named or source.alias_or_name in named):
            yield from _nested(source.unnest())


def _nested(found: exp.Expr) -> Iterator[exp.Query]:
    """Yield a query and those in its FROM. Only joins in parentheses are no query."""
    if isinstance(found, exp.Query):
        yield found
        for source in _sources(found):
            if isinstance(source, exp.Subquery):
                yield from _nested(source.unnest())


def _forbidding(node: exp.Query) -> str | None:
    """The part of a query that excludes a locking clause."""
    if not isinstance(node, exp.Select) or isinstance(node.parent, exp.SetOperation):
        return "UNION, INTERSECT or EXCEPT"
    for part, name in (("distinct", "DISTINCT"), ("group", "GROUP BY"), ("having", "HAVING")):
        if node.args.get(part):
            return name
    for found in node.find_all(exp.Func, exp.Window):
        windowed = isinstance(found, exp.Window)
        if (windowed or is_aggregate(found)) and found.find_ancestor(exp.Query) is node:
            return "window functions" if windowed else "aggregates"
    if any(_many_rows(each) for each in node.expressions):
        return "functions that give rows"
    return None


def _many_rows(projection: exp.Expr) -> bool:
    inner = projection.unalias().unnest()
    return isinstance(inner, exp.Func) and returns_rows(inner)


def _sources(node: exp.Query) -> list[exp.Expr]:
    first = node.args.get("from_")
    joined = [join.this for join in node.args.get("joins") or ()]
    return joined if first is None else [first.this, *joined]


def _without_clauses(tokens: Sequence[Token]) -> list[Token]:
    """The tokens without locking clauses: FOR, a strength, and OF with names."""
    kept: list[Token] = []
    at = 0
    while at < len(tokens):
        end = _end(tokens, at) if tokens[at].token_type is TokenType.FOR else at
        if end == at:
            kept.append(tokens[at])
        at = max(end, at + 1)
    return kept


def _end(tokens: Sequence[Token], start: int) -> int:
    """The position behind the locking clause that begins with FOR at `start`; `start` if none
    does."""
    words = [token.text.lower() for token in tokens[start + 1 : start + 4]]
    for strength in _STRENGTHS:
        size = len(strength.split())
        if " ".join(words[:size]) == strength:
            return _behind_names(tokens, start + 1 + size)
    return start


def _behind_names(tokens: Sequence[Token], at: int) -> int:
    if at < len(tokens) and tokens[at].text.lower() == "of":
        at += 2
        while at + 1 < len(tokens) and tokens[at].token_type in {TokenType.COMMA, TokenType.DOT}:
            at += 2
    return at
