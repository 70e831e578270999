"""Reads the schema of an existing database through SQLAlchemy's inspection, from any URL.

The rules are those of a DDL file: the same types and the same validation (`build`). Unsupported
features (virtual columns, partial and expression indexes) are refused by name. Errors name
the URL (without its password), the relation and the column.

For SQLite, SQLAlchemy reads the tables' SQL by regular expressions and misses some of it (unknown
types, actions of inline foreign keys, inline UNIQUE, DESC, the end of a generated column), so
pragmas and the tokens of its texts correct the result.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.engine import URL, Connection, make_url
from sqlalchemy.exc import (
    ArgumentError,
    CompileError,
    NoSuchModuleError,
    SAWarning,
    SQLAlchemyError,
)
from sqlalchemy.types import TypeEngine
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from hornbeam_server.schema.build import build
from hornbeam_server.schema.ddl.expressions import read_expression, until_closed
from hornbeam_server.schema.drafts import (
    CheckDraft,
    ColumnDraft,
    ForeignKeyDraft,
    IndexDraft,
    KeyDraft,
    Name,
    Place,
    RelationDraft,
)
from hornbeam_server.schema.errors import InvalidRequest, NotFound, Unavailable
from hornbeam_server.schema.model import Action, Default, DefaultKind, Schema
from hornbeam_server.schema.sqltext import read_default, read_type
from hornbeam_server.schema.types import ColumnType

_POSTGRES = postgresql.dialect()  # type: ignore[no-untyped-call]


def reflect(url: str) -> Schema:
    """All tables of the URL's default schema, in order of name, without views.

    Blocks while it reads. Raises SchemaError, InvalidRequest (bad URL, driver missing), NotFound
    (no such SQLite file), Unavailable (the database does not answer).
    """
    parsed = _parsed(url)
    shown = parsed.render_as_string(hide_password=True)
    with _located_errors(shown):
        engine = sa.create_engine(parsed)
        try:
            with engine.connect() as connection:
                kind = _SqliteReflection if engine.dialect.name == "sqlite" else _Reflection
                return kind(connection, sa.inspect(connection), Place(shown)).schema()
        finally:
            engine.dispose()


def _parsed(url: str) -> URL:
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise InvalidRequest(
            "This is not a database URL.", cure="Write, say, postgresql://user@host/database."
        ) from None
    file = parsed.database or ":memory:"
    is_file = parsed.get_backend_name() == "sqlite" and not file.startswith((":", "file:"))
    if is_file and not Path(file).exists():
        raise NotFound(f"There is no file {file}.", cure="SQLite URLs are sqlite:///path.")
    return parsed


@contextmanager
def _located_errors(shown: str) -> Iterator[None]:
    """Translate SQLAlchemy's errors and warnings; a warning means that it left something out."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", SAWarning)
            yield
    except SAWarning as warning:
        raise Place(shown).error(
            f"The schema cannot be read completely: {str(warning).rstrip('.')}.",
            cure="Remove what is named, or write the schema as a DDL file.",
        ) from None
    except (NoSuchModuleError, ModuleNotFoundError) as error:
        raise InvalidRequest(f"{shown}: {error}", cure="Install the database's driver.") from None
    except SQLAlchemyError as error:
        reason = str(error).splitlines()[0]
        raise Unavailable(f"{shown}: {reason}", cure="Is it running, and may you?") from error


