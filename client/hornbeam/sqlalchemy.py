"""SQLAlchemy 2.1 dialect: `hornbeam://host:port`, `hornbeam:///folder`.

SQL is DuckDB's with `?` parameters. Transactions are optimistic (`connection.py`), with the
isolation levels of PostgreSQL. A retryable abort raises OperationalError. CREATE, DROP and ALTER
TABLE … ADD plan and apply the whole schema (`ddl.py`), so `create_all` works. They take effect at
once. Reflection reads `GET /v1/schema`. Stored views are reflected as materialised views.

`insert` and `distinct_on` are PostgreSQL's constructs, for ON CONFLICT and DISTINCT ON.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sqlalchemy import exc, schema, sql, types, util
from sqlalchemy.dialects.postgresql import distinct_on, insert
from sqlalchemy.dialects.postgresql.base import PGCompiler
from sqlalchemy.dialects.sqlite.base import SQLiteCompiler
from sqlalchemy.engine import default, reflection
from sqlalchemy.engine.interfaces import (
    Dialect,
    IsolationLevel,
    ReflectedCheckConstraint,
    ReflectedColumn,
    ReflectedForeignKeyConstraint,
    ReflectedIndex,
    ReflectedPrimaryKeyConstraint,
    ReflectedTableComment,
    ReflectedUniqueConstraint,
)
from sqlalchemy.engine.url import URL
from sqlalchemy.sql import compiler, sqltypes
from sqlalchemy.sql.compiler import InsertmanyvaluesSentinelOpts

from hornbeam.isolation import LEVELS
from hornbeam.namespaces import PUBLIC, parted
from hornbeam.sqlalchemy_ddl import HornbeamDDLCompiler
from hornbeam.sqlalchemy_sequences import (
    HornbeamExecutionContext,
    SequenceCompiler,
    SequenceReflection,
)
from hornbeam.sqlalchemy_types import (
    Float,
    HornbeamTypeCompiler,
    Interval,
    JsonIndex,
    JsonPath,
    Numeric,
    column_type,
    domain_type,
)

__all__ = ["HornbeamDialect", "distinct_on", "insert"]


class HornbeamCompiler(SequenceCompiler):
    """Renders SQL in DuckDB's dialect."""

    visit_on_conflict_do_nothing = SQLiteCompiler.visit_on_conflict_do_nothing
    visit_on_conflict_do_update = SQLiteCompiler.visit_on_conflict_do_update

    def _on_conflict_target(self, clause: Any, **kw: Any) -> str:
        constraint = getattr(clause, "constraint_target", None)
        if constraint is not None:
            return f"ON CONSTRAINT {self.preparer.quote(constraint)}"
        borrowed: Any = SQLiteCompiler._on_conflict_target
        return str(borrowed(self, clause, **kw))

    def get_select_precolumns(self, select: Any, **kw: Any) -> str:
        """DISTINCT and DISTINCT ON, as for PostgreSQL."""
        borrowed: Any = PGCompiler.get_select_precolumns
        return str(borrowed(self, select, **kw))

    def visit_postgresql_distinct_on(self, element: Any, **kw: Any) -> str:
        borrowed: Any = PGCompiler.visit_postgresql_distinct_on
        return str(borrowed(self, element, **kw))

    def fetch_clause(self, select: Any, **kw: Any) -> str:  # type: ignore[override]
        """FETCH FIRST as LIMIT, unless it has WITH TIES."""
        options = select._fetch_clause_options
        if options["percent"]:
            raise exc.CompileError("FETCH FIRST has no PERCENT.")
        if options["with_ties"]:
            behind = self._limit_and_offset(None, select._offset_clause, kw)
            number = self.process(select._fetch_clause, **kw)
            return f"{behind}\n FETCH FIRST ({number}) ROWS WITH TIES"
        return self._limit_and_offset(select._fetch_clause, select._offset_clause, kw)

    def limit_clause(self, select: Any, **kw: Any) -> str:
        return self._limit_and_offset(select._limit_clause, select._offset_clause, kw)

    def _limit_and_offset(self, limit: Any, offset: Any, kw: dict[str, Any]) -> str:
        clauses = (("LIMIT", limit), ("OFFSET", offset))
        return "".join(
            f"\n {word} {self.process(value, **kw)}" for word, value in clauses if value is not None
        )

    def for_update_clause(self, select: Any, **kw: Any) -> str:
        borrowed: Any = PGCompiler.for_update_clause
        return str(borrowed(self, select, **kw))

    def update_from_clause(
        self, update_stmt: Any, from_table: Any, extra_froms: Any, from_hints: Any, **kw: Any
    ) -> str:
        return f"FROM {self._listed_froms(extra_froms, from_hints, kw)}"

    def delete_extra_from_clause(
        self, delete_stmt: Any, from_table: Any, extra_froms: Any, from_hints: Any, **kw: Any
    ) -> str:
        return f"USING {self._listed_froms(extra_froms, from_hints, kw)}"

    def _listed_froms(self, froms: Any, hints: Any, kw: dict[str, Any]) -> str:
        options = {**kw, "asfrom": True, "fromhints": hints}
        return ", ".join(each._compiler_dispatch(self, **options) for each in froms)

    def visit_empty_set_expr(self, element_types: Any, **kw: Any) -> str:
        columns = ", ".join("1" for _ in element_types or [None])
        return f"SELECT {columns} WHERE 1 <> 1"

    def visit_regexp_match_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        left, right = self.process(binary.left, **kw), self.process(binary.right, **kw)
        return f"regexp_matches({left}, {right})"

    def visit_not_regexp_match_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        return f"NOT {self.visit_regexp_match_op_binary(binary, operator, **kw)}"

    def visit_regexp_replace_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        """regexp_replace; the flag "g" replaces all matches."""
        borrowed: Any = PGCompiler.visit_regexp_replace_op_binary
        return str(borrowed(self, binary, operator, **kw))

    def visit_json_getitem_op_binary(
        self, binary: Any, operator: Any, _cast: bool = False, **kw: Any
    ) -> str:
        """JSON by default. If `as_string()` or the like requests another type, text is cast to
        it."""
        if not _cast and binary.type._type_affinity is not types.JSON:
            return self.process(sql.cast(binary, binary.type), _cast=True, **kw)
        left, right = self.process(binary.left, **kw), self.process(binary.right, **kw)
        return f"{'json_extract_string' if _cast else 'json_extract'}({left}, {right})"

    visit_json_path_getitem_op_binary = visit_json_getitem_op_binary

    def visit_custom_op_binary(self, element: Any, operator: Any, **kw: Any) -> str:
        """`astext` of JSON takes the same paths as its other members."""
        if operator.opstring in ("->>", "#>>"):
            left, right = self.process(element.left, **kw), self.process(element.right, **kw)
            return f"json_extract_string({left}, {right})"
        inherited: Any = super().visit_custom_op_binary
        return str(inherited(element, operator, **kw))

    def visit_array(self, element: Any, **kw: Any) -> str:
        listed: Any = self.visit_clauselist
        elements = listed(element, **kw)
        empty = f"::{self.dialect.type_compiler_instance.process(element.type)}"
        return f"ARRAY[{elements}]{'' if element.clauses else empty}"

    def visit_slice(self, element: Any, **kw: Any) -> str:
        return f"{self.process(element.start, **kw)}:{self.process(element.stop, **kw)}"

    def visit_getitem_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        return f"{self.process(binary.left, **kw)}[{self.process(binary.right, **kw)}]"

    def visit_aggregate_strings_func(self, fn: Any, **kw: Any) -> str:
        inherited: Any = super().visit_aggregate_strings_func
        return str(inherited(fn, use_function_name="string_agg", **kw))

    def visit_bitwise_xor_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        return f"xor({self.process(binary.left, **kw)}, {self.process(binary.right, **kw)})"


