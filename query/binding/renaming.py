"""A renamed column in SQL and in a catalog: every name that resolves to it gets the new name.

The text stays as it is written, except for these names. A column that a SELECT shows under its own
name keeps the old name by AS. The result is bound again: each reference must resolve to the same
column as before, because the new name may mean something else somewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from sqlglot import exp

from hornbeam_server.query.binding.binder import BoundQuery, bind
from hornbeam_server.query.dialect.duckdb_types import quoted
from hornbeam_server.schema.catalog import Catalog, Forest, JoinView, State, WorkloadStatement
from hornbeam_server.schema.errors import BeingLoaded, SchemaError, SqlError
from hornbeam_server.schema.model import DeclaredView, Relation, Schema
from hornbeam_server.schema.renames import Rename, renamed_schema
from hornbeam_server.schema.render import identifier
from hornbeam_server.schema.trees import unlink

_Edit = tuple[int, int, str]
"""Offsets in a text, the second one excluded, and the text for this part."""
_WRITES = (exp.Insert, exp.Update, exp.Delete, exp.Merge)


def renamed(catalog: Catalog, renames: Sequence[Rename]) -> Catalog:
    """`catalog`, in force, with other names of columns, and the same tables. Raises InvalidRequest
    for a rename that is not possible, SchemaError for a view that cannot follow, and BeingLoaded
    during an initial load."""
    if renames and catalog.load is not None:
        raise BeingLoaded(
            "A load is under way; columns keep their names until it ends.",
            cure="End it, or give it up: hornbeam load --cancel.",
        )
    for rename in renames:
        rename.require_possible(catalog.schema)
        catalog = _renamed(catalog, rename)
    return catalog


def _renamed(catalog: Catalog, rename: Rename) -> Catalog:
    select = partial(_renamed_view, catalog, rename)
    schema = renamed_schema(catalog.schema, rename, partial(_renamed_expression, rename), select)
    forest = replace(
        catalog.forest,
        parents=tuple((n, rename.foreign_key(n, key)) for n, key in catalog.forest.parents),
    )
    return replace(
        catalog,
        schema=schema,
        forest=forest,
        views=tuple(_join_view(view, rename) for view in catalog.views),
        indexes=tuple(
            replace(
                index,
                columns=rename.parts(index.on, index.columns),
                include=rename.names(index.on, index.include),
            )
            for index in catalog.indexes
        ),
        deferred=tuple(
            replace(v, declared=replace(v.declared, sql=select(v.declared)))
            for v in catalog.deferred
        ),
        immediate=tuple(
            replace(v, declared=replace(v.declared, sql=select(v.declared)))
            for v in catalog.immediate
        ),
        projected=tuple(
            replace(v, declared=replace(v.declared, sql=select(v.declared)))
            for v in catalog.projected
        ),
        beginnings=tuple(
            replace(
                each,
                column=rename.name(each.relation, each.column),
                cell=each.cell or f"{each.relation}\0{each.column}",
            )
            if rename.name(each.relation, each.column) != each.column
            else each
            for each in catalog.begun
        ),
        workload=tuple(
            replace(each, sql=_renamed_workload(catalog, rename, each)) for each in catalog.workload
        ),
    )


def _join_view(view: JoinView, rename: Rename) -> JoinView:
    return replace(
        view,
        columns=tuple(replace(c, column=rename.name(c.relation, c.column)) for c in view.columns),
        edges=tuple(
            rename.foreign_key(child, edge)
            for child, edge in zip(view.path[1:], view.edges, strict=True)
        ),
    )


def _known(catalog: Catalog) -> Catalog:
    """`catalog` with all views readable, so that statements may name them."""
    return replace(catalog, states=tuple((name, State.READABLE) for name, _ in catalog.states))


def _renamed_expression(rename: Rename, sql: str, relation: Relation) -> str:
    before = Catalog(0, Schema((relation,)), Forest((relation.name,)))
    head, tail = "SELECT (", f") FROM {quoted(relation.name)}"
    text = _renamed_statement(f"{head}{sql}{tail}", before, rename)
    return text[len(head) : -len(tail)]


def _renamed_view(catalog: Catalog, rename: Rename, view: DeclaredView) -> str:
    with _explained(f"View {view.name}", rename):
        return _renamed_statement(view.sql, _known(catalog), rename, shown=True)


def _renamed_workload(catalog: Catalog, rename: Rename, each: WorkloadStatement) -> str:
    with _explained(f"Statement {each.name} of the workload", rename):
        return _renamed_statement(each.sql, _known(catalog), rename)


@contextmanager
def _explained(what: str, rename: Rename) -> Iterator[None]:
    try:
        yield
    except SqlError as error:
        raise SchemaError(
            f"{what} cannot follow {rename}: {error.message}",
            cure="Change it first: name each column with its relation, without * and USING.",
        ) from None


def _renamed_statement(sql: str, catalog: Catalog, rename: Rename, *, shown: bool = False) -> str:
    """A statement with the new name. `shown`: its result keeps the names of its columns. Raises
    SqlError if the statement would mean something else."""
    bound = bind(sql, catalog)
    edits = list(_edits(bound, rename))
    before = list(_targets(bound, rename))
    columns = [column.name for column in bound.columns]
    unlink(bound.ast)
    if not edits and not _is_read(bound, rename):  # a star reads it without naming it
        return sql
    text = sql
    for start, end, new in sorted(edits, reverse=True):
        text = f"{text[:start]}{new}{text[end:]}"
    after = bind(text, _with_column(catalog, rename))
    targets = list(_targets(after, None))
    kept = not shown or columns == [column.name for column in after.columns]
    unlink(after.ast)
    if targets != before or not kept:
        raise SqlError(f"{rename.new} would mean another column in it, or be shown by it.")
    return text


def _with_column(catalog: Catalog, rename: Rename) -> Catalog:
    """The catalog with the renamed column, for binding statements alone."""
    schema = renamed_schema(catalog.schema, rename, lambda sql, _: sql, lambda view: view.sql)
    return replace(
        catalog, schema=schema, views=tuple(_join_view(view, rename) for view in catalog.views)
    )


def _is_read(bound: BoundQuery, rename: Rename) -> bool:
    return any(
        rename.column in columns and block.relation(alias) == rename.relation
        for block in bound.statement.blocks
        for alias, columns in block.columns.items()
    )


def _targets(bound: BoundQuery, rename: Rename | None) -> Iterator[tuple[object, ...]]:
    """The columns that the references of a statement mean, in the order of the tree; with `rename`,
    by their new names."""
    for node in bound.ast.walk(bfs=False):
        if isinstance(node, exp.Column) and "column" in node.meta:
            number, alias, name = node.meta["column"]
            relation = _relation(bound, number, alias)
            if rename is not None and relation is not None:
                name = rename.name(relation, name)
            yield number, alias, name
        elif isinstance(node, exp.Star) and "columns" in node.meta:
            yield ("*", len(node.meta["columns"]))


def _edits(bound: BoundQuery, rename: Rename) -> Iterator[_Edit]:
    target = _target(bound.ast)
    for node in bound.ast.walk():
        if isinstance(node, exp.Column):
            if node.name == rename.column and _means(node, bound, rename, target):
                shown = isinstance(node.parent, exp.Select) and node.arg_key == "expressions"
                tail = f" AS {identifier(rename.column)}" if shown else ""
                yield _edit(node.this, identifier(rename.new) + tail)
        elif (
            isinstance(node, exp.Identifier)
            and isinstance(node.parent, exp.Schema)
            and target == rename.relation
            and node.name == rename.column
        ):
            yield _edit(node, identifier(rename.new))


def _means(node: exp.Column, bound: BoundQuery, rename: Rename, target: str | None) -> bool:
    """Does the reference mean the renamed column?"""
    if "column" in node.meta:
        number, alias, _ = node.meta["column"]
        return _relation(bound, number, alias) == rename.relation
    # A column that is assigned, or a key of ON CONFLICT.
    return not node.meta.get("alias") and target == rename.relation


def _relation(bound: BoundQuery, number: int | None, alias: str) -> str | None:
    """The relation of a reference; None for a column of a subquery or a CTE."""
    if number is not None:
        return bound.statement.blocks[number].relation(alias)
    table = _target_table(bound.ast)
    if table is not None and alias in {"excluded", table.alias_or_name}:
        return table.name
    return None


def _target(tree: exp.Expr) -> str | None:
    table = _target_table(tree)
    return None if table is None else table.name


def _target_table(tree: exp.Expr) -> exp.Table | None:
    """The relation that a statement writes."""
    if not isinstance(tree, _WRITES):
        return None
    inner = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    return inner if isinstance(inner, exp.Table) else None


def _edit(node: exp.Expr, text: str) -> _Edit:
    return node.meta["start"], node.meta["end"] + 1, text
