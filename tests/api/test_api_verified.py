"""`/v1/status` has the newest verification of each view, index, foreign key and CHECK."""

from __future__ import annotations

import pytest

from tests.api.security_world import VIEW, secure_world
from tests.txlayer.test_transactions_verify import damage


@pytest.fixture
def secured(tmp_path):
    with secure_world(tmp_path) as world:
        yield world


def verified(secured, key=None):
    status = secured.request(key or secured.root, "GET", "/v1/status").json()
    return {each["name"]: each for each in status["verified"]}


def verify(secured, **body):
    assert secured.request(secured.root, "POST", "/v1/verify", json=body).status_code == 200


def test_a_verification_is_kept_with_its_rows_and_differences(secured):
    assert verified(secured) == {}
    verify(secured)
    found = verified(secured)
    assert found[VIEW]["kind"] == "view"
    assert (found[VIEW]["rows"], found[VIEW]["differences"]) == (2, 0)
    assert {each["kind"] for each in found.values()} == {"view", "index", "foreign key"}


def test_differences_are_kept_until_they_are_repaired_and_verified_again(secured):
    secured.world.run(damage(secured.world.database, VIEW, "missing"))
    verify(secured)
    assert (verified(secured)[VIEW]["differences"], verified(secured)[VIEW]["repaired"]) == (1, 0)
    verify(secured, repair=True)
    assert (verified(secured)[VIEW]["differences"], verified(secured)[VIEW]["repaired"]) == (1, 1)
    verify(secured)
    assert verified(secured)[VIEW]["differences"] == 0


def test_one_view_verified_again_keeps_the_others(secured):
    verify(secured)
    before = verified(secured)
    secured.transact(secured.root, "INSERT INTO orders VALUES (3, 2, 7)")
    verify(secured, names=[VIEW])
    after = verified(secured)
    assert after.keys() == before.keys()
    assert after[VIEW]["rows"] == 3
    assert after[VIEW]["snapshot"] > before[VIEW]["snapshot"]
    others = after.keys() - {VIEW}
    assert {n: after[n] for n in others} == {n: before[n] for n in others}


def test_a_key_with_grants_gets_only_what_it_may_read(secured):
    verify(secured)
    limited = secured.made("reader", {VIEW: "read"})
    assert VIEW in verified(secured, limited)
    assert all(name.startswith(VIEW) for name in verified(secured, limited))


def test_a_damaged_view_is_right_after_it_is_built_again(secured):
    database = secured.world.database
    secured.world.run(damage(database, VIEW, "missing"))
    answer = secured.request(secured.root, "POST", "/v1/rebuild", json={"views": [VIEW]})
    assert answer.status_code == 200
    assert answer.json()["views"][0] == VIEW
    secured.world.run(database.keeper.wait_built())
    verify(secured)
    assert verified(secured)[VIEW]["differences"] == 0
    assert verified(secured)[VIEW]["rows"] == 2


def test_only_views_that_commits_keep_are_built_again(secured):
    index = next(i.name for i in secured.world.database.catalog.indexes)
    for name in ("nothing", "orders", index):
        refused = secured.request(secured.root, "POST", "/v1/rebuild", json={"views": [VIEW, name]})
        assert refused.status_code == 404
        assert name in refused.json()["detail"]
    assert secured.world.database.catalog.readable(VIEW)
