"""CREATE TABLE and ALTER TABLE: columns and constraints."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import NoReturn

from sqlglot import exp

from hornbeam_server.schema.ddl.copied_tables import read_like
from hornbeam_server.schema.ddl.domains import (
    domain_of,
    enumerated,
    in_domain,
    is_inline_enum,
    with_default_of_domain,
    with_names,
)
from hornbeam_server.schema.ddl.drafts import Drafts
from hornbeam_server.schema.ddl.expressions import UNNAMED
from hornbeam_server.schema.ddl.foreign_types import is_kept_as_text, is_zero_date, known_type
from hornbeam_server.schema.ddl.identities import check_single_default
from hornbeam_server.schema.ddl.roles import calls
from hornbeam_server.schema.ddl.sources import Source
from hornbeam_server.schema.ddl.statement import Statement
from hornbeam_server.schema.drafts import (
    CheckDraft,
    ColumnDraft,
    DomainDraft,
    ForeignKeyDraft,
    IndexDraft,
    KeyDraft,
    Name,
    RelationDraft,
)
from hornbeam_server.schema.model import Action, Default, DefaultKind, Identity
from hornbeam_server.schema.sqltext import is_serial, read_default, read_type, substitute, type_note
from hornbeam_server.schema.types import ColumnType, Kind

_REFUSED: dict[type[exp.Expr | exp.ColumnConstraintKind], tuple[str, str]] = {
    exp.ExcludeColumnConstraint: ("EXCLUDE", "Use UNIQUE, or check in the application."),
    exp.CommentColumnConstraint: ("COMMENT", "Write a -- comment."),
}
_ACTIONS = {"NO ACTION": Action.RESTRICT, **{action.value.upper(): action for action in Action}}
_NO_EFFECT = {
    "MATCH SIMPLE",
    "DEFERRABLE",
    "NOT DEFERRABLE",
    "INITIALLY DEFERRED",
    "INITIALLY IMMEDIATE",
}


def read_table(statement: Statement, tree: exp.Create, drafts: Drafts) -> RelationDraft:
    if not isinstance(tree.this, exp.Schema):
        statement.refuse("CREATE TABLE without columns", statement.start, "Declare the columns.")
    cure = "Declare a plain table: CREATE TABLE name (columns and constraints)."
    if tree.args.get("properties"):
        token = statement.outside_columns()
        statement.refuse(token.text.upper(), token.start, cure)
    statement.only(tree, {"this", "kind", "exists"}, cure, statement.start)
    draft = RelationDraft(statement.table(tree.this.this))
    for element in tree.this.expressions:
        copies = isinstance(element, exp.LikeProperty)
        with drafts.problems.collect((draft.name.text, ""), spoils=copies):
            if isinstance(element, exp.ColumnDef | exp.Identifier):
                read_column(statement, element, draft, drafts)
            elif isinstance(element, exp.LikeProperty):
                read_like(statement, element, draft, drafts)
            else:
                read_constraint(statement, element, draft, drafts)
    return draft


def read_column(
    statement: Statement, node: exp.ColumnDef | exp.Identifier, draft: RelationDraft, drafts: Drafts
) -> None:
    """Read a column with its constraints, in CREATE TABLE or ALTER TABLE."""
    name = statement.name(node.this if isinstance(node, exp.ColumnDef) else node)
    subject = (draft.name.text, name.text)
    written = node.args.get("kind")
    column, domain = ColumnDraft(name, ColumnType(Kind.TEXT)), None
    if isinstance(written, exp.DataType):
        column = replace(column, type=substitute(written))
        start = statement.offset(node.this)
        quoted = statement.quoted_behind(start)
        if is_inline_enum(written):
            domain = _inline_enum(statement, written, name, draft, drafts)
        else:
            domain = domain_of(statement, written, drafts.domains, quoted)
    with drafts.problems.collect(subject, spoils=True):
        column = _typed(statement, node, name, domain)
    constraints = node.args.get("constraints") or ()
    for constraint in constraints:
        with drafts.problems.collect(subject, about=[subject]):
            column = _column_constraint(statement, constraint, column, draft, drafts)
    kinds = [each.kind for each in constraints if isinstance(each, exp.ColumnConstraint)]
    own = any(isinstance(kind, exp.DefaultColumnConstraint) for kind in kinds)
    column = replace(column, has_default=own and column.domain is not None)
    draft.columns.append(column)


def _inline_enum(
    statement: Statement, kind: exp.DataType, column: Name, draft: RelationDraft, drafts: Drafts
) -> DomainDraft:
    """Declare the ENUM of a column of MySQL, as the type table_column."""
    own = f"{statement.spaces.parted(draft.name.text)[1]}_{column.text}"
    name = statement.beside(draft.name, Name(own, column.place))
    domain = enumerated(name, kind.expressions, statement.spaces)
    _declare(domain, drafts)
    return domain


def _typed(
    statement: Statement,
    node: exp.ColumnDef | exp.Identifier,
    name: Name,
    domain: DomainDraft | None,
) -> ColumnDraft:
    """The column without its constraints."""
    kind = node.args.get("kind")
    if not isinstance(kind, exp.DataType):
        raise name.place.error(
            f"Column {name.text} has no type.", cure="Give it one, such as INTEGER.", name=name.text
        )
    start = statement.offset(node.this)
    statement.only(node, {"this", "kind", "constraints"}, "Leave it out.", start)
    if domain is not None:
        return in_domain(ColumnDraft(name, domain.column.type, note=domain.column.note), domain)
    kind, note = known_type(kind, statement.source)
    type_ = read_type(kind, statement.behind(start))
    column = ColumnDraft(name, type_, note=note or type_note(kind))
    if is_serial(kind):
        return replace(column, nullable=False, default=Default(DefaultKind.IDENTITY))
    return column


def read_domain(statement: Statement, tree: exp.Expr, drafts: Drafts) -> None:
    """Read CREATE DOMAIN, written as CREATE TABLE with one column (`domains.as_table`)."""
    if not isinstance(tree, exp.Create) or len(tree.this.expressions) != 1:
        raise statement.place(statement.start).error(
            "This CREATE DOMAIN is not understood.", cure="Correct its syntax.", name="DOMAIN"
        )
    (node,) = tree.this.expressions
    draft = RelationDraft(statement.table(tree.this.this))
    name, found = draft.name, Drafts(domains=drafts.domains, problems=drafts.problems)
    read_column(statement, node, draft, found)
    (column,) = draft.columns
    default = column.default.kind if column.default is not None else None
    others = (draft.primary_keys, draft.foreign_keys, found.indexes, found.draws)
    if any(others) or default in {DefaultKind.IDENTITY, DefaultKind.GENERATED}:
        raise name.place.error(
            f"Domain {name.text} has a constraint that only columns have.",
            cure="Declare a type with NOT NULL, DEFAULT and CHECK.",
            name=name.text,
        )
    column = with_default_of_domain(column)
    checks = with_names(draft.checks, name, statement.spaces.parted(name.text)[1])
    _declare(DomainDraft(name, column, tuple(checks)), drafts)


def read_enum(statement: Statement, tree: exp.Expr, drafts: Drafts) -> None:
    """Read CREATE TYPE … AS ENUM."""
    assert isinstance(tree, exp.Create)
    name = statement.table(tree.this)
    _declare(enumerated(name, tree.expression.expressions, statement.spaces), drafts)


def _declare(domain: DomainDraft, drafts: Drafts) -> None:
    name = domain.name
    if drafts.domains.setdefault(name.text, domain) is not domain:
        raise name.place.error(
            f"{'Type' if domain.is_enum else 'Domain'} {name.text} is declared twice.",
            cure="Drop or rename one.",
            name=name.text,
        )


def _column_constraint(
    statement: Statement,
    node: exp.Expr,
    column: ColumnDraft,
    draft: RelationDraft,
    drafts: Drafts,
) -> ColumnDraft:
    """Apply one inline constraint and return the changed column."""
    name = column.name
    start = statement.offset(node.parent.this) if node.parent else statement.start
    kind = node.kind if isinstance(node, exp.ColumnConstraint) else node
    match kind:
        case exp.PrimaryKeyColumnConstraint():
            label = statement.name(node.this) if kind is not node and node.this else None
            draft.primary_keys.append(KeyDraft(label, (name,)))
            statement.only(kind, {"include"}, "Write PRIMARY KEY alone.", start)
            statement.included(kind, "Write PRIMARY KEY alone.", start)
        case exp.UniqueColumnConstraint():
            statement.only(kind, {"include", "nulls"}, "Write UNIQUE alone.", start)
            include = statement.included(kind, "Write UNIQUE alone.", start)
            label = statement.name(node.this) if node.this else None
            drafts.indexes.append(_unique(statement, label, draft, (name,), include, kind))
        case exp.Reference():
            label = statement.name(node.this) if node.this else None
            draft.foreign_keys.append(_foreign_key(statement, label, (name,), kind))
        case exp.CollateColumnConstraint():
            statement.require_collation(kind)
        case exp.CheckColumnConstraint():
            label = statement.name(node.this) if kind is not node and node.this else None
            _add_check(statement, CheckDraft(label, statement.expression(kind.this)), draft, drafts)
        case exp.NotNullColumnConstraint():
            nullable = bool(kind.args.get("allow_null"))
            return replace(column, nullable=nullable)
        case exp.GeneratedAsIdentityColumnConstraint() if statement.source is Source.SQLSERVER:
            check_single_default(column)
            first, step = (
                _seed(statement, kind.args.get(part), start) for part in ("start", "increment")
            )
            seeded = Default(DefaultKind.IDENTITY, identity=Identity(first, step))
            return replace(column, nullable=False, default=seeded)
        case exp.GeneratedAsIdentityColumnConstraint() | exp.AutoIncrementColumnConstraint():
            cure = "Write GENERATED BY DEFAULT AS IDENTITY."
            statement.only(kind, {"this"}, cure, statement.keyword("IDENTITY", start))
            check_single_default(column)
            options = statement.options_behind(start)
            if options.name:
                drafts.draws[statement.spaces.beside(draft.name.text, options.name)] = (
                    draft,
                    name.text,
                )
            identity = options.identity(always=kind.args.get("this") is True)
            numbers = Default(DefaultKind.IDENTITY, identity=identity)
            return replace(column, nullable=False, default=numbers)
        case exp.ComputedColumnConstraint():
            check_single_default(column)
            generated = statement.expression(kind.this)
            computed = Default(DefaultKind.GENERATED, sql=generated.sql)
            return replace(column, default=computed, expression=generated)
        case exp.DefaultColumnConstraint():
            return _with_default(statement, kind, column, node)
        case _:
            _refuse_constraint(statement, node, start)
    return column


def _add_check(
    statement: Statement, check: CheckDraft, draft: RelationDraft, drafts: Drafts
) -> None:
    """Add a CHECK. One that calls a function of the file is left out, as the function is. So is one
    of SQL Server with a set of characters in LIKE, such as [0-9]: the pattern would mean something
    else."""
    sql, line = check.expression.sql, check.expression.place.line
    if calls(sql, drafts.routines):
        drafts.notes.append(f"left out: CHECK in line {line}, which calls a function of the file")
    elif statement.source is Source.SQLSERVER and _SET_IN_LIKE.search(sql):
        drafts.notes.append(
            f"left out: CHECK with LIKE '[…]' in line {line}; write ~ or SIMILAR TO"
        )
    else:
        draft.checks.append(check)


_SET_IN_LIKE = re.compile(r"\blike\s+'[^']*\[", re.IGNORECASE)


def _with_default(
    statement: Statement,
    kind: exp.DefaultColumnConstraint,
    column: ColumnDraft,
    node: exp.Expr,
) -> ColumnDraft:
    """The column with a DEFAULT; `node` is the constraint's node."""
    check_single_default(column)
    if is_zero_date(kind.this, statement.source):
        return replace(column, note=f"its DEFAULT {kind.this.name} is left out: no date has day 0")
    start = statement.offset(node.parent.this) if node.parent else statement.start
    place = statement.behind(statement.keyword("DEFAULT", start))
    written = partial(statement.default_expression, start)
    default = read_default(kind.this, column.type, place, written)
    type_ = node.parent.args.get("kind") if node.parent else None
    if default is not None and default.sql and is_kept_as_text(type_):
        return replace(column, note=f"{column.note}; its DEFAULT is left out")
    expression = written() if default is not None and default.sql else None
    return replace(column, default=default, expression=expression)


