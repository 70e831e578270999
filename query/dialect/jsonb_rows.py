"""Aggregates that make JSONB of several rows, and functions that make rows of JSONB and of text.

The parser writes both over DuckDB's lists: `jsonb_agg(x)` as a function of `array_agg(x)`, and
`jsonb_array_elements(j)` as `unnest` of a list. In FROM it becomes a LATERAL query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from hornbeam_server.query.dialect.jsonb import PREFIX
from hornbeam_server.query.dialect.listed_rows import Listed, rows_of
from hornbeam_server.query.dialect.macros import call, macro
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import SqlError, UnknownName, Unsupported
from hornbeam_server.schema.type_names import full_name

_AGGREGATES: Mapping[str, tuple[str, int]] = {
    "jsonb_agg": ("build_array", 1),
    "json_agg": ("json_array", 1),
    "jsonb_object_agg": ("object_of_pairs", 2),
}
"""PostgreSQL's aggregates: the function over the lists of their arguments, and their number."""
_ROWS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "json_array_elements": (("value", f"{PREFIX}json_elements"),),
    "json_array_elements_text": (("value", f"{PREFIX}json_element_texts"),),
    "json_each": (("key", f"{PREFIX}json_keys"), ("value", f"{PREFIX}json_member_values")),
    "json_each_text": (("key", f"{PREFIX}json_keys"), ("value", f"{PREFIX}json_member_texts")),
    "json_object_keys": (("", f"{PREFIX}json_keys"),),
    "jsonb_array_elements": (("value", f"{PREFIX}elements"),),
    "jsonb_array_elements_text": (("value", f"{PREFIX}element_texts"),),
    "jsonb_each": (("key", f"{PREFIX}keys"), ("value", f"{PREFIX}member_values")),
    "jsonb_each_text": (("key", f"{PREFIX}keys"), ("value", f"{PREFIX}member_texts")),
    "jsonb_object_keys": (("", f"{PREFIX}keys"),),
    "regexp_matches": (("", macro("regexp_all")),),
    "regexp_split_to_table": (("", macro("regexp_split_to_array")),),
    "string_to_table": (("", "string_to_array"),),
}
"""PostgreSQL's functions that return rows: their columns, and the function that gives the list of
its values. A column without a name has that of the function's alias."""
RECORDS = {
    "json_to_record": False,
    "jsonb_to_record": False,
    "json_to_recordset": True,
    "jsonb_to_recordset": True,
}
"""PostgreSQL's functions whose columns the statement declares. True: they give a row for each
object of an array."""
POPULATING = {
    "json_populate_record": False,
    "jsonb_populate_record": False,
    "json_populate_recordset": True,
    "jsonb_populate_recordset": True,
}
"""Those whose columns are the columns of a relation."""
ROW_TYPE = "row_type"
"""Key in the meta of the item of FROM that stands for such a function: the name of the relation."""
_OF_TEXT = {"regexp_matches": (2, 3), "regexp_split_to_table": (2, 3), "string_to_table": (2, 3)}
"""The possible numbers of arguments; 1 for the other functions."""
_AROUND = (exp.Filter, exp.Window)


def has_rows(node: exp.Expr) -> bool:
    """Is the node one that `with_rows` writes?"""
    if isinstance(node, exp.Table | exp.Lateral):
        return _rows_of(node.this) is not None or _record_of(node.this) is not None
    if isinstance(node.parent, _AROUND) and node.arg_key == "this":
        return False  # written with the clauses around it
    if isinstance(node, _AROUND):
        return _aggregate(node) is not None
    return _aggregate(node) is not None or (
        _rows_of(node) is not None and not isinstance(node.parent, exp.Table | exp.Lateral)
    )


def gives_rows(node: exp.Expr) -> bool:
    """Is the node a call of a function that gives several rows?"""
    return _rows_of(node) is not None


