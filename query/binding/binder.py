"""The binder: resolve every name of a statement against a catalog and collect its SELECT blocks.

The binder walks the tree once. The tree stays as written (identifiers folded). The results are
annotations in the nodes' `meta`, which copies keep and which rewriting and execution read:

* `Table.meta["source"]` = (index in `statement.blocks`, alias): a relation or view of the catalog
  that the statement reads (not the target of an INSERT);
* `Column.meta["column"]` = (index of the block, alias, column): the referenced column. The index
  is None for a column of a CTE, subquery or function; the alias is "" if the item has none.
  `meta["shadowed"]`: an inner SELECT uses the same alias, so only the bare name resolves;
* `Star.meta["columns"]` = the columns that the star expands to, each as in `Column.meta`, followed
  by its visible name and its output name;
* `Column.meta["alias"]` = True: the reference means an output column of its own SELECT;
* `Alias.meta["figured"]`: the name of an output column that the statement does not name
  (`query/parsing/output_names.py`);
* `Join.meta["pairs"]` = the columns that USING or NATURAL equates, each as in `Column.meta`,
  followed by its visible name;
* `Subquery.meta["view"]` = the name of the plain view whose SELECT it is
  (`query/binding/plain_views.py`);
* `Placeholder.meta["parameter"]` = its `Parameter` (`query/parsing/parse.py`), and `meta["use"]` =
  its `Use`, if it is compared or cast.

The binder also settles comparisons with constants (`query/typing/comparisons.py`).

The binder refuses everything that `query/parsing/parse.py` refuses; FROM items other than
relations, readable views, CTEs, VALUES, subqueries and the table functions `range`,
`generate_series`, `unnest`; PIVOT, TABLESAMPLE, AT, POSITIONAL JOIN, whole rows as values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from types import MappingProxyType

from sqlglot import exp

from hornbeam_server.query.binding import index_expressions
from hornbeam_server.query.binding.algebra import (
    BoundStatement,
    Order,
    Source,
    StatementKind,
)
from hornbeam_server.query.binding.blocks import (
    Conjunct,
    Gathered,
    Resolve,
    SourceColumn,
    make_block,
    split,
)
from hornbeam_server.query.binding.dependencies import dependent_columns
from hornbeam_server.query.binding.distinct_orders import foreign_key, undetermined_key
from hornbeam_server.query.binding.identities import (
    excluded_names,
    omit_identities,
    write_out_natural,
)
from hornbeam_server.query.binding.merges import name_source, spell_inserts
from hornbeam_server.query.binding.names import (
    ANONYMOUS,
    Frame,
    Item,
    OutputColumn,
    Place,
    Target,
    ambiguous,
    derived_item,
    unknown,
)
from hornbeam_server.query.binding.plain_views import STORED, stand_in
from hornbeam_server.query.binding.row_oids import system_column
from hornbeam_server.query.binding.stars import with_written_stars
from hornbeam_server.query.binding.system_names import put_oids
from hornbeam_server.query.binding.system_tables import is_of_catalog
from hornbeam_server.query.binding.system_tables import stand_in as stand_in_system
from hornbeam_server.query.binding.texts_that_meet import (
    common_type,
    type_texts,
    type_texts_of_sides,
)
from hornbeam_server.query.binding.whole_rows import (
    FIELDS,
    TAKERS,
    TEXTS,
    VISIBLE,
    WholeRow,
    cells_of,
    field_name,
    fields_of,
    keeps_values,
    may_hold_row,
    named_row,
    row_of_value,
    text_of_row,
    written_out,
)
from hornbeam_server.query.dialect.arrays import function_of as function_of_arrays
from hornbeam_server.query.dialect.arrays import result_type as type_of_array_function
from hornbeam_server.query.dialect.calls_in_from import TABLE_FUNCTIONS
from hornbeam_server.query.dialect.common_decimals import (
    MEETING,
    exact_type,
    mark_operands_that_meet,
    mark_sides,
    mark_values_that_meet,
    recursive_array,
    recursive_type,
    type_parameters,
)
from hornbeam_server.query.dialect.computed_places import mark_places
from hornbeam_server.query.dialect.deviations import is_deviation
from hornbeam_server.query.dialect.enumerations import ENUMERATION
from hornbeam_server.query.dialect.functions import function_name
from hornbeam_server.query.dialect.grammar import at
from hornbeam_server.query.dialect.jsonb import (
    JSONB,
    concatenated_type,
    function_of,
    is_jsonb,
    result_type,
)
from hornbeam_server.query.dialect.jsonb_rows import POPULATING, populated
from hornbeam_server.query.dialect.listed_rows import SCALAR
from hornbeam_server.query.dialect.macros import CAST_FROM, PARAMETER_TYPE
from hornbeam_server.query.dialect.operand_kinds import MARKED, is_interval, mark_operands
from hornbeam_server.query.dialect.overloads import OVERLOAD
from hornbeam_server.query.dialect.ranges import ARITHMETIC, mark_range
from hornbeam_server.query.dialect.reals import argument_value, mark_reals
from hornbeam_server.query.dialect.result_types import type_of_result
from hornbeam_server.query.dialect.results import mark_result
from hornbeam_server.query.dialect.series import SERIES, mark_series, series_type
from hornbeam_server.query.dialect.session import value_of_word
from hornbeam_server.query.dialect.smallints import are_smallint, is_smallint, mark_smallint
from hornbeam_server.query.dialect.sums import (
    SUMMED,
    common_if_known,
    common_number,
    number_kind,
    number_of,
    number_of_all,
    number_type,
    sum_type,
)
from hornbeam_server.query.dialect.text_arrays import written_text
from hornbeam_server.query.parsing.alternatives import spell_out
from hornbeam_server.query.parsing.assignments import both_sides, is_assignment
from hornbeam_server.query.parsing.element_assignments import write_out_elements
from hornbeam_server.query.parsing.joins_in_parentheses import open_first_joins
from hornbeam_server.query.parsing.nesting import too_deep
from hornbeam_server.query.parsing.output_names import FIGURED, VALUE, name_output
from hornbeam_server.query.parsing.parse import DIALECT, parse
from hornbeam_server.query.parsing.placeholders import Parameter
from hornbeam_server.query.parsing.schema_names import SCHEMA
from hornbeam_server.query.parsing.sequence_calls import OF_COLUMN, put_owned_sequences
from hornbeam_server.query.parsing.system_calls import mentions_catalog
from hornbeam_server.query.parsing.system_signals import SIGNAL
from hornbeam_server.query.typing.arrays import mark_array
from hornbeam_server.query.typing.comparisons import EXCHANGED, settle
from hornbeam_server.query.typing.constants import CONSTANT, named_type
from hornbeam_server.query.typing.documents import mark_jsonb, require_order
from hornbeam_server.query.typing.enumerations import (
    assign_label,
    check_merged,
    check_places,
    common_type_of_sides,
    label_type,
    name_types,
    settle_labels,
)
from hornbeam_server.query.typing.literals import typed
from hornbeam_server.query.typing.spellings import read_text
from hornbeam_server.query.typing.truth import CONDITIONS, check_conditions
from hornbeam_server.query.typing.value_functions import mark_values, value_type
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.counters import sequence_names
from hornbeam_server.schema.errors import LimitExceeded, SqlError, UnknownName, Unsupported
from hornbeam_server.schema.model import PUBLIC
from hornbeam_server.schema.namespaces import SYSTEM_SCHEMAS, joined
from hornbeam_server.schema.quotients import QUOTIENT
from hornbeam_server.schema.trees import nodes_of, supersede, unlink, unlink_gone, written
from hornbeam_server.schema.types import JSONB as JSONB_TYPE
from hornbeam_server.schema.types import (
    REAL,
    UNORDERED,
    ColumnType,
    Declared,
    Kind,
    array_of,
    enumeration_of,
)

__all__ = ["BoundQuery", "OutputColumn", "bind", "bind_tree"]

MAX_COLUMNS = 1_664
"""Maximum number of columns of a SELECT, as in PostgreSQL."""
_BIGINT = ColumnType(Kind.BIGINT)
_INTERVAL = ColumnType(Kind.INTERVAL)
_INTEGER = ColumnType(Kind.INTEGER)
_TEXT = ColumnType(Kind.TEXT)
_PLAIN = frozenset(
    {exp.Identifier, exp.Column, exp.Literal, exp.Null, exp.Table, exp.TableAlias, exp.DataType}
)
"""Names, constants and types, which compute nothing: most nodes of a tree."""
_COMPARISONS = (*EXCHANGED, exp.Between, exp.In, exp.Case, exp.Nullif, exp.Like, exp.ILike)
USE = "use"
"""Key in the meta of a parameter's node: its `Use`."""
OWN = "own"
"""Key in the meta of a column's node in a write: the column belongs to the target or to FROM, not
to a subquery. The value is the column's type, None if unknown."""
_TABLE_PARTS = {"this", "alias", "joins", "db", "catalog"}
"""The allowed parts of a FROM item. Other parts, such as PIVOT, TABLESAMPLE and AT, are refused."""
_CALL_PARTS = _TABLE_PARTS | {"ordinality"}
_JOIN_PARTS = {"this", "on", "using", "side", "kind", "method"}
_PART_NAMES = {"pivots": "PIVOT", "sample": "TABLESAMPLE", "when": "AT", "version": "AT"}


@dataclass(frozen=True, slots=True)
class Use:
    """One use of a parameter: a comparison with an operand of `type` (None if unknown), or a `cast`
    to it."""

    type: ColumnType | None
    cast: bool = False


@dataclass(frozen=True)
class BoundQuery:
    """A statement with its names resolved.

    `parameter_types` has every parameter: `?` by number, names in order of first mention; the type
    is None if unknown. `uses` has the distinct uses of the parameters that are compared or cast.
    """

    statement: BoundStatement
    ast: exp.Expr
    columns: tuple[OutputColumn, ...]
    parameter_types: Mapping[int | str, ColumnType | None]
    uses: Mapping[int | str, tuple[Use, ...]]


def bind(sql: str, catalog: Catalog) -> BoundQuery:
    """Parse and bind one statement. Raises SqlError, UnknownName, Unsupported."""
    return bind_tree(parse(sql), sql, catalog)


def bind_tree(tree: exp.Expr, sql: str, catalog: Catalog, *, inner: bool = False) -> BoundQuery:
    """Bind a parsed tree; `sql` is the text that its positions refer to. `inner`: other statements
    read its columns, so none is a whole row. After an error the tree is unusable."""
    binder = _Binder(sql, catalog)
    binder.outermost = None if inner else tree
    try:
        name_types(tree, catalog)
        if mentions_catalog(sql):
            put_oids(tree, catalog.described)
        if OF_COLUMN in sql.lower():
            put_owned_sequences(tree, catalog.described)
        columns = binder.statement(tree)
        return binder.finish(tree, columns)
    except RecursionError:
        unlink(tree)
        raise too_deep() from None
    except BaseException:
        unlink(tree)
        raise


@dataclass(frozen=True, slots=True)
class _Shape:
    """The columns of a query. `open`: only DuckDB knows the names of some columns."""

    columns: tuple[OutputColumn, ...]
    open: bool = False


_Entry = tuple[int, Item, OutputColumn, str]
"""(number of the SELECT, item, column, visible name of the column there)."""

Scope = dict[str, _Shape]
"""The visible CTEs by name."""


@dataclass
class _Select:
    """The binder's state for one SELECT or write. `aliases` are the names that the statement gives
    to output columns, `figured` those that it does not (`query/parsing/output_names.py`), and
    `twice` the names of several different output columns. `values` has what the first output column
    of each name is: a column of FROM, or an expression. `names_outputs`: the clause that is bound
    knows `aliases` in expressions."""

    frame: Frame
    gathered: Gathered
    ctes: Scope
    aliases: dict[str, exp.Expr] = field(default_factory=dict)
    figured: dict[str, exp.Expr] = field(default_factory=dict)
    twice: set[str] = field(default_factory=set)
    values: dict[str, exp.Expr | Place] = field(default_factory=dict)
    rows: dict[str | int, WholeRow] = field(default_factory=dict)
    """The output columns that are whole rows, by their names and by their places, from 1."""
    names_outputs: bool = False

    def output(self, name: str) -> exp.Expr | None:
        """The expression of the output column `name`, if it is no plain column."""
        return self.aliases.get(name) or self.figured.get(name)

    def add_output(self, name: str, value: exp.Expr | Place) -> None:
        if self.values.setdefault(name, value) != value:
            self.twice.add(name)


