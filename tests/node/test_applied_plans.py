"""A plan that is applied is made once, unless what it was made from has changed."""

from __future__ import annotations

import pytest

from hornbeam_server.node import database, schema_changes
from hornbeam_server.node.schema_plans import PlanRequest
from hornbeam_server.schema.errors import StalePlan
from tests.txlayer.database_world import opened

FIRST = PlanRequest("CREATE TABLE a (id INTEGER PRIMARY KEY);")
SECOND = PlanRequest(f"{FIRST.ddl} CREATE TABLE b (id INTEGER PRIMARY KEY);")


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The DDL of each plan that is made."""
    made: list[str] = []
    plan_schema = database.plan_schema

    def counted(request, *arguments):
        made.append(request.ddl)
        return plan_schema(request, *arguments)

    for module in (database, schema_changes):
        monkeypatch.setattr(module, "plan_schema", counted)
    return made


async def test_the_plan_that_was_made_last_is_applied_as_it_is(tmp_path, plans):
    async with opened(tmp_path) as database:
        for request in (FIRST, SECOND):
            plan = database.plan_schema(request)
            await database.apply_schema(request, plan.plan_id)
        assert plans == [FIRST.ddl, SECOND.ddl]
        assert set(database.catalog.schema.names) == {"a", "b"}


async def test_another_plan_in_between_is_no_reason_to_refuse_the_first(tmp_path, plans):
    async with opened(tmp_path) as database:
        plan = database.plan_schema(FIRST)
        database.plan_schema(SECOND)
        await database.apply_schema(FIRST, plan.plan_id)
        assert plans == [FIRST.ddl, SECOND.ddl, FIRST.ddl]
        assert set(database.catalog.schema.names) == {"a"}


async def test_a_plan_from_a_catalog_that_has_changed_is_made_again_and_refused(tmp_path, plans):
    async with opened(tmp_path) as database:
        plan = database.plan_schema(SECOND)
        known, database._planned = database._planned, None
        await database.apply_schema(FIRST, database.plan_schema(FIRST).plan_id)
        database._planned = known
        with pytest.raises(StalePlan):
            await database.apply_schema(SECOND, plan.plan_id)
        assert plans == [SECOND.ddl, FIRST.ddl, SECOND.ddl]
        assert set(database.catalog.schema.names) == {"a"}


async def test_the_id_of_another_plan_is_refused(tmp_path):
    async with opened(tmp_path) as database:
        plan = database.plan_schema(FIRST)
        database.plan_schema(SECOND)
        with pytest.raises(StalePlan):
            await database.apply_schema(SECOND, plan.plan_id)
        assert not database.catalog.schema.names
