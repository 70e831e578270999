"""Translates Hornbeam's SQL into Phoenix's dialect. Pure.

The differences, and their translations, as Phoenix's manual (Grammar, Joins) advises:

* INSERT, and UPDATE by key, become UPSERT. An UPDATE that does not name a whole row is refused.
* Phoenix joins by sending the right side to the servers that scan the left side. If the join
  condition equates the left side's key, it looks the left side up by key. So the largest table
  comes first, then a table that a constant filters. A hint names an index by which the first table
  can be looked up. The other tables are sent whole, which is Phoenix's default: its hint
  NO_STAR_JOIN prevents look-ups by key, and made most_recent_order lose its row (5.2.1).
* `*` is expanded, since tables change places. Columns are qualified.
* NULLs come first in Phoenix. An ORDER BY is not changed for that.

All tables of a system are in one schema, with Hornbeam's names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp
from sqlglot.generator import Generator

from bench.peers.port import Cannot
from hornbeam_server.query.binding.binder import bind
from hornbeam_server.query.optimizer.rewrite import rewrite
from hornbeam_server.query.parsing.output_names import UNNAMED
from hornbeam_server.schema.catalog import Catalog, Index
from hornbeam_server.schema.model import Column, KeyPart
from hornbeam_server.schema.types import ColumnType, Kind

TRANSACTIONAL = "TRANSACTIONAL=true, TRANSACTION_PROVIDER='OMID'"
_TYPES = {
    Kind.INTEGER: "INTEGER",
    Kind.BIGINT: "BIGINT",
    Kind.DOUBLE: "DOUBLE",
    Kind.BOOLEAN: "BOOLEAN",
    Kind.TEXT: "VARCHAR",
    Kind.BYTES: "VARBINARY",
    Kind.DATE: "DATE",
    Kind.TIMESTAMP: "TIMESTAMP",
}
_LOOKED_UP = "looked_up"
"""The key of an entry in a SELECT's `meta`: the table and column of a look-up."""
_RANGES = (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.Like)


@dataclass(frozen=True, slots=True)
class PhoenixStatement:
    """A statement of Phoenix. Its parameter i is the value `values[i]` of the workload's
    statement."""

    sql: str
    values: tuple[int, ...] = ()

    def chosen(self, values: Sequence[Any]) -> list[Any]:
        return [values[number] for number in self.values]


# ---------------------------------------------------------------- definitions


def type_name(of: ColumnType) -> str:
    """The name of a type in Phoenix. Raises Cannot."""
    if of.kind is Kind.DECIMAL:
        return f"DECIMAL({of.precision},{of.scale})" if of.precision else "DECIMAL"
    if of.kind not in _TYPES:
        raise Cannot(f"Phoenix has no type for {of.kind}.")
    return _TYPES[of.kind] + (f"({of.length})" if of.kind is Kind.TEXT and of.length else "")


def create_table(
    table: str, columns: Sequence[Column], key: Sequence[str], *, transactional: bool
) -> str:
    """The definition of `table`, a name with its schema. The columns of the key come first, in the
    key's order. Only they may be NOT NULL."""
    types = {column.name: type_name(column.type) for column in columns}
    lines = [f"{name} {types[name]} NOT NULL" for name in key]
    lines += [f"{name} {of}" for name, of in types.items() if name not in key]
    lines.append(f"CONSTRAINT pk PRIMARY KEY ({', '.join(key)})")
    options = f" {TRANSACTIONAL}" if transactional else ""
    return f"CREATE TABLE {table} ({', '.join(lines)}){options}"


def create_index(index: Index, table: str, key: Sequence[str], also: Iterable[str] = ()) -> str:
    """The definition of a covered index, with the columns `also` in addition to its own. Every
    index contains its table's key, `key`."""
    columns = {part.column for part in index.columns}
    covered = dict.fromkeys([*index.include, *also])
    include = [name for name in covered if name not in columns and name not in key]
    covering = f" INCLUDE ({', '.join(include)})" if include else ""
    return (
        f"CREATE INDEX {index.name} ON {table} ({', '.join(map(_part, index.columns))}){covering}"
    )


def joined_by(catalog: Catalog) -> dict[tuple[str, str], set[str]]:
    """By table and column by which joins of the workload look rows up: the columns that they read.
    Phoenix uses an index only if it covers all of them."""
    found: dict[tuple[str, str], set[str]] = {}
    for statement in catalog.workload:
        for select in _arranged(statement.sql, catalog, use_views=True).find_all(exp.Select):
            if _LOOKED_UP in select.meta:
                table = select.args["from_"].this
                read = {c.name for c in _own_columns(select) if c.table == table.alias_or_name}
                found.setdefault(select.meta[_LOOKED_UP], set()).update(read)
    return found


