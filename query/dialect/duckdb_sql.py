"""Translation of casts and sums with PostgreSQL's semantics into DuckDB's SQL.

`duckdb_sql` writes a statement for DuckDB: casts parse text as `schema.spelling` does, NUMERIC
without precision keeps all digits, VARCHAR(n) truncates, and SUM has PostgreSQL's type. Where only
DuckDB knows the type of an argument, macros that are overloaded by type do this;
`query.duckdb.types.connect` creates them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal

from sqlglot import exp

from hornbeam_server.schema import spelling
from hornbeam_server.schema.errors import TypeMismatch, Unsupported
from hornbeam_server.schema.trees import supersede, unlink, written
from hornbeam_server.schema.types import MAX_DECIMAL_PRECISION, ColumnType, Kind

PARAMETER_TYPE = "parameter_type"
"""Key in the meta of a parameter's node: the type that its values are parsed as."""
SUMMED, CAST_FROM = "summed", "cast_from"
"""Keys in the meta of a SUM (the kind of number that it adds) and of a cast (the type of its
argument)."""
WIDE = "wide"
"""Key in the meta of a SUM that keeps DuckDB's type, which may be wider."""

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
_FORMATTED = {"encode", "decode"}
_REAL_BITS = 24
_INTEGER_DIGITS = {Kind.INTEGER: 10, Kind.BIGINT: 19}

# ---------------------------------------------------------------- macros


def _read(pattern: str, text: str = "x") -> str:
    """A CASE that puts text which does not match `pattern` into quotes, so that the cast around it
    fails (TRY_CAST returns NULL)."""
    fits = f"regexp_full_match(x, {_quoted(pattern)})"
    return f"CASE WHEN {fits} THEN {text} ELSE '\"' || x || '\"' END"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


_WIDE, _LONG = (f"DECIMAL({MAX_DECIMAL_PRECISION},{scale})" for scale in (9, 18))
_LOST = "error('NUMERIC without precision does not keep all digits of the value: say NUMERIC(p,s)')"
_DASHED = r"regexp_replace(trim(x, e' \t\n\v\f\r'), '^([0-9]{4})([0-9]{2})([0-9]{2})', '\1-\2-\3')"
_FALSE = _read(spelling.FALSE, "'false'")
_TRUTH = f"CASE WHEN regexp_full_match(x, {_quoted(spelling.TRUE)}) THEN 'true' ELSE {_FALSE} END"
_BYTES_OF_TEXT = (
    "CASE WHEN NOT contains(x, chr(92)) THEN encode(x)"
    f" WHEN regexp_full_match(x, {_quoted(spelling.HEX)})"
    r" THEN unhex(regexp_replace(substr(x, 3), '\s', '', 'g')) WHEN x IS NULL THEN NULL"
    r" ELSE error('text for bytes is written \x and pairs of hexadecimal digits') END"
)
_SHORT = "printf('%.15g', x)"
"""A DOUBLE with 15 significant digits, as PostgreSQL converts it to NUMERIC."""
_SHORT_NUMBER = r"\s*[+-]?[0-9]*(?:\.[0-9]{0,9}0*)?\s*"
_BLANKS = r"regexp_replace(x, '\s', '', 'g')"
_LINES = r"rtrim(regexp_replace(to_base64(x), '(.{76})', '\1' || chr(10), 'g'), chr(10))"
_FORMATS = "error('encode and decode know the formats hex and base64')"
_SMALL = ("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT")
"""Types whose sum is a BIGINT; sums of other types keep DuckDB's type."""

