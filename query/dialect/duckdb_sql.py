"""Translation of casts with PostgreSQL's semantics into DuckDB's SQL.

`duckdb_sql` writes a statement for DuckDB: casts parse text as `schema.spelling` does, NUMERIC
without precision keeps all digits, VARCHAR(n) truncates, and SUM and AVG are Hornbeam's
(`query/dialect/sums.py`). Where only DuckDB knows the type of an argument, macros that are
overloaded by type do this (`query/dialect/macros.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal

from sqlglot import exp

from hornbeam_server.query.dialect.arrays import ARRAY, SHOWN, write_array
from hornbeam_server.query.dialect.common_decimals import MEETS, cast_decimals_that_meet
from hornbeam_server.query.dialect.computed_places import PLACES, write_places
from hornbeam_server.query.dialect.deviations import UNITS, write_deviation
from hornbeam_server.query.dialect.enumerations import write_labels
from hornbeam_server.query.dialect.expansion import bind_arguments, check_copies
from hornbeam_server.query.dialect.functions import is_current_time, is_json_step, json_step
from hornbeam_server.query.dialect.grammar import NAME
from hornbeam_server.query.dialect.jsonb import DIGITS, JSONB, PREFIX, write_jsonb
from hornbeam_server.query.dialect.jsonb_rows import POPULATING
from hornbeam_server.query.dialect.macros import CAST_FROM, TEXT_MACROS, call, is_plain
from hornbeam_server.query.dialect.numerics import has_exponent, write_numeric
from hornbeam_server.query.dialect.operand_kinds import KINDS, write_operands
from hornbeam_server.query.dialect.overloads import OVERLOAD, write_overload
from hornbeam_server.query.dialect.patterns import constant_pattern, is_plain_pattern
from hornbeam_server.query.dialect.ranges import RANGED, TOTAL, check_ranges, checked_aggregate
from hornbeam_server.query.dialect.reals import AROUND, READ, wrap_real
from hornbeam_server.query.dialect.series import SERIES, write_series
from hornbeam_server.query.dialect.smallints import SMALL, write_smallint
from hornbeam_server.query.dialect.sums import write_average, write_sum
from hornbeam_server.query.dialect.text_arrays import written_text
from hornbeam_server.query.dialect.type_names import check_type
from hornbeam_server.schema import spelling
from hornbeam_server.schema.errors import TypeMismatch, Unsupported
from hornbeam_server.schema.intervals import interval
from hornbeam_server.schema.reals import real_of
from hornbeam_server.schema.seconds import SECOND_DIGITS
from hornbeam_server.schema.sqltext import DOUBLE_BITS, REAL_BITS
from hornbeam_server.schema.trees import supersede, unlink, written
from hornbeam_server.schema.types import (
    MAX_DECIMAL_PRECISION,
    NUMERIC_SCALE,
    REAL,
    SMALLINT,
    ColumnType,
    Kind,
    array_of,
)

_D = exp.DType
_READ_AS = {
    _D.TINYINT: "integer",
    _D.SMALLINT: "integer",
    _D.INT: "integer",
    _D.BIGINT: "integer",
    _D.INT128: "integer",
    _D.UTINYINT: "integer",
    _D.USMALLINT: "integer",
    _D.UINT: "integer",
    _D.UBIGINT: "integer",
    _D.DECIMAL: "decimal",
    _D.FLOAT: "double",
    _D.DOUBLE: "double",
    _D.BOOLEAN: "boolean",
    _D.DATE: "date",
    _D.TIME: "time",
    _D.TIMESTAMP: "timestamp",
    _D.TIMESTAMPNTZ: "timestamp",
    _D.TIMESTAMPTZ: "timestamptz",
    _D.UUID: "uuid",
    _D.VARBINARY: "bytes",
    _D.BLOB: "bytes",
}
"""Target type of a cast → the name of the rule that parses text for it."""
_TEXTS = {_D.TEXT, _D.VARCHAR, _D.CHAR, _D.BPCHAR, _D.NVARCHAR, _D.NCHAR}
_PADDED = {_D.CHAR, _D.BPCHAR, _D.NCHAR}
_WRITTEN = (exp.Literal, exp.Null, exp.Placeholder, exp.ByteString, exp.RawString)
_INTEGER_DIGITS = {Kind.INTEGER: 10, Kind.BIGINT: 19}

# ---------------------------------------------------------------- writing


def duckdb_sql(tree: exp.Expr, *, ranges: bool = False) -> str:
    """`tree` as text for DuckDB. `ranges`: a DOUBLE out of range is an error. Texts that are kept,
    and that our loops read, have no such checks."""
    root = exp.Paren(this=tree.copy())
    _keep_names(root)
    nodes = list(root.walk(bfs=False))
    if cast_decimals_that_meet(nodes):
        nodes = list(root.walk(bfs=False))
    if ranges and check_ranges(nodes):
        nodes = list(root.walk(bfs=False))
    check_copies(nodes, _copies_made)
    for node in reversed(nodes):  # inner nodes first, and FILTER and OVER before their aggregate
        wrap_real(node)
        write_smallint(node)
        if not (_write_marked(node) or write_numeric(node)):
            _write(node)
    bind_arguments(root)
    sql: str = root.this.sql(NAME, copy=False)
    unlink(root)
    return sql


def _write(node: exp.Expr) -> None:
    """Write a node whose kind alone says how it differs in DuckDB."""
    if is_json_step(node):
        supersede(node, json_step(node))
        return
    match node:
        case exp.Cast():
            _write_cast(node)
        case exp.Sum() | exp.Avg():
            _write_total(node)
        case exp.Like() | exp.ILike():
            _write_like(node)
        case exp.RegexpLike() | exp.RegexpILike():
            _write_regex(node)
        case exp.Substring():
            _write_substring(node)
        case exp.BitwiseLeftShift() if not node.this.find(exp.Null):
            supersede(node, call("shift_left", node.this.copy(), node.expression.copy()))
        case exp.BitwiseRightShift() if not node.this.find(exp.Null):
            supersede(node, call("shift_right", node.this.copy(), node.expression.copy()))
        case exp.Overlay():
            _write_overlay(node)
        case exp.Neg() if node.this.unnest() == _LEAST_INTEGER:  # it is a BIGINT to DuckDB
            supersede(node, exp.cast(node.copy(), "INTEGER"))
        case exp.Between() if node.args.get("symmetric"):
            _write_symmetric(node)
        case _ if KINDS in node.meta:
            write_operands(node)


def _write_total(node: exp.Sum | exp.Avg) -> None:
    if _adds_doubles(node):
        checked_aggregate(node)
    elif isinstance(node, exp.Sum):
        write_sum(node)
    else:
        write_average(node)


def _adds_doubles(node: exp.AggFunc) -> bool:
    return TOTAL in node.meta


def _copies_made(node: exp.Expr) -> int:
    """How many copies of its parts stand in what is written for a node."""
    if UNITS in node.meta:
        return 9
    if isinstance(node, exp.Sum):
        return 3
    if isinstance(node, exp.Avg) and _adds_doubles(node):
        return 3
    return 2 if isinstance(node, exp.Avg) or node.meta.get(ARRAY) == "compared" else 1


def _write_overlay(node: exp.Overlay) -> None:
    """Write OVERLAY, which may also insert: the part that it replaces ends before its start."""
    new = node.expression
    size = node.args.get("for_") or exp.Length(this=new.copy())
    given = (node.this, new, node.args["from_"], size)
    supersede(node, call("overlaid", *(each.copy() for each in given)))


def _write_symmetric(node: exp.Between) -> None:
    """Write BETWEEN SYMMETRIC, which DuckDB lacks."""
    sides = (node.this, node.args["low"], node.args["high"])
    supersede(node, call("between_symmetric", *(side.copy() for side in sides)))


def _write_marked(node: exp.Expr) -> bool:
    """Write a node that binding has marked for a function of ours; False for other nodes."""
    if JSONB in node.meta:
        write_jsonb(node)
    elif ARRAY in node.meta:
        write_array(node)
    elif UNITS in node.meta:
        write_deviation(node)
    elif SHOWN in node.meta:
        _write_joined(node)
    elif OVERLOAD in node.meta:
        write_overload(node)
    elif SERIES in node.meta:
        write_series(node)
    elif PLACES in node.meta:
        write_places(node)
    else:
        return False
    return True


def _keep_names(root: exp.Expr) -> None:
    """Alias projections without AS to their source text, so that rewriting does not change their
    output names."""
    for select in root.find_all(exp.Select):
        for item in select.expressions:
            if not isinstance(item, exp.Alias) and _is_rewritten(item):
                name = written(item, NAME, normalize_functions="lower")
                supersede(item, exp.alias_(item.copy(), name, quoted=True, copy=False))


def _is_rewritten(item: exp.Expr) -> bool:
    return any(
        isinstance(node, _REWRITTEN) or not _MARKS.isdisjoint(node.meta) for node in item.walk()
    )


_LEAST_INTEGER = exp.Literal.number(1 << 31)
"""The only number that is an INTEGER with a minus, and none without."""
_MARKS = frozenset({ARRAY, PLACES, SHOWN, AROUND, MEETS, RANGED, READ, SMALL})
_REWRITTEN = (
    exp.Cast, exp.Sum, exp.Avg, exp.Div, exp.Mul, exp.Like, exp.ILike, exp.Substring, exp.Round,
    exp.DPipe, exp.RegexpLike, exp.RegexpILike, exp.JSONExtract, exp.JSONExtractScalar,
    exp.JSONBExtract, exp.JSONBExtractScalar, exp.Sub, exp.ArrayContainsAll, exp.ArrayContainedBy,
    exp.JSONBContains, exp.JSONBContainsAnyTopKeys, exp.JSONBContainsAllTopKeys,
    exp.JSONBDeleteAtPath,
    exp.Any, exp.Bracket, exp.ArrayOverlaps,
)  # fmt: skip


def _write_like(node: exp.Like | exp.ILike) -> None:
    """Give LIKE and ILIKE PostgreSQL's escape character. A constant pattern without a backslash
    stays, since DuckDB is faster without ESCAPE."""
    pattern = written_text(node.expression.unnest())
    plain = pattern is not None and "\\" not in pattern
    several = isinstance(node.expression, exp.Any | exp.All)
    if not (plain or several or isinstance(node.parent, exp.Escape)):
        supersede(node, exp.Escape(this=node.copy(), expression=exp.Literal.string("\\")))


def _write_regex(node: exp.RegexpLike | exp.RegexpILike) -> None:
    """Write `~` and `~*`, whose dot also matches the end of a line."""
    pattern = constant_pattern(node.expression)
    insensitive = isinstance(node, exp.RegexpILike)
    sides = [node.this.copy(), node.expression.copy()]
    if pattern is None or not is_plain_pattern(pattern):
        flags = [exp.Literal.string("i")] if insensitive else []
        supersede(node, call("regexp_like", *sides, *flags))
    elif "." in pattern:
        letters = exp.Literal.string("si" if insensitive else "s")
        supersede(node, exp.Anonymous(this="regexp_matches", expressions=[*sides, letters]))


def _write_substring(node: exp.Substring) -> None:
    """Write SUBSTRING, which counts positions before the text, too; DuckDB counts negative ones
    from the end."""
    start, length = node.args.get("start"), node.args.get("length")
    if start is None or written_text(start) is not None:
        return
    inside = _is_count(start) and start.name != "0" and (length is None or _is_count(length))
    if not inside:
        values = [node.this, start, *([] if length is None else [length])]
        name = "substring_from" if length is None else "substring"
        supersede(node, call(name, *(value.copy() for value in values)))


def _is_count(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string and node.name.isdecimal()


def _write_cast(node: exp.Cast) -> None:
    to = node.args["to"]
    kind = to.this if isinstance(to, exp.DataType) else None
    if write_labels(node):
        return
    if DIGITS in node.meta:
        digits = exp.Anonymous(this=PREFIX + node.meta[DIGITS], expressions=[node.this.copy()])
        node.set("this", digits)
    given = node.meta.get(CAST_FROM)
    span = None if given is None else _SPANS.get((given.kind, kind))
    if span is not None:
        node.set("this", call(span, node.this.copy()))
    elif kind in _TEXTS:
        _write_text(node, to)
    elif kind is _D.DECIMAL and not to.expressions:
        _write_numeric(node)
    elif kind is _D.FLOAT:
        _write_real(node)
    elif kind is _D.DOUBLE:
        node.set("this", _read_as("double", node))
    elif kind is _D.ARRAY:
        _write_array(node, to)
    elif kind in _READ_AS:
        node.set("this", _read_as(_READ_AS[kind], node))
        if kind in _MOMENTS and to.expressions:
            _write_rounded(node, to)
        elif kind is _D.SMALLINT:
            supersede(node, exp.Cast(this=node.copy(), to=exp.DataType(this=_D.INT)))


def _write_real(node: exp.Cast) -> None:
    """Rewrite a cast to REAL, which refuses a number that is out of range. DuckDB rounds integers
    exactly, Python decimals."""
    given = node.meta.get(CAST_FROM)
    kind = None if given is None else given.kind
    number = _written_real(node.this)
    if number is not None:
        node.set("this", exp.Literal.number(f"{number!r}e0" if "e" not in repr(number) else number))
    elif given == REAL or kind in _INTEGER_DIGITS:
        return
    elif isinstance(node, exp.TryCast):
        inner = exp.TryCast(this=_read_as("double", node), to=exp.DataType(this=_D.DOUBLE))
        node.set("this", inner)
    elif kind is Kind.DECIMAL:
        supersede(node, call("real_of_decimal", node.this.copy()))
    else:
        double = exp.Cast(this=_read_as("double", node), to=exp.DataType(this=_D.DOUBLE))
        supersede(node, call("real", double))


def _written_real(node: exp.Expr) -> float | None:
    """The REAL of a literal number; None for other nodes, and for a number that is out of range."""
    inner = node.unnest()
    number = inner.this if isinstance(inner, exp.Neg) else inner
    if not isinstance(number, exp.Literal) or number.is_string:
        return None
    try:
        found = real_of(Decimal(number.name))
    except (ValueError, ArithmeticError):
        return None
    return -found if number is not inner else found


_SPANS: Mapping[tuple[Kind, exp.DType | None], str] = {
    (Kind.TIME, _D.INTERVAL): "interval_of_time",
    (Kind.INTERVAL, _D.TIME): "time_of_interval",
}
"""The macros of casts between times and intervals, which DuckDB lacks."""

_ELEMENT = "hornbeam_element"
"""The name of the variable for an element of an array."""


def _write_array(node: exp.Cast, to: exp.DataType) -> None:
    """Rewrite a cast to an array: each element is cast as a value of its own."""
    given, inner = node.meta.get(CAST_FROM), to.expressions[0]
    element = None if given is None else given.element
    if given is not None and given.kind in _TEXT_KINDS and not isinstance(node.this, _WRITTEN):
        node.set("this", call("array_elements", node.this.copy()))
        element = ColumnType(Kind.TEXT)
    elif given is None and is_plain(node.this) and not isinstance(node.this.unnest(), exp.Array):
        node.set("this", call("array_of_any", node.this.copy()))
        if inner.expressions:
            node.set("this", _each(node.this, None, inner, type(node)))
    if inner.expressions and written_text(node.this) is not None:
        node.set("this", call("array_elements", node.this.copy()))
        element = ColumnType(Kind.TEXT)
    if element is not None and not isinstance(node.this.unnest(), exp.Array):
        node.set("this", _each(node.this, element, inner, type(node)))
    if inner.this in _TEXTS:
        supersede(inner, exp.DataType(this=_D.TEXT))
    elif inner.this is _D.DECIMAL and not inner.expressions:
        supersede(inner, _decimal(MAX_DECIMAL_PRECISION, NUMERIC_SCALE))
    elif inner.this in _MOMENTS:
        inner.set("expressions", [])
    to.set("values", None)
    if inner.this is _D.SMALLINT:
        integers = exp.DataType(this=_D.ARRAY, expressions=[exp.DataType(this=_D.INT)], nested=True)
        supersede(node, exp.Cast(this=node.copy(), to=integers))


def _each(
    array: exp.Expr, element: ColumnType | None, to: exp.DataType, cast: type[exp.Cast] = exp.Cast
) -> exp.Expr:
    """The list of the elements of `array`, each cast to a type. `element`: their type, if it is
    known."""
    value = cast(this=exp.column(_ELEMENT), to=to.copy())
    value.meta[CAST_FROM] = element
    each = exp.Lambda(this=value, expressions=[exp.to_identifier(_ELEMENT)])
    _write_cast(value)
    return exp.Anonymous(this="list_transform", expressions=[array.copy(), each])


def _text_of_array(array: exp.Expr, element: ColumnType) -> exp.Expr:
    """An array as PostgreSQL prints it."""
    return call("array_text", _texts_of(array, element))


def _write_joined(node: exp.Expr) -> None:
    """Write array_to_string, whose elements are written like the elements in an array's text."""
    array, sign, *null = node.expressions
    if isinstance(sign.unnest(), exp.Null):  # DuckDB takes a comma
        supersede(node, exp.cast(exp.null(), _D.TEXT))
        return
    texts = _texts_of(array, node.meta[SHOWN])
    element = exp.column(_ELEMENT)
    if null:
        each: exp.Expr = exp.Anonymous(this="coalesce", expressions=[element, null[0].copy()])
    else:
        each = exp.Not(this=exp.Is(this=element, expression=exp.Null()))
    chosen = exp.Lambda(this=each, expressions=[exp.to_identifier(_ELEMENT)])
    over = "list_transform" if null else "list_filter"
    texts = exp.Anonymous(this=over, expressions=[texts, chosen])
    supersede(node, exp.Anonymous(this="array_to_string", expressions=[texts, sign.copy()]))


