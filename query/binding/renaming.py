"""A renamed column in SQL and in a catalog: every name that resolves to it gets the new name.

The text stays as it is written, except for these names. A column that a SELECT shows under its own
name keeps the old name by AS. The result is bound again: each reference must resolve to the same
column as before, because the new name may mean another column in some place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from sqlglot import exp

from hornbeam_server.query.binding.binder import BoundQuery, bind
from hornbeam_server.query.dialect.duckdb_types import quoted
from hornbeam_server.schema.catalog import Catalog, Index, State, WorkloadStatement
from hornbeam_server.schema.counters import Beginning
from hornbeam_server.schema.errors import BeingLoaded, SchemaError, SqlError
from hornbeam_server.schema.model import DeclaredView, Relation
from hornbeam_server.schema.renames import Rename, renamed_expressions, renamed_schema
from hornbeam_server.schema.render import identifier
from hornbeam_server.schema.trees import unlink
from hornbeam_server.schema.views import JoinView

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
    renaming = _Renaming(_known(catalog), rename)
    select, plain = renaming.select, renaming.after.plain
    forest = replace(
        catalog.forest,
        parents=tuple((n, rename.foreign_key(n, key)) for n, key in catalog.forest.parents),
    )
    deferred, immediate, projected = catalog.deferred, catalog.immediate, catalog.projected
    return replace(
        catalog,
        schema=renamed_schema(catalog.schema, rename, renaming.expression, select),
        forest=forest,
        views=renaming.after.views,
        indexes=tuple(renaming.index(index) for index in catalog.indexes),
        plain=plain,
        deferred=tuple(replace(v, declared=renaming.declared(v.declared)) for v in deferred),
        immediate=tuple(replace(v, declared=renaming.declared(v.declared)) for v in immediate),
        projected=tuple(replace(v, declared=renaming.declared(v.declared)) for v in projected),
        beginnings=tuple(_beginning(each, rename) for each in catalog.begun),
        workload=tuple(replace(each, sql=renaming.workload(each)) for each in catalog.workload),
    )


class _Renaming:
    """Renames a column in statements. `before` and `after` are catalogs for binding them, in
    which the name of a plain view stands for its SELECT."""

    def __init__(self, before: Catalog, rename: Rename) -> None:
        self.before, self.rename = before, rename
        schema = renamed_schema(before.schema, rename, lambda sql, _: sql, lambda view: view.sql)
        views = tuple(_join_view(view, rename) for view in before.views)
        self.after = replace(before, schema=schema, views=views, plain=())
        for view in before.plain:  # each may name those before it
            followed = replace(view, declared=self.declared(view.declared))
            self.after = replace(self.after, plain=(*self.after.plain, followed))

    def declared(self, view: DeclaredView) -> DeclaredView:
        return replace(view, sql=self.select(view))

    def select(self, view: DeclaredView) -> str:
        with _explained(f"View {view.name}", self.rename):
            return self.statement(view.sql, shown=True)

    def workload(self, each: WorkloadStatement) -> str:
        with _explained(f"Statement {each.name} of the workload", self.rename):
            return self.statement(each.sql)

    def expression(self, sql: str, relation: Relation) -> str:
        """An expression over the rows of a relation."""
        head, tail = "SELECT (", f") FROM {quoted(relation.name)}"
        text = self.statement(f"{head}{sql}{tail}")
        return text[len(head) : -len(tail)]

    def index(self, index: Index) -> Index:
        rename = self.rename
        index = replace(
            index,
            columns=rename.parts(index.on, index.columns),
            include=rename.names(index.on, index.include),
        )
        if index.is_whole or index.on != rename.relation:
            return index
        relation = self.before.schema.relation(index.on)
        texts = {each.column: self.expression(each.sql, relation) for each in index.expressions}
        return replace(
            index,
            where=self.expression(index.where, relation) if index.where else "",
            columns=renamed_expressions(index.columns, texts),
            expressions=tuple(
                replace(each, column=f"({texts[each.column]})", sql=texts[each.column])
                for each in index.expressions
            ),
        )

    def statement(self, sql: str, *, shown: bool = False) -> str:
        """A statement with the new name. `shown`: its result keeps the names of its columns. Raises
        SqlError if the statement would mean something else."""
        rename = self.rename
        bound = bind(sql, self.before)
        edits = list(_edits(bound, rename))
        before = list(_targets(bound, rename))
        columns = [column.name for column in bound.columns]
        unlink(bound.ast)
        # A star reads a column without naming it.
        if not edits and (rename.relation, rename.column) not in bound.statement.reads:
            return sql
        text = sql
        for start, end, new in sorted(edits, reverse=True):
            text = f"{text[:start]}{new}{text[end:]}"
        after = bind(text, self.after)
        targets = list(_targets(after, None))
        kept = not shown or columns == [column.name for column in after.columns]
        unlink(after.ast)
        if targets != before or not kept:
            raise SqlError(f"{rename.new} would mean another column in it, or be shown by it.")
        return text


def _beginning(begun: Beginning, rename: Rename) -> Beginning:
    name = rename.name(begun.relation, begun.column)
    if name == begun.column:
        return begun
    return replace(begun, column=name, cell=begun.cell or f"{begun.relation}\0{begun.column}")


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
    """`catalog` with all views readable, so that statements may name them. Their meaning does not
    depend on indexes."""
    states = tuple((name, State.READABLE) for name, _ in catalog.states)
    return replace(catalog, states=states, indexes=())


@contextmanager
def _explained(what: str, rename: Rename) -> Iterator[None]:
    try:
        yield
    except SqlError as error:
        raise SchemaError(
            f"{what} cannot follow {rename}: {error.message}",
            cure="Change it first: name each column with its relation, without * and USING.",
        ) from None


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
    target = bound.statement.target
    for node in bound.ast.walk():
        if isinstance(node, exp.Column) and "start" in node.this.meta:  # not inside a plain view
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


def _target_table(tree: exp.Expr) -> exp.Table | None:
    """The relation that a statement writes."""
    if not isinstance(tree, _WRITES):
        return None
    inner = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    return inner if isinstance(inner, exp.Table) else None


def _edit(node: exp.Expr, text: str) -> _Edit:
    return node.meta["start"], node.meta["end"] + 1, text