_OF_TEXT: dict[str, str] = {
    "integer": _read(spelling.INTEGER),
    "decimal": _read(spelling.DECIMAL),
    "double": "CASE WHEN isinf(TRY_CAST(x AS DOUBLE)) AND regexp_matches(x, '[0-9]')"
    f" THEN '\"' || x || '\"' ELSE {_read(spelling.DOUBLE)} END",
    "boolean": _TRUTH,
    "date": _read(spelling.DATE, _DASHED),
    "timestamp": _read(spelling.TIMESTAMP, _DASHED),
    "timestamptz": _read(spelling.TIMESTAMPTZ, _DASHED),
    "uuid": _read(spelling.UUID),
    "bytes": _BYTES_OF_TEXT,
    "numeric": f"CASE WHEN NOT regexp_full_match(x, {_quoted(_SHORT_NUMBER)}) AND"
    f" regexp_full_match(x, {_quoted(spelling.DECIMAL)}) THEN {_LOST}"
    f" ELSE CAST({_read(spelling.DECIMAL)} AS {_WIDE}) END",
}
"""SQL that prepares the text `x` for a cast, by parse rule."""
_OF_DOUBLE = (
    f"CASE WHEN x IS NULL THEN NULL WHEN printf('%.15g', CAST(CAST({_SHORT} AS {_LONG}) AS DOUBLE))"
    f" = {_SHORT} THEN CAST({_SHORT} AS {_LONG}) ELSE {_LOST} END"
)
_MACROS: dict[str, Sequence[str]] = {
    **{f"{name}_of_text": (f"(x) AS {body}",) for name, body in _OF_TEXT.items()},
    **{name: ("(x) AS x", f"(x VARCHAR) AS {body}") for name, body in _OF_TEXT.items()},
    "numeric": (
        "(x) AS x",
        "(x INTEGER) AS CAST(x AS DECIMAL(10,0))",
        "(x BIGINT) AS CAST(x AS DECIMAL(19,0))",
        f"(x HUGEINT) AS CAST(x AS DECIMAL({MAX_DECIMAL_PRECISION},0))",
        f"(x VARCHAR) AS {_OF_TEXT['numeric']}",
    ),
    "numeric_of_double": (f"(x) AS {_OF_DOUBLE}",),
    "digits_of_double": (f"(x) AS {_SHORT}",),
    "text": ("(x) AS x", r"(x BLOB) AS '\x' || lower(hex(x))"),
    "text_of_bytes": (r"(x) AS '\x' || lower(hex(x))",),
    "encode": (
        f"(x, f) AS CASE lower(f) WHEN 'hex' THEN lower(hex(x)) WHEN 'base64' THEN {_LINES}"
        f" ELSE {_FORMATS} END",
    ),
    "decode": (
        f"(x, f) AS CASE lower(f) WHEN 'hex' THEN unhex({_BLANKS})"
        f" WHEN 'base64' THEN from_base64({_BLANKS}) ELSE {_FORMATS} END",
    ),
    "summed": (
        "(x) AS list_sum([x])",
        *(f"(x {type_}) AS CAST(x AS BIGINT)" for type_ in _SMALL),
    ),
}
"""The overloads of each macro by its argument's type; an overload without a type takes all other
types. DuckDB cannot choose an overload while it does not know the type (`_is_plain`)."""


def macros() -> Iterator[str]:
    """Yield the statements that create the macros in a new database."""
    for name, readings in _MACROS.items():
        yield f"CREATE MACRO {_macro(name)}{', '.join(readings)}"


def _macro(name: str) -> str:
    return f"hornbeam_{name}"


def _call(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=_macro(name), expressions=list(arguments))


# ---------------------------------------------------------------- writing


def duckdb_sql(tree: exp.Expr) -> str:
    """`tree` as text for DuckDB."""
    root = exp.Paren(this=tree.copy())
    _keep_names(root)
    nodes = list(root.walk())
    for node in reversed(nodes):  # inner nodes first
        if isinstance(node, exp.Cast):
            _write_cast(node)
        elif isinstance(node, exp.Sum):
            _write_sum(node)
        elif isinstance(node, exp.Anonymous) and node.name.lower() in _FORMATTED:
            node.set("this", _macro(node.name.lower()))
    sql: str = root.this.sql("duckdb", copy=False)
    unlink(root)
    return sql


def _keep_names(root: exp.Expr) -> None:
    """Alias projections without AS to their source text, so that rewriting does not change their
    output names."""
    for select in root.find_all(exp.Select):
        for item in select.expressions:
            if not isinstance(item, exp.Alias) and item.find(exp.Cast, exp.Sum):
                name = written(item, "duckdb", normalize_functions="lower")
                supersede(item, exp.alias_(item.copy(), name, quoted=True, copy=False))