def _texts_of(array: exp.Expr, element: ColumnType) -> exp.Expr:
    """The texts of an array's elements, where a boolean is one letter."""
    texts = _each(array, element, exp.DataType(this=_D.TEXT))
    if element.kind is Kind.BOOLEAN:
        value = texts.expressions[1].this
        supersede(value, call("letter", exp.column(_ELEMENT)))
    return texts


def _write_rounded(node: exp.Cast, to: exp.DataType) -> None:
    """Rewrite a cast to TIMESTAMP(n) or TIME(n), which rounds to n decimals of a second."""
    unit = 10 ** (SECOND_DIGITS - int(to.expressions[0].name))
    to.set("expressions", [])
    supersede(node, call("seconds", node.copy(), exp.Literal.number(unit)))


def _read_as(what: str, node: exp.Cast) -> exp.Expr:
    """The argument of a cast, converted so that DuckDB's cast accepts it."""
    value, type_ = node.this, node.meta.get(CAST_FROM)
    written = written_text(value)
    if what == "bytes" and written is not None:
        digits = exp.Literal.string(spelling.sql_bytes(written).hex())
        return exp.Anonymous(this="unhex", expressions=[digits])
    if type_ is not None and type_.kind in _TEXT_KINDS:
        return call(f"{what}_of_text", value)
    if what == "decimal" and type_ is not None and type_.kind is Kind.DOUBLE:
        return call("digits_of_real" if type_ == REAL else "digits_of_double", value)
    zoned = is_current_time(value) or (type_ is not None and type_.kind is Kind.TIMESTAMPTZ)
    if zoned and what == "time":
        return exp.cast(value, "TIMESTAMP", dialect="duckdb")
    return call(what, value) if type_ is None and is_plain(value) else value


