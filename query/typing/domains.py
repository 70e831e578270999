"""Casts to a domain: a cast to its type, whose value is checked.

`x :: d` is `CASE WHEN meets_domain(check of x, 'd', 'its name') AND … THEN x :: type of d END`, in
which `meets_domain` is true or raises the error (`query/values/domains.py`). It is written so
before names are bound, as if the statement had it.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from hornbeam_server.query.dialect.functions import function_name
from hornbeam_server.query.dialect.macros import call
from hornbeam_server.query.parsing.parse import parse
from hornbeam_server.query.values.domains import NOT_NULL
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.domains import VALUE, checks_of
from hornbeam_server.schema.errors import Unsupported
from hornbeam_server.schema.model import Domain, Schema

_RANDOM = frozenset({"gen_random_uuid", "rand", "random", "uuid"})
"""Functions with another value at each call."""
_OPERAND = "..operand"
"""A column that stands for the operand of a cast. No column has this name."""


def checked_cast(cast: exp.Cast, domain: Domain, catalog: Catalog) -> exp.Expr:
    """The expression for a cast to a domain, with copies of its operand. Raises Unsupported for an
    operand that has another value each time."""
    operand = cast.this
    for node in operand.walk():
        if isinstance(node, exp.Func) and function_name(node) in _RANDOM:
            raise Unsupported(
                f"A value of {function_name(node)} is not cast to the domain {domain.name}: it"
                " would have another value each time that it is checked.",
                cure="Compute it in a subquery in FROM, and cast its column.",
            )
    value = _expression(f'CAST("{_OPERAND}" AS {domain.value.type.ddl()})')
    checks = list(_checks(domain, value, catalog.schema))
    whole: exp.Expr = value
    if checks:
        whole = exp.Case(ifs=[exp.If(this=exp.and_(*checks, copy=False), true=value)])
    return _with(whole, _OPERAND, operand)


def _checks(domain: Domain, value: exp.Expr, schema: Schema) -> Iterator[exp.Expr]:
    """The conditions that raise an error if `value` does not meet the domain."""
    if not domain.value.nullable:
        there = exp.Not(this=exp.Is(this=value.copy(), expression=exp.Null()))
        yield _required(there, domain, NOT_NULL)
    for check in checks_of(schema, domain):
        condition = _with(_expression(check.sql), VALUE, value)
        yield _required(condition, domain, check.name)


def _required(condition: exp.Expr, domain: Domain, constraint: str) -> exp.Expr:
    names = (exp.Literal.string(domain.name), exp.Literal.string(constraint))
    return call("meets_domain", condition, *names)


def _expression(sql: str) -> exp.Expr:
    """The parsed expression, without a SELECT around it."""
    (found,) = parse(f"SELECT ({sql})").expressions
    inner: exp.Expr = found.unalias()
    inner.pop()
    return inner


def _with(tree: exp.Expr, name: str, value: exp.Expr) -> exp.Expr:
    """The tree with copies of `value` for the columns `name`."""

    def replaced(node: exp.Expr) -> exp.Expr:
        is_it = isinstance(node, exp.Column) and node.name == name and not node.table
        return value.copy() if is_it else node

    return tree.transform(replaced, copy=False)
