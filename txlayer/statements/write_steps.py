"""Compilation of statements with parts that write or take numbers from sequences.

Each part of WITH that writes (`WITH moved AS (DELETE … RETURNING *) INSERT INTO …`) and each block
of a write that takes numbers (`INSERT INTO t SELECT … FROM (SELECT nextval('s') …)`) is a step with
a plan of its own; the statement itself is the last. A step leaves the rows of its RETURNING or of
its query in a relation that exists while the statement runs. The later steps read it: their catalog
has the relation, and a query of its columns takes the place of the part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import groupby
from types import MappingProxyType

from sqlglot import exp

from hornbeam_server.query.binding.algebra import BoundStatement, StatementKind
from hornbeam_server.query.binding.binder import BoundQuery, OutputColumn, bind_tree
from hornbeam_server.query.binding.numbers_below import takes_numbers, uses_numbers
from hornbeam_server.query.binding.parameters import readers
from hornbeam_server.query.binding.whole_rows import structure_of
from hornbeam_server.query.engine import QueryEngine
from hornbeam_server.query.parsing.placeholders import Parameter
from hornbeam_server.query.parsing.sequence_calls import refuse_calls
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import SqlError, Unsupported
from hornbeam_server.schema.model import Column, Relation
from hornbeam_server.schema.trees import nodes_of, unlink
from hornbeam_server.schema.types import ColumnType
from hornbeam_server.txlayer.statements.numbered_blocks import (
    NUMBER,
    is_left_out,
    query_of,
    replace_below,
    replace_blocks,
)
from hornbeam_server.txlayer.statements.numbered_planning import Blocks
from hornbeam_server.txlayer.statements.write_parameters import NOW, with_one_now
from hornbeam_server.txlayer.statements.write_plans import (
    Block,
    Returning,
    RowPlan,
    Step,
    StepsPlan,
    Subquery,
)
from hornbeam_server.txlayer.statements.write_queries import name_parameters, put_before

WRITES = (exp.Insert, exp.Update, exp.Delete)
_ROW = "row."
"""The beginning of the prefix of a row's columns."""
Compile = Callable[[BoundQuery, Catalog, QueryEngine], RowPlan]


def has_writing_parts(tree: exp.Expr) -> bool:
    """Whether a part of the statement's WITH writes."""
    return any(isinstance(cte.this, WRITES) for cte in _parts(tree.args.get("with_")))


def has_blocks(tree: exp.Expr) -> bool:
    """Whether a write has a block that takes numbers. INSERT … SELECT needs none for its list."""
    source = tree.args.get("expression")
    if isinstance(tree, exp.Insert) and isinstance(source, exp.Select) and uses_numbers(source):
        return True
    return any(takes_numbers(each) for each in nodes_of(tree, exp.Select) if each is not source)


def compile_steps(
    tree: exp.Expr, sql: str, catalog: Catalog, engine: QueryEngine, compile_: Compile
) -> StepsPlan:
    """The plan of a statement with parts that write, or of a write with blocks that take numbers.
    `compile_` makes the plan of a bound write. Raises SqlError and its subclasses."""
    with_ = tree.args.get("with_") or exp.With(expressions=[])
    compiler = _Compiler(sql, catalog, engine, compile_)
    try:
        return compiler.steps(tree, with_)
    finally:
        for each in (tree, with_, *compiler.known):
            unlink(each)


def _parts(with_: exp.With | None) -> list[exp.Expr]:
    return with_.expressions if with_ is not None else []


