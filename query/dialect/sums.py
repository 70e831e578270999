"""SUM and AVG as Hornbeam means them, for DuckDB.

SUM has PostgreSQL's type. AVG of integers and decimals is the sum divided by the count, a quotient
of NUMERIC (`schema.quotients`), wherever it is computed: in DuckDB, in native loops, and in every
kind of view. Views of earlier versions have averages that are DOUBLE (`is_earlier`). AVG of other
values is DuckDB's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from sqlglot import exp

from hornbeam_server.query.dialect.grammar import NAME
from hornbeam_server.query.dialect.macros import call, is_plain
from hornbeam_server.schema.errors import Unsupported
from hornbeam_server.schema.quotients import PLACES
from hornbeam_server.schema.quotients import QUOTIENT as NUMERIC
from hornbeam_server.schema.trees import supersede
from hornbeam_server.schema.types import MAX_DECIMAL_PRECISION, REAL, ColumnType, Kind

SUMMED = "summed"
"""Key in the meta of a SUM or AVG: the kind of number that it adds, or INTERVAL, if the syntax
shows it."""
WIDE = "wide"
"""Key in the meta of a SUM that keeps DuckDB's type, which may be wider."""
QUOTIENT = "quotient"
"""Key in the meta of a division that is an average, of a sum by a count."""
LEFT = "left_to_duckdb"
"""Key in the meta of a node that has no function of ours, as in views of earlier versions."""
COMPARED = "compared"
"""Key in the meta of NULLIF: the type of the number that it compares with."""
KIND = "kind_of_quotient"
"""Key in the meta of `/` and AVG: the kind of its value, or None if only DuckDB knows it."""

_D = exp.DType
EXACT = (Kind.INTEGER, Kind.BIGINT, Kind.DECIMAL)
"""Numbers without a rounding error."""


# ---------------------------------------------------------------- SUM


def write_sum(node: exp.Sum) -> None:
    """Cast a sum, together with its FILTER and OVER, to PostgreSQL's type."""
    known: Kind | None = node.meta.get(SUMMED)
    if known is Kind.INTERVAL:
        top = whole(node)
        supersede(top, _sum_of_intervals(top))
        return
    if known not in (None, Kind.INTEGER, Kind.BIGINT) or node.meta.get(WIDE):
        return
    top = whole(node)
    supersede(top, _typed_by_argument(top) if known is None else _typed(top, known))


def _sum_of_intervals(total: exp.Expr) -> exp.Expr:
    """The sum of the months, the days and the microseconds, which DuckDB sums apart."""
    sums = []
    for part, type_ in (("months", "INTEGER"), ("days", "INTEGER"), ("ticks", "BIGINT")):
        one = exp.Paren(this=total.copy())
        summed = one.find(exp.Sum)
        assert summed is not None
        if isinstance(summed.this, exp.Distinct | exp.Order):
            raise Unsupported(
                "SUM of intervals takes no DISTINCT and no ORDER BY.",
                cure="Write them into a subquery.",
            )
        supersede(summed.this, call(part, summed.this.copy()))
        made = f"to_{'microseconds' if part == 'ticks' else part}"
        whole = exp.cast(one.this, type_, dialect="duckdb")
        sums.append(exp.Anonymous(this=made, expressions=[whole]))
    first, second, third = sums
    inner = exp.Add(this=first, expression=second)
    return exp.Paren(this=exp.Add(this=inner, expression=third))


def whole(aggregate: exp.Expr) -> exp.Expr:
    """An aggregate with its FILTER and OVER."""
    top = aggregate
    while isinstance(top.parent, exp.Filter | exp.Window) and top.parent.this is top:
        top = top.parent
    return top


def _inside(top: exp.Expr) -> exp.Expr:
    """The aggregate inside of its FILTER and OVER."""
    while isinstance(top, exp.Filter | exp.Window):
        top = top.this
    return top


def with_clauses_of(top: exp.Expr, aggregate: exp.Expr) -> exp.Expr:
    """`aggregate` with the FILTER and OVER that stand around another one in `top`."""
    root = exp.Paren(this=top.copy())
    supersede(_inside(root.this), aggregate)
    found: exp.Expr = root.this
    return found.pop()


