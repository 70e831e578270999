"""obj_description, col_description and shobj_description: they become look-ups of comments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sqlglot import exp

from hornbeam_server.query.parsing.system_lookups import filled
from hornbeam_server.query.system.postgresql import relations

_CLASSES = (
    *("pg_class", "pg_type", "pg_namespace", "pg_constraint", "pg_database", "pg_proc"),
    *("pg_am", "pg_authid", "pg_cast", "pg_operator", "pg_tablespace", "pg_trigger"),
)
"""The relations whose objects a call may name."""
_OF_OBJECT = """
(SELECT t.description FROM pg_catalog.{relation} AS t WHERE t.objoid = oid{more})
"""


def _lookup(relation: str, more: str, **values: exp.Expr) -> exp.Expr:
    template = _OF_OBJECT.format(relation=relation, more=f" AND {more}" if more else "")
    return filled(template, values)


def _class(name: exp.Expr) -> exp.Expr:
    """The OID of the relation of the system catalog that a text names; NULL for others."""
    found = exp.Case(this=exp.cast(name.copy(), exp.DType.TEXT))
    for each in _CLASSES:
        oid = exp.cast(exp.Literal.number(relations()[each].oid), exp.DType.BIGINT)
        found = found.when(exp.Literal.string(each), oid)
    return found


def _object(given: Sequence[exp.Expr]) -> exp.Expr:
    """The comment of an object, also without the relation that it is in: all OIDs differ."""
    oid, *of_class = given
    if not of_class:
        return _lookup("pg_description", "t.objsubid = 0", oid=oid)
    more = "t.objsubid = 0 AND t.classoid = class"
    return _lookup("pg_description", more, oid=oid, **{"class": _class(of_class[0])})


def _column(given: Sequence[exp.Expr]) -> exp.Expr:
    oid, number = given
    class_ = relations()["pg_class"].oid
    more = f"t.objsubid = number AND t.classoid = {class_}"
    return _lookup("pg_description", more, oid=oid, number=number)


def _shared(given: Sequence[exp.Expr]) -> exp.Expr:
    oid, of_class = given
    return _lookup("pg_shdescription", "t.classoid = class", oid=oid, **{"class": _class(of_class)})


COMMENT_FUNCTIONS: Mapping[str, Callable[[Sequence[exp.Expr]], exp.Expr]] = {
    "obj_description": _object,
    "col_description": _column,
    "shobj_description": _shared,
}
