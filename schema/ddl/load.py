"""Load a DDL file, or a statement that restarts an identity column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from hornbeam_server.schema.build import ColumnDraft, Name, Place, RelationDraft, build
from hornbeam_server.schema.ddl.domains import as_table, refuse_enum
from hornbeam_server.schema.ddl.drafts import Drafts
from hornbeam_server.schema.ddl.identities import (
    apply_sequences,
    begun_at,
    read_added_identity,
    read_sequence,
    read_setval,
    restarted,
)
from hornbeam_server.schema.ddl.indexes import read_index
from hornbeam_server.schema.ddl.statement import STATEMENTS, Statement, is_silent, split_statements
from hornbeam_server.schema.ddl.tables import read_alter, read_domain, read_table
from hornbeam_server.schema.ddl.views import read_view
from hornbeam_server.schema.model import Schema
from hornbeam_server.schema.trees import unlink

_SETVAL = (["SELECT", "SETVAL", "("], ["SELECT", "PG_CATALOG", ".", "SETVAL", "("])


def load_ddl(text: str, file: str = "<ddl>") -> Schema:
    """The schema that `text` declares; forward references are allowed.

    Raises SchemaError or CircularReference with `file`, line and column (from 1).
    """
    drafts = Drafts()
    for statement in split_statements(text, file):
        if not is_silent(statement):
            _read(statement, drafts)
    apply_sequences(drafts)
    return build(list(drafts.relations.values()) + drafts.repeated, drafts.indexes, drafts.views)


@dataclass(frozen=True, slots=True)
class Restart:
    """A restart of an identity column: its next number is `at`; None: its declared first number.
    `value` is the number in the statement."""

    relation: str
    column: str
    at: int | None
    value: int | None


def load_restart(sql: str, schema: Schema, file: str = "") -> Restart:
    """Read ALTER TABLE … ALTER COLUMN … RESTART, ALTER SEQUENCE … RESTART or SELECT setval(…) for
    an identity column of `schema`. Raises SchemaError."""
    drafts = Drafts(relations=dict(_identities(schema)))
    statements = list(split_statements(sql, file))
    for statement in statements:
        _read(statement, drafts)
    if len(statements) != 1 or len(drafts.restarts) != 1:
        raise Place.at(sql, 0, file).error(
            "This does not restart one identity column.",
            cure="Write ALTER TABLE … ALTER COLUMN … RESTART WITH 42.",
        )
    (restart,) = drafts.restarts
    draft, column = restarted(restart, drafts)
    identity = schema.relation(draft.name.text).column(column).default
    assert identity is not None
    at = None if restart.at is None else begun_at(restart, identity.identity).start
    return Restart(draft.name.text, column, at, restart.at)


def _identities(schema: Schema) -> Iterator[tuple[str, RelationDraft]]:
    """Drafts of a schema's relations, sufficient for reading RESTART."""
    for relation in schema.relations:
        columns = [
            ColumnDraft(Name(column.name, Place()), column.type, column.nullable, column.default)
            for column in relation.columns
        ]
        yield relation.name, RelationDraft(Name(relation.name, Place()), columns)


def _read(statement: Statement, drafts: Drafts) -> None:
    words = [token.text.upper() for token in statement.tokens]
    if any(words[: len(call)] == call for call in _SETVAL):
        drafts.restarts.append(read_setval(statement))
        return
    if words[0] not in {"CREATE", "ALTER"}:
        statement.refuse(words[0], statement.start, STATEMENTS)
    if words[1:2] == ["SEQUENCE"]:
        read_sequence(statement, drafts)
        return
    if words[:2] == ["CREATE", "DOMAIN"]:
        statement = as_table(statement)
    tree = statement.parse()
    try:
        if words[:2] == ["CREATE", "DOMAIN"]:
            read_domain(statement, tree, drafts)
            return
        _read_tree(statement, tree, words, drafts)
    finally:
        unlink(tree)


def _read_tree(statement: Statement, tree: exp.Expr, words: Sequence[str], drafts: Drafts) -> None:
    if isinstance(tree, exp.Command):
        read_added_identity(statement, drafts)
        return
    kind = str(tree.args.get("kind") or "").upper()
    if isinstance(tree, exp.Create) and kind == "TABLE":
        draft = read_table(statement, tree, drafts)
        if drafts.relations.setdefault(draft.name.text, draft) is not draft:
            drafts.repeated.append(draft)
    elif isinstance(tree, exp.Create) and kind == "INDEX":
        drafts.indexes.append(read_index(statement, tree))
    elif isinstance(tree, exp.Create) and kind == "VIEW" and words[1] == "MATERIALIZED":
        drafts.views.append(read_view(statement, tree))
    elif isinstance(tree, exp.Alter) and kind == "TABLE":
        read_alter(statement, tree, drafts)
    elif kind == "TYPE" and isinstance(tree.expression, exp.DataType):
        refuse_enum(statement, tree)
    else:
        statement.refuse(" ".join(words[:2]), statement.start, STATEMENTS)