_TEXT_KINDS = {Kind.TEXT, Kind.JSON}


def _write_text(node: exp.Cast, to: exp.DataType) -> None:
    """Rewrite a cast to text: VARCHAR(n) truncates, CHAR(n) also strips trailing blanks, and bytes
    become hexadecimal. Nothing is copied: casts may nest."""
    length = to.expressions[0].name if to.expressions else "1" if to.this is _D.CHAR else None
    is_padded = to.this in _PADDED
    value = _readable_as_text(node.this, node.meta.get(CAST_FROM))
    if value is not node.this:
        node.set("this", value)
    supersede(to, exp.DataType(this=_D.TEXT))
    if length is None and not is_padded:
        return
    place = exp.Null()
    whole: exp.Expr = node
    node.replace(place)
    if length is not None:
        whole = exp.Anonymous(this="left", expressions=[whole, exp.Literal.number(length)])
    if is_padded:
        whole = exp.Anonymous(this="rtrim", expressions=[whole])
    supersede(place, whole)


def _readable_as_text(value: exp.Expr, type_: ColumnType | None) -> exp.Expr:
    """The argument of a cast to text, as a value whose text in DuckDB is PostgreSQL's."""
    if type_ is None:
        if isinstance(value, _WRITTEN) and not has_exponent(value):
            return value
        return call("text" if is_plain(value) else "text_of_any", value)
    if type_.element is not None:
        return _text_of_array(value, type_.element)
    match type_.kind:
        case Kind.BYTES:
            return call("text_of_bytes", value)
        case Kind.DOUBLE:
            return call("text_of_real" if type_ == REAL else "text_of_double", value)
        case Kind.INTERVAL:
            return call("text_of_any", value)
        case Kind.DECIMAL if type_.precision == type_.scale:
            return call("text", value)
    if has_exponent(value):
        return call("text" if is_plain(value) else "text_of_any", value)
    return value


