"""The star of an immediate view: a fact relation, and its parents along declared foreign keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hornbeam_server.maintain.deltas.algebra import Join, JoinKind, Map, Node, Scan
from hornbeam_server.query.dialect.duckdb_types import quoted
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import Unsupported
from hornbeam_server.schema.model import ForeignKey, Relation

LATER = "Declare it with refresh = 'deferred'."
"""The cure for a SELECT that transactions cannot maintain."""


@dataclass(frozen=True)
class Edge:
    """A join of a star: scan number `child` references the next scan by `key`. `outer`: rows of the
    child stay without a parent (LEFT JOIN)."""

    child: int
    key: ForeignKey
    outer: bool


@dataclass(frozen=True)
class Star:
    """`scans[0]` is the fact; `edges[i]` leads to `scans[i + 1]` from an earlier scan. `filters`
    are conditions over the fields of the scans, as SQL."""

    scans: tuple[Scan, ...]
    edges: tuple[Edge, ...]
    filters: tuple[str, ...]

    @property
    def relations(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(scan.relation for scan in self.scans))

    def joined_sql(self) -> str:
        """The joined rows as SQL over the relations, before the filters."""
        columns = [
            f"s{number}.{quoted(column)} AS {quoted(field.name)}"
            for number, scan in enumerate(self.scans)
            for column, field in zip(scan.columns, scan.fields, strict=True)
        ]
        sql = f"SELECT {', '.join(columns)} FROM {quoted(self.scans[0].relation)} AS s0"
        for number, edge in enumerate(self.edges, start=1):
            pairs = zip(edge.key.columns, edge.key.parent_columns, strict=True)
            on = [f"s{edge.child}.{quoted(a)} = s{number}.{quoted(b)}" for a, b in pairs]
            kind = "LEFT JOIN" if edge.outer else "JOIN"
            parent = quoted(self.scans[number].relation)
            sql += f" {kind} {parent} AS s{number} ON {' AND '.join(on)}"
        return sql


@dataclass
class _Parts:
    """The parts of a tree of joins. Pairs are the names of two equal fields; `outer` has the
    numbers of scans on the right of a LEFT JOIN."""

    scans: list[Scan] = field(default_factory=list)
    pairs: list[tuple[str, str]] = field(default_factory=list)
    filters: list[str] = field(default_factory=list)
    outer: set[int] = field(default_factory=set)


def star_of(node: Node, catalog: Catalog) -> Star:
    """The star of a tree of joins. Raises Unsupported if it is none, with the reason."""
    parts = _Parts()
    _collect(node, parts)
    joins = _joins(parts, catalog)
    if parts.outer - joins.keys():
        raise _refused("A LEFT JOIN whose right side is not the referenced relation")
    facts = [i for i in range(len(parts.scans)) if i not in joins]
    if len(facts) != 1:
        names = ", ".join(parts.scans[i].relation for i in facts)
        raise Unsupported(
            f"No single relation references all others by foreign keys: {names or 'a circle'}.",
            cure=f"Join each relation to one that references it by a foreign key. {LATER}",
        )
    order = [facts[0]]
    edges: list[Edge] = []
    for child in order:  # grows while it is read
        for parent, (source, key) in joins.items():
            if source == child:
                edges.append(Edge(order.index(child), key, parent in parts.outer))
                order.append(parent)
    if len(order) != len(parts.scans):
        raise _refused("A circle of joins")
    return Star(tuple(parts.scans[i] for i in order), tuple(edges), tuple(parts.filters))


def _collect(node: Node, parts: _Parts) -> None:
    match node:
        case Scan():
            parts.scans.append(node)
        case Map() if all(node.passes.get(f.name) == f.name for f in node.fields):
            _collect(node.input, parts)
            if node.where:
                parts.filters.append(node.where)
        case Join(kind=JoinKind.INNER, keys=()):
            raise _refused("A join that has no equality of two columns")
        case Join(kind=JoinKind.INNER, bound=None):
            _collect(node.left, parts)
            _collect(node.right, parts)
            parts.pairs += node.keys
            if node.condition:
                parts.filters.append(node.condition)
        case Join(kind=JoinKind.LEFT, condition="", right=Scan()):
            _collect(node.left, parts)
            parts.outer.add(len(parts.scans))
            _collect(node.right, parts)
            parts.pairs += node.keys
        case Join(kind=JoinKind.LEFT):
            raise _refused("A LEFT JOIN with more conditions than its foreign key")
        case Join():
            raise _refused("EXISTS, IN or a subquery in a condition")
        case _:
            raise _refused("A subquery, DISTINCT or UNION below the aggregate")


def _joins(parts: _Parts, catalog: Catalog) -> dict[int, tuple[int, ForeignKey]]:
    """For each scan that is a parent: the number of the scan that references it, and the foreign
    key. Equalities of two scans that belong to no foreign key become filters. Raises Unsupported
    for a LEFT JOIN with such equalities."""
    owner = {f.name: i for i, scan in enumerate(parts.scans) for f in scan.fields}
    between: dict[tuple[int, int], list[tuple[str, str]]] = {}
    for left, right in parts.pairs:
        a, b = owner[left], owner[right]
        pair = (left, right) if a < b else (right, left)
        between.setdefault((min(a, b), max(a, b)), []).append(pair)
    found: dict[int, tuple[int, ForeignKey]] = {}
    for (a, b), pairs in between.items():
        ways = [(a, b, pairs), (b, a, [(y, x) for x, y in pairs])]
        edges = [
            (child, parent, key)
            for child, parent, given in ways
            if parent not in found
            and (key := _foreign_key(parts.scans, child, parent, given, catalog))
        ]
        outer = b in parts.outer
        if outer and (not edges or edges[0][1] != b):
            raise _refused("A LEFT JOIN that is not along a declared foreign key")
        rest = pairs
        if edges:
            child, parent, key = edges[0]
            found[parent] = (child, key)
            rest = _rest(parts.scans, child, pairs, key)
        if outer and rest:
            raise _refused("A LEFT JOIN with more conditions than its foreign key")
        parts.filters += [f"{quoted(x)} = {quoted(y)}" for x, y in rest]
    return found


def _foreign_key(
    scans: Sequence[Scan],
    child: int,
    parent: int,
    pairs: Sequence[tuple[str, str]],
    catalog: Catalog,
) -> ForeignKey | None:
    """The foreign key of scan `child` whose columns are equated with the key of `parent`."""
    columns = {(scans[child].column[a], scans[parent].column[b]) for a, b in pairs}
    relation: Relation = catalog.schema.relation(scans[child].relation)
    for key in relation.key_edges:
        wanted = set(zip(key.columns, key.parent_columns, strict=True))
        if key.parent == scans[parent].relation and wanted <= columns:
            return key
    return None


def _rest(
    scans: Sequence[Scan], child: int, pairs: Sequence[tuple[str, str]], key: ForeignKey
) -> list[tuple[str, str]]:
    """The equalities of two scans beyond the foreign key `key` of `child`."""
    wanted = dict(zip(key.columns, key.parent_columns, strict=True))
    column = {name: c for scan in scans for name, c in scan.column.items()}
    mine = scans[child].field

    def is_of_key(pair: tuple[str, str]) -> bool:
        a, b = pair if pair[0] in mine else pair[::-1]
        return wanted.get(column[a]) == column[b]

    return [pair for pair in pairs if not is_of_key(pair)]


def _refused(what: str) -> Unsupported:
    return Unsupported(f"{what} cannot be maintained by transactions.", cure=LATER)
