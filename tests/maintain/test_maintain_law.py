"""Incremental = recomputed = DuckDB, over generated schemas, catalogs and transactions."""

from hypothesis import given, settings
from hypothesis import strategies as st

from hornbeam_server.schema.catalog import State
from hornbeam_server.schema.model import Schema
from tests.depth import depth
from tests.maintain.maintain_world import World, catalog, index, relation, view

STATES = [State.READABLE] * 4 + [State.BUILDING, State.CATCHING_UP, State.QUARANTINED]
KEYS = range(3)


def draw_parents(relations, random):
    """Draw parents that mostly form chains, so that paths get long; sometimes two parents."""
    chosen = relations[-1:] if random.random() < 0.7 else random.sample(relations, len(relations))
    others = [r for r in relations if r not in chosen[:1]]
    return [*chosen[:1], *others[: random.choice([0, 0, 1])]]


def draw_schema(random):
    """Draw relations with keys of one or two columns. Foreign keys refer to earlier relations and
    to their own; they are plain (nullable, also partly NULL) or begin the key."""
    relations = []
    for i in range(random.randint(2, 5)):
        name = f"r{i}"
        columns, key, foreign_keys = [], [], []
        for j, parent in enumerate(draw_parents(relations, random)):
            names = [f"f{j}{column}" for column in parent.primary_key]
            columns += names
            foreign_keys.append((" ".join(names), parent.name, " ".join(parent.primary_key)))
            if j == 0 and random.random() < 0.3:
                key += names[:: random.choice([1, -1])]
        key += [f"k{i}a", f"k{i}b"][: random.randint(1, 2)]
        own = [column for column in key if column not in columns]
        if random.random() < 0.3:
            names = [f"s{column}" for column in key]
            columns += names
            foreign_keys.append((" ".join(names), name, " ".join(key)))
        columns += [*own, "v"]
        random.shuffle(columns)
        relations.append(relation(name, " ".join(columns), " ".join(key), *foreign_keys))
    return Schema(tuple(relations))


def draw_catalog(random):
    schema = draw_schema(random)
    parent = {}
    for r in schema.relations:
        edges = [fk for fk in r.foreign_keys if fk.parent != r.name]
        if edges and random.random() < 0.95:
            parent[r.name] = random.choice(edges)
    views, indexes = [], []
    for r in schema.relations:
        path, edges = [r.name], []
        while path[0] in parent:
            edges.insert(0, parent[path[0]])
            path.insert(0, edges[0].parent)
            if random.random() < 0.7:
                views.append(view(schema, *path, edges=tuple(edges)))
        for fk in r.foreign_keys:
            if random.random() < 0.6:
                columns = random.sample(fk.columns, len(fk.columns))
                indexes.append(index(r.name, " ".join(columns)))
    views = [v for v in views if random.random() < 0.8]
    views = [type(v)(f"v{i}", v.path, v.edges, v.columns) for i, v in enumerate(views)]
    for v in views:
        for _ in range(random.randint(0, 2)):
            of = schema.relation(random.choice(v.path))
            columns = [v.names[of.name, c] for c in random.choice([of.primary_key, ("v",)])]
            include = [random.choice(v.columns).name]
            indexes.append(index(v.name, random.choice(["", "-"]) + " ".join(columns), include))
    indexes = [type(i)(f"i{n}", i.on, i.columns, i.include) for n, i in enumerate(indexes)]
    states = {thing.name: random.choice(STATES) for thing in (*views, *indexes)}
    return catalog(schema, views, indexes, states)


class Transaction:
    """Random statements over a copy of the base rows, which keep the foreign keys valid."""

    def __init__(self, world, random):
        self.schema, self.random = world.catalog.schema, random
        self.rows = {name: dict(world.rows[name]) for name in self.schema.names}

    def run(self):
        for _ in range(self.random.choice([1, 1, 2, 3, 6])):
            r = self.random.choice(self.schema.relations)
            rows = self.rows[r.name]
            action = self.random.choice([self.insert, self.insert, self.update, self.delete])
            if action == self.insert or rows:
                action(r)
        return self.rows

    def reference(self, fk):
        """Draw the values of a foreign key; None stands for NULL, also without a parent row."""
        keys = sorted(self.rows[fk.parent])
        if not keys or self.random.random() < 0.15:
            return None
        return self.random.choice(keys)

    def values(self, r, keep):
        """Draw a row with the given columns `keep`; None if a needed parent is missing."""
        values = {c.name: self.random.choice(KEYS) for c in r.columns} | keep
        for fk in r.foreign_keys:
            if set(fk.columns) <= set(keep):
                continue
            found = self.reference(fk)
            if found is None and set(fk.columns) & set(r.primary_key):
                return None
            nulls = [None] * len(fk.columns)
            if found is None and len(nulls) > 1 and self.random.random() < 0.5:
                nulls[0] = 7  # partly NULL: references no row
            values |= zip(fk.columns, found or nulls, strict=True)
        return tuple(values[c.name] for c in r.columns)

    def insert(self, r):
        row = self.values(r, {})
        if row is not None:
            self.rows[r.name].setdefault(tuple(row[i] for i in r.key_positions), row)

    def update(self, r):
        key = self.random.choice(sorted(self.rows[r.name]))
        keep = dict(zip(r.primary_key, key, strict=True))
        if self.random.random() < 0.5:
            keep |= zip(r.column_names, self.rows[r.name][key], strict=True)
            keep["v"] = self.random.choice([None, *KEYS])
        row = self.values(r, keep)
        self.rows[r.name][key] = row

    def delete(self, r):
        self.remove(r, self.random.choice(sorted(self.rows[r.name])))

    def remove(self, r, key):
        """Delete a row; cascade to its children or set their references to NULL."""
        if self.rows[r.name].pop(key, None) is None:
            return
        for child, fk in self.schema.children(r.name):
            positions = [child.positions[c] for c in fk.columns]
            below = [
                child_key
                for child_key, row in self.rows[child.name].items()
                if tuple(row[i] for i in positions) == key
            ]
            in_key = not set(fk.columns).isdisjoint(child.primary_key)
            for child_key in below:
                if in_key or self.random.random() < 0.5:
                    self.remove(child, child_key)
                elif (row := self.rows[child.name].get(child_key)) is not None:
                    nulled = (None if i in positions else v for i, v in enumerate(row))
                    self.rows[child.name][child_key] = tuple(nulled)


def changed_rows(world, after):
    """Return relation → key → new row or None for the rows that differ from `world`."""
    return {
        name: {
            key: rows.get(key)
            for key in {**world.rows[name], **rows}
            if world.rows[name].get(key) != rows.get(key)
        }
        for name, rows in after.items()
    }


@settings(max_examples=depth(35, long=100))
@given(st.randoms(use_true_random=True))
def test_incremental_equals_recomputed_equals_duckdb(random):
    world = World(draw_catalog(random))
    for _ in range(8):
        world.commit(changed_rows(world, Transaction(world, random).run()))
        world.check()
