"""TRUNCATE: a DELETE of all rows of some relations, in one transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from hornbeam_server.query.binding.binder import bind_tree
from hornbeam_server.query.engine import QueryEngine
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import SqlError, Unsupported
from hornbeam_server.schema.identifiers import identifier
from hornbeam_server.schema.model import DefaultKind, Relation
from hornbeam_server.schema.render import spelled
from hornbeam_server.schema.trees import unlink
from hornbeam_server.txlayer.statements.write_clauses import require_truncated
from hornbeam_server.txlayer.statements.write_plans import Subquery, TruncatePlan


def truncation(
    ast: exp.TruncateTable, sql: str, catalog: Catalog, engine: QueryEngine
) -> TruncatePlan:
    """The plan of a TRUNCATE. Takes its tree. Raises SqlError if another relation references one of
    the relations and CASCADE is not given, and Unsupported for RESTART IDENTITY of an identity
    column."""
    bound = bind_tree(ast, sql, catalog)
    unlink(ast)
    require_truncated(ast)
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
    relations = [catalog.schema.relation(name) for name in names]
    if ast.args.get("identity") == "RESTART":
        _require_no_identity(relations, catalog)
        _require_no_sequence(relations, catalog)

    def search(relation: Relation) -> Subquery:
        key = [exp.column(exp.to_identifier(name, quoted=True)) for name in relation.primary_key]
        table = exp.Table(this=exp.to_identifier(relation.name, quoted=True))
        query = exp.select(*key, copy=False).from_(table, copy=False)
        return Subquery(engine.prepare_bound(bind_tree(query, "", catalog), catalog), {})

    return TruncatePlan(tuple((relation, search(relation)) for relation in relations), bound)


def _referencing(catalog: Catalog, name: str) -> Iterator[str]:
    return (child.name for child, _ in catalog.schema.children(name))


def _require_no_sequence(relations: Sequence[Relation], catalog: Catalog) -> None:
    names = {relation.name for relation in relations}
    for sequence in catalog.schema.sequences:
        if sequence.owner is not None and sequence.owner[0] in names:
            raise Unsupported(
                f"TRUNCATE does not restart the sequence {sequence.name}: numbers begin again by a"
                " change of the schema, outside of transactions.",
                cure="Leave RESTART IDENTITY out, then send ALTER SEQUENCE"
                f" {spelled(sequence.name, catalog.schema.spaces)} RESTART.",
            )


def _require_no_identity(relations: Sequence[Relation], catalog: Catalog) -> None:
    for relation in relations:
        table = spelled(relation.name, catalog.schema.spaces)
        for column in relation.visible:
            if column.default_kind is DefaultKind.IDENTITY:
                raise Unsupported(
                    f"TRUNCATE does not restart {relation.name}.{column.name}: numbers begin again"
                    " by a change of the schema, outside of transactions.",
                    cure="Leave RESTART IDENTITY out, then send ALTER TABLE"
                    f" {table} ALTER COLUMN {identifier(column.name)} RESTART.",
                )
