"""Law: our own loops compute PostgreSQL's functions that are Python as PostgreSQL does, and a
function that may take any time only runs in DuckDB's processes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice, product
from typing import Any

import pytest
from sqlglot import exp

from hornbeam_server.query.dialect.value_functions import ANY, FUNCTIONS, over_simple, types_of
from hornbeam_server.query.expressions import compile_expression
from hornbeam_server.query.parsing.parse import parse
from hornbeam_server.query.values.regexes import regex
from hornbeam_server.schema.errors import HornbeamError, TypeMismatch
from hornbeam_server.schema.types import ColumnType, Kind
from tests.postgres.corpus import is_statement, recorded
from tests.postgres.differences import declared, same_value
from tests.postgres.patterns import patterns
from tests.postgres.templates import templates


class _NoNames:
    def resolve(self, column: exp.Column) -> Any:
        raise AssertionError(column)

    def parameter_type(self, name: int | str) -> None:
        return None


def test_our_loops_answer_as_postgresql_does():
    _, answers = recorded()
    differing = {case for each in declared() for case in each.cases}
    compared, wrong = 0, []
    for case in {*templates(), *patterns()} - differing:
        wanted = answers[case]
        if is_statement(case) or wanted.error is not None:
            continue
        node = parse(f"SELECT {case}").expressions[0].unalias()
        compiled = compile_expression(node, _NoNames())
        if compiled is None:
            continue
        compared += 1
        found = compiled((), ())
        if not same_value(wanted.types[0], wanted.rows[0][0], found):
            wrong.append((case, wanted.rows[0][0], found))
    assert not wrong
    assert compared > 500


def test_our_loops_refuse_what_postgresql_refuses():
    _, answers = recorded()
    wrong = [case for case in templates() if not is_statement(case) and answers[case].error]
    answered = [case for case in wrong if _is_answered(case)]
    assert not answered
    assert len(wrong) > 50


def _is_answered(case: str) -> bool:
    try:
        node = parse(f"SELECT {case}").expressions[0].unalias()
        compiled = compile_expression(node, _NoNames())
        return compiled is not None and compiled((), ()) is not None
    except HornbeamError:
        return False


def test_regular_expressions_run_in_processes_with_a_time_limit_only():
    of_patterns = {name for name in FUNCTIONS if name.startswith(("regexp", "similar"))}
    of_patterns.remove("similar_to_escape")  # it writes a pattern, and matches nothing
    assert len(of_patterns) > 5
    assert not any(FUNCTIONS[name].loops for name in of_patterns)


@pytest.mark.parametrize("pattern", ["(", "a**", "[b", "\\", "a{2,1}", "[[:nothing:]]", "\\q", ")"])
def test_a_wrong_regular_expression_is_refused(pattern):
    with pytest.raises(TypeMismatch):
        regex(pattern)


_ODD = {
    Kind.DECIMAL: ("nan", "inf", "0", "-1.5", "1e300"),
    Kind.DOUBLE: (math.nan, math.inf, 0.0, -1.5, 1e308),
    Kind.INTEGER: (0, -1, 2**31 - 1),
    Kind.BIGINT: (0, -1, 2**63 - 1),
    Kind.TEXT: ("", "\\", "(", "9.99"),
    Kind.BYTES: (b"", b"\xff"),
}
_ANYTHING = (
    *(("nan", "DOUBLE"), ("0", "INTEGER"), ("1.5", "DECIMAL(2,1)"), ("a", "VARCHAR")),
    *(("2024-01-01", "DATE"), ("infinity", "TIMESTAMP"), ("1 day", "INTERVAL")),
)


def _odd_arguments(type_: ColumnType | None) -> Sequence[tuple[Any, ...]]:
    """Values of a parameter's type as DuckDB passes them, each one argument or two."""
    if type_ is ANY:
        return _ANYTHING
    lists = [["a", None], []] if type_.element else ["x"]
    return [(value,) for value in _ODD.get(type_.kind, lists)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_odd_arguments_are_computed_or_refused_by_an_error_of_ours(name):
    function = FUNCTIONS[name]
    for count in function.counts:
        parameters = function.parameters[:count]
        run = over_simple(function, parameters, sum(len(types_of(each)) for each in parameters))
        for given in islice(product(*map(_odd_arguments, parameters)), 300):
            with suppress(HornbeamError):
                run(*(value for each in given for value in each))
