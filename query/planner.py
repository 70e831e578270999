"""The planner: a native plan for a bound query if possible, else a plan for DuckDB. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa
from sqlglot import exp

from hornbeam_server.query.binding.algebra import Block, EquiJoin, Filter
from hornbeam_server.query.binding.binder import BoundQuery
from hornbeam_server.query.binding.blocks import joinable
from hornbeam_server.query.binding.system_tables import SYSTEM
from hornbeam_server.query.dialect.duckdb_sql import duckdb_sql
from hornbeam_server.query.duckdb_plan import LiftedQuery, ResidualPlan, SourceRead
from hornbeam_server.query.execution.loops import NativePlan
from hornbeam_server.query.execution.values import NeedsTypes, NotNative
from hornbeam_server.query.loops_plan import plan_native
from hornbeam_server.query.optimizer.access_paths import Access, choose, fewest_rows
from hornbeam_server.query.optimizer.implied_filters import BlockPlaces, find_hints
from hornbeam_server.query.optimizer.join_order import order_joins
from hornbeam_server.query.optimizer.uncorrelated_subqueries import candidates
from hornbeam_server.query.parsing.placeholders import named_placeholder
from hornbeam_server.query.system.relations import is_live
from hornbeam_server.query.system.relations import table as system_table
from hornbeam_server.schema.catalog import Catalog, Layout
from hornbeam_server.schema.trees import nodes_of, unlink

Plan = NativePlan | ResidualPlan


def plan_query(bound: BoundQuery, catalog: Catalog, *, columnar: bool = False) -> Plan:
    """The plan that runs `bound`. `columnar`: the result is read as Arrow."""
    try:
        return plan_native(bound, catalog, columnar=columnar)
    except NotNative as reason:
        residual = plan_residual(bound, catalog, str(reason))
        return replace(residual, by_types=isinstance(reason, NeedsTypes))


def plan_spilling(bound: BoundQuery, catalog: Catalog, reason: str) -> ResidualPlan:
    """A plan in which DuckDB also runs the subqueries, so that nothing must fit into memory."""
    return plan_residual(bound, catalog, reason, inner=partial(plan_spilling, reason=reason))


def plan_residual(
    bound: BoundQuery,
    catalog: Catalog,
    reason: str,
    *,
    inner: Callable[[BoundQuery, Catalog], Plan] = plan_query,
) -> ResidualPlan:
    """A plan for DuckDB, even if native execution is possible. `reason` is shown to users; `inner`
    plans the subqueries."""
    tree = bound.ast.copy()
    lifted = _lift(replace(bound, ast=tree), catalog, inner)
    tables = [table for table in nodes_of(tree, exp.Table) if "source" in table.meta]
    columns = _columns(tree, tables, bound, catalog)
    blocks = {table.meta["source"][0] for table in tables}
    names = _Names()
    reads: dict[tuple[int, str], tuple[Access, Access]] = {}
    places = BlockPlaces(tree)
    sources: dict[int, list[SourceRead]] = {}
    for number in sorted(blocks):
        block = _narrowed(bound.statement.blocks[number], number, lifted)
        sources[number] = []
        block = replace(block, columns={a: columns[number, a] for a in _aliases(block)})
        given = {
            item.lift.name: fewest_rows(item.plan.accesses) for item in lifted if item.lift.join
        }
        hints = tuple(find_hints(places, number, block, catalog))
        for access in order_joins(catalog, block, given=given, hints=hints):
            alone = choose(catalog, block, access.alias) if access.join_columns else access
            reads[number, access.alias] = (access, alone)
            names.add(number, access, columns[number, access.alias])
    for key, (access, alone) in reads.items():
        read = SourceRead(names.of[key], access, alone, names.columns(key, access))
        sources[key[0]].append(read)
    _rename(tables, names)
    system, live = _system_tables(tree, catalog)
    parameters = _number_parameters(tree)
    sql = duckdb_sql(tree, ranges=True)
    unlink(tree)
    for item in lifted:
        unlink(item.lift.query.ast)
    return ResidualPlan(
        sql=sql,
        parameters=parameters,
        blocks=tuple(tuple(some) for some in sources.values()),
        lifted=lifted,
        system=system,
        live=live,
        reason=reason,
        types=tuple(column.type for column in bound.columns),
    )


def _system_tables(
    tree: exp.Expr, catalog: Catalog
) -> tuple[tuple[tuple[str, pa.Table], ...], tuple[str, ...]]:
    """The system relations that the tree reads, by name, with the columns that it names: all of
    them, if their number or order affects the result. And the names of the live ones."""
    tables = [each for each in nodes_of(tree, exp.Table) if SYSTEM in each.meta]
    if not tables:
        return (), ()
    whole = any(join.args.get("method") == "NATURAL" for join in nodes_of(tree, exp.Join)) or any(
        not isinstance(star.parent, exp.Count) for star in nodes_of(tree, exp.Star)
    )
    whole = whole or any(each.args["alias"].args.get("columns") for each in tables)
    wanted = None if whole else {each.name for each in nodes_of(tree, exp.Identifier)}
    names = dict.fromkeys(".".join(each.meta[SYSTEM]) for each in tables)
    live = tuple(filter(is_live, names))
    rest = [name for name in names if name not in live]
    return tuple((name, system_table(name, catalog, wanted)) for name in rest), live


def _aliases(block: Block) -> list[str]:
    return [source.alias for source in block.sources]


@dataclass
class _Names:
    """Registered names by source. Sources with equal access paths without join values share one
    name, so that they are read and registered once."""

    of: dict[tuple[int, str], str] = field(default_factory=dict)
    _shared: dict[tuple[Access, frozenset[str]], str] = field(default_factory=dict)
    _columns: dict[str, set[str]] = field(default_factory=dict)

    def add(self, block: int, access: Access, columns: Iterable[str]) -> None:
        name = f"source {len(self.of)}"
        if not access.join_columns:
            hidden = {column.name for column in access.source.columns if column.hidden}
            named = replace(access, alias=""), frozenset(hidden.intersection(columns))
            name = self._shared.setdefault(named, name)
        self.of[block, access.alias] = name
        self._columns.setdefault(name, set()).update(columns)

    def columns(self, key: tuple[int, str], access: Access) -> tuple[str, ...]:
        """The columns to read, in the source's order, a row identity last; at least one."""
        wanted = self._columns[self.of[key]]
        columns = sorted(access.source.columns, key=lambda column: column.hidden)
        found = tuple(column.name for column in columns if column.name in wanted)
        return found or (_narrowest(access.source),)


