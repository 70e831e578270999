"""Random schemas, SELECTs and changes for delta programs.

Relations have a key of one or two columns, columns to join by (with indexes), and values of all
kinds that can be summed, compared or grouped. Values are few, so that keys recur, groups become
empty and reappear, and multiplicities grow.
"""

import datetime as dt
from dataclasses import dataclass, replace
from decimal import Decimal

from tests.maintain.deltas.deltas_world import catalog_of

NAMES = ("a", "b", "c")
JOINS = ("j", "k")


@dataclass(frozen=True)
class Source:
    """An item of FROM: its alias, and its columns by their use."""

    sql: str
    alias: str
    joins: tuple[str, ...]
    numbers: tuple[str, ...]
    others: tuple[str, ...]

    def columns(self, kind="all"):
        kinds = {"join": self.joins, "number": self.numbers}
        names = kinds.get(kind, (*self.joins, *self.numbers, *self.others))
        return [f"{self.alias}.{name}" for name in names]


def draw_ddl(random):
    """Draw the relations; join columns have numeric types that may differ."""
    parts = []
    for name in NAMES:
        second = random.random() < 0.4
        key = "i, n" if second else "i"
        types = [random.choice(["INTEGER", "BIGINT", "DECIMAL(9,1)"]) for _ in JOINS]
        parts.append(
            f"CREATE TABLE {name} (i INTEGER NOT NULL, {'n INTEGER NOT NULL, ' if second else ''}"
            f"j {types[0]}, k {types[1]}, x INTEGER, d DECIMAL(7,2), t TEXT, f DOUBLE, "
            f"b BOOLEAN, s DATE, PRIMARY KEY ({key}));"
        )
        parts += [
            f"CREATE INDEX {name}_{i} ON {name} ({columns});"
            for i, columns in enumerate(_indexed(random))
        ]
    return "\n".join(parts)


def _indexed(random):
    """Draw the columns of a relation's indexes: mostly each join column; else one of them can be
    looked up together with the other one only."""
    if random.random() < 0.7:
        return JOINS
    return [", ".join(random.sample(JOINS, 2)), *random.sample(JOINS, random.randint(0, 1))]


def draw_row(random, relation):
    return tuple(_value(random, column) for column in relation.columns)


def _value(random, column):
    if column.nullable and random.random() < 0.15:
        return None
    if column.name in ("i", "n"):
        return random.randint(0, 3)
    if column.name in JOINS:
        number = random.randint(0, 3)
        return Decimal(number).quantize(Decimal("0.1")) if column.type.scale else number
    match column.name:
        case "x":
            return random.choice([-2, 0, 1, 2, 7])
        case "d":
            return Decimal(random.choice(["-1.50", "0.00", "0.10", "0.33", "99999.99"]))
        case "t":
            return random.choice(["", "a", "ab", "b", "ä"])
        case "f":
            return random.choice([-1.5, 0.0, 0.1, 2.0])
        case "b":
            return random.random() < 0.5
    return dt.date(2024, 1, random.randint(1, 3))


def draw_writes(random, catalog, store):
    """Draw a batch over several relations: inserts, updates, deletes, or all rows of a relation."""
    writes = []
    for relation in catalog.schema.relations:
        codec = store.codecs[relation.name]
        keys = [codec.key_values(row) for row in store.rows[relation.name].values()]
        if random.random() < 0.08:
            writes += [(relation.name, key, None) for key in keys]
            continue
        for _ in range(random.choice([0, 1, 1, 2, 4])):
            if keys and random.random() < 0.35:
                writes.append((relation.name, random.choice(keys), None))
            else:
                writes.append((relation.name, draw_row(random, relation)))
    return writes


