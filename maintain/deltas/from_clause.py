"""FROM of one SELECT: its items, and their joins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sqlglot import exp

from hornbeam_server.maintain.deltas.algebra import (
    Join,
    JoinKind,
    Map,
    Node,
    Scan,
    Union,
    Working,
    null_of,
    walk,
)
from hornbeam_server.maintain.deltas.expressions import (
    Scope,
    column,
    conjuncts,
    names_in,
    refused,
    rename,
    text,
)
from hornbeam_server.maintain.deltas.operators import (
    bounds_of,
    filtered,
    mapped,
    named,
    pair_of,
    renamed,
)
from hornbeam_server.query.dialect.duckdb_types import quoted
from hornbeam_server.query.dialect.grammar import at
from hornbeam_server.schema.errors import Unsupported


@dataclass(frozen=True)
class Cte:
    """A WITH query and the WITH queries that it may name. `recursive`: it names itself. `working`:
    in its own recursive term it stands for these rows."""

    node: exp.CTE
    known: Ctes
    recursive: bool = False
    working: Working | None = None


Ctes = Mapping[str, Cte]


@dataclass(frozen=True)
class Lateral:
    """The rows of a LATERAL subquery. Its first columns equal the outer expressions `outer`.
    `always`: an outer row without a partner is kept."""

    rows: Map
    outer: Sequence[exp.Expr]
    always: bool


class Queries(Protocol):
    """The translator of the whole statement, as its FROM clauses use it."""

    @property
    def sql(self) -> str: ...
    def query(self, node: exp.Expr, ctes: Ctes) -> Map: ...
    def recursion(self, cte: Cte) -> Node: ...
    def scan(self, relation: str, alias: str) -> tuple[Scan, dict[str, str]]: ...
    def alias(self, alias: str) -> str: ...
    def no_subquery(self, node: exp.Expr) -> None: ...
    def lateral(self, node: exp.Lateral, ctes: Ctes, outer: Scope) -> Lateral: ...
    def further_out(self, place: exp.Expr) -> Unsupported: ...
    def join(
        self, kind: JoinKind, left: Node, right: Node, on: Sequence[exp.Expr], place: exp.Expr
    ) -> Join: ...


class FromClause:
    """The FROM items of one SELECT, and their joins."""

    def __init__(
        self, translator: Queries, ctes: Ctes, scope: Scope
    ) -> None:  # fmt: skip
        self._translator = translator
        self._ctes = ctes
        self._scope = scope
        self._steps: list[tuple[exp.Join | None, Node]] = []
        self._laterals: dict[int, tuple[bool, list[exp.Expr]]] = {}
        """Joins with a LATERAL subquery, by id: whether outer rows without a partner are kept, and
        what the subquery equates."""

    def plan(self, first: exp.Expr, joins: Sequence[exp.Join]) -> None:
        """Register all items, so that every name is known before conditions are translated."""
        self._steps.append((None, self._item(first)))
        for join in [*(first.args.get("joins") or ()), *joins]:
            item = self._lateral(join) if isinstance(join.this, exp.Lateral) else None
            self._steps.append((join, self._item(join.this) if item is None else item))
            if join.this.args.get("joins"):
                raise refused("A join inside a join", join, self._translator.sql, "Write it flat.")

    def _item(self, node: exp.Expr) -> Node:
        translator = self._translator
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            if node.name in self._ctes and not node.args.get("db"):
                return self._derived(node, self._cte(node.name), node.alias or node.name)
            return self._relation(node)
        if isinstance(node, exp.Subquery) and not isinstance(node.this, exp.Table):
            if not node.alias:
                raise Unsupported(
                    f"A subquery in FROM has no alias{at(node, translator.sql)}.",
                    cure="Write (SELECT …) AS name.",
                )
            return self._derived(node, translator.query(node.this, self._ctes), node.alias)
        raise refused(f"{text(node)} in FROM", node, translator.sql, "Name a relation.")

    def _lateral(self, join: exp.Join) -> Node:
        node = join.this
        found = self._translator.lateral(node, self._ctes, self._scope)
        if not node.alias or self._checked(join) not in ("", "LEFT"):
            raise refused(
                "LATERAL without an alias, or with RIGHT or FULL JOIN,", node, self._translator.sql,
                "Write [LEFT] JOIN LATERAL (SELECT …) AS name ON true.",
            )  # fmt: skip
        rows = self._derived(node, found.rows, node.alias)
        keys = zip(found.outer, rows.fields, strict=False)
        equal: list[exp.Expr] = [
            exp.EQ(this=theirs.copy(), expression=column(key.name)) for theirs, key in keys
        ]
        self._laterals[id(join)] = found.always, equal
        return rows

    def _cte(self, name: str) -> Map:
        cte = self._ctes[name]
        node: Node
        if cte.working is not None:
            node = cte.working
        elif cte.recursive:
            node = self._translator.recursion(cte)
        else:
            node = self._translator.query(cte.node.this, cte.known)
        names = [part.name for part in cte.node.args["alias"].columns]
        own = [field.name.rpartition(".")[2] for field in node.fields]
        kept = [names[i] if i < len(names) else name for i, name in enumerate(own)]
        return renamed(node, dict(zip(kept, [f.name for f in node.fields], strict=True)))

    def _relation(self, node: exp.Table) -> Node:
        alias = node.alias or node.name
        scan, names = self._translator.scan(node.name, alias)
        self._scope.columns[alias] = names
        return scan

    def _derived(self, node: exp.Expr, query: Map, alias: str) -> Node:
        given = node.args.get("alias")
        renames = [part.name for part in given.columns] if given else []
        prefix = self._translator.alias(alias)
        visible = [
            renames[i] if i < len(renames) else field.name for i, field in enumerate(query.fields)
        ]
        names = {name: f"{prefix}.{name}" for name in visible}
        self._scope.columns[alias] = names
        own = [field.name for field in query.fields]
        return renamed(query, dict(zip(names.values(), own, strict=True)))

    def join(self, where: Sequence[exp.Expr]) -> Node:
        """All items joined, with the conditions of the WHERE pushed down as far as possible."""
        pool = list(where)
        run = [self._steps[0][1]]
        mine: list[exp.Expr] = []
        for i, (join, item) in enumerate(self._steps[1:], start=1):
            assert join is not None
            side, on = self._checked(join), self._on(join)
            if not side:
                run.append(item)
                mine += on
                continue
            # Rows that a later RIGHT or FULL join adds must still meet the WHERE.
            later = {self._checked(j) for j, _ in self._steps[i:] if j is not None}
            usable = pool if later <= {"", "LEFT"} else []
            left, used = self._inner(run, [*mine, *usable])
            self._all_used(mine, used, join)
            pool = [part for part in pool if not _is_one_of(part, used)]
            run, mine = [self._outer(side, left, item, on, join)], []
        node, used = self._inner(run, [*mine, *pool])
        self._all_used([*mine, *pool], used, exp.Join())
        return node

    def _all_used(
        self, wanted: Sequence[exp.Expr], used: Sequence[exp.Expr], place: exp.Expr
    ) -> None:
        if not all(_is_one_of(part, used) for part in wanted):
            raise self._translator.further_out(place)

    def _checked(self, join: exp.Join) -> str:
        """The side, LEFT, RIGHT or FULL; empty for inner joins. Raises Unsupported."""
        method, kind, side = (join.args.get(key) or "" for key in ("method", "kind", "side"))
        full_using = side == "FULL" and (join.args.get("using") or method)
        if (
            method not in ("", "NATURAL")
            or kind not in ("", "INNER", "CROSS", "OUTER")
            or full_using
        ):
            raise refused(
                f"{method} {side} {kind} JOIN".replace("  ", " ").strip(), join,
                self._translator.sql, "Join with ON; write [NOT] EXISTS for semi and anti joins.",
            )  # fmt: skip
        always, _ = self._laterals.get(id(join), (False, None))
        return "LEFT" if always else str(side)

    def _on(self, join: exp.Join) -> list[exp.Expr]:
        found = [rename(part, self._scope) for part in conjuncts(join.args.get("on"))]
        _, equal = self._laterals.get(id(join), (False, ()))
        found += equal
        for part in found:
            self._translator.no_subquery(part)
        for pair in join.meta.get("pairs", ()):
            names = [self._scope.find(alias, name) for _, alias, name, _ in pair]
            if None in names:
                raise refused("USING", join, self._translator.sql, "Join with ON.")
            left, right = (column(name) for name in names if name is not None)
            found.append(exp.EQ(this=left, expression=right))
        return found

    def _outer(
        self, side: str, left: Node, right: Node, on: Sequence[exp.Expr], place: exp.Join
    ) -> Node:
        join = self._translator.join
        if side == "LEFT":
            return join(JoinKind.LEFT, left, right, on, place)
        if side == "RIGHT":
            return join(JoinKind.LEFT, right, left, on, place)
        first = join(JoinKind.LEFT, left, right, on, place)
        second = join(JoinKind.ANTI, right, left, on, place)
        padded = mapped(second, [
            (field, quoted(field.name), field.name) if field.name in right.field
            else (field, null_of(field), None)
            for field in first.fields
        ])  # fmt: skip
        fields = tuple(named(f, f.name, nullable=True) for f in first.fields)
        return Union((first, padded), fields)

    def _inner(
        self, items: Sequence[Node], pool: Sequence[exp.Expr]
    ) -> tuple[Node, list[exp.Expr]]:
        """Inner joins of `items`, from left to right except that connected items come first, and
        the rows of a recursion last; and the conditions used."""
        used: list[exp.Expr] = []

        def take(names: set[str]) -> list[exp.Expr]:
            found = [p for p in pool if not _is_one_of(p, used) and names_in(p) <= names]
            used.extend(found)
            return found

        waiting = [filtered(item, take(set(item.field))) for item in items]
        waiting.sort(key=_is_working)
        node = waiting.pop(0)
        while waiting:
            item = max(waiting, key=lambda e: (not _is_working(e), _connection(node, e, pool)))
            waiting = [w for w in waiting if w is not item]
            on = take({*node.field, *item.field})
            keyed = [part for part in on if pair_of(part, node, item) is not None]
            rest = [part for part in on if keyed and not _is_one_of(part, keyed)]
            place = self._steps[-1][0] or exp.Join()
            join = self._translator.join(JoinKind.INNER, node, item, keyed or on, place)
            node = filtered(join, rest)
        return node, used


def _is_working(item: Node) -> bool:
    return any(isinstance(node, Working) for node in walk(item))


def _is_one_of(part: exp.Expr, parts: Sequence[exp.Expr]) -> bool:
    return any(part is other for other in parts)


def _connection(node: Node, item: Node, pool: Sequence[exp.Expr]) -> int:
    """2 for an equality of columns of both, 1 for another comparison, 0 without one."""
    if any(pair_of(part, node, item) is not None for part in pool):
        return 2
    return int(any(bounds_of(part, node, item) for part in pool))
