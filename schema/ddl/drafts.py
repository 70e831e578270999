"""The declarations of a DDL file while it is read."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from sqlglot import exp

from hornbeam_server.schema.ddl.comments import CommentDraft
from hornbeam_server.schema.ddl.statement import Statement
from hornbeam_server.schema.drafts import (
    DomainDraft,
    IndexDraft,
    Name,
    Place,
    RelationDraft,
    SequenceDraft,
    ViewDraft,
)
from hornbeam_server.schema.enumerations import Enumeration
from hornbeam_server.schema.problems import Problems


class Change(enum.Enum):
    """The changes of a column that rows before it notice. `CONVERTED` has an expression for the
    new values."""

    ADDED = enum.auto()
    DROPPED = enum.auto()
    CONVERTED = enum.auto()


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """An ALTER TABLE at `place` that changes the column at `position`. Rows of the file before it
    have the columns of the table before it."""

    relation: str
    column: str
    position: int
    change: Change
    place: Place


@dataclass(slots=True)
class Drafts:
    """The declarations of a file. `repeated` holds further declarations of a name; the builder
    refuses them. `draws` maps the name of an identity column's sequence to the column, if the file
    gives it one. `restarts` are the restarts after the declarations.
    `domains` are the declared domains and enumerations, by name."""

    relations: dict[str, RelationDraft] = field(default_factory=dict)
    repeated: list[RelationDraft] = field(default_factory=list)
    indexes: list[IndexDraft] = field(default_factory=list)
    views: list[ViewDraft] = field(default_factory=list)
    sequences: dict[str, SequenceDraft] = field(default_factory=dict)
    draws: dict[str, tuple[RelationDraft, str]] = field(default_factory=dict)
    restarts: list[DraftRestart] = field(default_factory=list)
    domains: dict[str, DomainDraft] = field(default_factory=dict)
    changes: list[ColumnChange] = field(default_factory=list)
    """The columns that ALTER TABLE changes, in the order of the file."""
    routines: frozenset[str] = frozenset()
    """The functions that the file creates, which are passed over."""
    unread: set[str] = field(default_factory=set)
    """The views that are passed over."""
    computed: set[tuple[str, str]] = field(default_factory=set)
    """The computed columns that are left out, each with its relation."""
    comments: list[CommentDraft] = field(default_factory=list)
    commented_copies: list[tuple[str, str]] = field(default_factory=list)
    """The relations of LIKE … INCLUDING COMMENTS: the source, and the new relation."""
    notes: list[str] = field(default_factory=list)
    """What the file says and the schema does not."""
    problems: Problems = field(default_factory=Problems)

    @property
    def enumerations(self) -> tuple[Enumeration, ...]:
        """The declared enumerations, in their order."""
        types = (domain.column.type for domain in self.domains.values() if domain.is_enum)
        return tuple(type_.labels for type_ in types)

    @property
    def declared_domains(self) -> tuple[DomainDraft, ...]:
        return tuple(domain for domain in self.domains.values() if not domain.is_enum)

    @property
    def types(self) -> dict[str, str]:
        """The types of the declared domains, by name without a schema."""
        return {
            name.rpartition(".")[2]: domain.column.type.ddl()
            for name, domain in self.domains.items()
        }


@dataclass(frozen=True, slots=True)
class DraftRestart:
    """A restart of the column `column` of relation `owner`, or of the sequence `owner`. The next
    number is `at` (None: the declared first number), or with `called` the number after `at`."""

    owner: Name
    column: Name | None
    at: int | None
    called: bool = False


def column_position(name: Name, draft: RelationDraft) -> int:
    """The position of a column of the relation. Raises SchemaError."""
    for position, column in enumerate(draft.columns):
        if column.name.text == name.text:
            return position
    raise name.place.error(
        f"{draft.name.text} has no column {name.text}.",
        cure=f"Its columns are: {', '.join(column.name.text for column in draft.columns)}.",
        name=name.text,
    )


def altered_relation(statement: Statement, tree: exp.Expr, drafts: Drafts) -> RelationDraft:
    name = statement.table(tree.this)
    draft = drafts.relations.get(name.text)
    if draft is None:
        raise name.place.error(
            f"ALTER TABLE of {name.text}, which is not declared above.",
            cure="Put its CREATE TABLE first.",
            name=name.text,
        )
    return draft
