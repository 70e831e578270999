"""COMMENT ON, and COMMENT '…' of MySQL, in a file or as a statement."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.commented import Objects, objects_of
from hornbeam_server.schema.comments import Comment, Commented, Key
from hornbeam_server.schema.ddl.scan import Piece, pieces
from hornbeam_server.schema.ddl.sources import Source
from hornbeam_server.schema.ddl.spaces import Spaces
from hornbeam_server.schema.ddl.statement import Statement
from hornbeam_server.schema.drafts import Place
from hornbeam_server.schema.errors import HornbeamError, TypeMismatch, UnknownName
from hornbeam_server.schema.escaped_texts import unescaped, unistr
from hornbeam_server.schema.model import DATABASE, PUBLIC, DefaultKind, Schema, sequence_of_column
from hornbeam_server.schema.namespaces import joined, relations_by_key

_KINDS = {
    kind.upper(): kind
    for kind in Commented
    if kind not in {Commented.MATERIALIZED_VIEW, Commented.DOMAIN_CONSTRAINT}
} | {"MATERIALIZED": Commented.MATERIALIZED_VIEW}
"""The kinds by the first word behind COMMENT ON."""
_FORM = "Write COMMENT ON kind name IS 'text', or IS NULL."
_TEXTS = {TokenType.STRING, TokenType.BYTE_STRING, TokenType.HEREDOC_STRING}
_TEXTS |= {TokenType.UNICODE_STRING, TokenType.NATIONAL_STRING}


@dataclass(frozen=True, slots=True)
class CommentDraft:
    """A comment as it is written. `names` are the full names that the name may mean, in the order
    of the search path. An empty `text` takes the comment away."""

    kind: Commented
    names: tuple[str, ...]
    member: str
    text: str
    place: Place
    has_schema: bool = False
    """Is a schema written before the name?"""

    @property
    def shown(self) -> str:
        """The object, for messages."""
        name = ".".join(filter(None, (self.names[0], self.member)))
        return f"{self.kind} {name}"


def is_comment(piece: Piece) -> bool:
    """Is it COMMENT ON for a kind of objects that have comments?"""
    kind = piece.words[2:3]
    of_postgres = piece.spaces.source is Source.POSTGRES
    return of_postgres and piece.words[:2] == ("COMMENT", "ON") and bool(_KINDS.keys() & {*kind})


def read_comment(statement: Statement) -> CommentDraft:
    """Read COMMENT ON. Raises SchemaError with its place, UnknownName for a name without a schema
    when the search path has none."""
    read = _Reader(statement)
    kind = _KINDS[read.word()]
    if kind is Commented.MATERIALIZED_VIEW:
        read.expect("VIEW")
    parts, member, place = read.name(), "", read.place
    if kind is Commented.COLUMN:
        *parts, member = parts
        read.require(bool(parts))
    elif kind is Commented.CONSTRAINT:
        (member,) = parts[-1:]
        read.expect("ON")
        if read.next_is("DOMAIN") and not read.next_is("IS", 1):
            kind = Commented.DOMAIN_CONSTRAINT
            read.word()
        parts = read.name()
    read.expect("IS")
    text = read.text()
    names = _names(kind, parts, statement.spaces)
    return CommentDraft(kind, names, member, text, place, len(parts) > 1)


def _names(kind: Commented, parts: Sequence[str], spaces: Spaces) -> tuple[str, ...]:
    if kind in {Commented.SCHEMA, Commented.DATABASE}:
        return (spaces.space(parts[-1]) if kind is Commented.SCHEMA else parts[-1],)
    if len(parts) > 1 or not spaces.path:
        return (spaces.full(parts),)
    return tuple(joined(space, parts[0]) for space in spaces.path)


class _Reader:
    """The tokens behind COMMENT ON, one behind another."""

    def __init__(self, statement: Statement) -> None:
        self._statement = statement
        self._tokens = [t for t in statement.tokens if t.token_type is not TokenType.SEMICOLON]
        self._at = 2

    @property
    def place(self) -> Place:
        """The place of the token before."""
        return self._statement.place(self._tokens[self._at - 1].start)

    def require(self, fits: bool) -> None:
        if not fits:
            found = self._tokens[min(self._at, len(self._tokens) - 1)]
            place = self._statement.place(found.start)
            raise place.error(f"COMMENT ON is wrong at {found.text}.", cure=_FORM)

    def next_is(self, word: str, ahead: int = 0) -> bool:
        found = self._tokens[self._at + ahead : self._at + ahead + 1]
        return bool(found) and _is_word(found[0]) and found[0].text.upper() == word

    def word(self) -> str:
        return self._token().text.upper()

    def expect(self, word: str) -> None:
        self.require(self.next_is(word))
        self._at += 1

    def name(self) -> list[str]:
        parts = [self._part()]
        while self._at < len(self._tokens) and self._tokens[self._at].text == ".":
            self._at += 1
            parts.append(self._part())
        return parts

    def text(self) -> str:
        """The text, or "" for NULL. Behind it the statement ends."""
        if self.next_is("NULL"):
            self._at += 1
            self.require(self._at == len(self._tokens))
            return ""
        found = self._tokens[self._at :]
        escape = "\\"
        if len(found) > 1 and found[-2].text.upper() == "UESCAPE":
            escape, found = found[-1].text, found[:-2]
        self.require(bool(found) and all(token.token_type in _TEXTS for token in found))
        try:
            return "".join(_text_of(token, self._statement.text, escape) for token in found)
        except (TypeMismatch, UnicodeError):
            place = self._statement.place(found[0].start)
            raise place.error(
                "The text of the comment has a wrong escape.", cure="Write it as 'text'."
            ) from None

    def _part(self) -> str:
        token = self._token()
        quoted = token.token_type is TokenType.IDENTIFIER
        self._at -= 1
        self.require(quoted or _is_word(token))
        self._at += 1
        return token.text if quoted else token.text.lower()

    def _token(self) -> Token:
        self.require(self._at < len(self._tokens))
        self._at += 1
        return self._tokens[self._at - 1]


def _is_word(token: Token) -> bool:
    quoted = token.token_type in _TEXTS or token.token_type is TokenType.IDENTIFIER
    return not quoted and re.fullmatch(r"[^\W\d][\w$]*", token.text) is not None


def _text_of(token: Token, sql: str, escape: str) -> str:
    """The text of a string. Raises TypeMismatch and UnicodeError for wrong escapes."""
    if token.token_type is TokenType.BYTE_STRING:
        return unescaped(sql[token.start : token.end + 1].partition("'")[2].removesuffix("'"))
    if token.token_type is TokenType.UNICODE_STRING:
        if escape == "\\":
            return unistr(token.text)
        return unistr(token.text.replace("\\", "\\\\").replace(escape, "\\"))
    return token.text


def comments_of_mysql(statement: Statement, tree: exp.Expr) -> Iterator[CommentDraft]:
    """The comments that a CREATE TABLE of MySQL has behind its columns and at its end."""
    if not isinstance(tree, exp.Create) or not isinstance(tree.this, exp.Schema):
        return
    table = statement.table(tree.this.this)
    properties = tree.args.get("properties")
    for node in properties.expressions if properties is not None else ():
        if isinstance(node, exp.SchemaCommentProperty):
            yield CommentDraft(Commented.TABLE, (table.text,), "", node.this.name, table.place)
    for column in tree.this.expressions:
        for constraint in column.args.get("constraints") or ():
            kind = constraint.args.get("kind")
            if isinstance(kind, exp.CommentColumnConstraint):
                name = statement.name(column.this)
                yield CommentDraft(
                    Commented.COLUMN, (table.text,), name.text, kind.this.name, name.place
                )


def with_full_names(drafts: Sequence[CommentDraft], schema: Schema) -> tuple[CommentDraft, ...]:
    """The drafts of a file, each with the name that it has in the schema of the file, which may
    lack wrong elements."""
    known = {*schema.names, *relations_by_key(schema)}
    known |= {index.name for index in schema.indexes} | {view.name for view in schema.views}
    known |= {each.full for each in schema.enumerations} | {each.name for each in schema.domains}
    known |= {sequence.name for sequence in schema.sequences}
    known |= {
        sequence_of_column(relation.name, column.name)
        for relation in schema.relations
        for column in relation.visible
        if column.default_kind is DefaultKind.IDENTITY
    }

    def named(draft: CommentDraft) -> CommentDraft:
        name = next((each for each in draft.names if each in known), draft.names[0])
        return replace(draft, names=(name,))

    return tuple(map(named, drafts))


def as_comment(draft: CommentDraft) -> Comment:
    """The comment of a draft whose name is full."""
    return Comment(Key(draft.kind, draft.names[0], draft.member), draft.text)


def load_comment(sql: str, catalog: Catalog, path: Sequence[str] = (PUBLIC,)) -> Comment:
    """Read a COMMENT ON for an object of `catalog`, under a search path. As in PostgreSQL, one on
    another database has no effect, so that a dump may have it: the comment has no text. Raises
    SchemaError, and UnknownName and TypeMismatch for an object that is not there, or is of another
    kind."""
    spaces = Spaces.of(catalog.schema, path)
    found = list(pieces(sql, "", Source.POSTGRES))
    if len(found) != 1 or not is_comment(found[0]):
        raise Place.at(sql, 0, "").error("This is not one COMMENT ON.", cure=_FORM)
    (piece,) = found
    statement = Statement(piece.text, piece.place, Statement.of(piece).tokens, spaces)
    draft = read_comment(statement)
    if draft.kind is Commented.DATABASE and draft.names != (DATABASE,):
        return Comment(Key(draft.kind, draft.names[0]), "")
    return comment_on(draft, objects_of(catalog), catalog.schema.spaces)


_RELATIONS = {Commented.TABLE, Commented.VIEW, Commented.MATERIALIZED_VIEW}
_CLASSES = {*_RELATIONS, Commented.INDEX, Commented.SEQUENCE}
_TYPES = {Commented.TYPE, Commented.DOMAIN}
_WANTED = {
    Commented.COLUMN: _RELATIONS,
    Commented.CONSTRAINT: {Commented.TABLE},
    Commented.DOMAIN_CONSTRAINT: {Commented.DOMAIN},
    Commented.TYPE: _TYPES,
}
"""The kinds of objects that the name of a comment may mean, where it is not the comment's kind
alone. A domain is a type."""


def comment_on(draft: CommentDraft, objects: Objects, spaces: Collection[str]) -> Comment:
    """The comment of a draft on one of the objects. Raises UnknownName, TypeMismatch."""
    kinds = _TYPES if draft.kind is Commented.TYPE else {draft.kind}
    for name in draft.names:
        for kind in kinds:
            key = Key(kind, name, draft.member)
            if key in objects:
                return Comment(key, draft.text)
    raise _unknown(draft, objects, spaces)


def _unknown(draft: CommentDraft, objects: Objects, spaces: Collection[str]) -> HornbeamError:
    """The error for an object that is not there. It begins with the words by which the SQLSTATE is
    known (`pgwire/session/failures.py`)."""
    wanted = _WANTED.get(draft.kind, {draft.kind})
    name, about = draft.names[0], {"cure": "Correct the name.", "name": draft.names[0]}
    if draft.member and _found(wanted, draft.names, objects):
        if draft.kind is Commented.COLUMN:
            return UnknownName(f"Column {draft.member} of {name} is unknown.", **about)
        return UnknownName(f"There is no constraint {draft.member} of {name}.", **about)
    what = Commented.TABLE if len(wanted) == len(_RELATIONS) else min(wanted)
    if what in {Commented.SCHEMA, Commented.DATABASE}:
        return UnknownName(f"There is no {what} {name}.", **about)
    if other := _found((_TYPES if what in _TYPES else _CLASSES) - wanted, draft.names, objects):
        return TypeMismatch(
            f"Wrong kind of object: {name} is no {what}, but has the kind {other}.",
            cure=f"Write COMMENT ON {other.upper()}.",
        )
    space, dot, _ = name.partition(".")
    if dot and draft.has_schema and space not in spaces:
        return UnknownName(f"There is no schema {space}.", **about)
    if what in _TYPES:
        return UnknownName(f"There is no type {name}.", **about)
    return UnknownName(f"{what.capitalize()} {name} is unknown.", **about)


def _found(
    kinds: Collection[Commented], names: Sequence[str], objects: Objects
) -> Commented | None:
    """The kind of the first object that has one of the names and one of the kinds."""
    keys = (Key(kind, name) for name in names for kind in sorted(kinds))
    return next((key.kind for key in keys if key in objects), None)