class _Binder:
    def __init__(self, sql: str, catalog: Catalog) -> None:
        self.sql = sql
        self.catalog = catalog
        self.gathered: list[Gathered] = []
        self.visited: set[int] = set()
        self.targets: dict[int, Target] = {}
        self.nodes: list[exp.Column] = []
        self.stars: list[tuple[exp.Expr, list[tuple[_Entry, str]]]] = []
        self.starred: list[tuple[exp.Expr, list[tuple[Item, Gathered]]]] = []
        self.pairs: list[tuple[exp.Join, list[tuple[_Entry, _Entry]]]] = []
        self.parameters: dict[int | str, ColumnType | None] = {}
        self.uses: dict[int | str, tuple[Use, ...]] = {}
        self.kind = StatementKind.SELECT
        self.target: str | None = None
        self.own: int | None = None
        self.outermost: exp.Expr | None = None
        self.written: tuple[str, ...] = ()
        self.typed: dict[int, ColumnType | None] | None = None

    # -- statements

    def statement(self, tree: exp.Expr) -> tuple[OutputColumn, ...]:
        match tree:
            case exp.Insert():
                return self._insert(tree)
            case exp.Update():
                return self._update(tree)
            case exp.Delete():
                return self._delete(tree)
            case exp.Merge():
                return self._merge_into(tree)
            case exp.TruncateTable():
                return self._truncate(tree)
            case _:
                return self._query(tree, None, {}).columns

    def finish(self, tree: exp.Expr, columns: tuple[OutputColumn, ...]) -> BoundQuery:
        """Number the blocks, annotate the nodes, and collect parameter types."""
        before = nodes_of(tree)
        self._check_visited(before)
        settle(tree, self._compared_type)
        nodes = nodes_of(tree)
        if self._has_labels(nodes):
            for node in nodes:
                settle_labels(node, self._type, self._argument)
            nodes = nodes_of(tree)
            if check_places(nodes, self._type, self._argument, self.sql):
                nodes = nodes_of(tree)
        unlink_gone(before, nodes)
        with_sources = [gathered for gathered in self.gathered if gathered.sources]
        index = {gathered.select: i for i, gathered in enumerate(with_sources)}
        for number, gathered in enumerate(with_sources):
            for source, table in zip(gathered.sources, gathered.nodes, strict=True):
                table.meta["source"] = (number, source.alias)

        def place(select: int, item: Item, column: OutputColumn) -> tuple[int | None, str, str]:
            number = index.get(select) if item.relation is not None else None
            return number, item.name, column.name

        for node in self.nodes:
            target = self.targets[id(node)]
            node.meta["column"] = place(target.select, target.item, target.column)
        for star, entries in self.stars:
            star.meta["columns"] = tuple(
                (*place(*entry[:3]), entry[3], name) for entry, name in entries
            )
        for star, items in self.starred:
            omit_identities(star, items)
        for join, pairs in self.pairs:
            join.meta["pairs"] = tuple(
                tuple((*place(*side[:3]), side[3]) for side in pair) for pair in pairs
            )
        self._type_parameters(nodes)
        blocks = tuple(
            make_block(
                gathered,
                _resolver(self.targets, gathered.select),
                self.catalog.schema,
                index_expressions.resolver(gathered.sources, number, self.catalog, bind),
            )
            for number, gathered in enumerate(with_sources)
        )
        statement = BoundStatement(
            self.kind,
            self.sql,
            blocks,
            self.target,
            self.written,
            tuple(Parameter(name) for name in self.parameters),
        )
        types, uses = MappingProxyType(self.parameters), MappingProxyType(self.uses)
        return BoundQuery(statement, tree, columns, types, uses)

    def _has_labels(self, nodes: Sequence[exp.Expr]) -> bool:
        """Has the statement values of an ENUM?"""
        if not self.catalog.schema.enumerations:
            return False
        columns = (target.column.type for target in self.targets.values())
        named = (node for node in nodes if ENUMERATION in node.meta or CONSTANT in node.meta)
        return any(map(enumeration_of, columns)) or any(True for _ in named)

    def _insert(self, tree: exp.Insert) -> tuple[OutputColumn, ...]:
        self.kind = StatementKind.INSERT
        ctes = self._ctes(tree, None, {})
        table = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
        select = self._target(table, ctes)
        select.gathered.sources.clear()  # an INSERT does not read its target: no block
        select.gathered.nodes.clear()
        spell_out(tree, self.catalog.schema.relation(table.name))
        item = select.frame.items[0]
        columns = self._columns_of_insert(tree, item)
        source = tree.args.get("expression")
        if isinstance(source, exp.Values):
            columns = self._first(tree, len(_cells(source.expressions[0])), columns)
            self._insert_values(source, columns, _Select(Frame(-1), Gathered(-1), ctes))
        elif source is not None:
            self._insert_query(tree, source, columns, ctes)
        conflict = tree.args.get("conflict")
        if conflict is not None:
            self._on_conflict(conflict, select)
        return self._returning(tree, select)

    def _columns_of_insert(self, insert: exp.Insert, item: Item) -> Sequence[OutputColumn]:
        """The columns that an INSERT lists; without a list those of its target, `item`."""
        names = insert.this.expressions if isinstance(insert.this, exp.Schema) else []
        named = [self._target_column(name, item) for name in names]
        return named or [column for _, column in item.columns]

    def _first(
        self, tree: exp.Insert, given: int, columns: Sequence[OutputColumn]
    ) -> Sequence[OutputColumn]:
        """The columns that `given` values are for. Without a list of columns these are the first
        columns of the relation, as in PostgreSQL, and the tree gets their list."""
        if given >= len(columns) or isinstance(tree.this, exp.Schema):
            return columns
        first = columns[:given]
        names = [exp.to_identifier(column.name, quoted=True) for column in first]
        tree.set("this", exp.Schema(this=tree.this, expressions=names))
        return first

    def _insert_values(
        self, values: exp.Values, columns: Sequence[OutputColumn], select: _Select
    ) -> None:
        for row in values.expressions:
            cells = _cells(row)
            self._same_width(len(cells), len(columns), row)
            for cell, column in zip(cells, columns, strict=True):
                self._assign(cell, column, select)

    def _insert_query(
        self, tree: exp.Insert, source: exp.Expr, columns: Sequence[OutputColumn], ctes: Scope
    ) -> None:
        shape = self._query(source, None, ctes)
        if tree.args.get("by_name"):
            known = {column.name: column for column in columns}
            for column in shape.columns:
                if column.name not in known:
                    raise unknown("column", column.name, at(source, self.sql), known)
            return
        if not shape.open:
            columns = self._first(tree, len(shape.columns), columns)
            self._same_width(len(shape.columns), len(columns), source)
        selects = [s for s in _branches(source) if len(s.expressions) == len(columns)]
        for branch in selects:
            for cell, column in zip(branch.expressions, columns, strict=True):
                self._set_type(cell.unalias(), column.type)
                self._read_bytes(cell.unalias(), column.type)
                self._assign_label(cell.unalias(), column)

    def _same_width(self, given: int, wanted: int, node: exp.Expr) -> None:
        if given != wanted:
            raise SqlError(
                f"{given} values for {wanted} columns{at(node, self.sql)}.",
                cure="Name the columns that are written, and give each a value.",
            )

    def _on_conflict(self, conflict: exp.Expr, select: _Select) -> None:
        item = select.frame.items[0]
        for key in conflict.args.get("conflict_keys") or ():
            part = (key.this if isinstance(key, exp.Ordered) else key).unnest()
            if isinstance(part, exp.Column | exp.Identifier):
                self._target_column(part, item)
            else:
                self._expression(part, replace(select, frame=replace(select.frame, items=[item])))
        if item.name == "excluded":
            raise SqlError(
                "The name excluded is ambiguous: it is the new row of ON CONFLICT DO UPDATE, and"
                " the relation that is written.",
                cure="Give the relation an alias: INSERT INTO excluded AS t.",
            )
        new_row = Item("excluded", item.columns)
        inner = replace(select, frame=replace(select.frame, items=[item, new_row]))
        for assignment in self._assignments(conflict, item):
            self._assignment(assignment, inner, item)
        where = conflict.args.get("where")
        if where is not None:
            self._expression(where.this, inner)

    def _update(self, tree: exp.Update) -> tuple[OutputColumn, ...]:
        self.kind = StatementKind.UPDATE
        select = self._target(tree.this, self._ctes(tree, None, {}))
        item = select.frame.items[0]
        origin = tree.args.get("from_")
        if origin is not None:
            self._from_and_joins(origin.this, (), select)
        written = [self._assignment(node, select, item) for node in self._assignments(tree, item)]
        self.written = tuple(name for names in written for name in names)
        if len(set(self.written)) < len(self.written):
            raise SqlError(
                f"A column of {item.relation} is assigned twice.", cure="Assign it once."
            )
        self._where(tree, select)
        return self._returning(tree, select)

    def _delete(self, tree: exp.Delete) -> tuple[OutputColumn, ...]:
        self.kind = StatementKind.DELETE
        if tree.args.get("tables") or not tree.this:
            raise SqlError(
                f"DELETE needs FROM and one relation{at(tree, self.sql)}.",
                cure="Write DELETE FROM relation WHERE …",
            )
        select = self._target(tree.this, self._ctes(tree, None, {}))
        for node in tree.args.get("using") or ():
            self._from_and_joins(node, (), select)
        self._where(tree, select)
        return self._returning(tree, select)

    def _merge_into(self, tree: exp.Merge) -> tuple[OutputColumn, ...]:
        self.kind = StatementKind.UPDATE
        spell_inserts(tree)
        select = self._target(tree.this, self._ctes(tree, None, {}))
        item = select.frame.items[0]
        self._from_and_joins(tree.args["using"], (), select)
        condition = tree.args.get("on")
        if not isinstance(condition, exp.Expr):
            raise Unsupported(
                f"MERGE … USING (columns) is not supported{at(tree, self.sql)}.",
                cure="Write ON and the condition that connects the rows.",
            )
        self._expression(condition, select)
        settle(tree, self._compared_type)
        select.gathered.inner_only = False
        select.gathered.conjuncts += [
            Conjunct(part, restricts=frozenset({item.alias})) for part in split(tree.args["on"])
        ]
        source = replace(select, frame=replace(select.frame, items=select.frame.items[1:]))
        written: list[str] = []
        for when in tree.args["whens"].expressions:
            matched = when.args["matched"]
            if not matched:
                name_source(when, source.frame)
            if (condition := when.args.get("condition")) is not None:
                self._expression(condition, select if matched else source)
            match when.args["then"]:
                case exp.Update() as update:
                    for node in self._assignments(update, item):
                        written += self._assignment(node, select, item)
                case exp.Insert() as insert:
                    self._merged_row(insert, item, source)
        self.written = tuple(dict.fromkeys(written))
        return ()

    def _merged_row(self, insert: exp.Insert, item: Item, source: _Select) -> None:
        """Bind WHEN NOT MATCHED THEN INSERT, whose values see the source alone."""
        values = insert.args.get("expression")
        columns = self._columns_of_insert(insert, item)
        if values is not None:
            self._insert_values(values, columns, source)

    def _truncate(self, tree: exp.TruncateTable) -> tuple[OutputColumn, ...]:
        self.kind = StatementKind.DELETE
        for table in tree.expressions:
            self._target(table, {}).gathered.sources.clear()
        self.target = tree.expressions[0].name
        return ()

    def _target(self, table: exp.Expr, ctes: Scope) -> _Select:
        if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
            raise Unsupported(
                f"A write has one relation as its target{at(table, self.sql)}.",
                cure="Name one relation, without a query or a join.",
            )
        self._visit(table)
        name = table.name
        if above := self.catalog.relations_of(name):
            raise Unsupported(
                f"{name} is a view: it follows its relations{at(table, self.sql)}.",
                cure=f"Write to {', '.join(above)}.",
            )
        if name in self.catalog.plain_view:
            raise Unsupported(
                f"{name} is a view: its rows are those of its SELECT{at(table, self.sql)}.",
                cure=f"Write to {', '.join(self.catalog.plain_view[name].sources)}.",
            )
        if name not in self.catalog.schema or table.args.get("db"):
            raise self._unknown_relation(table, {})
        select = self._open(None, ctes)
        self._add_source(table, select)
        self.target = name
        self.own = select.frame.select
        return select

    def _assignments(self, write: exp.Expr, item: Item) -> Sequence[exp.Expr]:
        """The assignments of SET, each to a whole column."""
        types = {name: column.type for name, column in item.columns}
        write_out_elements(write, item.name, types, self.sql)
        return write.expressions

    def _assignment(self, node: exp.Expr, select: _Select, item: Item) -> list[str]:
        """Bind `column = value`, or tuples of both, and return the column names."""
        if not isinstance(node, exp.EQ):
            raise SqlError(
                f"SET takes assignments only{at(node, self.sql)}.", cure="Write column = value."
            )
        lefts, rights = both_sides(node)
        columns = [self._target_column(left, item) for left in lefts]
        if rights is None:
            shape = self._query(node.expression, select.frame, select.ctes)
            given, known = len(shape.columns), not shape.open
        else:
            given, known = len(rights), True
        if known and given != len(columns):
            raise SqlError(
                f"{given} values for {len(columns)} columns{at(node, self.sql)}.",
                cure="Give one value for each column that is assigned.",
            )
        for value, column in zip(rights or (), columns, strict=rights is not None):
            self._assign(value, column, select)
        return [column.name for column in columns]

    def _assign(self, value: exp.Expr, column: OutputColumn, select: _Select) -> None:
        if _is_default(value):
            value.replace(exp.Var(this="DEFAULT"))  # the parser's node for DEFAULT in VALUES
            return
        self._expression(value, select)
        self._set_type(value, column.type)
        self._read_bytes(value, column.type)
        self._assign_label(value, column)
        if column.type is not None and column.type.kind is Kind.TEXT:
            self._write_real(value)

    def _assign_label(self, value: exp.Expr, column: OutputColumn) -> None:
        assign_label(value, column.name, column.type, self._type, self._argument)

    def _write_real(self, value: exp.Expr) -> None:
        """Cast a REAL that is assigned to text, so that it is written with its own digits."""
        if number_type(value, self._number_type) != REAL:
            return
        inner = value.unnest()
        if isinstance(inner, exp.Select):
            self._write_real(inner.expressions[0].unalias())
            return
        value.replace(cast := exp.Cast(to=exp.DataType(this=exp.DType.TEXT)))
        cast.set("this", value)

    def _read_bytes(self, value: exp.Expr, type_: ColumnType | None) -> None:
        """Replace a string literal assigned to BYTES by its bytes: TEXT values cannot be
        assigned to BYTES."""
        if type_ is not None and type_.kind is Kind.BYTES:
            written = written_text(value.unnest())
            if written is not None:
                value.unnest().replace(typed(type_, read_text(type_, written)))

    def _target_column(self, node: exp.Expr, item: Item) -> OutputColumn:
        if not isinstance(node, exp.Column | exp.Identifier):
            raise SqlError(
                f"Only a column can be assigned to{at(node, self.sql)}.",
                cure="Name a column.",
            )
        if isinstance(node, exp.Column) and node.table not in ("", item.name):
            raise SqlError(
                f"{node.table} is not the relation that is written{at(node, self.sql)}.",
                cure=f"Name a column of {item.name}.",
            )
        column = item.find(node.name)
        if column is None:
            names = [name for name, _ in item.columns]
            raise self._unknown_column(node, f"{item.relation}.{node.name}", names)
        return column

    def _returning(self, tree: exp.Expr, select: _Select) -> tuple[OutputColumn, ...]:
        returning = tree.args.get("returning")
        if returning is None:
            return ()
        return self._projections(returning.expressions, select).columns

    # -- queries

    def _query(self, node: exp.Expr, parent: Frame | None, ctes: Scope) -> _Shape:
        match node:
            case exp.Select():
                return self._select(node, parent, ctes)
            case exp.SetOperation():
                return self._set_operation(node, parent, ctes)
            case exp.Subquery():
                return self._subquery(node, parent, ctes)
            case exp.Values():
                return self._values(node, parent, ctes)
            case _:
                what = type(node).__name__.upper()
                raise Unsupported(f"{what} is not supported here{at(node, self.sql)}.")

    def _ctes(self, node: exp.Expr, parent: Frame | None, ctes: Scope) -> Scope:
        """The CTEs visible inside `node`. An inner CTE shadows an outer CTE of the same name."""
        with_ = node.args.get("with_")
        if with_ is None:
            return ctes
        known = dict(ctes)
        for cte in with_.expressions:
            query = cte.this
            if not isinstance(query, exp.Query | exp.Values):
                raise Unsupported(
                    f"A CTE must be a query{at(cte, self.sql)}.",
                    cure="Write SELECT or VALUES; send a write as a statement of its own.",
                )
            names = [column.name for column in cte.args["alias"].columns]
            if with_.args.get("recursive") and isinstance(query, exp.SetOperation):
                shape = self._recursive(query, cte.alias, names, parent, known)
            else:
                shape = self._query(query, parent, known)
            self._check_names(cte, names, shape.columns)
            known[cte.alias] = _renamed(shape, names or _name_values(cte, shape))
        return known

    def _check_names(self, node: exp.Expr, names: Sequence[str], columns: Sequence[object]) -> None:
        if len(names) > len(columns) > 0:
            raise SqlError(
                f"{len(names)} names for {len(columns)} columns{at(node, self.sql)}.",
                cure="Give at most one name for each column.",
            )

    def _recursive(
        self,
        query: exp.SetOperation,
        name: str,
        names: Sequence[str],
        parent: Frame | None,
        ctes: Scope,
    ) -> _Shape:
        inner = self._ctes(query, parent, ctes)
        first = self._query(query.this, parent, inner)
        # The recursive part may widen a type; only the names and the kinds of numbers are certain.
        untyped = [OutputColumn(c.name, _certain(c), _number_of(c)) for c in first.columns]
        known = _renamed(replace(first, columns=tuple(untyped)), names)
        second = self._query(query.expression, parent, {**inner, name: known})
        self._modifiers(query, parent, inner)
        if first.open or second.open or len(first.columns) != len(second.columns):
            return replace(first, columns=tuple(OutputColumn(c.name, _certain(c)) for c in untyped))
        for number in range(len(first.columns)):
            self._label_of_sides(query, number, first.columns, second.columns)
            _check_arrays(known.columns[number], second.columns[number])
        return _Shape(_of_recursion(query, known.columns, second.columns))

    def _set_operation(self, node: exp.SetOperation, parent: Frame | None, ctes: Scope) -> _Shape:
        inner = self._ctes(node, parent, ctes)
        left = self._query(node.this, parent, inner)
        right = self._query(node.expression, parent, inner)
        left, right = self._typed_sides(node, left, right)
        self._modifiers(node, parent, inner, left)
        if node.args.get("by_name"):
            return _by_name(left, right)
        if not (left.open or right.open) and len(left.columns) != len(right.columns):
            raise SqlError(
                f"The sides of {type(node).__name__.upper()} have {len(left.columns)} and"
                f" {len(right.columns)} columns.",
                cure="Give both sides the same number of columns.",
            )
        sides = (left.columns, right.columns)
        columns = tuple(
            replace(column, type=self._label_of_sides(node, i, *sides) or column.type)
            for i, column in enumerate(map(_united, *sides))
        )
        if not (left.open or right.open):
            _mark_sides(node, left.columns, right.columns)
            self._type_sides(node, left, right)
        return _Shape(columns, left.open)

    def _typed_sides(
        self, node: exp.SetOperation, left: _Shape, right: _Shape
    ) -> tuple[_Shape, _Shape]:
        """The sides, in which a text literal is a value of the other side's type. Raises SqlError
        for a value of type TEXT in the place of a number."""
        if left.open or right.open or node.args.get("by_name"):
            return left, right
        sides = (node.this, node.expression)
        columns = type_texts_of_sides(sides, (left.columns, right.columns), self.sql)
        return replace(left, columns=columns[0]), replace(right, columns=columns[1])

    def _label_of_sides(
        self,
        node: exp.SetOperation,
        number: int,
        left: Sequence[OutputColumn],
        right: Sequence[OutputColumn],
    ) -> ColumnType | None:
        """The ENUM that a column of UNION or the like is; None for other types."""
        types = [left[number].type, right[number].type]
        if not any(map(enumeration_of, types)) or types[0] == types[1]:
            return types[0] if types[0] == types[1] else None
        sides = [
            [branch.expressions[number].unalias() for branch in _branches(side)]
            for side in (node.this, node.expression)
        ]
        what = type(node).__name__.upper()
        return common_type_of_sides(types, sides, self._argument, what)

    def _type_sides(self, node: exp.SetOperation, left: _Shape, right: _Shape) -> None:
        """Give parameters that are columns of a side the type of the other side's numbers."""
        for branch in _branches(node):
            sides = zip(branch.expressions, left.columns, right.columns, strict=False)
            for value, *columns in sides:
                common = common_number([n for n in map(_number_of, columns) if n is not None])
                if common is not None:
                    type_parameters([value.unalias()], common, self._argument)

    def _subquery(self, node: exp.Subquery, parent: Frame | None, ctes: Scope) -> _Shape:
        inner = self._ctes(node, parent, ctes)
        if isinstance(node.this, exp.Table):
            raise Unsupported(
                f"A join in parentheses is no query{at(node, self.sql)}.",
                cure="Write SELECT * FROM before the join.",
            )
        shape = self._query(node.this, parent, inner)
        self._modifiers(node, parent, inner, shape)
        return shape

    def _values(self, node: exp.Values, parent: Frame | None, ctes: Scope) -> _Shape:
        select = _Select(Frame(-1, parent), Gathered(-1), ctes)
        for row in node.expressions:
            for cell in list(row.expressions):
                _name_columns(cell)
            for cell in row.expressions:
                self._expression(cell, select)
        cells = zip(*(row.expressions for row in node.expressions), strict=False)
        columns = (self._column_of_values(i, column) for i, column in enumerate(cells, start=1))
        shape = _Shape(tuple(columns))
        self._modifiers(node, parent, ctes, shape)
        return shape

    def _column_of_values(self, number: int, cells: Sequence[exp.Expr]) -> OutputColumn:
        type_texts(cells, common_type(cells, self._number_type))
        document = any(is_jsonb(self._type(cell)) for cell in cells)
        mark_values_that_meet(cells, self._number_type, self._argument)
        common = number_of_all(cells, self._number_type)
        small = are_smallint(cells, self._is_small_column)
        types = [self._type(cell) for cell in cells]
        labels = common_type_of_sides(types, [[cell] for cell in cells], self._argument, "VALUES")
        type_ = JSONB_TYPE if document else labels or (_TEXT if _are_texts(cells) else None)
        fields = _common_fields([self._fields(cell) for cell in cells])
        return OutputColumn(f"{VALUE}{number}", type_, common, small, fields)

    def _modifiers(
        self, node: exp.Expr, parent: Frame | None, ctes: Scope, shape: _Shape | None = None
    ) -> None:
        """Bind ORDER BY, LIMIT and OFFSET of a whole query. Names refer to the query's columns."""
        columns = tuple((c.name, c) for c in shape.columns) if shape else ()
        item = derived_item("", columns, open_=shape.open if shape else True)
        frame = Frame(-1, parent, [item])
        select = _Select(frame, Gathered(-1), ctes)
        order = node.args.get("order")
        for ordered in order.expressions if order else ():
            if not isinstance(ordered.this, exp.Var):
                self._expression(ordered.this, select)
                self._number_of_value(node, ordered, columns)
        self._limits(node, select)

    def _number_of_value(
        self, node: exp.Expr, ordered: exp.Expr, columns: Sequence[tuple[str, OutputColumn]]
    ) -> None:
        """Order VALUES by the number of a column instead of its name, which DuckDB does not
        know."""
        names = [name for name, _ in columns]
        key = ordered.this
        if isinstance(node, exp.Values) and isinstance(key, exp.Column) and key.name in names:
            supersede(key, exp.Literal.number(names.index(key.name) + 1))

    # -- one SELECT

    def _open(self, parent: Frame | None, ctes: Scope) -> _Select:
        number = len(self.gathered)
        gathered = Gathered(number)
        self.gathered.append(gathered)
        return _Select(Frame(number, parent), gathered, ctes)

    def _select(self, node: exp.Select, parent: Frame | None, ctes: Scope) -> _Shape:
        select = self._open(parent, ctes)
        select.ctes = self._ctes(node, parent, ctes)
        open_first_joins(node)
        origin = node.args.get("from_")
        joins = node.args.get("joins") or ()
        if origin is not None:
            self._from_and_joins(origin.this, joins, select)
        for lateral in node.args.get("laterals") or ():
            self._from_and_joins(lateral, (), select)
        shape = self._projections(node.expressions, select)
        self._where(node, select)
        self._group(node, select)
        for part in ("having", "windows"):
            for clause in _listed(node.args.get(part)):
                self._expression(clause, select)
        self._distinct_keys(node, select)
        if node.args.get("qualify") is not None:
            select.names_outputs = True  # a clause of DuckDB alone
            self._expression(node.args["qualify"], select)
            select.names_outputs = False
        self._order(node, select)
        self._check_distinct(node)
        self._limits(node, select)
        self._complete_group(node, select)
        return shape

    def _group(self, node: exp.Select, select: _Select) -> None:
        """Bind GROUP BY. A name in it means a column of FROM, or else an output column."""
        group = node.args.get("group")
        if group is not None:
            self._write_keys(_keys_of(group), select)
        for key in _keys_of(group) if group is not None else ():
            plain = isinstance(key, exp.Column) and not key.table
            if plain and not select.frame.knows(key.name) and self._names_output(key, select):
                continue
            self._expression(key, select)

    def _distinct_keys(self, node: exp.Select, select: _Select) -> None:
        """Bind DISTINCT ON. A name in it means an output column, as in ORDER BY."""
        distinct = node.args.get("distinct")
        on = distinct.args.get("on") if distinct is not None else None
        for key in on.expressions if isinstance(on, exp.Tuple) else _listed(on):
            if not self._names_output(key, select):
                self._expression(key, select)

    def _names_output(self, node: exp.Expr, select: _Select) -> bool:
        """Bind a key of ORDER BY or GROUP BY that is the name of an output column; False if it is
        none."""
        inner = node.unnest()
        if not isinstance(inner, exp.Column) or inner.table:
            return False
        if inner.name in select.twice:
            raise SqlError(
                f"{inner.name} is the name of several output columns{at(inner, self.sql)}.",
                cure="Name the columns with AS, or write the number of the column.",
            )
        if select.output(inner.name) is None:
            _qualify_output(inner, select)
            return False
        inner.meta["alias"] = True
        return True

    def _complete_group(self, node: exp.Select, select: _Select) -> None:
        """Add the columns to GROUP BY that follow from a primary key in it."""
        number, schema = select.gathered.select, self.catalog.schema
        for added, target in dependent_columns(node, self.targets, self._starred(), number, schema):
            self.targets[id(added)] = target
            self.nodes.append(added)
            node.args["group"].append("expressions", added)

    def _starred(self) -> dict[int, list[tuple[Target, str]]]:
        """The columns of each `*`, with their visible names, by the id of the node."""
        return {
            id(star): [
                (Target(number, item, column), name) for (number, item, column, name), _ in found
            ]
            for star, found in self.stars
        }

    def _visit(self, node: exp.Expr) -> None:
        """Mark a FROM item as checked. Raises Unsupported for parts that would change its rows."""
        self.visited.add(id(node))
        parts = node.args if isinstance(node, exp.Table) else ("pivots", "sample")
        known = _TABLE_PARTS if isinstance(node.this, exp.Identifier) else _CALL_PARTS
        self._require_parts(node, parts, known)

    def _require_parts(self, node: exp.Expr, parts: Iterable[str], known: Collection[str]) -> None:
        for part in parts:
            if node.args.get(part) and part not in known:
                what = _PART_NAMES.get(part, part.upper())
                raise Unsupported(f"{what} is not supported{at(node, self.sql)}.")

    def _check_visited(self, nodes: Iterable[exp.Expr]) -> None:
        """Raise Unsupported for a table that `_visit` has not checked: the grammar allows tables in
        more places than the binder supports."""
        for node in nodes:
            if isinstance(node, exp.Table) and id(node) not in self.visited:
                raise Unsupported(f"{node.name} may not stand here{at(node, self.sql)}.")

    def _where(self, node: exp.Expr, select: _Select) -> None:
        where = node.args.get("where")
        if where is None:
            return
        self._expression(where.this, select)
        settle(where, self._compared_type)
        nullable = frozenset(select.frame.nullable)
        select.gathered.conjuncts += [
            Conjunct(part, nullable, where=True) for part in split(where.this)
        ]

    def _limits(self, node: exp.Expr, select: _Select) -> None:
        for key in ("limit", "offset"):
            clause = node.args.get(key)
            value = clause.args.get("expression") or clause.args.get("count") if clause else None
            if value is not None:
                self._expression(value, select)
        select.gathered.limit = select.gathered.limit or node.args.get("limit") is not None

    def _order(self, node: exp.Select, select: _Select) -> None:
        order = node.args.get("order")
        plain: list[Order] = []
        if order:
            self._write_keys(order.expressions, select)
        expressions = order.expressions if order else []
        for ordered in expressions:
            if isinstance(ordered.this, exp.Var):  # ORDER BY ALL
                continue
            if not self._names_output(ordered.this, select):
                self._expression(ordered.this, select)
            require_order(ordered, node, select.output, self._type, self.sql)
            found = self._plain(ordered.this, select)
            if found is not None:
                flags = bool(ordered.args.get("desc")), bool(ordered.args.get("nulls_first"))
                plain.append(Order(*found.name, *flags))
        if len(plain) == len(expressions):
            select.gathered.order = plain

    def _check_distinct(self, node: exp.Select) -> None:
        if node.args.get("distinct") is None:
            return
        key = undetermined_key(node, self.targets)
        if key is not None:
            raise SqlError(
                f"ORDER BY of SELECT DISTINCT names no output column{at(key, self.sql)}.",
                cure="Add the expression to the SELECT list, or write GROUP BY.",
            )
        stars = {star: [target for target, _ in found] for star, found in self._starred().items()}
        key = foreign_key(node, self.targets, stars)
        if key is not None:
            raise SqlError(
                f"ORDER BY does not begin with the expressions of DISTINCT ON{at(key, self.sql)}.",
                cure="Order by them first: they decide which rows are together.",
            )

    def _plain(self, node: exp.Expr, select: _Select) -> SourceColumn | None:
        """The source column that an ORDER BY element means, directly or through an output alias."""
        node = node.unnest()
        if isinstance(node, exp.Column) and node.meta.get("alias"):
            found = select.output(node.name)
            assert found is not None
            node = found.unnest()
        return _resolver(self.targets, select.gathered.select)(node)

    # -- FROM

    def _from_and_joins(
        self, first: exp.Expr, joins: Iterable[exp.Join], select: _Select
    ) -> set[str]:
        """Bind a FROM item and the items joined to it, and return all their aliases."""
        left = self._from_item(first, select)
        for join in [*(first.args.get("joins") or ()), *joins]:
            self._join(join, left, select)
        return left

    def _from_item(self, node: exp.Expr, select: _Select) -> set[str]:
        self._visit(node)
        match node:
            case exp.Table() if node.db in SYSTEM_SCHEMAS:
                return self._system_table(node, select)
            case exp.Table() if isinstance(node.this, exp.Identifier):
                return self._table(node, select)
            case exp.Subquery() if isinstance(node.this, exp.Table):
                if node.alias:
                    raise Unsupported(
                        f"A join cannot have an alias{at(node, self.sql)}.",
                        cure="Give each relation in it an alias, or write (SELECT …) AS name.",
                    )
                return self._from_and_joins(node.this, (), select)
            case exp.Subquery() | exp.Values():
                shape = self._query(node, select.frame, select.ctes)
                return self._derived(node, shape, select)
            case exp.Lateral() if isinstance(node.this, exp.Subquery):
                shape = self._query(node.this, select.frame, select.ctes)
                return self._derived(node, shape, select)
            case _:
                return self._table_function(node, select)

    def _system_table(self, node: exp.Table, select: _Select) -> set[str]:
        found = stand_in_system(node, self.sql)
        columns = tuple(
            OutputColumn(column.name, column.type, system=system)
            for column, system in zip(found.columns, found.types, strict=True)
        )
        return self._derived(node, _Shape(columns), select)

    def _table(self, node: exp.Table, select: _Select) -> set[str]:
        name, plain = node.name, not node.args.get("db")
        if plain and name in select.ctes and STORED not in node.meta:
            return self._derived(node, select.ctes[name], select, name)
        if is_of_catalog(node):
            return self._system_table(node, select)
        if plain and (view := self.catalog.plain_view.get(name)) is not None:
            found = stand_in(node, view)
            name_types(found, self.catalog)
            put_oids(found, self.catalog)
            node.replace(found)
            self._visit(found)
            return self._derived(found, self._query(found.this, None, {}), select)
        self._check_relation(node, select)
        return {self._add_source(node, select)}

    def _check_relation(self, node: exp.Table, select: _Select) -> None:
        name = node.name
        above = self.catalog.relations_of(name)
        if not (name in self.catalog.schema or above) or node.args.get("db"):
            raise self._unknown_relation(node, select.ctes)
        if above and not self.catalog.readable(name):
            state = self.catalog.state.get(name)
            raise UnknownName(
                f"View {name} cannot be read: it is {state or 'not built'}{at(node, self.sql)}.",
                cure=f"Query {', '.join(above)} instead.",
                name=name,
            )

    def _unknown_relation(
        self, node: exp.Table, ctes: Mapping[str, object]
    ) -> UnknownName | Unsupported:
        name = ".".join(part.name for part in node.parts)
        if name in sequence_names(self.catalog.schema):
            return Unsupported(
                f"{name} is a sequence, which cannot be read as a relation{at(node, self.sql)}.",
                cure="Ask nextval, currval or lastval, or information_schema.sequences.",
            )
        schema = node.meta.get(SCHEMA, PUBLIC)
        if schema not in {PUBLIC, *self.catalog.schema.spaces}:
            spaces = ", ".join((PUBLIC, *self.catalog.schema.spaces))
            return UnknownName(
                f"{name} is in schema {schema}, which does not exist{at(node, self.sql)}.",
                cure=f"Write {name.removeprefix(joined(schema, ''))}, or one of: {spaces}.",
                name=name,
            )
        if name in self.catalog.sequences:
            return UnknownName(
                f"{name} is a sequence, which has no row to read{at(node, self.sql)}.",
                cure=f"Write nextval('{name}'), or currval('{name}') for the number that this"
                " connection has taken last; information_schema.sequences has its declaration.",
                name=name,
            )
        made = self.catalog.all_views
        views = [view for view in made if self.catalog.readable(view)]
        known = [*self.catalog.schema.names, *views, *self.catalog.plain_view, *ctes]
        return unknown("relation", name, at(node, self.sql), known)

    def _add_source(self, node: exp.Table, select: _Select) -> str:
        seen = self.catalog.visible(node.name)
        columns = [
            OutputColumn(c.name, c.type.stored(), small=c.type.declared is Declared.SMALLINT)
            for c in seen
        ]
        alias = node.alias or node.name
        identities = tuple(
            (column.name, OutputColumn(column.name, column.type.stored()))
            for column in self.catalog.identities(node.name)
        )
        visible = tuple(self._visible(node, columns))
        item = Item(alias, visible, node.name, hidden=identities)
        self._add_item(item, node, select)
        select.gathered.sources.append(Source(alias, node.name))
        select.gathered.nodes.append(node)
        return alias

    def _visible(
        self, node: exp.Expr, columns: Sequence[OutputColumn]
    ) -> Iterator[tuple[str, OutputColumn]]:
        """Columns under their visible names: `AS t (a, b)` renames the first two."""
        alias = node.args.get("alias")
        names = [column.name for column in alias.columns] if alias else []
        self._check_names(node, names, columns)
        for i, column in enumerate(columns):
            yield (names[i] if i < len(names) else column.name), column

    def _derived(self, node: exp.Expr, shape: _Shape, select: _Select, name: str = "") -> set[str]:
        alias = node.alias or name or f"{ANONYMOUS}{len(select.frame.items)}"
        _name_values(node, shape, alias)
        visible = tuple(self._visible(node, shape.columns))
        item = derived_item(alias, visible, open_=shape.open)
        item = replace(item, scalar=SCALAR in node.meta)
        self._add_item(item, node, select)
        return {alias}

    def _table_function(self, node: exp.Expr, select: _Select) -> set[str]:
        call = node.this if isinstance(node, exp.Table | exp.Lateral) else node
        name = function_name(call) if isinstance(call, exp.Func) else type(call).__name__.lower()
        if name in POPULATING:
            found = populated(node, self.catalog)
            node.replace(found)
            return self._from_item(found, select)
        if name not in TABLE_FUNCTIONS:
            raise Unsupported(
                f"{name} may not stand in FROM{at(node, self.sql)}.",
                cure="FROM takes relations, CTEs, VALUES and"
                f" {', '.join(sorted(TABLE_FUNCTIONS))}.",
            )
        for argument in call.iter_expressions():
            if not isinstance(argument, exp.TableAlias):
                self._expression(argument, select)
        self._add_item(self._rows_of(name, node, call, select), node, select)
        return {select.frame.items[-1].alias}

    def _rows_of(self, name: str, node: exp.Expr, call: exp.Expr, select: _Select) -> Item:
        """The item for a table function: one column, named by the alias or else by the function,
        and the row number with ORDINALITY."""
        alias = node.args.get("alias")
        given = [column.name for column in alias.columns] if alias else []
        names = [node.alias or name]
        number = call.args.get("offset") or node.args.get("ordinality")
        if number:
            names.append("ordinality")
        if isinstance(number, exp.Identifier):  # the parser stores the last alias column here
            given.append(number.name)
        self._check_names(node, given, names)
        names[: len(given)] = given
        kinds = [self._number_of_rows(call), _BIGINT][: len(names)]
        columns = zip(names, kinds, strict=True)
        listed = self._type(call.expressions[0]) if name == "unnest" and call.expressions else None
        element = None if enumeration_of(listed) is None or listed is None else listed.element
        series = series_type(call, self._number_type) if name == SERIES else None
        if series is not None:
            node.meta[SERIES] = series, tuple(names)
        types = [element or series, _BIGINT if number else None]
        visible = tuple(
            (each, OutputColumn(each, type_, kind))
            for (each, kind), type_ in zip(columns, types, strict=False)
        )
        own = names[0] if series is not None else name
        hidden = ((name, replace(visible[0][1], name=own)),) if not given and node.alias else ()
        alias_or_place = node.alias or f"{ANONYMOUS}{len(select.frame.items)}"
        return Item(alias_or_place, visible, hidden=hidden, scalar=not number)

    def _number_of_rows(self, call: exp.Expr) -> ColumnType | None:
        """The type of the numbers that a table function gives."""
        if isinstance(call, exp.Unnest | exp.Explode):
            listed = self._type(call.expressions[0] if call.expressions else call.this)
            known = listed is not None and listed.element is not None
            return number_of(listed.element_type) if known and listed is not None else None
        given = [number_type(each, self._number_type) for each in call.iter_expressions()]
        common = common_if_known(given)
        return _BIGINT if common is not None and common.kind is Kind.INTEGER else common

    def _add_item(self, item: Item, node: exp.Expr, select: _Select) -> None:
        if any(other.alias == item.alias for other in select.frame.items):
            raise SqlError(
                f"Alias {item.alias} is used twice in one FROM{at(node, self.sql)}.",
                cure="Give each occurrence an alias of its own.",
            )
        select.frame.items.append(item)

    # -- joins

    def _join(self, join: exp.Join, left: set[str], select: _Select) -> None:
        """Bind a join with the items left of it, and record which aliases its condition restricts.
        Adds the joined aliases to `left`."""
        method, kind, side = (join.args.get(key) or "" for key in ("method", "kind", "side"))
        self._require_parts(join, join.args, _JOIN_PARTS)
        if method == "POSITIONAL":
            raise Unsupported(
                f"POSITIONAL JOIN is not supported{at(join, self.sql)}.", cure="Join on a column."
            )
        before = frozenset(select.frame.nullable)
        if not any(value for part, value in join.args.items() if part != "this"):
            select.frame.behind_comma = len(select.frame.items)
        right = self._from_and_joins(join.this, (), select)
        inner = not side and method in ("", "NATURAL") and kind in ("", "INNER", "CROSS")
        select.gathered.inner_only = select.gathered.inner_only and inner
        if method == "ASOF":
            select.gathered.whole |= right
        restricts = _restricted(side, kind, left, right)
        pairs = self._merge(join, left, right, select)
        condition = join.args.get("on")
        if condition is not None:
            self._expression(condition, select)
            settle(join, self._compared_type)
            condition = join.args["on"]
        nullable = before | frozenset(select.frame.nullable)
        conjuncts = [Conjunct(part, nullable, restricts) for part in split(condition)]
        if restricts is None:
            conjuncts += [Conjunct(None, nullable, pair=pair) for pair in pairs]
        select.gathered.conjuncts += conjuncts
        select.frame.nullable |= _made_nullable(side, left, right)
        if kind in ("SEMI", "ANTI"):
            items = [item for item in select.frame.items if item.alias not in right]
            select.frame.items[:] = items
        else:
            left |= right

    def _merge(
        self, join: exp.Join, left: set[str], right: set[str], select: _Select
    ) -> list[tuple[SourceColumn, SourceColumn]]:
        """Merge the columns of USING or NATURAL, and return the pairs of source columns."""
        left = left & {item.alias for item in select.frame.items[select.frame.behind_comma :]}
        names = [name.name for name in join.args.get("using") or ()]
        if join.args.get("method") == "NATURAL":
            names = self._common(left, right, select)
            write_out_natural(join, names, select.frame.items)
        pairs, entries = [], []
        number = select.frame.select
        for name in names:
            a = self._one_side(name, left, join, select)
            b = self._one_side(name, right, join, select)
            sides = [(number, item, column, name) for item in (a, b) if (column := item.find(name))]
            for _, item, column, _ in sides:
                self._use(item, column, select.gathered)
            entries.append((sides[0], sides[1]))
            check_merged(
                [column.type for _, _, column, _ in sides],
                name,
                at(join, self.sql),
                full=join.args.get("side") == "FULL",
            )
            if join.args.get("side") == "FULL":
                self._check_merged(join, name, [column for _, _, column, _ in sides])
            pair = _source_column(a, name), _source_column(b, name)
            if pair[0] is not None and pair[1] is not None:
                pairs.append((pair[0], pair[1]))
            self._hide(join.args.get("side") or "", name, a, b, select)
        if names and join.args.get("kind") not in ("SEMI", "ANTI"):
            first = [(a.alias, name) for (_, a, _, name), _ in entries]
            select.frame.moves.append((frozenset(left | right), first))
        self.pairs.append((join, entries))
        return pairs

    def _check_merged(self, join: exp.Join, name: str, columns: Sequence[OutputColumn]) -> None:
        if exact_type([_number_of(column) for column in columns]) is not None:
            raise Unsupported(
                f"FULL JOIN of decimals {name} whose types have no common type of at most 38 digits"
                f"{at(join, self.sql)}.",
                cure="Cast both columns to one type in subqueries.",
            )

    def _hide(self, side: str, name: str, a: Item, b: Item, select: _Select) -> None:
        frame = select.frame
        already = frame.merged.get(name, a) if name in frame.merged else a
        frame.dropped.add((b.alias, name))
        frame.merged[name] = {"RIGHT": b, "FULL": None}.get(side, already)

    def _common(self, left: set[str], right: set[str], select: _Select) -> list[str]:
        def names(aliases: set[str]) -> list[str]:
            items = (item for item in select.frame.items if item.alias in aliases)
            return [name for item in items for name, _ in item.columns]

        others = set(names(right))
        return [name for name in dict.fromkeys(names(left)) if name in others]

    def _one_side(self, name: str, aliases: set[str], join: exp.Join, select: _Select) -> Item:
        frame = select.frame
        found = [
            item
            for item in frame.items
            if item.alias in aliases
            and item.find(name) is not None
            and (item.alias, name) not in frame.dropped
        ]
        if len(found) == 1:
            return found[0]
        if found:
            raise ambiguous(name, at(join, self.sql), found)
        items = [item for item in frame.items if item.alias in aliases]
        known = [visible for item in items for visible, _ in item.columns]
        raise unknown("USING column", name, at(join, self.sql), known)

    # -- projections and expressions

    def _projections(self, nodes: Sequence[exp.Expr], select: _Select) -> _Shape:
        if len(nodes) > MAX_COLUMNS:
            raise LimitExceeded(
                f"A SELECT has more than {MAX_COLUMNS} columns.", cure="Select fewer columns."
            )
        columns: list[OutputColumn] = []
        open_ = False
        outermost = bool(nodes) and self._is_outermost(nodes[0])
        row_of = partial(self._row, select)
        for node in list(with_written_stars(nodes, select.frame, row_of, outermost=outermost)):
            node = self._shown(node, len(columns) + 1, select)  # noqa: PLW2901
            star = _star(node)
            if star is not None:
                columns += self._star(node, star, select)
                open_ = open_ or select.frame.open()
                continue
            name = output_name(node)
            self._expression(node, select)
            if output_name(node) != name:  # its column has another name in DuckDB
                node = name_output(node, name)  # noqa: PLW2901
            value = node.unalias()
            type_ = self._type(value)
            number = number_type(value, self._number_type) if type_ is None else None
            small = is_smallint(value, self._is_small_column)
            target = self.targets.get(id(value.unnest()))
            system = "" if target is None else target.column.system
            system = system or value.meta.get(SIGNAL, "")
            columns.append(OutputColumn(name, type_, number, small, self._fields(value), system))
            open_ = open_ or _has_many(node)
            select.add_output(name, self._place(value.unnest(), select))
            if isinstance(node, exp.Alias) and name not in select.rows:
                names = select.figured if FIGURED in node.meta else select.aliases
                names.setdefault(name, value)
        return _Shape(tuple(columns), open_)

    def _place(self, value: exp.Expr, select: _Select) -> exp.Expr | Place:
        """The column of this SELECT's FROM that `value` is; otherwise `value`."""
        target = self.targets.get(id(value))
        if target is None or target.select != select.frame.select:
            return value
        return target.item.alias, value.name

    def _star(self, node: exp.Expr, star: exp.Star, select: _Select) -> list[OutputColumn]:
        table = node.args.get("table") if isinstance(node, exp.Column) else None
        if node.text("db") not in ("", *SYSTEM_SCHEMAS):
            raise self._unknown_alias(node, f"{node.text('db')}.{node.text('table')}", select)
        entries = list(self._star_entries(node, star, table, select))
        excluded = excluded_names(star)
        replaced = {alias.alias: alias.this for alias in star.args.get("replace") or ()}
        renames = {a.this.name: a.alias for a in star.args.get("rename") or ()}
        known = {name for _, _, _, name in entries}
        for name in [*excluded, *replaced, *renames]:
            if name not in known and not select.frame.open():
                raise self._unknown_column(star, name, known)
        for value in replaced.values():
            self._expression(value, select)
        kept = [entry for entry in entries if entry[3] not in excluded]
        if not kept and not select.frame.open():
            raise SqlError(
                f"EXCLUDE leaves no column{at(node, self.sql)}.", cure="Exclude fewer columns."
            )
        for _, item, column, name in kept:
            if name not in replaced:
                self._use(item, column, self._gathered_of(item, select))
        self.stars.append((star, [(e, renames.get(e[3], e[1].shown(e[3]))) for e in kept]))
        columns = [
            OutputColumn(renames.get(name, name), self._type(replaced[name]))
            if name in replaced
            else replace(column, name=renames.get(name, item.shown(name)))
            for _, item, column, name in kept
        ]
        for column, (number, item, _, name) in zip(columns, kept, strict=True):
            joined = table is None and select.frame.merged.get(name, item) is None
            plain = number == select.frame.select and not joined and name not in replaced
            select.add_output(column.name, (item.alias, name) if plain else star)
        return columns

    def _star_entries(
        self, node: exp.Expr, star: exp.Expr, table: exp.Expr | None, select: _Select
    ) -> Iterator[_Entry]:
        if table is None:
            if not select.frame.items:
                raise SqlError(
                    f"* needs FROM{at(node, self.sql)}.", cure="Write SELECT * FROM relation."
                )
            self.starred.append((star, [(i, select.gathered) for i in select.frame.items]))
            for item, name, column in select.frame.star():
                yield select.frame.select, item, column, name
            return
        found = select.frame.item(table.name)
        if found is None:
            raise self._unknown_alias(table, table.name, select)
        frame, item = found
        self.starred.append((star, [(item, self._gathered_of(item, select))]))
        for name, column in item.columns:
            yield frame.select, item, column, name

    def _gathered_of(self, item: Item, select: _Select) -> Gathered:
        found = select.frame.item(item.alias)
        number = found[0].select if found else select.frame.select
        return self.gathered[number] if number >= 0 else select.gathered

    def _expression(
        self, node: exp.Expr, select: _Select, *, bound: frozenset[str] = frozenset()
    ) -> None:
        """Resolve every name in an expression. `bound`: lambda and comprehension variables."""
        match node:
            case exp.Query() | exp.Values():
                self._query(node, select.frame, select.ctes)
            case exp.Column():
                if node.name not in bound:
                    self._column(node, select)
            case exp.Star():
                if not isinstance(node.parent, exp.Count):
                    raise _row_as_value(f"*{at(node, self.sql)}")
            case exp.Placeholder():
                self.parameters.setdefault(node.meta["parameter"].name, None)
            case exp.Lambda():
                inner = bound | {name.name for name in node.expressions}
                self._expression(node.this, select, bound=inner)
            case exp.Comprehension():
                inner = bound | {node.expression.name}
                self._children(node, select, inner)
            case _:
                self._computed(node, select, bound)

    def _computed(self, node: exp.Expr, select: _Select, bound: frozenset[str]) -> None:
        """Bind an expression that is no name; whole rows that it takes are written out."""
        found = None
        if isinstance(node, TAKERS):
            found = written_out(node, partial(self._row, select, bound=bound))
        if found is not None:
            supersede(node, found)
            self._expression(found, select, bound=bound)
        elif isinstance(node, exp.Cast) and node.is_type(*TEXTS) and _is_tuple(node.this):
            self._write_tuple(node.this, select)
        else:
            if keeps_values(node):
                for child in list(node.iter_expressions()):
                    _name_columns(child)
            self._children(node, select, bound)
            if isinstance(node, exp.Cast | exp.DPipe):
                self._refuse_rows(node)

    def _refuse_rows(self, node: exp.Cast | exp.DPipe) -> None:
        """Refuse a computed row as an operand, whose text DuckDB would give."""
        for operand in node.iter_expressions():
            if not isinstance(operand, exp.DataType) and self._fields(operand):
                what = "||" if isinstance(node, exp.DPipe) else "a cast"
                raise _row_as_value(f"in {what}{at(operand, self.sql)}")

    def _row(
        self, select: _Select, node: exp.Expr, *, bound: frozenset[str] = frozenset()
    ) -> WholeRow | None:
        """The whole row that an expression names; None for other expressions."""
        inner = node.unnest()
        if not isinstance(inner, exp.Column) or inner.name in bound:
            return None
        star = isinstance(inner.this, exp.Star)
        fields = () if star else self._fields_of_column(inner, select)
        if fields:
            return row_of_value(inner.copy(), fields)
        found = select.frame.item(inner.table if star else inner.name)
        if found is None or (inner.table and not star) or found[1].open:
            return None
        frame, item = found
        if not star and (item.scalar or select.frame.may_know(inner.name)):
            return None
        columns = tuple((name, item.written(name), column) for name, column in item.columns)
        absent = self._key(item) if item.alias in frame.nullable else ()
        return WholeRow(item.alias, columns, absent)

    def _fields_of_column(self, node: exp.Column, select: _Select) -> tuple[OutputColumn, ...]:
        """The columns of the row that a column of an item of FROM is; none for other columns."""
        if node.table:
            called = select.frame.item(node.table)
            found = [] if called is None else [called[1]]
        else:
            known = (frame for frame in select.frame.around() if frame.knows(node.name))
            frame = next(known, None)
            found = [] if frame is None else frame.local(node.name)
        column = found[0].find(node.name) if len(found) == 1 else None
        return () if column is None else column.fields

    def _fields(self, value: exp.Expr) -> tuple[OutputColumn, ...]:
        """The columns of the row that a bound expression is; none for other expressions."""
        inner = value.unnest()
        if FIELDS in inner.meta:
            columns: tuple[OutputColumn, ...] = inner.meta[FIELDS]
            return columns
        if parts := _possible_values(inner):
            return _common_fields([self._fields(each) for each in parts])
        if isinstance(inner, exp.Column):
            target = self.targets.get(id(inner))
            return () if target is None else target.column.fields
        cells = cells_of(inner) or fields_of(inner)
        return tuple(
            OutputColumn(field_name(i), self._type(cell), fields=self._fields(cell))
            for i, cell in enumerate(cells, start=1)
        )

    def _key(self, item: Item) -> tuple[str, ...]:
        """The columns of an item that are all NULL if its row is not there."""
        names = {column.name: name for name, column in (*item.columns, *item.hidden)}
        if item.relation is not None and item.relation in self.catalog.schema:
            return (names[self.catalog.schema.relation(item.relation).primary_key[0]],)
        return tuple(name for name, _ in item.columns)

    def _write_tuple(self, node: exp.Expr, select: _Select) -> None:
        """Bind a row `(a, b)`, and replace it by its text."""
        cells = node.unnest().expressions
        for cell in list(cells):
            self._expression(cell, select)
        cells = node.unnest().expressions
        columns = [OutputColumn("", self._type(cell), fields=self._fields(cell)) for cell in cells]
        supersede(node, text_of_row(cells, columns))

    def _shown(self, node: exp.Expr, place: int, select: _Select) -> exp.Expr:
        """The projection `node`, where a row that the whole query returns is its text, a row that
        EXISTS asks for is TRUE, and a column of a row, `(t).a`, is a column."""
        value = node.unalias()
        if isinstance(value, exp.Dot):
            column = written_out(value, partial(self._row, select))
            if column is not None:
                supersede(value, column)
                return node if isinstance(node, exp.Alias) else column
        exists = isinstance(node.parent.parent, exp.Exists) if node.parent else False
        row = None if _star(node) is not None else self._row(select, value)
        if row is not None and exists:
            supersede(value, true := exp.Boolean(this=True))
            return node if isinstance(node, exp.Alias) else name_output(true, value.name)
        if not self._is_outermost(node):
            return self._kept(node, value, row)
        if row is not None:
            named = node if isinstance(node, exp.Alias) else name_output(node, value.name)
            select.rows[named.alias] = select.rows[place] = row
            supersede(named.this, row.text())
            return named
        if _is_tuple(value):
            self._write_tuple(value, select)
        return node

    def _is_outermost(self, node: exp.Expr) -> bool:
        """Is the projection one of the whole query?"""
        above = node.parent.parent if isinstance(node.parent, exp.Returning) else node.parent
        return above is self.outermost

    def _kept(self, node: exp.Expr, value: exp.Expr, row: WholeRow | None) -> exp.Expr:
        """The projection `node` of a subquery, in which a row is a structure."""
        if row is None or row.value is not None:
            _name_columns(value)
            return node
        named = node if isinstance(node, exp.Alias) else name_output(node, value.name)
        supersede(named.this, row.structure())
        return named

    def _write_keys(self, keys: Iterable[exp.Expr], select: _Select) -> None:
        """Write a whole row that is a key of ORDER BY or GROUP BY as its columns."""
        for key in list(keys):
            value = (key.this if isinstance(key, exp.Ordered) else key).unnest()
            row = _output_row(value, select) or self._row(select, value)
            if row is None or _names_value(key, value, select):
                continue
            if row.value is not None and not isinstance(key, exp.Ordered):
                continue  # GROUP BY of the structure
            cells = row.cells()
            if isinstance(key, exp.Ordered):
                flags = {"desc": key.args.get("desc"), "nulls_first": bool(key.args.get("desc"))}
                cells = [exp.Ordered(this=cell, **flags) for cell in cells]
            key.replace(cells)

    def _children(self, node: exp.Expr, select: _Select, bound: frozenset[str]) -> None:
        for child in node.iter_expressions():
            self._expression(child, select, bound=bound)

    def _column(self, node: exp.Column, select: _Select) -> None:
        if isinstance(node.this, exp.Star):
            raise _row_as_value(f"{node.table}.*{at(node, self.sql)}")
        if node.args.get("db"):
            raise self._unknown_column(node, written(node, DIALECT), ())
        if node.table:
            self._qualified(node, select)
        else:
            self._unqualified(node, select)

    def _qualified(self, node: exp.Column, select: _Select) -> None:
        found = select.frame.item(node.table)
        if found is None:
            self._struct_field(node, select)
            return
        frame, item = found
        column = self._find(node, item)
        if column is not None:
            self._bind(node, frame, item, column)
        elif not item.open:
            names = [name for name, _ in item.columns]
            raise self._unknown_column(node, f"{node.table}.{node.name}", names)

    def _find(self, node: exp.Column, item: Item) -> OutputColumn | None:
        """The column of the item that `node` names. Raises SqlError if the item has several."""
        if node.name in item.twice and VISIBLE not in node.meta:
            raise SqlError(
                f"{node.name} is the name of several columns{at(node, self.sql)}.",
                cure="Name the columns of the subquery with AS.",
            )
        column = item.find(node.name)
        hidden = (node.name, column) in item.hidden
        if column is not None and (node.name in item.own_names or hidden):
            node.set("this", exp.to_identifier(column.name, quoted=True))
        return column

    def _struct_field(self, node: exp.Column, select: _Select) -> None:
        """Accept `s.k` where `s` may be a computed column, whose fields only DuckDB knows. Raises
        UnknownName otherwise, also if `s` is a row, whose field is written `(s).k`."""
        for frame in select.frame.around():
            for item in frame.local(node.table):
                column = item.find(node.table)
                computed = column is not None and column.type is None and not column.fields
                if item.relation is None and computed:
                    return
            if frame.open():
                return
        raise self._unknown_alias(node, node.table, select)

    def _unqualified(self, node: exp.Column, select: _Select) -> None:
        name = node.name
        for frame in select.frame.around():
            found = frame.local(name)
            if len(found) > 1:
                raise ambiguous(name, at(node, self.sql), found)
            if found:
                column = self._find(node, found[0])
                assert column is not None
                self._bind(node, frame, found[0], column)
                called = select.frame.item(found[0].alias)
                if called is None or called[0] is not frame:
                    node.meta["shadowed"] = True
                if frame is not select.frame:
                    self._write_outer(node, found[0], select)
                return
            if name in frame.merged or frame.open():
                return
            if frame is select.frame and select.names_outputs and name in select.aliases:
                node.meta["alias"] = True
                return
        self._no_column(node, select)

    def _write_outer(self, node: exp.Column, item: Item, select: _Select) -> None:
        """Write the alias before a column of an outer SELECT: DuckDB takes the bare name for an
        output column of the inner one. Raises Unsupported if neither name means the column."""
        if item.name and not node.meta.get("shadowed"):
            node.set("table", exp.to_identifier(item.name, quoted=True))
        elif node.name in select.aliases:
            raise Unsupported(
                f"{node.name} is a column of an outer SELECT and the name of an output column"
                f"{at(node, self.sql)}.",
                cure="Give the output column another name, or each item of FROM an alias of its"
                " own.",
            )

    def _no_column(self, node: exp.Column, select: _Select) -> None:
        called = select.frame.item(node.name)
        if called is not None and called[1].scalar:
            frame, item = called
            name, column = item.columns[0]
            node.set("table", exp.to_identifier(item.alias, quoted=True))
            node.set("this", exp.to_identifier(name, quoted=True))
            self._bind(node, frame, item, column)
            return
        if called is not None:
            raise _row_as_value(f"{node.name}{at(node, self.sql)}")
        constant = value_of_word(node)
        if constant is not None:
            supersede(node, constant)
            return
        if node.name in select.aliases:
            raise UnknownName(
                f"Column {node.name} is unknown{at(node, self.sql)}: ORDER BY, GROUP BY and"
                " DISTINCT ON alone know the name of an output column, and not in an expression.",
                cure="Repeat its expression, or select from a subquery.",
            )
        raise self._unknown_column(node, node.name, [*select.frame.visible()])

    def _bind(self, node: exp.Column, frame: Frame, item: Item, column: OutputColumn) -> None:
        if column.fields and node.parent is not None and not may_hold_row(node.parent):
            raise _row_as_value(f"{node.name}{at(node, self.sql)}")
        self.targets[id(node)] = Target(frame.select, item, column)
        self.nodes.append(node)
        if frame.select == self.own:
            node.meta[OWN] = column.type
        if frame.select >= 0:
            self._use(item, column, self.gathered[frame.select])

    def _use(self, item: Item, column: OutputColumn | None, gathered: Gathered) -> None:
        if item.relation is not None and column is not None:
            gathered.used.setdefault(item.alias, set()).add(column.name)

    def _unknown_column(self, node: exp.Expr, name: str, known: Iterable[str]) -> SqlError:
        qualifier, _, last = name.rpartition(".")
        if (refused := system_column(last, at(node, self.sql))) is not None:
            return refused
        names = [f"{qualifier}.{other}" if qualifier else other for other in known]
        return unknown("column", name, at(node, self.sql), names)

    def _unknown_alias(self, node: exp.Expr, name: str, select: _Select) -> UnknownName:
        aliases = [item.alias for frame in select.frame.around() for item in frame.items]
        return unknown("relation or alias", name, at(node, self.sql), aliases)

    # -- types

    def _type(self, node: exp.Expr) -> ColumnType | None:
        """The type of an expression if it follows from the syntax; None if only DuckDB knows it.

        The rules ask for the types of the same parts again and again, at each level of a nest.
        `typed` keeps the answers until the outermost question is answered: binding changes the
        tree after that.
        """
        if self.typed is None:
            self.typed = {}
            try:
                return self._type(node)
            finally:
                self.typed = None
        key = id(node)
        if key not in self.typed:
            self.typed[key] = self._type_by_syntax(node)
        return self.typed[key]

    def _type_by_syntax(self, node: exp.Expr) -> ColumnType | None:
        computed = label_type(node, self._type) or self._computed_type(node)
        if computed is not None:
            return computed
        match node:
            case exp.Paren() | exp.Window() | exp.Filter():
                return self._type(node.this)
            case exp.Column():
                target = self.targets.get(id(node))
                return target.column.type if target is not None else None
            case exp.Cast() if not isinstance(node, exp.TryCast):
                return self._cast_type(node)
            case exp.AggFunc():
                return self._aggregate_type(node)
            case exp.Array():
                return self._array_type(node)
            case exp.Div() if self._number(node) is Kind.DECIMAL:
                return QUOTIENT
            case exp.Literal():
                return _literal_type(node)
            case exp.Predicate() | exp.Connector() | exp.Not() | exp.Boolean():
                return ColumnType(Kind.BOOLEAN)
            case exp.Anonymous():
                return self._called_type(node)
            case _:
                return type_of_result(node)

    def _computed_type(self, node: exp.Expr) -> ColumnType | None:
        """The type of a node that a function of JSONB or of arrays computes; None for others."""
        if isinstance(node, exp.DPipe) and (joined := concatenated_type(node, self._type)):
            return joined
        name = function_of(node, self._type)
        if name is not None:
            return result_type(name)
        name = function_of_arrays(node, self._type)
        if name is not None:
            return type_of_array_function(node, name, self._type)
        return value_type(node, self._number_type)

    def _called_type(self, node: exp.Anonymous) -> ColumnType | None:
        """The type of a call by name."""
        name, given = node.name.lower(), node.expressions
        if name == "unnest" and len(given) == 1:
            listed = self._type(given[0])
            return listed if listed is None or listed.element is None else listed.element
        if name == "array_agg" and len(given) == 1:
            value = given[0].this if isinstance(given[0], exp.Order) else given[0]
            value = value.expressions[0] if isinstance(value, exp.Distinct) else value
            type_ = self._type(value)
            return None if type_ is None or type_.kind in UNORDERED else array_of(type_.stored())
        if is_deviation(node, self._number_type):
            return QUOTIENT
        if name == SERIES:
            element = series_type(node, self._number_type)
            return None if element is None else array_of(element)
        return type_of_result(node)

    def _array_type(self, node: exp.Array) -> ColumnType | None:
        """The type of `ARRAY[…]` whose elements all have one type."""
        numbers = number_of_all(node.expressions, self._number_type)
        decimals = numbers is not None and numbers.kind is Kind.DECIMAL and numbers.precision
        if decimals and numbers is not None:
            return array_of(numbers)
        types = {self._type(each) for each in node.expressions if not isinstance(each, exp.Null)}
        element = types.pop() if len(types) == 1 else None
        return None if element is None or element.kind in UNORDERED else array_of(element.stored())

    def _aggregate_type(self, node: exp.AggFunc) -> ColumnType | None:
        match node:
            case exp.Count():
                return _BIGINT
            case exp.Min() | exp.Max() if not node.expressions:
                return self._type(node.this)
            case exp.Sum():
                return sum_type(self._type(node.this))
            case exp.Avg() if is_interval(node.this, self._type):
                return _INTERVAL
            case exp.Avg():
                return QUOTIENT if self._number(node) is Kind.DECIMAL else self._double(node)
        return None

    def _double(self, node: exp.Expr) -> ColumnType | None:
        """The type of an expression whose value is a DOUBLE or a REAL; None for others."""
        type_ = number_type(node, self._number_type)
        return type_ if type_ is not None and type_.kind is Kind.DOUBLE else None

    def _number(self, node: exp.Expr) -> Kind | None:
        return number_kind(node, self._number_type)

    def _number_type(self, node: exp.Expr) -> ColumnType | None:
        """The type of a name, or that of its numbers if only DuckDB knows its type."""
        type_ = self._type(node)
        if type_ is None and isinstance(node, exp.Column):
            target = self.targets.get(id(node))
            return None if target is None else target.column.number
        return type_

    def _is_small_column(self, node: exp.Column) -> bool:
        target = self.targets.get(id(node))
        return target is not None and target.column.small

    def _cast_type(self, node: exp.Cast) -> ColumnType | None:
        """The type of a cast. NUMERIC without precision keeps a decimal argument's type; for other
        arguments it is unknown."""
        if CONSTANT in node.meta and is_jsonb(node.meta[CONSTANT][0]):
            return JSONB_TYPE
        if node.is_type(exp.DType.SMALLINT):
            return _INTEGER
        type_ = named_type(node.args.get("to"))
        if type_ is None or type_.declared is not Declared.NUMERIC:
            return type_
        inner = self._type(node.this)
        return inner if inner is not None and inner.kind is Kind.DECIMAL else None

    def _set_type(self, node: exp.Expr, type_: ColumnType | None) -> None:
        """Record `type_` for a parameter; the first known type wins."""
        node = node.unnest()
        if isinstance(node, exp.Placeholder) and type_ is not None:
            name = node.meta["parameter"].name
            if self.parameters.get(name) is None:
                self.parameters[name] = type_

    def _compared_type(self, node: exp.Expr) -> ColumnType | None:
        """The type of a comparison's operand, if it is certain; None otherwise."""
        node = node.unnest()
        match node:
            case exp.Literal() | exp.Boolean() | exp.SubqueryPredicate():
                return None
            case exp.Neg():
                return self._compared_type(node.this)
            case exp.Add() | exp.Sub() | exp.Mul() if not is_jsonb(self._type(node)):
                return self._whole_type(node)
            case _:
                return self._type(node)

    def _whole_type(self, node: exp.Binary) -> ColumnType | None:
        """The type of a sum, difference or product of integers; None for other operands."""
        kinds = set()
        for side in (node.this.unnest(), node.expression.unnest()):
            type_ = self._type(side) or self._compared_type(side)
            if type_ is None or type_.kind not in (Kind.INTEGER, Kind.BIGINT):
                return None
            kinds.add(type_.kind)
        return _BIGINT if Kind.BIGINT in kinds else _INTEGER

    def _type_parameters(self, nodes: Sequence[exp.Expr]) -> None:
        for node in (node for node in nodes if type(node) not in _PLAIN):
            self._mark(node)
            if isinstance(node, _COMPARISONS) and not is_assignment(node):
                pattern = isinstance(node, exp.Like | exp.ILike)
                self._alike(_compared_with(node), _TEXT if pattern else None)
            elif isinstance(node, exp.Cast):
                self._compare(node.this, Use(named_type(node.args.get("to")), cast=True))
                node.meta[CAST_FROM] = self._type(node.this) or self._double(node.this)
            elif isinstance(node, exp.Sum | exp.Avg):
                self._check_average(node)
                spans = is_interval(node.this, self._type)
                node.meta[SUMMED] = Kind.INTERVAL if spans else self._number(node.this)
            elif isinstance(node, MARKED):
                mark_operands(node, self._number_type)
                is_deviation(node, self._number_type)
            elif isinstance(node, exp.Limit | exp.Offset | exp.Fetch):
                for value in (node.args.get("expression"), node.args.get("count")):
                    if value is not None:
                        self._compare(value, Use(_BIGINT, cast=True))
        if all(isinstance(name, int) for name in self.parameters):
            in_order = sorted(self.parameters.items(), key=lambda entry: entry[0])
            self.parameters = dict(in_order)
        for node in nodes:
            if not isinstance(node, exp.Placeholder):
                continue
            if USE not in node.meta and _is_compared(node):
                self._compare(node, Use(None))
            node.meta[PARAMETER_TYPE] = self.parameters[node.meta["parameter"].name]

    def _mark(self, node: exp.Expr) -> None:
        """Note which function of JSONB or of arrays computes `node`, and which decimals meet.
        Raises SqlError for a number where a condition stands."""
        if isinstance(node, CONDITIONS):
            check_conditions(node, self._number_type, self.sql)
        mark_jsonb(node, self._type, self._argument, self.sql)
        if JSONB not in node.meta:
            mark_array(node, self._type, self._argument)
            mark_reals(node, self._number_type)
            mark_smallint(node, self._is_small_column)
            mark_result(node, self._number_type)
            if isinstance(node, ARITHMETIC):
                mark_range(node, self._number_type)
        mark_values(node, self._number_type, self._argument)
        mark_series(node, self._number_type)
        mark_places(node, self._number_type)
        if isinstance(node, MEETING):
            mark_operands_that_meet(node, self._number_type, self._argument)
        if isinstance(node, exp.Trim | exp.Upper | exp.Lower) and OVERLOAD not in node.meta:
            self._check_text(node, node.this)
        if (
            isinstance(node, exp.Anonymous)
            and node.name.lower() == "string_agg"
            and node.expressions
        ):
            self._check_text(node, argument_value(node.expressions[0]))

    def _check_text(self, node: exp.Func, argument: exp.Expr) -> None:
        type_ = self._type(argument)
        if type_ is not None and type_.kind is Kind.BYTES:
            raise Unsupported(
                f"{function_name(node).upper()} takes text, not bytes{at(node, self.sql)}.",
                cure="Write encode(…, 'hex'), or keep the value as TEXT.",
            )

    def _check_average(self, node: exp.AggFunc) -> None:
        type_ = self._type(node.this)
        if isinstance(node, exp.Avg) and type_ is not None and type_.kind is Kind.BOOLEAN:
            raise SqlError(
                f"AVG takes numbers, dates, times and intervals, not BOOLEAN{at(node, self.sql)}.",
                cure="Write avg(CASE WHEN … THEN 1 ELSE 0 END).",
            )

    def _argument(self, node: exp.Expr, type_: ColumnType) -> None:
        self._compare(node, Use(type_))

    def _alike(self, nodes: Sequence[exp.Expr], known: ColumnType | None) -> None:
        """Give parameters among compared `nodes` the type `known`, or else the first known type of
        an operand."""
        if known is None:
            types = map(self._compared_type, nodes)
            known = next((type_ for type_ in types if type_ is not None), None)
        for node in nodes:
            self._compare(node, Use(known))

    def _compare(self, node: exp.Expr, use: Use) -> None:
        node = node.unnest()
        if not isinstance(node, exp.Placeholder):
            return
        self._set_type(node, use.type)
        name = node.meta["parameter"].name
        node.meta[USE] = use
        self.uses[name] = tuple(dict.fromkeys((*self.uses.get(name, ()), use)))


