"""How often a write waits for a store on another machine, one wait after the other."""

import asyncio

import pytest

from bench.microdata import V1, V2, micro_catalog
from tests.txlayer.nodes_world import nodes
from tests.virtual_time import in_virtual_time

READ_S, PUT_S = 1.0, 100.0


def slow(store) -> None:
    """Let each read take 1 s and each put 100 s."""
    for name, seconds in (("get", READ_S), ("scan_prefixes", READ_S), ("put", PUT_S)):
        call = getattr(store, name)

        async def late(*arguments, call=call, seconds=seconds, **options):
            await asyncio.sleep(seconds)
            return await call(*arguments, **options)

        setattr(store, name, late)


@pytest.mark.parametrize(
    ("sql", "reads"),
    [
        ("UPDATE customer SET c_discount = 1 WHERE c_id = 1", 3),  # row; entries; rows of two views
        ("INSERT INTO orders (o_id, o_c_id) VALUES (9, 1)", 1),
        ("UPDATE orders SET o_total = 1 WHERE o_id = 1", 2),  # row; rows of two views
        ("UPDATE order_line SET ol_qty = 1 WHERE ol_id = 1 AND ol_o_id = 1", 2),  # as DELETE
        ("DELETE FROM order_line WHERE ol_id = 1 AND ol_o_id = 1", 2),  # row, of the view too; root
    ],
)
@in_virtual_time
async def test_reads_of_several_views_are_sent_together_and_no_put_is_waited_for(sql, reads):
    world = await nodes(0, catalog=micro_catalog(1, (V1, V2), {}))
    (node,) = world.living
    await node.transact("INSERT INTO customer (c_id, c_uname, c_discount) VALUES (1, 'u', 0)")
    await node.transact("INSERT INTO orders (o_id, o_c_id) VALUES (1, 1), (2, 1)")
    await node.transact("INSERT INTO order_line (ol_id, ol_o_id) VALUES (1, 1), (1, 2)")
    await node.do(node.database.committer.drain())
    slow(node.database.store)
    loop = asyncio.get_running_loop()
    began = loop.time()
    await node.transact(sql)
    assert round(loop.time() - began) == reads * READ_S
    await node.do(node.database.committer.drain())
    assert loop.time() - began > PUT_S
    await world.end()