@dataclass(frozen=True, slots=True)
class _Reflection:
    connection: Connection
    inspector: sa.Inspector
    place: Place

    def schema(self) -> Schema:
        tables = sorted(self.inspector.get_table_names())
        if not tables:
            raise self.place.error("The database has no tables.", cure="Is it the right one?")
        drafts = [self.relation(table) for table in tables]
        return build(drafts, [index for table in tables for index in self.indexes(table)])

    def relation(self, table: str) -> RelationDraft:
        draft = RelationDraft(self.name(table))
        draft.checks += [
            CheckDraft(
                self.name(check["name"]) if check["name"] else None,
                read_expression(check["sqltext"], Place(f"{self.place.file}, {table}")),
            )
            for check in self.inspector.get_check_constraints(table)
        ]
        draft.columns += [self.column(table, column) for column in self.columns(table)]
        key = self.inspector.get_pk_constraint(table)["constrained_columns"]
        if key:
            draft.primary_keys.append(KeyDraft(None, self.names(key)))
        keys = self.foreign_keys(table)
        draft.foreign_keys += [self.foreign_key(table, foreign_key) for foreign_key in keys]
        return draft

    # The inspector's results in its own forms; `_SqliteReflection` corrects them.

    def columns(self, table: str) -> list[dict[str, Any]]:
        return [dict(column) for column in self.inspector.get_columns(table)]

    def foreign_keys(self, table: str) -> list[dict[str, Any]]:
        return [dict(key) for key in self.inspector.get_foreign_keys(table)]

    def unique_constraints(self, table: str) -> list[dict[str, Any]]:
        return [dict(constraint) for constraint in self.inspector.get_unique_constraints(table)]

    def created_indexes(self, table: str) -> list[dict[str, Any]]:
        return [dict(index) for index in self.inspector.get_indexes(table)]

    def name(self, text: str) -> Name:
        return Name(text, self.place)

    def names(self, texts: list[str]) -> tuple[Name, ...]:
        return tuple(self.name(text) for text in texts)

    def refuse(self, what: str, cure: str) -> None:
        raise self.place.error(f"{what} is not supported.", cure=cure, name=what)

    def column(self, table: str, column: Mapping[str, Any]) -> ColumnDraft:
        label = f"{table}.{column['name']}"
        type_ = self.type(label, column["type"])
        default = self.default(label, column, type_)
        identity = default is not None and default.kind is DefaultKind.IDENTITY
        nullable = bool(column["nullable"]) and not identity
        return ColumnDraft(self.name(column["name"]), type_, nullable, default)

    def type(self, label: str, type_: TypeEngine[Any] | str) -> ColumnType:
        place = Place(f"{self.place.file}, {label}")
        try:
            text = type_ if isinstance(type_, str) else _postgres_name(type_)
            return read_type(exp.DataType.build(text, dialect="postgres", udt=True), place)
        except (CompileError, NotImplementedError, SqlglotError, ValueError):
            raise place.error(
                f"Type {type_!r} is not supported.", cure="Change the type, or write a DDL file."
            ) from None

    def default(self, label: str, column: Mapping[str, Any], type_: ColumnType) -> Default | None:
        if column.get("identity") or column.get("autoincrement") is True:
            return Default(DefaultKind.IDENTITY)
        computed = column.get("computed")
        if computed:
            if not computed.get("persisted"):
                self.refuse(f"Computed column {label}", "Declare it STORED, or compute in queries.")
            place = Place(f"{self.place.file}, {label}")
            generated = read_expression(computed["sqltext"], place)
            return Default(DefaultKind.GENERATED, sql=generated.sql)
        text = column["default"]
        if text is None:
            return None
        place = Place(f"{self.place.file}, {label}")
        try:
            written = partial(read_expression, text, place)
            return read_default(parse_one(text, dialect="postgres"), type_, place, written)
        except SqlglotError:
            raise place.error(
                f"Default {text} is not supported.", cure="Change it, or write a DDL file."
            ) from None

    def foreign_key(self, table: str, key: Mapping[str, Any]) -> ForeignKeyDraft:
        options = {option: str(value).upper() for option, value in key["options"].items() if value}
        actions = []
        for event in ("delete", "update"):
            action = options.get(f"on{event}", "NO ACTION")
            if action not in _ACTIONS:
                cure = f"Use {', '.join(_ACTIONS)}."
                self.refuse(f"ON {event.upper()} {action} of {table}", cure)
            actions.append(_ACTIONS[action])
        if key["referred_schema"]:
            parent = f"{key['referred_schema']}.{key['referred_table']}"
            self.refuse(f"{table}'s reference to {parent}", "Relations live in one schema.")
        return ForeignKeyDraft(
            self.name(key["name"]) if key["name"] else None,
            self.names(key["constrained_columns"]),
            self.name(key["referred_table"]),
            self.names(key["referred_columns"]),
            *actions,
        )

    def indexes(self, table: str) -> Iterator[IndexDraft]:
        for constraint in self.unique_constraints(table):
            label = self.name(constraint["name"]) if constraint["name"] else None
            columns = tuple((name, False) for name in self.names(constraint["column_names"]))
            yield IndexDraft(label, self.name(table), columns, unique=True)
        for index in self.created_indexes(table):
            if not index.get("duplicates_constraint"):
                yield self.index(table, index)

    def index(self, table: str, index: Mapping[str, Any]) -> IndexDraft:
        options = {key.partition("_")[2]: v for key, v in index["dialect_options"].items()}
        if options.get("using", "btree") != "btree":
            self.refuse(f"{options['using']} index {index['name']} of {table}", "Use a btree.")
        sorting, place = index.get("column_sorting", {}), self.place
        names = index["column_names"]
        columns = tuple(
            (
                read_expression(text, place) if name is None else self.name(name),
                "desc" in sorting.get(text, ()),
            )
            for name, text in zip(names, index.get("expressions", names), strict=True)
        )
        where = options.get("where")
        return IndexDraft(
            self.name(index["name"]),
            self.name(table),
            columns,
            self.names(options.get("include", [])),
            bool(index["unique"]),
            None if where is None else read_expression(str(where), place),
        )