def _literal_type(node: exp.Literal) -> ColumnType | None:
    if node.is_string:
        return _TEXT
    return _INTEGER if node.name.isdigit() and len(node.name) < 10 else None


def _compared_with(node: exp.Expr) -> list[exp.Expr]:
    """The operands of a comparison."""
    match node:
        case exp.Between():
            return [node.this, node.args["low"], node.args["high"]]
        case exp.In():
            return [node.this, *node.expressions]
        case exp.Case():
            return [] if node.this is None else [node.this, *(b.this for b in node.args["ifs"])]
        case _:
            return [node.this, node.expression]


def _is_compared(node: exp.Expr) -> bool:
    """Whether the node is inside a comparison of its own query."""
    parent = node.parent
    while parent is not None and not isinstance(parent, exp.Query):
        if isinstance(parent, _COMPARISONS) and not is_assignment(parent):
            return True
        parent = parent.parent
    return False


def _resolver(targets: Mapping[int, Target], select: int) -> Resolve:
    def resolve(node: exp.Expr) -> SourceColumn | None:
        target = targets.get(id(node))
        if target is None or target.select != select or target.item.relation is None:
            return None
        assert target.column.type is not None
        return SourceColumn(target.item.alias, target.column.name, target.column.type)

    return resolve


def _is_default(value: exp.Expr) -> bool:
    """Whether the value is the keyword DEFAULT, which the parser reads as a column name in SET."""
    if not isinstance(value, exp.Column) or not isinstance(value.this, exp.Identifier):
        return False
    return value.name == "default" and not value.table and not value.this.args.get("quoted")