def _own_columns(select: exp.Select) -> Iterator[exp.Column]:
    return (column for column in select.find_all(exp.Column) if column.parent_select is select)


def _part(part: KeyPart) -> str:
    return f"{part.column} DESC" if part.descending else part.column


def upsert(table: str, columns: Iterable[str]) -> str:
    names = list(columns)
    return f"UPSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"


# ---------------------------------------------------------------- statements


def translated(
    sql: str, catalog: Catalog, schema: str, *, use_views: bool = True
) -> PhoenixStatement:
    """The translation of `sql`, over the readable views of `catalog` that serve it. The tables are
    in `schema`. Raises Cannot."""
    tree = _arranged(sql, catalog, use_views=use_views)
    if isinstance(tree, exp.Update):
        return _update(tree, catalog, schema)
    text = written_out(_in_schema(tree, schema))
    return PhoenixStatement(text.sql.replace("INSERT INTO", "UPSERT INTO", 1), text.values)


def _arranged(sql: str, catalog: Catalog, *, use_views: bool) -> exp.Expr:
    """The tree of `sql` with tables in Phoenix's order, expanded stars and qualified columns."""
    bound = bind(sql, catalog)
    tree = (rewrite(bound, catalog).bound if use_views else bound).ast.copy()
    if not isinstance(tree, exp.Select | exp.Insert | exp.Update | exp.Delete):
        raise Cannot(f"{type(tree).__name__.upper()} has no translation for Phoenix.")
    for select in list(tree.find_all(exp.Select)):
        _expand_stars(select)
    _qualify(tree)
    for select in list(tree.find_all(exp.Select)):
        _order_joins(select, catalog)
    return tree


class _Writer(Generator):
    """Writes SQL, and records the value of each `?`."""

    def __init__(self) -> None:
        super().__init__(comments=False)
        self.values: list[int] = []

    def placeholder_sql(self, expression: exp.Placeholder) -> str:
        self.values.append(int(expression.this) - 1)
        return "?"

    def alias_sql(self, expression: exp.Alias) -> str:
        """An output without a name stays without one."""
        unnamed = expression.alias == UNNAMED
        return self.sql(expression, "this") if unnamed else super().alias_sql(expression)

    def ordered_sql(self, expression: exp.Ordered) -> str:
        """An ORDER BY term without the place of NULL: no index of Phoenix has another one."""
        direction = " DESC" if expression.args.get("desc") else ""
        return f"{self.sql(expression, 'this')}{direction}"


def written_out(tree: exp.Expr, begin: str = "") -> PhoenixStatement:
    writer = _Writer()
    return PhoenixStatement(begin + writer.generate(tree, copy=False), tuple(writer.values))


def _update(tree: exp.Update, catalog: Catalog, schema: str) -> PhoenixStatement:
    """An UPSERT of the changed columns and the key."""
    relation = catalog.schema.relation(tree.this.name)
    key = key_values(tree, relation.primary_key)
    columns = [(change.this.name, change.expression) for change in tree.expressions]
    if any(value.find(exp.Column) for _, value in columns):
        raise Cannot("Phoenix's UPSERT cannot compute a column from its old value.")
    columns += list(zip(relation.primary_key, key, strict=True))
    values = exp.Tuple(expressions=[value.copy() for _, value in columns])
    names = ", ".join(name for name, _ in columns)
    return written_out(values, f"UPSERT INTO {schema}.{relation.name} ({names}) VALUES ")


def key_values(tree: exp.Expr, key: Sequence[str]) -> list[exp.Expr]:
    """The values that the WHERE of a write equates with the columns of `key`. Raises Cannot if the
    WHERE has other conditions, or not all columns."""
    where = tree.args.get("where")
    conditions = list(_conjuncts(where.this)) if where else []
    equals = {
        node.this.name: node.expression
        for node in conditions
        if isinstance(node, exp.EQ) and isinstance(node.this, exp.Column)
    }
    if equals.keys() != set(key) or len(conditions) != len(key):
        raise Cannot("Phoenix can only update a row by its whole key.")
    return [equals[column] for column in key]


def _in_schema(tree: exp.Expr, schema: str) -> exp.Expr:
    """Add `schema` to all tables. Tables of a SELECT keep their old names as aliases."""
    for table in list(tree.find_all(exp.Table)):
        table.set("db", exp.to_identifier(schema))
        if not table.alias and table.parent_select:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name)))
    return tree


def _expand_stars(select: exp.Select) -> None:
    written: list[exp.Expr] = []
    for item in select.expressions:
        star = item.this if isinstance(item, exp.Column) else item
        if isinstance(star, exp.Star) and "columns" in star.meta:
            written += [exp.column(column, alias) for _, alias, column, *_ in star.meta["columns"]]
        else:
            written.append(item)
    select.set("expressions", written)