@dataclass(frozen=True, slots=True)
class _SqliteReflection(_Reflection):
    """The inspector's results, corrected by SQLite's own table-valued pragmas."""

    def pragma(self, pragma: str, name: str) -> list[sa.RowMapping]:
        query = sa.text(f"SELECT * FROM pragma_{pragma}(:name)")
        return list(self.connection.execute(query, {"name": name}).mappings())

    def columns(self, table: str) -> list[dict[str, Any]]:
        """The columns with the declared types. SQLite accepts any word as a type, and SQLAlchemy
        replaces an unknown word by a guess."""
        known = self.connection.dialect.ischema_names  # type: ignore[attr-defined]
        declared = {row["name"]: row["type"] for row in self.pragma("table_xinfo", table)}
        columns = _Reflection.columns(self, table)
        for column in columns:
            text = declared[column["name"]]
            if text.split("(")[0].strip().upper() not in known:
                column["type"] = text
            if computed := column.get("computed"):  # SQLAlchemy reads on behind the expression
                column["computed"] = computed | {"sqltext": until_closed(computed["sqltext"])}
        return columns

    def foreign_keys(self, table: str) -> list[dict[str, Any]]:
        actions: dict[int, Mapping[str, Any]] = {}
        columns: dict[int, list[str]] = {}
        for row in sorted(self.pragma("foreign_key_list", table), key=lambda row: row["seq"]):
            actions[row["id"]] = {"onupdate": row["on_update"], "ondelete": row["on_delete"]}
            columns.setdefault(row["id"], []).append(row["from"])
        by_columns = {tuple(names): actions[number] for number, names in columns.items()}
        keys = _Reflection.foreign_keys(self, table)
        return [{**k, "options": by_columns[tuple(k["constrained_columns"])]} for k in keys]

    def unique_constraints(self, table: str) -> list[dict[str, Any]]:
        found = _Reflection.unique_constraints(self, table)
        names = {tuple(constraint["column_names"]): constraint["name"] for constraint in found}
        rows = sorted(self.pragma("index_list", table), key=lambda row: -row["seq"])
        made = [self.pragma("index_info", row["name"]) for row in rows if row["origin"] == "u"]
        columns = [tuple(part["name"] for part in parts) for parts in made]
        return [{"name": names.get(each), "column_names": list(each)} for each in columns]

    def created_indexes(self, table: str) -> list[dict[str, Any]]:
        indexes = _Reflection.created_indexes(self, table)
        for index in indexes:
            parts = self.pragma("index_xinfo", index["name"])
            index["column_sorting"] = {p["name"]: ("desc",) for p in parts if p["desc"]}
        return indexes


_ACTIONS = {"NO ACTION": Action.RESTRICT, **{action.value.upper(): action for action in Action}}


def _postgres_name(type_: TypeEngine[Any]) -> str:
    """The type's name in the dialect that `read_type` reads, without its collation."""
    generic = type_.as_generic()
    if isinstance(generic, sa.String) and not isinstance(generic, sa.Enum):
        generic.collation = None
    return generic.compile(dialect=_POSTGRES)