def _typed(total: exp.Expr, summed: Kind) -> exp.Expr:
    type_ = sum_type(ColumnType(summed))
    assert type_ is not None
    return exp.Cast(this=total.copy(), to=exp.DataType.build(type_.sql(), NAME))


def _typed_by_argument(total: exp.Expr) -> exp.Expr:
    """The sum cast to the type of a second aggregate over the same rows, of which only the type is
    used."""
    witness = exp.Paren(this=total.copy())
    shown = witness.find(exp.Sum)
    assert shown is not None
    value = shown.this.expressions[0] if isinstance(shown.this, exp.Distinct) else shown.this
    for column in value.find_all(exp.Column):
        if column.meta.get("alias"):
            raise Unsupported(
                f"SUM of {column.name}, an output column of the same SELECT, is not supported.",
                cure="Repeat its expression, or write it into a subquery.",
            )
    one = exp.Anonymous(this="any_value", expressions=[call("summed", value.copy())])
    supersede(shown, one)
    return exp.Anonymous(this="cast_to_type", expressions=[total.copy(), witness.this])


# ---------------------------------------------------------------- AVG


def write_average(node: exp.Avg) -> None:
    """Write AVG, with its FILTER and OVER, as a quotient. If only DuckDB knows the type of its
    argument, write it by a macro. DuckDB's own AVG stays where a macro cannot be called: with OVER,
    DISTINCT or ORDER BY, or over expressions whose type DuckDB learns too late."""
    if is_exact(node):
        top = whole(node)
        exact = double_quotient if is_earlier(node) else partial(call, "quotient")
        supersede(top, exact(*parts(top)))
    elif _has_macro(node):
        _write_by_macro(node, whole(node))


def is_exact(node: exp.Avg) -> bool:
    """Is the average of integers or decimals, by the syntax?"""
    return node.meta.get(SUMMED) in EXACT


def is_quotient(node: exp.Avg) -> bool:
    """Is the average of numbers written as a quotient, so that a sum and a count give it?"""
    return is_exact(node) or _has_macro(node)


def _has_macro(node: exp.Avg) -> bool:
    unknown = SUMMED in node.meta and node.meta[SUMMED] is None
    bare = not isinstance(node.this, exp.Distinct | exp.Order)
    return unknown and bare and not isinstance(whole(node), exp.Window) and is_plain(node.this)


def spell_out(node: exp.Avg) -> None:
    """Replace an average of integers or decimals, with its FILTER and OVER, by its quotient."""
    top = whole(node)
    supersede(top, quotient(*parts(top)))


def is_earlier(node: exp.Avg) -> bool:
    """Is the average of exact numbers a DOUBLE, as in views of earlier versions?"""
    return node.meta.get(KIND) is Kind.DOUBLE


def parts(average: exp.Expr) -> tuple[exp.Expr, exp.Expr]:
    """The sum and the count whose quotient an average is, each with its FILTER and OVER."""
    return _as(exp.Sum, average), _as(exp.Count, average)


def _as(kind: type[exp.AggFunc], average: exp.Expr) -> exp.Expr:
    found = _inside(average)
    argument = found.this.this if isinstance(found.this, exp.Order) else found.this
    other = kind(this=argument.copy())
    other.meta.update({SUMMED: found.meta.get(SUMMED), WIDE: True})
    return with_clauses_of(average, other)


def quotient(total: exp.Expr, count: exp.Expr) -> exp.Paren:
    """A sum divided by a count, as NUMERIC."""
    division = exp.Div(this=total, expression=count)
    division.meta.update({QUOTIENT: True, KIND: Kind.DECIMAL})
    return exp.Paren(this=division)


def double_quotient(total: exp.Expr, count: exp.Expr) -> exp.Paren:
    """A sum as a DOUBLE divided by a count as a DOUBLE."""
    sides = [exp.Cast(this=side, to=exp.DataType(this=_D.DOUBLE)) for side in (total, count)]
    division = exp.Div(this=sides[0], expression=sides[1])
    division.meta[KIND] = Kind.DOUBLE
    return exp.Paren(this=division)