class Queries:
    """Draws SELECTs over a, b and c."""

    def __init__(self, random):
        self.random = random
        self.count = 0

    def draw(self):
        kind = self.random.random()
        if kind < 0.12:
            return self.union()
        return self.select(depth=0)[0]

    def union(self):
        """Draw a union of two SELECTs of one shape."""
        word = self.random.choice(["UNION ALL", "UNION ALL", "UNION"])
        columns = self.random.sample(["x", "d", "t", "k"], 2)
        halves = [self.source(2) for _ in range(2)]
        selects = [
            f"SELECT {', '.join(f'{h.alias}.{c} AS {c}' for c in columns)} FROM {h.sql}"
            f"{self.where([h], 1)}"
            for h in halves
        ]
        return f" {word} ".join(selects)

    def alias(self):
        self.count += 1
        return f"r{self.count}"

    def source(self, depth):
        """Draw a relation, or a SELECT in FROM."""
        alias = self.alias()
        if depth < 1 and self.random.random() < 0.3:
            sql, columns = self.select(depth + 1)
            joins = tuple(c for c in columns if c.startswith(("j", "k")))
            numbers = tuple(c for c in columns if c.startswith("m"))
            rest = tuple(c for c in columns if c not in joins and c not in numbers)
            return Source(f"({sql}) AS {alias}", alias, joins, numbers, rest)
        name = self.random.choice(NAMES)
        return Source(f"{name} AS {alias}", alias, ("i", *JOINS), ("x", "d"), ("t", "f", "b", "s"))

    def select(self, depth):
        """Draw a SELECT and the names of its columns; the first letter of a name is its kind."""
        sources, text = self.from_(depth)
        where = self.where(sources, depth)
        if self.random.random() < (0.55 if depth == 0 else 0.5):
            return self.aggregated(sources, f"{text}{where}", depth)
        distinct = "DISTINCT " if self.random.random() < 0.15 else ""
        columns = {}
        for source in sources:
            for name in source.joins[: self.random.randint(1, 2)]:
                columns[f"j{len(columns)}"] = f"{source.alias}.{name}"
        for number in self.random.sample(self.all(sources, "number"), 1 if depth else 2):
            columns[f"m{len(columns)}"] = self.numeric(number)
        if self.random.random() < 0.7:
            columns[f"o{len(columns)}"] = self.random.choice(self.all(sources))
        kept = list(columns.items())
        if depth == 0:
            kept = self.random.sample(kept, self.random.randint(1, len(kept)))
        listed = ", ".join(f"{value} AS {name}" for name, value in kept)
        return f"SELECT {distinct}{listed} FROM {text}{where}", [name for name, _ in kept]

    def all(self, sources, kind="all"):
        found = [column for source in sources for column in source.columns(kind)]
        return found if len(found) > 1 else [*found, *(c for s in sources for c in s.columns())]

    def numeric(self, column):
        return self.random.choice([
            column, f"{column} + 1", f"CASE WHEN {column} > 0 THEN {column} ELSE 0 END",
            f"COALESCE({column}, 3)",
        ])  # fmt: skip

    def from_(self, depth):
        sources = [self.source(depth)]
        text = sources[0].sql
        for _ in range(self.random.choice([0, 1, 1, 1, 2] if depth == 0 else [0, 0, 1])):
            source = self.source(depth)
            if not source.joins or not sources[0].joins:
                continue
            word = self.random.choice(["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
            on = self.on(sources, source)
            if word != "FULL JOIN" and self.random.random() < 0.12:
                on = self.without_equality(sources, source)
            text += f" {word} {source.sql} ON {on}"
            sources.append(source)
        return sources, text

    def on(self, sources, source):
        other = self.random.choice([s for s in sources if s.joins])
        pair = [
            self.random.choice(source.columns("join")),
            self.random.choice(other.columns("join")),
        ]
        self.random.shuffle(pair)
        parts = [" = ".join(pair)]
        if self.random.random() < 0.2 and len(other.joins) > 1 and len(source.joins) > 1:
            more = [each.columns("join") for each in (source, other)]
            parts.append(" = ".join(self.random.choice(columns) for columns in more))
        if self.random.random() < 0.2:
            parts.append(
                self.condition(self.random.choice([[source], sources, [*sources, source]]))
            )
        return " AND ".join(parts)

    def without_equality(self, sources, source):
        """Draw a join condition without an equality: by columns with an index, by others, or by no
        column."""
        kind = self.random.choice(["join", "join", "number"])
        mine, low, high = (
            self.random.choice(columns or ["1"])
            for columns in (
                source.columns(kind),
                *(self.all(sources, kind) for _ in range(2)),
            )
        )
        operator = self.random.choice(["<", "<=", ">", ">=", "<>"])
        compared = f"{mine} {operator} {low}"
        return self.random.choice([compared, compared, f"{mine} BETWEEN {low} AND {high}", "TRUE"])

    def condition(self, sources):
        column = self.random.choice(self.all(sources, "number"))
        text = [c for s in sources for c in s.columns() if c.endswith(".t")]
        choices = [
            f"{column} > 0", f"{column} IN (1, 2, 0.1)", f"({column} < 2 OR {column} IS NULL)",
            f"{column} BETWEEN 0 AND 5", f"NOT {column} = 1",
            f"({column} > 0 AND {column} < 9 OR {column} < 2 AND {column} > 0)",
            *(f"{name} LIKE 'a%'" for name in text),
        ]  # fmt: skip
        return self.random.choice(choices)

    def where(self, sources, depth):
        parts = [self.condition(sources)] if self.random.random() < 0.35 else []
        if depth < 2 and self.random.random() < 0.25:
            parts.append(self.nested(sources, depth))
        return f" WHERE {' AND '.join(parts)}" if parts else ""

    def nested(self, sources, depth):
        outer = [c for s in sources for c in s.columns("join")]
        inner = self.source(depth + self.random.choice([0, 2, 2]))
        if not outer or not inner.joins:
            return self.condition(sources)
        mine, theirs = self.random.choice(outer), self.random.choice(inner.columns("join"))
        more = f" AND {self.condition([inner])}" if self.random.random() < 0.4 else ""
        if self.random.random() < 0.2:
            more += f" AND {self.random.choice(inner.columns())} IS NOT NULL"
        numbers = self.all(sources, "number")[0], self.all([inner], "number")[0]
        if self.random.random() < 0.2:
            more += f" AND {numbers[1]} <> {numbers[0]}"
        if self.random.random() < 0.35:
            where = self.random.choice([f" WHERE {mine} = {theirs}{more}"] * 2 + [""])
            left = self.random.choice([mine, numbers[0]])
            return self.compared(left, [theirs, numbers[1]], f"{inner.sql}{where}")
        kind = self.random.random()
        if kind < 0.35:
            return f"{mine} IN (SELECT {theirs} FROM {inner.sql} WHERE TRUE{more})"
        word = "EXISTS" if kind < 0.65 else "NOT EXISTS"
        return f"{word} (SELECT * FROM {inner.sql} WHERE {mine} = {theirs}{more})"

    def compared(self, left, columns, text):
        """Draw a comparison with the single value of a subquery."""
        function = self.random.choice(["MIN", "MAX", "MAX", "SUM", "AVG"])
        value = f"{function}({self.random.choice(columns)})"
        value = self.random.choice([value, value, f"2 * {value}"])
        operator = self.random.choice([">", ">=", "<", "<=", "=", "=", "<>"])
        return f"{left} {operator} (SELECT {value} FROM {text})"

    def having(self, sources, keys):
        kind = self.random.random()
        if kind < 0.25:
            return f" HAVING {self.random.choice(['COUNT(*) > 1', 'SUM(1) < 3', 'COUNT(*) <> 2'])}"
        if kind > 0.45:
            return ""
        inner = self.source(2)
        numbers = self.numbers([inner])
        key = [value for name, value in keys.items() if name.startswith("j")]
        correlated = key and self.random.random() < 0.4
        where = f" WHERE {key[0]} = {inner.columns('join')[0]}" if correlated else ""
        call = self.random.choice([f"SUM({self.numbers(sources)[0]})", "COUNT(*)", "MAX(1)"])
        return f" HAVING {self.compared(call, numbers, inner.sql + where)}"

    def aggregated(self, sources, text, depth):
        keys = {}
        for _ in range(self.random.choice([0, 1, 1, 2]) if depth == 0 else 1):
            joins = [c for s in sources for c in s.columns("join")]
            if joins and self.random.random() < 0.6:
                keys[f"j{len(keys)}"] = self.random.choice(joins)
            else:
                keys[f"o{len(keys)}"] = self.random.choice(self.all(sources))
        values = {}
        for _ in range(self.random.randint(1, 3)):
            prefix, call = self.call(sources)
            values[f"{prefix}{len(values)}v"] = call
        shown = {**keys, **values} if depth or self.random.random() < 0.7 else values
        listed = ", ".join(f"{value} AS {name}" for name, value in shown.items())
        group = f" GROUP BY {', '.join(dict.fromkeys(keys.values()))}" if keys else ""
        having = self.having(sources, keys) if keys else ""
        return f"SELECT {listed} FROM {text}{group}{having}", list(shown)

    def call(self, sources):
        """Draw an aggregate with the first letter of its name: m for numbers, o for others."""
        number = self.numeric(self.random.choice(self.numbers(sources)))
        any_ = self.random.choice([c for s in sources for c in s.columns()])
        return self.random.choice([
            ("m", "COUNT(*)"), ("m", f"COUNT({any_})"), ("m", f"SUM({number})"),
            ("o", f"AVG({number})"), ("o", f"MIN({any_})"), ("o", f"MAX({any_})"),
            ("o", f"MIN({any_})"), ("m", f"COUNT(DISTINCT {any_})"),
            ("m", f"SUM({number}) FILTER (WHERE {self.condition(sources)})"),
            ("o", f"SUM({number}) * 2 + COUNT(*)"), ("o", f"SUM({number}) / 1.50 * COUNT(*)"),
            ("m", f"COUNT(*) FILTER (WHERE {any_} IS NULL)"),
        ])  # fmt: skip

    def numbers(self, sources):
        found = [c for s in sources for c in s.columns("number")]
        return found or [c for s in sources for c in s.columns("join")] or ["1"]


def draw_catalog(random):
    """Draw a catalog, in which some relations were counted, which decides between look-ups."""
    counts = ((name, random.choice([1, 100, 100_000])) for name in NAMES if random.random() < 0.7)
    return replace(catalog_of(draw_ddl(random)), row_counts=tuple(counts))
