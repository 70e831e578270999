"""COMMENT ON at a node: it changes the catalog alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from hornbeam_server.node.database import Database
from hornbeam_server.node.schema_plans import PlanRequest
from hornbeam_server.schema.commented import commented
from hornbeam_server.schema.ddl import load_comment, load_ddl, render_ddl
from hornbeam_server.schema.errors import UnknownName
from tests.txlayer.database_world import catalog_of, opened, settings

DDL = "CREATE TABLE t (id INT PRIMARY KEY, a INT);"


async def comment(database: Database, sql: str) -> None:
    await database.keeper.restate(lambda now: commented(now, load_comment(sql, now)))


def texts(database: Database) -> list[str]:
    return [each.text for each in database.catalog.comments]


async def test_a_comment_leaves_older_snapshots_readable_and_states_as_they_are(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path, catalog_of(load_ddl(DDL))) as database:
        await database.execute("INSERT INTO t VALUES (1, 1)")
        before = database.catalog
        async with database.query("SELECT count(*) FROM t") as result:
            snapshot = result.snapshot
            assert await result.stream.all() == [(1,)]
        await comment(database, "COMMENT ON TABLE t IS 'x'")
        await database.execute("INSERT INTO t VALUES (2, 1)")
        catalog = database.catalog
        assert (catalog.version, catalog.since) == (before.version + 1, before.since)
        assert (catalog.states, catalog.incarnations) == (before.states, before.incarnations)
        assert await database.fetch("SELECT count(*) FROM t", snapshot=snapshot) == [(1,)]
        await comment(database, "COMMENT ON TABLE t IS 'x'")
        assert database.catalog.version == catalog.version
        with pytest.raises(UnknownName):
            await comment(database, "COMMENT ON TABLE u IS 'x'")
        assert texts(database) == ["x"]


async def test_a_plan_of_comments_alone_leaves_older_snapshots_readable(tmp_path: Path) -> None:
    async with opened(tmp_path, catalog_of(load_ddl(DDL))) as database:
        before = database.catalog
        async with database.query("SELECT count(*) FROM t") as result:
            snapshot = result.snapshot
            await result.stream.all()
        ddl = render_ddl(before.schema)
        request = PlanRequest(f"{ddl}COMMENT ON COLUMN t.a IS 'y';", None)
        plan = database.plan_schema(request)
        await database.apply_schema(request, plan.plan_id, allow_drop=False)
        assert texts(database) == ["y"]
        assert database.catalog.since == before.since
        assert await database.fetch("SELECT count(*) FROM t", snapshot=snapshot) == [(0,)]


async def test_a_comment_outlives_the_process(tmp_path: Path) -> None:
    async with opened(tmp_path, catalog_of(load_ddl(DDL))) as database:
        await comment(database, "COMMENT ON TABLE t IS 'x'")
    async with await Database.open(settings(tmp_path)) as database:
        assert texts(database) == ["x"]
        await comment(database, "COMMENT ON TABLE t IS ''")
        assert texts(database) == []