def _write_by_macro(node: exp.Avg, top: exp.Expr) -> None:
    """Call the macro, which takes no FILTER: values that FILTER leaves out become NULL."""
    value = node.this.copy()
    if isinstance(top, exp.Filter):
        value = exp.Case(ifs=[exp.If(this=top.expression.this.copy(), true=value)])
    supersede(top, call("average", value))


# ---------------------------------------------------------------- types


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
        case ColumnType(kind=Kind.DOUBLE | Kind.INTERVAL):
            return argument
    return None


_DOUBLE = ColumnType(Kind.DOUBLE)
_WIDTH = (Kind.INTEGER, Kind.BIGINT, Kind.DECIMAL, Kind.DOUBLE)


TypeOf = Callable[[exp.Expr], ColumnType | None]
_DOUBLE_PARTS = frozenset({"epoch", "julian"})
WHOLE = frozenset({"floor", "ceil", "ceiling", "trunc"})
"""Functions that round numbers, as ROUND does."""
_CHOICES = frozenset({"if", "ifnull"})
"""Functions that return one of their arguments."""
FEW = 4
"""DuckDB multiplies a quotient by a number of so many decimal places."""
_WHOLE_DIGITS = {Kind.INTEGER: 10, Kind.BIGINT: 19}


def number_kind(node: exp.Expr, type_of: TypeOf) -> Kind | None:
    """The kind of number of an expression, if it follows from the syntax; None otherwise. `type_of`
    gives the types of names."""
    type_ = number_type(node, type_of)
    return None if type_ is None else type_.kind


def number_type(node: exp.Expr, type_of: TypeOf) -> ColumnType | None:
    """The type of a number, if it follows from the syntax; None otherwise. It has room for every
    value of the expression, before and behind the point. A DECIMAL without a precision: the digits
    are not known."""
    rule = _RULES.get(type(node))
    if rule is not None:
        return rule(node, type_of)
    match node:
        case (
            exp.Paren() | exp.Neg() | exp.Abs() | exp.Order() | exp.Distinct(expressions=[_])
            | exp.Window() | exp.Filter() | exp.Min() | exp.Max()
            | exp.FirstValue() | exp.LastValue() | exp.NthValue() | exp.IgnoreNulls()
        ):  # fmt: skip
            inner = node.expressions[0] if isinstance(node, exp.Distinct) else node.this
            return number_type(inner, type_of)
        case exp.Add() | exp.Sub() | exp.Mul():
            days = isinstance(node, exp.Sub) and all(map(_is_date, map(type_of, _sides(node))))
            return ColumnType(Kind.BIGINT) if days else _computed(node, type_of)
        case exp.Cast() if node.is_type(_D.DECIMAL, _D.SMALLINT):
            return _of_cast(node, type_of)
        case exp.Subquery(this=exp.Select(expressions=[value])) | exp.Select(expressions=[value]):
            return number_type(value.unalias(), type_of)
        case exp.Anonymous() if is_part_of_time(node):
            return ColumnType(Kind.DECIMAL, _WHOLE_DIGITS[Kind.BIGINT], 0)
        case exp.Anonymous(expressions=[_, *_]) if node.name.lower() in WHOLE:
            return _of_rounded(node, [*node.expressions, None], type_of)
        case exp.Anonymous(expressions=[_, _]) if node.name.lower() == "mod":
            return _never_real(remainder_type(node.expressions, type_of))
        case exp.Anonymous(expressions=[value]) if node.name.lower() == "sign":
            return _of_sign(value, type_of)
        case exp.Literal() if not node.is_string:
            return _literal_type(node.name)
    met = operands_that_meet(node)
    if met:
        return number_of_all(met, type_of)
    type_ = type_of(node)
    return None if type_ is None else number_of(type_)


