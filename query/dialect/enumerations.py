"""Casts to and from an ENUM, for DuckDB, which has the positions of labels (`schema/enumerations`).

A cast names the type; binding notes the enumeration in the meta of the name (`ENUMERATION`).
"""

from __future__ import annotations

from sqlglot import exp

from hornbeam_server.query.dialect.macros import CAST_FROM, PARAMETER_TYPE, call
from hornbeam_server.schema.enumerations import Enumeration
from hornbeam_server.schema.trees import supersede
from hornbeam_server.schema.types import ColumnType, Kind

ENUMERATION = "enumeration"
"""Key in the meta of the name of a type: the enumeration that it names."""
_TEXT = ColumnType(Kind.TEXT)


def name_of(type_: ColumnType) -> exp.DataType:
    """The name of an ENUM, or of an array of it, in a cast."""
    if type_.element is not None:
        return exp.DataType(this=exp.DType.ARRAY, expressions=[name_of(type_.element)], nested=True)
    named = exp.DataType(this=exp.DType.USERDEFINED, kind=type_.labels.sql)
    named.meta[ENUMERATION] = type_.labels
    return named


def write_labels(node: exp.Cast) -> bool:
    """Write a cast of an ENUM to text, or of text to an ENUM. The result says whether the cast is
    written: one to text is still to be written, as a cast of a text."""
    given: ColumnType | None = node.meta.get(CAST_FROM)
    to: Enumeration | None = node.args["to"].meta.get(ENUMERATION)
    name = node.args["to"]
    if to is None and name.this is exp.DType.ARRAY:
        return _write_array(node, given, name.expressions[0].meta.get(ENUMERATION))
    if to is not None:
        supersede(node, _position(node.this, given, to))
        return True
    if given is not None and given.enumeration is not None:
        labels = given.enumeration
        place = node.this
        place.replace(shown := call("label", _texts(labels.positions), _texts(labels.labels)))
        shown.append("expressions", place)
        node.meta[CAST_FROM] = _TEXT
    return False


def _write_array(node: exp.Cast, given: ColumnType | None, to: Enumeration | None) -> bool:
    """Write a cast to an array of an ENUM: of such an array, or of one of texts."""
    if to is None:
        return False
    texts = exp.DataType.build("TEXT[]", dialect="duckdb")
    array = node.this
    elements = None if given is None else given.element
    known = elements is not None and elements.enumeration is not None
    if known or isinstance(array.unnest(), exp.Array | exp.Null | exp.Placeholder):
        supersede(node, exp.cast(array, texts))
        return True
    if elements is None:
        array = call("array_elements", array.copy())
    name = exp.to_identifier("hornbeam_element")
    each = exp.Lambda(this=_position(exp.column("hornbeam_element"), _TEXT, to), expressions=[name])
    listed = exp.Anonymous(this="list_transform", expressions=[array.copy(), each])
    supersede(node, listed)
    return True


def _position(value: exp.Expr, given: ColumnType | None, to: Enumeration) -> exp.Expr:
    """The position of the label that `value` is: of a text, or of the enumeration itself."""
    if isinstance(value, exp.Literal) and value.is_string:
        return exp.Literal.string(to.by_label[value.name].position)
    typed = given is not None and given.enumeration is not None
    if typed or value.meta.get(PARAMETER_TYPE) is not None:
        return value.copy()
    text = exp.cast(value, exp.DType.TEXT)
    if isinstance(value.unnest(), exp.Null):
        return text
    name = exp.Literal.string(to.sql)
    return call("position_of_label", name, _texts(to.positions), _texts(to.labels), text)


def _texts(texts: tuple[str, ...]) -> exp.Expr:
    listed = exp.Array(expressions=[exp.Literal.string(text) for text in texts])
    return exp.cast(listed, exp.DataType.build("TEXT[]", dialect="duckdb"))
