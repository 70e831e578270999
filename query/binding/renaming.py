"""A renamed column, relation or view in SQL and in a catalog: every name that resolves to it gets
the new name.

The text stays as it is written, except for these names. A column that a SELECT shows under its own
name keeps the old name by AS. A relation without alias is named before its columns, too, and gets
the new name there. The result is bound again: each reference must resolve to the same column as
before, because the new name may mean something else in some place.

A relation or view that gets another name keeps its stored name, in its tables, in the logs and in
the grants of API keys (`Catalog.stored_as`), so no row is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

from sqlglot import exp

from hornbeam_server.query.binding.binder import BoundQuery, bind
from hornbeam_server.query.binding.plain_views import VIEW, WRITTEN
from hornbeam_server.query.binding.renamed_types import with_renamed_type
from hornbeam_server.query.binding.row_types import (
    columns_of_types,
    relation_by_alias,
    relations_of_types,
)
from hornbeam_server.query.dialect.duckdb_types import quoted
from hornbeam_server.query.dialect.grammar import tokenize
from hornbeam_server.query.parsing.schema_names import OWN_ALIAS, SCHEMA
from hornbeam_server.schema.catalog import Catalog, Forest, Index, State, WorkloadStatement
from hornbeam_server.schema.counters import Beginning
from hornbeam_server.schema.errors import BeingLoaded, InvalidRequest, SchemaError, SqlError
from hornbeam_server.schema.identifiers import identifier
from hornbeam_server.schema.model import DATABASE, PUBLIC, DeclaredView, Relation, Schema
from hornbeam_server.schema.namespaces import bare, joined
from hornbeam_server.schema.qualifying import type_qualifications
from hornbeam_server.schema.renames import (
    Rename,
    renamed_comments,
    renamed_expressions,
    renamed_schema,
)
from hornbeam_server.schema.render import spelled
from hornbeam_server.schema.trees import nodes_of, unlink
from hornbeam_server.schema.views import DeferredView, ImmediateView, JoinView, ProjectedView

_Span = tuple[int, int]
"""Offsets in a text, the second one excluded."""
_Edit = tuple[int, int, str]
"""Offsets in a text, the second one excluded, and the text for this part."""
_T = TypeVar("_T")
_V = TypeVar("_V", DeferredView, ImmediateView, ProjectedView)
_BEFORE = re.compile(
    rf'(?<![\w."])(?:"?{DATABASE}"?\s*\.\s*)?(?:"?{PUBLIC}"?\s*\.\s*)?\Z',
    re.IGNORECASE,
)
_WRITES = (exp.Insert, exp.Update, exp.Delete, exp.Merge)


def renamed(catalog: Catalog, renames: Sequence[Rename]) -> Catalog:
    """`catalog`, in force, with other names of columns, relations, views and schemas, and the same
    tables.
    Raises InvalidRequest for a rename that is not possible, SchemaError for a view that cannot
    follow, and BeingLoaded during an initial load."""
    if renames and catalog.load is not None:
        raise BeingLoaded(
            "A load is under way; names stay until it ends.",
            cure="End it, or give it up: hornbeam load --cancel.",
        )
    for rename in renames:
        rename.require_possible(catalog.schema)
        spaces = catalog.schema.spaces
        if rename.space:  # both schemas are there while names move from one to the other
            catalog = _with_comments(catalog, rename)
            catalog = _with_spaces(catalog, (*spaces, rename.new))
            spaces = tuple(rename.new if each == rename.relation else each for each in spaces)
        for step in rename.steps(catalog.schema):
            step.require_possible(catalog.schema)
            commented = _with_comments(catalog, step)
            if step.type:
                catalog = with_renamed_type(commented, step)
                continue
            _require_free(catalog, step)
            catalog = _renamed(commented, step)
        catalog = _with_spaces(catalog, spaces)
    return catalog


def _with_comments(catalog: Catalog, rename: Rename) -> Catalog:
    comments = renamed_comments(catalog.comments, rename, catalog.schema)
    return replace(catalog, comments=comments)


def _with_spaces(catalog: Catalog, spaces: tuple[str, ...]) -> Catalog:
    return replace(catalog, schema=replace(catalog.schema, spaces=spaces))


def _require_free(catalog: Catalog, rename: Rename) -> None:
    """Raises InvalidRequest if a view or index that the plan has chosen has the new name."""
    if not rename.column and (rename.new in catalog or rename.new in catalog.plain_view):
        raise InvalidRequest(
            f"{rename}: a view or index that was chosen for the workload has the name"
            f" {rename.new}.",
            cure="Choose another name.",
        )


def _renamed(catalog: Catalog, rename: Rename) -> Catalog:
    renaming = _Renaming(_known(catalog), rename)
    moved = _moved(catalog, rename)
    followed = {
        rename.stored(n): renaming.declared(v.declared) for n, v in catalog.declared_view.items()
    }

    def with_text(views: Iterable[_V]) -> tuple[_V, ...]:
        return tuple(replace(view, declared=followed[view.name]) for view in views)

    return replace(
        moved,
        schema=renamed_schema(catalog.schema, rename, renaming.expression, renaming.select),
        indexes=tuple(renaming.index(index) for index in catalog.indexes),
        plain=renaming.after.plain,
        deferred=with_text(moved.deferred),
        immediate=with_text(moved.immediate),
        projected=with_text(moved.projected),
        workload=tuple(replace(each, sql=renaming.workload(each)) for each in catalog.workload),
    )


def _moved(catalog: Catalog, rename: Rename) -> Catalog:
    """`catalog` with the new names, except in the texts of SQL, and without its plain views."""
    stored, all_stored, names = rename.stored, rename.all_stored, _names(catalog, rename)
    forest = Forest(
        all_stored(catalog.forest.roots),
        tuple((stored(n), rename.foreign_key(n, key)) for n, key in catalog.forest.parents),
    )

    def named(views: Iterable[_V]) -> tuple[_V, ...]:
        return tuple(
            replace(
                view,
                declared=replace(view.declared, name=stored(view.name)),
                relations=all_stored(view.relations),
            )
            for view in views
        )

    return replace(
        catalog,
        schema=renamed_schema(catalog.schema, rename, lambda sql, _: sql, lambda view: view.sql),
        forest=forest,
        views=tuple(_join_view(view, rename) for view in catalog.views),
        indexes=tuple(
            replace(index, name=names.get(index.name, index.name), on=stored(index.on))
            for index in catalog.indexes
        ),
        states=_keys(catalog.states, names),
        incarnations=_incarnations(catalog, names),
        row_counts=_keys(catalog.row_counts, names),
        deferred=named(catalog.deferred),
        immediate=named(catalog.immediate),
        projected=named(catalog.projected),
        plain=(),
        beginnings=tuple(_beginning(each, rename) for each in catalog.begun),
        stored_as=_stored_as(catalog, names),
    )


def _names(catalog: Catalog, rename: Rename) -> dict[str, str]:
    """The new names of what has a table: of a relation or view, and of declared indexes that move
    with it."""
    if rename.column:
        return {}
    return {rename.relation: rename.new, **rename.moved_indexes(catalog.schema)}


def _keys(items: Iterable[tuple[str, _T]], names: Mapping[str, str]) -> tuple[tuple[str, _T], ...]:
    return tuple((names.get(name, name), item) for name, item in items)


def _incarnations(catalog: Catalog, names: Mapping[str, str]) -> tuple[tuple[str, int], ...]:
    """The numbers of tables by the new names. What was dropped may have left a number under a new
    name."""
    taken = set(names.values())
    return _keys((each for each in catalog.incarnations if each[0] not in taken), names)


def _stored_as(catalog: Catalog, names: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    stored = dict(catalog.stored_as)
    for old, new in names.items():
        name = stored.pop(old, old)
        if name != new:
            stored[new] = name
    return tuple(stored.items())


class _Renaming:
    """Renames a column, relation or view in statements. `before` and `after` are catalogs for
    binding them, in which the name of a plain view stands for its SELECT."""

    def __init__(self, before: Catalog, rename: Rename) -> None:
        self.before, self.rename = before, rename
        self.indexes = rename.moved_indexes(before.schema)
        self.after = _moved(before, rename)
        for view in before.plain:  # each may name those before it
            sources = rename.all_stored(view.sources)
            followed = replace(view, declared=self.declared(view.declared), sources=sources)
            self.after = replace(self.after, plain=(*self.after.plain, followed))

    def declared(self, view: DeclaredView) -> DeclaredView:
        return replace(view, name=self.rename.stored(view.name), sql=self.select(view))

    def select(self, view: DeclaredView) -> str:
        with _explained(f"View {view.name}", self.rename):
            return self.statement(view.sql, shown=True)

    def workload(self, each: WorkloadStatement) -> str:
        with _explained(f"Statement {each.name} of the workload", self.rename):
            return self.statement(each.sql)

    def expression(self, sql: str, relation: Relation) -> str:
        """An expression over the rows of a relation."""
        if relation.name == self.rename.relation and self.rename.moves(self.before.schema):
            return self._of_columns(sql, relation)
        head, tail = "SELECT (", ") FROM "
        text = self.statement(f"{head}{sql}{tail}{quoted(relation.name)}")
        behind = tail + quoted(self.rename.stored(relation.name))
        return text[len(head) : -len(behind)]

    def _of_columns(self, sql: str, relation: Relation) -> str:
        """An expression over the rows of a relation, which it does not name: its columns have no
        name of the relation before them, since a name with a schema may not stand there."""
        head = "SELECT ("
        text = f"{head}{sql}) FROM {quoted(relation.name)}"
        bound = bind(text, self.before)
        edits = [
            (node.args["table"].meta["start"], node.this.meta["start"])
            for node in nodes_of(bound.ast, exp.Column)
            if node.args.get("table") is not None and "start" in node.args["table"].meta
        ]
        unlink(bound.ast)
        for start, end in sorted(edits, reverse=True):
            text = f"{text[: _begin(text, start)]}{text[end:]}"
        return text[len(head) : text.rindex(") FROM ")]

    def index(self, index: Index) -> Index:
        rename = self.rename
        source = index.on
        index = replace(
            index,
            name=self.indexes.get(index.name, index.name),
            on=rename.stored(source),
            columns=rename.parts(source, index.columns),
            include=rename.names(source, index.include),
        )
        if index.is_whole or source != rename.relation:
            return index
        relation = self.before.schema.relation(source)
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
        named = _Named.of(bound, rename, self.before.schema)
        edits = list(_edits(bound, rename) if rename.column else named.edits(bound, sql))
        before = list(_targets(bound, rename, named))
        columns = [column.name for column in bound.columns]
        read = bound.statement.reads | columns_of_types(bound.ast, self.before.schema)
        unlink(bound.ast)
        # A star reads a column without naming it.
        if not edits and (rename.relation, rename.column) not in read:
            return sql
        text = sql
        for start, end, new in sorted(edits, reverse=True):
            text = f"{text[:start]}{new}{text[end:]}"
        after = bind(text, self.after)
        targets = list(_targets(after))
        kept = not shown or columns == [column.name for column in after.columns]
        unlink(after.ast)
        if targets != before or not kept:
            raise SqlError(f"{rename.new} would mean something else in it, or be shown by it.")
        return text


def _beginning(begun: Beginning, rename: Rename) -> Beginning:
    relation, name = rename.stored(begun.relation), rename.name(begun.relation, begun.column)
    if (relation, name) == (begun.relation, begun.column):
        return begun
    cell = begun.cell or f"{begun.relation}\0{begun.column}"
    return replace(begun, relation=relation, column=name, cell=cell)


def _join_view(view: JoinView, rename: Rename) -> JoinView:
    return replace(
        view,
        path=rename.all_stored(view.path),
        columns=tuple(
            replace(c, relation=rename.stored(c.relation), column=rename.name(c.relation, c.column))
            for c in view.columns
        ),
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
            cure="Change it first: name each column with its relation, without * and USING."
            if rename.column
            else "Change it first: give each relation in it an alias.",
        ) from None


_Place = tuple[int | None, str]
"""The block and the alias of an item of FROM, as in the meta of columns; the target of an INSERT
has no block."""


@dataclass(frozen=True)
class _Named:
    """The places where a statement names the relation or view that gets another name: `spans` in
    its text, each with the text of the new name if that has a schema. `implicit` are the items of
    FROM without alias: their columns are named by the old name. `owned` are those whose alias is
    their name without its schema."""

    rename: Rename
    schema: Schema
    spans: tuple[tuple[_Span, str], ...] = ()
    implicit: frozenset[_Place] = frozenset()
    owned: frozenset[_Place] = frozenset()

    @classmethod
    def of(cls, bound: BoundQuery, rename: Rename, schema: Schema) -> _Named:
        """The places in a statement; none for the rename of a column."""
        found = [] if rename.column else list(_items(bound, rename, schema))
        implicit = frozenset(place for _, place, aliased, _ in found if not aliased)
        owned = frozenset(place for _, place, _, written in found if written)
        spans = tuple((span, written) for span, _, _, written in found if span is not None)
        return cls(rename, schema, spans, implicit, owned)

    def edits(self, bound: BoundQuery, sql: str) -> Iterator[_Edit]:
        moves = self.rename.moves(self.schema)
        owners = (
            _span(node.args["table"])
            for node in nodes_of(bound.ast, exp.Column)
            if node.args.get("table") is not None and _place(node) in self.implicit
        )
        for span, written in (*self.spans, *((owner, "") for owner in owners)):
            if span is not None:
                start, end = span
                # In quotes if the old name has quotes.
                named = quoted(self._own) if sql[start] == '"' else identifier(self._own)
                yield (_begin(sql, start) if moves else start), end, written or named
        for node in bound.ast.find_all(exp.Column):
            if SCHEMA in node.meta and _place(node) in self.owned:
                start, end = node.meta[SCHEMA]
                yield (_begin(sql, start) if moves else start), end, identifier(node.table)
        if self.rename.relation in relations_of_types(bound.ast):
            yield from _types(sql, self.rename, self.schema)

    def alias(self, place: _Place) -> str:
        """The alias of an item of FROM after the rename."""
        return self._own if place in self.implicit else place[1]

    @property
    def _own(self) -> str:
        """The new name as an alias. Another schema is not a part of it."""
        new = self.rename.new
        return bare(new, self.schema.spaces) if self.rename.moves(self.schema) else new


def _begin(sql: str, start: int) -> int:
    """Where a name begins in `sql` whose span begins at `start`: the database and `public` before
    it are no part of the span."""
    before = _BEFORE.search(sql, 0, start)
    return start if before is None else before.start()


def _items(
    bound: BoundQuery, rename: Rename, schema: Schema
) -> Iterator[tuple[_Span | None, _Place, bool, str]]:
    """The items of FROM, and the target of a write, that mean the relation or view of a rename;
    whether they have an alias; and the text of the new name if one of both has a schema."""
    name = rename.relation
    targets = _target_tables(bound.ast)
    for node in bound.ast.walk():
        if node.meta.get(VIEW) == name:
            start, end, aliased = node.meta[WRITTEN]
            span = None if start is None else (start, end + 1)
            yield span, (None, node.alias), aliased, _with_schema(node, rename, schema)
        elif isinstance(node, exp.Table) and node.name == name:
            if "source" not in node.meta and all(node is not target for target in targets):
                continue  # a CTE
            place = node.meta.get("source", (None, node.alias_or_name))
            yield (
                _span(node.this),
                place,
                bool(node.args.get("alias")),
                _with_schema(node, rename, schema),
            )


def _types(sql: str, rename: Rename, schema: Schema) -> Iterator[_Edit]:
    """The names of the relation's row type in a statement."""

    def new(parts: Sequence[str]) -> str | None:
        space = parts[-2] if len(parts) > 1 else PUBLIC
        same = joined(space, parts[-1]) == rename.relation
        return spelled(rename.new, schema.spaces) if same else None

    for edit in type_qualifications(tokenize(sql), new):
        yield edit.start, edit.end, edit.text