def is_real(node: exp.Expr, type_of: TypeOf) -> bool:
    """Is the `number_type` of a node REAL? One operand of another type decides; that on the right
    is first, so that a long sum is not gone through for each of its parts."""
    inner = node.unnest()
    if isinstance(inner, exp.DPipe):  # no number, and its type costs as much as a sum's
        return False
    if not isinstance(inner, exp.Add | exp.Sub | exp.Mul | exp.Mod):
        return number_type(inner, type_of) == REAL
    sides = [side for side in _sides(inner) if not isinstance(side, exp.Null)]
    return bool(sides) and all(is_real(side, type_of) for side in reversed(sides))


def operands_that_meet(node: exp.Expr) -> Sequence[exp.Expr]:
    """The operands of which a node returns one, or that it lists; [] of other nodes."""
    match node:
        case exp.Coalesce() | exp.Greatest() | exp.Least():
            return [node.this, *node.expressions]
        case exp.Case():
            last = node.args.get("default")
            values = [branch.args["true"] for branch in node.args["ifs"]]
            return [*values, *([] if last is None else [last])]
        case exp.Lag() | exp.Lead():
            default = node.args.get("default")
            return [node.this, *([] if default is None else [default])]
        case exp.Anonymous(expressions=[first, *rest]) if node.name.lower() in _CHOICES:
            return rest if node.name.lower() == "if" else [first, *rest]
    return []


def common_number(types: Sequence[ColumnType]) -> ColumnType | None:
    """The type that has room for numbers of all these types; None of none. A DECIMAL has at least
    all decimal places. It is a REAL if the doubles among them are, as in PostgreSQL."""
    kind = widest([type_.kind for type_ in types])
    if kind is Kind.DOUBLE and ColumnType(Kind.DOUBLE) not in types:
        return REAL
    if kind is not Kind.DECIMAL or any(map(is_unlimited, types)):
        return None if kind is None else ColumnType(kind)
    sizes = [_size(type_) for type_ in types]
    places = max(scale for _, scale in sizes)
    return _decimal(max(whole for whole, _ in sizes), places)


def common_if_known(types: Sequence[ColumnType | None]) -> ColumnType | None:
    """The type that has room for numbers of all these types; None if one of them is not known."""
    known = [type_ for type_ in types if type_ is not None]
    return common_number(known) if len(known) == len(types) else None


def number_of_all(nodes: Sequence[exp.Expr], type_of: TypeOf) -> ColumnType | None:
    """The common type of the numbers of nodes, except NULL; None if the type of one of them is not
    known."""
    given = (node for node in nodes if not isinstance(node, exp.Null))
    return common_if_known([number_type(node, type_of) for node in given])


def _of_sum(node: exp.Sum, type_of: TypeOf) -> ColumnType | None:
    summed = number_type(node.this, type_of)
    return summed if summed is None or is_unlimited(summed) else sum_type(summed)


def _of_average(node: exp.Avg, type_of: TypeOf) -> ColumnType | None:
    averaged = node.meta.get(KIND) or number_kind(node.this, type_of)
    return _of_quotient(Kind.DECIMAL if averaged in EXACT else averaged)


def _of_division(node: exp.Div, type_of: TypeOf) -> ColumnType | None:
    found = _of_quotient(_kind_of_quotient(node, type_of))
    doubles = found is not None and found.kind is Kind.DOUBLE
    return _computed(node, type_of) if doubles else found


def _of_nullif(node: exp.Nullif, type_of: TypeOf) -> ColumnType | None:
    """The type of NULLIF: that of the first argument, as a number that is compared with the second
    one. With a NUMERIC, an INTEGER is a NUMERIC; with a DOUBLE, both are DOUBLE."""
    first = number_type(node.this, type_of)
    second = node.meta.get(COMPARED) or number_type(node.expression, type_of)
    if first is None or second is None or LEFT in node.meta or first.kind not in EXACT:
        return first
    if second.kind is Kind.DOUBLE:
        return ColumnType(Kind.DOUBLE)
    decimal = second.kind is Kind.DECIMAL and first.kind in _WHOLE_DIGITS
    return _decimal(*_size(first)) if decimal else first


