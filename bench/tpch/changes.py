"""Random transactions on TPC-H: inserts, updates and deletes in all relations, from a seed.

TPC-H's own refresh functions only add and remove orders. Here every relation changes, and so do the
values that the queries filter by: dates, flags, segments, comments and balances begin and cease to
satisfy their conditions. The transactions keep the foreign keys: a parent exists before its
children, and only rows without children are deleted. So all statements succeed if they run in
order.
"""

from __future__ import annotations

import csv
import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

Key = tuple[int, ...]
FIRST_DAY = dt.date(1992, 1, 1)
DAYS = 2_500
SEGMENTS = ("AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY")
PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW")
MODES = ("AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK")
TYPES = (
    "PROMO BRUSHED TIN",
    "PROMO PLATED STEEL",
    "STANDARD ANODIZED BRASS",
    "ECONOMY BURNISHED NICKEL",
)
WORDS = ("special", "requests", "packages", "deposits", "accounts", "pending", "quickly", "ironic")
KEYS: dict[str, tuple[str, ...]] = {
    "region": ("r_regionkey",),
    "nation": ("n_nationkey",),
    "part": ("p_partkey",),
    "supplier": ("s_suppkey",),
    "partsupp": ("ps_partkey", "ps_suppkey"),
    "customer": ("c_custkey",),
    "orders": ("o_orderkey",),
    "lineitem": ("l_orderkey", "l_linenumber"),
}
PARENTS: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "nation": (("region", ("n_regionkey",)),),
    "supplier": (("nation", ("s_nationkey",)),),
    "partsupp": (("part", ("ps_partkey",)), ("supplier", ("ps_suppkey",))),
    "customer": (("nation", ("c_nationkey",)),),
    "orders": (("customer", ("o_custkey",)),),
    "lineitem": (
        ("orders", ("l_orderkey",)),
        ("partsupp", ("l_partkey", "l_suppkey")),
    ),
}


class Statement(NamedTuple):
    sql: str
    parameters: tuple[Any, ...]


Transaction = tuple[Statement, ...]


class _Bag:
    """A set of keys. Adding, removing and drawing a random key take constant time."""

    def __init__(self) -> None:
        self._keys: list[Key] = []
        self._at: dict[Key, int] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, key: Key) -> None:
        self._at[key] = len(self._keys)
        self._keys.append(key)

    def remove(self, key: Key) -> None:
        at, last = self._at.pop(key), self._keys.pop()
        if last != key:
            self._keys[at], self._at[last] = last, at

    def highest(self) -> int:
        """The highest first part of a key; 0 if there are no keys."""
        return max((key[0] for key in self._keys), default=0)

    def draw(self, random: Random) -> Key:
        return self._keys[random.randrange(len(self._keys))]


