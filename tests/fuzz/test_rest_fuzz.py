"""The REST interface survives any request and any failure of its services.

`FUZZ_EXAMPLES=2000 FUZZ_SEED=7 pytest tests/fuzz -o timeout=0` tries more and other requests.
"""

from __future__ import annotations

import pytest

from hornbeam_server.api.security import api_keys
from tests.api.api_world import World, world
from tests.depth import depth
from tests.fuzz.faulty_world import faulty_world
from tests.fuzz.fuzz_shop import SEED
from tests.fuzz.long_lists import ITEMS, too_long
from tests.fuzz.rest_fuzz import (
    BOUNDS,
    FAILING,
    LIMITS,
    RANDOM,
    SOUND,
    fuzz,
    set_up,
    until_all_has_failed,
)
from tests.txlayer.database_world import settled

RANDOMS, FEW = depth(5, long=15), depth(2, long=5)
"""Random bodies of each operation."""


@pytest.mark.parametrize("phases", [RANDOM, BOUNDS], ids=["random", "bounds"])
def test_fuzzed_requests_get_documented_answers(tmp_path, phases):
    with world(tmp_path, **LIMITS) as shop:
        set_up(shop)
        found = fuzz(str(shop.client.base_url), allowed=SOUND, examples=RANDOMS, phases=phases)
        assert not found.wrong, "\n\n".join(found.wrong)
        assert set(found.calls) >= set(phases)
        expected = {200, 404, 409, 422} | ({405} if phases == BOUNDS else set())
        assert expected <= set(found.statuses), str(found)
        check(shop)
        assert set(shop.leaks().values()) == {0}


def test_fuzzed_requests_with_a_key_get_documented_answers(tmp_path):
    root = api_keys.fresh()
    asked = {"authentication": "keys", "bootstrap_key": api_keys.bootstrap_line(root)}
    with world(tmp_path, audit_log=tmp_path / "audit.log", **asked, **LIMITS) as shop:
        shop.client.headers["Authorization"] = f"Bearer {root.text}"
        set_up(shop)
        found = fuzz(
            str(shop.client.base_url), allowed=SOUND, examples=FEW, key=root.text, phases=RANDOM
        )
        assert not found.wrong, "\n\n".join(found.wrong)
        assert set(found.calls) >= set(RANDOM)
        assert {200, 401, 404, 409, 422} <= set(found.statuses), str(found)
        check(shop)
        assert set(shop.leaks().values()) == {0}


def test_fuzzed_requests_get_documented_answers_while_services_fail(tmp_path):
    with faulty_world(tmp_path, SEED, **LIMITS) as (shop, services):
        set_up(shop, patient=True)
        shop.run(services.unleash())
        found = fuzz(str(shop.client.base_url), allowed=FAILING, examples=RANDOMS, phases=RANDOM)
        until_all_has_failed(shop, services)
        shop.run(services.heal())
        assert not found.wrong, "\n\n".join(found.wrong)
        assert set(found.calls) >= set(RANDOM)
        assert {200, 503} <= set(found.statuses), str(found)
        check(shop)


def test_a_list_that_is_longer_than_its_bound_is_refused(tmp_path):
    with world(tmp_path) as shop:
        set_up(shop)
        asked = list(too_long(shop.client.get("/openapi.json").json()))
        assert {name for _, _, name, _ in asked} == ITEMS.keys()
        for path, body, name, bound in asked:
            answer = shop.post(path.replace("{name}", "customer__orders"), body)
            assert (answer.status_code, f"at most {bound} items" in answer.text) == (422, True), (
                path,
                name,
                answer.text[:1000],
            )


def check(shop: World) -> None:
    shop.run(shop.database.keeper.wait_built())
    assert shop.verify() == 0
    shop.run(settled(shop.database))