def _of_rounded(
    node: exp.Expr, given: Sequence[exp.Expr | None], type_of: TypeOf
) -> ColumnType | None:
    """The type of ROUND and the like. An integer becomes a DOUBLE, and a NUMERIC if the number of
    places is `given`. A NUMERIC may have one more digit if that number is computed."""
    assert given[0] is not None
    type_ = _never_real(number_type(given[0], type_of))
    if type_ is None or type_.kind not in _WHOLE_DIGITS or LEFT in node.meta:
        computed = given[1] is not None and given[1].find(exp.Column, exp.Query) is not None
        if type_ is None or type_.kind is not Kind.DECIMAL or is_unlimited(type_) or not computed:
            return type_
        return _decimal(_size(type_)[0] + 1, type_.scale or 0)
    return ColumnType(Kind.DOUBLE) if given[1] is None else _decimal(_size(type_)[0] + 1, 0)


def _of_sign(value: exp.Expr, type_of: TypeOf) -> ColumnType | None:
    """The type of `sign`: a DOUBLE, or a NUMERIC of a NUMERIC."""
    kind = number_kind(value, type_of)
    return None if kind is None else _decimal(1, 0) if kind is Kind.DECIMAL else _DOUBLE


def _of_bits(node: exp.Expr, type_of: TypeOf) -> ColumnType | None:
    """The type of `&`, `|`, `#` and `~`: the wider one of the integers."""
    sides = [node.this, *filter(None, [node.args.get("expression")])]
    found = number_of_all(sides, type_of)
    return found if found is not None and found.kind in _WHOLE_DIGITS else None


def _of_shift(node: exp.Binary, type_of: TypeOf) -> ColumnType | None:
    """The type of `<<` and `>>`: that of the left side."""
    found = number_type(node.this, type_of)
    return found if found is not None and found.kind in _WHOLE_DIGITS else None


def remainder_type(sides: Sequence[exp.Expr], type_of: TypeOf) -> ColumnType | None:
    """The type of a remainder. One of decimals is less than both sides, and has the places of
    both."""
    types = [number_type(side, type_of) for side in sides if not isinstance(side, exp.Null)]
    common = common_if_known(types)
    if common is None or common.kind is not Kind.DECIMAL or is_unlimited(common):
        doubles = common == REAL and any(type_ != REAL for type_ in types)
        return ColumnType(Kind.DOUBLE) if doubles else common
    return _decimal(min(_size(type_)[0] for type_ in types if type_ is not None), common.scale or 0)


def _never_real(type_: ColumnType | None) -> ColumnType | None:
    """The type of a function that has a DOUBLE for a REAL."""
    return ColumnType(Kind.DOUBLE) if type_ == REAL else type_


def is_unlimited(type_: ColumnType) -> bool:
    """Is this a DECIMAL whose digits are not known?"""
    return type_.kind is Kind.DECIMAL and type_.precision is None


_RULES: Mapping[type[exp.Expr], Callable[[Any, TypeOf], ColumnType | None]] = {
    exp.Avg: _of_average,
    **dict.fromkeys((exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseNot), _of_bits),
    **dict.fromkeys((exp.BitwiseLeftShift, exp.BitwiseRightShift), _of_shift),
    exp.Div: _of_division,
    exp.Mod: lambda node, type_of: remainder_type(_sides(node), type_of),
    exp.Nullif: _of_nullif,
    exp.Round: lambda node, type_of: _of_rounded(
        node, [node.this, node.args.get("decimals")], type_of
    ),
    exp.Sum: _of_sum,
}
"""The type of a number by its node; `number_type` knows the others."""


def digits_before_point(type_: ColumnType) -> int:
    return _size(type_)[0]


def _size(type_: ColumnType) -> tuple[int, int]:
    """The digits before and behind the point."""
    whole = _WHOLE_DIGITS.get(type_.kind)
    scale = type_.scale or 0
    return ((type_.precision or 0) - scale, scale) if whole is None else (whole, 0)


def _decimal(whole: int, places: int) -> ColumnType:
    return ColumnType(Kind.DECIMAL, min(whole + places, MAX_DECIMAL_PRECISION), places)