class Changes:
    """An endless sequence of transactions over the loaded data. Equal files and seeds give equal
    sequences."""

    def __init__(self, files: Mapping[str, Path], seed: int) -> None:
        self._random = Random(seed)
        self._keys = {name: _Bag() for name in KEYS}
        self._parents: dict[tuple[str, Key], dict[str, Key]] = {}
        """By relation and key: the keys of the parents, by relation."""
        self._children: Counter[tuple[str, Key]] = Counter()
        self._lines: dict[Key, list[Key]] = {}
        """By order: the keys of its lines."""
        for name, path in files.items():
            with path.open(newline="") as file:
                for row in csv.DictReader(file):
                    self._note(name, {c: int(row[c]) for c in _key_columns(name)})
        self._next = {name: bag.highest() for name, bag in self._keys.items()}

    def __iter__(self) -> Iterator[Transaction]:
        kinds: list[tuple[int, Callable[[], Transaction]]] = [
            (6, self._new_order),
            (4, self._drop_order),
            (8, self._change_order),
            (8, self._change_lines),
            (4, self._change_customer),
            (3, self._change_part),
            (2, self._new_customer),
            (2, self._drop_childless),
            (2, self._new_line),
            (3, self._drop_line),
            (2, self._new_part),
            (1, self._change_supplier),
            (1, self._new_supplier),
            (1, self._change_place),
            (1, self._new_place),
        ]
        weights = [weight for weight, _ in kinds]
        while True:
            ((_, create),) = self._random.choices(kinds, weights)
            if transaction := create():
                yield transaction

    # ------------------------------------------------------------ orders

    def _new_order(self) -> Transaction:
        key = (self._number("orders"),)
        order = self._insert("orders", self._order(key))
        return (order, *(self._line(key, n) for n in range(1, self._random.randint(2, 6))))

    def _order(self, key: Key) -> dict[str, Any]:
        random = self._random
        return {
            "o_orderkey": key[0],
            "o_custkey": self._any("customer")[0],
            "o_orderstatus": random.choice("FOP"),
            "o_totalprice": self._money(0, 300_000),
            "o_orderdate": self._day(),
            "o_orderpriority": random.choice(PRIORITIES),
            "o_clerk": f"Clerk#{random.randint(1, 1000):09}",
            "o_shippriority": 0,
            "o_comment": self._comment(),
        }

    def _line(self, order: Key, number: int) -> Statement:
        random, (part, supplier) = self._random, self._any("partsupp")
        shipped = self._day()
        return self._insert(
            "lineitem",
            {
                "l_orderkey": order[0],
                "l_partkey": part,
                "l_suppkey": supplier,
                "l_linenumber": number,
                "l_quantity": Decimal(random.randint(1, 50)),
                "l_extendedprice": self._money(900, 100_000),
                "l_discount": self._money(0, 0.1),
                "l_tax": self._money(0, 0.08),
                "l_returnflag": random.choice("RAN"),
                "l_linestatus": random.choice("OF"),
                "l_shipdate": shipped,
                "l_commitdate": shipped + dt.timedelta(random.randint(-30, 60)),
                "l_receiptdate": shipped + dt.timedelta(random.randint(1, 30)),
                "l_shipinstruct": "NONE",
                "l_shipmode": random.choice(MODES),
                "l_comment": self._comment(2),
            },
        )

    def _drop_order(self) -> Transaction:
        order = self._any("orders")
        lines = [self._delete("lineitem", line) for line in list(self._lines.get(order, ()))]
        return (*lines, self._delete("orders", order))

    def _change_order(self) -> Transaction:
        changed = {
            "o_custkey": self._any("customer")[0],
            "o_orderdate": self._day(),
            "o_orderpriority": self._random.choice(PRIORITIES),
            "o_comment": self._comment(),
        }
        return (self._update("orders", self._any("orders"), self._some(changed)),)

    def _new_line(self) -> Transaction:
        order = self._any("orders")
        numbers = {line[1] for line in self._lines.get(order, ())}
        return (self._line(order, next(n for n in range(1, 100) if n not in numbers)),)

    def _drop_line(self) -> Transaction:
        return (self._delete("lineitem", self._any("lineitem")),)

    def _change_lines(self) -> Transaction:
        updates = []
        for _ in range(self._random.randint(1, 3)):
            part, supplier = self._any("partsupp")
            changed = {
                "l_quantity": Decimal(self._random.randint(1, 50)),
                "l_extendedprice": self._money(900, 100_000),
                "l_discount": self._money(0, 0.1),
                "l_returnflag": self._random.choice("RAN"),
                "l_shipdate": self._day(),
                "l_receiptdate": self._day(),
                "l_shipmode": self._random.choice(MODES),
            }
            chosen = self._some(changed)
            if self._random.random() < 0.3:
                chosen |= {"l_partkey": part, "l_suppkey": supplier}
            updates.append(self._update("lineitem", self._any("lineitem"), chosen))
        return tuple(updates)

    # ------------------------------------------------------------ other relations

    def _new_customer(self) -> Transaction:
        key, (nation,) = self._number("customer"), self._any("nation")
        row = {
            "c_custkey": key,
            "c_name": f"Customer#{key:09}",
            "c_address": self._comment(2),
            "c_nationkey": nation,
            "c_phone": self._phone(nation),
            "c_acctbal": self._money(-1000, 10_000),
            "c_mktsegment": self._random.choice(SEGMENTS),
            "c_comment": self._comment(),
        }
        return (self._insert("customer", row),)

    def _change_customer(self) -> Transaction:
        (nation,) = self._any("nation")
        changed = {
            "c_nationkey": nation,
            "c_phone": self._phone(nation),
            "c_acctbal": self._money(-1000, 10_000),
            "c_mktsegment": self._random.choice(SEGMENTS),
        }
        return (self._update("customer", self._any("customer"), self._some(changed)),)

    def _new_part(self) -> Transaction:
        """Insert a part with a supplier."""
        key = self._number("part")
        row = {
            "p_partkey": key,
            "p_name": self._comment(2),
            "p_mfgr": "Manufacturer#1",
            "p_brand": f"Brand#{self._random.randint(11, 55)}",
            "p_type": self._random.choice(TYPES),
            "p_size": self._random.randint(1, 50),
            "p_container": "JUMBO PKG",
            "p_retailprice": self._money(900, 2000),
            "p_comment": self._comment(1),
        }
        supplied = {
            "ps_partkey": key,
            "ps_suppkey": self._any("supplier")[0],
            "ps_availqty": self._random.randint(1, 9999),
            "ps_supplycost": self._money(1, 1000),
            "ps_comment": self._comment(),
        }
        return self._insert("part", row), self._insert("partsupp", supplied)

    def _change_part(self) -> Transaction:
        part = {"p_type": self._random.choice(TYPES), "p_retailprice": self._money(900, 2000)}
        supplied = {"ps_availqty": self._random.randint(1, 9999)}
        return (
            self._update("part", self._any("part"), self._some(part)),
            self._update("partsupp", self._any("partsupp"), supplied),
        )

    def _new_supplier(self) -> Transaction:
        key, (nation,) = self._number("supplier"), self._any("nation")
        row = {
            "s_suppkey": key,
            "s_name": f"Supplier#{key:09}",
            "s_address": self._comment(2),
            "s_nationkey": nation,
            "s_phone": self._phone(nation),
            "s_acctbal": self._money(-1000, 10_000),
            "s_comment": self._comment(),
        }
        return (self._insert("supplier", row),)

    def _change_supplier(self) -> Transaction:
        changed = {"s_nationkey": self._any("nation")[0], "s_acctbal": self._money(-1000, 10_000)}
        return (self._update("supplier", self._any("supplier"), self._some(changed)),)

    def _new_place(self) -> Transaction:
        region, nation = self._number("region"), self._number("nation")
        return (
            self._insert(
                "region",
                {"r_regionkey": region, "r_name": f"REGION {region}", "r_comment": self._comment()},
            ),
            self._insert(
                "nation",
                {
                    "n_nationkey": nation,
                    "n_name": f"NATION {nation}",
                    "n_regionkey": region,
                    "n_comment": self._comment(),
                },
            ),
        )

    def _change_place(self) -> Transaction:
        nation = {"n_name": f"NATION {self._comment(1)}", "n_regionkey": self._any("region")[0]}
        return (
            self._update("nation", self._any("nation"), self._some(nation)),
            self._update("region", self._any("region"), {"r_comment": self._comment()}),
        )

    def _drop_childless(self) -> Transaction:
        """Delete a row without children, of a relation whose rows mostly have children. Empty if no
        such row is drawn."""
        names = ("region", "nation", "part", "supplier", "partsupp", "customer")
        name = self._random.choice(names)
        for _ in range(20):
            key = self._any(name)
            if len(self._keys[name]) > 2 and not self._children[name, key]:
                return (self._delete(name, key),)
        return ()

    # ------------------------------------------------------------ values

    def _any(self, name: str) -> Key:
        return self._keys[name].draw(self._random)

    def _number(self, name: str) -> int:
        self._next[name] += 1
        return self._next[name]

    def _some(self, values: dict[str, Any]) -> dict[str, Any]:
        """A random choice of the values, at least one."""
        names = self._random.sample(list(values), self._random.randint(1, len(values)))
        return {name: values[name] for name in names}

    def _money(self, low: float, high: float) -> Decimal:
        return Decimal(self._random.randint(round(low * 100), round(high * 100))).scaleb(-2)

    def _day(self) -> dt.date:
        return FIRST_DAY + dt.timedelta(self._random.randrange(DAYS))

    def _comment(self, words: int = 4) -> str:
        return " ".join(self._random.choices(WORDS, k=words))

    def _phone(self, nation: int) -> str:
        return f"{10 + nation % 25}-{self._random.randint(100, 999)}-555-0100"

    # ------------------------------------------------------------ statements

    def _insert(self, name: str, row: dict[str, Any]) -> Statement:
        self._note(name, {column: row[column] for column in _key_columns(name)})
        sql = f"INSERT INTO {name} ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})"
        return Statement(sql, tuple(row.values()))

    def _update(self, name: str, key: Key, values: dict[str, Any]) -> Statement:
        for parent, columns in PARENTS.get(name, ()):
            if columns[0] in values:
                self._move(name, key, parent, tuple(values[column] for column in columns))
        assigned = ", ".join(f"{column} = ?" for column in values)
        sql = f"UPDATE {name} SET {assigned} WHERE {_where(name)}"
        return Statement(sql, (*values.values(), *key))

    def _delete(self, name: str, key: Key) -> Statement:
        assert not self._children[name, key], "only rows without children are deleted"
        self._keys[name].remove(key)
        for parent, parent_key in self._parents.pop((name, key)).items():
            self._children[parent, parent_key] -= 1
        if name == "lineitem":
            self._lines[key[:1]].remove(key)
        return Statement(f"DELETE FROM {name} WHERE {_where(name)}", key)

    def _note(self, name: str, values: Mapping[str, int]) -> None:
        """Record that a row exists from now on."""
        key = tuple(values[column] for column in KEYS[name])
        self._keys[name].add(key)
        self._parents[name, key] = {
            parent: tuple(values[column] for column in columns)
            for parent, columns in PARENTS.get(name, ())
        }
        self._children.update(self._parents[name, key].items())
        if name == "lineitem":
            self._lines.setdefault(key[:1], []).append(key)

    def _move(self, name: str, key: Key, parent: str, to: Key) -> None:
        """Record that a row has another parent in the relation `parent`."""
        parents = self._parents[name, key]
        self._children[parent, parents[parent]] -= 1
        self._children[parent, to] += 1
        parents[parent] = to


def _key_columns(name: str) -> tuple[str, ...]:
    """The columns of a relation's primary key and foreign keys."""
    references = (column for _, columns in PARENTS.get(name, ()) for column in columns)
    return tuple(dict.fromkeys((*KEYS[name], *references)))


def _where(name: str) -> str:
    return " AND ".join(f"{column} = ?" for column in KEYS[name])