def _write_numeric(node: exp.Cast) -> None:
    """Rewrite a cast to NUMERIC without precision so that it keeps all digits or fails. Raises
    Unsupported if the number of digits is unknown."""
    value, type_ = node.this, node.meta.get(CAST_FROM)
    kind = None if type_ is None else type_.kind
    text = written_text(value)
    if text is not None or (isinstance(value, exp.Literal) and not value.is_string):
        supersede(node, _number(spelling.decimal(text if text is not None else value.name)))
    elif type_ == REAL:
        supersede(node, call("numeric_of_real", value.copy()))
    elif kind is Kind.DOUBLE:
        _write_numeric_of_double(node)
    elif kind in _INTEGER_DIGITS:
        node.set("to", _decimal(_INTEGER_DIGITS[kind], 0))
    elif kind is Kind.DECIMAL:
        supersede(node, value)
    elif kind in _TEXT_KINDS or (kind is None and is_plain(value)):
        name = "numeric_of_text" if kind in _TEXT_KINDS else "numeric"
        supersede(node, call(name, value.copy()))
    elif isinstance(value, exp.Placeholder | exp.Null):
        node.set(
            "to", _decimal(MAX_DECIMAL_PRECISION, NUMERIC_SCALE)
        )  # its value was parsed as this type
    else:
        raise Unsupported(
            f"{written(node, NAME)} does not say how many digits are kept.",
            cure="Write NUMERIC(precision, scale).",
        )


