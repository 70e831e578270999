"""The target of ON CONFLICT: which keys of a relation decide whether a row exists already.

As in PostgreSQL, columns stand for the primary key and the unique indexes on exactly these columns
that are without a condition, or whose condition follows from the WHERE behind the columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from hornbeam_server.query.binding.binder import bind
from hornbeam_server.query.binding.index_expressions import named
from hornbeam_server.query.dialect.grammar import NAME
from hornbeam_server.query.optimizer.partial_indexes import follows
from hornbeam_server.query.parsing.parse import DIALECT
from hornbeam_server.schema.catalog import Catalog, Index
from hornbeam_server.schema.errors import SqlError, UnknownName, Unsupported
from hornbeam_server.schema.model import Relation
from hornbeam_server.schema.namespaces import beside, key_name
from hornbeam_server.schema.trees import written


@dataclass(frozen=True, slots=True)
class Target:
    """The keys of ON CONFLICT: with `key` the primary key, and the unique `indexes`. `any`: every
    key of the relation."""

    key: bool = True
    indexes: tuple[Index, ...] = ()
    any: bool = False

    def has(self, index: Index) -> bool:
        return self.any or index in self.indexes


def target_of(node: exp.OnConflict, catalog: Catalog, relation: Relation) -> Target:
    """The target of a bound ON CONFLICT. Raises SqlError, UnknownName, Unsupported."""
    if (constraint := node.args.get("constraint")) is not None:
        return _of_constraint(constraint.name, catalog, relation)
    parts = node.args.get("conflict_keys") or ()
    keys = [_part(item, catalog, relation) for item in parts]
    if not keys:
        return Target(any=True)
    where = node.args.get("index_predicate")
    condition = "" if where is None else written(where.this, DIALECT)
    if condition:
        follows(condition, "TRUE", relation)  # its names are checked in any case
    on_keys = [
        index
        for index in catalog.indexes_on(relation.name)
        if index.unique and {part.column for part in index.columns} == set(keys)
    ]
    indexes = tuple(
        index
        for index in on_keys
        if not index.where or (condition and follows(condition, index.where, relation))
    )
    key = set(keys) == set(relation.declared_key)
    if not key and not indexes:
        shown = f" WHERE {condition}" if condition else ""
        raise SqlError(
            f"ON CONFLICT ({', '.join(keys)}){shown}: {relation.name} has no primary key or unique"
            " index on exactly these columns.",
            cure=_cure(on_keys),
        )
    return Target(key, indexes)


def _of_constraint(name: str, catalog: Catalog, relation: Relation) -> Target:
    full = beside(relation.name, name, catalog.schema.spaces)
    if name == key_name(relation, catalog.schema.spaces):
        return Target()
    for index in catalog.indexes_on(relation.name):
        if index.name == full and index.unique and index.is_whole:
            return Target(False, (index,))
    raise UnknownName(
        f"ON CONFLICT ON CONSTRAINT {name}: {relation.name} has no such primary key or UNIQUE"
        " constraint.",
        cure="Name the columns of a key: ON CONFLICT (columns).",
        name=name,
    )


def _cure(partial: Sequence[Index]) -> str:
    """What to write instead; `partial`: the partial unique indexes on the columns."""
    for index in partial:
        return f"Index {index.name} is partial: write WHERE {index.where} behind the columns."
    return "Name the columns of the primary key or of a unique index."


def _part(item: exp.Expr, catalog: Catalog, relation: Relation) -> str:
    """The column, or the name of the expression of an index, that is a part of the target."""
    part = (item.this if isinstance(item, exp.Ordered) else item).unnest()
    if isinstance(part, exp.Column | exp.Identifier) and not item.args.get("desc"):
        return part.name
    expressions = catalog.index_expressions.get(relation.name, ())
    name = named(part, expressions, relation, bind)
    if name is not None and not item.args.get("desc"):
        return name
    raise Unsupported(
        f"ON CONFLICT ({written(item, NAME)}) is not supported.",
        cure="Its target is the primary key, or the columns and expressions of a unique index.",
    )