def _seed(statement: Statement, node: exp.Expr | None, after: int) -> int:
    """A number of SQL Server's IDENTITY(first, step), 1 by default."""
    text = "1" if node is None else node.sql()
    if not re.fullmatch(r"-?\d+", text) or not int(text):
        statement.refuse(text, statement.keyword("IDENTITY", after), "Write IDENTITY(1,1).")
    return int(text)


def _unique(
    statement: Statement,
    label: Name | None,
    draft: RelationDraft,
    columns: tuple[Name, ...],
    include: tuple[Name, ...],
    node: exp.Expr,
) -> IndexDraft:
    """The index of a UNIQUE constraint."""
    parts = tuple((name, False) for name in columns)
    distinct = not node.args.get("nulls")
    name = statement.beside(draft.name, label) if label else None
    return IndexDraft(name, draft.name, parts, include, unique=True, nulls_distinct=distinct)


def _refuse_constraint(statement: Statement, node: exp.Expr, after: int) -> NoReturn:
    kind = node.kind if isinstance(node, exp.ColumnConstraint) else node
    word, cure = _REFUSED.get(type(kind), (kind.sql("postgres"), "leave it out"))
    statement.refuse(word, statement.keyword(word, after), cure)


def read_constraint(
    statement: Statement,
    node: exp.Expr,
    draft: RelationDraft,
    drafts: Drafts,
    label: Name | None = None,
) -> None:
    """Read a table constraint, in CREATE TABLE or ALTER TABLE."""
    match node:
        case exp.Constraint():
            named = statement.name(node.this) if node.name != UNNAMED else None
            for part in node.expressions:
                read_constraint(statement, part, draft, drafts, named)
        case exp.PrimaryKey():
            draft.primary_keys.append(KeyDraft(label, statement.names(node.expressions)))
            statement.only(node, {"expressions", "include"}, "Write PRIMARY KEY (columns).")
            statement.included(node, "Write PRIMARY KEY (columns).")
        case exp.UniqueColumnConstraint():
            statement.only(node, {"this", "include", "nulls", "options"}, "Write UNIQUE (columns).")
            for option in node.args.get("options") or ():
                if (text := " ".join(str(option).upper().split())) not in _NO_EFFECT:
                    statement.refuse(text, statement.offset(node), f"Leave out {text}.")
            include = statement.included(node, "Write UNIQUE (columns).")
            listed = node.this.expressions if node.this is not None else ()
            names = statement.names(listed)
            drafts.indexes.append(_unique(statement, label, draft, names, include, node))
        case exp.CheckColumnConstraint():
            _add_check(statement, CheckDraft(label, statement.expression(node.this)), draft, drafts)
        case exp.ForeignKey():
            statement.only(node, {"expressions", "reference"}, "Put the options behind REFERENCES.")
            columns_ = statement.names(node.expressions)
            reference = node.args.get("reference")
            if reference is None:
                offset = statement.offset(node)
                statement.refuse(
                    "FOREIGN KEY alone", offset, "Write REFERENCES relation behind it."
                )
            draft.foreign_keys.append(_foreign_key(statement, label, columns_, reference))
        case _:
            _refuse_constraint(statement, node, statement.start)


