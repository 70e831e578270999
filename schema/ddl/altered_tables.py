"""ALTER TABLE in a DDL file: what it changes of a table that is declared above."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from sqlglot import exp

from hornbeam_server.schema.ddl.domains import domain_of, in_domain, without_domain
from hornbeam_server.schema.ddl.drafts import (
    Change,
    ColumnChange,
    Drafts,
    altered_relation,
    column_position,
)
from hornbeam_server.schema.ddl.foreign_types import known_type
from hornbeam_server.schema.ddl.identities import check_single_default, is_generated
from hornbeam_server.schema.ddl.statement import STATEMENTS, Statement
from hornbeam_server.schema.ddl.tables import read_column, read_constraint
from hornbeam_server.schema.drafts import ColumnDraft, KeyDraft, Name, RelationDraft
from hornbeam_server.schema.model import Default, DefaultKind
from hornbeam_server.schema.sqltext import read_default, read_type, retyped_default, type_note


def read_alter(statement: Statement, tree: exp.Alter, drafts: Drafts) -> None:
    draft = altered_relation(statement, tree, drafts)
    for action in tree.args["actions"]:
        with drafts.problems.collect((draft.name.text, "")):
            _read_action(statement, action, draft, drafts)


def _read_action(
    statement: Statement, action: exp.Expr, draft: RelationDraft, drafts: Drafts
) -> None:
    match action:
        case exp.ColumnDef():
            _add_column(statement, action, draft, drafts)
        case exp.AlterColumn():
            _alter_column(statement, action, draft, drafts)
        case exp.ModifyColumn():
            _add_auto_increment(statement, action, draft)
        case exp.Drop() if action.args["kind"] == "COLUMN":
            _drop_column(statement, action, draft, drafts)
        case exp.Drop() if action.args["kind"] == "CONSTRAINT":
            _drop_constraint(statement, action, draft, drafts)
        case exp.AddConstraint():
            for constraint in action.expressions:
                with drafts.problems.collect((draft.name.text, "")):
                    read_constraint(statement, constraint, draft, drafts)
        case _:
            statement.refuse(action.sql("postgres"), statement.start, STATEMENTS)


def _add_column(
    statement: Statement, action: exp.ColumnDef, draft: RelationDraft, drafts: Drafts
) -> None:
    name = statement.name(action.this)
    exists = any(column.name.text == name.text for column in draft.columns)
    guarded = bool(action.args.get("exists"))
    if exists and guarded:
        return
    action.set("exists", None)
    read_column(statement, action, draft, drafts)
    _note(statement, drafts, draft, name, len(draft.columns) - 1, Change.ADDED)


def _note(
    statement: Statement,
    drafts: Drafts,
    draft: RelationDraft,
    column: Name,
    position: int,
    change: Change,
) -> None:
    """Note a change of a column, for the rows of the file before it."""
    drafts.changes.append(
        ColumnChange(draft.name.text, column.text, position, change, statement.origin)
    )


def _alter_column(
    statement: Statement, action: exp.AlterColumn, draft: RelationDraft, drafts: Drafts
) -> None:
    """Read ALTER COLUMN … TYPE, SET and DROP NOT NULL, SET and DROP DEFAULT."""
    default, type_ = action.args.get("default"), action.args.get("dtype")
    if default is not None:
        _set_default(statement, action, draft, default)
        return
    position = column_position(statement.name(action.this), draft)
    column = draft.columns[position]
    if type_ is not None:
        if action.args.get("collate"):
            statement.require_collation(action.args["collate"])
        column = _retyped(statement, action, column, drafts)
        using = action.args.get("using")
        if using and not keeps_value(using, column.name.text, type_):
            _note(statement, drafts, draft, column.name, position, Change.CONVERTED)
    elif "allow_null" in action.args:
        column = replace(column, nullable=bool(action.args["allow_null"]))
    elif action.args.get("drop") and not is_generated(column):
        column = replace(column, default=None, expression=None, has_default=False)
    else:
        statement.refuse(action.sql("postgres"), statement.start, STATEMENTS)
    draft.columns[position] = column


def _retyped(
    statement: Statement, action: exp.AlterColumn, column: ColumnDraft, drafts: Drafts
) -> ColumnDraft:
    """The column with another type or domain."""
    place = statement.place(statement.offset(action))
    column = without_domain(column)
    domain = domain_of(statement, action.args["dtype"], drafts.domains)
    if domain is not None:
        retyped = in_domain(column, domain)
    else:
        kind, note = known_type(action.args["dtype"], statement.source)
        retyped = replace(column, type=read_type(kind, place), note=note or type_note(kind))
    default = retyped_default(column.default, column.name.text, retyped.type, place)
    return replace(retyped, default=default)


def keeps_value(using: exp.Expr, column: str, type_: exp.DataType) -> bool:
    """Is the expression behind USING the column itself, or its cast to the new type?"""
    value = using.unnest()
    if isinstance(value, exp.Cast) and value.to == type_:
        value = value.this.unnest()
    return isinstance(value, exp.Column) and value.name.lower() == column.lower()


def _drop_column(
    statement: Statement, action: exp.Drop, draft: RelationDraft, drafts: Drafts
) -> None:
    """Read DROP COLUMN. As in PostgreSQL, the constraints and indexes over the column go, too."""
    (node,) = action.args["tables"]
    name = statement.name(node.this)
    if action.args.get("exists") and name.text not in {c.name.text for c in draft.columns}:
        return
    position = column_position(name, draft)
    _require_unreferenced(name, draft, drafts)
    del draft.columns[position]
    draft.primary_keys = [key for key in draft.primary_keys if not _has(key.columns, name)]
    draft.foreign_keys = [key for key in draft.foreign_keys if not _has(key.columns, name)]
    draft.checks = [each for each in draft.checks if name.text not in each.expression.words]
    drafts.indexes = [
        each
        for each in drafts.indexes
        if each.relation.text != draft.name.text or not each.reads(name.text)
    ]
    _note(statement, drafts, draft, name, position, Change.DROPPED)


def _require_unreferenced(name: Name, draft: RelationDraft, drafts: Drafts) -> None:
    """Raises SchemaError for a column that a foreign key of another relation references."""
    for other in drafts.relations.values():
        for key in other.foreign_keys:
            if key.parent.text == draft.name.text and _has(key.parent_columns, name):
                raise name.place.error(
                    f"{other.name.text} references {draft.name.text}.{name.text}, which is"
                    " dropped.",
                    cure="Drop the foreign key before.",
                    name=name.text,
                )


def _has(names: Sequence[Name], name: Name) -> bool:
    return any(each.text == name.text for each in names)


def _drop_constraint(
    statement: Statement, action: exp.Drop, draft: RelationDraft, drafts: Drafts
) -> None:
    """Read DROP CONSTRAINT of a constraint that the file has named."""
    (node,) = action.args["tables"]
    name = statement.name(node.this)
    full = statement.beside(draft.name, name).text
    own = statement.spaces.parted(draft.name.text)[1]
    primary = [key for key in draft.primary_keys if not _is_called(key, name.text, f"{own}_pkey")]
    keys = [key for key in draft.foreign_keys if not _is(key.name, name.text)]
    checks = [check for check in draft.checks if not _is(check.name, name.text)]
    indexes = [
        each
        for each in drafts.indexes
        if not (each.unique and each.relation.text == draft.name.text and _is(each.name, full))
    ]
    kept = [*primary, *keys, *checks, *indexes]
    before = [*draft.primary_keys, *draft.foreign_keys, *draft.checks, *drafts.indexes]
    if len(before) == len(kept) and not action.args.get("exists"):
        raise name.place.error(
            f"{draft.name.text} has no constraint {name.text} with this name in the file.",
            cure="Leave the constraint and its DROP out.",
            name=name.text,
        )
    draft.primary_keys, draft.foreign_keys, draft.checks = primary, keys, checks
    drafts.indexes = indexes


def _is_called(key: KeyDraft, name: str, default: str) -> bool:
    """Is the primary key called `name`? Without a name of its own it is called `default`."""
    return name == (default if key.name is None else key.name.text)


def _is(name: Name | None, text: str) -> bool:
    return name is not None and name.text == text


def _set_default(
    statement: Statement, action: exp.Expr, draft: RelationDraft, default: exp.Expr
) -> None:
    """Read ALTER COLUMN … SET DEFAULT, which replaces a default."""
    position = column_position(statement.name(action.this), draft)
    column = draft.columns[position]
    if is_generated(column):
        check_single_default(column)
    place = statement.place(statement.keyword("DEFAULT", statement.start))
    written = partial(statement.default_expression, statement.start)
    value = read_default(default, column.type, place, written)
    expression = written() if value is not None and value.sql else None
    draft.columns[position] = replace(
        column, default=value, expression=expression, has_default=column.domain is not None
    )


def _add_auto_increment(
    statement: Statement, action: exp.ModifyColumn, draft: RelationDraft
) -> None:
    """Read MODIFY column … AUTO_INCREMENT, as MySQL's tools write it behind CREATE TABLE."""
    node = action.this
    kinds = [constraint.kind for constraint in node.args.get("constraints") or ()]
    if not any(isinstance(kind, exp.AutoIncrementColumnConstraint) for kind in kinds):
        statement.refuse("MODIFY", statement.offset(node), "Put it into CREATE TABLE.")
    position = column_position(statement.name(node.this), draft)
    column = draft.columns[position]
    check_single_default(column)
    identity = Default(DefaultKind.IDENTITY)
    draft.columns[position] = replace(column, nullable=False, default=identity)
