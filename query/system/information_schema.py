"""The information schema of the SQL standard: relations about the schema in force, to be read only.

Columns have PostgreSQL's names, and are those that tools read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sqlglot import exp

from hornbeam_server.query.dialect.grammar import read_expression
from hornbeam_server.query.system.definitions import shown_views
from hornbeam_server.query.system.objects import objects_of
from hornbeam_server.query.system.shapes import INTEGER, TEXT, SystemRelation
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.domains import domain_of, own_of
from hornbeam_server.schema.model import (
    DATABASE,
    INFORMATION_SCHEMA,
    PUBLIC,
    Column,
    DefaultKind,
    ForeignKey,
    Identity,
    OfDomain,
    Relation,
    sequence_of_column,
)
from hornbeam_server.schema.namespaces import bare, key_name, parted
from hornbeam_server.schema.render import render_default
from hornbeam_server.schema.seconds import SECOND_DIGITS
from hornbeam_server.schema.sequences import default_bounds
from hornbeam_server.schema.trees import nodes_of, unlink
from hornbeam_server.schema.types import (
    MOMENTS,
    REAL,
    ColumnType,
    Declared,
    Kind,
    Value,
    enumeration_of,
)

_Row = tuple[Value, ...]


def is_of_postgresql(name: str) -> bool:
    """Is it a relation of PostgreSQL's information schema, which Hornbeam's may lack?"""
    return name in _OF_POSTGRESQL


_OF_POSTGRESQL = frozenset({
    "administrable_role_authorizations", "applicable_roles", "attributes", "character_sets",
    "check_constraint_routine_usage", "collation_character_set_applicability", "collations",
    "column_column_usage", "column_options",
    "column_udt_usage", "constraint_table_usage", "data_type_privileges",
    "domain_udt_usage", "element_types",
    "foreign_data_wrapper_options", "foreign_data_wrappers", "foreign_server_options",
    "foreign_servers", "foreign_table_options", "foreign_tables",
    "information_schema_catalog_name", "parameters", "role_routine_grants",
    "role_udt_grants", "routine_column_usage",
    "routine_privileges", "routine_routine_usage", "routine_sequence_usage",
    "routine_table_usage", "routines", "transforms",
    "triggered_update_columns", "triggers", "udt_privileges",
    "user_defined_types", "user_mapping_options", "user_mappings", "view_column_usage",
    "view_routine_usage", "view_table_usage",
})  # fmt: skip
"""The relations about what Hornbeam does not have, such as roles, functions and triggers."""


def named_relations(catalog: Catalog) -> Iterator[tuple[str, str, Sequence[Column]]]:
    """Relations and readable views: name, kind, columns."""
    for relation in catalog.schema.relations:
        yield relation.name, "BASE TABLE", relation.visible
    for name in catalog.all_views:
        if catalog.readable(name):
            yield name, "VIEW", catalog.visible(name)
    for view in catalog.plain:
        yield view.name, "VIEW", view.columns


def placed(full: str, catalog: Catalog) -> tuple[str, str, str]:
    """The database, the schema and the name of a full name."""
    return DATABASE, *parted(full, catalog.schema.spaces)


def _constraint(relation: str, name: str, catalog: Catalog) -> tuple[str, str, str]:
    """The database, the schema and the name of a constraint of a relation."""
    return (*placed(relation, catalog)[:2], bare(name, catalog.schema.spaces))


def _tables(catalog: Catalog) -> Iterator[_Row]:
    for name, kind, _ in named_relations(catalog):
        yield *placed(name, catalog), kind, "YES" if kind == "BASE TABLE" else "NO"


def _columns(catalog: Catalog) -> Iterator[_Row]:
    for name, _, columns in named_relations(catalog):
        for number, column in enumerate(columns, start=1):
            yield *placed(name, catalog), column.name, number, *_described(column, catalog)


def _described(column: Column, catalog: Catalog) -> _Row:
    type_, default = column.type, own_of(column).default
    below = _below(column.domain, catalog)
    identity = column.default_kind is DefaultKind.IDENTITY
    generated = column.default_kind is DefaultKind.GENERATED
    return (
        None if default is None else render_default(default),
        "YES" if column.nullable else "NO",
        *_type(type_, below),
        *((None,) * 3 if column.domain is None else placed(column.domain.name, catalog)),
        *(_udt(type_) if below is None else placed(below, catalog)),
        "YES" if identity else "NO",
        None if not identity or default is None else _GENERATION[default.identity.always],
        "ALWAYS" if generated else "NEVER",
        default.sql if generated and default is not None else None,
    )


def _below(domain: OfDomain | None, catalog: Catalog) -> str | None:
    """The domain of the values of a domain."""
    value = None if domain is None else domain_of(catalog.schema, domain.name).value
    return None if value is None or value.domain is None else value.domain.name


def _type(type_: ColumnType, domain: str | None = None) -> _Row:
    """The type by its name and its sizes. One of a domain is known by the name of the domain."""
    if domain is not None:
        return "USER-DEFINED", *(None,) * 5
    length = type_.length if type_.kind is Kind.TEXT else None
    return _type_names(type_)[0], length, *_numeric(type_), _second_digits(type_)


def _udt(type_: ColumnType) -> _Row:
    """The database, the schema and PostgreSQL's internal name of a type."""
    labels = enumeration_of(type_)
    space = "pg_catalog" if labels is None else labels.space or PUBLIC
    return DATABASE, space, _type_names(type_)[1]


