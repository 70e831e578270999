"""System relations in FROM (`query/system`): a table of the statement that stands for one, marked
with its name."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from hornbeam_server.query.binding.names import unknown
from hornbeam_server.query.dialect.functions import function_name
from hornbeam_server.query.dialect.grammar import at
from hornbeam_server.query.parsing.sequence_calls import OF_COLUMN
from hornbeam_server.query.system.information_schema import is_of_postgresql
from hornbeam_server.query.system.relations import in_catalog, is_internal, known, relation
from hornbeam_server.query.system.shapes import SystemRelation
from hornbeam_server.schema.errors import Unsupported
from hornbeam_server.schema.model import INFORMATION_SCHEMA
from hornbeam_server.schema.namespaces import SYSTEM_CATALOG

CLASSES = f"{SYSTEM_CATALOG}.pg_class"
SYSTEM = "system"
"""Key in the meta of a table that stands for a system relation, and of a cast that has an OID for
a name: the schema and the name of the relation."""


def is_of_catalog(node: exp.Table) -> bool:
    """Does a name without a schema mean a relation of `pg_catalog`?"""
    return SYSTEM in node.meta or (not node.args.get("db") and in_catalog(node.name))


def stand_in(node: exp.Table, sql: str) -> SystemRelation:
    """Mark a table as the system relation that it names, and return that. Raises UnknownName and
    Unsupported."""
    again = SYSTEM in node.meta  # the statement has been bound before
    space, name = node.meta[SYSTEM] if again else (node.db or SYSTEM_CATALOG, node.name)
    found = relation(space, name)
    if found is None:
        raise _unknown(node, space, sql)
    if again:
        return found
    alias = node.args.get("alias") or exp.TableAlias()
    if alias.this is None:
        alias.set("this", exp.to_identifier(node.name, quoted=True))
    node.set("alias", alias)
    node.set("this", exp.to_identifier(found.full, quoted=True))
    node.set("db", None)
    node.meta[SYSTEM] = (space, name)
    return found


def _unknown(node: exp.Table, space: str, sql: str) -> Exception:
    if isinstance(node.this, exp.Func):
        return Unsupported(
            f"Function {space}.{function_name(node.this)} is not supported{at(node, sql)}.",
            cure="Name the relations of information_schema, or write unnest.",
        )
    name, others = f"{space}.{node.name}", known(space)
    if space == INFORMATION_SCHEMA and is_of_postgresql(node.name):
        return Unsupported(
            f"{name} is not supported{at(node, sql)}.", cure=f"Ask one of {', '.join(others)}."
        )
    return unknown("relation", name, at(node, sql), others)


def system_relations_in(tree: exp.Expr) -> Iterator[SystemRelation]:
    """The system relations that a bound statement reads."""
    for table in tree.find_all(exp.Table):
        found = relation(*table.meta[SYSTEM]) if SYSTEM in table.meta else None
        if found is not None:
            yield found


def is_described(tree: exp.Expr, sql: str) -> bool:
    """Does the result of a bound statement depend on what the system catalog shows?"""
    return OF_COLUMN in sql.lower() or any(True for _ in read_in(tree))


def read_in(tree: exp.Expr) -> Iterator[str]:
    """The names with their schema of the system relations that a bound statement reads. What a
    function looks up by a name or an OID is read from `pg_class`."""
    for node in tree.find_all(exp.Table, exp.Cast):
        if SYSTEM in node.meta:
            space, name = node.meta[SYSTEM]
            yield CLASSES if is_internal(name) else f"{space}.{name}"
