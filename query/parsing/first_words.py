"""The first word of a statement, by which statements are refused that are neither queries nor
writes, before the library's parser guesses at them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

from hornbeam_server.query.dialect.grammar import place
from hornbeam_server.schema.errors import SqlError, Unsupported

_TAKEN = frozenset(
    {"select", "with", "from", "values", "table", "("}
    | {"insert", "update", "delete", "merge", "truncate"}
)
_CURE = "Change the schema with the schema commands; settings are not SQL here."
_IN_CLIENT = "The Python client and hornbeam sql take it; over REST send the statement itself."
_NOTHING = "Leave it out: there is nothing to do."
_CURES = {
    "COPY": "Load files by hornbeam load, and dumps by hornbeam import; write files by hornbeam sql"
    " --csv.",
    **dict.fromkeys(("PREPARE", "EXECUTE", "DEALLOCATE", "DISCARD", "EXPLAIN"), _IN_CLIENT),
    **dict.fromkeys(("VACUUM", "ANALYZE", "CHECKPOINT", "FLUSH", "REINDEX", "CLUSTER"), _NOTHING),
    **dict.fromkeys(("ATTACH", "DETACH", "USE"), "Connect to the other database."),
    **dict.fromkeys(("DESCRIBE", "SUMMARIZE"), "Ask information_schema, or \\d in the prompt."),
    "COMMENT": "The Python client and hornbeam sql take it; so does POST /v1/schema/comment.",
    "LOCK": "Write SELECT … FOR UPDATE.",
    **dict.fromkeys(
        ("DECLARE", "FETCH", "MOVE", "CLOSE"), "Read the rows of a query as they come."
    ),
    **dict.fromkeys(("LISTEN", "NOTIFY", "UNLISTEN"), "Read the feed of changes."),
    **dict.fromkeys(("DO", "CALL"), "Write the procedure in the application."),
    **dict.fromkeys(("GRANT", "REVOKE"), "Give roles to API keys: hornbeam keys."),
}
"""What to do instead of a statement, by its first word."""
_KNOWN = frozenset(
    {"ABORT", "ALTER", "ANALYSE", "BEGIN", "COMMIT", "CREATE", "DROP", "END", "IMPORT", "REASSIGN"}
    | {"REFRESH", "RELEASE", "RESET", "ROLLBACK", "SAVEPOINT", "SECURITY", "SET", "SHOW", "START"}
    | {"EXEC", "INSTALL", "LOAD", "OPTIMIZE", "PIVOT", "PRAGMA", "RENAME", "REPLACE", "UNPIVOT"}
    | _CURES.keys()
)
"""Words that begin a statement in PostgreSQL, DuckDB, MySQL or SQL Server."""


def check_first_word(tokens: Sequence[Token], sql: str) -> None:
    """Raise Unsupported for another statement than a query or a write, and SqlError for a word that
    begins none."""
    first = next((token for token in tokens if token.token_type is not TokenType.SEMICOLON), None)
    if first is None:
        raise SqlError("There is no statement in the text.", cure="Send one statement.")
    word = first.text
    if word.lower() in _TAKEN:
        return
    if word.upper() in _KNOWN:
        raise not_a_statement(word.upper())
    raise SqlError(
        f'Syntax error at or near "{word}" ({place(first.start, sql)}).',
        cure="A statement begins with a word such as SELECT, INSERT, UPDATE, DELETE or MERGE.",
    )


def not_a_statement(what: str) -> Unsupported:
    return Unsupported(
        f"{what} does not begin a query, INSERT, UPDATE, DELETE, MERGE or TRUNCATE.",
        cure=_CURES.get(what, _CURE),
    )
