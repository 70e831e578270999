"""Law: our own loops compute PostgreSQL's functions that are Python as PostgreSQL does, and a
function that may take any time only runs in DuckDB's processes."""

from __future__ import annotations

from typing import Any

import pytest
from sqlglot import exp

from hornbeam_server.query.binding.parse import parse
from hornbeam_server.query.dialect.value_functions import FUNCTIONS
from hornbeam_server.query.expressions import compile_expression
from hornbeam_server.query.values.regexes import regex
from hornbeam_server.schema.errors import HornbeamError, TypeMismatch
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
    of_patterns = [name for name in FUNCTIONS if name.startswith(("regexp", "similar"))]
    assert len(of_patterns) > 5
    assert not any(FUNCTIONS[name].loops for name in of_patterns)


@pytest.mark.parametrize("pattern", ["(", "a**", "[b", "\\", "a{2,1}", "[[:nothing:]]", "\\q", ")"])
def test_a_wrong_regular_expression_is_refused(pattern):
    with pytest.raises(TypeMismatch):
        regex(pattern)
