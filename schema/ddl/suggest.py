"""Proposes a whole schema for a file with problems."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hornbeam_server.schema.ddl.load import Reading, refuse_includes
from hornbeam_server.schema.model import Column, Default, DefaultKind, Relation, Schema
from hornbeam_server.schema.problems import WHOLE_FILE, Problem, Subject
from hornbeam_server.schema.render import render_ddl
from hornbeam_server.schema.types import ColumnType, Kind


def suggestion(reading: Reading, file: str) -> str:
    """DDL that can be applied: the schema without its wrong elements, with a comment at each
    place where it differs from the file."""
    refuse_includes(reading)
    remarks: dict[Subject, list[str]] = {}
    for problem in reading.problems.found():
        subject = _shown(problem.subject, reading.schema)
        remarks.setdefault(subject, []).append(_remark(problem))
    relations = []
    for relation in reading.schema.relations:
        whole, remark = _with_key(relation, reading.schema)
        relations.append(whole)
        if remark:
            remarks.setdefault((relation.name, ""), []).append(remark)
    schema = replace(reading.schema, relations=tuple(relations))
    head = "".join(f"-- {line}\n" for line in _head(reading, file, remarks.get(WHOLE_FILE, [])))
    return f"{head}\n{render_ddl(schema, remarks)}"


def _head(reading: Reading, file: str, remarks: list[str]) -> Iterator[str]:
    yield f"Proposed for {file}. A comment stands at each place that differs from the file."
    yield from reading.schema.notes
    yield from remarks


def _shown(subject: Subject, schema: Schema) -> Subject:
    """The subject if it is in the schema, otherwise what surrounds it."""
    name, column = subject
    if name not in schema:
        return WHOLE_FILE
    return subject if column in schema.relation(name).column_names else (name, "")


def _remark(problem: Problem) -> str:
    error = problem.error
    return f"Line {problem.place[0]}: {error.message} {error.cure}".replace("\n", " ")


def _with_key(relation: Relation, schema: Schema) -> tuple[Relation, str]:
    """The relation with a primary key, and a remark if it had none: the columns of a UNIQUE
    constraint without NULL, or a number."""
    if relation.primary_key:
        return relation, ""
    filled = {column.name for column in relation.columns if not column.nullable}
    for index in schema.indexes:
        names = tuple(part.column for part in index.columns)
        if index.unique and index.relation == relation.name and filled.issuperset(names):
            return replace(relation, primary_key=names), "The UNIQUE columns are the key."
    name = _new_name(relation)
    number = Column(name, ColumnType(Kind.BIGINT), False, Default(DefaultKind.IDENTITY))
    numbered = replace(relation, columns=(*relation.columns, number), primary_key=(name,))
    return numbered, f"Column {name} is new: it numbers the rows."


def _new_name(relation: Relation) -> str:
    name = f"{relation.name}_number"
    while name in relation.column_names:
        name += "_"
    return name
