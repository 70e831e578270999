"""Look-ups in system relations, which stand for functions of the system catalog, and OIDs of
names."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from sqlglot import exp

from hornbeam_server.query.dialect.grammar import expression
from hornbeam_server.query.dialect.templates import value_call
from hornbeam_server.query.system.postgresql import relations
from hornbeam_server.query.values.names import canonical
from hornbeam_server.schema.trees import nodes_of

NAMED = "named_in_catalog"
"""The call that stands for the OID of a name that the text has: kind of the object, name. The
binder puts the number there (`query/binding/system_names.py`)."""

_LOOKUP = """
(SELECT t."found text" FROM pg_catalog."hornbeam texts" AS t WHERE t."about text" = {about}
AND t."oid of text" = oid AND t."part of text" = part)
"""
_OF_NAME = """
(SELECT t."oid of text" FROM pg_catalog."hornbeam texts" AS t WHERE t."about text" = about
AND t."found text" = name)
"""
_names = itertools.count()

INTEGERS = (exp.DType.BIGINT, exp.DType.INT)


def lookup(about: str, oid: exp.Expr, part: exp.Expr | int = 0) -> exp.Expr:
    """The text about the object `oid`; NULL if there is none."""
    number = exp.Literal.number(part) if isinstance(part, int) else part
    template = _LOOKUP.format(about=f"'{about}'")
    return filled(template, {"oid": _as_oid(oid), "part": number})


def oid_of_name(about: str, name: exp.Expr) -> exp.Expr:
    """The OID of the object of a computed name; NULL if there is none."""
    spelled = value_call("canonical_name", name.copy())
    given = {"about": exp.Literal.string(f"name of {about}"), "name": spelled}
    return filled(_OF_NAME, given)


def filled(template: str, values: Mapping[str, exp.Expr]) -> exp.Expr:
    """The template with the values of its names; its tables have an alias that no other has."""
    tree = expression(template.strip()).copy()
    alias = exp.to_identifier(f"texts {next(_names) % 1_000_000}", quoted=True)
    columns, tables = nodes_of(tree, exp.Column), nodes_of(tree, exp.Table)
    for table in tables:
        table.args["alias"].set("this", alias.copy())
    for column in columns:
        if column.table == "t":
            column.set("table", alias.copy())
        elif column.name in values:
            column.replace(values[column.name].copy())
    return tree


def written(sql: str, *arguments: exp.Expr) -> exp.Expr:
    """The expression over the arguments `a`, `b`, …"""
    names = dict(zip("abc", arguments, strict=False))
    tree = exp.Paren(this=expression(sql).copy())
    for column in list(tree.find_all(exp.Column)):
        if column.name in names:
            column.replace(exp.Paren(this=names[column.name].copy()))
    return tree


def oid_of(about: str, value: exp.Expr) -> exp.Expr:
    """The OID of an object that is given by its name or by its OID."""
    inner = value.unnest()
    if isinstance(inner, exp.Literal):
        text = str(inner.this)
        if text.isdigit():
            return exp.cast(exp.Literal.number(text), exp.DType.BIGINT)
        given = [exp.Literal.string(about), exp.Literal.string(canonical(text))]
        return exp.Anonymous(this=NAMED, expressions=given)
    if not _may_be_text(inner):
        return value.copy()
    named = oid_of_name(about, exp.cast(value.copy(), exp.DType.TEXT))
    number = exp.TryCast(
        this=exp.cast(value.copy(), exp.DType.TEXT), to=exp.DataType(this=exp.DType.BIGINT)
    )
    return exp.Coalesce(this=number, expressions=[named])


def is_oid(value: exp.Expr) -> bool:
    """Is it an OID, not a name?"""
    inner = value.unnest()
    if isinstance(inner, exp.Literal):
        return not inner.is_string
    return not _may_be_text(inner)


def _may_be_text(value: exp.Expr) -> bool:
    if isinstance(value, exp.Column):
        return value.name not in _oid_columns() and not value.name.endswith("oid")
    if isinstance(value, exp.Cast):
        return value.to.this not in INTEGERS
    if isinstance(value, exp.Anonymous):
        return value.name != NAMED
    return True


@cache
def _oid_columns() -> frozenset[str]:
    return frozenset(
        name
        for each in relations().values()
        for name, type_, _ in each.columns
        if type_ in {"oid", "int4", "regtype"}
    )


def _as_oid(value: exp.Expr) -> exp.Expr:
    """An OID that may be written as a text."""
    inner = value.unnest()
    if isinstance(inner, exp.Literal) and inner.is_string and inner.this.isdigit():
        return exp.Literal.number(inner.this)
    return value.copy()


def named_calls(nodes: Iterable[exp.Expr]) -> Iterator[exp.Anonymous]:
    """The calls that stand for OIDs of written names."""
    for node in nodes:
        if isinstance(node, exp.Anonymous) and node.name == NAMED:
            yield node