def _write_cast(node: exp.Cast) -> None:
    to = node.args["to"]
    kind = to.this if isinstance(to, exp.DataType) else None
    if kind in _TEXTS:
        _write_text(node, to)
    elif kind is _D.DECIMAL and not to.expressions:
        _write_numeric(node)
    elif kind is _D.DOUBLE and to.expressions:
        real = int(to.expressions[0].name) <= _REAL_BITS
        node.set("to", exp.DataType(this=_D.FLOAT if real else _D.DOUBLE))
        node.set("this", _read_as("double", node))
    elif kind in _READ_AS:
        node.set("this", _read_as(_READ_AS[kind], node))


def _read_as(what: str, node: exp.Cast) -> exp.Expr:
    """The argument of a cast, converted so that DuckDB's cast accepts it."""
    value, type_ = node.this, node.meta.get(CAST_FROM)
    written = written_text(value)
    if what == "bytes" and written is not None:
        digits = exp.Literal.string(spelling.sql_bytes(written).hex())
        return exp.Anonymous(this="unhex", expressions=[digits])
    if type_ is not None and type_.kind in _TEXT_KINDS:
        return _call(f"{what}_of_text", value)
    return _call(what, value) if type_ is None and _is_plain(value) else value


_TEXT_KINDS = {Kind.TEXT, Kind.JSON}
_OPAQUE = (
    exp.AggFunc, exp.Window, exp.Query, exp.Lambda, exp.Anonymous, exp.Explode, exp.Unnest,
)  # fmt: skip


def _is_plain(node: exp.Expr) -> bool:
    """Whether DuckDB knows the type of `node` when it chooses a macro's overload. It does not know
    the types of aggregates and of expressions over them."""
    if isinstance(node, exp.Literal | exp.Null):
        return False
    if isinstance(node, exp.Placeholder) and node.meta.get(PARAMETER_TYPE) is not None:
        return False  # its value was already parsed
    aliased = any(column.meta.get("alias") for column in node.find_all(exp.Column))
    return not (aliased or node.find(*_OPAQUE) or node.find_ancestor(exp.Lambda))


def written_text(node: exp.Expr) -> str | None:
    """The text of a string literal; None for any other node."""
    if isinstance(node, exp.Literal) and node.is_string:
        return str(node.this)
    return str(node.this) if isinstance(node, exp.ByteString | exp.RawString) else None


def _write_text(node: exp.Cast, to: exp.DataType) -> None:
    """Rewrite a cast to text: VARCHAR(n) truncates, CHAR(n) also strips trailing blanks, and bytes
    become hexadecimal."""
    whole: exp.Expr = node.copy()
    type_ = node.meta.get(CAST_FROM)
    if type_ is not None and type_.kind is Kind.BYTES:
        supersede(whole.this, _call("text_of_bytes", node.this.copy()))
    elif type_ is None and _is_plain(node.this):
        supersede(whole.this, _call("text", node.this.copy()))
    supersede(whole.args["to"], exp.DataType(this=_D.TEXT))
    length = to.expressions[0].name if to.expressions else "1" if to.this is _D.CHAR else None
    if length is not None:
        whole = exp.Anonymous(this="left", expressions=[whole, exp.Literal.number(length)])
    if to.this in _PADDED:
        whole = exp.Anonymous(this="rtrim", expressions=[whole])
    supersede(node, whole)


def _write_numeric(node: exp.Cast) -> None:
    """Rewrite a cast to NUMERIC without precision so that it keeps all digits or fails. Raises
    Unsupported if the number of digits is unknown."""
    value, type_ = node.this, node.meta.get(CAST_FROM)
    kind = None if type_ is None else type_.kind
    text = written_text(value)
    if text is not None or (isinstance(value, exp.Literal) and not value.is_string):
        supersede(node, _number(spelling.decimal(text if text is not None else value.name)))
    elif kind is Kind.DOUBLE:
        _write_numeric_of_double(node)
    elif kind in _INTEGER_DIGITS:
        node.set("to", _decimal(_INTEGER_DIGITS[kind], 0))
    elif kind is Kind.DECIMAL:
        supersede(node, value)
    elif kind in _TEXT_KINDS or (kind is None and _is_plain(value)):
        call = _call("numeric_of_text" if kind in _TEXT_KINDS else "numeric", value.copy())
        supersede(node, call)
    elif isinstance(value, exp.Placeholder | exp.Null):
        node.set("to", _decimal(MAX_DECIMAL_PRECISION, 9))  # its value was parsed as this type
    else:
        raise Unsupported(
            f"{written(node, 'duckdb')} does not say how many digits are kept.",
            cure="Write NUMERIC(precision, scale).",
        )


