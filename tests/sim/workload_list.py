"""A linked list: each node under a root of its own, each pointer a foreign key to another root.

Transactions insert, remove and splice anywhere. The form is drawn: the pointer is a column of the
node that references the same relation, or a row that lives below the node it comes from, or below
the node it leads to, and then moves when it changes. The list is closed (its end leads back to the
head, deletes are restricted) or open (its end leads nowhere, deleting a node sets the pointer to it
to NULL).

In a closed list the constraints keep order: two pointers never lead to one node, so a transaction
that relies on a past list is refused, and inserting and removing need no more. Other transactions
are optimistic.

Readers check at every snapshot: from the head the pointers lead to each node once; the back links,
by index and by view, are the inverse; cursors lead to existing nodes.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from hornbeam_server.node.database import Database
from hornbeam_server.schema.catalog import Catalog, Forest
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import ConstraintViolation
from hornbeam_server.schema.model import Schema
from hornbeam_server.txlayer.statements.requests import Statement
from tests.sim.interactive import Interactive
from tests.sim.simulation import Client, Journal
from tests.txlayer.database_world import catalog_of, first_edges

HEAD = 0
IDS = 12
"""Nodes have ids below this; inserting an id that is there is refused."""
CURSORS = 3
_IN_NODE = """
    CREATE TABLE node (
      n_id INTEGER PRIMARY KEY, n_label TEXT NOT NULL,
      n_next INTEGER {null} UNIQUE REFERENCES node (n_id) ON DELETE {on_delete});
    """
_IN_ROWS = """
    CREATE TABLE node (n_id INTEGER PRIMARY KEY, n_label TEXT NOT NULL);
    CREATE TABLE link (
      l_from INTEGER PRIMARY KEY REFERENCES node (n_id) ON DELETE CASCADE,
      l_to INTEGER {null} UNIQUE REFERENCES node (n_id) ON DELETE {on_delete});
    """
_CURSOR = """
    CREATE TABLE cursor (
      k_id INTEGER PRIMARY KEY, k_n_id INTEGER REFERENCES node (n_id) ON DELETE SET NULL);
    """
_NODES = "SELECT n_id, n_label FROM node"
_CURSORS = "SELECT k_id, k_n_id FROM cursor"
_AT_CURSORS = "SELECT k_id, n_id, n_label FROM node, cursor WHERE n_id = k_n_id"


class LinkedList:
    oracle = True

    def __init__(self, rng: random.Random) -> None:
        self.form = rng.choice(["in node", "below origin", "below target"])
        self.closed = rng.random() < 0.5
        self.length = rng.randint(1, IDS - 3)
        self.names = ("node", "n_id", "n_next")
        if self.form != "in node":
            self.names = ("link", "l_from", "l_to")
        self._relation, self._from, self._to = self.names
        self._links = f"SELECT {self._from}, {self._to} FROM {self._relation}"
        # The node at the other end of the foreign key below which the pointer lives.
        self._joined = (
            f"SELECT n_id, n_label, {self._from}, {self._to} FROM node, link"
            f" WHERE n_id = {'l_from' if self.form == 'below origin' else 'l_to'}"
        )
        self._seen = list(range(self.length))

    # ------------------------------------------------------------ schema

    def catalog(self) -> Catalog:
        schema = self._schema()
        indexed = ("node__cursor", "n_label")
        if self.form != "in node":
            indexed = ("node__link", "l_to" if self.form == "below origin" else "l_from")
        return catalog_of(schema, forest=self._forest(schema), view_indexes=[indexed])

    def _schema(self) -> Schema:
        null, on_delete = ("NOT NULL", "RESTRICT") if self.closed else ("", "SET NULL")
        pointers = _IN_NODE if self.form == "in node" else _IN_ROWS
        return load_ddl(pointers.format(null=null, on_delete=on_delete) + _CURSOR)

    def _forest(self, schema: Schema) -> Forest:
        forest = first_edges(schema)
        if self.form != "below target":
            return forest
        (below,) = [fk for fk in schema.relation("link").foreign_keys if fk.columns == ("l_to",)]
        edges = {**dict(forest.parents), "link": below}
        return replace(forest, parents=tuple(edges.items()))

    async def set_up(self, database: Database) -> None:
        after = [*range(1, self.length), HEAD if self.closed else None]
        links = list(enumerate(after))
        if self.form == "in node":
            nodes = [(node, "first", to) for node, to in links]
            await database.load("node", ["n_id", "n_label", "n_next"], nodes)
        else:
            await database.load("node", ["n_id", "n_label"], [(n, "first") for n, _ in links])
            await database.load("link", ["l_from", "l_to"], links)
        await database.load("cursor", ["k_id", "k_n_id"], [(k, HEAD) for k in range(CURSORS)])

    # ------------------------------------------------------------ parts of transactions

    def _turn(self, node: int, to: int | None) -> list[Statement]:
        sql = f"UPDATE {self._relation} SET {self._to} = ? WHERE {self._from} = ?"
        return [Statement(sql, (to, node))]

    def _add(self, node: int, to: int | None, label: str) -> list[Statement]:
        if self.form == "in node":
            return [Statement("INSERT INTO node VALUES (?, ?, ?) RETURNING 1", (node, label, to))]
        return [
            Statement("INSERT INTO node VALUES (?, ?) RETURNING 1", (node, label)),
            Statement("INSERT INTO link VALUES (?, ?)", (node, to)),
        ]

    def _drop(self, node: int) -> list[Statement]:
        return [Statement("DELETE FROM node WHERE n_id = ? RETURNING -1", (node,))]

    # ------------------------------------------------------------ transactions

    async def step(self, client: Client) -> None:
        (work,) = client.random.choices(
            [self._insert, self._remove, self._splice, self._point, self._rename, self._read],
            [20, 18, 20, 7, 5, 30],
        )
        try:
            await work(client)
        except _Elsewhere:
            client.journal.counts["the list is another"] += 1
        except ConstraintViolation as error:
            client.journal.counts[type(error).__name__] += 1

    async def _insert(self, client: Client) -> None:
        node, before = client.random.randrange(1, IDS), client.random.choice(self._seen)
        look = _Look(self, client)
        after = await look.next(before)
        work = [self._turn(before, node), self._add(node, after, client.name)]
        # If all other nodes were gone by then, no constraint would keep a node from following
        # itself.
        await self._commit(look, work, guarded=node not in (before, after))

    async def _remove(self, client: Client) -> None:
        node = client.random.choice(self._seen)
        if node != HEAD:
            look = _Look(self, client)
            before, after = await look.previous(node), await look.next(node)
            work = [self._turn(before, after), self._drop(node)]
            await self._commit(look, work)

    async def _splice(self, client: Client) -> None:
        """Cut out a few nodes from `first` on and put them after `place`."""
        first, place = (client.random.choice(self._seen) for _ in range(2))
        look = _Look(self, client)
        part = [first]
        while len(part) < client.random.randint(1, 3) and (n := await look.next(part[-1])):
            part.append(n)
        if HEAD in part or place in part:
            return
        before, after = await look.previous(first), await look.next(part[-1])
        if place != before:
            work = [
                self._turn(before, after),
                self._turn(part[-1], await look.next(place)),
                self._turn(place, first),
            ]
            await self._commit(look, work, guarded=False)

    async def _commit(
        self, look: _Look, work: list[list[Statement]], *, guarded: bool = True
    ) -> None:
        """`guarded`: in a closed list the constraints refuse the transaction if the list has
        changed."""
        client = look.client
        client.random.shuffle(work)
        statements = [statement for part in work for statement in part]
        if guarded and self.closed and client.random.random() < 0.5:
            await client.transact(*statements)
        else:
            await look.commit(*statements)

    async def _point(self, client: Client) -> None:
        cursor, node = client.random.randrange(CURSORS), client.random.choice(self._seen)
        sql = "UPDATE cursor SET k_n_id = ? WHERE k_id = ?"
        await client.transact(Statement(sql, (node, cursor)))

    async def _rename(self, client: Client) -> None:
        label, node = f"{client.name} was here", client.random.choice(self._seen)
        await client.transact(
            Statement("UPDATE node SET n_label = ? WHERE n_id = ?", (label, node))
        )

    # ------------------------------------------------------------ invariants

    async def _read(self, client: Client) -> None:
        node = client.random.choice(self._seen)
        back = (f"{self._links} WHERE {self._to} = ?", (node,))
        found = await client.read(*self._queries(), back)
        if found is not None:
            self._verify(*found[:-1])
            assert found[-1] == [(a, b) for a, b in found[1] if b == node], "the index lies"
            self._seen = [number for number, _ in found[0]]

    def _queries(self) -> list[str]:
        shared = [_NODES, self._links, _CURSORS, _AT_CURSORS]
        return shared if self.form == "in node" else [*shared, self._joined]

    def _verify(
        self,
        nodes: list[tuple],
        links: list[tuple],
        cursors: list[tuple],
        at_cursors: list[tuple],
        joined: list[tuple] | None = None,
    ) -> None:
        label, after = dict(nodes), dict(links)
        assert self._walked(after) == sorted(label) == sorted(after), (nodes, links)
        expected = [(k, node, label[node]) for k, node in cursors if node is not None]
        assert len(cursors) == CURSORS, cursors
        assert sorted(at_cursors) == sorted(expected), "the view is not the join"
        if joined is not None:
            end = 0 if self.form == "below origin" else 1
            shown = [
                (link[end], label[link[end]], *link) for link in links if link[end] is not None
            ]
            assert sorted(joined) == sorted(shown), "the view is not the join"

    def _walked(self, after: dict[int, int | None]) -> list[int]:
        """The nodes from the head to the end, sorted. Raises AssertionError if a node comes
        twice."""
        way, node = [HEAD], after[HEAD]
        while node != (HEAD if self.closed else None):
            assert node in after, f"{way} leads to {node}, which is not there"
            assert node not in way, f"{way} leads to {node} again"
            way.append(node)
            node = after[node]
        return sorted(way)

    async def check(self, database: Database, journal: Journal) -> None:
        for use_views in (True, False):
            found = [await database.fetch(sql, use_views=use_views) for sql in self._queries()]
            self._verify(*found)
        assert len(found[0]) == self.length + journal.returned, "effects are not answers"


class _Elsewhere(Exception):
    """A node has moved or is gone, or there was no answer."""


class _Look(Interactive):
    """Follows the pointers of one snapshot."""

    def __init__(self, linked: LinkedList, client: Client) -> None:
        super().__init__(client)
        self._linked = linked

    async def next(self, node: int) -> int | None:
        relation, origin, to = self._linked.names
        return await self._one(f"SELECT {to} FROM {relation} WHERE {origin} = ?", node)

    async def previous(self, node: int) -> int:
        relation, origin, to = self._linked.names
        return await self._one(f"SELECT {origin} FROM {relation} WHERE {to} = ?", node)

    async def _one(self, sql: str, node: int | None) -> Any:
        rows = await self.look(sql, (node,))
        if not rows:
            raise _Elsewhere
        return rows[0][0]