def _narrowest(layout: Layout) -> str:
    """A column that counts rows: one that `*` shows, since a source may be that of a `*`, too."""
    keys = [part.column for part in layout.key]
    shown = [column.name for column in layout.columns if not column.hidden]
    return next((name for name in keys if name in shown), shown[0])


def _columns(
    tree: exp.Expr, tables: Iterable[exp.Table], bound: BoundQuery, catalog: Catalog
) -> Mapping[tuple[int, str], frozenset[str]]:
    """The columns to read from each source: the used columns, or all columns if their number or
    names affect the result."""
    whole = any(join.args.get("method") == "NATURAL" for join in nodes_of(tree, exp.Join)) or any(
        any(star.args.values()) for star in nodes_of(tree, exp.Star)
    )
    found = {}
    for table in tables:
        number, alias = table.meta["source"]
        block = bound.statement.blocks[number]
        layout = catalog.layout(block.relation(alias))
        renamed = table.args.get("alias") is not None and table.args["alias"].args.get("columns")
        every = whole or renamed or alias not in block.columns
        used = block.columns.get(alias, frozenset())
        if every:
            used |= {column.name for column in layout.columns if not column.hidden}
        found[number, alias] = used or frozenset({_narrowest(layout)})
    return found


def _lift(
    bound: BoundQuery, catalog: Catalog, inner: Callable[[BoundQuery, Catalog], Plan]
) -> tuple[LiftedQuery, ...]:
    """Replace subqueries in the tree by a parameter or a table that holds their result, and return
    their plans."""
    found: list[LiftedQuery] = []
    gone: set[int] = set()
    for subquery, lift in list(candidates(bound, catalog)):
        if any(id(node) in gone for node in _ancestors(subquery)):
            continue
        plan = inner(lift.query, catalog)
        if lift.filter is not None:
            if not isinstance(plan, NativePlan) or plan.types[0] is None:
                continue
            if not joinable(plan.types[0], lift.type):
                continue
            subquery.replace(named_placeholder(lift.name))
        else:
            table = exp.to_identifier(lift.name, quoted=True)
            subquery.replace(exp.Subquery(this=exp.select("c0").from_(exp.Table(this=table))))
        gone.add(id(subquery))
        found.append(LiftedQuery(lift, plan))
    return tuple(found)


def _ancestors(node: exp.Expr) -> Iterator[exp.Expr]:
    parent = node.parent
    while parent is not None:
        yield parent
        parent = parent.parent


def _narrowed(block: Block, number: int, lifted: Iterable[LiftedQuery]) -> Block:
    """The block with the filters and joins that follow from lifted subqueries."""
    own = [item.lift for item in lifted if item.lift.block == number]
    filters: list[Filter] = [lift.filter for lift in own if lift.filter is not None]
    joins: list[EquiJoin] = [lift.join for lift in own if lift.join is not None]
    return replace(
        block,
        filters=(*block.filters, *filters),
        equi_joins=(*block.equi_joins, *joins),
    )


def _rename(tables: Iterable[exp.Table], names: _Names) -> None:
    for table in tables:
        alias = table.args.get("alias") or exp.TableAlias(
            this=exp.to_identifier(table.name, quoted=True)
        )
        table.set("alias", alias)
        table.set("this", exp.to_identifier(names.of[table.meta["source"]], quoted=True))


def _number_parameters(tree: exp.Expr) -> tuple[tuple[str, int | str], ...]:
    """Give every parameter a plain name, and return pairs (name, key of the parameter)."""
    numbers: dict[int | str, str] = {}
    for node in tree.find_all(exp.Placeholder):
        key = node.meta["parameter"].name
        node.set("this", numbers.setdefault(key, f"p{len(numbers)}"))
    return tuple((name, key) for key, name in numbers.items())