def _row_as_value(what: str) -> Unsupported:
    return Unsupported(
        f"A whole row cannot be a value here: {what}.",
        cure="Name the columns, or write row_to_json(row) or row::TEXT.",
    )


def _are_texts(cells: Sequence[exp.Expr]) -> bool:
    """Are the cells texts without a type, and NULLs? Such a column of VALUES is TEXT."""
    left = [cell for cell in cells if not isinstance(cell, exp.Null)]
    return bool(left) and all(isinstance(cell, exp.Literal) and cell.is_string for cell in left)


def _is_tuple(node: exp.Expr) -> bool:
    return bool(cells_of(node))


def _name_columns(node: exp.Expr) -> None:
    """Write a row `(a, b)` that is a value with the names of its columns."""
    value = node.this if isinstance(node, exp.Order) else node  # array_agg(ROW(…) ORDER BY …)
    if cells := cells_of(value):
        supersede(value, named_row(cells))


def _possible_values(node: exp.Expr) -> Sequence[exp.Expr]:
    """The expressions of which the value of CASE, COALESCE or a subquery is one."""
    match node:
        case exp.Case():
            values = [each.args["true"] for each in node.args["ifs"]]
            return [*values, *filter(None, [node.args.get("default")])]
        case exp.Coalesce():
            return [node.this, *node.expressions]
        case exp.Select():
            return [each.unalias() for each in node.expressions[:1]]
        case exp.Subquery():
            return [node.this]
    return ()