def _write_numeric_of_double(node: exp.Cast) -> None:
    around = node.parent
    places = around.args.get("decimals") if isinstance(around, exp.Round) else None
    if isinstance(places, exp.Literal) and places.name.isdigit() and int(places.name) < 20:
        node.set("to", _decimal(MAX_DECIMAL_PRECISION, int(places.name)))  # rounded in any case
        supersede(node.this, call("digits_of_double", node.this.copy()))
    else:
        supersede(node, call("numeric_of_double", node.this.copy()))


def _decimal(precision: int, scale: int) -> exp.DataType:
    sizes = [exp.DataTypeParam(this=exp.Literal.number(size)) for size in (precision, scale)]
    return exp.DataType(this=_D.DECIMAL, expressions=sizes)


def _number(value: Decimal) -> exp.Expr:
    """A literal with all digits of `value`, which DuckDB parses as a DECIMAL."""
    digits = f"{value.copy_abs():f}"  # abs() would round to 28 digits
    literal = exp.Literal.number(digits if "." in digits else f"{digits}.")
    return exp.Paren(this=exp.Neg(this=literal)) if value.is_signed() else literal


# ---------------------------------------------------------------- reading


def check_cast(node: exp.Cast) -> None:
    """Refuse types that DuckDB interprets differently, and parse a string literal as PostgreSQL
    does. Raises Unsupported and TypeMismatch."""
    to = node.args["to"]
    if not isinstance(to, exp.DataType):
        return
    if not (names_relation(node) or to.this is _D.USERDEFINED):  # the binder knows those
        check_type(to)
    if to.this is _D.ARRAY:
        _check_array_cast(node, to)
        return
    if to.this is _D.DECIMAL:
        _check_digits(node, to)
    if to.this is _D.DOUBLE and to.expressions:  # FLOAT(n)
        _check_bits(to)
    if to.this in _MOMENTS and to.expressions:
        _check_second_digits(to)
    if to.this in _FLOATS:
        _check_float(node)
    written = written_text(node.this)
    what = "interval" if to.this is _D.INTERVAL else _READ_AS.get(to.this)
    if what is None or written is None:
        return
    try:
        node.set("this", exp.Literal.string(canonical(written, what)))
    except (ValueError, ArithmeticError) as error:
        if isinstance(node, exp.TryCast):
            node.set("this", exp.Null())
        else:
            raise not_read(written, to.sql(NAME), error) from None