class HornbeamPreparer(compiler.IdentifierPreparer):
    """Renders names, which fold to lower case unless quoted."""

    reserved_words = compiler.RESERVED_WORDS | {
        "exclude", "group", "index", "key", "order", "pivot", "primary", "qualify", "values",
    }  # fmt: skip


class HornbeamDialect(SequenceReflection, default.DefaultDialect):
    """The dialect. `driver` is always "http", also for an embedded database."""

    name = "hornbeam"
    driver = "http"
    default_paramstyle = "qmark"
    max_identifier_length = 255
    delete_returning = insert_returning = update_returning = True
    delete_returning_multifrom = update_returning_multifrom = True
    insertmanyvalues_implicit_sentinel = InsertmanyvaluesSentinelOpts.ANY_AUTOINCREMENT
    postfetch_lastrowid = False
    supports_alter = True
    supports_comments = True
    supports_constraint_comments = True
    supports_default_metavalue = True
    supports_default_values = True
    supports_empty_insert = False
    supports_identity_columns = True
    supports_multivalues_insert = True
    supports_native_boolean = True
    supports_native_decimal = True
    supports_native_uuid = True
    supports_sane_multi_rowcount = True
    supports_sane_rowcount = True
    supports_sequences = True
    sequences_optional = True
    supports_statement_cache = True
    tuple_in_values = False
    use_insertmanyvalues = True
    execution_ctx_cls = HornbeamExecutionContext
    statement_compiler = HornbeamCompiler
    ddl_compiler = HornbeamDDLCompiler
    type_compiler_cls = HornbeamTypeCompiler
    preparer = HornbeamPreparer
    colspecs = {  # noqa: RUF012
        sqltypes.Numeric: Numeric,
        sqltypes.Float: Float,
        sqltypes.JSON.JSONIndexType: JsonIndex,
        sqltypes.JSON.JSONPathType: JsonPath,
        sqltypes.Interval: Interval,
    }
    construct_arguments = [  # noqa: RUF012
        (schema.Index, {"include": None, "where": None, "nulls_not_distinct": None}),
        (schema.UniqueConstraint, {"nulls_not_distinct": None}),
    ]

    def __init__(
        self,
        json_serializer: Callable[[Any], str] | None = None,
        json_deserializer: Callable[[str], Any] | None = None,
        **options: Any,
    ) -> None:
        """`json_serializer` and `json_deserializer` convert the values of JSON columns, instead of
        the functions of `json`."""
        super().__init__(**options)
        self._json_serializer = json_serializer
        self._json_deserializer = json_deserializer

    # ------------------------------------------------------------ connections

    @classmethod
    def import_dbapi(cls) -> Any:
        import hornbeam

        return hornbeam

    @classmethod
    def get_async_dialect_cls(cls, url: URL) -> type[Dialect]:
        """The dialect for `create_async_engine`."""
        from hornbeam.sqlalchemy_asyncio import HornbeamAsyncDialect

        return HornbeamAsyncDialect

    def create_connect_args(self, url: URL) -> tuple[list[str], dict[str, Any]]:
        """The URL for the driver. The password is the API key; there is no user name."""
        plain = URL.create(
            "hornbeam",
            username=url.username or ("" if url.password else None),
            password=url.password,
            host=url.host,
            port=url.port,
            database=url.database,
            query=url.query,
        )
        return [plain.render_as_string(hide_password=False)], {}

    def _get_default_schema_name(self, connection: Any) -> str:
        """The first schema of the search path that exists. `public` always does."""
        if _driver(connection).search_path[:1] == (PUBLIC,):
            return PUBLIC
        return str(connection.exec_driver_sql("SELECT current_schema()").scalar())

    def get_isolation_level_values(self, dbapi_connection: Any) -> Sequence[IsolationLevel]:
        return [*LEVELS, "AUTOCOMMIT"]  # type: ignore[list-item]

    def get_default_isolation_level(self, dbapi_conn: Any) -> IsolationLevel:
        return self.get_isolation_level(dbapi_conn)

    def get_isolation_level(self, dbapi_connection: Any) -> IsolationLevel:
        level: IsolationLevel = dbapi_connection.isolation
        return "AUTOCOMMIT" if dbapi_connection.autocommit else level

    def set_isolation_level(self, dbapi_connection: Any, level: str) -> None:
        dbapi_connection.autocommit = level == "AUTOCOMMIT"
        if level != "AUTOCOMMIT":
            dbapi_connection.isolation = level

    def detect_autocommit_setting(self, dbapi_conn: Any) -> bool:
        return bool(dbapi_conn.autocommit)

    def do_ping(self, dbapi_connection: Any) -> bool:
        dbapi_connection.ping()
        return True

    def is_disconnect(self, e: Any, connection: Any, cursor: Any) -> bool:
        """Always False: the server holds no state of a connection, so it survives a restart."""
        return False

    def do_savepoint(self, connection: Any, name: str) -> None:
        _driver(connection).savepoint(name)

    def do_rollback_to_savepoint(self, connection: Any, name: str) -> None:
        _driver(connection).rollback_to(name)

    def do_release_savepoint(self, connection: Any, name: str) -> None:
        _driver(connection).release(name)

    # ------------------------------------------------------------ reflection

    @reflection.cache
    def _document(self, connection: Any, **kw: Any) -> dict[str, Any]:
        document: dict[str, Any] = _driver(connection).schema_document()
        return document

    def _known(self, connection: Any, name: str, schema: str | None, **kw: Any) -> dict[str, Any]:
        """The relation's or view's document. Without a schema it is searched for along the search
        path. Raises NoSuchTableError."""
        document = self._document(connection, **_cache(kw))
        things = (*document["relations"], *document["views"], *document["plain_views"])
        found = {parted(thing["name"], document["schemas"]): thing for thing in things}
        for space in _searched(connection, schema):
            if (space, name) in found:
                return dict(found[space, name])
        raise exc.NoSuchTableError(name if schema is None else f"{schema}.{name}")

    def get_schema_names(self, connection: Any, **kw: Any) -> list[str]:
        return list(self._document(connection, **_cache(kw))["schemas"])

    def get_table_names(self, connection: Any, schema: str | None = None, **kw: Any) -> list[str]:
        return self._names(connection, "relations", schema, **kw)

    def get_view_names(self, connection: Any, schema: str | None = None, **kw: Any) -> list[str]:
        return self._names(connection, "plain_views", schema, **kw)

    def get_materialized_view_names(
        self, connection: Any, schema: str | None = None, **kw: Any
    ) -> list[str]:
        return self._names(connection, "views", schema, **kw)

    def get_view_definition(
        self, connection: Any, view_name: str, schema: str | None = None, **kw: Any
    ) -> str:
        """The SELECT of a declared view; empty for a join view, which has none. Raises
        NoSuchTableError for a relation."""
        thing = self._known(connection, view_name, schema, **kw)
        if "primary_key" in thing:
            raise exc.NoSuchTableError(view_name)
        declared = thing.get("deferred") or thing.get("immediate") or thing
        return str(declared.get("sql", ""))

    def _names(self, connection: Any, what: str, schema: str | None, **kw: Any) -> list[str]:
        document = self._document(connection, **_cache(kw))
        searched = _searched(connection, schema)
        found = (parted(thing["name"], document["schemas"]) for thing in document[what])
        return list(dict.fromkeys(name for space, name in found if space in searched))

    def has_table(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> bool:
        try:
            self._known(connection, table_name, schema, **kw)
        except exc.NoSuchTableError:
            return False
        return True

    def get_columns(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[ReflectedColumn]:
        thing = self._known(connection, table_name, schema, **kw)
        return [_reflected_column(column) for column in thing["columns"]]

    def get_pk_constraint(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> ReflectedPrimaryKeyConstraint:
        """The primary key; of a view, the columns under which its rows are found, if all of them
        can be read."""
        thing = self._known(connection, table_name, schema, **kw)
        key = thing.get("primary_key", thing.get("key", []))
        shown = {column["name"] for column in thing["columns"]}
        columns = key if shown.issuperset(key) else []
        return {
            "constrained_columns": columns,
            "name": thing.get("primary_key_name"),
            "comment": thing.get("primary_key_comment"),
        }

    def get_foreign_keys(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[ReflectedForeignKeyConstraint]:
        thing = self._known(connection, table_name, schema, **kw)
        document, path = self._document(connection, **_cache(kw)), _searched(connection, None)
        parents = {
            key["parent"]: parted(key["parent"], document["schemas"])
            for key in thing.get("foreign_keys", [])
        }
        return [
            {
                "name": key["name"],
                "constrained_columns": key["columns"],
                "referred_schema": _named_schema(parents[key["parent"]][0], schema, path),
                "referred_table": parents[key["parent"]][1],
                "referred_columns": key["parent_columns"],
                "options": {
                    option: key[action].upper()
                    for option, action in (("ondelete", "on_delete"), ("onupdate", "on_update"))
                    if key.get(action, "restrict") != "restrict"
                },
                "comment": key.get("comment"),
            }
            for key in _by_name(thing.get("foreign_keys", []))
        ]

    def get_indexes(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[ReflectedIndex]:
        """The declared indexes. `hornbeam schema show` also lists the indexes that planning
        creates. An index on a view has all of its columns, without saying INCLUDE."""
        relation = "primary_key" in self._known(connection, table_name, schema, **kw)
        return [
            _reflected_index(index, index["include"] if relation else [])
            for index in self._declared(connection, table_name, schema, **kw)
        ]

    def get_unique_constraints(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[ReflectedUniqueConstraint]:
        """The UNIQUE constraints. Each is a unique index with the same name."""
        return [
            {
                "name": index["name"],
                "column_names": [part["column"] for part in index["columns"]],
                "duplicates_index": index["name"],
                "dialect_options": {}
                if index["nulls_distinct"]
                else {"hornbeam_nulls_not_distinct": True},
                "comment": index.get("constraint_comment"),
            }
            for index in self._declared(connection, table_name, schema, **kw)
            if index["unique"] and not index["where"] and not index["expressions"]
        ]

    def _declared(
        self, connection: Any, name: str, schema: str | None, **kw: Any
    ) -> list[dict[str, Any]]:
        thing = self._known(connection, name, schema, **kw)
        document = self._document(connection, **_cache(kw))
        return _by_name(
            index | {"name": parted(index["name"], document["schemas"])[1]}
            for index in document["indexes"]
            if index["on"] == thing["name"] and index["purpose"] == "declared"
        )

    def get_check_constraints(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[ReflectedCheckConstraint]:
        thing = self._known(connection, table_name, schema, **kw)
        return [
            {"name": check["name"], "sqltext": check["sql"], "comment": check.get("comment")}
            for check in _by_name(thing.get("checks", []))
        ]

    def get_table_comment(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> ReflectedTableComment:
        thing = self._known(connection, table_name, schema, **kw)
        return {"text": thing.get("comment")}

    def get_table_options(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> dict[str, Any]:
        self._known(connection, table_name, schema, **kw)
        return {}


def _by_name(documents: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Documents of constraints or indexes in the order of their names, as tools expect."""
    return sorted(documents, key=lambda document: str(document["name"]))


def _driver(connection: Any) -> Any:
    """The driver's connection below a SQLAlchemy connection."""
    return connection.connection.dbapi_connection


def _searched(connection: Any, schema: str | None) -> tuple[str, ...]:
    """The schemas in which names are searched for: `schema`, or those of the search path."""
    return tuple(_driver(connection).search_path) if schema is None else (schema,)


def _named_schema(space: str, schema: str | None, path: Sequence[str]) -> str | None:
    """The schema by which a foreign key of a table in `schema` names its parent in `space`. As
    with PostgreSQL, None if the search path finds the parent, and the schema is another one."""
    return None if space in path and space != schema else space


def _cache(kw: dict[str, Any]) -> dict[str, Any]:
    return {"info_cache": kw["info_cache"]} if "info_cache" in kw else {}


def _reflected_index(index: dict[str, Any], include: list[str]) -> ReflectedIndex:
    expressions = {each["column"]: _enclosed(each["sql"]) for each in index["expressions"]}
    names = [part["column"] for part in index["columns"]]
    texts = [expressions.get(name, name) for name in names]
    options: dict[str, Any] = {"hornbeam_include": include}
    if not index["nulls_distinct"]:
        options["hornbeam_nulls_not_distinct"] = True
    reflected: ReflectedIndex = {
        "name": index["name"],
        "column_names": [None if name in expressions else name for name in names],
        "unique": index["unique"],
        "dialect_options": options | ({"hornbeam_where": index["where"]} if index["where"] else {}),
    }
    if expressions:
        reflected["expressions"] = texts
    sorting = {
        text: ("desc",)
        for text, part in zip(texts, index["columns"], strict=True)
        if part["descending"]
    }
    if sorting:
        reflected["column_sorting"] = sorting
    return reflected


def _enclosed(sql: str) -> str:
    """An expression as CREATE INDEX takes it: in parentheses, unless it calls a function."""
    return sql if re.fullmatch(r"\w+\((?:[^()]|\([^()]*\))*\)", sql) else f"({sql})"


def _reflected_column(column: dict[str, Any]) -> ReflectedColumn:
    kind = column.get("default")
    type_ = column_type(column.get("declared", column["type"]), column.get("labels"))
    reflected: ReflectedColumn = {
        "name": column["name"],
        "type": type_ if "domain" not in column else domain_type(type_, **column["domain"]),
        "nullable": column.get("nullable", True),
        "default": {"now": "CURRENT_TIMESTAMP"}.get(kind or "", column.get("default_sql")),
        "comment": column.get("comment"),
    }
    if kind == "identity":
        reflected["autoincrement"] = True
        reflected["identity"] = util.EMPTY_DICT | column["identity"]
    if kind == "generated":
        reflected["computed"] = {"sqltext": column["generated"], "persisted": True}
    return reflected
