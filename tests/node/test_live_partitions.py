"""Live views that are computed again by partition, as a node keeps them."""

from tests.node.live_world import apply, fill, opened, order, reached, require_equal, view

BEST = (
    "SELECT * FROM (SELECT o_c_id, o_id, o_total, row_number() OVER (PARTITION BY o_c_id ORDER BY"
    " o_total DESC, o_id) AS place FROM orders) AS s WHERE place <= 2"
)
NOTES = (
    "SELECT c_name, string_agg(o_note, ',' ORDER BY o_id) AS notes, median(o_total) AS middle"
    " FROM orders JOIN customer ON o_c_id = c_id GROUP BY c_name"
)
UNUSED = "SELECT c_id FROM customer EXCEPT ALL SELECT o_c_id FROM orders"
VIEWS = {"best": BEST, "notes": NOTES, "unused": UNUSED}


async def test_live_views_by_partition_follow_inserts_updates_and_deletes(tmp_path):
    views = [view(name, select) for name, select in VIEWS.items()]
    async with opened(tmp_path, *views, resident_refresh=True) as db:
        await fill(db)
        await reached(db, await order(db, 100, 1, 7, "last"))
        assert (0, 9, 9, 1) in await require_equal(db, "best")
        assert ("c1", "last", 5.5) in await require_equal(db, "notes")
        await db.execute("UPDATE orders SET o_total = -1, o_note = 'low' WHERE o_id = 9")
        await db.execute("UPDATE customer SET c_name = 'c1' WHERE c_id = 0")
        await db.execute("INSERT INTO customer VALUES (7, 'c7')")
        await db.execute("INSERT INTO orders VALUES (101, NULL, 3, 'alone')")
        done = await db.execute("DELETE FROM orders WHERE o_id = 100")
        await reached(db, done.commit_ts)
        for name in VIEWS:
            assert await require_equal(db, name)
        report = await db.verify(list(VIEWS))
        assert len(report.checked) == len(VIEWS)
        assert not report.differences


async def test_a_view_by_partition_is_declared_later_and_dropped(tmp_path):
    async with opened(tmp_path, view("notes", NOTES), resident_refresh=True) as db:
        await fill(db)
        await apply(db, view("notes", NOTES), view("best", BEST))
        await reached(db, await order(db, 100, 1, 7, "last"))
        assert await require_equal(db, "best")
        await apply(db, view("best", BEST))
        await reached(db, await order(db, 101, 1, 8))
        assert (1, 101, 8, 1) in await require_equal(db, "best")