def _names_value(key: exp.Expr, value: exp.Expr, select: _Select) -> bool:
    """Does a key, which is `value`, name an output column that is no whole row? GROUP BY t means
    the row also where the list has t::TEXT, whose name is t."""
    if not isinstance(value, exp.Column) or value.table or value.name in select.rows:
        return False
    ordered = isinstance(key, exp.Ordered)
    return value.name in select.aliases or (ordered and value.name in select.figured)


def _qualify_output(key: exp.Column, select: _Select) -> None:
    """Write the column of FROM that is the only output column with the name `key`, if the name
    alone means other columns of FROM, too."""
    value, frame = select.values.get(key.name), select.frame
    if not isinstance(value, tuple) or value[0].startswith(ANONYMOUS):
        return
    if key.name in frame.merged or len(frame.local(key.name)) > 1:
        table, name = (exp.to_identifier(part, quoted=True) for part in value)
        key.set("table", table)
        key.set("this", name)


def _output_row(key: exp.Expr, select: _Select) -> WholeRow | None:
    """The whole row of the output column that a key names or numbers; None for other keys."""
    if isinstance(key, exp.Literal) and key.is_int:
        return select.rows.get(int(key.name))
    plain = isinstance(key, exp.Column) and not key.table
    return select.rows.get(key.name) if plain else None


