"""Comments on objects of the schema, as COMMENT ON sets them.

A comment is a text for display. It changes no row and no statement. It belongs to the object that
has the kind and the full name, and not to its definition: `commented.py` says which objects a
catalog has, and which comments stay when the catalog changes.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from hornbeam_server.schema.identifiers import identifier
from hornbeam_server.schema.model import DATABASE, PUBLIC
from hornbeam_server.schema.render import spelled, spelled_type
from hornbeam_server.schema.sqltext import literal_sql


class Commented(enum.StrEnum):
    """The kinds of objects that have comments."""

    TABLE = "table"
    VIEW = "view"
    MATERIALIZED_VIEW = "materialized view"
    COLUMN = "column"
    INDEX = "index"
    SEQUENCE = "sequence"
    TYPE = "type"
    DOMAIN = "domain"
    SCHEMA = "schema"
    DATABASE = "database"
    CONSTRAINT = "constraint"
    DOMAIN_CONSTRAINT = "constraint of domain"


@dataclass(frozen=True, slots=True)
class Key:
    """An object: its kind and its full name (`namespaces.py`). Columns and constraints have the
    name of their relation, view or domain, and their own name as `member`."""

    kind: Commented
    name: str
    member: str = ""


DATABASE_KEY = Key(Commented.DATABASE, DATABASE)


@dataclass(frozen=True, slots=True)
class Comment:
    """The comment of an object. Without a `text`, the object has none: a catalog does not keep such
    a comment, and COMMENT ON … IS NULL is one."""

    on: Key
    text: str


def with_comments(comments: Iterable[Comment], changed: Iterable[Comment]) -> tuple[Comment, ...]:
    """`comments`, in the order of their objects, after `changed` are set."""
    found = {comment.on: comment for comment in (*comments, *changed)}
    kept = (comment for comment in found.values() if comment.text)
    return tuple(sorted(kept, key=lambda each: (each.on.kind, each.on.name, each.on.member)))


def moved_comments(
    comments: Iterable[Comment], keys: Iterable[tuple[Key, Key]]
) -> tuple[Comment, ...]:
    """`comments`, of which those on the first key of a pair are on the second key."""
    moved = dict(keys)
    return with_comments((), (replace(c, on=moved.get(c.on, c.on)) for c in comments))


def render_comments(comments: Iterable[Comment], spaces: Collection[str]) -> str:
    """COMMENT ON for all comments, each in a line. `spaces` are the schemas besides `public`."""
    return "".join(f"{render_comment(comment, spaces)};\n" for comment in comments)


def render_comment(comment: Comment, spaces: Collection[str]) -> str:
    """COMMENT ON … IS 'text', or IS NULL."""
    on, text = comment.on, literal_sql(comment.text) if comment.text else "NULL"
    return f"COMMENT ON {_head(on, spaces)} IS {text}"


def _head(on: Key, spaces: Collection[str]) -> str:
    name = spelled(on.name, spaces)
    match on.kind:
        case Commented.COLUMN:
            return f"COLUMN {_qualified(on.name, spaces)}.{identifier(on.member)}"
        case Commented.CONSTRAINT:
            return f"CONSTRAINT {identifier(on.member)} ON {name}"
        case Commented.DOMAIN_CONSTRAINT:
            domain = spelled_type(on.name, spaces)
            return f"CONSTRAINT {identifier(on.member)} ON DOMAIN {domain}"
        case Commented.TYPE | Commented.DOMAIN:
            return f"{on.kind.upper()} {spelled_type(on.name, spaces)}"
        case Commented.SCHEMA | Commented.DATABASE:
            return f"{on.kind.upper()} {identifier(on.name)}"
        case kind:
            return f"{kind.upper()} {name}"


def _qualified(relation: str, spaces: Collection[str]) -> str:
    """A relation before a column. A relation of `public` that has the name of a schema needs its
    own schema: of three parts the first would be that schema."""
    name = spelled(relation, spaces)
    return f"{PUBLIC}.{name}" if relation in spaces else name