def _foreign_key(
    statement: Statement, label: Name | None, columns: tuple[Name, ...], node: exp.Reference
) -> ForeignKeyDraft:
    target = node.this
    listed: tuple[Name, ...] = ()
    if isinstance(target, exp.Schema):
        listed = statement.names(target.expressions)
        target = target.this
    parent = statement.table(target)
    on = {"DELETE": Action.RESTRICT, "UPDATE": Action.RESTRICT}
    for option in node.args.get("options") or ():
        text = " ".join(str(option).upper().split())
        _, event, action = (*text.split(maxsplit=2), "", "", "")[:3]
        if event in on and action in _ACTIONS:
            on[event] = _ACTIONS[action]
        elif text not in _NO_EFFECT and (text != "MATCH FULL" or len(columns) > 1):
            _refuse_option(statement, text, statement.offset(target))
    return ForeignKeyDraft(label, columns, parent, listed, on["DELETE"], on["UPDATE"])


def _refuse_option(statement: Statement, text: str, parent: int) -> NoReturn:
    cure = "Write ON DELETE or ON UPDATE RESTRICT, NO ACTION, CASCADE, SET NULL or SET DEFAULT."
    if text.startswith("MATCH"):
        cure = f"Leave out {text}."
    statement.refuse(text, statement.keyword(text.split()[1], parent), cure)
