"""TRUNCATE: a DELETE of all rows of some relations, in one transaction. RESTART IDENTITY lets their
numbers begin again after the commit: a counter is a part of the catalog."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from sqlglot import exp

from hornbeam_server.query.binding.binder import bind_tree
from hornbeam_server.query.engine import QueryEngine
from hornbeam_server.query.parsing.parse import parse
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.counters import SEQUENCE
from hornbeam_server.schema.errors import SqlError, Unsupported
from hornbeam_server.schema.model import DefaultKind, Relation
from hornbeam_server.schema.trees import unlink
from hornbeam_server.txlayer.statements.write_clauses import require_truncated
from hornbeam_server.txlayer.statements.write_plans import Subquery, TruncatePlan

_TRUNCATES = re.compile(r"\s*truncate\b", re.IGNORECASE)
_RESTARTS = re.compile(r"\brestart\s+identity\b", re.IGNORECASE)


def truncation(
    ast: exp.TruncateTable, sql: str, catalog: Catalog, engine: QueryEngine
) -> TruncatePlan:
    """The plan of a TRUNCATE. Takes its tree. Raises SqlError if another relation references one of
    the relations and CASCADE is not given. RESTART IDENTITY is `restarted_by`."""
    bound = bind_tree(ast, sql, catalog)
    unlink(ast)
    require_truncated(ast)
    relations = [catalog.schema.relation(name) for name in _truncated(ast, catalog)]

    def search(relation: Relation) -> Subquery:
        key = [exp.column(exp.to_identifier(name, quoted=True)) for name in relation.primary_key]
        table = exp.Table(this=exp.to_identifier(relation.name, quoted=True))
        query = exp.select(*key, copy=False).from_(table, copy=False)
        return Subquery(engine.prepare_bound(bind_tree(query, "", catalog), catalog), {})

    return TruncatePlan(tuple((relation, search(relation)) for relation in relations), bound)


def _truncated(ast: exp.Expr, catalog: Catalog) -> list[str]:
    """The relations that a TRUNCATE empties. Raises SqlError."""
    names = list(dict.fromkeys(table.name for table in ast.expressions))
    for name in names:  # grows
        for child in dict.fromkeys(_referencing(catalog, name)):
            if child not in names:
                if ast.args.get("option") != "CASCADE":
                    raise SqlError(
                        f"{name} cannot be truncated alone: {child} references it.",
                        cure=f"Truncate {child} in the same statement, or say CASCADE.",
                    )
                names.append(child)
    return names


def _referencing(catalog: Catalog, name: str) -> Iterator[str]:
    return (child.name for child, _ in catalog.schema.children(name))


def restarts(sql: str) -> bool:
    """Is it a TRUNCATE … RESTART IDENTITY?"""
    return _TRUNCATES.match(sql) is not None and _RESTARTS.search(sql) is not None


def restarted_by(statements: Iterable[str], catalog: Catalog) -> list[tuple[str, str]]:
    """The counters that begin again once a transaction of these statements has committed, because
    of TRUNCATE … RESTART IDENTITY: (relation, column), or (`SEQUENCE`, name). Raises Unsupported
    if the transaction goes on with another statement, since its numbers would be those before."""
    found: list[tuple[str, str]] = []
    seen = False
    for sql in statements:
        if seen and not _TRUNCATES.match(sql):
            raise Unsupported(
                "A transaction with TRUNCATE … RESTART IDENTITY writes nothing behind it: numbers"
                " begin again when it commits.",
                cure="Commit first.",
            )
        if restarts(sql):
            seen = True
            tree = parse(sql)
            found += _counters(_truncated(tree, catalog), catalog)
            unlink(tree)
    return found


def _counters(names: Sequence[str], catalog: Catalog) -> Iterator[tuple[str, str]]:
    for name in names:
        for column in catalog.schema.relation(name).visible:
            if column.default_kind is DefaultKind.IDENTITY:
                yield name, column.name
    for sequence in catalog.schema.sequences:
        if sequence.owner is not None and sequence.owner[0] in names:
            yield SEQUENCE, sequence.name