def _source_column(item: Item, name: str) -> SourceColumn | None:
    column = item.find(name)
    if item.relation is None or column is None or column.type is None:
        return None
    return SourceColumn(item.alias, column.name, column.type)


def _restricted(side: str, kind: str, left: set[str], right: set[str]) -> frozenset[str] | None:
    """The aliases that an ON condition restricts; None for all (see `query/binding/blocks.py`)."""
    if side == "FULL":
        return frozenset()
    if side == "RIGHT":
        return frozenset(left)
    if side == "LEFT" or kind == "ANTI":
        return frozenset(right)
    return None


def _made_nullable(side: str, left: set[str], right: set[str]) -> set[str]:
    return {"LEFT": right, "RIGHT": left, "FULL": left | right}.get(side, set())


def _united(a: OutputColumn, b: OutputColumn) -> OutputColumn:
    """The column of a set operation over two columns."""
    small = a.small and b.small
    if a.type == b.type is not None:
        return replace(a, small=small)
    common = common_if_known([_number_of(a), _number_of(b)])
    return OutputColumn(a.name, None, common, small, _common_fields([a.fields, b.fields]))


def _common_fields(sides: Sequence[tuple[OutputColumn, ...]]) -> tuple[OutputColumn, ...]:
    """The columns of the rows that a column has, in which some values may be NULL."""
    first, *others = [each for each in sides if each] or [()]
    if any(len(each) != len(first) for each in others):
        return ()
    return tuple(reduce(_united, each) for each in zip(first, *others, strict=True))