def with_rows(node: exp.Expr) -> exp.Expr:
    """The node, for which `has_rows` holds, over lists. Raises Unsupported and SqlError."""
    if isinstance(node, exp.Table | exp.Lateral):
        return _in_from(node)
    found = _aggregate(node)
    if found is not None:
        return _aggregated(node, found)
    columns = _rows_of(node)
    assert columns is not None
    if len(columns) > 1:
        raise Unsupported(
            f"{node.name.lower()} gives rows of two columns.",
            cure=f"Write FROM {node.name.lower()}(…) AS e, and e.key and e.value.",
        )
    return _unnested(columns[0][1], node)


def _rows_of(node: exp.Expr | None) -> tuple[tuple[str, str], ...] | None:
    name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
    if name == "regexp_matches" and node is not None and _is_condition(node):
        return None  # DuckDB's function, which is a condition
    return _ROWS.get(name)


def _record_of(node: exp.Expr | None) -> bool | None:
    """Whether a function that gives records gives many; None for other nodes."""
    return RECORDS.get(node.name.lower()) if isinstance(node, exp.Anonymous) else None


def lists_of(call_: exp.Expr, alias: exp.TableAlias | None) -> Sequence[Listed]:
    """The columns of a call in FROM that gives rows; none for other calls. `alias` declares the
    columns of records. Raises SqlError."""
    columns = _rows_of(call_)
    if columns is not None:
        name = call_.name.lower()
        return [
            Listed(column or name, _listed(function, call_.expressions))
            for column, function in columns
        ]
    many = _record_of(call_)
    return [] if many is None else _fields_of_record(call_, alias, many)


def _in_from(node: exp.Expr) -> exp.Lateral:
    """A function in FROM as a query."""
    call_, alias = node.this, node.args.get("alias")
    columns, name = lists_of(call_, alias), call_.name.lower()
    numbered = bool(node.args.get("ordinality"))
    if _record_of(call_) is not None:
        if numbered:
            raise SqlError(
                f"{name} declares its columns, and has WITH ORDINALITY.",
                cure=f"Write FROM ROWS FROM ({name}(value) AS (a INTEGER)) WITH ORDINALITY.",
            )
        return rows_of(columns, node.alias, [], numbered=False)
    if node.alias:
        own = [column for column, _ in _rows_of(call_) or ()]
        columns = [
            each if known else Listed(node.alias, each.values)
            for known, each in zip(own, columns, strict=True)
        ]
    given = [column.name for column in alias.columns] if alias else []
    return rows_of(columns, node.alias or name, given, numbered=numbered)


def _fields_of_record(
    call_: exp.Expr, alias: exp.TableAlias | None, many: bool
) -> Sequence[Listed]:
    """The columns that the alias of such a function declares. Raises SqlError."""
    name, columns = call_.name.lower(), alias.columns if alias else []
    if len(call_.expressions) != 1 or not columns:
        raise SqlError(
            f"{name} takes one value, and its columns are declared.",
            cure=f"Write FROM {name}(value) AS r (a INTEGER, b TEXT).",
        )
    for column in columns:
        if not isinstance(column, exp.ColumnDef) or column.args.get("kind") is None:
            raise SqlError(
                f"Column {column.name} of {name} has no type.",
                cure=f"Write FROM {name}(value) AS r ({column.name} TEXT).",
            )
    fields = [(column.name, column.args["kind"]) for column in columns]
    return [_field(call_.expressions[0], *each, many) for each in fields]


def populated(node: exp.Expr, catalog: Catalog) -> exp.Expr:
    """A function of `POPULATING` in FROM: its columns are those of the relation whose type NULL
    has, as in jsonb_populate_record(NULL::item, value). Raises SqlError for other arguments, and
    Unsupported."""
    call_, alias = node.this, node.args.get("alias")
    name = call_.name.lower()
    base = call_.expressions[0] if len(call_.expressions) == 2 else None
    relation = full_name(base.args["to"]) if isinstance(base, exp.Cast) else ""
    if base is None or not relation or not isinstance(base.this, exp.Null):
        raise SqlError(
            f"{name} takes NULL with the type of a relation, and one value.",
            cure=f"Write {name}(NULL::relation, value).",
        )
    if relation not in catalog.schema:
        raise UnknownName(
            f"Relation {relation} is unknown, whose type {name} takes.", name=relation
        )
    columns = [
        _field(
            call_.expressions[1],
            column.name,
            exp.DataType.build(column.type.sql(), dialect="duckdb"),
            POPULATING[name],
        )
        for column in catalog.schema.relation(relation).visible
    ]
    given = [column.name for column in alias.columns] if alias else []
    numbered = bool(node.args.get("ordinality"))
    item = rows_of(columns, node.alias or name, given, numbered=numbered)
    if alias:  # the names that say which column of the relation is meant (`row_types.py`)
        item.args["alias"].set("columns", alias.columns)
    item.meta[ROW_TYPE] = relation
    return item


