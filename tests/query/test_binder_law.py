"""Law: a query over only the rows that `filters` and `equi_joins` select has the same result."""

from hypothesis import given, settings
from hypothesis import strategies as st

from hornbeam_server.query.binding.algebra import Block, Comparison, Filter
from hornbeam_server.query.binding.binder import bind
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.model import Column, Relation, Schema
from hornbeam_server.schema.types import ColumnType, Kind
from tests.depth import depth
from tests.query.bindertables import catalog, oracle

_COLUMNS = (
    Column("k", ColumnType(Kind.INTEGER), False),
    Column("x", ColumnType(Kind.INTEGER)),
    Column("y", ColumnType(Kind.INTEGER)),
    Column("b", ColumnType(Kind.BOOLEAN)),
    Column("s", ColumnType(Kind.TEXT)),
)
TABLES = ("p", "q", "r")
CATALOG: Catalog = catalog(Schema(tuple(Relation(name, _COLUMNS, ("k",)) for name in TABLES)))

_small = st.none() | st.integers(0, 2)
_rows = st.lists(
    st.tuples(_small, _small, st.none() | st.booleans(), st.sampled_from([None, "a", "ab", "c"])),
    max_size=4,
).map(lambda rows: [(i, *row) for i, row in enumerate(rows)])
_data = st.fixed_dictionaries(dict.fromkeys(TABLES, _rows))


@st.composite
def conditions(draw: st.DrawFn, aliases: list[str]) -> str:
    """Draw a conjunction of comparisons over columns of `aliases`."""

    def number() -> str:
        return f"{draw(st.sampled_from(aliases))}.{draw(st.sampled_from('kxy'))}"

    def one() -> str:
        a, n = number(), draw(st.integers(0, 2))
        alias = a.split(".")[0]
        forms = [
            f"{a} = {n}",
            f"{n} >= {a}",
            f"{a} BETWEEN 0 AND {n}",
            f"{a} IN ({n}, 0)",
            f"{a} IS NULL",
            f"{a} IS NOT NULL",
            f"{a} = {number()}",
            f"{a} = {number()}",
            f"({a} = {n} OR {number()} = 1)",
            f"NOT {alias}.b",
            f"{alias}.b",
            f"{alias}.s LIKE 'a%'",
            f"{alias}.s IS NULL",
        ]
        return draw(st.sampled_from(forms))

    return " AND ".join(one() for _ in range(draw(st.integers(1, 3))))


@st.composite
def queries(draw: st.DrawFn) -> str:
    """Draw a query over three sources, joined in a line or with the second join in parentheses."""
    kinds = st.sampled_from(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "JOIN", "LEFT JOIN"])
    tables = [f"{draw(st.sampled_from(TABLES))} AS a{i}" for i in range(3)]
    if draw(st.booleans()):
        inner = f"({tables[1]} {draw(kinds)} {tables[2]} ON {draw(conditions(['a1', 'a2']))})"
        origin = f"{tables[0]} {draw(kinds)} {inner} ON {draw(conditions(['a0', 'a1', 'a2']))}"
    else:
        origin = f"{tables[0]} {draw(kinds)} {tables[1]} ON {draw(conditions(['a0', 'a1']))}"
        origin += f" {draw(kinds)} {tables[2]} ON {draw(conditions(['a0', 'a1', 'a2']))}"
    where = f" WHERE {draw(conditions(['a0', 'a1', 'a2']))}" if draw(st.booleans()) else ""
    return f"SELECT a0.*, a1.*, a2.* FROM {origin}{where}"


def _condition(item: Filter) -> str:
    def literal(value: object) -> str:
        return f"'{value}'" if isinstance(value, str) else str(value)

    values = [literal(value) for value in item.values]
    match item.comparison:
        case Comparison.IS_NULL:
            return f"{item.column} IS NULL"
        case Comparison.IN:
            return f"{item.column} IN ({', '.join(values)})"
        case comparison:
            return f"{item.column} {comparison.value} {values[0]}"


def _narrowed(sql: str, block: Block) -> str:
    """Rewrite the query over sources reduced to the rows that the block's lists select."""
    for source in block.sources:
        kept = [_condition(item) for item in block.filters if item.alias == source.alias]
        for join in block.equi_joins:
            sides = [
                (join.left, join.left_columns, join.right, join.right_columns),
                (join.right, join.right_columns, join.left, join.left_columns),
            ]
            kept += [
                f"({', '.join(mine)}) IN"
                f" (SELECT ({', '.join(theirs)}) FROM {block.relation(other)})"
                for alias, mine, other, theirs in sides
                if alias == source.alias
            ]
        rows = f"(SELECT * FROM {source.relation} WHERE {' AND '.join(kept) or 'true'})"
        sql = sql.replace(f"{source.relation} AS {source.alias}", f"{rows} AS {source.alias}")
    return sql


@settings(max_examples=depth(40, long=120))
@given(queries(), _data)
def test_reading_only_rows_of_filters_and_joins_keeps_the_result(sql, data):
    (block,) = bind(sql, CATALOG).statement.blocks
    with oracle(CATALOG, data) as connection:
        expected = connection.execute(sql).fetchall()
        found = connection.execute(_narrowed(sql, block)).fetchall()
    assert sorted(found, key=repr) == sorted(expected, key=repr), (sql, block)


@settings(max_examples=depth(20, long=60))
@given(queries(), _data)
def test_a_conjunctive_where_equals_its_filters_and_joins(sql, data):
    """In an inner join, `conjunctive` means that filters and equi-joins are the whole condition."""
    inner = sql.replace("LEFT JOIN", "JOIN").replace("RIGHT JOIN", "JOIN")
    inner = inner.replace("FULL JOIN", "JOIN")
    (block,) = bind(inner, CATALOG).statement.blocks
    parts = [f"{item.alias}.{_condition(item)}" for item in block.filters] + [
        f"{join.left}.{a} = {join.right}.{b}"
        for join in block.equi_joins
        for a, b in zip(join.left_columns, join.right_columns, strict=True)
    ]
    origin = ", ".join(f"{source.relation} AS {source.alias}" for source in block.sources)
    rebuilt = f"SELECT a0.*, a1.*, a2.* FROM {origin} WHERE {' AND '.join(parts) or 'true'}"
    with oracle(CATALOG, data) as connection:
        expected = connection.execute(inner).fetchall()
        found = connection.execute(rebuilt).fetchall()
    if block.conjunctive:
        assert sorted(found, key=repr) == sorted(expected, key=repr), (inner, block)
    else:
        assert len(found) >= len(expected)