def _of_cast(node: exp.Cast, type_of: TypeOf) -> ColumnType:
    """The type of a cast to DECIMAL or SMALLINT."""
    if node.is_type(_D.SMALLINT):
        return ColumnType(Kind.INTEGER)
    sizes = [int(size.name) for size in node.args["to"].expressions]
    if sizes:
        return ColumnType(Kind.DECIMAL, sizes[0], (*sizes, 0)[1])
    cast = number_type(node.this, type_of)  # NUMERIC without a precision keeps the digits
    known = cast is not None and cast.kind in EXACT and not is_unlimited(cast)
    return _decimal(*_size(cast)) if known and cast is not None else ColumnType(Kind.DECIMAL)


def _of_quotient(kind: Kind | None) -> ColumnType | None:
    return None if kind is None else NUMERIC if kind is Kind.DECIMAL else ColumnType(kind)


def _computed(node: exp.Binary, type_of: TypeOf) -> ColumnType | None:
    """The type of a sum, difference, product or quotient of doubles. It is a REAL if all
    sides are."""
    sides = [number_type(s, type_of) for s in _sides(node) if not isinstance(s, exp.Null)]
    common = common_if_known(sides)
    if common == REAL and any(side != REAL for side in sides):
        return ColumnType(Kind.DOUBLE)
    if common is None or common.kind is not Kind.DECIMAL or is_unlimited(common):
        return common
    sizes = [_size(type_) for type_ in sides if type_ is not None]
    if isinstance(node, exp.Mul):
        places = [scale for _, scale in sizes]
        long = max(places) >= PLACES and min(places) > FEW
        return _decimal(sum(whole for whole, _ in sizes), PLACES if long else sum(places))
    return _decimal(max(whole for whole, _ in sizes) + 1, common.scale or 0)


def is_part_of_time(node: exp.Expr) -> bool:
    """Is this EXTRACT or date_part of a whole part? It is a BIGINT, which divides as a NUMERIC."""
    if not isinstance(node, exp.Anonymous) or node.name.lower() != "date_part":
        return False
    part = next(iter(node.expressions), exp.Null())  # DuckDB refuses a call without arguments
    return bool(part.is_string) and part.name.lower() not in _DOUBLE_PARTS


def _sides(node: exp.Binary) -> list[exp.Expr]:
    return [node.this, node.expression]


def _is_date(type_: ColumnType | None) -> bool:
    return type_ is not None and type_.kind is Kind.DATE


def number_of(type_: ColumnType) -> ColumnType | None:
    """The type if it is one of numbers; None for other types."""
    return type_ if type_.kind in _WIDTH else None


def _kind_of_quotient(node: exp.Div, type_of: TypeOf) -> Kind | None:
    """The kind of a quotient. A parameter is a NUMERIC if the other side is one."""
    known: Kind | None = node.meta.get(KIND)
    if known is None:
        sides = [node.this.unnest(), node.expression.unnest()]
        kinds = [number_kind(side, type_of) for side in sides]
        if Kind.DECIMAL in kinds:
            pairs = zip(sides, kinds, strict=True)
            kinds = [Kind.DECIMAL if k is None and _is_untyped(s) else k for s, k in pairs]
        node.meta[KIND] = known = widest(kinds)
    return known


def _is_untyped(node: exp.Expr) -> bool:
    return isinstance(node, exp.Placeholder | exp.Null) or bool(node.is_string)


def _literal_type(text: str) -> ColumnType:
    if "e" in text.lower():
        return ColumnType(Kind.DOUBLE)
    whole, _, places = text.partition(".")
    if "." not in text and int(text) < 1 << 63:
        return ColumnType(Kind.INTEGER if int(text) < 1 << 31 else Kind.BIGINT)
    digits = max(len(whole) + len(places), 1)
    fits = digits <= MAX_DECIMAL_PRECISION
    return ColumnType(Kind.DECIMAL, *((digits, len(places)) if fits else ()))


def widest(kinds: Sequence[Kind | None]) -> Kind | None:
    """The kind of numbers of these kinds together; None if one of them is not known."""
    known = [kind for kind in kinds if kind is not None]
    return max(known, key=_WIDTH.index) if known and len(known) == len(kinds) else None