def _qualify(tree: exp.Expr) -> None:
    for column in list(tree.find_all(exp.Column)):
        _, alias, name = column.meta.get("column", (None, "", ""))
        if alias and column.parent_select and not column.meta.get("alias"):
            column.set("this", exp.to_identifier(name))
            column.set("table", exp.to_identifier(alias))


# ---------------------------------------------------------------- joins


def _order_joins(select: exp.Select, catalog: Catalog) -> None:
    """Order the tables of a join for Phoenix."""
    first = select.args.get("from_")
    joins = select.args.get("joins") or []
    if not first or not joins:
        return
    tables = {each.alias_or_name: each for each in (first.this, *(join.this for join in joins))}
    if any(join.side or join.args.get("using") for join in joins) or len(tables) <= len(joins):
        raise Cannot("Only inner joins of named tables are translated for Phoenix.")
    where = select.args.get("where")
    conditions = [c for join in joins if join.args.get("on") for c in _conjuncts(join.args["on"])]
    conditions += list(_conjuncts(where.this)) if where else []
    rows = {name: _row_count(table.name, catalog) for name, table in tables.items()}
    order = _order(rows, conditions)
    sends_some = any(_tables(c) == {order[1]} for c in conditions)
    placed = {order[0]}
    ordered = []
    for name in order[1:]:
        placed.add(name)
        on = [c for c in conditions if _joins_equal(c) and name in _tables(c) <= placed]
        conditions = [c for c in conditions if not any(c is taken for taken in on)]
        ordered.append(exp.Join(this=tables[name], on=exp.and_(*on, copy=False) if on else None))
    first.set("this", tables[order[0]])
    select.set("joins", ordered)
    select.set("where", exp.Where(this=exp.and_(*conditions, copy=False)) if conditions else None)
    if sends_some:
        _look_up(select, catalog)


def _look_up(select: exp.Select, catalog: Catalog) -> None:
    """Record the column by which the first table is looked up, and add a hint with its index, if
    there is one. Without the hint Phoenix may choose another covering index, and scan it."""
    first, on = select.args["from_"].this, select.args["joins"][0].args.get("on")
    columns = on.find_all(exp.Column) if on else ()
    by = next((column.name for column in columns if column.table == first.alias_or_name), None)
    if by is None:
        return
    select.meta[_LOOKED_UP] = first.name, by
    for index in catalog.indexes:
        if (index.on, index.columns[0].column) == (first.name, by):
            hint = exp.var(f"INDEX({first.alias_or_name} {index.name})")
            select.set("hint", exp.Hint(expressions=[hint]))


def _row_count(table: str, catalog: Catalog) -> int:
    """The number of rows of a relation. A view has as many as its last relation."""
    counts = dict(catalog.row_counts)
    return counts.get(next((v.last for v in catalog.views if v.name == table), table), 0)


def _order(rows: Mapping[str, int], conditions: Sequence[exp.Expr]) -> list[str]:
    """The order of tables. If a table is filtered: the largest table that is joined to the most
    filtered table, the most filtered table, and then tables that are joined to an earlier one.
    Otherwise the largest table comes first. `rows` has the numbers of rows."""
    edges = [_tables(c) for c in conditions if _joins_equal(c)]

    def filtered(name: str) -> tuple[int, int]:
        own = [c for c in conditions if _tables(c) == {name}]
        return sum(isinstance(c, exp.EQ) for c in own), sum(isinstance(c, _RANGES) for c in own)

    most_filtered = max(rows, key=filtered)
    unfiltered = not any(filtered(most_filtered))
    order = [max(rows, key=rows.__getitem__) if unfiltered else most_filtered]
    while remaining := [name for name in rows if name not in order]:
        joined = [n for n in remaining if any(n in edge and edge & set(order) for edge in edges)]
        order.append(max(joined or remaining, key=rows.__getitem__))
    return order if unfiltered else [order[1], order[0], *order[2:]]


def _joins_equal(condition: exp.Expr) -> bool:
    """Whether a condition equates columns of two tables."""
    return (
        isinstance(condition, exp.EQ)
        and isinstance(condition.this, exp.Column)
        and isinstance(condition.expression, exp.Column)
        and len(_tables(condition)) == 2
    )


def _tables(condition: exp.Expr) -> set[str]:
    """The tables of a condition, without those of its subqueries."""
    outer = condition.parent_select
    return {c.table for c in condition.find_all(exp.Column) if c.parent_select is outer}


def _conjuncts(condition: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(condition, exp.And):
        yield from _conjuncts(condition.this)
        yield from _conjuncts(condition.expression)
    elif isinstance(condition, exp.Paren) and isinstance(condition.this, exp.And):
        yield from _conjuncts(condition.this)
    else:
        yield condition
