"""ALTER, RENAME and DROP as changes of the schema in force: the DDL text that a statement leads to.

    change = altered(schema, "ALTER TABLE item DROP COLUMN i_note")
    plan_schema(PlanRequest(change.ddl))

Nothing is changed here. The text is planned and applied like a file that the user has edited, so a
statement can do no more than a file can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NoReturn

from sqlglot.errors import SqlglotError

from hornbeam_server.node.altered_identities import (
    change_identity,
    change_sequence,
    set_identity,
    undefaulted,
)
from hornbeam_server.node.altered_types import alter_domain, alter_type, listed
from hornbeam_server.node.connected_columns import connected
from hornbeam_server.node.constraint_names import (
    constraints,
    with_constraint_name,
    with_index_name,
)
from hornbeam_server.node.dependents import (
    Dependent,
    users_of_column,
    users_of_key,
    users_of_relation,
    users_of_sequence,
    users_of_type,
    users_of_unique,
    users_of_view,
    without,
    without_column,
    without_constraint,
    without_key,
    without_relation,
    without_sequence,
    without_type,
    without_unique,
    without_view,
)
from hornbeam_server.query.binding.renaming import renamed
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.copies import Using, needs_conversion
from hornbeam_server.schema.counters import SEQUENCE, sequence_names
from hornbeam_server.schema.ddl import STATEMENT, load_ddl, render_ddl
from hornbeam_server.schema.ddl.alterations import (
    Action,
    AddElement,
    Alteration,
    ChangeIdentity,
    DropElement,
    DropExpression,
    Removal,
    RenameElement,
    Renames,
    RenameTo,
    SetDefault,
    SetIdentity,
    SetNotNull,
    SetOptions,
    SetSchema,
    SetType,
    Text,
    Validate,
    read_alteration,
)
from hornbeam_server.schema.ddl.altered_tables import keeps_value
from hornbeam_server.schema.ddl.sequence_options import checked_options
from hornbeam_server.schema.ddl.spaces import Spaces
from hornbeam_server.schema.ddl.statement import DIALECT
from hornbeam_server.schema.domains import (
    domain_names,
    of_other_type,
    own_of,
    with_own_default,
    with_own_not_null,
)
from hornbeam_server.schema.drafts import Place
from hornbeam_server.schema.errors import SchemaError
from hornbeam_server.schema.identifiers import identifier
from hornbeam_server.schema.model import (
    PUBLIC,
    Column,
    DeclaredSequence,
    DefaultKind,
    Relation,
    Schema,
)
from hornbeam_server.schema.namespaces import (
    bare,
    beside,
    joined,
    key_name,
    parted,
    relations_by_key,
)
from hornbeam_server.schema.renames import Rename
from hornbeam_server.schema.render import render_relation, spelled
from hornbeam_server.schema.sqltext import retyped_default
from hornbeam_server.schema.types import takes_all

_OF_COLUMNS = ("index", "UNIQUE", "foreign key", "CHECK")
"""The kinds of elements of a table that end with a column that they use."""


@dataclass(frozen=True, slots=True)
class Altered:
    """The schema after a statement, as DDL, with `renames` of what is in force, and with `usings`
    for columns that get another type. `notes` say what else the statement changes, or why it
    changes nothing (`same`)."""

    ddl: str
    same: bool
    notes: tuple[str, ...] = ()
    renames: tuple[Rename, ...] = ()
    usings: tuple[Using, ...] = ()


def altered(catalog: Catalog, sql: str, path: Sequence[str] = (PUBLIC,)) -> Altered:
    """The schema in force, that of `catalog`, after the statement `sql` under a search path. Raises
    SchemaError with the place in the statement, and the errors of `renamed`."""
    asked = read_alteration(sql, spaces=Spaces.of(catalog.schema, path))
    # Without what only stored rows have, such as dropped columns.
    before = load_ddl(render_ddl(catalog.schema), STATEMENT)
    work = _Work(sql, before)
    match asked:
        case Removal():
            work.remove(asked)
        case Renames(pairs):
            work.rename(pairs)
        case Alteration():
            work.alter(asked)
    if work.renames:
        renames = tuple(work.renames)
        return Altered(render_ddl(renamed(catalog, renames).schema), same=False, renames=renames)
    same = work.schema == before and not work.usings
    usings = tuple(work.usings.values())
    return Altered(render_ddl(work.schema), same, tuple(work.notes), usings=usings)


class _Work:
    """Carries out the actions of one statement on `schema`, one after the other."""

    def __init__(self, sql: str, schema: Schema) -> None:
        self._sql = sql
        self.schema = schema
        self.notes: list[str] = []
        self.renames: list[Rename] = []
        self.usings: dict[tuple[str, str], Using] = {}

    # ------------------------------------------------------------ DROP

    def remove(self, asked: Removal) -> None:
        known = self._names(asked.kind)
        for name in asked.names:
            if name in known:
                continue
            if not asked.guarded:
                raise self.error(f"The {asked.kind} {name} does not exist.", listed(known))
            self.notes.append(f"The {asked.kind} {name} does not exist: nothing is dropped.")
        names = [name for name in dict.fromkeys(asked.names) if name in known]
        if asked.kind == "schema":
            self._remove_schemas(names, cascade=asked.cascade)
            return
        if not asked.cascade:
            self._require_unused(asked.kind, names)
        for name in names:
            self._remove(asked.kind, name)

    def _names(self, kind: str) -> Sequence[str]:
        """The names of all tables, indexes, views, sequences or schemas."""
        schema = self.schema
        return {
            "table": schema.names,
            "index": tuple(index.name for index in schema.indexes),
            "view": tuple(view.name for view in schema.views),
            "sequence": tuple(sequence.name for sequence in schema.sequences),
            "schema": (PUBLIC, *schema.spaces),
            "type": (*(each.full for each in schema.enumerations), *domain_names(schema)),
            "domain": domain_names(schema),
        }[kind]

    def _remove_schemas(self, names: Sequence[str], *, cascade: bool) -> None:
        """Drop schemas, with `cascade` also what is in them and what uses that."""
        if PUBLIC in names:
            raise self.error(f"The schema {PUBLIC} stays.", "Drop its tables instead.")
        inside = [
            (kind, name)
            for kind in ("table", "view", "sequence", "type")
            for name in self._names(kind)
            if parted(name, names)[0] in names
        ]
        if inside and not cascade:
            raise self.error(
                f"The schema {names[0]} is not empty."
                if len(names) == 1
                else f"The schemas {', '.join(names)} are not empty.",
                f"Drop {', '.join(f'{kind} {name}' for kind, name in inside)} first, or write"
                " CASCADE to drop them, too.",
            )
        for kind, name in inside:
            if name in self._names(kind):
                self.notes.append(f"The {kind} {name} is dropped with its schema.")
                self._remove(kind, name)
        spaces = tuple(space for space in self.schema.spaces if space not in names)
        self.schema = replace(self.schema, spaces=spaces)

    def _remove(self, kind: str, name: str) -> None:
        if kind == "table":
            self.schema = without_relation(self.schema, name)
        elif kind == "sequence":
            self.schema = without_sequence(self.schema, name)
        elif kind in {"type", "domain"}:
            for user in users_of_type(self.schema, name):
                self.notes.append(f"The {user} is dropped with its type.")
            self.schema = without_type(self.schema, name)
        elif kind == "view":
            if any(view.name == name for view in self.schema.views):
                self.schema = without_view(self.schema, name)
        elif any(index.name == name for index in self.schema.indexes):
            self.schema = without_unique(self.schema, name)

    def _require_unused(self, kind: str, names: Sequence[str]) -> None:
        """Raises SchemaError if elements that stay use the tables, indexes or views `names`."""
        for name in names:
            if kind == "table":
                users = users_of_relation(self.schema, name)
            elif kind == "view":
                users = users_of_view(self.schema, name)
            elif kind == "sequence":
                users = users_of_sequence(self.schema, name)
            elif kind in {"type", "domain"}:
                users = users_of_type(self.schema, name)
            else:
                index = next(i for i in self.schema.indexes if i.name == name)
                columns = tuple(part.column for part in index.columns)
                users = users_of_unique(self.schema, index.relation, columns)
            left = [u for u in users if u.relation not in names and u.name not in names]
            self._refuse_used(f"The {kind} {name}", left)

    # ------------------------------------------------------------ ALTER

    def alter(self, asked: Alteration) -> None:
        if asked.kind == "index":
            self._rename_index(asked)
            return
        if asked.kind == "sequence":
            self._alter_sequence(asked)
            return
        if asked.kind == "type":
            alter_type(self, asked)
            return
        if asked.kind == "domain":
            alter_domain(self, asked)
            return
        if asked.kind == "schema":
            self._rename_space(asked)
            return
        if asked.name not in self._known(asked):
            if asked.guarded:
                self.notes.append(
                    f"The {asked.kind} {asked.name} does not exist: nothing is changed."
                )
                return
            known = listed(self._known(asked))
            raise self.error(f"The {asked.kind} {asked.name} does not exist.", known)
        for action in asked.actions:
            self._carry_out(asked.name, action)

    def rename(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Give relations or views other names, one after the other."""
        names = {*self._names("table"), *self._names("view")}
        for old, new in pairs:
            if old not in names:
                raise self.error(f"The table {old} does not exist.", listed(names))
            names = names - {old} | {new}
            self.renames.append(Rename(old, "", new))

    def _rename_space(self, asked: Alteration) -> None:
        if asked.name == PUBLIC:
            raise self.error(
                f"The schema {PUBLIC} keeps its name.",
                "Move its tables: ALTER TABLE … SET SCHEMA name.",
            )
        self._require_space(asked.name)
        for action in asked.actions:
            assert isinstance(action, RenameTo)
            self.renames.append(Rename(asked.name, "", action.new, space=True))

    def _require_space(self, name: str) -> None:
        if name not in (known := self._names("schema")):
            raise self.error(f"The schema {name} does not exist.", listed(known))

    def moved(self, name: str, space: str) -> str | None:
        """The full name in another schema; None if it is there already."""
        self._require_space(space)
        new = joined(space, bare(name, self.schema.spaces))
        if new != name:
            return new
        self.notes.append(f"{name} is in the schema {space} already: nothing is changed.")
        return None

    def _known(self, asked: Alteration) -> Sequence[str]:
        """The names that the statement may change. ALTER TABLE also gives views other names
        and schemas."""
        views = self._names("view")
        if asked.kind == "view":
            return views
        renames = all(isinstance(action, RenameTo | SetSchema) for action in asked.actions)
        return [*self.schema.names, *views] if renames else self.schema.names

    def _alter_sequence(self, asked: Alteration) -> None:
        known = {sequence.name: sequence for sequence in self.schema.sequences}
        if asked.name not in known:
            if asked.guarded:
                self.notes.append(f"The sequence {asked.name} does not exist: nothing is changed.")
                return
            if asked.name not in sequence_names(self.schema):
                raise self.error(f"The sequence {asked.name} does not exist.", listed(known))
            for action in asked.actions:
                if not isinstance(action, SetOptions):
                    raise self.error(
                        f"The sequence {asked.name} belongs to an identity column, and is called"
                        " and stored as that is.",
                        "Write ALTER TABLE … RENAME COLUMN or SET SCHEMA.",
                    )
                change_sequence(self, asked.name, action)
            return
        for action in asked.actions:
            if isinstance(action, RenameTo):
                new = beside(asked.name, action.new, self.schema.spaces)
                self.renames.append(Rename(SEQUENCE, asked.name, new))
                return
            if isinstance(action, SetSchema):
                self._move_sequence(known[asked.name], action.space)
                return
            assert isinstance(action, SetOptions)
            name = spelled(asked.name, self.schema.spaces)
            ddl = f"{render_ddl(self.schema)}ALTER SEQUENCE {name} "
            text, refuse = action.options, partial(self.refused_option, action.options)
            options = checked_options(text.sql, known[asked.name], refuse)
            if options:
                self.schema = self.loaded(f"{ddl}{options};", len(ddl), text)

    def _move_sequence(self, sequence: DeclaredSequence, space: str) -> None:
        if sequence.owner is not None:
            table, column = sequence.owner
            raise self.error(
                f"The sequence {sequence.name} belongs to {table}.{column}, and stays in its"
                " schema.",
                f"Move the table, or write ALTER SEQUENCE {sequence.name} OWNED BY NONE first.",
            )
        if (new := self.moved(sequence.name, space)) is not None:
            self.renames.append(Rename(SEQUENCE, sequence.name, new))

    def _carry_out(self, table: str, action: Action) -> None:
        match action:
            case AddElement():
                self._add(table, action)
            case DropElement(constraint=True):
                self._drop_constraint(table, action)
            case DropElement():
                self._drop_column(table, action)
            case SetType():
                self._set_type(table, action)
            case SetDefault():
                self._set_default(table, action)
            case SetNotNull():
                self._set_not_null(table, action)
            case SetIdentity():
                set_identity(self, table, action)
            case ChangeIdentity():
                change_identity(self, table, action)
            case DropExpression():
                self._drop_expression(table, action)
            case Validate():
                self._validate(table, action.constraint)
            case RenameElement() | RenameTo() | SetSchema():
                self._rename(table, action)

    def _set_not_null(self, table: str, action: SetNotNull) -> None:
        identified = self.column(table, action.column).default_kind is DefaultKind.IDENTITY
        if not action.not_null and identified:
            raise self.error(
                f"{table}.{action.column} is an identity column, whose rows have numbers.",
                "Write DROP IDENTITY first.",
            )
        if not action.not_null and action.column in self.schema.relation(table).primary_key:
            raise self.error(
                f"{table}.{action.column} belongs to the primary key, whose columns have values.",
                "Leave it NOT NULL.",
            )
        not_null = action.not_null
        self.change(table, action.column, lambda c: with_own_not_null(c, not_null=not_null))

    def _rename(self, table: str, action: RenameElement | RenameTo | SetSchema) -> None:
        match action:
            case RenameElement(old, new, constraint=True):
                self._rename_constraint(table, old, new)
            case RenameElement(old, new):
                self.column(table, old)
                self.renames.append(Rename(table, old, new))
            case RenameTo(new):
                self.rename([(table, beside(table, new, self.schema.spaces))])
            case SetSchema(space):
                if (moved := self.moved(table, space)) is not None:
                    self.rename([(table, moved)])

    def _add(self, table: str, action: AddElement) -> None:
        relation = self.schema.relation(table)
        if action.column in relation.visible_names and action.guarded:
            self.notes.append(f"The column {action.column} exists: nothing is added.")
            return
        own = render_relation(relation, self.schema.spaces)
        before = f"{own[: own.rindex(')')].rstrip()},\n  "
        whole = render_ddl(self.schema)
        at = whole.index(own)
        ddl = f"{whole[:at]}{before}{action.text.sql}\n){whole[at + len(own) :]}"
        key = self._key_name(table)
        self.schema = self.loaded(ddl, at + len(before), action.text)
        if key and self._key_name(table) != key:  # the key has made room
            raise self.error(f"{table} has a constraint {key} already.", "Choose another name.")

    def _drop_column(self, table: str, action: DropElement) -> None:
        relation = self.schema.relation(table)
        if action.name not in relation.visible_names:
            if not action.guarded:
                raise self._unknown_column(relation, action.name)
            self.notes.append(f"The column {action.name} does not exist: nothing is dropped.")
            return
        if action.name in relation.primary_key:
            raise self.error(
                f"{table}.{action.name} belongs to the primary key, under which rows are stored.",
                f"Change the key first: DROP CONSTRAINT {self._key_name(table)},"
                " ADD PRIMARY KEY (…).",
            )
        if len(relation.visible) == 1:
            raise self.error(f"{action.name} is the only column of {table}.", "Drop the table.")
        users = list(users_of_column(self.schema, table, action.name))
        own = [user for user in users if user.relation == table and user.kind in _OF_COLUMNS]
        if not action.cascade:
            others = [user for user in users if user not in own]
            self._refuse_used(f"The column {table}.{action.name}", others)
        self.notes += [f"The {user} is dropped with the column {action.name}." for user in own]
        self.schema = without_column(self.schema, table, action.name)

    def _drop_constraint(self, table: str, action: DropElement) -> None:
        name = action.name
        if name == self._key_name(table):
            self._drop_key(table, action)
            return
        if name not in constraints(self.schema, table):
            if not action.guarded:
                raise self._unknown_constraint(table, name)
            self.notes.append(f"The constraint {name} does not exist: nothing is dropped.")
            return
        full = beside(table, name, self.schema.spaces)
        index = next(
            (i for i in self.schema.indexes if (i.relation, i.name) == (table, full)), None
        )
        if index is None:
            self.schema = _with_relation(
                self.schema, without_constraint(self.schema.relation(table), name)
            )
            return
        if not action.cascade:
            columns = tuple(part.column for part in index.columns)
            users = list(users_of_unique(self.schema, table, columns))
            self._refuse_used(f"The constraint {name} of {table}", users)
        self.schema = without_unique(self.schema, full)

    def _drop_key(self, table: str, action: DropElement) -> None:
        """Drop the primary key. Its columns stay NOT NULL."""
        users = list(users_of_key(self.schema, table))
        if not action.cascade:
            self._refuse_used(f"The constraint {action.name} of {table}", users)
        for user in users:
            self.notes.append(f"The {user} is dropped with the constraint {action.name}.")
            self.schema = without(self.schema, user)
        self.schema = _with_relation(self.schema, without_key(self.schema.relation(table)))

    def _validate(self, table: str, constraint: str) -> None:
        """Do nothing: constraints are validated when they are added."""
        if constraint not in constraints(self.schema, table):
            raise self._unknown_constraint(table, constraint)

    def _rename_constraint(self, table: str, old: str, new: str) -> None:
        key = self._key_name(table)
        known = [key, *constraints(self.schema, table)]
        if old not in known:
            raise self._unknown_constraint(table, old)
        if new in known:
            raise self.error(f"{table} has a constraint {new} already.", "Choose another name.")
        schema = with_constraint_name(self.schema, table, old, new)
        self.schema = self.loaded(render_ddl(schema))

    def _rename_index(self, asked: Alteration) -> None:
        """Rename an index, or a primary key by the name of its index."""
        owner = relations_by_key(self.schema).get(asked.name, "")
        for action in asked.actions if owner else ():
            assert isinstance(action, RenameTo)
            self._rename_constraint(owner, self._key_name(owner), action.new)
        if owner:
            return
        index = next((i for i in self.schema.indexes if i.name == asked.name), None)
        if index is None:
            if asked.guarded:
                self.notes.append(f"The index {asked.name} does not exist: nothing is changed.")
                return
            known = (index.name for index in self.schema.indexes)
            raise self.error(f"The index {asked.name} does not exist.", listed(known))
        for action in asked.actions:
            assert isinstance(action, RenameTo)
            new = beside(index.relation, action.new, self.schema.spaces)
            schema = with_index_name(self.schema, index.name, new, index.relation)
            self.schema = self.loaded(render_ddl(schema))

    def _set_type(self, table: str, action: SetType) -> None:
        """Change the type of a column. If values keep their bytes, all columns that foreign keys
        connect with it get the type, too."""
        declared = self.declared(action.type.sql, action.type)
        column = self.column(table, action.column)
        plain = Column(declared.name, declared.type)
        if own_of(declared) != plain:
            raise self.error("Only a type is given here.", "Give other properties by themselves.")
        kept = not needs_conversion(column, declared)
        if action.using is not None and not (
            kept and takes_all(declared.type, column.type) and _keeps_value(action)
        ):
            self.usings[table, column.name] = Using(table, column.name, action.using.sql)
            kept = False
        if kept:
            together = connected(self.schema, table, action.column)
        else:
            together = {(table, action.column)}
        schema = self.schema
        for relation, name in sorted(together):
            asked = (relation, name) == (table, action.column)
            if not asked and schema.relation(relation).column(name).type == declared.type:
                continue
            like = declared if asked else plain
            schema = _with_column(schema, relation, name, partial(_with_type, like=like))
            if not asked:
                self.notes.append(f"{relation}.{name} becomes {declared.type.ddl()}, too.")
        self.schema = self.loaded(render_ddl(schema))

    def _set_default(self, table: str, action: SetDefault) -> None:
        column = self.column(table, action.column)
        if column.default_kind in {DefaultKind.GENERATED, DefaultKind.IDENTITY}:
            raise self.error(
                f"{table}.{column.name} is generated and has no default.",
                "Write DROP EXPRESSION or DROP IDENTITY first.",
            )
        default = None
        if action.default is not None:
            prefix = f"{column.type.ddl()} DEFAULT "
            default = self.declared(prefix, action.default).default
        given = action.default is not None
        self.change(table, column.name, lambda c: with_own_default(c, default, has_default=given))

    def _drop_expression(self, table: str, action: DropExpression) -> None:
        column = self.column(table, action.column)
        if column.default_kind is DefaultKind.GENERATED:
            self.change(table, column.name, undefaulted)
        elif not action.guarded:
            raise self.error(f"{table}.{column.name} is no generated column.", "")

    # ------------------------------------------------------------ help

    def change(self, table: str, name: str, change: Callable[[Column], Column]) -> None:
        self.column(table, name)
        self.schema = self.loaded(render_ddl(_with_column(self.schema, table, name, change)))

    def column(self, table: str, name: str) -> Column:
        relation = self.schema.relation(table)
        if name not in relation.visible_names:
            raise self._unknown_column(relation, name)
        return relation.column(name)

    def declared(self, prefix: str, text: Text) -> Column:
        """The column that is declared by `prefix` and `text`; `prefix` may be the text itself."""
        written = text.sql if prefix == text.sql else prefix + text.sql
        types = Schema(
            (),
            spaces=self.schema.spaces,
            enumerations=self.schema.enumerations,
            domains=self.schema.domains,
        )
        ddl = f"{render_ddl(types)}CREATE TABLE t (c {written}\n)"
        schema = self.loaded(ddl, len(ddl) - len(text.sql) - 2, text)
        relation = schema.relation("t")
        (column,) = relation.visible
        others = schema.indexes or schema.views or schema.sequences
        if others or relation.foreign_keys or relation.own_checks or relation.declared_key:
            raise self.error("A constraint is not supported here.", "Add it by itself.")
        return column

    def loaded(self, ddl: str, at: int = 0, text: Text | None = None) -> Schema:
        """The schema of a DDL text, which has a `text` of the statement at offset `at`. Errors in
        it get their place in the statement."""
        try:
            return load_ddl(ddl, "")
        except SchemaError as error:
            details = dict(error.details)
            line, column = details.pop("line", 0), details.pop("column", 0)
            details.pop("problems", None)
            offset = sum(len(each) + 1 for each in ddl.split("\n")[: line - 1]) + column - 1
            if text is not None and line and at <= offset <= at + len(text.sql):
                place = Place.at(self._sql, text.offset + offset - at, "")
                details |= {"line": place.line, "column": place.column}
            details["file"] = ""
            raise type(error)(error.message, cure=error.cure, **details) from None

    def _refuse_used(self, what: str, users: Iterable[Dependent]) -> None:
        listed = ", ".join(dict.fromkeys(map(str, users)))
        if listed:
            raise self.error(
                f"{what} is used by: {listed}.",
                "Drop them first, or write CASCADE to drop them, too.",
            )

    def _unknown_column(self, relation: Relation, name: str) -> SchemaError:
        cure = f"Its columns are: {', '.join(relation.visible_names)}."
        return self.error(f"{relation.name} has no column {name}.", cure, name)

    def _key_name(self, table: str) -> str:
        """The name of the primary key of a relation; "" if it has none."""
        return key_name(self.schema.relation(table), self.schema.spaces)

    def _unknown_constraint(self, table: str, name: str) -> SchemaError:
        cure = listed(filter(None, (self._key_name(table), *constraints(self.schema, table))))
        return self.error(f"The constraint {name} of {table} does not exist.", cure, name)

    def refused(self, text: Text, offset: int, what: str, cure: str) -> SchemaError:
        """The error for a part of the statement, at `offset` of `text`."""
        place = Place.at(self._sql, text.offset + offset, "")
        return place.error(f"{what} is not supported here.", cure=cure)

    def refused_option(self, text: Text, what: str, offset: int, cure: str) -> NoReturn:
        raise self.refused(text, offset, what, cure)

    def error(self, message: str, cure: str, name: str = "") -> SchemaError:
        return Place().error(message, cure=cure, **({"name": name} if name else {}))


def _with_relation(schema: Schema, relation: Relation) -> Schema:
    relations = tuple(relation if r.name == relation.name else r for r in schema.relations)
    return replace(schema, relations=relations)


def _with_column(
    schema: Schema, table: str, name: str, change: Callable[[Column], Column]
) -> Schema:
    relation = schema.relation(table)
    columns = tuple(change(c) if c.name == name else c for c in relation.columns)
    return _with_relation(schema, replace(relation, columns=columns))


def _with_type(column: Column, like: Column) -> Column:
    """The column with the type and the domain of `like`."""
    retyped = of_other_type(column, like)
    default = retyped_default(retyped.default, column.name, like.type, Place())
    return replace(retyped, default=default)


def _keeps_value(action: SetType) -> bool:
    """Is the expression behind USING the column itself, or its cast to the new type?"""
    assert action.using is not None
    try:
        (tree,) = DIALECT.parse(
            f"SELECT {action.using.sql}, CAST({identifier(action.column)} AS {action.type.sql})"
        )
    except (SqlglotError, ValueError):
        return False
    assert tree is not None
    if len(tree.expressions) != 2:
        return False
    value, cast = tree.expressions
    return keeps_value(value, action.column, cast.to)