def _write_numeric_of_double(node: exp.Cast) -> None:
    around = node.parent
    places = around.args.get("decimals") if isinstance(around, exp.Round) else None
    if isinstance(places, exp.Literal) and places.name.isdigit() and int(places.name) < 20:
        node.set("to", _decimal(MAX_DECIMAL_PRECISION, int(places.name)))  # rounded in any case
        supersede(node.this, _call("digits_of_double", node.this.copy()))
    else:
        supersede(node, _call("numeric_of_double", node.this.copy()))


def _decimal(precision: int, scale: int) -> exp.DataType:
    sizes = [exp.DataTypeParam(this=exp.Literal.number(size)) for size in (precision, scale)]
    return exp.DataType(this=_D.DECIMAL, expressions=sizes)


def _number(value: Decimal) -> exp.Expr:
    """A literal with all digits of `value`, which DuckDB parses as a DECIMAL."""
    digits = f"{abs(value):f}"
    literal = exp.Literal.number(digits if "." in digits else f"{digits}.")
    return exp.Paren(this=exp.Neg(this=literal)) if value.is_signed() else literal


def _write_sum(node: exp.Sum) -> None:
    """Cast a sum, together with its FILTER and OVER, to PostgreSQL's type."""
    known: Kind | None = node.meta.get(SUMMED)
    if known not in (None, Kind.INTEGER) or node.meta.get(WIDE):
        return
    top: exp.Expr = node
    while isinstance(top.parent, exp.Filter | exp.Window) and top.parent.this is top:
        top = top.parent
    supersede(top, _narrowed(top) if known is not None else _typed_by_argument(top))


def _narrowed(total: exp.Expr) -> exp.Expr:
    return exp.Cast(this=total.copy(), to=exp.DataType(this=_D.BIGINT))


def _typed_by_argument(total: exp.Expr) -> exp.Expr:
    """The sum cast to the type of a second aggregate over the same rows, of which only the type is
    used."""
    witness = exp.Paren(this=total.copy())
    shown = witness.find(exp.Sum)
    assert shown is not None
    value = shown.this.expressions[0] if isinstance(shown.this, exp.Distinct) else shown.this
    one = exp.Anonymous(this="any_value", expressions=[_call("summed", value.copy())])
    supersede(shown, one)
    return exp.Anonymous(this="cast_to_type", expressions=[total.copy(), witness.this])


# ---------------------------------------------------------------- reading


def check_cast(node: exp.Cast) -> None:
    """Refuse types that DuckDB interprets differently, and parse a string literal as PostgreSQL
    does. Raises Unsupported and TypeMismatch."""
    to = node.args["to"]
    if not isinstance(to, exp.DataType):
        return
    if to.this in _REFUSED:
        name, cure = _REFUSED[to.this]
        raise Unsupported(f"Type {name} is not supported.", cure=cure)
    if to.this in _MOMENTS and [size.name for size in to.expressions] not in ([], ["6"]):
        raise Unsupported(
            f"Type {to.sql('duckdb')} is not supported: timestamps have six decimals of a second.",
            cure="Write date_trunc('second', …) or date_trunc('millisecond', …).",
        )
    to.set("expressions", [] if to.this in _MOMENTS else to.expressions)
    written = written_text(node.this)
    what = _READ_AS.get(to.this)
    if what is None or written is None:
        return
    try:
        node.set("this", exp.Literal.string(canonical(written, what)))
    except (ValueError, ArithmeticError) as error:
        if isinstance(node, exp.TryCast):
            node.set("this", exp.Null())
        else:
            raise not_read(written, to.sql("duckdb"), error) from None


