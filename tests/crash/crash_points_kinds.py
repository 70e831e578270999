"""Kinds of transactions and of schema changes to crash in, on a small shop.

Each can be repeated, as a client without an answer does: it has an idempotency key, or first checks
whether it is done.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

from hornbeam_server.maintain.immediate.definition import define
from hornbeam_server.maintain.spans import Span
from hornbeam_server.node.database import Database
from hornbeam_server.node.dependents import without_key
from hornbeam_server.query.binding.renaming import renamed
from hornbeam_server.schema.catalog import Catalog, State
from hornbeam_server.schema.copies import Using, copies_for
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import UniqueViolation
from hornbeam_server.schema.model import DeclaredView, Refresh, Relation, Schema
from hornbeam_server.schema.renames import Rename
from hornbeam_server.schema.stages import added_names, first_stage, with_hidden
from hornbeam_server.storage.ports import NEWEST, TOMBSTONE, Put
from hornbeam_server.storage.snapshot import Snapshot
from hornbeam_server.txlayer.commit.failpoints import Step
from hornbeam_server.txlayer.statements.requests import (
    RepairRows,
    Statement,
    TransactionRequest,
    TransactionResult,
    Work,
)
from tests.txlayer.database_world import SHOP, catalog_of, fill_load, stored_rows

COMMIT = frozenset(
    {
        Step.QUEUED,
        Step.TICKED,
        Step.LOGGED,
        Step.ANSWERED,
        Step.APPLYING,
        Step.APPLIED,
        Step.FINISHED,
        Step.CHECKPOINT_FLUSHED,
        Step.CHECKPOINTED,
    }
)
RECOVERY = frozenset({Step.REPLAYING, Step.REPLAYED, Step.RECOVERED})
PUBLISH = frozenset({Step.CATALOG_STORED, Step.CATALOG_IN_FORCE, Step.SWITCHED})
CHANGE = PUBLISH | {Step.TABLES_CREATED, Step.ADMITTED}
BUILD = frozenset({Step.BUILDING, Step.BUILT})
DROP = frozenset({Step.DROPPING, Step.DROPPED})

VIEWS = (
    ("customer", "orders"),
    ("customer", "orders", "line"),
    ("line", "gift"),
    ("customer", "orders", "line", "gift"),
)

_schema = functools.cache(load_ddl)
"""Schemas are immutable, and each crash needs one."""


def shop(*, views: int = len(VIEWS), unique: str = "", base: Catalog | None = None) -> Catalog:
    """The shop with the first `views` of VIEWS; with `unique`, a UNIQUE index is added on it."""
    ddl = f"CREATE UNIQUE INDEX added ON {unique};" if unique else ""
    filters = [("customer__orders", "c_name"), ("customer__orders__line", "l_quantity")]
    return catalog_of(_schema(SHOP + ddl), views=VIEWS[:views], view_indexes=filters, base=base)


TICKETS = """
CREATE SEQUENCE numbers INCREMENT BY 3;
CREATE TABLE ticket (n_id BIGINT PRIMARY KEY DEFAULT nextval('numbers'), n_no BIGINT);
"""


def tickets() -> Catalog:
    """The shop, and a relation that takes its keys and values from one sequence."""
    return catalog_of(_schema(SHOP + TICKETS), views=VIEWS[:1])


IMMEDIATE = {
    "by_name": "SELECT c_name, count(*) AS n, sum(l_quantity) AS total, max(l_quantity) AS high,"
    " count(DISTINCT l_p_id) AS products FROM line JOIN orders ON l_o_id = o_id"
    " JOIN customer ON o_c_id = c_id GROUP BY c_name",
    "by_product": "SELECT p_name, count(*) AS n FROM line JOIN product ON l_p_id = p_id"
    " GROUP BY p_name",
}


def totals(*names: str, base: Catalog | None = None) -> Catalog:
    """The shop with the immediate views `names` and no join views; by default with all."""
    wanted = names or tuple(IMMEDIATE)
    made = base or catalog_of(_schema(SHOP), views=[])
    declared = tuple(
        DeclaredView(name, IMMEDIATE[name], refresh=Refresh.IMMEDIATE) for name in wanted
    )
    relations = replace(made, schema=replace(made.schema, views=declared))
    views = tuple(define(view, relations).view for view in declared)
    known = {name: state for name, state in made.states if name not in IMMEDIATE}
    known |= {view.name: made.state.get(view.name, State.BUILDING) for view in views}
    version = made.version + (base is not None)
    return replace(relations, version=version, immediate=views, states=tuple(known.items()))


TAGS = """
CREATE TABLE kind (k_id INTEGER PRIMARY KEY, k_code TEXT UNIQUE);
CREATE TABLE tag (
  t_k_id INTEGER DEFAULT 0 REFERENCES kind ON UPDATE CASCADE ON DELETE SET DEFAULT,
  t_code TEXT REFERENCES kind (k_code) ON UPDATE CASCADE ON DELETE CASCADE);