def _type_names(type_: ColumnType) -> tuple[str, str]:
    """The name of a type, and PostgreSQL's internal name."""
    if type_.element is not None:
        return "ARRAY", f"_{_type_names(type_.element)[1]}"
    if type_.enumeration is not None:
        return "USER-DEFINED", type_.enumeration.name
    if type_.declared is Declared.SMALLINT:
        return "smallint", "int2"
    if type_.declared is Declared.JSONB:
        return "jsonb", "jsonb"
    if type_ == REAL:
        return "real", "float4"
    if type_.declared is Declared.CHAR:
        return "character", "bpchar"
    if type_.kind is Kind.TEXT and type_.length is not None:
        return "character varying", "varchar"
    return _TYPES[type_.kind]


_GENERATION = {True: "ALWAYS", False: "BY DEFAULT"}
_TYPES: dict[Kind, tuple[str, str]] = {
    Kind.INTEGER: ("integer", "int4"),
    Kind.BIGINT: ("bigint", "int8"),
    Kind.DECIMAL: ("numeric", "numeric"),
    Kind.DOUBLE: ("double precision", "float8"),
    Kind.BOOLEAN: ("boolean", "bool"),
    Kind.TEXT: ("text", "text"),
    Kind.BYTES: ("bytea", "bytea"),
    Kind.DATE: ("date", "date"),
    Kind.TIME: ("time without time zone", "time"),
    Kind.TIMESTAMP: ("timestamp without time zone", "timestamp"),
    Kind.TIMESTAMPTZ: ("timestamp with time zone", "timestamptz"),
    Kind.INTERVAL: ("interval", "interval"),
    Kind.UUID: ("uuid", "uuid"),
    Kind.JSON: ("json", "json"),
}
_BITS = {Kind.INTEGER: 32, Kind.BIGINT: 64, Kind.DOUBLE: 53}
_DECLARED_BITS: dict[Declared | None, int] = {Declared.SMALLINT: 16, Declared.REAL: 24}


def _second_digits(type_: ColumnType) -> int | None:
    if type_.kind is Kind.INTERVAL:
        return SECOND_DIGITS
    if type_.kind not in MOMENTS:
        return 0 if type_.kind is Kind.DATE else None
    return SECOND_DIGITS if type_.precision is None else type_.precision


def _numeric(type_: ColumnType) -> tuple[int | None, int | None, int | None]:
    """(precision, its radix, scale)."""
    if type_.kind is Kind.DECIMAL:
        return type_.precision, 10, type_.scale or 0
    bits = _DECLARED_BITS.get(type_.declared) or _BITS.get(type_.kind)
    return bits, None if bits is None else 2, None if type_.kind not in _BITS else 0


def _keys(relation: Relation, catalog: Catalog) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """The constraints of a relation that have columns: name, type, columns."""
    if relation.declared_key:
        yield key_name(relation, catalog.schema.spaces), "PRIMARY KEY", relation.declared_key
    for index in catalog.schema.indexes:
        if index.relation == relation.name and index.unique and not index.expressions:
            yield index.name, "UNIQUE", tuple(part.column for part in index.columns)
    for key in relation.foreign_keys:
        yield key.name, "FOREIGN KEY", key.columns


def _table_constraints(catalog: Catalog) -> Iterator[_Row]:
    for relation in catalog.schema.relations:
        named = [(name, kind) for name, kind, _ in _keys(relation, catalog)]
        named += [(check.name, "CHECK") for check in relation.own_checks]
        for name, kind in named:
            constraint = _constraint(relation.name, name, catalog)
            yield *constraint, *placed(relation.name, catalog), kind, "NO", "NO"