def not_read(text: str, type_: str, reason: Exception) -> TypeMismatch:
    shown = repr(text if len(text) <= 60 else text[:57] + "...")
    return TypeMismatch(f"{shown} is not a value of type {type_}: {reason}.", type=type_)


_MOMENTS = {_D.TIMESTAMP, _D.TIMESTAMPNTZ, _D.TIMESTAMPTZ}
_REFUSED = {_D.JSONB: ("JSONB", "Use JSON; it is kept as the text that was written.")}


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
        case "timestamp":
            return spelling.timestamp(text).isoformat(sep=" ")
        case "timestamptz":
            return spelling.timestamptz(text).isoformat(sep=" ")
        case "uuid":
            return str(spelling.uuid_of(text))
        case _:
            return spelling.hexadecimal(spelling.sql_bytes(text))


def cast_literal(node: exp.Expr) -> exp.Expr:
    """A cast of a text literal without the macro that `duckdb_sql` puts around the literal: the
    literal is spelled canonically. Any other node as it is."""
    call = node.this if isinstance(node, exp.Cast) else None
    if not isinstance(call, exp.Anonymous) or call.name.lower() not in _MACROS_OF_TEXT:
        return node
    if written_text(call.expressions[0]) is None:
        return node
    return exp.Cast(this=call.expressions[0].copy(), to=node.args["to"].copy())


_MACROS_OF_TEXT = {_macro(f"{name}_of_text") for name in _OF_TEXT if name != "numeric"}


def sum_type(argument: ColumnType | None) -> ColumnType | None:
    """The type of SUM over values of type `argument`, as in PostgreSQL; None if only DuckDB knows
    it."""
    match argument:
        case ColumnType(kind=Kind.INTEGER):
            return ColumnType(Kind.BIGINT)
        case ColumnType(kind=Kind.BIGINT):
            return ColumnType(Kind.DECIMAL, MAX_DECIMAL_PRECISION, 0)
        case ColumnType(kind=Kind.DECIMAL, scale=scale):
            return ColumnType(Kind.DECIMAL, MAX_DECIMAL_PRECISION, scale or 0)
        case ColumnType(kind=Kind.DOUBLE):
            return argument
    return None


_WIDTH = (Kind.INTEGER, Kind.BIGINT, Kind.DECIMAL, Kind.DOUBLE)


def number_kind(node: exp.Expr, type_of: Callable[[exp.Expr], ColumnType | None]) -> Kind | None:
    """The kind of number of an expression, if it follows from the syntax; None otherwise. `type_of`
    gives the types of names."""
    match node:
        case exp.Paren() | exp.Neg() | exp.Abs() | exp.Distinct(expressions=[_]):
            inner = node.expressions[0] if isinstance(node, exp.Distinct) else node.this
            return number_kind(inner, type_of)
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Mod() | exp.Div():
            kind = _widest([node.this, node.expression], type_of)
            return Kind.DOUBLE if kind is not None and isinstance(node, exp.Div) else kind
        case exp.Coalesce() | exp.Greatest() | exp.Least():
            return _widest([node.this, *node.expressions], type_of)
        case exp.Case():
            values = [branch.args["true"] for branch in node.args["ifs"]]
            last = node.args.get("default")
            return _widest([*values, *([last] if last is not None else [])], type_of)
        case exp.Literal() if not node.is_string:
            return _literal_kind(node.name)
    type_ = type_of(node)
    return type_.kind if type_ is not None and type_.kind in _WIDTH else None


def _literal_kind(text: str) -> Kind:
    if "e" in text.lower():
        return Kind.DOUBLE
    if "." in text:
        return Kind.DECIMAL
    number = int(text)
    return Kind.INTEGER if number < 1 << 31 else Kind.BIGINT if number < 1 << 63 else Kind.DECIMAL


def _widest(
    nodes: Sequence[exp.Expr], type_of: Callable[[exp.Expr], ColumnType | None]
) -> Kind | None:
    kinds = [number_kind(node, type_of) for node in nodes if not isinstance(node, exp.Null)]
    known = [kind for kind in kinds if kind is not None]
    if not known or len(known) < len(kinds):
        return None
    return max(known, key=_WIDTH.index)
