"""Command tags: what a statement has done, in PostgreSQL's words (`CREATE TABLE`, `SELECT 3`). The
server gives those of writes."""

from __future__ import annotations

from itertools import islice

from hornbeam.statements import Kind, table_of_select, tokens

_DECORATIONS = {
    *("or", "replace", "unique", "temp", "temporary", "unlogged", "local", "global", "recursive"),
}
"""Words between CREATE and the kind of the object."""
_OF_CONTROL = {"start": "start transaction", "end": "commit", "abort": "rollback"}
_WORDS = 1_000
"""So many words are examined."""
_ALL = {"all", "plans", "sequences", "temp", "temporary"}


def tag_of(meaning: Kind, sql: str) -> str:
    """The command tag of a statement that neither returns nor changes rows."""
    text = sql if meaning is not Kind.DDL else table_of_select(sql) or sql
    found = islice(tokens(text), _WORDS)
    verb, *words = (token.text.lower() for token in found if token.depth == 0)
    match meaning:
        case Kind.CONTROL:
            return _OF_CONTROL.get(verb, verb).upper()
        case Kind.DDL:
            return _tag_of_change(verb, words)
        case Kind.SET if words[:1] == ["constraints"]:
            return "SET CONSTRAINTS"
        case Kind.DEALLOCATE | Kind.DISCARD:
            words = [word for word in words if word != "prepare"]
            more = words[0].replace("temporary", "temp") if words[0] in _ALL else ""
            return f"{verb} {more}".strip().upper()
        case _:
            return verb.upper().replace("ANALYSE", "ANALYZE")


def _tag_of_change(verb: str, words: list[str]) -> str:
    """The tag of a change of the schema."""
    if verb == "comment":
        return "COMMENT"
    what = next(word for word in words if word not in _DECORATIONS)
    if what == "materialized":
        what = "materialized view"
    if verb == "create" and what == "table" and "as" in words:
        what = "table as"
    return f"{'alter' if verb == 'rename' else verb} {what}".upper()