def _field(value: exp.Expr, field: str, type_: exp.DataType, many: bool) -> Listed:
    """The values of a field of all records."""
    function = "fields"
    if type_.this in (exp.DType.JSON, exp.DType.JSONB):
        function = "field_values"
    elif type_.this == exp.DType.ARRAY:
        function = "field_arrays"
    given = [value.copy(), exp.Literal.string(field), exp.Boolean(this=many)]
    if not many:  # one row, also for NULL
        given[0] = exp.Coalesce(this=given[0], expressions=[exp.Literal.string("{}")])
    return Listed(field, exp.Anonymous(this=PREFIX + function, expressions=given), type_)


def _is_condition(node: exp.Expr) -> bool:
    above = node.find_ancestor(exp.Where, exp.Having, exp.Join, exp.Filter, exp.Query)
    return not isinstance(above, exp.Query | None)


def _aggregate(node: exp.Expr) -> exp.Anonymous | None:
    """The aggregate in a call with FILTER and OVER; None for other nodes."""
    while isinstance(node, _AROUND):
        node = node.this
    if isinstance(node, exp.Anonymous) and node.name.lower() in _AGGREGATES:
        return node
    return None


def _aggregated(node: exp.Expr, aggregate: exp.Anonymous) -> exp.Expr:
    function, number = _AGGREGATES[aggregate.name.lower()]
    given = aggregate.expressions
    if len(given) != number:
        raise SqlError(
            f"Function {aggregate.name.lower()} does not take {len(given)} arguments.",
            cure=f"Give it {number}.",
        )
    lists = [_list(node, aggregate, i) for i in range(number)]
    return exp.Anonymous(this=PREFIX + function, expressions=lists)


def _list(node: exp.Expr, aggregate: exp.Anonymous, number: int) -> exp.Expr:
    """The list of argument `number`, in the order that the last argument has, with the clauses
    around the aggregate."""
    value, last = aggregate.expressions[number].copy(), aggregate.expressions[-1]
    order = last.copy() if isinstance(last, exp.Order) else None
    inner = value.this if isinstance(value, exp.Order) else value
    if isinstance(inner, exp.Distinct):
        if len(aggregate.expressions) > 1:
            raise Unsupported(
                f"DISTINCT in {aggregate.name.lower()} is not supported.",
                cure="Write it over SELECT DISTINCT in FROM.",
            )
        inner.set("expressions", [call("json", inner.expressions[0].copy())])
    else:
        inner = call("json", inner.copy())
    if order is not None:
        order.set("this", inner)
    listed: exp.Expr = exp.Anonymous(this="array_agg", expressions=[order or inner])
    around = []
    while isinstance(node, _AROUND):
        around.append(node)
        node = node.this
    for clause in reversed(around):
        outer = clause.copy()
        outer.set("this", listed)
        listed = outer
    return listed


def _unnested(function: str, node: exp.Expr) -> exp.Expr:
    name = node.name.lower()
    numbers = _OF_TEXT.get(name, (1,))
    if len(node.expressions) not in numbers:
        raise SqlError(
            f"Function {name} does not take {len(node.expressions)} arguments.",
            cure=f"Give it {' or '.join(map(str, numbers))}.",
        )
    return exp.Anonymous(this="unnest", expressions=[_listed(function, node.expressions)])


def _listed(function: str, given: Sequence[exp.Expr]) -> exp.Expr:
    return exp.Anonymous(this=function, expressions=[each.copy() for each in given])