def _check_constraints(catalog: Catalog) -> Iterator[_Row]:
    for relation in catalog.schema.relations:
        for check in relation.own_checks:
            yield *_constraint(relation.name, check.name, catalog), check.sql
    for domain in catalog.schema.domains:
        for check in domain.checks:
            yield *_constraint(domain.name, check.name, catalog), check.sql


def _domains(catalog: Catalog) -> Iterator[_Row]:
    for domain in catalog.schema.domains:
        default = own_of(domain.value).default
        shown = None if default is None else render_default(default)
        type_, of = domain.value.type, domain.value.domain
        below = None if of is None else of.name
        udt = _udt(type_) if below is None else placed(below, catalog)
        yield *placed(domain.name, catalog), shown, *_type(type_, below), *udt


def _domain_constraints(catalog: Catalog) -> Iterator[_Row]:
    for domain in catalog.schema.domains:
        for check in domain.checks:
            constraint = _constraint(domain.name, check.name, catalog)
            yield *constraint, *placed(domain.name, catalog), "NO", "NO"


def _column_domain_usage(catalog: Catalog) -> Iterator[_Row]:
    for name, _, columns in named_relations(catalog):
        for column in columns:
            if column.domain is not None:
                domain = placed(column.domain.name, catalog)
                yield *domain, *placed(name, catalog), column.name


def _key_column_usage(catalog: Catalog) -> Iterator[_Row]:
    for relation in catalog.schema.relations:
        for name, kind, columns in _keys(relation, catalog):
            for number, column in enumerate(columns, start=1):
                position = number if kind == "FOREIGN KEY" else None
                place = *placed(relation.name, catalog), column
                yield *_constraint(relation.name, name, catalog), *place, number, position


def _referential_constraints(catalog: Catalog) -> Iterator[_Row]:
    for relation in catalog.schema.relations:
        for key in relation.foreign_keys:
            parent = _constraint(key.parent, _referenced(key, catalog), catalog)
            rules = "NONE", key.on_update.value.upper(), key.on_delete.value.upper()
            yield *_constraint(relation.name, key.name, catalog), *parent, *rules


def _referenced(key: ForeignKey, catalog: Catalog) -> str:
    """The name of the primary key or UNIQUE constraint that a foreign key references."""
    if key.to_unique:
        return catalog.unique_index(key).name
    return key_name(catalog.schema.relation(key.parent), catalog.schema.spaces)


def _constraint_column_usage(catalog: Catalog) -> Iterator[_Row]:
    for relation in catalog.schema.relations:
        for name, kind, columns in _keys(relation, catalog):
            if kind != "FOREIGN KEY":
                for column in columns:
                    place = *placed(relation.name, catalog), column
                    yield *place, *_constraint(relation.name, name, catalog)
        for key in relation.foreign_keys:
            for column in key.parent_columns:
                constraint = _constraint(relation.name, key.name, catalog)
                yield *placed(key.parent, catalog), column, *constraint
        for check in relation.own_checks:
            for column in columns_in(check.sql, relation.visible_names):
                constraint = _constraint(relation.name, check.name, catalog)
                yield *placed(relation.name, catalog), column, *constraint


def columns_in(sql: str, names: Sequence[str]) -> Sequence[str]:
    """Those of `names`, the columns of a relation, that an expression reads."""
    tree = read_expression(sql)
    read = (column.this for column in nodes_of(tree, exp.Column))
    named = {each.name if each.args.get("quoted") else each.name.lower() for each in read}
    unlink(tree)
    return [name for name in names if name in named]


def _views(catalog: Catalog) -> Iterator[_Row]:
    declared = shown_views(objects_of(catalog))
    for name, kind, _ in named_relations(catalog):
        if kind == "VIEW":
            yield *placed(name, catalog), declared.get(name), "NONE", "NO", "NO"


def _sequences(catalog: Catalog) -> Iterator[_Row]:
    for relation in catalog.schema.relations:
        for column in relation.visible:
            if column.default is not None and column.default.kind is DefaultKind.IDENTITY:
                options = column.default.identity
                name = sequence_of_column(relation.name, column.name)
                least, most = default_bounds(column.type, options.increment)
                if options.last is not None:
                    up = options.increment > 0
                    least, most = (least, options.last) if up else (options.last, most)
                yield _sequence(placed(name, catalog), column.type, options, (least, most), "NO")
    for each in catalog.schema.sequences:
        cycles = "YES" if each.cycle else "NO"
        bounds = each.least, each.most
        yield _sequence(placed(each.name, catalog), each.type, each.numbers, bounds, cycles)


