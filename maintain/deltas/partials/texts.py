"""Columns in the expressions of the algebra, which are SQL for DuckDB."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping

from sqlglot import exp
from sqlglot.errors import SqlglotError

from hornbeam_server.query.dialect.duckdb_types import quoted
from hornbeam_server.query.dialect.grammar import read_expression

_TOKEN = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*\"""")
"""A constant of text, or a quoted identifier. Columns are always quoted."""
_NEVER_FAIL = (
    *(exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Paren),
    *(exp.Add, exp.Sub, exp.Mul, exp.Neg),
    *(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.In, exp.Is),
    *(exp.And, exp.Or, exp.Not, exp.Case, exp.If, exp.Coalesce, exp.Like),
    *(exp.TryCast, exp.DataType, exp.DataTypeParam),
)


def columns_in(text: str, known: Container[str]) -> frozenset[str]:
    """The columns of `known` that an expression reads."""
    found = (_name(token) for token in _TOKEN.findall(text) if token.startswith('"'))
    return frozenset(name for name in found if name in known)


def with_columns(text: str, columns: Mapping[str, str]) -> str:
    """An expression with each column replaced by its expression in `columns`, if it has one."""

    def replaced(match: re.Match[str]) -> str:
        token = match[0]
        found = columns.get(_name(token)) if token.startswith('"') else None
        if found is None:
            return token
        return found if _TOKEN.fullmatch(found) else f"({found})"

    return _TOKEN.sub(replaced, text)


def plain_column(text: str) -> str | None:
    """The column's name if an expression is a plain column, otherwise None."""
    whole = _TOKEN.fullmatch(text)
    name = _name(text) if whole and text.startswith('"') else None
    return name if name is not None and quoted(name) == text else None


def _name(token: str) -> str:
    return token[1:-1].replace('""', '"')


def never_fails(text: str, numbers: Container[str]) -> bool:
    """Can an expression be computed for any row, also for rows that a later join drops? Only
    arithmetic may still leave its range. `numbers` are the columns that are numbers or dates, which
    a CAST may convert."""
    try:
        tree = read_expression(text)
    except (SqlglotError, RecursionError):
        return False
    if isinstance(tree, exp.Cast):  # it says the type that the expression has
        tree = tree.this
    return all(_never_fails(node, numbers) for node in tree.walk())


def _never_fails(node: exp.Expr, numbers: Container[str]) -> bool:
    if isinstance(node, exp.Cast) and not isinstance(node, exp.TryCast):
        return node.find(exp.Column) is None or _is_number(node.this, numbers)
    return isinstance(node, _NEVER_FAIL) or _is_part_of_date(node)


def _is_number(node: exp.Expr, numbers: Container[str]) -> bool:
    """Is an expression a number, a date or NULL?"""
    match node:
        case exp.Column():
            return node.name in numbers
        case exp.Literal():
            return not node.is_string
        case exp.Paren() | exp.Cast() | exp.Neg():
            return _is_number(node.this, numbers)
        case exp.Case():
            values = [
                *(branch.args["true"] for branch in node.args["ifs"]),
                node.args.get("default"),
            ]
            return all(value is None or _is_number(value, numbers) for value in values)
        case exp.Coalesce():
            return all(_is_number(value, numbers) for value in (node.this, *node.expressions))
    return isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Null) or _is_part_of_date(node)


def _is_part_of_date(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() == "date_part"