"""
"""Rows without a primary key, which follow the key and a UNIQUE value of other rows."""


def tags() -> Catalog:
    return catalog_of(_schema(SHOP + TAGS), views=[*VIEWS[:1], ("kind", "tag")])


Ask = Callable[[Database], Awaitable[Any]]


async def _nothing(_: Database) -> None:
    pass


@dataclass(frozen=True, eq=False)
class Kind:
    """Each of `asks` is a request that gives the same answer each time. Several run concurrently
    and have effects of their own. `prepare` runs before them, on `catalog`. `passes` are the steps
    that they reach, `recovers` the steps that a recovery reaches when it is cut."""

    name: str
    asks: tuple[Ask, ...]
    passes: frozenset[Step] = COMMIT
    recovers: frozenset[Step] = RECOVERY
    prepare: Callable[[Database], Awaitable[None]] = _nothing
    catalog: Catalog = field(default_factory=shop)
    is_refused: bool = False


# ------------------------------------------------------------ transactions


def reported(result: TransactionResult) -> tuple[Any, ...]:
    """The answer without its times."""
    return result.transaction_id, result.commit_ts, result.statements, dict(result.affected)


async def _transact(database: Database, key: str, *work: Work) -> tuple[Any, ...]:
    return reported(await database.transact(TransactionRequest(work, idempotency_key=key)))


def _asking(key: str, *statements: str) -> Ask:
    return lambda database: _transact(database, key, *map(Statement, statements))


def _transaction(name: str, *statements: str) -> Kind:
    return Kind(name, (_asking(name, *statements),))


async def _ask_twice(database: Database) -> Any:
    """A client repeats its request before the first answer comes."""
    work = Statement("UPDATE product SET p_stock = p_stock + 1 WHERE p_id = 2")
    first, second = await asyncio.gather(*[_transact(database, "twice", work) for _ in range(2)])
    assert first == second
    return first


async def _fill_tags(database: Database) -> None:
    await database.execute("INSERT INTO kind VALUES (0, 'none'), (1, 'a'), (2, 'b')")
    await database.execute("INSERT INTO tag VALUES (1, 'b'), (1, 'a'), (1, 'a'), (2, NULL)")


async def _load(database: Database) -> Any:
    rows = [(100 + n, 1 + n % 3, n) for n in range(5)]
    columns = ["o_id", "o_c_id", "o_total"]
    return reported(await database.load("orders", columns, rows, idempotency_key="load"))


_STAFF = {"employee": [(1, None, "eve"), (2, 1, "al"), (3, 1, None)]}


async def _load_initially(database: Database) -> None:
    """Load a relation that has an index, as Spark does."""
    if await stored_rows(database, "employee", database.watermark()):
        return
    await database.initial_loads.begin(tuple(_STAFF), "staff", {})
    await fill_load(database, _STAFF)
    load = database.catalog.load
    assert load is not None
    await database.initial_loads.finish(load.number, "employee", Span(b"", None), 3)
    await database.initial_loads.end(load.number)


_DAMAGED = "customer__orders"


async def _damage(database: Database) -> None:
    """Delete the rows of one view in the store, without the database."""
    table = database.catalog.layout(_DAMAGED).table
    async for cells in database.store.scan(table, b"", None, NEWEST):
        puts = [Put(cell.key, TOMBSTONE) for cell in cells]
        await database.store.put({table: puts}, database.watermark())


async def _repair(database: Database) -> Any:
    """Repair rows, as `verify --repair` does with the differences that it finds."""
    codec = database.manager.state.codecs(_DAMAGED)
    keys = tuple(codec.key_of((order,)) for order in (10, 11, 20))
    return await _transact(database, "repair", RepairRows(_DAMAGED, keys))


async def _keep_house(database: Database) -> Any:
    """Refresh counts, purge old versions, drop old segments of the log."""
    answer = await _transact(
        database, "stock", Statement("INSERT INTO product VALUES (5, 'a', 1), (6, 'b', 1)")
    )
    await database.keeper.refresh_counts(factor=1.1)
    await asyncio.sleep(1.5)
    await database.log.roll()
    await database.purge()
    return answer


# ------------------------------------------------------------ schema changes


def _change(name: str, passes: frozenset[Step], *, before: int = len(VIEWS), **wanted: Any) -> Kind:
    """Change the shop with `before` views to the `wanted` one, while a transaction writes."""

    async def ask(database: Database) -> None:
        catalog = shop(base=database.catalog, **wanted)
        if dict(catalog.states) != database.catalog.state:
            await database.keeper.apply(catalog)

    write = _asking("other", "UPDATE gift SET g_text = 'red' WHERE g_id = 1")
    return Kind(
        name,
        (write, ask),
        COMMIT | CHANGE | passes,
        RECOVERY | DROP | passes,
        catalog=shop(views=before),
    )


def _change_totals(name: str, passes: frozenset[Step], before: Catalog, *after: str) -> Kind:
    """Change the immediate views from `before` to the views `after`, while a transaction changes
    a row that they add up."""

    async def ask(database: Database) -> None:
        if set(database.catalog.immediate_view) != set(after):
            await database.keeper.apply(totals(*after, base=database.catalog))

    write = _asking("other", "UPDATE line SET l_quantity = 9, l_p_id = 2 WHERE l_o_id = 20")
    return Kind(name, (write, ask), COMMIT | CHANGE | passes, RECOVERY | DROP, catalog=before)


async def _convert(database: Database) -> None:
    """Give the texts of gifts other values, and drop the key of gifts, by two copies of the
    relation, one after the other."""
    if database.catalog.schema.relation("gift").declared_key:
        stages = iter([True, False])
        await database._copies.change(_converted, goes_on=lambda: next(stages))
    await database.keeper.wait_built()


async def _converted(current: Catalog) -> Catalog:
    """The shop, in which the texts of gifts are in upper case, and gifts have no key; or the first
    stage, in which they have the numbers that will be their key."""
    gift = without_key(current.schema.relation("gift"))
    schema, staged = _with_gift(current.schema, gift), current.staged
    usings = (Using("gift", "g_text", "upper(g_text)"),)
    stage = first_stage(current.schema, schema)
    if stage is not None:
        schema, usings = with_hidden(stage.base, stage.columns), ()
        staged = added_names(current.schema, schema)
    numbers, states = dict(current.incarnations), dict(current.states)
    for index in current.indexes if stage is None else ():
        if index.on == "gift" and not index.unique:
            numbers[index.name], states[index.name] = numbers.get(index.name, 0) + 1, State.BUILDING
    return replace(
        current,
        version=current.version + 1,
        schema=schema,
        copies=copies_for(current.schema, schema, usings),
        staged=staged,
        incarnations=tuple(numbers.items()),
        states=tuple((name, state) for name, state in states.items() if name not in current.copy),
    )


def _with_gift(schema: Schema, gift: Relation) -> Schema:
    relations = tuple(gift if each.name == "gift" else each for each in schema.relations)
    return replace(schema, relations=relations)


async def _exchange_names(database: Database) -> None:
    """Let products and employees exchange their names, unless they have."""
    if database.catalog.stored_name("product") != "product":
        return
    pairs = (("product", "x"), ("employee", "product"), ("x", "employee"))
    renames = [Rename(old, "", new) for old, new in pairs]

    async def made(current: Catalog) -> Catalog:
        return replace(renamed(current, renames), version=current.version + 1)

    await database.keeper.change(made, renames=renames)


async def _damage_totals(database: Database) -> None:
    """Change a sum of an immediate view in the store, without the database."""
    view = database.catalog.immediate_view["by_name"]
    codec = database.manager.state.codecs(view.cells_name)
    at = codec.layout.column_names.index("sum0")
    reader = Snapshot(database.store, database.manager.state.codecs, database.watermark())
    cells = [cell async for batch in reader.scan(view.cells_name) for cell in batch]
    damaged = (*cells[0][:at], cells[0][at] + 1_000, *cells[0][at + 1 :])
    put = Put(codec.key(damaged), codec.encode(damaged))
    await database.store.put({codec.layout.table: [put]}, database.watermark())


async def _repair_totals(database: Database) -> None:
    """Build the damaged view again, as `verify --repair` does with a view that differs, unless this
    has begun: then its tables are newer than those of the other view."""
    numbers = dict(database.catalog.incarnations)
    if numbers["by_name"] == numbers["by_product"]:
        await database.keeper.rebuild(["by_name"])
    await database.keeper.wait_built()


async def _refuse(database: Database) -> None:
    """Add a UNIQUE index on the products of lines, which is refused because they repeat."""
    try:
        await database.keeper.apply(shop(unique="line (l_p_id)", base=database.catalog))
    except UniqueViolation:
        return
    raise AssertionError("rows that break a constraint were admitted")


KINDS = (
    _transaction("insert of a row", "INSERT INTO product VALUES (3, 'cap', 1)"),
    _transaction(
        "insert of a tree",
        "INSERT INTO customer VALUES (4, 'dee', 0, 'd@x')",
        "INSERT INTO orders VALUES (40, 4, 3), (41, 4, 4)",
        "INSERT INTO line VALUES (40, 1, 1, 1), (40, 2, 2, 1), (41, 1, 1, 1)",
        "INSERT INTO gift VALUES (4, 40, 1, 'new')",
    ),
    _transaction(
        "update of view rows", "UPDATE line SET l_quantity = 9 WHERE l_o_id = 10 AND l_no = 1"
    ),
    _transaction("update of an ancestor", "UPDATE customer SET c_name = 'zed' WHERE c_id = 1"),
    _transaction("move of a subtree", "UPDATE orders SET o_c_id = 2 WHERE o_id = 10"),
    _transaction("delete with cascade", "DELETE FROM orders WHERE o_id = 11"),
    _transaction("delete with set null", "DELETE FROM line WHERE l_o_id = 20 AND l_no = 1"),
    _transaction(
        "unique value moved",
        "UPDATE customer SET c_email = NULL WHERE c_id = 1",
        "UPDATE customer SET c_email = 'a@x' WHERE c_id = 3",
    ),
    _transaction(
        "on conflict do update",
        "INSERT INTO product VALUES (1, 'pen', 7), (4, 'bag', 1)"
        " ON CONFLICT (p_id) DO UPDATE SET p_stock = product.p_stock + excluded.p_stock",
    ),
    _transaction(
        "two roots",
        "UPDATE customer SET c_balance = c_balance - 5 WHERE c_id = 1",
        "UPDATE customer SET c_balance = c_balance + 5 WHERE c_id = 2",
    ),
    _transaction(
        "identity column", "INSERT INTO event (v_kind) VALUES ('in'), ('out') RETURNING v_id"
    ),
    Kind(
        "shared sequence",
        (
            _asking(
                "tickets",
                "INSERT INTO ticket (n_no) VALUES (nextval('numbers')), (currval('numbers'))"
                " RETURNING n_id, n_no",
                "UPDATE ticket SET n_no = nextval('numbers') WHERE n_id > 0 RETURNING n_no",
            ),
        ),
        catalog=tickets(),
    ),
    Kind(
        "keys and references followed",
        (
            _asking(
                "tags",
                "INSERT INTO tag VALUES (2, 'a'), (2, 'a') RETURNING t_code",
                "UPDATE kind SET k_id = k_id + 10, k_code = k_code || '!' WHERE k_id > 0",
                "DELETE FROM kind WHERE k_id = 12",
            ),
        ),
        prepare=_fill_tags,
        catalog=tags(),
    ),
    Kind(
        "many at once",
        (
            _asking("many 0", "INSERT INTO product VALUES (3, 'cap', 1)"),
            _asking(
                "many 1",
                "UPDATE customer SET c_name = 'zed' WHERE c_id = 1",
                "UPDATE gift SET g_text = 'blue' WHERE g_id = 1",
            ),
            _asking("many 2", "INSERT INTO orders VALUES (31, 3, 1)"),
            _asking("many 3", "DELETE FROM line WHERE l_o_id = 20 AND l_no = 1"),
            _asking("many 4", "UPDATE customer SET c_name = 'amy' WHERE c_id = 2"),
            _asking("many 5", "UPDATE customer SET c_name = 'eva' WHERE c_id = 3"),
        ),
    ),
    Kind("asked twice", (_ask_twice,)),
    Kind("bulk load", (_load,)),
    Kind(
        "initial load",
        (_asking("other", "UPDATE gift SET g_text = 'red' WHERE g_id = 1"), _load_initially),
        COMMIT | CHANGE,
        RECOVERY | DROP,
    ),
    Kind("repair", (_repair,), prepare=_damage),
    Kind("housekeeping", (_keep_house,), COMMIT | PUBLISH),
    _change("view added", BUILD, before=len(VIEWS) - 1),
    _change("view dropped", DROP, views=len(VIEWS) - 1),
    _change("unique index added", frozenset(), unique="gift (g_text)"),
    Kind(
        "commit with immediate views",
        (
            _asking(
                "lines",
                "INSERT INTO line VALUES (30, 1, 1, 7), (30, 2, 2, 7)",
                "UPDATE line SET l_quantity = NULL WHERE l_o_id = 10 AND l_no = 1",
            ),
            _asking(
                "groups",
                "UPDATE customer SET c_name = 'zed' WHERE c_id = 1",
                "UPDATE product SET p_name = 'zed' WHERE p_id = 1",
            ),
        ),
        catalog=totals(),
    ),
    _change_totals("immediate view added", BUILD, totals("by_product"), *IMMEDIATE),
    _change_totals("immediate view dropped", DROP, totals(), "by_product"),
    Kind(
        "immediate view repaired",
        (_asking("other", "UPDATE line SET l_quantity = 9 WHERE l_o_id = 20"), _repair_totals),
        COMMIT | CHANGE | BUILD,
        RECOVERY | DROP,
        prepare=_damage_totals,
        catalog=totals(),
    ),
    Kind(
        "values converted and a key dropped",
        (
            _asking("other", "UPDATE gift SET g_text = 'RED' WHERE g_id = 1"),
            _convert,
        ),
        COMMIT | CHANGE | BUILD | DROP,
        RECOVERY | DROP,
        catalog=catalog_of(_schema(SHOP), views=[]),
    ),
    Kind(
        "names exchanged",
        (_asking("other", "UPDATE gift SET g_text = 'red' WHERE g_id = 1"), _exchange_names),
        COMMIT | CHANGE,
        RECOVERY,
    ),
    Kind("schema refused", (_refuse,), frozenset({Step.TABLES_CREATED}), DROP, is_refused=True),
)