class _Compiler:
    def __init__(self, sql: str, catalog: Catalog, engine: QueryEngine, compile_: Compile) -> None:
        self._sql = sql
        self._blocks = Blocks(sql, catalog, engine.prepare_bound, [])
        self._engine = engine
        self._compile = compile_
        self.known: list[exp.Expr] = []
        """The CTEs for the steps that follow."""
        self._silent: set[str] = set()
        """The names of steps without RETURNING."""
        self._keys: dict[int | str, None] = {}
        self._steps: list[Step | Block] = []

    @property
    def _catalog(self) -> Catalog:
        """The catalog for the steps that follow."""
        return self._blocks.catalog

    def steps(self, tree: exp.Expr, with_: exp.With) -> StepsPlan:
        if with_.args.get("recursive"):
            raise Unsupported(
                "WITH RECURSIVE with a part that writes or takes numbers is not supported.",
                cure="Leave RECURSIVE out, or send the part as a statement of its own.",
            )
        parts = [cte for cte in with_.expressions if not is_left_out(tree, cte)]
        tree.set("with_", None)
        for cte in parts:
            if isinstance(cte.this, WRITES):
                self._take_blocks(cte.this)
                self._steps.append(self._step(cte, len(self._steps)))
            else:
                replace_below(cte, self.known, self._block)
                self.known.append(cte.copy())
        self._take_blocks(tree)
        last = self._last(tree)
        names = sorted(self._keys, key=lambda key: (isinstance(key, str), key))
        statement = BoundStatement(
            StatementKind.SELECT, self._sql, (), None, (), tuple(map(Parameter, names))
        )
        types = MappingProxyType(dict.fromkeys(names))
        bound = BoundQuery(statement, exp.Null(), (), types, MappingProxyType({}))
        return StepsPlan(tuple(self._steps), last, bound, readers(bound, ColumnType.comparand))

    def _take_blocks(self, tree: exp.Expr) -> None:
        """Make steps of the blocks of a write, or of the query behind WITH."""
        source = tree.args.get("expression") if isinstance(tree, exp.Insert) else None
        if not isinstance(source, exp.Select):
            replace_blocks(tree, self._block, self.known)
            return
        replace_blocks(source, self._block, self.known)
        if uses_numbers(source):
            alone = source.copy()
            self._put_known_before(alone)
            tree.set("expression", self._blocks.bound(alone).ast)
            unlink(source)
            self._add_blocks()
        replace_blocks(tree, self._block, self.known, kept=tree.expression)

    def _block(self, block: exp.Select) -> exp.Expr:
        query = self._blocks.step(block)
        self._add_blocks()
        return query

    def _add_blocks(self) -> None:
        """Make steps of the blocks that have been planned since the last call."""
        blocks = self._blocks.blocks
        for block in blocks[sum(isinstance(step, Block) for step in self._steps) :]:
            self._keys.update(dict.fromkeys(block.query.uses.values()))
            self._steps.append(block)

    def _step(self, cte: exp.Expr, number: int) -> Step:
        rows = _write_rows_out(cte.this, self._catalog)
        plan, uses = self._write(cte.this)
        returning = plan.returning
        if returning is None:
            self._silent.add(cte.alias)
            return Step(plan, uses, self._catalog, None)
        catalog = self._catalog
        relation = _relation_of(returning, f"written.{number}", cte.alias)
        schema = catalog.schema
        schema = replace(schema, relations=(*schema.relations, relation))
        self._blocks.catalog = replace(catalog, schema=schema)
        query = query_of(relation, returning.columns)
        _put_rows_together(query, returning, rows)
        self.known.append(exp.CTE(this=query, alias=cte.args["alias"].copy()))
        return Step(plan, uses, catalog, relation.name)

    def _last(self, tree: exp.Expr) -> Step | Subquery:
        if isinstance(tree, (*WRITES, exp.Merge)):
            return Step(*self._write(tree), self._catalog, None)
        self._require_returning(tree)
        refuse_calls(tree.walk())
        uses = self._named(tree)
        bound = with_one_now(bind_tree(tree, self._sql, self._catalog))
        if NOW in bound.parameter_types:
            uses[NOW] = NOW
            self._keys[NOW] = None
        return Subquery(self._engine.prepare_bound(bound, self._catalog), uses)

    def _write(self, tree: exp.Expr) -> tuple[RowPlan, dict[str, int | str]]:
        self._require_returning(tree)
        uses = self._named(tree)
        bound = bind_tree(tree, self._sql, self._catalog)
        return self._compile(bound, self._catalog, self._engine), uses

    def _named(self, tree: exp.Expr) -> dict[str, int | str]:
        """Give a step the CTEs before it, and its parameters names."""
        self._put_known_before(tree)
        uses = name_parameters(tree)
        self._keys.update(dict.fromkeys(uses.values()))
        return uses

    def _put_known_before(self, tree: exp.Expr) -> None:
        if self.known:
            put_before(exp.With(expressions=[cte.copy() for cte in self.known]), tree)

    def _require_returning(self, tree: exp.Expr) -> None:
        for table in tree.find_all(exp.Table):
            if table.name in self._silent and table is not tree.this:
                raise SqlError(
                    f"{table.name} in WITH gives no rows: it has no RETURNING.",
                    cure="Add RETURNING to it.",
                )


def _relation_of(returning: Returning, name: str, alias: str) -> Relation:
    columns: list[Column] = []
    for i, (column, type_) in enumerate(zip(returning.columns, returning.types, strict=True)):
        if type_ is None:
            raise Unsupported(
                f"The type of {column}, which {alias} returns, is not known.",
                cure=f"Write RETURNING CAST(… AS type) AS {column}.",
            )
        columns.append(Column(f"c{i}", type_.stored()))
    return Relation(name, (NUMBER, *columns), (NUMBER.name,))


def _write_rows_out(write: exp.Expr, catalog: Catalog) -> Mapping[str, str]:
    """Replace each whole row of the target in RETURNING by its columns. The names of these columns
    begin with the row's own prefix. Returns the name of each row's output column by its prefix."""
    target = write.this.this if isinstance(write.this, exp.Schema) else write.this
    returning = write.args.get("returning")
    if returning is None or target.name not in catalog.schema:
        return {}
    relation, rows = catalog.schema.relation(target.name), dict[str, str]()
    listed: list[exp.Expr] = []
    for item in returning.expressions:
        value = item.unalias()
        named = isinstance(value, exp.Column) and not value.table and not value.is_star
        if named and value.name == target.alias_or_name and value.name not in relation.positions:
            rows[prefix := f"{_ROW}{len(rows)}."] = item.alias_or_name
            listed += (
                exp.alias_(
                    exp.Dot(this=exp.Paren(this=value.copy()), expression=_quoted(column.name)),
                    _quoted(prefix + column.name),
                    copy=False,
                )
                for column in relation.visible
            )
        else:
            listed.append(item)
    returning.set("expressions", listed)
    return rows


def _put_rows_together(query: exp.Select, returning: Returning, rows: Mapping[str, str]) -> None:
    """Make one column of the columns of each row that `_write_rows_out` has replaced."""
    columns = list(zip(query.expressions, returning.columns, returning.types, strict=True))
    listed: list[exp.Expr] = []
    for prefix, some in groupby(columns, lambda column: _prefix(column[1], rows)):
        if prefix is None:
            listed += (item for item, _, _ in some)
            continue
        parts = list(some)
        fields = [OutputColumn(name.removeprefix(prefix), type_) for _, name, type_ in parts]
        row = structure_of(fields, [item.this for item, _, _ in parts])
        listed.append(exp.alias_(row, _quoted(rows[prefix]), copy=False))
    query.set("expressions", listed)


def _prefix(column: str, rows: Mapping[str, str]) -> str | None:
    """The prefix of the row that a column belongs to; None for other columns."""
    return next((prefix for prefix in rows if column.startswith(prefix)), None)


def _quoted(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)