def _sequence(
    place: tuple[str, str, str],
    type_: ColumnType,
    numbers: Identity,
    bounds: tuple[int, int],
    cycles: str,
) -> _Row:
    digits = numbers.start, *bounds, numbers.increment
    return *place, _type_names(type_)[0], *_numeric(type_), *map(str, digits), cycles


def _schemata(catalog: Catalog) -> Iterator[_Row]:
    for name in (PUBLIC, *catalog.schema.spaces, INFORMATION_SCHEMA):
        yield DATABASE, name, DATABASE, None, None, None, None


def texts(names: str) -> tuple[Column, ...]:
    return tuple(Column(name, TEXT) for name in names.split())


def _numbers(names: str) -> tuple[Column, ...]:
    return tuple(Column(name, INTEGER) for name in names.split())


_OF_TABLE = "table_catalog table_schema table_name"
_OF_DOMAIN = "domain_catalog domain_schema domain_name"
_OF_CONSTRAINT = "constraint_catalog constraint_schema constraint_name"
_ROWS: dict[str, tuple[tuple[Column, ...], Callable[[Catalog], Iterator[_Row]]]] = {
    "tables": (texts(f"{_OF_TABLE} table_type is_insertable_into"), _tables),
    "columns": (
        (
            *texts(f"{_OF_TABLE} column_name"),
            *_numbers("ordinal_position"),
            *texts("column_default is_nullable data_type"),
            *_numbers("character_maximum_length numeric_precision numeric_precision_radix"),
            *_numbers("numeric_scale datetime_precision"),
            *texts(_OF_DOMAIN),
            *texts("udt_catalog udt_schema udt_name is_identity identity_generation"),
            *texts("is_generated generation_expression"),
        ),
        _columns,
    ),
    "table_constraints": (
        texts(f"{_OF_CONSTRAINT} {_OF_TABLE} constraint_type is_deferrable initially_deferred"),
        _table_constraints,
    ),
    "key_column_usage": (
        (
            *texts(f"{_OF_CONSTRAINT} {_OF_TABLE} column_name"),
            *_numbers("ordinal_position position_in_unique_constraint"),
        ),
        _key_column_usage,
    ),
    "check_constraints": (texts(f"{_OF_CONSTRAINT} check_clause"), _check_constraints),
    "referential_constraints": (
        texts(
            f"{_OF_CONSTRAINT} unique_constraint_catalog unique_constraint_schema"
            " unique_constraint_name match_option update_rule delete_rule"
        ),
        _referential_constraints,
    ),
    "constraint_column_usage": (
        texts(f"{_OF_TABLE} column_name {_OF_CONSTRAINT}"),
        _constraint_column_usage,
    ),
    "domains": (
        (
            *texts(f"{_OF_DOMAIN} domain_default data_type"),
            *_numbers("character_maximum_length numeric_precision numeric_precision_radix"),
            *_numbers("numeric_scale datetime_precision"),
            *texts("udt_catalog udt_schema udt_name"),
        ),
        _domains,
    ),
    "domain_constraints": (
        texts(f"{_OF_CONSTRAINT} {_OF_DOMAIN} is_deferrable initially_deferred"),
        _domain_constraints,
    ),
    "column_domain_usage": (
        texts(f"{_OF_DOMAIN} {_OF_TABLE} column_name"),
        _column_domain_usage,
    ),
    "views": (
        texts(f"{_OF_TABLE} view_definition check_option is_updatable is_insertable_into"),
        _views,
    ),
    "sequences": (
        (
            *texts("sequence_catalog sequence_schema sequence_name data_type"),
            *_numbers("numeric_precision numeric_precision_radix numeric_scale"),
            *texts("start_value minimum_value maximum_value increment cycle_option"),
        ),
        _sequences,
    ),
    "schemata": (
        texts(
            "catalog_name schema_name schema_owner default_character_set_catalog"
            " default_character_set_schema default_character_set_name sql_path"
        ),
        _schemata,
    ),
}
"""Columns (name, type) and rows of each relation."""


def _type_of(column: Column) -> str:
    return "int4" if column.type == INTEGER else "text"


RELATIONS = tuple(
    SystemRelation(INFORMATION_SCHEMA, name, columns, tuple(map(_type_of, columns)), rows)
    for name, (columns, rows) in _ROWS.items()
)
