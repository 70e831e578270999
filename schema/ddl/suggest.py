"""Proposes a whole schema for a file with problems."""

from __future__ import annotations

from collections.abc import Iterator

from hornbeam_server.schema.comments import render_comments
from hornbeam_server.schema.ddl.comments import as_comment
from hornbeam_server.schema.ddl.load import Reading, refuse_includes
from hornbeam_server.schema.model import Schema
from hornbeam_server.schema.problems import WHOLE_FILE, Problem, Subject
from hornbeam_server.schema.render import render_ddl


def suggestion(reading: Reading, file: str) -> str:
    """DDL that can be applied: the schema without its wrong elements, with a comment at each
    place where it differs from the file."""
    refuse_includes(reading)
    remarks: dict[Subject, list[str]] = {}
    for problem in reading.problems.found():
        subject = _shown(problem.subject, reading.schema)
        remarks.setdefault(subject, []).append(_remark(problem))
    head = "".join(f"-- {line}\n" for line in _head(reading, file, remarks.get(WHOLE_FILE, [])))
    comments = render_comments(map(as_comment, reading.comments), reading.schema.spaces)
    return f"{head}\n{render_ddl(reading.schema, remarks)}{comments}"


def _head(reading: Reading, file: str, remarks: list[str]) -> Iterator[str]:
    yield f"Proposed for {file}. A comment stands at each place that differs from the file."
    yield from reading.schema.notes
    yield from remarks


def _shown(subject: Subject, schema: Schema) -> Subject:
    """The subject if it is in the schema, otherwise what surrounds it."""
    name, column = subject
    if name not in schema:
        return WHOLE_FILE
    return subject if column in schema.relation(name).visible_names else (name, "")


def _remark(problem: Problem) -> str:
    error = problem.error
    return f"Line {problem.place[0]}: {error.message} {error.cure}".replace("\n", " ")