def _label(column: OutputColumn) -> ColumnType | None:
    """The type of a column that is an ENUM; None for others."""
    return column.type if enumeration_of(column.type) is not None else None


def _certain(column: OutputColumn) -> ColumnType | None:
    """The type of a column of a recursive CTE, if the recursive part cannot widen it: that of an
    ENUM, and of an array. An array of decimals gets room for all places."""
    fixed = column.type is not None and column.type.element is not None
    return recursive_array(column.type) or (column.type if fixed else _label(column))


def _check_arrays(first: OutputColumn, second: OutputColumn) -> None:
    """Raise SqlError for a column of arrays whose elements become others in the recursive part."""
    if first.type is None or second.type is None or first.type.element is None:
        return
    if recursive_array(first.type) and recursive_array(second.type):
        return
    if first.type.stored() != second.type.stored():
        raise SqlError(
            f"Column {first.name} of a recursive CTE is {first.type.sql()} in its first part, but"
            f" {second.type.sql()} in its recursive part.",
            cure=f"Cast the value in the first part to {second.type.sql()}.",
        )


def _number_of(column: OutputColumn) -> ColumnType | None:
    """The type of a column's numbers."""
    return column.number if column.type is None else number_of(column.type)


def _of_recursion(
    query: exp.SetOperation, first: Sequence[OutputColumn], second: Sequence[OutputColumn]
) -> tuple[OutputColumn, ...]:
    """The columns of a recursive CTE. Notes which decimals its two parts cast."""
    targets = [
        recursive_array(a.type) or recursive_type(a.name, a.number, _number_of(b))
        for a, b in zip(first, second, strict=True)
    ]
    sides = (query.this, query.expression)
    mark_sides(sides, [column.name for column in first], targets)
    return tuple(
        OutputColumn(a.name, _certain(a), target or a.number)
        for a, target in zip(first, targets, strict=True)
    )


