"""The expressions of a file's schema, checked while the problems of the file are collected.

The reader of DDL does not know what an expression means (`schema.ddl.expressions`). Here each one
is compiled, as writes need it. An expression that cannot be compiled is one more problem of the
file, at its place, and is taken out of the schema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import lru_cache, partial

from hornbeam_server.query.expressions.declared import (
    compile_check,
    compile_generated,
    compile_key,
    row_condition,
)
from hornbeam_server.schema.catalog import RELATIONS
from hornbeam_server.schema.counters import sequence_names
from hornbeam_server.schema.ddl.load import Reading
from hornbeam_server.schema.domains import relation_of
from hornbeam_server.schema.errors import SqlError, UnknownName
from hornbeam_server.schema.model import Column, DeclaredIndex, Domain, Relation, Schema
from hornbeam_server.schema.problems import Subject
from hornbeam_server.schema.sequences import sequences_in
from hornbeam_server.txlayer.statements.default_expressions import (
    compile_default,
    default_expressions,
)


def checked(reading: Reading) -> Reading:
    """The reading with a problem for each CHECK, generated column, default, and condition or
    expression of an index that writes could not evaluate. Its schema lacks them."""
    schema = reading.schema
    domains = tuple(_domain(domain, reading) for domain in schema.domains)
    relations = tuple(_relation(relation, reading) for relation in schema.relations)
    indexes = tuple(
        index
        for index in schema.indexes
        if index.relation not in schema
        or _index_holds(index, schema.relation(index.relation), reading)
    )
    return replace(
        reading, schema=replace(schema, relations=relations, indexes=indexes, domains=domains)
    )


def _domain(domain: Domain, reading: Reading) -> Domain:
    """A domain, whose CHECKs and default are those of a relation with one column, the value."""
    return replace(domain, checks=_relation(relation_of(domain), reading).checks)


def _relation(relation: Relation, reading: Reading) -> Relation:
    try:
        _require_valid(relation)
        for column in default_expressions(relation):
            _require_sequences(column, reading.schema)
    except SqlError:
        return _without_invalid(relation, reading)
    return relation


@lru_cache(RELATIONS)
def _require_valid(relation: Relation) -> None:
    """Compile the expressions of a relation; raises the SqlError of an invalid one. A change of the
    schema leaves nearly all relations as they are, so valid ones are not compiled again."""
    for check in relation.checks:
        compile_check(check, relation)
    for column in relation.generated:
        compile_generated(column, relation)
    for column in default_expressions(relation):
        compile_default(column, relation).check()


def _without_invalid(relation: Relation, reading: Reading) -> Relation:
    """The relation without its invalid expressions, each of which is a problem of the file."""
    name = relation.name
    checks = tuple(
        check
        for check in relation.checks
        if _compiles(partial(compile_check, check, relation), check.sql, (name, ""), reading)
    )
    generated = {column.name for column in relation.generated}
    defaults = {column.name for column in default_expressions(relation)}

    def compile_it(column: Column) -> None:
        if column.name in generated:
            compile_generated(column, relation)
        else:
            _require_sequences(column, reading.schema)
            compile_default(column, relation).check()

    columns = tuple(
        column
        if column.default is None
        or column.name not in generated | defaults
        or _compiles(partial(compile_it, column), column.default.sql, (name, column.name), reading)
        else replace(column, default=None)
        for column in relation.columns
    )
    return replace(relation, columns=columns, checks=checks)


def _require_sequences(column: Column, schema: Schema) -> None:
    """Raises UnknownName if the default of a column takes numbers from an unknown sequence."""
    assert column.default is not None
    for name in sequences_in(column.default.sql):
        known = sequence_names(schema)
        if name not in known:
            listed = ", ".join(sorted(known))
            raise UnknownName(
                f"The default of column {column.name} takes numbers from sequence {name}, which"
                " does not exist.",
                cure=f"Declare it: CREATE SEQUENCE. There are: {listed or 'none'}.",
                name=name,
            )


def _index_holds(index: DeclaredIndex, relation: Relation, reading: Reading) -> bool:
    subject = (relation.name, "")
    where = not index.where or _compiles(
        partial(row_condition, index.name, index.where, relation), index.where, subject, reading
    )
    keys = [
        _compiles(partial(compile_key, index.name, each.sql, relation), each.sql, subject, reading)
        for each in index.expressions
    ]
    return where and all(keys)


def _compiles(work: Callable[[], object], sql: str, subject: Subject, reading: Reading) -> bool:
    """Does `work` compile the expression `sql`? If not, its error is a problem of the file."""
    with _collected(sql, subject, reading):
        work()
        return True
    return False


@contextmanager
def _collected(sql: str, subject: Subject, reading: Reading) -> Iterator[None]:
    """Collect an error, with the place of the expression. An error about a column that could not be
    read is a consequence of another problem."""
    expression = reading.expressions.get((subject[0], sql))
    words = () if expression is None else expression.words
    about = [(subject[0], ""), *((subject[0], word) for word in words)]
    with reading.problems.collect(subject, about=about):
        try:
            yield
        except SqlError as error:
            if expression is None:
                raise
            details = error.details | asdict(expression.place)
            raise type(error)(error.message, cure=error.cure, **details) from None
