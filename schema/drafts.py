"""What a reader of DDL found, with its places in the text, before it is checked (`build.py`)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hornbeam_server.schema.errors import SchemaError
from hornbeam_server.schema.model import (
    Action,
    DeclaredSequence,
    DeclaredView,
    Default,
    DomainCheck,
    Refresh,
)
from hornbeam_server.schema.types import ColumnType

_CALL = re.compile(r"(\w+)\((?:[^()]|\([^()]*\))*\)")
"""A call of a function, with parentheses in its arguments."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a source file; `line` and `column` count from 1, 0 means unknown."""

    file: str = ""
    line: int = 0
    column: int = 0

    @classmethod
    def at(cls, text: str, offset: int, file: str) -> Place:
        """The place of the character at `offset` of `text`, the content of `file`."""
        return cls(file, 1, 1).behind(text, offset)

    def behind(self, text: str, offset: int) -> Place:
        """The place of the character at `offset` of `text`, which begins at this place."""
        lines = text.count("\n", 0, offset)
        column = offset - text.rfind("\n", 0, offset) if lines else self.column + offset
        return Place(self.file, self.line + lines, column)

    def error(self, message: str, *, cure: str, **details: Any) -> SchemaError:
        return SchemaError(
            message, cure=cure, file=self.file, line=self.line, column=self.column, **details
        )


@dataclass(frozen=True, slots=True)
class Name:
    """A name as it will be stored, and its place."""

    text: str
    place: Place


@dataclass(frozen=True, slots=True)
class ColumnDraft:
    name: Name
    type: ColumnType
    nullable: bool = True
    default: Default | None = None
    note: str = ""
    """The difference from the declared type, as text; empty if there is none."""
    expression: Expression | None = None
    """The expression of the default or of the generated column, if it has one."""
    domain: DomainDraft | None = None
    """Its domain. NOT NULL and the default are those that the column declares itself."""
    has_default: bool = False
    """The column of a domain declares a default, which may be NULL."""
    domain_checks: tuple[CheckDraft, ...] = ()
    """The CHECKs that it has from its domain."""

    @property
    def expressions(self) -> list[Expression]:
        """The expressions of its default and of that of its domain, if they have some."""
        columns = [self] if self.domain is None else [self, self.domain.column]
        return [each.expression for each in columns if each.expression is not None]


@dataclass(frozen=True, slots=True)
class ForeignKeyDraft:
    """Without `parent_columns` it references the primary key. A `name` of None is generated."""

    name: Name | None
    columns: tuple[Name, ...]
    parent: Name
    parent_columns: tuple[Name, ...] = ()
    on_delete: Action = Action.RESTRICT
    on_update: Action = Action.RESTRICT


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression over the columns of a relation. The binder of queries checks it, not this
    package. `sql` is its text in one line, without comments; `words` are its words that may be
    names of columns."""

    sql: str
    words: tuple[str, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class KeyDraft:
    """A PRIMARY KEY. If `name` is None, it has the name that PostgreSQL gives it."""

    name: Name | None
    columns: tuple[Name, ...]


@dataclass(frozen=True, slots=True)
class CheckDraft:
    """A CHECK. If `name` is None, one is generated. `origin`: a column has it from its domain."""

    name: Name | None
    expression: Expression
    origin: DomainCheck | None = None


@dataclass(frozen=True, slots=True)
class DomainDraft:
    """A domain, as a column with the name VALUE and the domain's own CHECKs, which have names.
    `is_enum`: it stands for an enumeration, which is the type of the column."""

    name: Name
    column: ColumnDraft
    checks: tuple[CheckDraft, ...] = ()
    is_enum: bool = False

    @property
    def all_checks(self) -> tuple[CheckDraft, ...]:
        """The CHECKs of the domain of its values, and its own."""
        above = self.column.domain
        return self.checks if above is None else (*above.all_checks, *self.checks)


@dataclass(frozen=True, slots=True)
class IndexDraft:
    """An index or a UNIQUE constraint; `columns`, which may be expressions, have a direction (True
    is descending)."""

    name: Name | None
    relation: Name
    columns: tuple[tuple[Name | Expression, bool], ...]
    include: tuple[Name, ...] = ()
    unique: bool = False
    where: Expression | None = None
    nulls_distinct: bool = True

    @property
    def names(self) -> list[Name]:
        """The columns, without the expressions."""
        return [part for part, _ in self.columns if isinstance(part, Name)]

    def reads(self, column: str) -> bool:
        """Does the index have a column, or read it in an expression or in its condition?"""
        named = (each.text for each in (*self.names, *self.include))
        return column in named or any(column in each.words for each in self.expressions)

    @property
    def expressions(self) -> list[Expression]:
        """The expressions among the columns, and the condition."""
        found = [part for part, _ in self.columns if isinstance(part, Expression)]
        return found if self.where is None else [*found, self.where]

    @property
    def labels(self) -> list[str]:
        """The words for the parts in a name that is made for the index, as in PostgreSQL."""
        return [p.text if isinstance(p, Name) else _label(p.sql) for p, _ in self.columns]


@dataclass(frozen=True, slots=True)
class ViewDraft:
    """A declared view with its place; `view` has the same name."""

    name: Name
    view: DeclaredView

    def require_followed(self, views: Sequence[ViewDraft]) -> None:
        """Raises SchemaError if the view is live, and the nodes leave its group to Spark because
        one of `views` is recomputed. All views of a group have their batches together."""
        if self.view.refresh is not Refresh.LIVE:
            return
        for other in views:
            if (other.view.refresh, other.view.group) == (Refresh.RECOMPUTE, self.view.group):
                raise self.name.place.error(
                    f"View {self.name.text} is live, and its group {self.view.group} has"
                    f" {other.name.text}, which is recomputed.",
                    cure="Give one of them another group.",
                    name=self.name.text,
                )


@dataclass(frozen=True, slots=True)
class SequenceDraft:
    """A declared sequence with its place; `sequence` has the same name."""

    name: Name
    sequence: DeclaredSequence


@dataclass(slots=True)
class RelationDraft:
    """A relation while it is read; `primary_keys` holds every primary key declaration."""

    name: Name
    columns: list[ColumnDraft] = field(default_factory=list)
    primary_keys: list[KeyDraft] = field(default_factory=list)
    foreign_keys: list[ForeignKeyDraft] = field(default_factory=list)
    checks: list[CheckDraft] = field(default_factory=list)

    @property
    def all_checks(self) -> list[CheckDraft]:
        """The CHECKs, also those that columns have from their domains."""
        return [*self.checks, *(each for c in self.columns for each in c.domain_checks)]


def _label(sql: str) -> str:
    """The name of the function that an expression calls; "expr" for other expressions."""
    called = _CALL.fullmatch(sql)
    return "expr" if called is None else called[1].lower()