_FLOATS = {_D.DOUBLE, _D.FLOAT}


def _check_float(node: exp.Cast) -> None:
    """Refuse a number that no double is near. As a NUMERIC, `1e400` may stand in a comparison."""
    number = node.this.unnest()
    number = number.this.unnest() if isinstance(number, exp.Neg) else number
    if has_exponent(number) and math.isinf(float(number.name)):
        raise TypeMismatch(f"{number.name} is out of range for type double precision.")


_OF_SEQUENCES = frozenset({"nextval", "currval", "setval"})


def names_relation(node: exp.Cast) -> bool:
    """Is it `NULL::relation`, which names the relation whose columns a function takes, or
    `'name'::regclass` of a sequence, as pg_dump writes it?"""
    around = node.parent
    named = isinstance(around, exp.Anonymous) and around.name.lower()
    return named in POPULATING or named in _OF_SEQUENCES


def _check_array_cast(node: exp.Cast, to: exp.DataType) -> None:
    """Check a cast to an array. The elements of a written array are cast one by one."""
    (inner,) = to.expressions
    while inner.this is _D.ARRAY:  # the number of dimensions of a type has no effect
        (inner,) = inner.expressions
    to.set("expressions", [inner])
    if inner.this is not _D.USERDEFINED:
        check_type(inner)
    array = node.this.unnest()
    text = written_text(array)
    if inner.this is _D.SMALLINT and text is not None:
        array_of(SMALLINT).coerce(text)
    elements = array.expressions if isinstance(array, exp.Array) else []
    for element in list(elements):
        cast = type(node)(this=element.copy(), to=inner.copy())
        supersede(element, cast)
        check_cast(cast)


