"""Functions that are called by name: handlers of their compiled arguments.

Hornbeam's grammar leaves a call as it is written (`query/dialect/grammar.py`), so a function is
known by its name here. So is a macro of arrays or a function of JSONB, which the text of a declared
view calls. Each handler raises NotNativeError for arguments of other types or numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from hornbeam_server.query.dialect.arrays import FUNCTIONS, PREFIX
from hornbeam_server.query.dialect.arrays import Function as ArrayFunction
from hornbeam_server.query.dialect.jsonb import FUNCTIONS as JSONB_FUNCTIONS
from hornbeam_server.query.dialect.jsonb import PREFIX as JSONB_PREFIX
from hornbeam_server.query.dialect.jsonb import Function as JsonbFunction
from hornbeam_server.query.dialect.jsonb import Parameter
from hornbeam_server.query.dialect.macros import macro
from hornbeam_server.query.dialect.results import AS_KIND
from hornbeam_server.query.dialect.value_functions import function_of
from hornbeam_server.query.expressions import (
    arithmetic,
    arrays,
    casts,
    dates,
    jsonb,
    logic,
    patterns,
    text,
    value_functions,
)
from hornbeam_server.query.expressions.operands import TEXT, NotNativeError, Operand, require
from hornbeam_server.schema.types import REAL, Kind

Function = Callable[..., Operand]


def called(name: str, arguments: Sequence[Operand]) -> Operand:
    """The call of function `name`. Raises NotNativeError for a function that only DuckDB
    evaluates."""
    function = function_of(name)
    if function is not None:
        return value_functions.called(function, arguments)
    known = _FUNCTIONS.get(name.lower())
    if known is None or len(arguments) not in known[0]:
        raise NotNativeError
    return known[1](*arguments)


def _date_part(part: Operand, value: Operand) -> Operand:
    return dates.date_part(dates.part_name(part), value)


def _date_trunc(part: Operand, value: Operand) -> Operand:
    return dates.date_trunc(dates.part_name(part), value)


def _if(test: Operand, value: Operand, default: Operand) -> Operand:
    return logic.case([(test, value)], default)


def _concat(*arguments: Operand) -> Operand:
    return text.concat(arguments)


def _of_arrays(name: str, *arguments: Operand) -> Operand:
    return arrays.called(name, arguments)


def _of_jsonb(name: str, *arguments: Operand) -> Operand:
    return jsonb.called(name, [[argument] for argument in arguments])


def _as_kind(kind: Kind, number: Operand) -> Operand:
    return arithmetic.as_kind(number, kind)


def _takes_no_list(function: JsonbFunction) -> bool:
    return Parameter.LIST not in function.parameters


def _number_of(function: ArrayFunction | JsonbFunction) -> range:
    number = len(function.parameters)
    return range(number, number + 1)


def _label(_positions: Operand, _labels: Operand, value: Operand) -> Operand:
    """The text of a value of an ENUM."""
    return casts.cast(require(value, Kind.ENUM), TEXT)


_ONE, _TWO, _THREE = range(1, 2), range(2, 3), range(3, 4)
_FUNCTIONS: dict[str, tuple[range, Function]] = {
    "date_part": (_TWO, _date_part),
    "datepart": (_TWO, _date_part),
    "date_trunc": (_TWO, _date_trunc),
    "datetrunc": (_TWO, _date_trunc),
    **{part: (_ONE, partial(dates.date_part, part)) for part in dates.FUNCTIONS},
    "if": (_THREE, _if),
    "char_length": (_ONE, text.length),
    "character_length": (_ONE, text.length),
    "mod": (_TWO, arithmetic.modulo),
    macro("label"): (_THREE, _label),
    macro(patterns.FITS): (_THREE, patterns.fits),
    macro("epoch"): (_ONE, dates.exact_epoch),
    macro("quotient"): (_TWO, arithmetic.numeric_quotient),
    macro("product"): (_TWO, arithmetic.long_product),
    macro("remainder"): (_TWO, arithmetic.wide_remainder),
    **{macro(name): (_ONE, partial(_as_kind, kind)) for name, kind in AS_KIND.items()},
    macro("real"): (_ONE, partial(casts.cast, to=REAL)),
    "floor": (_ONE, partial(arithmetic.whole, math.floor)),
    "ceil": (_ONE, partial(arithmetic.whole, math.ceil)),
    "ceiling": (_ONE, partial(arithmetic.whole, math.ceil)),
    "trunc": (_ONE, partial(arithmetic.whole, math.trunc)),
    "concat": (range(1, 100), _concat),
    "contains": (_TWO, text.contains),
    "left": (_TWO, text.left),
    "replace": (_THREE, text.replace),
    "right": (_TWO, text.right),
    "starts_with": (_TWO, text.starts_with),
    "strpos": (_TWO, text.position),
    **{
        macro(PREFIX + name): (_number_of(function), partial(_of_arrays, name))
        for name, function in FUNCTIONS.items()
    },
    macro("array_any"): (_TWO, arrays.any_equal),
    **{
        JSONB_PREFIX + name: (_number_of(function), partial(_of_jsonb, name))
        for name, function in JSONB_FUNCTIONS.items()
        if _takes_no_list(function)
    },
    macro("json"): (_ONE, jsonb.as_json),
}
"""By name: the possible numbers of arguments, and the handler."""
