"""Schemas and workloads with the shape of the Join Order Benchmark: a hub to which most relations
refer, small relations of kinds, and queries of up to 17 relations over all of them. A seed
determines them; they contain no text of that benchmark."""

from __future__ import annotations

import random
from itertools import pairwise

HUBS = {"film": "kind", "person": "", "firm": "land"}
SMALL = ("kind", "land", "fact_type", "role", "word", "link_kind", "state", "firm_kind")
FACTS = {
    "film_fact": ("film", "fact_type"),
    "film_rank": ("film", "fact_type"),
    "film_word": ("film", "word"),
    "film_firm": ("film", "firm", "firm_kind"),
    "film_link": ("film", "film", "link_kind"),
    "film_state": ("film", "state", "state"),
    "film_name": ("film",),
    "part": ("film", "person", "figure", "role"),
    "person_name": ("person",),
    "person_fact": ("person", "fact_type"),
}
PARENTS = {
    **dict.fromkeys(SMALL, ()),
    **{name: (kind,) if kind else () for name, kind in HUBS.items()},
    "figure": (),
    **FACTS,
}
"""Relation → the relations that its foreign keys refer to, 22 relations with 25 foreign keys."""


def schema(seed: int = 0) -> str:
    """Return the DDL; the seed determines which foreign keys may be NULL."""
    choose = random.Random(seed)
    return "\n".join(_table(name, parents, choose) for name, parents in PARENTS.items())


def _table(name: str, parents: tuple[str, ...], choose: random.Random) -> str:
    keys = [
        f"{column} INTEGER {choose.choice(('NOT NULL ', ''))}REFERENCES {parent}"
        for column, parent in _keys(name)
    ]
    columns = [f"{name}_id INTEGER PRIMARY KEY", f"{name}_text TEXT", f"{name}_year INTEGER"]
    return f"CREATE TABLE {name} ({', '.join([*columns, *keys])});"


def _keys(name: str) -> list[tuple[str, str]]:
    return [(f"{name}_{parent}{number}", parent) for number, parent in enumerate(PARENTS[name])]


def workload(queries: int = 113, seed: int = 0, most: int = 17) -> str:
    """Return queries of 4 to `most` relations, joined along foreign keys to one connected graph.
    About 40 % of them have joins that follow from others; most have some filters."""
    choose = random.Random(seed)
    texts = (_query(choose, 4 + (most - 4) * number // max(1, queries - 1)) for number in
             range(queries))  # fmt: skip
    return "\n".join(f"-- name: q{number}\n{text};" for number, text in enumerate(texts))


def _query(choose: random.Random, size: int) -> str:
    aliases = {"a0": "film"}
    joins: list[str] = []
    of_film: list[str] = []
    while len(aliases) < size:
        alias = choose.choice(list(aliases))
        new = f"a{len(aliases)}"
        below = [(child, column) for child in FACTS for column, parent in _keys(child)
                 if parent == aliases[alias]]  # fmt: skip
        above = _keys(aliases[alias])
        if below and (not above or choose.random() < 0.7):
            child, column = choose.choice(below)
            aliases[new] = child
            joins.append(f"{new}.{column} = {alias}.{aliases[alias]}_id")
            of_film += [f"{new}.{column}"] if alias == "a0" else []
        elif above:
            column, parent = choose.choice(above)
            if any(f"{alias}.{column} =" in join for join in joins):
                continue
            aliases[new] = parent
            joins.append(f"{alias}.{column} = {new}.{parent}_id")
    if len(of_film) > 1 and choose.random() < 0.4:
        joins += [f"{left} = {right}" for left, right in pairwise(of_film)]
    filters = [_filter(choose, alias, aliases[alias]) for alias in aliases
               if choose.random() < 0.4]  # fmt: skip
    shown = ", ".join(f"MIN({alias}.{aliases[alias]}_text)" for alias in list(aliases)[:3])
    tables = ", ".join(f"{relation} AS {alias}" for alias, relation in aliases.items())
    return f"SELECT {shown} FROM {tables} WHERE {' AND '.join(joins + filters)}"


def _filter(choose: random.Random, alias: str, relation: str) -> str:
    column, year = f"{alias}.{relation}", choose.randint(1950, 2020)
    return choose.choice((
        f"{column}_text = 'v{year}'",
        f"{column}_year > {year}",
        f"{column}_year BETWEEN {year} AND {year + 5}",
        f"{column}_text IN ('v{year}', 'w{year}')",
        f"{column}_text LIKE 'v{year}%'",
        f"{column}_text LIKE '%{year}%'",
    ))  # fmt: skip