def _check_digits(node: exp.Cast, to: exp.DataType) -> None:
    """Raise Unsupported for a constant with more digits than a DECIMAL has, which is cast to
    NUMERIC without a precision."""
    inner = node.this.unnest()
    if to.expressions or not isinstance(inner, exp.Literal):
        return
    try:
        number = spelling.decimal(inner.name)
    except (ValueError, ArithmeticError):
        return  # reported as no number
    places = max(-int(number.as_tuple().exponent), 0)
    if max(number.adjusted() + 1, 1) + places > MAX_DECIMAL_PRECISION:
        raise Unsupported(
            f"NUMERIC has at most {MAX_DECIMAL_PRECISION} digits, as it has in Arrow and Spark.",
            cure="Write DOUBLE, or keep the number as TEXT.",
        )


def _check_bits(to: exp.DataType) -> None:
    """Write FLOAT(n) as REAL or DOUBLE. Raises Unsupported."""
    bits = [size.name for size in to.expressions]
    if len(bits) > 1 or bits[0] not in map(str, range(1, DOUBLE_BITS + 1)):
        raise Unsupported(
            f"Type {to.sql(NAME)} is out of range: FLOAT(n) has 1 to {DOUBLE_BITS} bits.",
            cure="Write DOUBLE.",
        )
    to.set("this", _D.FLOAT if int(bits[0]) <= REAL_BITS else _D.DOUBLE)
    to.set("expressions", [])