def _with_schema(node: exp.Expr, rename: Rename, schema: Schema) -> str:
    """The new name with its schema, and with the alias that the old name has given; "" if neither
    name is written with a schema."""
    if SCHEMA not in node.meta and not rename.moves(schema):
        return ""
    same = node.alias == bare(rename.new, schema.spaces)
    behind = f" AS {identifier(node.alias)}" if OWN_ALIAS in node.meta and not same else ""
    return spelled(rename.new, schema.spaces) + behind


def _span(node: exp.Expr) -> _Span | None:
    """The place of a name in the text; None inside of a plain view."""
    return (node.meta["start"], node.meta["end"] + 1) if "start" in node.meta else None


def _place(node: exp.Column) -> _Place | None:
    """The item of FROM that a column, or a star of one item, belongs to."""
    if isinstance(node.this, exp.Star):
        places = {each[:2] for each in node.this.meta.get("columns", ())}
        return places.pop() if len(places) == 1 else None
    return node.meta["column"][:2] if "column" in node.meta else None


def _targets(
    bound: BoundQuery, rename: Rename | None = None, named: _Named | None = None
) -> Iterator[tuple[object, ...]]:
    """The relations, and the columns that the references of a statement mean, in the order of the
    tree; with `rename`, by their new names."""
    for number, block in enumerate(bound.statement.blocks):
        for source in block.sources:
            alias, read = source.alias, source.relation
            if rename is not None and named is not None:
                alias, read = named.alias((number, alias)), rename.stored(read)
            yield "FROM", alias, read
    for node in bound.ast.walk(bfs=False):
        if isinstance(node, exp.Column) and "column" in node.meta:
            number, alias, name = node.meta["column"]
            relation = _relation(bound, number, alias)
            if rename is not None and named is not None:
                name = name if relation is None else rename.name(relation, name)
                alias = named.alias((number, alias))
            yield number, alias, name
        elif isinstance(node, exp.Star) and "columns" in node.meta:
            yield ("*", len(node.meta["columns"]))
        elif VIEW in node.meta:
            view = node.meta[VIEW]
            yield "VIEW", view if rename is None else rename.stored(view)


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
    """The relation of a reference, also by its row type; None for another column of a subquery or a
    CTE."""
    if number is not None:
        return bound.statement.blocks[number].relation(alias)
    for table in _target_tables(bound.ast):
        if alias in {"excluded", table.alias_or_name}:
            return table.name
    return relation_by_alias(bound.ast).get(alias)


def _target_tables(tree: exp.Expr) -> Sequence[exp.Table]:
    """The relations that a statement writes."""
    if isinstance(tree, exp.TruncateTable):
        return nodes_of(tree, exp.Table)
    if not isinstance(tree, _WRITES):
        return []
    inner = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    return [inner] if isinstance(inner, exp.Table) else []


def _edit(node: exp.Expr, text: str) -> _Edit:
    return node.meta["start"], node.meta["end"] + 1, text