def _mark_sides(
    node: exp.SetOperation, left: Sequence[OutputColumn], right: Sequence[OutputColumn]
) -> None:
    """Note which decimals the sides cast, so that none loses places."""
    targets = [exact_type([_number_of(a), _number_of(b)]) for a, b in zip(left, right, strict=True)]
    mark_sides((node.this, node.expression), [column.name for column in left], targets)


def _renamed(shape: _Shape, names: Sequence[str]) -> _Shape:
    columns = tuple(
        replace(column, name=names[i]) if i < len(names) else column
        for i, column in enumerate(shape.columns)
    )
    return _Shape(columns, shape.open and len(names) < len(columns))


def _name_values(node: exp.Expr, shape: _Shape, alias: str = "") -> list[str]:
    """Give the columns of VALUES the names of PostgreSQL, if the CTE or FROM item `node` has no
    list of names. Returns the names; [] if there are none to give."""
    query = node if isinstance(node, exp.Values) else node.this
    while isinstance(query, exp.SetOperation | exp.Subquery):
        query = query.this
    if not isinstance(query, exp.Values):
        return []
    given = node.args.get("alias")
    listed = list(given.columns) if given is not None else []
    names = [column.name for column in shape.columns[len(listed) :]]
    columns = [*listed, *(exp.to_identifier(name, quoted=True) for name in names)]
    this = given.this if given is not None else exp.to_identifier(alias, quoted=True)
    node.set("alias", exp.TableAlias(this=this, columns=columns))
    return [column.name for column in columns]


def _by_name(left: _Shape, right: _Shape) -> _Shape:
    known = {column.name for column in left.columns}
    added = tuple(column for column in right.columns if column.name not in known)
    columns = (OutputColumn(column.name, None) for column in (*left.columns, *added))
    return _Shape(tuple(columns), left.open or right.open)


def _cells(row: exp.Expr) -> list[exp.Expr]:
    """The values of a row of VALUES."""
    return row.expressions if isinstance(row, exp.Tuple) else [row]


def _branches(node: exp.Expr) -> Iterator[exp.Select]:
    """Yield the SELECTs whose rows a query returns."""
    if isinstance(node, exp.Select):
        yield node
    elif isinstance(node, exp.Subquery):
        yield from _branches(node.this)
    elif isinstance(node, exp.SetOperation):
        yield from _branches(node.this)
        yield from _branches(node.expression)


def _listed(value: exp.Expr | list[exp.Expr] | None) -> list[exp.Expr]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _star(node: exp.Expr) -> exp.Star | None:
    if isinstance(node, exp.Star):
        return node
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        return node.this
    return None


_SETS_OF_KEYS = (exp.Cube, exp.Rollup, exp.GroupingSets, exp.Tuple, exp.Paren)


def _keys_of(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the keys of GROUP BY, also those in grouping sets."""
    for key in node.iter_expressions():
        if isinstance(key, _SETS_OF_KEYS):
            yield from _keys_of(key)
        else:
            yield key


def _has_many(node: exp.Expr) -> bool:
    """May a projection have several columns, such as unnest of a STRUCT?"""
    if isinstance(node, exp.Alias):
        value = node.this if FIGURED in node.meta else None
        return isinstance(value, exp.Anonymous) and value.name.lower() == "unnest"
    return not isinstance(node.unnest(), exp.Column)


def output_name(node: exp.Expr) -> str:
    """The name of a projection."""
    name: str = node.alias if isinstance(node, exp.Alias) else node.unnest().name
    return name