def _check_second_digits(to: exp.DataType) -> None:
    sizes = [size.name for size in to.expressions]
    if sizes == [str(SECOND_DIGITS)]:
        to.set("expressions", [])
    elif len(sizes) > 1 or sizes[0] not in map(str, range(SECOND_DIGITS)):
        raise Unsupported(
            f"Type {to.sql(NAME)} is out of range: times have up to six decimals of a second.",
            cure="Write TIMESTAMP(n) or TIME(n) with n from 0 to 6.",
        )


def not_read(text: str, type_: str, reason: Exception) -> TypeMismatch:
    shown = repr(text if len(text) <= 60 else text[:57] + "...")
    return TypeMismatch(f"{shown} is not a value of type {type_}: {reason}.", type=type_)


_MOMENTS = {_D.TIME, _D.TIMESTAMP, _D.TIMESTAMPNTZ, _D.TIMESTAMPTZ}


def canonical(text: str, what: str) -> str:
    """Equivalent text that Hornbeam's parsers and DuckDB parse identically. Raises ValueError."""
    match what:
        case "integer":
            return str(spelling.integer(text))
        case "decimal":
            return f"{spelling.decimal(text):f}"
        case "double":
            return repr(spelling.double(text))
        case "boolean":
            return str(spelling.boolean(text)).lower()
        case "date":
            return spelling.date(text).isoformat()
        case "time":
            return spelling.time(text).isoformat()
        case "timestamp":
            return spelling.timestamp(text).isoformat(sep=" ")
        case "timestamptz":
            return spelling.timestamptz(text).isoformat(sep=" ")
        case "interval":
            return interval(text).plain()
        case "uuid":
            return str(spelling.uuid_of(text))
        case _:
            return spelling.hexadecimal(spelling.sql_bytes(text))


def cast_literal(node: exp.Expr) -> exp.Expr:
    """A cast of a text literal without the macro that `duckdb_sql` puts around the literal: the
    literal is spelled canonically. Any other node as it is."""
    reader = node.this if isinstance(node, exp.Cast) else None
    if not isinstance(reader, exp.Anonymous) or reader.name.lower() not in TEXT_MACROS:
        return node
    if written_text(reader.expressions[0]) is None:
        return node
    return exp.Cast(this=reader.expressions[0].copy(), to=node.args["to"].copy())
